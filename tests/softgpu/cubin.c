/* Machine code cannot run here. What stands in for it, for tests of programs that load cubins: the
 * folder SOFTGPU_CUBINS holds, for each cubin NAME.cubin, the PTX it was made from as NAME.ptx, and
 * a program that loads those very bytes runs that PTX. Never guesses: other bytes are another
 * cubin. */
#include "soft.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 << 20 };

/* The PTX beside the file `name` in the folder, if that holds the wanted bytes. */
static bool look_at(const char *folder, const char *name, const struct kg_bytes *wanted,
                    struct kg_bytes *out)
{
    char path[KG_PATH];
    struct kg_bytes file = {0};
    if (!text_ends(name, ".cubin") || path_make(path, "%s/%s", folder, name) != KG_OK ||
        file_read(path, MOST, &file) != KG_OK)
        return false;
    bool same = file.size <= wanted->size && wanted->size - file.size < 8 && /* padding */
                !memcmp(file.data, wanted->data, file.size);
    bytes_free(&file);
    if (!same)
        return false;
    memcpy(path + strlen(path) - strlen("cubin"), "ptx", sizeof "ptx");
    return file_read(path, MOST, out) == KG_OK;
}

bool cubin_ptx(const struct kg_bytes *cubin, struct kg_bytes *out)
{
    const char *folder = getenv("SOFTGPU_CUBINS");
    bool found = false;
    DIR *list = folder && *folder ? opendir(folder) : NULL;
    for (struct dirent *e; list && !found && (e = readdir(list));)
        found = look_at(folder, e->d_name, cubin, out);
    if (list)
        closedir(list);
    return found;
}
