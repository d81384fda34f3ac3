/* From what a load call was given to the code that the driver runs: tells containers apart, and
 * selects among a fatbin's entries as the driver does. Must never write to the image, follow a
 * pointer that came out of a file, or do more work than the image is long. */
#include "parts.h"

#include <ctype.h>
#include <stdlib.h>

enum { FATBIN_MAGIC = 0xBA55ED50, WRAPPER_SIZE = 24 };

/* The wrapper that nvcc's host code registers: magic, version, pointer to the fatbin, pointer to
 * parts (version 2). Its pointers mean something only in the process that loaded it, which is where
 * size is 0. */
static kg_status wrapper_extent(const unsigned char *data, size_t size, const void **data_out,
                                size_t *extent)
{
    if (size) {
        log_line(KG_INFO, "image: a fatbin wrapper without the fatbin it points to");
        return KG_BAD_INPUT;
    }
    const unsigned char *fatbin;
    void *const *parts;
    memcpy(&fatbin, data + 8, sizeof fatbin);
    memcpy(&parts, data + 16, sizeof parts);
    if (read_u32(data + 4) >= 2 && parts && parts[0])
        return KG_UNSUPPORTED; /* image_parts */
    if (!fatbin)
        return KG_BAD_INPUT;
    *data_out = fatbin;
    return fatbin_extent(fatbin, 0, extent);
}

/* Behind white space and comments. */
static const char *skip_blank(const char *at)
{
    for (;;) {
        at += strspn(at, " \t\r\n\v\f");
        const char *end = !strncmp(at, "//", 2)   ? strchr(at, '\n')
                          : !strncmp(at, "/*", 2) ? strstr(at + 2, "*/")
                                                  : NULL;
        if (!end)
            return at;
        at = end + (*end == '*' ? 2 : 1);
    }
}

/* Behind `word`, if the text goes on with it; else NULL. */
static const char *skip_word(const char *at, const char *word)
{
    at = skip_blank(at);
    return strncmp(at, word, strlen(word)) ? NULL : at + strlen(word);
}

/* PTX says `.version` before any other directive. Text of known size need not end with a NUL. */
static kg_status text_extent(const char *data, size_t size, enum image_kind *kind, size_t *extent)
{
    size_t length = strnlen(data, size ? size : IMAGE_LIMIT);
    if (length >= IMAGE_LIMIT)
        return KG_BAD_INPUT;
    char *text = strndup(data, length);
    if (!text)
        return KG_NO_MEMORY;
    bool good = skip_word(text, ".version");
    free(text);
    if (!good)
        return KG_BAD_INPUT;
    *kind = IMAGE_PTX;
    *extent = length;
    return KG_OK;
}

kg_status image_extent(const void *data, size_t size, enum image_kind *kind, const void **data_out,
                       size_t *extent)
{
    *kind = IMAGE_UNKNOWN;
    *data_out = data;
    *extent = 0;
    /* The shortest image of all is a few words of PTX; with size 0 its NUL comes first, so bytes
     * are looked at one after another. */
    const unsigned char *bytes = data;
    if (!bytes || (size && size < 4))
        return KG_BAD_INPUT;
    bool word = bytes[0] && bytes[1] && bytes[2] && bytes[3];
    uint32_t magic = word ? read_u32(bytes) : 0;
    if (magic == WRAPPER_MAGIC && (!size || size >= WRAPPER_SIZE)) {
        *kind = IMAGE_WRAPPER;
        return wrapper_extent(bytes, size, data_out, extent);
    }
    if (magic == FATBIN_MAGIC) {
        *kind = IMAGE_FATBIN;
        return fatbin_extent(bytes, size, extent);
    }
    if (word && elf_is(bytes, size)) {
        *kind = IMAGE_ELF;
        return elf_extent(bytes, size, extent);
    }
    return text_extent(data, size, kind, extent);
}

/* ---- selection ---- */

/* A device "sm_90" is 90: major 9, minor 0. */
static unsigned parse_arch(const char *arch)
{
    if (strncmp(arch, "sm_", 3) || !isdigit((unsigned char)arch[3]))
        return 0;
    unsigned long sm = strtoul(arch + 3, NULL, 10);
    return sm < 10000 ? (unsigned)sm : 0;
}

static bool fits(unsigned kind, unsigned sm, enum fatbin_reach reach, unsigned device)
{
    if (!sm || sm > device)
        return false;
    if (reach == REACH_EXACT)
        return sm == device;
    return (kind == FATBIN_PTX && reach == REACH_LATER) || sm / 10 == device / 10;
}

/* Later architectures win; of one architecture the code made for just it does. */
static bool better(const struct fatbin_entry *a, const struct fatbin_entry *b)
{
    return !b->payload || a->sm > b->sm || (a->sm == b->sm && a->reach > b->reach);
}

/* Raw material beside machine code: made from the same source for the same architecture, if there
 * is such PTX; __CUDA_ARCH__ makes others differ. */
static bool better_beside(const struct fatbin_entry *a, const struct fatbin_entry *b,
                          const struct fatbin_entry *code)
{
    bool same_a = a->sm == code->sm, same_b = b->payload && b->sm == code->sm;
    return same_a != same_b ? same_a : better(a, b);
}

static kg_status choose(const unsigned char *data, size_t size, unsigned device, bool ptx_only,
                        struct fatbin_entry *code, struct fatbin_entry *ptx)
{
    struct fatbin_entry entry;
    kg_status status;
    *code = *ptx = (struct fatbin_entry){0};
    for (size_t at = 0; (status = fatbin_next(data, size, &at, &entry)) == KG_OK;)
        if (!ptx_only && entry.kind == FATBIN_ELF &&
            fits(entry.kind, entry.sm, entry.reach, device) && better(&entry, code))
            *code = entry;
    if (status != KG_NOT_FOUND)
        return status;
    for (size_t at = 0; fatbin_next(data, size, &at, &entry) == KG_OK;)
        if (entry.kind == FATBIN_PTX && fits(entry.kind, entry.sm, entry.reach, device) &&
            (code->payload ? better_beside(&entry, ptx, code) : better(&entry, ptx)))
            *ptx = entry;
    return code->payload || ptx->payload ? KG_OK : KG_NOT_FOUND;
}

static kg_status copy(const void *data, size_t size, struct kg_bytes *out)
{
    out->data = malloc(size + 1);
    if (!out->data)
        return KG_NO_MEMORY;
    memcpy(out->data, data, size);
    out->data[size] = 0;
    out->size = size;
    return KG_OK;
}

static kg_status select_fatbin(const unsigned char *data, size_t size, unsigned device,
                               bool ptx_only, struct image_code *out)
{
    struct fatbin_entry code, ptx;
    kg_status status = choose(data, size, device, ptx_only, &code, &ptx);
    if (status != KG_OK)
        return status;
    const struct fatbin_entry *selected = code.payload ? &code : &ptx;
    out->machine_code = code.payload;
    out->sm = selected->sm;
    if (selected->options_size >= sizeof out->options)
        return KG_LIMIT;
    if (selected->options)
        memcpy(out->options, selected->options, selected->options_size);
    status = fatbin_unpack(selected, &out->selected);
    if (status != KG_OK)
        return status;
    if (!code.payload)
        return copy(out->selected.data, out->selected.size, &out->ptx);
    /* Damaged raw material leaves a kernel that can still be seen, just not replaced. */
    if (ptx.payload && fatbin_unpack(&ptx, &out->ptx) == KG_NO_MEMORY)
        return KG_NO_MEMORY;
    return KG_OK;
}

static kg_status select_elf(const unsigned char *data, size_t size, unsigned device, bool ptx_only,
                            struct image_code *out)
{
    struct elf elf;
    kg_status status = elf_open(data, size, &elf);
    if (status != KG_OK)
        return status;
    if (ptx_only || !fits(FATBIN_ELF, elf.sm, elf.exact ? REACH_EXACT : REACH_LATER, device))
        return KG_NOT_FOUND;
    out->machine_code = true;
    out->sm = elf.sm;
    return copy(data, size, &out->selected);
}

/* The architecture of PTX text: `.version 9.0 .target sm_90a, …`. */
static bool ptx_target(const char *text, unsigned *sm, enum fatbin_reach *reach)
{
    const char *at = skip_word(text, ".version");
    if (!at)
        return false;
    at = skip_blank(at);
    at = skip_word(at + strspn(at, "0123456789."), ".target");
    if (!at)
        return false;
    at = skip_blank(at);
    *sm = parse_arch(at);
    if (!*sm)
        return false;
    at += strlen("sm_");
    at += strspn(at, "0123456789");
    *reach = *at == 'a' ? REACH_EXACT : *at == 'f' ? REACH_FAMILY : REACH_LATER;
    return true;
}

static kg_status select_ptx(const unsigned char *data, size_t size, unsigned device,
                            struct image_code *out)
{
    enum fatbin_reach reach;
    kg_status status = copy(data, size, &out->selected);
    if (status != KG_OK)
        return status;
    if (!ptx_target((char *)out->selected.data, &out->sm, &reach))
        return KG_BAD_INPUT;
    if (!fits(FATBIN_PTX, out->sm, reach, device))
        return KG_NOT_FOUND;
    return copy(data, size, &out->ptx);
}

/* What fatbin_extent would leave out of several that follow one another. */
static size_t whole(enum image_kind kind, size_t size, size_t extent)
{
    return kind == IMAGE_FATBIN && size ? size : extent;
}

kg_status image_select(const void *data, size_t size, const char *arch, bool ptx_only,
                       struct image_code *out)
{
    enum image_kind kind;
    const void *start;
    size_t extent;
    *out = (struct image_code){0};
    kg_status status = image_extent(data, size, &kind, &start, &extent);
    if (status != KG_OK)
        return status;
    unsigned device = parse_arch(arch);
    if (!device) {
        log_line(KG_WARN, "image: '%.32s' is no architecture like sm_90", arch);
        return KG_BAD_INPUT;
    }
    switch (kind) {
    case IMAGE_WRAPPER:
    case IMAGE_FATBIN:
        status = select_fatbin(start, whole(kind, size, extent), device, ptx_only, out);
        break;
    case IMAGE_ELF:
        status = select_elf(start, extent, device, ptx_only, out);
        break;
    case IMAGE_PTX:
        status = select_ptx(start, extent, device, out);
        break;
    case IMAGE_UNKNOWN:
        status = KG_BAD_INPUT;
        break;
    }
    if (status != KG_OK)
        image_code_free(out);
    return status;
}

void image_code_free(struct image_code *code)
{
    bytes_free(&code->selected);
    bytes_free(&code->ptx);
    *code = (struct image_code){0};
}
