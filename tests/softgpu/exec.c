/* The executor's door: PTX text to a module with its variables, kernels and their facts. */
#include "exec_core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECURSION_BYTES = 16384, ALLOCA_BYTES = 16384, DYNAMIC_ALIGN = 128 };

/* ---- shared memory --------------------------------------------------------------------------- */

static uint32_t place(uint32_t *used, const struct ptx_var *var)
{
    uint32_t offset = (*used + var->align - 1) & ~(var->align - 1);
    *used = offset + (uint32_t)var->size;
    return offset;
}

/* Module variables first, then those of device functions, then each entry's own; the dynamic part
 * is behind the largest. */
static bool shared_lay_out(struct exec_module *module)
{
    uint32_t used = 0, most;
    for (uint32_t i = 0; i < module->ptx.var_count; i++) {
        const struct ptx_var *var = module->ptx.vars[i];
        if (var->space != PTX_SPACE_shared || var->unsized)
            continue;
        if (var->size > 1 << 20 || used > 1 << 24)
            return false;
        module->shared_offset[i] = place(&used, var);
    }
    for (uint32_t pass = 0; pass < 2; pass++) {
        most = used;
        for (uint32_t i = 0; i < module->func_count; i++) {
            struct exec_func *func = &module->funcs[i];
            uint32_t bytes = used;
            if (func->ptx->entry != (pass == 1))
                continue;
            func->shared_base = used;
            for (uint32_t k = 0; k < func->ptx->var_count; k++) {
                const struct ptx_var *var = func->ptx->vars[k];
                if (var->space != PTX_SPACE_shared || var->unsized)
                    continue;
                if (var->size > 1 << 20 || bytes > 1 << 24)
                    return false;
                place(&bytes, var);
            }
            used = pass ? used : bytes;
            most = bytes > most ? bytes : most;
        }
    }
    module->dynamic_offset = (most + DYNAMIC_ALIGN - 1) & ~(uint32_t)(DYNAMIC_ALIGN - 1);
    for (uint32_t i = 0; i < module->ptx.var_count; i++)
        if (module->ptx.vars[i]->unsized)
            module->shared_offset[i] = module->dynamic_offset;
    return true;
}

/* ---- variables ------------------------------------------------------------------------------- */

static bool has_memory(const struct ptx_var *var)
{
    return (var->space == PTX_SPACE_global || var->space == PTX_SPACE_const) &&
           var->linkage != PTX_EXTERN && ptx_types[var->type].class != PTX_OPAQUE;
}

static kg_status variables_allocate(struct exec_module *module)
{
    for (uint32_t i = 0; i < module->ptx.var_count; i++) {
        const struct ptx_var *var = module->ptx.vars[i];
        struct exec_variable *variable = &module->variables[i];
        variable->name = var->name;
        variable->size = var->size;
        if (!has_memory(var))
            continue;
        variable->address =
            module->memory.alloc(var->size ? var->size : 1, var->align > 16 ? var->align : 16);
        if (!variable->address)
            return KG_NO_MEMORY;
        variable->owned = true;
        unsigned char *to = (unsigned char *)(uintptr_t)variable->address;
        memset(to, 0, var->size);
        if (var->image_bytes)
            memcpy(to, var->image, var->image_bytes < var->size ? var->image_bytes : var->size);
    }
    return KG_OK;
}

static uint64_t address_of(const struct exec_module *module, const struct ptx_reloc *reloc)
{
    for (uint32_t i = 0; reloc->func && i < module->func_count; i++)
        if (module->ptx.funcs[i] == reloc->func)
            return WINDOW_BASE(WINDOW_FUNCTION) + i;
    for (uint32_t i = 0; reloc->var && i < module->ptx.var_count; i++) {
        const struct ptx_var *var = module->ptx.vars[i];
        if (var != reloc->var && (strcmp(var->name, reloc->var->name) || !has_memory(var)))
            continue;
        if (var->space == PTX_SPACE_shared)
            return module->shared_offset[i] + (reloc->generic ? WINDOW_BASE(WINDOW_SHARED) : 0);
        if (module->variables[i].address)
            return module->variables[i].address;
    }
    return 0;
}

/* Addresses in initialisers; false: one names something that has no address. */
static bool variables_relocate(struct exec_module *module)
{
    for (uint32_t i = 0; i < module->ptx.var_count; i++) {
        const struct ptx_var *var = module->ptx.vars[i];
        unsigned char *to = (unsigned char *)(uintptr_t)module->variables[i].address;
        for (uint32_t k = 0; to && k < var->reloc_count; k++) {
            const struct ptx_reloc *reloc = &var->relocs[k];
            uint64_t value = address_of(module, reloc);
            if (!value || reloc->offset + (uint64_t)reloc->size > var->size)
                return false;
            value = (value + (uint64_t)reloc->addend) >> reloc->shift;
            memcpy(to + reloc->offset, &value, reloc->size);
        }
    }
    return true;
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* Local memory of a function with all it calls. */
static uint32_t stack_bytes(struct exec_func *func)
{
    uint32_t most = 0, own = 0;
    if (func->visiting) /* recursion */
        return RECURSION_BYTES;
    if (func->visited || !func->code)
        return func->stack_bytes;
    func->visiting = true;
    for (uint32_t i = 0; i < func->code_count; i++) {
        const struct code *c = &func->code[i];
        if (c->slow == slow_stack)
            own = ALLOCA_BYTES;
        if (c->op != X_call)
            continue;
        uint32_t bytes = c->call->indirect ? RECURSION_BYTES
                         : c->call->callee ? stack_bytes((struct exec_func *)c->call->callee)
                                           : 0;
        most = bytes > most ? bytes : most;
    }
    func->visiting = false;
    func->visited = true;
    return func->stack_bytes = func->local_bytes + own + most;
}

static uint32_t product(const uint32_t dims[3])
{
    uint64_t threads = (uint64_t)dims[0] * dims[1] * dims[2];
    return threads && threads < MAX_THREADS ? (uint32_t)threads : MAX_THREADS;
}

static bool kernel_make(struct exec_module *module, struct exec_func *func)
{
    struct exec_kernel *kernel = &module->kernels[module->kernel_count];
    const struct ptx_func *ptx = func->ptx;
    kernel->func = func;
    kernel->params = arena_alloc(&module->arena, sizeof *kernel->params * (ptx->param_count + 1));
    if (!kernel->params)
        return false;
    for (uint32_t i = 0; i < ptx->param_count; i++)
        kernel->params[i] =
            (struct kg_param){ptx->params[i]->offset, (uint32_t)ptx->params[i]->size};
    uint32_t required = product(ptx->reqntid), allowed = product(ptx->maxntid);
    uint32_t threads = required < allowed ? required : allowed;
    kernel->info = (struct exec_info){.name = ptx->name,
                                      .param_count = ptx->param_count,
                                      .param_bytes = ptx->param_bytes,
                                      .params = kernel->params,
                                      .static_shared = func->shared_bytes,
                                      .local_bytes = stack_bytes(func),
                                      .registers = registers_of(ptx, threads),
                                      .max_threads = threads};
    module->kernel_count++;
    return true;
}

static kg_status functions_decode(struct exec_module *module, char *error, size_t error_size)
{
    for (uint32_t i = 0; i < module->func_count; i++) {
        struct exec_func *func = &module->funcs[i];
        if (!func->ptx->defined)
            continue;
        kg_status status = exec_decode(module, func);
        if (status != KG_OK) {
            snprintf(error, error_size, "%u:%u: %.100s: %s", func->ptx->place.line,
                     func->ptx->place.column, func->ptx->name, status_text(status));
            return status;
        }
    }
    for (uint32_t i = 0; i < module->func_count; i++)
        if (module->funcs[i].code && module->funcs[i].ptx->entry &&
            !kernel_make(module, &module->funcs[i]))
            return KG_NO_MEMORY;
    return KG_OK;
}

/* ---- module ---------------------------------------------------------------------------------- */

static kg_status module_fill(struct exec_module *module, char *error, size_t error_size)
{
    uint32_t vars = module->ptx.var_count, funcs = module->ptx.func_count;
    struct kg_arena *arena = &module->arena;
    module->variables = arena_alloc(arena, sizeof *module->variables * (vars + 1));
    module->shared_offset = arena_alloc(arena, sizeof *module->shared_offset * (vars + 1));
    module->funcs = arena_alloc(arena, sizeof *module->funcs * (funcs + 1));
    module->kernels = arena_alloc(arena, sizeof *module->kernels * (funcs + 1));
    if (!module->variables || !module->shared_offset || !module->funcs || !module->kernels)
        return KG_NO_MEMORY;
    module->variable_count = vars;
    module->func_count = funcs;
    for (uint32_t i = 0; i < funcs; i++) {
        module->funcs[i].ptx = module->ptx.funcs[i];
        module->funcs[i].module = module;
    }
    if (!shared_lay_out(module)) {
        snprintf(error, error_size, "1:1: too much shared memory");
        return KG_LIMIT;
    }
    kg_status status = variables_allocate(module);
    if (status == KG_OK && !variables_relocate(module)) {
        snprintf(error, error_size, "1:1: an initialiser names a variable without an address");
        return KG_UNSUPPORTED;
    }
    return status == KG_OK ? functions_decode(module, error, error_size) : status;
}

kg_status exec_module_create(const char *ptx, const struct exec_memory *memory,
                             struct exec_module **out, char *error, size_t error_size)
{
    struct exec_module *module = calloc(1, sizeof *module);
    *out = NULL;
    if (error_size)
        error[0] = 0;
    if (!module)
        return KG_NO_MEMORY;
    module->memory = *memory;
    module->heap = heap_create();
    kg_status status =
        !module->heap ? KG_NO_MEMORY : ptx_parse(ptx, strlen(ptx), &module->ptx, error, error_size);
    if (status == KG_OK)
        status = module_fill(module, error, error_size);
    if (status == KG_OK)
        *out = module;
    else
        exec_module_destroy(module);
    if (status != KG_OK && error_size && !error[0])
        snprintf(error, error_size, "1:1: %s", status_text(status));
    return status;
}

void exec_module_destroy(struct exec_module *module)
{
    if (!module)
        return;
    for (uint32_t i = 0; i < module->variable_count; i++)
        if (module->variables[i].owned)
            module->memory.free(module->variables[i].address);
    heap_destroy(module->heap, &module->memory);
    arena_free(&module->arena);
    ptx_module_free(&module->ptx);
    free(module);
}

const struct exec_kernel *exec_module_kernel(const struct exec_module *module, const char *name)
{
    for (uint32_t i = 0; i < module->kernel_count; i++)
        if (!strcmp(module->kernels[i].info.name, name))
            return &module->kernels[i];
    return NULL;
}

unsigned exec_module_kernel_count(const struct exec_module *module)
{
    return module->kernel_count;
}

const struct exec_kernel *exec_module_kernel_at(const struct exec_module *module, unsigned index)
{
    return index < module->kernel_count ? &module->kernels[index] : NULL;
}

bool exec_module_global(const struct exec_module *module, const char *name, uint64_t *address,
                        uint64_t *size)
{
    for (uint32_t i = 0; i < module->variable_count; i++) {
        if (!module->variables[i].address || strcmp(module->variables[i].name, name))
            continue;
        *address = module->variables[i].address;
        *size = module->variables[i].size;
        return true;
    }
    return false;
}

void exec_kernel_info(const struct exec_kernel *kernel, struct exec_info *out)
{
    *out = kernel->info;
}
