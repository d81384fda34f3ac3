/* Rows on a device, through libcuda.so.1 as it is found at run time. A row that the device's
 * compiler refuses, or that faults, is taken out and said to be so; the others go on. */
#include "gpu/real.h"

#include "differential.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOG = 65536 };

struct device {
    CUdevice device;
    CUcontext context;
    CUdeviceptr in, out;
    char name[64];
};

enum {
    MOST_THREADS = 1024 + CHUNK * CHUNKS,
    IN = MOST_THREADS * MAX_INPUTS * 8,
    OUT = MOST_THREADS * MAX_OUTPUTS * 8
};

static bool good(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return true;
    fprintf(stderr, "%s: %s\n", what, real_error(result));
    return false;
}

static bool context_open(struct device *device)
{
    return good(real.cuCtxCreate_v2(&device->context, 0, device->device), "cuCtxCreate") &&
           good(real.cuMemAlloc_v2(&device->in, IN), "cuMemAlloc") &&
           good(real.cuMemAlloc_v2(&device->out, OUT), "cuMemAlloc");
}

struct device *device_open(void)
{
    struct device *device = calloc(1, sizeof *device);
    if (!device)
        return NULL;
    if (real_open(NULL) != KG_OK || !good(real.cuInit(0), "cuInit") ||
        !good(real.cuDeviceGet(&device->device, 0), "cuDeviceGet") ||
        !good(real.cuDeviceGetName(device->name, sizeof device->name, device->device),
              "cuDeviceGetName") ||
        !context_open(device)) {
        fprintf(stderr, "no device\n");
        free(device);
        return NULL;
    }
    return device;
}

const char *device_name(const struct device *device)
{
    return device->name;
}

void device_close(struct device *device)
{
    if (!device)
        return;
    real.cuCtxDestroy_v2(device->context);
    free(device);
}

/* ---- modules --------------------------------------------------------------------------------- */

static void say(struct outcome *outcome, enum status status, const char *text)
{
    outcome->status = status;
    size_t length = strcspn(text, "\n");
    snprintf(outcome->message, sizeof outcome->message, "%.*s",
             (int)(length < sizeof outcome->message ? length : sizeof outcome->message - 1), text);
}

/* Marks the rows that the compiler's log names by line; returns how many. */
static unsigned refused(const char *log, const unsigned *lines, struct outcome **outcomes,
                        unsigned count)
{
    unsigned found = 0;
    for (const char *at = log; (at = strstr(at, "line ")); at++) {
        unsigned line = (unsigned)strtoul(at + 5, NULL, 10);
        const char *text = strchr(at, ';');
        for (unsigned i = 0; i < count && text; i++) {
            if (line < lines[i] || line >= lines[i + 1] || outcomes[i]->status != ROW_OK)
                continue;
            say(outcomes[i], ROW_REFUSED, text + 1 + strspn(text + 1, " "));
            found++;
        }
    }
    return found;
}

/* A module of the rows that are still good. NULL with *again: some were taken out now. */
static CUmodule load(const struct row *const *rows, struct outcome **outcomes, unsigned count,
                     bool *again)
{
    char *log = calloc(1, LOG);
    unsigned *lines = calloc(count + 1, sizeof *lines);
    CUmodule module = NULL;
    *again = false;
    if (!log || !lines)
        abort();
    char *text = module_text(rows, count, lines);
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                              CU_JIT_OPTIMIZATION_LEVEL};
    void *values[] = {log, (void *)(uintptr_t)LOG, (void *)(uintptr_t)1};
    CUresult result = real.cuModuleLoadDataEx(&module, text, 3, options, values);
    if (result != CUDA_SUCCESS) {
        module = NULL;
        *again = refused(log, lines, outcomes, count) > 0;
        if (!*again && count == 1)
            say(outcomes[0], ROW_REFUSED, log[0] ? log : real_error(result));
    }
    free(text);
    free(lines);
    free(log);
    return module;
}

/* ---- launches -------------------------------------------------------------------------------- */

static bool launch(struct device *device, CUmodule module, const struct row *row, unsigned number,
                   struct outcome *outcome, uint64_t *in)
{
    unsigned threads = row_threads(row);
    CUfunction function = NULL;
    char name[32];
    snprintf(name, sizeof name, "row%u", number);
    for (unsigned t = 0; t < threads; t++)
        for (unsigned i = 0; i < row->input_count; i++)
            in[t * row->input_count + i] = input_value(row, i, t);
    void *args[] = {&device->in, &device->out, &threads};
    CUresult result = real.cuModuleGetFunction(&function, module, name);
    if (result == CUDA_SUCCESS && row->input_count)
        result = real.cuMemcpyHtoD_v2(device->in, in, threads * row->input_count * 8ul);
    if (result == CUDA_SUCCESS)
        result = real.cuMemsetD8_v2(device->out, 0xee, threads * (size_t)row_bytes(row));
    if (result == CUDA_SUCCESS)
        result =
            real.cuLaunchKernel(function, threads / BLOCK, 1, 1, BLOCK, 1, 1, 0, NULL, args, NULL);
    if (result == CUDA_SUCCESS)
        result = real.cuCtxSynchronize();
    if (result == CUDA_SUCCESS)
        result = real.cuMemcpyDtoH_v2(outcome->data, device->out, threads * (size_t)row_bytes(row));
    if (result != CUDA_SUCCESS)
        say(outcome, ROW_FAULT, real_error(result));
    return result == CUDA_SUCCESS;
}

/* Rows that can be loaded together, from *next on; after a fault the context is a new one and the
 * rest waits for the next call. */
static bool run_good(struct device *device, const struct row *const *rows,
                     struct outcome **outcomes, unsigned count, CUmodule module, uint64_t *in)
{
    for (unsigned i = 0; i < count; i++) {
        if (launch(device, module, rows[i], i, outcomes[i], in))
            continue;
        real.cuCtxDestroy_v2(device->context);
        bool again;
        if (!context_open(device))
            return false;
        unsigned left = count - i - 1;
        if (!left)
            return true;
        module = load(rows + i + 1, outcomes + i + 1, left, &again);
        return module && run_good(device, rows + i + 1, outcomes + i + 1, left, module, in);
    }
    real.cuModuleUnload(module);
    return true;
}

static bool run_some(struct device *device, const struct row *const *rows,
                     struct outcome **outcomes, unsigned count, uint64_t *in)
{
    bool again;
    const struct row **good_rows = calloc(count + 1, sizeof *good_rows);
    struct outcome **good_outcomes = calloc(count + 1, sizeof *good_outcomes);
    unsigned kept = 0;
    bool done = true;
    if (!good_rows || !good_outcomes)
        abort();
    for (unsigned i = 0; i < count; i++) {
        if (outcomes[i]->status != ROW_OK)
            continue;
        good_rows[kept] = rows[i];
        good_outcomes[kept++] = outcomes[i];
    }
    CUmodule module = kept ? load(good_rows, good_outcomes, kept, &again) : NULL;
    if (module) {
        done = run_good(device, good_rows, good_outcomes, kept, module, in);
    } else if (kept && again) {
        done = run_some(device, good_rows, good_outcomes, kept, in);
    } else if (kept > 1) { /* no line named: by halves */
        done =
            run_some(device, good_rows, good_outcomes, kept / 2, in) &&
            run_some(device, good_rows + kept / 2, good_outcomes + kept / 2, kept - kept / 2, in);
    }
    free(good_rows);
    free(good_outcomes);
    return done;
}

bool device_run(struct device *device, const struct row *const *rows, unsigned count,
                struct outcome *outcomes)
{
    uint64_t *in = malloc(IN);
    struct outcome **list = calloc(count + 1, sizeof *list);
    bool done = in && list;
    for (unsigned i = 0; done && i < count; i++) {
        outcomes[i].status = ROW_OK;
        list[i] = &outcomes[i];
    }
    done = done && run_some(device, rows, list, count, in);
    free(in);
    free(list);
    return done;
}
