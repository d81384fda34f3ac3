/* A job's signature, from its capture and what the PTX library proves of the original. Pinned and
 * free are roles.h's words, reach is reach.h's; here they are joined with what was captured, and
 * distrusted where the text may not be what the device runs.
 *
 * What a scalar is used for was found under the assumption that different pointers lead to
 * different memory: where the captured launch contradicts that, all scalars stay pinned. */
#include "tune/signature.h"

#include <stdlib.h>
#include <string.h>

#include "code/reach.h"
#include "code/roles.h"
#include "tune/tune.h"

struct narrowing {
    struct job *job;
    struct ptx_module module;
    const struct ptx_func *entry;
    struct kg_arena arena;
    struct roles roles;
    bool *pinned; /* by byte of the packed parameters */
};

static uint32_t place(const struct kg_capture *capture, const struct kg_pointer *pointer)
{
    return capture->params[pointer->param].offset + pointer->offset;
}

/* ---- pointers ----------------------------------------------------------------------------------
 */

static const struct reach_target *target_at(const struct reach *reach, uint32_t at)
{
    for (uint32_t i = 0; i < reach->target_count; i++)
        if (reach->targets[i].at == at)
            return &reach->targets[i];
    return NULL;
}

static void join(struct kg_pointer *pointer, const struct reach_bytes *bytes, bool *first)
{
    if (bytes->state == REACH_UNTOUCHED)
        return;
    pointer->low = *first || bytes->low < pointer->low ? bytes->low : pointer->low;
    pointer->high = *first || bytes->high > pointer->high ? bytes->high : pointer->high;
    *first = false;
}

/* Accesses that no pointer explains may go anywhere: then each pointer keeps all that was captured
 * through it, too. */
static void narrow_pointer(struct kg_pointer *pointer, const struct reach_target *target,
                           const struct reach *reach)
{
    bool stray = reach->stray.state != REACH_UNTOUCHED, first = !stray;
    if (!target || (stray && reach->stray_writes))
        return;
    pointer->access = (uint16_t)((target->read.state != REACH_UNTOUCHED || stray ? KG_READ : 0) |
                                 (target->written.state != REACH_UNTOUCHED ? KG_WRITTEN : 0));
    if (target->read.state == REACH_UNKNOWN || target->written.state == REACH_UNKNOWN)
        return;
    join(pointer, &target->read, &first);
    join(pointer, &target->written, &first);
    if (!stray && first) { /* not touched at all */
        pointer->low = pointer->high = 0;
        pointer->access = KG_READ;
    }
}

static kg_status narrow_pointers(struct narrowing *n)
{
    struct job *job = n->job;
    struct kg_signature *signature = &job->signature;
    struct reach reach;
    struct reach_launch launch = {.launch = &job->capture.launch,
                                  .params = job->capture.args.data,
                                  .param_bytes = (uint32_t)job->capture.args.size};
    kg_status status = reach_of(&n->module, n->entry, &launch, &reach);
    for (uint32_t i = 0; status == KG_OK && !reach.contradicted && i < signature->pointer_count;
         i++)
        narrow_pointer(&signature->pointers[i],
                       target_at(&reach, place(&job->capture, &signature->pointers[i])), &reach);
    reach_free(&reach);
    return status == KG_NO_MEMORY ? status : KG_OK;
}

/* ---- scalars -----------------------------------------------------------------------------------
 */

static enum free_type type_of(const struct roles_piece *piece)
{
    if (!piece->uses.roles)
        return FREE_UNREAD;
    switch (piece->element) {
    case ELEMENT_INT:
        return FREE_INT;
    case ELEMENT_BF16:
        return FREE_BF16;
    case ELEMENT_F16:
    case ELEMENT_F32:
    case ELEMENT_F64:
        return FREE_FLOAT;
    default:
        return FREE_BITS;
    }
}

static bool holds_pointer(const struct job *job, const struct roles_piece *piece)
{
    for (uint32_t i = 0; i < job->signature.pointer_count; i++) {
        uint32_t at = place(&job->capture, &job->signature.pointers[i]);
        if (at < piece->offset + piece->size && piece->offset < at + 8)
            return true;
    }
    return false;
}

/* What roles leave free is listed, all else marked as pinned. */
static kg_status divide_pieces(struct narrowing *n)
{
    struct job *job = n->job;
    const struct kg_bytes *args = &job->capture.args;
    n->pinned = arena_alloc(&n->arena, args->size + 1);
    job->free = arena_alloc(&job->arena, FREE_PIECES * sizeof *job->free);
    if (!n->pinned || !job->free)
        return KG_NO_MEMORY;
    memset(n->pinned, 1, args->size);
    for (uint32_t i = 0; i < n->roles.piece_count; i++) {
        const struct roles_piece *piece = &n->roles.pieces[i];
        if (piece->pinned || piece->pointer || holds_pointer(job, piece) ||
            piece->offset + piece->size > args->size || job->free_count == FREE_PIECES)
            continue;
        memset(n->pinned + piece->offset, 0, piece->size);
        job->free[job->free_count++] =
            (struct free_piece){piece->offset, piece->size, (uint8_t)type_of(piece)};
    }
    return KG_OK;
}

/* The signature's scalars without the bytes that are free. */
static kg_status narrow_scalars(struct narrowing *n)
{
    const struct kg_capture *capture = &n->job->capture;
    struct kg_signature *signature = &n->job->signature;
    struct kg_scalar *all = calloc(capture->args.size + 1, sizeof *all);
    uint32_t count = 0;
    if (!all)
        return KG_NO_MEMORY;
    for (uint32_t i = 0; i < signature->scalar_count; i++) {
        const struct kg_scalar *whole = &signature->scalars[i];
        const bool *pinned = n->pinned + capture->params[whole->param].offset + whole->offset;
        for (unsigned from = 0, to; from < whole->size; from = to) {
            for (to = from + 1; to < whole->size && pinned[to] == pinned[from];)
                to++;
            if (pinned[from])
                all[count++] =
                    (struct kg_scalar){.param = whole->param,
                                       .offset = (uint16_t)(whole->offset + from),
                                       .size = (uint16_t)(to - from),
                                       .value = whole->value >> 8 * from & scalar_mask(to - from)};
        }
    }
    free(signature->scalars);
    signature->scalars = all;
    signature->scalar_count = count;
    return KG_OK;
}

/* ---- all ---------------------------------------------------------------------------------------
 */

/* The text tells of the code that runs only if that is the text, or was made for the same
 * architecture: __CUDA_ARCH__ may make two different kernels of one source. */
static bool trusted(const struct narrowing *n)
{
    const struct job *job = n->job;
    const struct kg_capture *capture = &job->capture;
    if (!n->entry || !n->entry->entry || !n->entry->defined ||
        (job->image.machine_code && n->module.sm != job->image.sm) ||
        n->entry->param_count != capture->param_count)
        return false;
    for (uint32_t i = 0; i < capture->param_count; i++)
        if (n->entry->params[i]->offset != capture->params[i].offset ||
            n->entry->params[i]->size != capture->params[i].size)
            return false;
    return true;
}

static kg_status narrow(struct narrowing *n)
{
    struct job *job = n->job;
    kg_status status = narrow_pointers(n);
    if (status == KG_OK)
        status = signature_overlaps(&job->capture, &job->signature);
    if (status != KG_OK || job->signature.overlap_count)
        return status;
    status = roles_make(&n->module, n->entry, &n->arena, &n->roles);
    if (status != KG_OK)
        return status == KG_NO_MEMORY ? status : KG_OK; /* too twisted: all stays pinned */
    status = divide_pieces(n);
    return status == KG_OK ? narrow_scalars(n) : status;
}

kg_status signature_narrow(struct job *job)
{
    struct narrowing n = {.job = job};
    const char *text = (const char *)job->image.ptx.data;
    char error[256];
    job->free_count = 0;
    if (!text || ptx_parse(text, job->image.ptx.size, &n.module, error, sizeof error) != KG_OK)
        return KG_OK;
    n.entry = ptx_find_func(&n.module, job->model.entry);
    kg_status status = trusted(&n) ? narrow(&n) : KG_OK;
    arena_free(&n.arena);
    ptx_module_free(&n.module);
    return status;
}

static bool piece_pin(const struct kg_capture *capture, const struct free_piece *piece,
                      struct kg_signature *out)
{
    for (uint32_t p = 0; p < capture->param_count; p++) {
        const struct kg_param *param = &capture->params[p];
        if (piece->at < param->offset || piece->at + piece->size > param->offset + param->size)
            continue;
        for (uint32_t done = 0, size; done < piece->size; done += size) {
            struct kg_scalar *scalar = &out->scalars[out->scalar_count++];
            size = piece->size - done < 8 ? piece->size - done : 8;
            *scalar = (struct kg_scalar){.param = (uint16_t)p,
                                         .offset = (uint16_t)(piece->at + done - param->offset),
                                         .size = (uint16_t)size};
            memcpy(&scalar->value, capture->args.data + piece->at + done, size);
        }
        return true;
    }
    return false;
}

kg_status signature_pinning(const struct job *job, const bool *unshown, struct kg_signature *out)
{
    *out = job->signature;
    out->scalars = calloc(job->capture.args.size + 1, sizeof *out->scalars);
    if (!out->scalars)
        return KG_NO_MEMORY;
    memcpy(out->scalars, job->signature.scalars, out->scalar_count * sizeof *out->scalars);
    for (uint32_t i = 0; i < job->free_count; i++)
        if (unshown[i] && !piece_pin(&job->capture, &job->free[i], out)) {
            free(out->scalars);
            return KG_BAD_INPUT;
        }
    return KG_OK;
}

/* ---- whether a guard holds ---------------------------------------------------------------------
 */

static bool argument(const struct kg_capture *capture, uint32_t param, uint32_t offset,
                     uint32_t size, uint64_t *value)
{
    *value = 0;
    if (param >= capture->param_count || size > 8 || offset + size > capture->params[param].size)
        return false;
    memcpy(value, capture->args.data + capture->params[param].offset + offset, size);
    return true;
}

static bool scalars_hold(const struct kg_signature *signature, const struct kg_capture *capture)
{
    for (uint32_t i = 0; i < signature->scalar_count; i++) {
        const struct kg_scalar *s = &signature->scalars[i];
        uint64_t value;
        if (!argument(capture, s->param, s->offset, s->size, &value) ||
            ((value - s->value) & scalar_mask(s->size)) > s->span)
            return false;
    }
    return true;
}

static const struct kg_overlap *overlap_of(const struct kg_signature *signature, uint32_t a,
                                           uint32_t b)
{
    for (uint32_t i = 0; i < signature->overlap_count; i++)
        if (signature->overlaps[i].a == a && signature->overlaps[i].b == b)
            return &signature->overlaps[i];
    return NULL;
}

static bool pair_holds(const struct kg_signature *signature, const struct kg_capture *capture,
                       uint32_t a, uint32_t b)
{
    const struct kg_pointer *x = &signature->pointers[a], *y = &signature->pointers[b];
    const struct kg_overlap *overlap = overlap_of(signature, a, b);
    uint64_t at_x, at_y;
    (void)argument(capture, x->param, x->offset, 8, &at_x); /* signature_alike has looked */
    (void)argument(capture, y->param, y->offset, 8, &at_y);
    if (overlap)
        return (int64_t)(at_y - at_x) == overlap->delta;
    return reaches_apart(x, at_x, y, at_y);
}

static bool pointers_aligned(const struct kg_signature *signature, const struct kg_capture *capture)
{
    for (uint32_t i = 0; i < signature->pointer_count; i++) {
        const struct kg_pointer *p = &signature->pointers[i];
        uint64_t value;
        if (!argument(capture, p->param, p->offset, 8, &value) || value & (p->align - 1u))
            return false;
    }
    return true;
}

bool signature_alike(const struct kg_signature *signature, const struct kg_capture *capture)
{
    return !memcmp(&signature->launch, &capture->launch, sizeof capture->launch) &&
           scalars_hold(signature, capture) && pointers_aligned(signature, capture);
}

bool signature_holds(const struct kg_signature *signature, const struct kg_capture *capture)
{
    if (!signature_alike(signature, capture))
        return false;
    for (uint32_t b = 0; b < signature->pointer_count; b++)
        for (uint32_t a = 0; a < b; a++)
            if (!pair_holds(signature, capture, a, b))
                return false;
    return true;
}
