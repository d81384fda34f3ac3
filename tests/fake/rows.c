/* The fake driver's entries that have nothing to answer: a definition in driver.c wins. */
#include "gpu/real.h"

#include "fake/fake.h"

#define API(ret, symbol, base, version, stream, use, params, args)                                 \
    __attribute__((weak, visibility("default"))) ret symbol params                                 \
    {                                                                                              \
        note(#symbol "\n");                                                                        \
        return CUDA_SUCCESS;                                                                       \
    }
#include "gpu/cuda_api.def"
#undef API
