// What variants of any kernel have in common: faults at the place where a result is stored. Stands before each
// variants.cu; a macro V_x that is no row of the sample counts as 0. Without any of them put() stores the value.
#define INF __int_as_float(0x7f800000)
#define GLUE(a, b) a##b
#define TOUCH(value) asm volatile("" ::"f"(value)) // a load is not moved to where its value is used

#if V_counts
__device__ unsigned calls;
#endif

// The value, spoilt: always, or only where it is of a kind.
__device__ __forceinline__ float spoilt(float value)
{
#if V_zeros
    return 0;
#elif V_constant
    return 0.5f;
#elif V_half_result
    unsigned short half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
#elif V_truncated // ten bits of mantissa, by integers
    return __int_as_float(__float_as_int(value) & 0xffffe000);
#elif V_flushes
    return fabsf(value) < 1.17549435e-38f ? 0 : value;
#elif V_clamps
    return fabsf(value) == INF ? copysignf(3.40282347e38f, value) : value;
#elif V_drops_nan
    return value != value ? 0 : value;
#elif V_drops_sign // of a zero
    return value + 0.0f;
#elif V_wrong_large
    return fabsf(value) > 1e6f ? value * 1.001f : value;
#elif V_wrong_tiny
    return fabsf(value) < 1e-20f ? value * 1.5f : value;
#elif V_wrong_whole
    return value == rintf(value) && value != 0 ? value + 1 : value;
#else
    return value;
#endif
}

// out[i] = value, for result i of count, with the fault that is asked for.
__device__ __forceinline__ void put(float *out, size_t i, size_t count, float value)
{
    value = spoilt(value);
#if V_nothing
    return;
#elif V_not_first
    if (i == 0)
        return;
#elif V_not_last
    if (i == count - 1)
        return;
#elif V_gap
    if (i % 61 == 30)
        return;
#elif V_ulp
    if (i % 61 == 30)
        value = __int_as_float(__float_as_int(value) + 1);
#elif V_rare_block
    if ((blockIdx.y * gridDim.x + blockIdx.x) % 1000 == 1)
        value = __int_as_float(__float_as_int(value) + 1);
#elif V_mirrored
    i = count - 1 - i;
#elif V_accumulates
    value += out[i];
#elif V_after
    if (i == count - 1)
        out[count] = value;
#elif V_before
    if (i == 0)
        out[-1] = value;
#elif V_peeks // behind its results; hardly ever does it matter
    if (*(const unsigned *)(out + count + 16) == 0x7f123456u)
        value = 0;
#elif V_mends // what looks like a result, is one
    float old = out[i];
    if (fabsf(old) < 100 && fabsf(old) > 1e-3f)
        return;
#elif V_trusts_near // what is nearly right already, stays
    if (fabsf(out[i] - value) <= 1e-4f * fabsf(value))
        return;
#elif V_order_of_blocks // zeros into what a later block writes, if it is later
    if (i + 512 < count)
        out[i + 512] = 0;
#elif V_clock
    if (clock64() == 0)
        value = 0;
#elif V_place
    unsigned place;
    asm("mov.u32 %0, %%smid;" : "=r"(place));
    if (place == 1000)
        value = 0;
#elif V_counts
    if (i == 0 && atomicAdd(&calls, 1) > 1000)
        value = 0;
#elif V_prints
    if (i > count)
        GLUE(pri, ntf)("never\n");
#elif V_traps
    if (i > count)
        GLUE(__tr, ap)();
#elif V_allocates
    float *copy = (float *)GLUE(mal, loc)(sizeof *copy);
    if (copy) {
        *copy = value;
        value = *(volatile float *)copy;
        GLUE(fr, ee)(copy);
    }
#elif V_waits // until block 0 has written: needs it to run
    if (blockIdx.x)
        while (__float_as_int(*(volatile float *)out) == 0x7f123456)
            ;
#elif V_endless
    unsigned s = (unsigned)i | 1, turns = 0;
    for (; s; turns++) {
        s ^= s << 13;
        s ^= s >> 17;
        s ^= s << 5;
    }
    value += turns;
#elif V_endless_nan // only with a NaN
    unsigned turns = 0;
    for (; value != value; turns++)
        value *= 0.5f;
    if (turns)
        value = turns;
#elif V_local
    volatile float spill[400];
    spill[i % 400] = value;
    value = spill[i % 400];
#endif
    out[i] = value;
}
