/* What the benchmarks share: a driver of empty functions, kernels and made variants for it. */
#ifndef KG_BENCH_H
#define KG_BENCH_H

#include "gpu/real.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache.h"
#include "code/code.h"

#define WELL(call)                                                                                 \
    do {                                                                                           \
        int result_ = (int)(call);                                                                 \
        if (result_) {                                                                             \
            fprintf(stderr, "%s: %d\n", #call, result_);                                           \
            exit(2);                                                                               \
        }                                                                                          \
    } while (0)

static inline int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Sorts; part: 0.5 is the median. */
static inline double quantile(double *values, size_t count, double part)
{
    qsort(values, count, sizeof *values, by_value);
    return values[(size_t)((double)(count - 1) * part)];
}

static inline void print_processor(void)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, "model name", 10)) {
            printf("%s", strchr(line, ':') ? strchr(line, ':') + 2 : line);
            break;
        }
    if (file)
        fclose(file);
}

/* ---- a kernel of three pointers and three scalars, and variants of it ---------------------------
 */

enum { BENCH_N = 100, BENCH_M = 50 };
static const float bench_x = 1.5f;

/* which: kernels of different numbers are different kernels. */
static inline const char *bench_ptx(unsigned which)
{
    static char text[2048];
    snprintf(text, sizeof text,
             ".version 7.0\n.target sm_50\n.address_size 64\n"
             ".visible .entry work(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n,\n"
             ".param .f32 x, .param .u32 m)\n{\n"
             ".reg .f32 %%f<6>; .reg .b32 %%r<4>; .reg .b64 %%d<8>; .reg .pred %%p;\n"
             "ld.param.u64 %%d1, [a]; ld.param.u64 %%d2, [b]; ld.param.u64 %%d3, [c];\n"
             "ld.param.u32 %%r1, [n]; ld.param.f32 %%f1, [x]; ld.param.u32 %%r2, [m];\n"
             "add.u32 %%r1, %%r1, %u; setp.ge.u32 %%p, %%r1, %%r2;\n@%%p bra DONE;\n"
             "ld.global.f32 %%f2, [%%d1]; ld.global.f32 %%f3, [%%d2];\n"
             "fma.rn.f32 %%f4, %%f2, %%f1, %%f3;\nst.global.f32 [%%d3], %%f4;\nDONE:\nret;\n}\n",
             which);
    return text;
}

/* Into the cache folder: `each` variants, for as many values of m, of each of so many kernels. The
 * value that bench_launch uses is the last that a launch is compared with. */
static inline void bench_publish(unsigned kernels, unsigned each)
{
    struct kg_hardware hardware;
    struct store *store;
    bool best;
    struct kg_scalar scalars[] = {{3, 0, 4, BENCH_N, 0}, {4, 0, 4, 0, 0}, {5, 0, 4, 0, 0}};
    struct kg_pointer pointers[] = {
        {0, 0, 16, 0, 0, 256}, {1, 0, 16, 0, 0, 256}, {2, 0, 16, 0, 0, 256}};
    memcpy(&scalars[1].value, &bench_x, sizeof bench_x);
    WELL(real_open(NULL));
    WELL(real_hardware(0, &hardware));
    WELL(store_open(cache_dir(), false, &store));
    WELL(store_put_hardware(store, &hardware));
    struct kg_variant v = {
        .signature = {.launch = {{4, 1, 1}, {256, 1, 1}, 0},
                      .scalar_count = 3,
                      .pointer_count = 3,
                      .scalars = scalars,
                      .pointers = pointers},
        .launch = {{2, 1, 1}, {512, 1, 1}, 0},
        .maker = "recorded",
        .entry = "work",
        .kernel_name = "work",
        .note = "",
        .accuracy = "bitwise",
        .driver_version = hardware.driver_version,
        .time = 1700000000,
    };
    hardware_key(&hardware, &v.hardware);
    WELL(store_put_blob(store, "{}", 2, &v.evidence));
    for (unsigned k = 0; k < kernels; k++) {
        struct image_code code;
        struct kernel_model model;
        const char *ptx = bench_ptx(k);
        WELL(image_select(ptx, strlen(ptx) + 1, hardware.arch, true, &code));
        WELL(kernel_model_make(&code, "work", &model));
        WELL(store_put_blob(store, ptx, strlen(ptx) + 1, &v.code));
        v.kernel = model.id;
        for (unsigned i = 0; i < each; i++) {
            scalars[2].value = BENCH_M + i;
            v.ratio = v.low = v.high = 2 + i;
            variant_identify(&v);
            WELL(store_put_variant(store, &v, &best));
        }
        kernel_model_free(&model);
        image_code_free(&code);
    }
    WELL(snapshot_make(store, cache_dir(), &v.hardware));
    store_close(store);
}

#endif
