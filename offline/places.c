/* Where this executable is, and the library that belongs to it. */
#include "cli.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

kg_status place_self(char out[static KG_PATH])
{
    ssize_t length = readlink("/proc/self/exe", out, KG_PATH - 1);
    if (length < 0) {
        failed("/proc/self/exe: %s", strerror(errno));
        return KG_IO;
    }
    out[length] = 0;
    return KG_OK;
}

kg_status place_library(char out[static KG_PATH])
{
    static const char *const places[] = {"%.*s/libkgenrt.so", "%.*s/../lib/libkgenrt.so",
                                         "%.*s/../lib64/libkgenrt.so"};
    char self[KG_PATH];
    kg_status status = place_self(self);
    if (status != KG_OK)
        return status;
    int length = (int)(strrchr(self, '/') - self);
    for (unsigned i = 0; i < sizeof places / sizeof *places; i++)
        if (snprintf(out, KG_PATH, places[i], length, self) < KG_PATH && !access(out, R_OK))
            return KG_OK;
    return KG_NOT_FOUND;
}
