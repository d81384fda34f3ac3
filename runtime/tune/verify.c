/* The gates: what a variant must pass, cheap first; the first that fails is the verdict. All but
 * admission (admit.c) run in the replay child, on a struct replay_device. Each gate looks at one
 * thing and is found here only. They may never pass a variant for lack of data: where the check
 * itself could not fail, the kernel is unverifiable and left alone. */
#include "tune/job.h"
#include "tune/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

const char *verify_gates_off;

bool name_listed(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *p = list; p && *p; p += *p == ',') {
        size_t item = strcspn(p, ",");
        if (item == length && !memcmp(p, name, length))
            return true;
        p += item;
    }
    return false;
}

void verdict_set(struct verdict *verdict, kg_status status, const char *gate, const char *format,
                 ...)
{
    va_list args;
    va_start(args, format);
    verdict->status = status;
    snprintf(verdict->gate, sizeof verdict->gate, "%s", gate);
    vsnprintf(verdict->reason, sizeof verdict->reason, format, args);
    va_end(args);
}

void trial_line(struct trial *trial, const char *format, ...)
{
    char line[256];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    if (length < 0 || length >= (int)sizeof line - 1)
        return;
    line[length++] = '\n';
    if (write(trial->lines, line, (size_t)length) != length)
        log_line(KG_INFO, "the worker has gone: nobody reads this replay");
}

static kg_status because(struct trial *trial, kg_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static kg_status because(struct trial *trial, kg_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(trial->reason, sizeof trial->reason, format, args);
    va_end(args);
    return status;
}

kg_status trial_launch(struct trial *trial, enum side side, const unsigned char *in,
                       unsigned char *out)
{
    struct replay_device *device = trial->device;
    const struct replay_memory *memory = trial->memory;
    kg_status status = KG_OK;
    for (uint32_t i = 0; i < memory->extent_count && status == KG_OK; i++) {
        const struct replay_extent *extent = &memory->extents[i];
        status = device->write(device, extent->address, in + extent->at, extent->size);
    }
    bool limited = side == VARIANT && status == KG_OK; /* the copies around it are not its fault */
    if (limited)
        trial_line(trial, "limit %ld", trial->variant_limit_ms);
    uint64_t before = now_ns();
    if (status == KG_OK)
        status = device->launch(device, side);
    if (limited)
        trial_line(trial, "limit 0");
    if (side == ORIGINAL && trial->wall_ns <= 0)
        trial->wall_ns = (double)(now_ns() - before);
    for (uint32_t i = 0; i < memory->extent_count && status == KG_OK; i++) {
        const struct replay_extent *extent = &memory->extents[i];
        status = device->read(device, extent->address, out + extent->at, extent->size);
    }
    return status;
}

/* ---- the original ------------------------------------------------------------------------------
 */

/* The original runs here, gives the same three times whatever stands in the red zones, and touches
 * nothing that was not captured. */
static kg_status gate_replay(struct trial *trial)
{
    struct replay_memory *memory = trial->memory;
    char place[160];
    for (unsigned run = 0; run < 3; run++) {
        unsigned char *out = run ? memory->other : memory->result;
        memory_state(memory, trial->seeds[0] + run, false, memory->work);
        if (trial_launch(trial, ORIGINAL, memory->work, out) != KG_OK)
            return because(trial, KG_NOT_ELIGIBLE, "the original does not run in a replay: %s",
                           trial->device->error);
        size_t at = first_difference(memory->work, out, memory->slack, 0, memory->total);
        if (at < memory->total)
            return because(trial, KG_NOT_ELIGIBLE,
                           "the original writes memory that was not captured: %s",
                           memory_place(memory, at, place, sizeof place));
        for (size_t i = 0; i < memory->total; i++)
            out[i] &= (unsigned char)~memory->slack[i]; /* as in pristine, so that images compare */
        at = first_difference(memory->result, out, NULL, 0, memory->total);
        if (at < memory->total)
            return because(trial, KG_NOT_ELIGIBLE,
                           "the original's results vary from run to run, or depend on memory that "
                           "was not captured: first at %s",
                           memory_place(memory, at, place, sizeof place));
    }
    if (trial->only_original)
        return KG_OK;
    return written_find(trial) == KG_OK ? KG_OK : KG_NOT_ELIGIBLE;
}

/* True if the image in memory->other would pass for the result: then the check checks nothing. */
static bool passes(struct trial *trial)
{
    size_t at;
    return results_equal(trial->memory, trial->memory->other, trial->memory->first,
                         &trial->accuracy, &at);
}

/* Puts into `other` the expected image with every written byte replaced by the byte that stands as
 * far behind `source` as it stands behind the start of the captured buffer `target`. */
static bool copied(struct trial *trial, const struct capture_region *source,
                   const struct capture_region *target, const struct replay_extent *extent)
{
    struct replay_memory *memory = trial->memory;
    size_t from = extent->at + (size_t)(target->address - extent->address);
    bool any = false;
    if (!memchr(memory->written + from, 0xff, target->size))
        return false;
    memcpy(memory->other, memory->first, memory->total);
    for (uint64_t i = 0; i < target->size && i < source->size; i++) {
        if (!memory->written[from + i])
            continue;
        memory->other[from + i] = source->data[i];
        any = true;
    }
    return any;
}

static const struct replay_extent *extent_of(const struct replay_memory *memory, uint64_t address)
{
    for (uint32_t i = 0; i < memory->extent_count; i++)
        if (!memory->extents[i].global && address >= memory->extents[i].address &&
            address - memory->extents[i].address < memory->extents[i].size)
            return &memory->extents[i];
    return NULL;
}

/* Bytes that the result may depend on: captured, but for what is only written. */
static bool has_inputs(const struct replay_memory *memory)
{
    for (size_t i = 0; i < memory->total; i++)
        if (!memory->slack[i] && !(memory->written[i] && memory->poisoned[i]))
            return true;
    return false;
}

/* Puts into `other` the expected image with the same 16 bytes everywhere, those that come first. */
static void one_constant(struct replay_memory *memory)
{
    unsigned char value[16] = {0};
    bool known[16] = {false};
    memcpy(memory->other, memory->first, memory->total);
    for (size_t i = 0; i < memory->total; i++) {
        if (!memory->written[i])
            continue;
        if (!known[i % 16])
            value[i % 16] = memory->first[i];
        known[i % 16] = true;
        memory->other[i] = value[i % 16];
    }
}

/* Null candidates must be refused by the comparison that the variant will meet, on these inputs:
 * one that does nothing, one that writes zeros or one constant, one that copies an input. */
static kg_status gate_vacuity(struct trial *trial)
{
    struct replay_memory *memory = trial->memory;
    const struct kg_capture *capture = memory->capture;
    if (!trial->written_bytes)
        return because(trial, KG_NOT_ELIGIBLE, "unverifiable: the original writes nothing");
    memory_expected(memory, trial->seeds[1], memory->first);
    memory_state(memory, trial->seeds[1], false, memory->other);
    if (passes(trial))
        return because(trial, KG_NOT_ELIGIBLE,
                       "unverifiable: on these inputs a kernel that does nothing would pass");
    for (size_t i = 0; i < memory->total; i++)
        memory->other[i] = memory->first[i] & (unsigned char)~memory->written[i];
    if (passes(trial))
        return because(trial, KG_NOT_ELIGIBLE,
                       "unverifiable: on these inputs a kernel that writes zeros would pass");
    one_constant(memory);
    if (!trial->sensitive && has_inputs(memory) && passes(trial))
        return because(
            trial, KG_NOT_ELIGIBLE,
            "unverifiable: on these inputs a kernel that writes one constant would pass");
    for (uint32_t t = 0; t < capture->region_count; t++)
        for (uint32_t s = 0; s < capture->region_count; s++) {
            const struct capture_region *source = &capture->regions[s],
                                        *target = &capture->regions[t];
            const struct replay_extent *extent =
                target->kind == CAPTURE_POINTER ? extent_of(memory, target->address) : NULL;
            if (!extent || source->kind != CAPTURE_POINTER || source->address == target->address ||
                !copied(trial, source, target, extent) || !passes(trial))
                continue;
            return because(trial, KG_NOT_ELIGIBLE,
                           "unverifiable: on these inputs a kernel that copies buffer %u to %u "
                           "would pass",
                           s, t);
        }
    return KG_OK;
}

/* ---- the variant -------------------------------------------------------------------------------
 */

/* What only the loaded code shows: it fits the device, and needs no more local memory than the
 * original (the driver would enlarge its pool beside a running app). */
static kg_status gate_footprint(struct trial *trial)
{
    const struct replay_footprint *was = &trial->device->footprint[ORIGINAL],
                                  *is = &trial->device->footprint[VARIANT];
    const struct kg_dim block = trial->variant.block;
    uint64_t threads = (uint64_t)block.x * block.y * block.z;
    uint64_t shared = (uint64_t)is->static_shared + trial->variant.shared;
    if (is->local_bytes > was->local_bytes)
        return because(trial, KG_REFUSED,
                       "%u bytes of local memory a thread; the original has %u (spilled "
                       "registers or indexed local arrays)",
                       is->local_bytes, was->local_bytes);
    if (trial->device->shared_limit && shared > trial->device->shared_limit)
        return because(trial, KG_REFUSED, "%llu bytes of shared memory; the device has %u a block",
                       (unsigned long long)shared, trial->device->shared_limit);
    if (is->max_threads && threads > is->max_threads)
        return because(trial, KG_REFUSED,
                       "%llu threads a block; with its registers the kernel can have %u",
                       (unsigned long long)threads, is->max_threads);
    return KG_OK;
}

/* Not a gate: the two launches that the next gates look at, from two different poisons. */
static void run_poisoned(struct trial *trial)
{
    struct replay_memory *memory = trial->memory;
    if (!trial->variant_limit_ms)
        trial->variant_limit_ms = (long)(trial->wall_ns * 20e-6) + 3000;
    trial->poison_at = trial->timed_at = memory->total;
    for (unsigned run = 0; run < 2; run++) {
        memory_state(memory, trial->seeds[1 + run], false, memory->work);
        if (trial_launch(trial, VARIANT, memory->work, run ? memory->other : memory->first) ==
            KG_OK)
            continue;
        snprintf(trial->launch_error, sizeof trial->launch_error, "%s", trial->device->error);
        return;
    }
    trial->poison_at =
        first_difference(memory->first, memory->other, memory->written, 0, memory->total);
}

static kg_status gate_fault(struct trial *trial)
{
    run_poisoned(trial);
    if (!*trial->launch_error)
        return KG_OK;
    return because(trial, KG_REFUSED, "the variant's launch failed: %s", trial->launch_error);
}

/* Judged by the parent, which kills the child when a launch of the variant passes the limit that
 * trial_launch announces. A child that comes here has passed. */
static kg_status gate_deadline(struct trial *trial)
{
    return KG_OK;
}

static kg_status gate_poison(struct trial *trial)
{
    const struct replay_memory *memory = trial->memory;
    char text[512];
    if (trial->poison_at >= memory->total)
        return KG_OK;
    difference_text(memory, memory->first, memory->other, &trial->accuracy, trial->poison_at, text,
                    sizeof text);
    return because(trial, KG_REFUSED,
                   "the result depends on what stood in the output before (not written, or read): "
                   "two runs differ at %s",
                   text);
}

/* The variant's run from poison number `run` left every byte alone that the original leaves alone:
 * inputs, red zones, the original's variables. */
static size_t strayed(struct trial *trial, unsigned run, const unsigned char *got)
{
    struct replay_memory *memory = trial->memory;
    memory_state(memory, trial->seeds[1 + run], false, memory->work);
    for (size_t at = 0; at < memory->total; at += 8) {
        uint64_t before, after, written;
        memcpy(&before, memory->work + at, 8);
        memcpy(&after, got + at, 8);
        memcpy(&written, memory->written + at, 8);
        uint64_t changed = (before ^ after) & ~written;
        if (changed)
            return at + (size_t)(__builtin_ctzll(changed) / 8);
    }
    return memory->total;
}

static kg_status gate_memory(struct trial *trial)
{
    struct replay_memory *memory = trial->memory;
    char place[160];
    for (unsigned run = 0; run < 2; run++) {
        size_t at = strayed(trial, run, run ? memory->other : memory->first);
        if (at < memory->total)
            return because(trial, KG_REFUSED, "writes memory that the original leaves alone: %s",
                           memory_place(memory, at, place, sizeof place));
    }
    return KG_OK;
}

static kg_status gate_compare(struct trial *trial)
{
    struct replay_memory *memory = trial->memory;
    char text[512];
    for (unsigned run = 0; run < 2; run++) {
        const unsigned char *got = run ? memory->other : memory->first;
        size_t at;
        memory_expected(memory, trial->seeds[1 + run], memory->work);
        if (results_equal(memory, got, memory->work, &trial->accuracy, &at))
            continue;
        difference_text(memory, got, memory->work, &trial->accuracy, at, text, sizeof text);
        return because(trial, KG_REFUSED, "wrong result at %s", text);
    }
    return KG_OK;
}

static kg_status gate_repeat(struct trial *trial)
{
    struct replay_memory *memory = trial->memory;
    char place[160];
    memory_state(memory, trial->seeds[1], false, memory->work);
    for (unsigned run = 0; run < trial->repeats; run++) {
        if (trial_launch(trial, VARIANT, memory->work, memory->other) != KG_OK)
            return because(trial, KG_REFUSED, "launch %u failed: %s", run + 1,
                           trial->device->error);
        size_t at = first_difference(memory->first, memory->other, NULL, 0, memory->total);
        if (at < memory->total)
            return because(trial, KG_REFUSED,
                           "launch %u with equal inputs gave another result at %s: a race, or "
                           "uninitialised memory",
                           run + 1, memory_place(memory, at, place, sizeof place));
    }
    return KG_OK;
}

static kg_status gate_time(struct trial *trial)
{
    kg_status status = timing_run(trial);
    if (status != KG_OK)
        return because(trial, status, "timing failed: %s", trial->device->error);
    return timing_verdict(trial);
}

static kg_status gate_timed(struct trial *trial)
{
    char place[160];
    if (trial->timed_at >= trial->memory->total)
        return KG_OK;
    return because(trial, KG_REFUSED, "a timed launch gave another result at %s",
                   memory_place(trial->memory, trial->timed_at, place, sizeof place));
}

/* ---- the table ---------------------------------------------------------------------------------
 */

/* In order, cheap first. `fault` makes the launches that `poison`, `memory` and `compare` look at.
 */
static const struct gate {
    const char *name;
    kg_status (*run)(struct trial *trial);
    bool original; /* needs no variant */
} gates[] = {
    {"replay", gate_replay, true},        {"vacuity", gate_vacuity, false},
    {"admission", gate_footprint, false}, {"fault", gate_fault, false},
    {"deadline", gate_deadline, false},   {"poison", gate_poison, false},
    {"memory", gate_memory, false},       {"compare", gate_compare, false},
    {"repeat", gate_repeat, false},       {"stale", gate_stale, false},
    {"inputs", gate_inputs, false},       {"time", gate_time, false},
    {"timed", gate_timed, false},
};

/* Goes through the table; returns the name of the gate that refused, or NULL. A slower variant is
 * still asked whether its timed results were right: that names the graver fault. */
static const char *trial_gates(struct trial *trial, kg_status *status)
{
    json_t *passed = json_object_get(trial->evidence, "gates");
    const char *slower = NULL;
    for (size_t i = 0; i < sizeof gates / sizeof *gates; i++) {
        const struct gate *gate = &gates[i];
        if (trial->only_original && !gate->original)
            continue;
        trial_line(trial, "gate %s", gate->name);
        bool off = name_listed(trial->gates_off, gate->name);
        kg_status found = gate->run(trial);
        if (off || found == KG_OK) {
            json_array_append_new(passed, json_string(gate->name));
            continue;
        }
        *status = found;
        if (found != KG_SLOWER)
            return gate->name;
        slower = gate->name;
    }
    return slower;
}

static void add_timing(json_t *evidence, const char *name, const struct timing *timing)
{
    if (!timing->pairs)
        return;
    json_object_set_new(evidence, name,
                        json_pack("{sf sf sf sf sf si si si}", "original_ns", timing->original_ns,
                                  "variant_ns", timing->variant_ns, "ratio", timing->ratio, "low",
                                  timing->low, "high", timing->high, "pairs", (int)timing->pairs,
                                  "dropped", (int)timing->dropped, "batch", (int)timing->batch));
}

static void add_digest(json_t *evidence, const char *name, const unsigned char *data, size_t size)
{
    struct kg_id id;
    char text[KG_ID_TEXT];
    hash_data(data, size, &id);
    json_object_set_new(evidence, name, json_string(id_text(&id, text)));
}

static void finish_evidence(struct trial *trial)
{
    const struct replay_memory *memory = trial->memory;
    json_t *evidence = trial->evidence, *seeds = json_array();
    char text[20];
    for (unsigned i = 0; i < 4; i++) {
        snprintf(text, sizeof text, "%016llx", (unsigned long long)trial->seeds[i]);
        json_array_append_new(seeds, json_string(text));
    }
    json_object_set_new(evidence, "seeds", seeds);
    add_digest(evidence, "inputs", memory->pristine, memory->total);
    add_digest(evidence, "result", memory->result, memory->total);
    json_object_set_new(evidence, "memory_bytes", json_integer((json_int_t)memory->total));
    if (!trial->only_original) {
        json_object_set_new(evidence, "written_bytes",
                            json_integer((json_int_t)trial->written_bytes));
        json_object_set_new(evidence, "poisoned_bytes",
                            json_integer((json_int_t)trial->poisoned_bytes));
        json_object_set_new(evidence, "repeats", json_integer(trial->repeats));
    }
    const double relative = trial->accuracy.relative;
    json_object_set_new(evidence, "comparison",
                        relative <= 0 || trial->accuracy.element == ELEMENT_BITS
                            ? json_string("bitwise")
                            : json_sprintf("relative error at most %g, %s elements", relative,
                                           trial->accuracy.element == ELEMENT_F32 ? "f32" : "f64"));
    add_timing(evidence, "cold", &trial->cold);
    add_timing(evidence, "warm", &trial->warm);
}

/* The shortest time of the original alone, for `kgenrt replay`. */
static void time_original(struct trial *trial)
{
    double best = 0, ns;
    for (unsigned i = 0; i < trial->runs; i++) {
        if (trial->device->restore(trial->device) != KG_OK ||
            trial->device->sample(trial->device, ORIGINAL, false, 1, &ns) != KG_OK)
            return;
        best = !i || ns < best ? ns : best;
    }
    trial->warm.original_ns = best;
}

static kg_status say_end(struct trial *trial, kg_status status, const char *gate)
{
    const struct timing *timing = trial->chosen ? trial->chosen : &trial->warm;
    json_object_set_new(trial->evidence, "gate", json_string(gate ? gate : ""));
    json_t *end =
        json_pack("{si ss ss sf sf sf sf sf sO}", "status", (int)status, "gate", gate ? gate : "",
                  "reason", status == KG_OK ? "" : trial->reason, "original_ns",
                  timing->original_ns, "variant_ns", timing->variant_ns, "ratio", timing->ratio,
                  "low", timing->low, "high", timing->high, "evidence", trial->evidence);
    char *text = end ? json_dumps(end, JSON_COMPACT) : NULL;
    json_decref(end);
    bool good = text && write_all(trial->lines, "end ", 4) &&
                write_all(trial->lines, text, strlen(text)) && write_all(trial->lines, "\n", 1);
    free(text);
    return good ? status : KG_IO;
}

kg_status trial_run(struct trial *trial)
{
    kg_status status = KG_OK;
    if (getrandom(trial->seeds, sizeof trial->seeds, 0) != (ssize_t)sizeof trial->seeds)
        return KG_IO;
    trial->seeds[1] &= ~UINT64_C(1); /* any bits … */
    trial->seeds[2] |= 1;            /* … and floats */
    trial->seeds[3] &= ~UINT64_C(1);
    if (!trial->evidence)
        trial->evidence = json_object();
    json_object_set_new(trial->evidence, "gates", json_array());
    const char *gate = trial_gates(trial, &status);
    if (!gate && trial->only_original && trial->device->keep(trial->device) == KG_OK)
        time_original(trial);
    finish_evidence(trial);
    status = say_end(trial, status, gate);
    json_decref(trial->evidence);
    trial->evidence = NULL;
    return status;
}

/* ---- the parent's side -------------------------------------------------------------------------
 */

static kg_status replay_all(struct job *job, const struct candidate *candidate, unsigned runs,
                            struct verdict *out)
{
    struct replay_run run;
    bool ended;
    kg_status status = replay_begin(job, candidate, runs, &run);
    if (status != KG_OK) {
        verdict_set(out, status, "replay", "the replay could not be started");
        return status;
    }
    status = replay_wait(&run, NULL, out, &ended);
    replay_end(&run);
    return status;
}

kg_status verify_candidate(struct job *job, const struct candidate *candidate, struct verdict *out)
{
    kg_status status = admit(job, candidate, out);
    return status == KG_OK ? replay_all(job, candidate, 0, out) : status;
}

kg_status replay_original(struct job *job, unsigned runs, struct verdict *out)
{
    *out = (struct verdict){0};
    return replay_all(job, NULL, runs ? runs : 1, out);
}
