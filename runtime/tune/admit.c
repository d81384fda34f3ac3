/* Admission, the first gate: what can be said against a candidate from its PTX alone, before
 * anything of it runs. It decides on what the compiler made, never on source text. */
#include "tune/job.h"
#include "tune/replay.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

static kg_status refuse(struct verdict *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static kg_status refuse(struct verdict *out, const char *format, ...)
{
    char reason[sizeof out->reason];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    verdict_set(out, KG_REFUSED, "admission", "%s", reason);
    return KG_REFUSED;
}

/* Constructs that no variant may have. */
static const struct {
    size_t offset;
    const char *text;
} never[] = {
    {offsetof(struct ptx_facts, writable_globals), "has module variables that it can write"},
    {offsetof(struct ptx_facts, unresolved_externs), "refers to something outside itself"},
    {offsetof(struct ptx_facts, device_runtime), "launches kernels from the device"},
    {offsetof(struct ptx_facts, allocates), "allocates device memory"},
    {offsetof(struct ptx_facts, prints), "prints"},
    {offsetof(struct ptx_facts, traps), "traps or asserts"},
    {offsetof(struct ptx_facts, clocks), "reads clocks or multiprocessor numbers"},
    {offsetof(struct ptx_facts, spins), "waits for memory to change"},
    {offsetof(struct ptx_facts, clusters), "uses thread block clusters"},
};

/* Constructs that it may have only where the original has them too: memory that other threads
 * watch, sums whose order is not fixed, and arithmetic of less precision, if that was not asked for
 * by the kernel's name. */
static const struct {
    size_t offset;
    bool precision;
    const char *text;
} inherited[] = {
    {offsetof(struct ptx_facts, half_math), true, "calculates in half precision"},
    {offsetof(struct ptx_facts, bf16_math), true, "calculates in bfloat16"},
    {offsetof(struct ptx_facts, tf32_math), true, "calculates in TF32"},
    {offsetof(struct ptx_facts, float_atomics), false, "adds floats by atomics, in no fixed order"},
    {offsetof(struct ptx_facts, volatile_access), false, "has volatile accesses"},
    {offsetof(struct ptx_facts, lets_next_start), false, "lets dependent launches start early"},
};

static bool flag(const struct ptx_facts *facts, size_t offset)
{
    bool set;
    memcpy(&set, (const char *)facts + offset, sizeof set);
    return set;
}

/* Whether KGENRT_LOWER names the kernel: by its plain or its mangled name, * for anything. */
bool lower_asked(const char *list, const char *mangled)
{
    char item[512], component[540];
    for (const char *p = list; *p; p += *p == ',') {
        size_t length = strcspn(p, ",");
        if (length && length < sizeof item) {
            memcpy(item, p, length);
            item[length] = 0;
            snprintf(component, sizeof component, "%zu%s", length, item); /* as mangling has it */
            if (!fnmatch(item, mangled, 0) || (!strpbrk(item, "*?[") && strstr(mangled, component)))
                return true;
        }
        p += length;
    }
    return false;
}

/* Approximations and flushing of denormals that the original does not have, operation by operation;
 * doubles given up for less. In `bitwise` no comparison of samples proves that an approximation is
 * always the same, so it is refused in every mode. */
static kg_status admit_precision(const struct candidate *candidate, const struct ptx_facts *facts,
                                 const struct ptx_facts *original, bool bitwise,
                                 struct verdict *out)
{
    bool exact_maker = candidate->maker && !strcmp(candidate->maker, "rules");
    char text[64];
    for (unsigned i = 0; i < facts->inexact_count; i++) {
        bool has = false;
        for (unsigned j = 0; j < original->inexact_count; j++)
            has |= original->inexact[j] == facts->inexact[i];
        if (!has)
            return refuse(out, "the variant uses %s, the original does not",
                          ptx_inexact_text(facts->inexact[i], text, sizeof text));
    }
    if (facts->inexact_count == FACT_INEXACT)
        return refuse(out, "the variant has more kinds of approximate operations than are counted");
    if (original->double_math && !facts->double_math && !bitwise && !exact_maker)
        return refuse(out, "the original calculates in double precision, the variant does not");
    return KG_OK;
}

static kg_status admit_constructs(const struct ptx_facts *facts, const struct ptx_facts *original,
                                  bool lower, struct verdict *out)
{
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        if (flag(facts, never[i].offset))
            return refuse(out, "the variant %s: %s", never[i].text, facts->detail);
    for (size_t i = 0; i < sizeof inherited / sizeof *inherited; i++)
        if (flag(facts, inherited[i].offset) && !flag(original, inherited[i].offset) &&
            !(lower && inherited[i].precision))
            return refuse(out, "the variant %s, the original does not: %s", inherited[i].text,
                          facts->detail);
    if (original->waits_for_previous && !facts->waits_for_previous)
        return refuse(out, "the variant does not wait for the launch before it "
                           "(griddepcontrol.wait), the original does");
    return KG_OK;
}

/* The original's parameters, then one pointer for each variable that the variant asked for. */
static kg_status admit_params(const struct job *job, const struct candidate *candidate,
                              const struct ptx_facts *facts, struct verdict *out)
{
    const struct kernel_model *model = &job->model;
    uint32_t wanted = model->param_count + candidate->global_count;
    if (facts->param_count != wanted)
        return refuse(out, "the variant has %u parameters; it needs the original's %u%s",
                      facts->param_count, model->param_count,
                      candidate->global_count ? " and a pointer for each variable" : "");
    uint32_t end = 0;
    for (uint32_t i = 0; i < wanted; i++) {
        const struct kg_param *is = &facts->params[i];
        bool added = i >= model->param_count;
        uint32_t offset = added ? (end + 7) & ~7u : model->params[i].offset;
        uint32_t size = added ? 8 : model->params[i].size;
        if (is->offset != offset || is->size != size)
            return refuse(out, "parameter %u stands at byte %u with %u bytes, not at %u with %u", i,
                          is->offset, is->size, offset, size);
        end = offset + size;
    }
    return KG_OK;
}

static bool captured_global(const struct kg_capture *capture, const char *name)
{
    for (uint32_t i = 0; i < capture->region_count; i++)
        if (capture->regions[i].kind == CAPTURE_GLOBAL && !strcmp(capture->regions[i].name, name))
            return true;
    return false;
}

static kg_status admit_globals(const struct job *job, const struct candidate *candidate,
                               struct verdict *out)
{
    if (candidate->global_count > VARIANT_GLOBALS)
        return refuse(out, "the variant asks for %u of the original's variables; at most %d",
                      candidate->global_count, VARIANT_GLOBALS);
    for (uint32_t i = 0; i < candidate->global_count; i++)
        if (!captured_global(&job->capture, candidate->globals[i]))
            return refuse(out, "the variant asks for variable %s, which the original does not use",
                          candidate->globals[i]);
    return KG_OK;
}

static bool any_in(const uint64_t *a, const uint64_t *b, bool but)
{
    for (unsigned i = 0; i < ACCESS_WORDS / 64; i++)
        if (a[i] & (but ? ~b[i] : b[i]))
            return true;
    return false;
}

static bool has_bit(const uint64_t *words, uint32_t offset)
{
    return offset / 512 < ACCESS_WORDS / 64 && words[offset / 512] >> (offset / 8 % 64) & 1;
}

/* Index among the added parameters of the variable's address, or -1. */
static int added_index(const struct candidate *candidate, const char *global)
{
    for (uint32_t i = 0; i < candidate->global_count; i++)
        if (!strcmp(candidate->globals[i], global))
            return (int)i;
    return -1;
}

/* Every variable that the original writes is written by the variant too: that it held the same
 * value in the capture does not show in a replay. allowed: gets the added parameters' words. */
static kg_status admit_written_globals(const struct job *job, const struct candidate *candidate,
                                       const struct ptx_facts *facts,
                                       const struct ptx_access *original,
                                       const struct ptx_access *is, uint64_t *allowed,
                                       struct verdict *out)
{
    for (uint32_t i = 0; i < original->global_count; i++) {
        int added = added_index(candidate, original->globals[i]);
        uint32_t offset =
            added < 0 ? 0 : facts->params[job->model.param_count + (uint32_t)added].offset;
        if (added < 0 || !has_bit(is->written, offset))
            return refuse(out, "the original writes its variable %.200s, the variant does not",
                          original->globals[i]);
        allowed[offset / 512] |= 1ull << (offset / 8 % 64);
    }
    return KG_OK;
}

/* The variant writes through the parameters through which the original writes, and no others: what
 * it changes and changes back, others may see meanwhile. */
static kg_status admit_writes(const struct job *job, const struct candidate *candidate,
                              const struct ptx_facts *facts, struct verdict *out)
{
    struct ptx_access original, is;
    uint64_t allowed[ACCESS_WORDS / 64];
    if (!job->image.ptx.size)
        return KG_OK; /* such kernels are not eligible; tests have some */
    if (ptx_access_of((const char *)job->image.ptx.data, job->capture.entry, &original) != KG_OK ||
        ptx_access_of(candidate->ptx, candidate->entry, &is) != KG_OK)
        return refuse(out, "the PTX is too large or too twisted to tell where it writes");
    if (is.cached_unknown)
        return refuse(out,
                      "the variant loads past the coherent cache (ld.global.nc) from addresses "
                      "that come from no parameter");
    if (any_in(is.cached, is.written, false))
        return refuse(out, "the variant loads past the coherent cache (ld.global.nc) what it "
                           "writes itself");
    if (is.writes_unknown && !original.writes_unknown)
        return refuse(out, "the variant writes to addresses that come from no parameter, the "
                           "original does not");
    memcpy(allowed, original.written, sizeof allowed);
    kg_status status = admit_written_globals(job, candidate, facts, &original, &is, allowed, out);
    if (status == KG_OK && any_in(is.written, allowed, true))
        return refuse(out, "the variant writes through a parameter through which the original "
                           "only reads");
    return status;
}

/* What holds on every device; the replay child asks the device itself. */
static kg_status admit_launch(const struct kg_launch *launch, struct verdict *out)
{
    const struct kg_dim *grid = &launch->grid, *block = &launch->block;
    uint64_t threads = (uint64_t)block->x * block->y * block->z;
    if (block->x > 1024 || block->y > 1024 || block->z > 64 || !threads || threads > 1024)
        return refuse(out, "blocks of %u x %u x %u threads", block->x, block->y, block->z);
    if (!grid->x || !grid->y || !grid->z || grid->x > INT32_MAX || grid->y > 65535 ||
        grid->z > 65535)
        return refuse(out, "a grid of %u x %u x %u blocks", grid->x, grid->y, grid->z);
    return KG_OK;
}

kg_status admit(struct job *job, const struct candidate *candidate, struct verdict *out)
{
    char error[256] = "";
    struct ptx_facts facts, original = {0};
    if (name_listed(verify_gates_off, "admission"))
        return KG_OK;
    if (!candidate->ptx || !candidate->entry || !candidate->code.size)
        return refuse(out, "the candidate has no code");
    if (ptx_facts_of(candidate->ptx, &facts, error, sizeof error) != KG_OK)
        return refuse(out, "the variant's PTX cannot be read: %s", error);
    if (job->image.ptx.size &&
        ptx_facts_of_entry((const char *)job->image.ptx.data, job->capture.entry, &original, error,
                           sizeof error) != KG_OK)
        original = (struct ptx_facts){0}; /* nothing is known: nothing is inherited */
    if (facts.entries != 1 || strcmp(facts.entry, candidate->entry))
        return refuse(out, "the variant must have the one entry %s; it has %u, the first is %s",
                      candidate->entry, facts.entries, facts.entry);
    struct accuracy accuracy;
    accuracy_parse(job->accuracy ? job->accuracy : options()->accuracy, &accuracy);
    bool bitwise = accuracy.mode == ACCURACY_BITWISE;
    bool lower = !bitwise && lower_asked(options()->lower, job->capture.entry);
    kg_status status = admit_constructs(&facts, &original, lower, out);
    if (status == KG_OK && !lower)
        status = admit_precision(candidate, &facts, &original, bitwise, out);
    if (status == KG_OK && facts.nc_loads && job->signature.overlap_count)
        status = refuse(out, "the variant loads past the coherent cache (ld.global.nc) while the "
                             "captured buffers overlap");
    if (status == KG_OK)
        status = admit_globals(job, candidate, out);
    if (status == KG_OK)
        status = admit_params(job, candidate, &facts, out);
    if (status == KG_OK)
        status = admit_writes(job, candidate, &facts, out);
    return status == KG_OK ? admit_launch(&candidate->launch, out) : status;
}
