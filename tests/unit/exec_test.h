/* What the tests of the PTX front end and executor share: CUDA to PTX by nvcc at test time, device
 * memory as plain allocations, and a launch in one call. */
#ifndef EXEC_TEST_H
#define EXEC_TEST_H

#include "kgenrt.h"
#include "softgpu/exec.h"
#include "test.h"

#include <string.h>
#include <unistd.h>

/* PTX of a CUDA source, or of the files' own set-up: skips the test where there is no nvcc. Free
 * the result with bytes_free. */
static inline struct kg_bytes ptx_of(const char *cuda, const char *flags)
{
    char folder[] = "/tmp/kgenrt-test-XXXXXX", path[KG_PATH], command[4096];
    struct kg_bytes out = {0};
    if (!NVCC[0] || access(NVCC, X_OK))
        SKIP("no nvcc");
    if (!mkdtemp(folder)) {
        perror(folder);
        exit(1);
    }
    snprintf(path, sizeof path, "%s/k.cu", folder);
    CHECK(file_write(path, cuda, strlen(cuda), 0600) == KG_OK);
    snprintf(command, sizeof command, "cd %s && %s -ptx %s -o k.ptx k.cu", folder, NVCC, flags);
    CHECK(system(command) == 0);
    snprintf(path, sizeof path, "%s/k.ptx", folder);
    if (!CHECK(file_read(path, 1 << 28, &out) == KG_OK))
        exit(1);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CHECK(system(command) == 0);
    return out;
}

/* ---- device memory --------------------------------------------------------------------------- */

static struct exec_range test_ranges[256];
static void *test_blocks[256];
static unsigned test_range_count;

static inline bool test_find(uint64_t address, struct exec_range *out)
{
    for (unsigned i = 0; i < test_range_count; i++) {
        if (address - test_ranges[i].base >= test_ranges[i].size)
            continue;
        *out = test_ranges[i];
        return true;
    }
    return false;
}

static inline uint64_t test_alloc(size_t size, size_t align)
{
    void *block = NULL;
    if (test_range_count == 256 || posix_memalign(&block, align < 256 ? 256 : align, size + 64))
        return 0;
    memset(block, 0x7e, size + 64);
    test_blocks[test_range_count] = block;
    test_ranges[test_range_count++] = (struct exec_range){(uintptr_t)block, size, true};
    return (uintptr_t)block;
}

static inline void test_free(uint64_t address)
{
    for (unsigned i = 0; i < test_range_count; i++) {
        if (test_ranges[i].base != address)
            continue;
        free(test_blocks[i]);
        test_range_count--;
        test_blocks[i] = test_blocks[test_range_count];
        test_ranges[i] = test_ranges[test_range_count];
        return;
    }
}

static inline void test_free_all(void)
{
    while (test_range_count)
        test_free(test_ranges[0].base);
}

static const struct exec_memory test_memory = {test_find, test_alloc, test_free};

static inline struct exec_module *module_of(const char *ptx)
{
    char error[300];
    struct exec_module *module = NULL;
    if (!CHECK(exec_module_create(ptx, &test_memory, &module, error, sizeof error) == KG_OK))
        fprintf(stderr, "%s\n", error);
    return module;
}

static inline struct exec_module *module_of_cuda(const char *cuda, const char *flags)
{
    struct kg_bytes ptx = ptx_of(cuda, flags);
    struct exec_module *module = module_of((const char *)ptx.data);
    bytes_free(&ptx);
    return module;
}

/* ---- launches -------------------------------------------------------------------------------- */

/* Packs a kernel's parameters one by one, at the offsets that the executor tells. */
struct test_call {
    const struct exec_kernel *kernel;
    struct exec_info info;
    struct exec_config config;
    unsigned char params[4096];
    unsigned next;
    struct exec_result result;
};

static inline struct test_call call_of(const struct exec_module *module, const char *name,
                                       unsigned grid, unsigned block, unsigned shared)
{
    struct test_call call = {.kernel = exec_module_kernel(module, name),
                             .config.launch = {{grid, 1, 1}, {block, 1, 1}, shared}};
    if (CHECK(call.kernel != NULL))
        exec_kernel_info(call.kernel, &call.info);
    return call;
}

static inline void call_add(struct test_call *call, const void *value, size_t size)
{
    if (!CHECK(call->next < call->info.param_count) ||
        !CHECK(call->info.params[call->next].size == size))
        return;
    memcpy(call->params + call->info.params[call->next++].offset, value, size);
}
#define ARG(call, type, value) call_add(call, &(type){value}, sizeof(type))

static inline enum exec_fault call_run(struct test_call *call)
{
    CHECK(call->next == call->info.param_count);
    exec_launch(call->kernel, &call->config, call->params, &call->result);
    return call->result.fault;
}

/* Runs and expects success. */
static inline bool call_good(struct test_call *call)
{
    if (CHECK(call_run(call) == EXEC_OK))
        return true;
    fprintf(stderr, "%s\n", call->result.text);
    return false;
}

/* Whether the fault's text has these words. */
static inline bool call_says(const struct test_call *call, const char *words)
{
    if (strstr(call->result.text, words))
        return true;
    fprintf(stderr, "'%s' does not say '%s'\n", call->result.text, words);
    return false;
}

#endif
