/* THE EDGE: what the hooks share. A hook passes its call to `real`, then tells runtime/app what
 * happened; it knows nothing about tuning. It must work at any moment of a stranger's process, from
 * before the first constructor to after the last destructor. */
#ifndef KG_INTERPOSE_H
#define KG_INTERPOSE_H

#include "app/app.h"

/* Each hooked row's function, visible, with the row's own type: a hook that differs does not
 * compile. */
#define DECLARE_HOOKED(ret, symbol, params)                                                        \
    __attribute__((visibility("default"))) ret symbol params;
#define DECLARE_PLAIN(ret, symbol, params)
#define API(ret, symbol, base, version, stream, use, params, args)                                 \
    DECLARE_##use(ret, symbol, params)
#include "gpu/cuda_api.def"
#undef API

/* ---- preload.c ---------------------------------------------------------------------------------
 */

/* Fills `real` once the driver is wanted. False: there is no driver. */
bool driver_ready(void);

/* Whether a hook should report what it saw. */
static inline bool watching(void)
{
    return app_active() && !inside_kgenrt;
}

/* At the start of a hook: returns from it where there is no driver (a weak reference that found us)
 * or the driver lacks the entry. */
#define NEED(symbol)                                                                               \
    do {                                                                                           \
        if (!real.symbol && !driver_ready())                                                       \
            return CUDA_ERROR_NO_DEVICE;                                                           \
        if (!real.symbol)                                                                          \
            return CUDA_ERROR_NOT_SUPPORTED;                                                       \
    } while (0)

/* ---- hooks_context.c -------------------------------------------------------------------------
 */

/* Tells runtime/app of this thread's context if it was not met before. */
void context_met(void);

/* ---- hooks_nvrtc.c, hooks_link.c ---------------------------------------------------------------
 */

/* What to answer who looked up nvrtcGetCUBIN, nvJitLinkAddData, nvJitLinkGetLinkedCubin or
 * nvJitLinkDestroy and is to get `found`. */
void *nvrtc_answer(void *found);
void *jit_add_answer(void *found);
void *jit_get_answer(void *found);
void *jit_destroy_answer(void *found);

/* ---- lookup.c ----------------------------------------------------------------------------------
 */

/* The C library's own dlsym, or the next interposer's. */
void *dlsym_next(void *handle, const char *name);
/* The function that a hook of this name passes its call to. */
void *real_symbol(void *driver, const char *name);
/* A driver's own function, if one is in the process. */
void *driver_symbol(const char *name);
/* True once a library was opened with RTLD_DEEPBIND: it may reach the driver past the hooks. */
bool deepbind_seen(void);

#endif
