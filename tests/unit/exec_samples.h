/* The samples' kernels, the originals and the variants of samples/NAME/reply, as launches of the
 * executor: for tests of its time model and for its benchmark. */
#ifndef EXEC_SAMPLES_H
#define EXEC_SAMPLES_H

#include "exec_test.h"

enum { SAMPLE_COUNT = 4 };
static const char *const sample_names[SAMPLE_COUNT] = {"polynomial", "transpose", "softmax",
                                                       "stencil"};

/* A launch of a sample, ready to run; `out` has `size` bytes of result. */
struct sample {
    struct exec_module *module;
    struct test_call call;
    void *out;
    size_t size;
};

static inline char *sample_file(const char *path)
{
    struct kg_bytes file = {0};
    if (!CHECK(file_read(path, 1 << 20, &file) == KG_OK))
        exit(1);
    char *text = calloc(1, file.size + 1);
    memcpy(text, file.data, file.size);
    bytes_free(&file);
    return text;
}

/* CUDA source of the sample or of its variant; to be freed. */
static inline char *sample_source(const char *name, bool variant)
{
    char path[KG_PATH];
    snprintf(path, sizeof path, "%s/samples/%s/%s", SOURCE_DIR, name,
             variant ? "reply/1.md" : "sample.cu");
    if (!variant)
        snprintf(path, sizeof path, "%s/samples/%s/%s.cu", SOURCE_DIR, name, name);
    char *text = sample_file(path);
    if (!variant)
        return text;
    char *start = strstr(text, "```cuda\n"), *end = start ? strstr(start + 8, "```") : NULL;
    if (!CHECK(end != NULL))
        exit(1);
    *end = 0;
    memmove(text, start + 8, strlen(start + 8) + 1);
    return text;
}

static inline float *sample_floats(size_t count, unsigned seed)
{
    float *out = (float *)test_alloc(count * sizeof *out, 256);
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        out[i] = (float)(int)seed * (1.0f / 2147483648.0f);
    }
    return out;
}

static inline void sample_shape(struct test_call *call, struct kg_dim grid, struct kg_dim block)
{
    call->config.launch.grid = grid;
    call->config.launch.block = block;
}

/* scale: powers of two more elements than the smallest size. */
static inline void sample_arguments(struct sample *s, unsigned index, bool variant, unsigned scale)
{
    struct test_call *call = &s->call;
    unsigned rows = 64u << (scale + 1) / 2, columns = 64u << scale / 2;
    if (index == 2)
        rows = 2u << scale, columns = 2048;
    size_t count = (size_t)rows * columns;
    float *in = sample_floats(count, 3), *out = (float *)test_alloc(count * 4, 256);
    struct {
        int degree;
        float c[32];
    } polynomial = {31, {0}};
    for (unsigned i = 0; i < 32; i++)
        polynomial.c[i] = (float)(i * 7 % 19) / 16 - 0.5f;
    float *weights = sample_floats(25, 5);
    uint64_t address, size;
    s->out = out;
    s->size = count * 4;
    ARG(call, void *, in);
    ARG(call, void *, out);
    switch (index) {
    case 0:
        call_add(call, &polynomial, sizeof polynomial);
        ARG(call, int, (int)count);
        sample_shape(call, (struct kg_dim){(unsigned)count / (variant ? 1024 : 256), 1, 1},
                     (struct kg_dim){256, 1, 1});
        return;
    case 2:
        ARG(call, int, (int)columns);
        sample_shape(call, (struct kg_dim){rows, 1, 1}, (struct kg_dim){256, 1, 1});
        return;
    default:
        ARG(call, int, (int)rows);
        ARG(call, int, (int)columns);
        if (index == 3 && variant)
            ARG(call, void *, weights);
        if (index == 3 && !variant &&
            CHECK(exec_module_global(s->module, "weight", &address, &size)))
            memcpy((void *)(uintptr_t)address, weights, 100);
        if (variant)
            sample_shape(call, (struct kg_dim){columns / 32, rows / 32, 1},
                         (struct kg_dim){32, index == 3 ? 8 : 4, 1});
        else
            sample_shape(call, (struct kg_dim){columns / 16, rows / 16, 1},
                         (struct kg_dim){16, 16, 1});
    }
}

static inline struct sample sample_make(unsigned index, bool variant, unsigned scale)
{
    struct sample out = {0};
    char flags[2 * KG_PATH];
    char *source = sample_source(sample_names[index], variant);
    snprintf(flags, sizeof flags, "-arch=compute_90 -O3 -I%s/samples/%s", SOURCE_DIR,
             sample_names[index]);
    out.module = module_of_cuda(source, flags);
    free(source);
    for (unsigned i = 0; i < exec_module_kernel_count(out.module); i++) {
        struct exec_info info;
        exec_kernel_info(exec_module_kernel_at(out.module, i), &info);
        if (strstr(info.name, sample_names[index]))
            out.call = call_of(out.module, info.name, 1, 1, 0);
    }
    if (!CHECK(out.call.kernel != NULL))
        exit(1);
    sample_arguments(&out, index, variant, scale);
    return out;
}

static inline void sample_drop(struct sample *sample)
{
    exec_module_destroy(sample->module);
    test_free_all();
}

#endif
