// Gravity: tiles of 64 bodies in shared memory, the sum of each body in the original's order.
extern "C" __global__ void variant(const float4 *body, float4 *acceleration, int n, float softening)
{
    __shared__ float4 tile[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    float4 me = body[V_reads_past ? i : min(i, n - 1)], sum = make_float4(0, 0, 0, 0);
#if V_even_odd || V_even_odd_bitwise
    float4 odd = make_float4(0, 0, 0, 0);
#endif
#if V_softening_known
    softening = 0.01f;
#elif V_no_softening
    softening = 0;
#endif
    for (int from = 0; from < (V_whole_tiles ? n / 64 * 64 : n); from += 64) {
#if V_uninitialized
        if (from + t < n)
            tile[t] = body[from + t];
        int most = 64;
#else
        if (from + t < n)
            tile[t] = body[from + t];
        int most = min(64, n - from);
#endif
#if !V_no_barrier
        __syncthreads();
#endif
        for (int j = 0; j < most; j++) {
            float4 other = tile[j];
            float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
#if V_skips_self
            if (from + j == i)
                continue;
#elif V_far_only // two bodies at one place
            if (dx == 0 && dy == 0 && dz == 0)
                continue;
#elif V_masses_only
            if (!(other.w > 0))
                continue;
#elif V_cut_off
            if (dx * dx + dy * dy + dz * dz > 1e4f)
                continue;
#endif
            float square = dx * dx + dy * dy + dz * dz + softening;
#if V_rsqrt
            float inverse = rsqrtf(square);
#elif V_flushing
            float inverse;
            asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(square));
#elif V_bits // the well-known guess and two steps
            float inverse = __int_as_float(0x5f375a86 - (__float_as_int(square) >> 1));
            inverse *= 1.5f - 0.5f * square * inverse * inverse;
            inverse *= 1.5f - 0.5f * square * inverse * inverse;
#else
            float inverse = 1.0f / sqrtf(square);
#endif
#if V_squared
            float strength = other.w * inverse * inverse;
#else
            float strength = other.w * inverse * inverse * inverse;
#endif
#if V_even_odd || V_even_odd_bitwise
            if (j % 2) {
                odd.x += strength * dx;
                odd.y += strength * dy;
                odd.z += strength * dz;
                continue;
            }
#endif
            sum.x += strength * dx;
            sum.y += strength * dy;
            sum.z += strength * dz;
        }
#if !V_no_second_barrier
        __syncthreads();
#endif
    }
#if V_even_odd || V_even_odd_bitwise
    sum.x += odd.x, sum.y += odd.y, sum.z += odd.z;
#endif
    if (i >= n)
        return;
#if V_three_numbers // the fourth is padding, is it not
    acceleration[i].x = sum.x;
    acceleration[i].y = sum.y;
    acceleration[i].z = sum.z;
#elif V_exchanged
    acceleration[i] = make_float4(sum.y, sum.x, sum.z, 0);
#else
    float *out = (float *)acceleration;
    put(out, 4 * i, 4 * n, sum.x);
    put(out, 4 * i + 1, 4 * n, sum.y);
    put(out, 4 * i + 2, 4 * n, sum.z);
    put(out, 4 * i + 3, 4 * n, sum.w);
#endif
}
