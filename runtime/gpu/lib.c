/* Optional libraries, opened at need. */
#include "gpu/lib.h"

#include <dlfcn.h>

static bool resolve(void *library, const struct lib_row *rows)
{
    for (; rows->symbol; rows++) {
        *rows->pointer = dlsym(library, rows->symbol);
        if (!*rows->pointer && !rows->optional)
            return false;
    }
    return true;
}

kg_status lib_open(const char *what, const char *override, const char *const *names,
                   const struct lib_row *rows, const char *advice)
{
    const char *const alone[] = {override, NULL};
    for (const char *const *name = *override ? alone : names; *name; name++) {
        void *library = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
        if (library && resolve(library, rows))
            return KG_OK;
        log_line(KG_DEBUG, "%s: %s", *name,
                 library ? "lacks a function that is needed" : dlerror());
        if (library)
            dlclose(library);
    }
    log_line(KG_WARN, "%s: %s not found; %s", what, *override ? override : names[0], advice);
    return KG_NO_LIBRARY;
}
