/* Every entry of cuda_api.def and soft_api.def exists: here as a weak function that answers
 * CUDA_ERROR_NOT_SUPPORTED, unless another file defines it for real; and the table that
 * cuGetProcAddress (lookup.c) answers from, made of the same rows. The library is linked with
 * -Bsymbolic: what it hands out are its own functions, whatever a preloaded library exports under
 * their names. */
#include "soft.h"

#define API(ret, symbol, base, version, stream, use, params, args)                                 \
    __attribute__((weak)) ret symbol params                                                        \
    {                                                                                              \
        return CUDA_ERROR_NOT_SUPPORTED;                                                           \
    }
#include "cuda_api.def"
#include "soft_api.def"
#undef API

const struct entry_row entry_rows[] = {
#define API(ret, symbol, base, version, stream, use, params, args)                                 \
    {base, version, FORM_##stream, (void *)(uintptr_t)&symbol},
#include "cuda_api.def"
#include "soft_api.def"
#undef API
};
const unsigned entry_row_count = sizeof entry_rows / sizeof *entry_rows;
