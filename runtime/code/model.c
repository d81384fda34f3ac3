/* One entry's model: what identify, params and eligible find, put together. Whatever is
 * wrong with an image leaves a kernel that is seen but not replaced, and says why. */
#include "origin.h"

#include <stdio.h>

enum { POINTERS_MAX = 16 };

/* What stands while a model is made. */
struct making {
    struct kernel_model *model;
    const struct image_code *code;
    struct kg_bytes text; /* of the PTX, without other entries */
    struct ptx_module module;
    struct needs needs;
    struct kg_arena scratch;
    struct eligible eligible;
    bool parsed; /* the PTX has the entry, and needs are known */
};

/* Options of the image entry that change code: all but those that ask for debug lines or say how
 * the compiler was called. */
static void hash_options(struct kg_hash *hash, const char *options)
{
    static const char *const noise[] = {"--generate-line-info", "-lineinfo", "-generate-line-info",
                                        "--compile-only", "-c"};
    char copy[sizeof((struct image_code *)0)->options], *rest = copy;
    snprintf(copy, sizeof copy, "%s", options);
    for (char *word; (word = strsep(&rest, " \t"));) {
        bool keep = *word;
        for (size_t i = 0; i < sizeof noise / sizeof *noise; i++)
            keep = keep && strcmp(word, noise[i]);
        if (keep)
            hash_text(hash, word);
    }
    hash_text(hash, "");
}

/* Parses the entry's part of the text; the whole where that alone makes no sense, as when the entry
 * launches another one. */
static kg_status parse(struct making *making)
{
    char error[256];
    const struct kg_bytes *ptx = &making->code->ptx;
    kg_status status = ptx_slice(ptx, making->model->entry, &making->text);
    for (;;) {
        if (status == KG_OK)
            status = ptx_parse((char *)making->text.data, making->text.size, &making->module, error,
                               sizeof error);
        if (status == KG_OK || status == KG_NO_MEMORY)
            return status;
        if (making->text.size == ptx->size)
            break;
        bytes_free(&making->text);
        status = ptx_slice(ptx, NULL, &making->text);
    }
    log_line(KG_INFO, "%.100s: PTX not understood: %s", making->model->entry, error);
    return status;
}

/* The absence and the faults of PTX are reasons, not failures. */
static kg_status open_ptx(struct making *making)
{
    if (!making->code->ptx.data) {
        eligible_add(&making->eligible, ELIGIBLE_NO_PTX, 0);
        return KG_OK;
    }
    kg_status status = parse(making);
    if (status == KG_NO_MEMORY)
        return status;
    if (status != KG_OK) {
        eligible_add(&making->eligible, ELIGIBLE_PARSE, 0);
        return KG_OK;
    }
    const struct ptx_func *func = ptx_find_func(&making->module, making->model->entry);
    if (!func || !func->entry || !func->defined) {
        eligible_add(&making->eligible, ELIGIBLE_NO_PTX, 0);
        return making->code->machine_code ? KG_OK : KG_NOT_FOUND;
    }
    status = needs_make(&making->module, func, &making->scratch, &making->needs);
    if (status == KG_LIMIT)
        eligible_add(&making->eligible, ELIGIBLE_TOO_LARGE, func->place.line);
    making->parsed = status == KG_OK;
    return status == KG_LIMIT ? KG_OK : status;
}

static uint64_t aligned(uint64_t at, uint32_t align)
{
    return align > 1 ? (at + align - 1) / align * align : at;
}

/* Bytes of a memory space as the functions and the module's variables declare them. */
static uint32_t declared_bytes(const struct needs *needs, enum ptx_space space)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < needs->var_count; i++)
        if (needs->vars[i]->space == space)
            bytes = aligned(bytes, needs->vars[i]->align) + needs->vars[i]->size;
    for (uint32_t i = 0; i < needs->func_count; i++)
        for (uint32_t j = 0; j < needs->funcs[i]->var_count; j++) {
            const struct ptx_var *var = needs->funcs[i]->vars[j];
            if (var->space == space)
                bytes = aligned(bytes, var->align) + var->size;
        }
    return bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes;
}

uint32_t needs_shared(const struct needs *needs)
{
    return declared_bytes(needs, PTX_SPACE_shared);
}

uint32_t needs_local(const struct needs *needs)
{
    return declared_bytes(needs, PTX_SPACE_local);
}

static bool is_global(const struct ptx_var *var)
{
    return var->space == PTX_SPACE_global || var->space == PTX_SPACE_const;
}

static kg_status list_globals(const struct needs *needs, struct kernel_model *model)
{
    model->globals = arena_alloc(&model->arena, (needs->var_count + 1) * sizeof *model->globals);
    if (!model->globals)
        return KG_NO_MEMORY;
    for (uint32_t i = 0; i < needs->var_count; i++) {
        const struct ptx_var *var = needs->vars[i];
        if (!is_global(var))
            continue;
        char *name = arena_copy(&model->arena, var->name, strlen(var->name));
        if (!name)
            return KG_NO_MEMORY;
        model->globals[model->global_count++] =
            (struct kernel_global){name, var->size, var->space == PTX_SPACE_const};
    }
    return KG_OK;
}

/* All that PTX says. */
static kg_status describe(struct making *making)
{
    struct kernel_model *model = making->model;
    const struct ptx_func *func = making->needs.funcs[0];
    eligible_scan(&making->module, &making->needs, &making->eligible);
    kg_status status = list_globals(&making->needs, model);
    if (status != KG_OK)
        return status;
    status = params_of_ptx(&making->needs, model);
    if (status == KG_LIMIT)
        eligible_add(&making->eligible,
                     func->param_count > 64 || func->param_bytes > ORIGIN_PARAM_BYTES
                         ? ELIGIBLE_MANY_PARAMS
                         : ELIGIBLE_TOO_LARGE,
                     func->place.line);
    if (model->pointer_count > POINTERS_MAX)
        eligible_add(&making->eligible, ELIGIBLE_MANY_POINTERS, func->place.line);
    return status == KG_LIMIT ? KG_OK : status;
}

/* Machine code: its digest, and its layout where PTX gave none; both must agree. */
static kg_status describe_elf(struct making *making, struct kg_hash *hash)
{
    struct elf elf;
    struct kernel_model *model = making->model, other = {0};
    const struct kg_bytes *code = &making->code->selected;
    kg_status status = elf_open(code->data, code->size, &elf);
    if (status == KG_OK)
        status = hash_elf(hash, &elf, model->entry);
    if (status != KG_OK)
        return status;
    if (!making->parsed) {
        status = params_of_elf(&elf, model->entry, model);
        return status == KG_NO_MEMORY ? status : KG_OK;
    }
    status = params_of_elf(&elf, model->entry, &other);
    bool same = status == KG_OK && other.param_count == model->param_count &&
                !memcmp(other.params, model->params, other.param_count * sizeof *other.params);
    arena_free(&other.arena);
    if (!same && model->params)
        eligible_add(&making->eligible, ELIGIBLE_LAYOUT, 0);
    return status == KG_NO_MEMORY ? status : KG_OK;
}

static kg_status identify(struct making *making)
{
    struct kg_hash hash;
    struct kernel_model *model = making->model;
    const struct kg_bytes *text = &making->code->ptx;
    kg_status status = KG_OK;
    hash_begin(&hash);
    hash_options(&hash, making->code->options);
    /* With machine code the PTX counts too: the code has numbers where the PTX names globals. */
    if (making->parsed)
        hash_ptx(&hash, &making->module, &making->needs, (char *)making->text.data);
    if (making->code->machine_code)
        status = describe_elf(making, &hash);
    if (!making->parsed && !making->code->machine_code) {
        /* Not understood: still one name a kernel, so that listings can tell them apart. */
        hash_text(&hash, "text");
        hash_bytes(&hash, text->data, text->size);
        hash_text(&hash, model->entry);
    }
    hash_u64(&hash, model->param_count);
    for (uint32_t i = 0; i < model->param_count; i++)
        hash_u64(&hash, (uint64_t)model->params[i].offset << 32 | model->params[i].size);
    hash_end(&hash, &model->id);
    return status;
}

kg_status kernel_model_make(const struct image_code *code, const char *entry,
                            struct kernel_model *out)
{
    *out = (struct kernel_model){.machine_code = code->machine_code};
    struct making making = {.model = out, .code = code};
    kg_status status = KG_NO_MEMORY;
    out->entry = arena_copy(&out->arena, entry, strlen(entry));
    if (out->entry)
        status = open_ptx(&making);
    if (status == KG_OK && making.parsed)
        status = describe(&making);
    if (status == KG_OK)
        status = identify(&making);
    out->ineligible = eligible_first(&making.eligible);
    arena_free(&making.scratch);
    ptx_module_free(&making.module);
    bytes_free(&making.text);
    if (status != KG_OK)
        kernel_model_free(out);
    return status;
}

void kernel_model_free(struct kernel_model *model)
{
    arena_free(&model->arena);
    *model = (struct kernel_model){0};
}

const struct kernel_global *kernel_global_find(const struct kernel_model *model, const char *name)
{
    const struct kernel_global *found = NULL;
    bool ambiguous = false; /* two files' anonymous namespaces */
    struct kg_hash hash;
    struct kg_id wanted, id;
    hash_begin(&hash);
    hash_name(&hash, name);
    hash_end(&hash, &wanted);
    for (uint32_t i = 0; i < model->global_count; i++) {
        if (!strcmp(model->globals[i].name, name))
            return &model->globals[i];
        hash_begin(&hash);
        hash_name(&hash, model->globals[i].name);
        hash_end(&hash, &id);
        if (!id_equal(&id, &wanted))
            continue;
        if (found)
            ambiguous = true;
        found = &model->globals[i];
    }
    return ambiguous ? NULL : found;
}
