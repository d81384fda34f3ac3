// Sums of columns. In order: eight rows are loaded at once, and added one after the other. Else: eight sums a column, by
// rows modulo 8, joined in shared memory.
#if V_atomics || V_atomics_cleared // eight blocks a column add to it
extern "C" __global__ void variant(const float *dout, float *dbias, int rows, int columns)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= columns)
        return;
    float sum = 0;
    for (int r = blockIdx.y; r < rows; r += 8)
        sum += dout[(size_t)r * columns + c];
#if V_atomics_cleared // by the first block: the others come later, as a rule
    if (blockIdx.y == 0)
        dbias[c] = 0;
    __threadfence();
#endif
    atomicAdd(&dbias[c], sum);
}

#elif V_parts || V_seven || V_no_barrier || V_uninitialized
extern "C" __global__ void variant(const float *dout, float *dbias, int rows, int columns)
{
    __shared__ float part[8][33];
    int x = threadIdx.x, y = threadIdx.y, c = blockIdx.x * 32 + x;
    float sum = 0;
    if (c < columns)
        for (int r = y; r < rows; r += 8)
            sum += dout[(size_t)r * columns + c];
#if V_uninitialized // of the rows that are left over
    if (y < rows % 8)
#endif
    part[y][x] = sum;
#if !V_no_barrier
    __syncthreads();
#endif
    if (y == 0 && c < columns) {
        for (int i = 1; i < (V_seven ? 7 : 8); i++)
            sum += part[i][x];
        put(dbias, c, columns, sum);
    }
}

#else
extern "C" __global__ void variant(const float *dout, float *dbias, int rows, int columns)
{
#if V_wide
    int c = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    float4 sum = make_float4(0, 0, 0, 0);
    for (int r = 0; r < rows && c < columns; r++) {
        float4 v = *(const float4 *)(dout + (size_t)r * columns + c);
        sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
    for (int i = 0; i < 4 && c + i < columns; i++)
        put(dbias, c + i, columns, (&sum.x)[i]);
#else
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= columns)
        return;
    const float *at = dout + c;
#if V_fixed_point
    long long sum = 0;
    for (int r = 0; r < rows; r++)
        sum += __float2ll_rn(at[(size_t)r * columns] * 4294967296.0f);
    put(dbias, c, columns, sum / 4294967296.0f);
#elif V_by_double
    double sum = 0;
    for (int r = 0; r < rows; r++)
        sum += at[(size_t)r * columns];
    put(dbias, c, columns, (float)sum);
#elif V_kahan
    float sum = 0, lost = 0;
    for (int r = 0; r < rows; r++) {
        float v = at[(size_t)r * columns] - lost, next = sum + v;
        lost = next - sum - v;
        sum = next;
    }
    put(dbias, c, columns, sum);
#else
    float sum = 0;
    int r = V_not_first_row;
    for (; r + (V_reads_past ? 0 : 7) < rows; r += 8) {
        float v[8];
        for (int i = 0; i < 8; i++)
            v[i] = at[(size_t)(r + i) * columns];
        if (V_reads_past)
            TOUCH(v[7]);
        for (int i = 0; i < 8; i++)
            if (!(V_reads_past && r + i >= rows) && !(V_nan_is_zero && v[i] != v[i]))
                sum += v[i];
    }
#if !V_rows_of_eight
    for (; r < rows; r++)
        sum += at[(size_t)r * columns];
#endif
    put(dbias, c, columns, sum);
#endif
#endif
}
#endif
