/* The entries that driver.c only passes on, or lets fail: a definition there wins. */
#include "softgpu/soft_entries.h"

extern struct soft_driver next;
CUresult faults_of(const void *returns_to, const char *symbol, bool hooked);

#define IS_HOOKED true
#define IS_PLAIN false
#define API(ret, symbol, base, version, stream, use, params, args)                                 \
    __attribute__((weak, visibility("default"))) ret symbol params                                 \
    {                                                                                              \
        ret fault_ = faults_of(__builtin_return_address(0), #symbol, IS_##use);                    \
        return fault_ != CUDA_SUCCESS ? fault_ : next.symbol args;                                 \
    }
#include "gpu/cuda_api.def"
#include "softgpu/soft_api.def"
#undef API
