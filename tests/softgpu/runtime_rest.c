/* The other names that a runtime library exports, for programs that name them and hardly call them:
 * a program linked with immediate binding would not even start without. Each answers
 * cudaErrorNotSupported, whatever its arguments; one that another file defines is that one's. No
 * CUDA header here: it would demand the parameters. */

int runtime_refuse(void); /* runtime.c: cudaErrorNotSupported, kept as the last error */

#define NAME(name)                                                                                 \
    __attribute__((weak)) int name(void);                                                          \
    int name(void)                                                                                 \
    {                                                                                              \
        return runtime_refuse();                                                                   \
    }
#include "runtime_rest.def"
#undef NAME
