/* exports.map, the table and the library agree: what is HOOKED is shown, and nothing else. And what
 * the auditor shows. */
#include "gpu/real.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

static bool is_hooked(const char *name)
{
    for (unsigned i = 0; i < real_row_count; i++)
        if (real_rows[i].hooked && !strcmp(real_rows[i].symbol, name))
            return true;
    return !strcmp(name, "dlsym") || !strcmp(name, "dlvsym") || !strcmp(name, "dlopen") ||
           !strcmp(name, "_exit");
}

static unsigned wanted(void)
{
    unsigned count = 4;
    for (unsigned i = 0; i < real_row_count; i++)
        count += real_rows[i].hooked;
    return count;
}

static void map_lists(void)
{
    FILE *map = fopen(SOURCE_DIR "/interpose/exports.map", "r");
    char line[256], name[256];
    unsigned count = 0;
    bool global = false;
    while (map && fgets(line, sizeof line, map)) {
        if (strstr(line, "global:"))
            global = true;
        else if (strstr(line, "local:"))
            global = false;
        else if (global && sscanf(line, " %[A-Za-z0-9_];", name) == 1) {
            count++;
            if (!CHECK(is_hooked(name)))
                fprintf(stderr, "exports.map lists %s\n", name);
        }
    }
    CHECK(count == wanted());
    if (map)
        fclose(map);
}

static void library_shows(void)
{
    FILE *list = popen("nm -D --defined-only " BUILD_DIR "/libkgenrt.so", "r");
    char line[256], name[256];
    unsigned count = 0;
    while (list && fgets(line, sizeof line, list))
        if (sscanf(line, "%*s %*s %255s", name) == 1) {
            count++;
            if (!CHECK(is_hooked(name)))
                fprintf(stderr, "libkgenrt.so shows %s\n", name);
        }
    CHECK(list && pclose(list) == 0 && count == wanted());
}

/* The auditor needs no library, and watches no PLT entry: with la_pltenter, or la_pltexit, every
 * call of a program would go through it. */
static void auditor_shows(void)
{
    static const char *const shown[] = {"la_version", "la_objopen", "la_objclose", "la_symbind64",
                                        "la_preinit"};
    FILE *list = popen("nm -D " BUILD_DIR "/libkgenrt_audit.so", "r");
    char line[256], kind, name[256];
    unsigned count = 0;
    while (list && fgets(line, sizeof line, list)) {
        bool known = false;
        CHECK(sscanf(line, "%*s %c %255s", &kind, name) == 2 && kind == 'T');
        for (unsigned i = 0; i < sizeof shown / sizeof *shown; i++)
            known |= !strcmp(shown[i], name);
        if (!CHECK(known))
            fprintf(stderr, "libkgenrt_audit.so shows %s\n", name);
        count++;
    }
    CHECK(list && pclose(list) == 0 && count == sizeof shown / sizeof *shown);
    CHECK(system("readelf -d " BUILD_DIR "/libkgenrt_audit.so >/dev/null") == 0);
    CHECK(system("readelf -d " BUILD_DIR "/libkgenrt_audit.so | grep NEEDED") != 0);
}

int main(void)
{
    auditor_shows();
    map_lists();
    library_shows();
    return test_result();
}
