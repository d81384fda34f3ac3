/* Parameters of an entry: their layout in the packed buffer, and which words of them are pointers.
 * From PTX by where addresses come from; from a cubin's records the layout only. */
#include "origin.h"

enum {
    PARAM_MAX = 64,
    FORMAT_SIZED = 4,   /* .nv.info record: u8 format, u8 attribute, u16 size, data */
    KPARAM_INFO = 0x17, /* u32 index, u16 ordinal, u16 offset, u32 size << 18 | flags */
};

struct found {
    const struct origins *origins;
    uint64_t words[ORIGIN_PARAM_BYTES / 512];
};

/* What escapes may be used as a pointer. */
static void pointer_use(void *self, const struct origin_access *access)
{
    struct found *found = self;
    const struct origin_set set = origins_set(found->origins, access->set);
    for (uint32_t i = 0; !access->other_space && i < set.count; i++) {
        const struct origin *origin =
            set.items[i] < ORIGIN_LOADED ? &found->origins->origins[set.items[i]] : NULL;
        if (origin && !origin->var)
            found->words[origin->word / 64] |= 1ull << (origin->word % 64);
    }
}

static bool has_word(const struct found *found, uint64_t byte)
{
    return byte % 8 == 0 && found->words[byte / 512] >> (byte / 8 % 64) & 1;
}

/* Words that lie wholly inside one parameter; counts only where out is NULL. */
static uint32_t pointers(const struct found *found, const struct kernel_model *model,
                         struct kernel_pointer *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < model->param_count; i++) {
        const struct kg_param *param = &model->params[i];
        for (uint32_t at = 0; at + 8 <= param->size; at++) {
            if (!has_word(found, param->offset + at))
                continue;
            if (out)
                out[count] = (struct kernel_pointer){(uint16_t)i, (uint16_t)at};
            count++;
        }
    }
    return count;
}

kg_status params_of_ptx(const struct needs *needs, struct kernel_model *model)
{
    const struct ptx_func *entry = needs->funcs[0];
    if (entry->param_count > PARAM_MAX || entry->param_bytes > ORIGIN_PARAM_BYTES)
        return KG_LIMIT;
    model->params = arena_alloc(&model->arena, (entry->param_count + 1) * sizeof *model->params);
    if (!model->params)
        return KG_NO_MEMORY;
    for (uint32_t i = 0; i < entry->param_count; i++) {
        const struct ptx_var *param = entry->params[i];
        if (param->offset > ORIGIN_PARAM_BYTES || param->size > ORIGIN_PARAM_BYTES - param->offset)
            return KG_LIMIT;
        model->params[i] = (struct kg_param){param->offset, (uint32_t)param->size};
    }
    model->param_count = entry->param_count;
    struct origins origins;
    struct found found = {.origins = &origins};
    kg_status status = origins_make(needs, entry, needs->func_numbers.arena, &origins);
    if (status != KG_OK)
        return status;
    origins_uses(&origins, pointer_use, &found);
    uint32_t count = pointers(&found, model, NULL);
    model->pointers = arena_alloc(&model->arena, (count + 1) * sizeof *model->pointers);
    if (!model->pointers)
        return KG_NO_MEMORY;
    model->pointer_count = pointers(&found, model, model->pointers);
    return KG_OK;
}

bool info_next(const struct elf_section *section, uint64_t *at, unsigned *attribute,
               const unsigned char **data, unsigned *size)
{
    if (section->size - *at < 4)
        return false;
    const unsigned char *record = section->data + *at;
    *attribute = record[1];
    *data = record + 4;
    *size = record[0] == FORMAT_SIZED ? read_u16(record + 2) : 0;
    if (*size > section->size - *at - 4)
        return false;
    *at += 4 + *size;
    return true;
}

kg_status params_of_elf(const struct elf *elf, const char *entry, struct kernel_model *model)
{
    struct elf_section info;
    struct kg_param params[PARAM_MAX];
    uint64_t given = 0;
    if (!elf_find(elf, ".nv.info.", entry, &info) || !info.data)
        return KG_NOT_FOUND;
    unsigned attribute, size, count = 0;
    const unsigned char *data;
    for (uint64_t at = 0; info_next(&info, &at, &attribute, &data, &size);) {
        if (attribute != KPARAM_INFO || size < 12)
            continue;
        unsigned ordinal = read_u16(data + 4);
        if (ordinal >= PARAM_MAX)
            return KG_LIMIT;
        params[ordinal] = (struct kg_param){read_u16(data + 6), read_u32(data + 8) >> 18};
        given |= 1ull << ordinal;
        count = ordinal + 1 > count ? ordinal + 1 : count;
    }
    if (given != (count < 64 ? (1ull << count) - 1 : ~0ull))
        return KG_BAD_INPUT;
    model->params = arena_alloc(&model->arena, (count + 1) * sizeof *model->params);
    if (!model->params)
        return KG_NO_MEMORY;
    if (count)
        memcpy(model->params, params, count * sizeof *params);
    model->param_count = count;
    return KG_OK;
}
