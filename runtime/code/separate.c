/* Programs that were compiled in parts and linked on the device (nvcc -rdc): their kernels stand in
 * one linked cubin, the PTX in the parts. What the driver runs is the cubin; the parts' PTX, linked
 * here, is raw material only. Input is hostile but for the wrapper, which lies in the program that
 * was just loaded from it. */
#include "parts.h"

#include <stdlib.h>

#include "ptx_link.h"

enum { PARTS = 1024, PTX_LIMIT = 8 << 20 };

kg_status image_parts(const void *wrapper, size_t most, struct kg_bytes *out)
{
    const unsigned char *bytes = wrapper, *linked;
    const unsigned char *const *parts;
    size_t sizes[PARTS], count = 0, sum;
    *out = (struct kg_bytes){0};
    /* bytes one after another: what is no wrapper may be a short text */
    if (!bytes || !bytes[0] || !bytes[1] || !bytes[2] || !bytes[3] ||
        read_u32(bytes) != WRAPPER_MAGIC || read_u32(bytes + 4) < 2)
        return KG_NOT_FOUND;
    memcpy(&linked, bytes + 8, sizeof linked);
    memcpy(&parts, bytes + 16, sizeof parts);
    if (!parts || !parts[0])
        return KG_NOT_FOUND;
    if (!linked || fatbin_extent(linked, 0, &sum) != KG_OK)
        return KG_BAD_INPUT;
    size_t first = sum;
    for (; parts[count]; count++) {
        if (count == PARTS)
            return KG_LIMIT;
        if (fatbin_extent(parts[count], 0, &sizes[count]) != KG_OK)
            return KG_BAD_INPUT;
        sum += sizes[count];
    }
    if (sum > most)
        return KG_LIMIT;
    if (!(out->data = malloc(sum)))
        return KG_NO_MEMORY;
    memcpy(out->data, linked, first);
    out->size = first;
    for (size_t i = 0; i < count; out->size += sizes[i++])
        memcpy(out->data + out->size, parts[i], sizes[i]);
    return KG_OK;
}

/* Adds the PTX of one part, where it has some for this device. NVIDIA's device runtime is left out:
 * a kernel that needs it launches others, and is left alone. */
static kg_status add_part(struct ptx_linker *linker, const void *part, size_t size,
                          const char *arch, bool ptx_only, size_t *room)
{
    struct image_code code;
    char error[256] = "";
    kg_status status = image_select(part, size, arch, ptx_only, &code);
    if (status != KG_OK)
        return status == KG_NO_MEMORY ? status : KG_OK;
    const char *text = (const char *)code.ptx.data;
    if (text && code.ptx.size > *room) {
        status = KG_LIMIT;
    } else if (text && !strstr(text, "cudartErrorTable")) {
        *room -= code.ptx.size;
        status = ptx_linker_add(linker, text, code.ptx.size, error, sizeof error);
    }
    if (*error)
        log_line(KG_INFO, "image: the PTX of a part was not understood: %s", error);
    image_code_free(&code);
    return status;
}

/* The parts' PTX as one text; NULL data: there is none. */
static kg_status link_texts(const unsigned char *at, size_t left, const char *arch, bool ptx_only,
                            char **out)
{
    struct ptx_linker *linker = ptx_linker_create();
    kg_status status = linker ? KG_OK : KG_NO_MEMORY;
    char error[256] = "";
    size_t extent, room = PTX_LIMIT;
    *out = NULL;
    for (; status == KG_OK && left && fatbin_extent(at, left, &extent) == KG_OK;
         at += extent, left -= extent)
        status = add_part(linker, at, extent, arch, ptx_only, &room);
    if (status == KG_OK && ptx_linker_count(linker))
        status = ptx_linker_link(linker, false, out, error, sizeof error);
    if (*error)
        log_line(KG_INFO, "image: the PTX of parts could not be linked: %s", error);
    ptx_linker_free(linker);
    return status;
}

/* The image of machine code and text (or NULL), which it may take over. */
static kg_status put_together(struct image_code *code, char **text, struct kg_bytes *out)
{
    if (code->machine_code && *text)
        return image_join(code->selected.data, code->selected.size, *text, out);
    if (code->machine_code) {
        *out = code->selected;
        code->selected = (struct kg_bytes){0};
    } else if (*text) {
        *out = (struct kg_bytes){(unsigned char *)*text, strlen(*text)};
        *text = NULL;
    } else {
        return KG_NOT_FOUND;
    }
    return KG_OK;
}

kg_status image_link(const struct kg_bytes *parts, const char *arch, bool ptx_only,
                     struct kg_bytes *out)
{
    struct image_code code = {0};
    size_t extent;
    char *text = NULL;
    *out = (struct kg_bytes){0};
    if (fatbin_extent(parts->data, parts->size, &extent) != KG_OK)
        return KG_BAD_INPUT;
    kg_status status =
        ptx_only ? KG_NOT_FOUND : image_select(parts->data, extent, arch, false, &code);
    if (status == KG_NOT_FOUND)
        status = ptx_only ? KG_OK : KG_UNSUPPORTED;
    else if (status == KG_OK && !code.machine_code)
        status = KG_UNSUPPORTED;
    if (status == KG_OK)
        status = link_texts(parts->data + extent, parts->size - extent, arch, ptx_only, &text);
    /* Machine code whose parts make no sense is machine code without raw material. */
    if (code.machine_code && status != KG_NO_MEMORY)
        status = KG_OK;
    if (status == KG_OK)
        status = put_together(&code, &text, out);
    image_code_free(&code);
    free(text);
    return status;
}
