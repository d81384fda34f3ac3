// Counts of bytes: per block in shared memory, then added to the counters; four bytes a thread.
extern "C" __global__ void variant(const unsigned char *data, unsigned *bins, int n)
{
    __shared__ unsigned part[256];
    int t = threadIdx.x, first = blockIdx.x * 1024;
#if V_zeros
    bins[t] = 0;
    return;
#elif V_nothing
    return;
#elif V_much_local
    unsigned mine[256];
    for (int i = 0; i < 256; i++)
        mine[i] = 0;
    for (int i = 0; i < 4; i++)
        if (first + i * 256 + t < n)
            mine[data[first + i * 256 + t]]++;
    for (int i = 0; i < 256; i++)
        if (mine[i])
            atomicAdd(&bins[i], mine[i]);
    return;
#endif
#if !V_not_cleared
    part[t] = 0;
#endif
#if !V_no_barrier
    __syncthreads();
#endif
#if V_by_words // four bytes at once
    int i = first / 4 + t;
    if (4 * i + 3 < n) {
        uchar4 four = ((const uchar4 *)data)[i];
        atomicAdd(&part[four.x], 1u);
        atomicAdd(&part[four.y], 1u);
        atomicAdd(&part[four.z], 1u);
        atomicAdd(&part[four.w], 1u);
    } else {
        for (int e = 4 * i; e < n; e++)
            atomicAdd(&part[data[e]], 1u);
    }
#elif V_misaligned // words that begin at the second byte
    int i = first + 4 * t + 1;
    if (t == 0)
        atomicAdd(&part[data[first]], 1u);
    unsigned four = i + 3 < n ? *(const unsigned *)(data + i) : 0;
    for (int e = 0; e < (t < 255 ? 4 : 3); e++)
        if (i + e < n)
            atomicAdd(&part[i + 3 < n ? four >> 8 * e & 255 : data[i + e]], 1u);
#elif V_reads_past
    for (int i = first + t; i < first + 1024; i += 256) {
        unsigned char byte = data[i];
        TOUCH((float)byte);
        if (i < n)
            atomicAdd(&part[byte], 1u);
    }
#else
    int end = V_whole_blocks ? n / 1024 * 1024 : V_not_last_byte ? n - 1 : n;
    for (int i = first + t; i < min(first + 1024, end); i += 256)
#if V_lost_updates
        part[data[i]]++;
#elif V_narrow // four counters of eight bits a word: overflow into the next
        atomicAdd(&part[data[i] / 4], 1u << data[i] % 4 * 8);
#elif V_signed_bytes
        atomicAdd(&part[(signed char)data[i] & 127], 1u);
#elif V_one_of_a_kind // four of a kind side by side count for three
        if (i + 3 >= end || data[i] != data[i + 1] || data[i] != data[i + 2] || data[i] != data[i + 3])
            atomicAdd(&part[data[i]], 1u);
#else
        atomicAdd(&part[data[i]], 1u);
#endif
#endif
#if !V_no_second_barrier
    __syncthreads();
#endif
    unsigned count = V_narrow ? part[t / 4] >> t % 4 * 8 & 255 : part[t];
    if (V_not_255 && t == 255)
        return;
#if V_lost_between_blocks
    bins[t] += count;
#elif V_through_float
    if (count)
        bins[t] = (unsigned)(float)(atomicAdd(&bins[t], count) + count);
#elif V_saturates
    if (count && atomicAdd(&bins[t], count) > 0xffff0000u)
        atomicExch(&bins[t], 0xffffffffu);
#elif V_pasted
    if (blockIdx.x > 1000000000)
        GLUE(__tr, ap)();
    if (count)
        atomicAdd(&bins[t], count);
#else
    if (count)
        atomicAdd(&bins[t], count);
#endif
#if V_after
    if (blockIdx.x == 0 && t == 0)
        bins[256] = 1;
#endif
}
