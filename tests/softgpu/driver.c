/* Start, state of the process, errors. A child made by fork gets CUDA_ERROR_NOT_INITIALIZED from
 * everything, as with the real driver. What the environment may ask for is read by settings.c. */
#include "soft.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_bool started, forked;
static CUresult start_result = CUDA_ERROR_OUT_OF_MEMORY;

static void after_fork(void)
{
    atomic_store(&forked, true);
}

/* The exit handler runs before those that the program registered earlier, such as the runtime's,
 * which unloads code and would wait for a kernel that never ends. */
static void start(void)
{
    if (pthread_atfork(NULL, NULL, after_fork) != 0 || atexit(streams_finish) != 0)
        return;
    start_result = soft_settings();
    atomic_store(&started, start_result == CUDA_SUCCESS);
}

CUresult cuInit(unsigned int Flags)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (Flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (atomic_load(&forked))
        return CUDA_ERROR_NOT_INITIALIZED;
    if (__atomic_load_n(&soft_cancel, __ATOMIC_RELAXED))
        return CUDA_ERROR_DEINITIALIZED;
    pthread_once(&once, start);
    return start_result;
}

CUresult soft_enter(void)
{
    if (atomic_load_explicit(&forked, memory_order_relaxed) ||
        !atomic_load_explicit(&started, memory_order_acquire))
        return CUDA_ERROR_NOT_INITIALIZED;
    if (__atomic_load_n(&soft_cancel, __ATOMIC_RELAXED))
        return CUDA_ERROR_DEINITIALIZED;
    return soft_lost() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *driverVersion)
{
    if (!driverVersion)
        return CUDA_ERROR_INVALID_VALUE;
    *driverVersion = CUDA_VERSION;
    return CUDA_SUCCESS;
}

static const struct {
    CUresult code;
    const char *name, *text;
} errors[] = {
#define ERROR(code, runtime, text) {code, #code, text},
#include "errors.def"
#undef ERROR
};

static int error_index(CUresult error)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == error)
            return (int)i;
    return -1;
}

CUresult cuGetErrorName(CUresult error, const char **pStr)
{
    int index = error_index(error);
    if (!pStr)
        return CUDA_ERROR_INVALID_VALUE;
    *pStr = index < 0 ? NULL : errors[index].name;
    return index < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **pStr)
{
    int index = error_index(error);
    if (!pStr)
        return CUDA_ERROR_INVALID_VALUE;
    *pStr = index < 0 ? NULL : errors[index].text;
    return index < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult soft_status(kg_status status)
{
    switch (status) {
    case KG_OK:
        return CUDA_SUCCESS;
    case KG_NO_MEMORY:
    case KG_LIMIT:
        return CUDA_ERROR_OUT_OF_MEMORY;
    case KG_NOT_FOUND:
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    case KG_UNSUPPORTED:
        return CUDA_ERROR_NOT_SUPPORTED;
    default:
        return CUDA_ERROR_INVALID_IMAGE;
    }
}

void soft_say(const char *format, ...)
{
    char line[800];
    int used = snprintf(line, sizeof line, "softgpu[%d]: ", (int)getpid());
    va_list args;
    va_start(args, format);
    int more = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, args);
    va_end(args);
    size_t length = (size_t)used + (more > 0 ? (size_t)more : 0);
    if (length > sizeof line - 2)
        length = sizeof line - 2;
    line[length++] = '\n';
    if (write(STDERR_FILENO, line, length) < 0)
        return; /* nobody to tell */
}
