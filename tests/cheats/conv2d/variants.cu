// 7 x 7: a tile of 16 x 16 results from 22 x 22 points in shared memory. Taps outside of the picture are left out, as in
// the original: adding 0 is not the same where a coefficient is infinite.
extern "C" __global__ void variant(const float *in, const float *filter, float *out, int rows, int columns)
{
    __shared__ float tile[22][23], w[49];
    int x = threadIdx.x, y = threadIdx.y, t = y * 16 + x;
    int left = blockIdx.x * 16 - 3, top = blockIdx.y * 16 - 3, c = left + 3 + x, r = top + 3 + y;
    if (t < 49)
        w[t] = filter[V_transposed ? t % 7 * 7 + t / 7 : V_flipped ? 48 - t : t];
#if V_truncates_inputs
    if (t < 49)
        w[t] = __int_as_float(__float_as_int(w[t]) & 0xffffe000);
#endif
    int size = V_narrow_halo ? 21 : 22;
    for (int i = t; i < size * 22; i += 256) {
        int u = left + i % 22, v = top + i / 22;
#if V_clamped
        tile[i / 22][i % 22] = in[(size_t)min(max(v, 0), rows - 1) * columns + min(max(u, 0), columns - 1)];
#elif V_wrapped // past the end of a row lies the next
        long at = (long)v * columns + u;
        tile[i / 22][i % 22] = at >= 0 && at < (long)rows * columns ? in[at] : 0;
#elif V_reads_around
        tile[i / 22][i % 22] = in[(long)v * columns + u];
#elif V_wide // four points of a row that begins three in front of the block
        bool inside = v >= 0 && v < rows && u >= 0 && u + 3 < columns;
        if (i % 22 % 4 == 0 && i % 22 < 20 && inside) {
            float4 four = *(const float4 *)(in + (size_t)v * columns + u);
            for (int e = 0; e < 4; e++)
                tile[i / 22][i % 22 + e] = (&four.x)[e];
        } else if (v >= 0 && v < rows && u >= 0 && u < columns && (i % 22 >= 20 || left < 0 || u + 3 >= columns)) {
            tile[i / 22][i % 22] = in[(size_t)v * columns + u];
        }
#elif V_uninitialized
        if (v >= 0 && v < rows && u >= 0 && u < columns)
            tile[i / 22][i % 22] = in[(size_t)v * columns + u];
#else
        tile[i / 22][i % 22] =
            u >= 0 && u < columns && v >= 0 && v < rows ? in[(size_t)v * columns + u] : 0;
#endif
    }
#if !V_no_barrier
    __syncthreads();
#endif
    float sum = 0;
    if (r >= rows || c >= columns)
        return;
#if V_columns_first
    for (int j = 0; j < 7; j++)
        for (int i = 0; i < 7; i++) {
            int v = r + i - 3, u = c + j - 3;
            if (v >= 0 && v < rows && u >= 0 && u < columns)
                sum += w[i * 7 + j] * tile[y + i][x + j];
        }
#else
    for (int i = 0; i < (V_six_rows ? 6 : 7); i++)
        for (int j = 0; j < 7; j++) {
            int v = r + i - 3, u = c + j - 3;
            if (V_padded || V_clamped || V_wrapped || V_uninitialized ||
                (v >= 0 && v < rows && u >= 0 && u < columns))
#if V_not_fused || V_not_fused_bitwise
                sum = __fadd_rn(sum, __fmul_rn(w[i * 7 + j], tile[y + i][x + j]));
#elif V_skips_zeros
                if (w[i * 7 + j] != 0 && tile[y + i][x + j] != 0)
                    sum += w[i * 7 + j] * tile[y + i][x + j];
#else
                sum += w[i * 7 + j] * tile[y + i][x + j];
#endif
        }
#endif
#if V_last_column
    if (c == columns - 1)
        sum = tile[y + 3][x + 3];
#endif
    put(out, (size_t)r * columns + c, (size_t)rows * columns, sum);
}
