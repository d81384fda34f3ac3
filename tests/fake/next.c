/* Libraries as found in the wild that look things up by RTLD_NEXT: built once with WRAP, a wrapper
 * of the driver's launch, once without, a runtime that looks for a later copy of its own function.
 */
#include <dlfcn.h>
#include <stddef.h>

#define SHOWN __attribute__((visibility("default")))

#ifdef WRAP
SHOWN int wrapped_launches;
SHOWN int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                         unsigned bz, unsigned shared, void *stream, void **params, void **extra)
{
    int (*next)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                void *, void **, void **);
    *(void **)&next = dlsym(RTLD_NEXT, "cuLaunchKernel");
    wrapped_launches++;
    return next ? next(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra) : -1;
}
#else
SHOWN void *start_tool(void)
{
    return dlsym(RTLD_NEXT, "start_tool");
}

/* As a wrapper's constructor does. */
SHOWN void *next_init(void)
{
    return dlsym(RTLD_NEXT, "cuInit");
}
#endif
