/* Fuzz target of the PTX executor: any text that parses becomes a module or an error, and each of
 * its kernels runs for a bounded number of instructions, on memory of a few pages, in whatever mode
 * the length of the text picks: plain, counted for the time model, strict, recording. A fault is an
 * answer; what may not happen is a crash, a hang, or an access outside of what the kernel was
 * given. The PTX files of tests/ptx are a good corpus. */
#include "softgpu/exec.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 16, RANGES = 64, MOST = 1 << 20, KERNELS = 8, BUDGET = 200000 };

static struct exec_range ranges[RANGES];

static bool find(uint64_t address, struct exec_range *out)
{
    for (unsigned i = 0; i < RANGES; i++)
        if (address - ranges[i].base < ranges[i].size) {
            *out = ranges[i];
            return true;
        }
    return false;
}

static uint64_t take(size_t size, size_t align)
{
    void *memory = NULL;
    unsigned i = 0;
    while (i < RANGES && ranges[i].size)
        i++;
    if (i == RANGES || size > MOST || align > 4096 || posix_memalign(&memory, align, size))
        return 0;
    ranges[i] = (struct exec_range){(uintptr_t)memory, size, true};
    return (uintptr_t)memory;
}

static void give(uint64_t address)
{
    for (unsigned i = 0; i < RANGES; i++)
        if (ranges[i].size && ranges[i].base == address) {
            free((void *)(uintptr_t)address);
            ranges[i].size = 0;
        }
}

static void run(const struct exec_kernel *kernel, uint64_t memory, size_t size)
{
    static uint8_t read[ROOM / 8], written[ROOM / 8];
    struct exec_touched touched = {memory, ROOM, read, written};
    struct exec_record record = {&touched, 1};
    struct exec_device device = {1, 2048, 32, 65536, 228 << 10, 1 << 10, 0, 0, {0}, 1, 1, 1, 1};
    struct exec_info info;
    struct exec_result result;
    exec_kernel_info(kernel, &info);
    exec_device_rates(&device, 9, 0);
    unsigned char *params = calloc(1, info.param_bytes + 1u);
    if (info.local_bytes > 1 << 16 || info.static_shared > 1 << 18 || !params) {
        free(params);
        return;
    }
    for (uint32_t i = 0; i < info.param_count; i++) {
        uint64_t value = info.params[i].size == 8 ? memory + 64 * i : 40 + i;
        memcpy(params + info.params[i].offset, &value,
               info.params[i].size < 8 ? info.params[i].size : 8);
    }
    struct exec_config config = {.launch = {{2, 1, 1}, {info.max_threads < 40 ? 1 : 40, 1, 1}, 256},
                                 .seed = size >> 4 & 1,
                                 .threads = 1,
                                 .budget = BUDGET,
                                 .record = size & 8 ? &record : NULL,
                                 .device = size & 4 ? &device : NULL,
                                 .strict = size & 3};
    exec_launch(kernel, &config, params, &result);
    if (config.device)
        (void)exec_model_time(&device, &result.counts);
    free(params);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static const struct exec_memory memory = {find, take, give};
    char error[128], *text = malloc(size + 1);
    struct exec_module *module;
    uint64_t room = take(ROOM, 256);
    if (!text || !room)
        abort();
    memcpy(text, data, size);
    text[size] = 0;
    memset((void *)(uintptr_t)room, 0, ROOM);
    if (exec_module_create(text, &memory, &module, error, sizeof error) == KG_OK) {
        for (unsigned i = 0; i < exec_module_kernel_count(module) && i < KERNELS; i++)
            run(exec_module_kernel_at(module, i), room, size);
        exec_module_destroy(module);
    }
    give(room);
    free(text);
    return 0;
}
