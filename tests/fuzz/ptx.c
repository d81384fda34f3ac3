/* Fuzz target of the PTX parser: any bytes give a tree or an error, and a tree comes back from the
 * printer as one that prints the same; and of the linker, which takes the text twice. A folder with
 * a few .ptx files of nvcc's is a good corpus. */
#include "code/ptx.h"
#include "code/ptx_link.h"

#include <stdlib.h>
#include <string.h>

static void link_twice(const char *text, size_t size)
{
    char error[128], *linked;
    struct ptx_linker *linker = ptx_linker_create();
    for (unsigned i = 0; linker && i < 2; i++) {
        if (ptx_linker_add(linker, text, size, error, sizeof error) != KG_OK)
            break;
        if (ptx_linker_link(linker, i, &linked, error, sizeof error) == KG_OK)
            free(linked);
    }
    ptx_linker_free(linker);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct ptx_module module, again;
    char error[128];
    struct kg_bytes first, second;
    if (ptx_parse((const char *)data, size, &module, error, sizeof error) != KG_OK)
        return 0;
    link_twice((const char *)data, size);
    if (ptx_print(&module, &first) != KG_OK)
        abort();
    if (ptx_parse((char *)first.data, first.size, &again, error, sizeof error) != KG_OK)
        abort();
    if (ptx_print(&again, &second) != KG_OK)
        abort();
    if (first.size != second.size || memcmp(first.data, second.data, first.size))
        abort();
    ptx_module_free(&module);
    ptx_module_free(&again);
    bytes_free(&first);
    bytes_free(&second);
    return 0;
}
