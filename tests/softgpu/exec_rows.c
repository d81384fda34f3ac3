/* Every row of exec_ops.def as a function over the lanes of a warp. All 32 at once is the usual
 * case, and a loop that the compiler makes vectors of; else lane by lane. Must not touch memory
 * other than slots. Compiled a second time by exec_rows_wide.c, for processors with AVX2 and FMA:
 * the results are the same. */
#ifndef ROW_OF
#define ROW_OF row_of
#endif

#include "exec_core.h"

#include <math.h>

/* The iterations are independent: slots are the same or apart. */
#ifdef __clang__
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Every NaN that an operation of single precision makes is this one. */
static inline float canonical(float value)
{
    union slot nan = {.u64 = 0x7fffffff};
    return value == value ? value : nan.f32;
}

/* flush, min_f32, max_f32 of exec_float.c, and .sat, without a branch. */
static inline float flushed(float value, unsigned mode)
{
    return (mode & FTZ) && fabsf(value) < 0x1p-126f ? copysignf(0, value) : value;
}

static inline float in_unit(float value, unsigned mode)
{
    float cut = value > 0 ? value < 1 ? value : 1.0f : 0.0f; /* NaN: 0 */
    return mode & SAT ? cut : value;
}

/* Of two numbers that differ, the smaller; of equal ones (a zero and another) that with a sign. */
static inline float least(float a, float b)
{
    union slot x = {.f32 = a}, y = {.f32 = b}, both = {.u32 = x.u32 | y.u32};
    float number = a < b ? a : a == b ? both.f32 : b;
    return a != a ? canonical(b) : b != b ? a : number;
}

static inline float most(float a, float b)
{
    union slot x = {.f32 = a}, y = {.f32 = b}, both = {.u32 = x.u32 & y.u32};
    float number = a > b ? a : a == b ? both.f32 : b;
    return a != a ? canonical(b) : b != b ? a : number;
}

/* Results of all lanes, side by side in the type that the row assigns. */
union results {
    uint64_t u64[WARP];
    int64_t s64[WARP];
    uint32_t u32[WARP];
    int32_t s32[WARP];
    uint16_t u16[WARP];
    int16_t s16[WARP];
    float f32[WARP];
    double f64[WARP];
};

/* A destination's other bits become zero. */
static inline void put_all(union slot *d, const union results *out, size_t width)
{
    if (width == 8) {
        INDEPENDENT
        for (unsigned i = 0; i < WARP; i++)
            d[i].u64 = out->u64[i];
    } else if (width == 4) {
        INDEPENDENT
        for (unsigned i = 0; i < WARP; i++)
            d[i].u64 = out->u32[i];
    } else {
        INDEPENDENT
        for (unsigned i = 0; i < WARP; i++)
            d[i].u64 = out->u16[i];
    }
}

static inline void put_one(union slot *d, const union results *out, size_t width, unsigned i)
{
    d[i].u64 = width == 8 ? out->u64[i] : width == 4 ? out->u32[i] : out->u16[i];
}

#define D(field) *(width = sizeof out.field[0], &out.field[i])
#define A(field) a[i].field
#define B(field) b[i].field
#define C(field) m[i].field
#define ROW(id, text, ...)                                                                         \
    static void row_##id(union slot *R, const struct code *c, uint32_t mask)                       \
    {                                                                                              \
        const union slot *a = R + c->a, *b = R + c->b, *m = R + c->c;                              \
        union slot *d = R + c->d;                                                                  \
        union results out;                                                                         \
        size_t width = 8;                                                                          \
        (void)a, (void)b, (void)m;                                                                 \
        if (mask == UINT32_MAX) {                                                                  \
            INDEPENDENT                                                                            \
            for (unsigned i = 0; i < WARP; i++) {                                                  \
                __VA_ARGS__;                                                                       \
            }                                                                                      \
            put_all(d, &out, width);                                                               \
            return;                                                                                \
        }                                                                                          \
        for (; mask; mask &= mask - 1) {                                                           \
            unsigned i = (unsigned)__builtin_ctz(mask);                                            \
            __VA_ARGS__;                                                                           \
            put_one(d, &out, width, i);                                                            \
        }                                                                                          \
    }
#include "exec_ops.def"

row_function ROW_OF(uint16_t op)
{
    static const row_function rows[] = {
#define ROW(id, text, ...) row_##id,
#include "exec_ops.def"
    };
    return op < sizeof rows / sizeof *rows ? rows[op] : NULL;
}
