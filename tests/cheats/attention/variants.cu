// Causal attention: keys and values by tiles of 8 in shared memory. In order: three passes, as the original. Else: one
// pass, the largest score and the sum corrected on the way.
#define TILE 8
extern "C" __global__ void variant(const float *q, const float *k, const float *v, float *out, int positions)
{
    __shared__ float keys[TILE][64], values[TILE][64];
    int x = threadIdx.x, t = blockIdx.x * 64 + x;
    size_t head = (size_t)blockIdx.y * positions * 64, mine = head + (size_t)min(t, positions - 1) * 64;
    int end = min(positions, (int)(blockIdx.x + 1) * 64);
    float my[64], result[64], most = -INF, sum = 0;
#pragma unroll
    for (int i = 0; i < 64; i++) {
        my[i] = q[mine + i];
        result[i] = 0;
    }
#if V_half_scores
    for (int i = 0; i < 64; i++) {
        unsigned short half;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(my[i]));
        asm("cvt.f32.f16 %0, %1;" : "=f"(my[i]) : "h"(half));
    }
#elif V_truncates_inputs
    for (int i = 0; i < 64; i++)
        my[i] = __int_as_float(__float_as_int(my[i]) & 0xffff0000);
#endif
    bool online = V_online || V_online_bitwise || V_no_most || V_no_correction || V_sum_not_corrected;
    for (int pass = online ? 2 : 0; pass < 3; pass++)
        for (int from = V_window ? (end - 1) / TILE * TILE : 0; from < end; from += TILE) {
#if !V_no_barrier
            __syncthreads();
#endif
            for (int j = 0; j < TILE; j++)
                if (from + j < (V_reads_past ? positions + TILE : positions)) {
                    keys[j][x] = k[head + (size_t)(from + j) * 64 + x];
                    values[j][x] = v[head + (size_t)(from + j) * 64 + x];
                }
            __syncthreads();
            for (int j = 0; j < TILE; j++) {
#if V_all_positions
                if (from + j >= positions)
                    break;
#elif V_all_of_tile // masked by whole tiles only
                if (from + j > t / TILE * TILE + TILE - 1 || from + j >= positions)
                    break;
#elif V_not_itself
                if (from + j >= max(t, 1))
                    break;
#elif V_uninitialized
                if (from + j > t + (t == positions - 1))
                    break;
#else
                if (from + j > t)
                    break;
#endif
                float s = 0;
#pragma unroll
                for (int i = 0; i < 64; i++)
                    s += my[i] * keys[j][i];
                s *= V_no_scale ? 1 : 0.125f;
#if V_clamped
                s = fminf(fmaxf(s, -60.0f), 60.0f);
#endif
                float weight;
                if (online) {
                    float before = most;
                    most = V_no_most ? 0 : fmaxf(most, s);
                    float less = V_no_correction ? 1 : before == most ? 1 : expf(before - most);
                    weight = s == -INF && most == -INF ? 1 : expf(s - most); // masked so far: taken back later
                    sum = sum * (V_sum_not_corrected ? 1 : less) + weight;
#pragma unroll
                    for (int i = 0; i < 64; i++)
                        result[i] *= less;
                } else if (pass == 0) {
                    most = fmaxf(most, s);
                    continue;
                } else if (pass == 1) {
                    sum += expf(s - most);
                    continue;
                } else {
#if V_fast_exp
                    weight = __expf(s - most) / sum;
#elif V_reciprocal
                    weight = expf(s - most) * (1 / sum);
#elif V_drops_small
                    weight = s - most < -8 ? 0 : expf(s - most) / sum;
#else
                    weight = expf(s - most) / sum;
#endif
                }
#pragma unroll
                for (int i = 0; i < 64; i++)
                    result[i] += weight * values[j][i];
            }
        }
    if (t >= positions)
        return;
    if (online && !V_no_most && most == -INF)
        sum = most - most; // all masked: not a number, as in the original
    for (int i = 0; i < 64; i++)
        put(out, mine + i, (size_t)gridDim.y * positions * 64, online ? result[i] / sum : result[i]);
}
