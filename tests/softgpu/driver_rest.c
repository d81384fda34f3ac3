/* The other names that a driver library exports, for programs that are linked to it: with immediate
 * binding they would not even start without. Each answers CUDA_ERROR_NOT_SUPPORTED, whatever its
 * arguments; cuGetProcAddress does not know them. No CUDA header here: it would demand the
 * parameters. */

enum { REFUSED = 801 }; /* CUDA_ERROR_NOT_SUPPORTED */

#define NAME(name)                                                                                 \
    int name(void);                                                                                \
    int name(void)                                                                                 \
    {                                                                                              \
        return REFUSED;                                                                            \
    }
#include "driver_rest.def"
#undef NAME
