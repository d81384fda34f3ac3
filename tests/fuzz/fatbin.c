/* Fatbins, and whatever else a load call may be given: any bytes must give an image or a status;
 * several fatbins are linked, too. */
#include <stdlib.h>
#include <string.h>

#include "code/code.h"

static void select_one(const uint8_t *data, size_t size, const char *arch, bool ptx_only)
{
    struct image_code code;
    kg_status status = image_select(data, size, arch, ptx_only, &code);
    if ((status == KG_OK) != (code.selected.data != NULL))
        abort();
    if (code.ptx.data && code.ptx.data[code.ptx.size])
        abort();
    if (ptx_only && code.machine_code)
        abort();
    image_code_free(&code);
}

/* The bytes as those of a program's parts. */
static void link_one(const uint8_t *data, size_t size, bool ptx_only)
{
    struct kg_bytes parts = {(unsigned char *)(uintptr_t)data, size}, image;
    kg_status status = image_link(&parts, "sm_90", ptx_only, &image);
    if ((status == KG_OK) != (image.data != NULL))
        abort();
    bytes_free(&image);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum image_kind kind;
    const void *start;
    size_t extent;
    if (!size)
        return 0;
    if (image_extent(data, size, &kind, &start, &extent) == KG_OK && extent > size)
        abort();
    select_one(data, size, "sm_90", false);
    select_one(data, size, "sm_80", true);
    link_one(data, size, false);
    link_one(data, size, true);
    return 0;
}
