/* The table of gates: what a variant must pass, cheap first; the first that fails is the verdict.
 * All but admission (admit.c) run in the replay child, on a struct replay_device, and stand one a
 * file in gates/. Here they are walked; evidence.c writes down what they saw. */
#include "tune/gates/gates.h"
#include "tune/job.h"

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

kg_status because(struct trial *trial, kg_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(trial->reason, sizeof trial->reason, format, args);
    va_end(args);
    return status;
}

void trial_saw(struct trial *trial, const char *gate, json_t *seen_take)
{
    json_t *saw = json_object_get(trial->evidence, "saw");
    if (!saw && trial->evidence)
        json_object_set_new(trial->evidence, "saw", saw = json_object());
    if (!saw || json_object_set_new(saw, gate, seen_take))
        log_line(KG_INFO, "what gate %s saw is not in the evidence: out of memory", gate);
}

/* A model of a device runs beside other work of the processor. */
long trial_limit_ms(const struct trial *trial, double ns)
{
    enum { FACTOR = 20, FLOOR = 250, MODEL_FLOOR = 15000 };
    if (trial->variant_limit_ms)
        return trial->variant_limit_ms;
    return (long)(ns * FACTOR / 1e6) + (trial->device->exact_clock ? MODEL_FLOOR : FLOOR);
}

kg_status trial_put(struct trial *trial, const unsigned char *image)
{
    struct replay_device *device = trial->device;
    const struct replay_memory *memory = trial->memory;
    kg_status status = KG_OK;
    for (uint32_t i = 0; i < memory->extent_count && status == KG_OK; i++) {
        const struct replay_extent *extent = &memory->extents[i];
        status = device->write(device, extent->address, image + extent->at, extent->size);
    }
    return status;
}

kg_status trial_fetch(struct trial *trial, unsigned char *out)
{
    struct replay_device *device = trial->device;
    const struct replay_memory *memory = trial->memory;
    kg_status status = KG_OK;
    for (uint32_t i = 0; i < memory->extent_count && status == KG_OK; i++) {
        const struct replay_extent *extent = &memory->extents[i];
        status = device->read(device, extent->address, out + extent->at, extent->size);
    }
    return status;
}

kg_status trial_fetch_unless(struct trial *trial, const unsigned char *expected, unsigned char *out,
                             bool *same)
{
    struct replay_device *device = trial->device;
    const struct replay_memory *memory = trial->memory;
    size_t at;
    *same = false;
    if (device->holds && device->holds(device, expected, same) == KG_OK && *same)
        return KG_OK;
    kg_status status = trial_fetch(trial, out);
    *same = status == KG_OK && !images_differ(memory, out, expected, EVERYWHERE, EVERYWHERE, &at);
    return status;
}

kg_status trial_go(struct trial *trial, enum side side)
{
    if (side == VARIANT)
        trial_line(trial, "limit %ld", trial_limit_ms(trial, trial->wall_ns));
    uint64_t before = now_ns();
    kg_status status = trial->device->launch(trial->device, side);
    double took = (double)(now_ns() - before);
    if (side == VARIANT)
        trial_line(trial, "limit 0");
    else if (took > trial->wall_ns)
        trial->wall_ns = took;
    return status;
}

kg_status trial_launch(struct trial *trial, enum side side, const unsigned char *in,
                       unsigned char *out)
{
    kg_status status = trial_put(trial, in); /* the copies are not its fault */
    if (status == KG_OK)
        status = trial_go(trial, side);
    return status == KG_OK && out ? trial_fetch(trial, out) : status;
}

/* ---- the table ---------------------------------------------------------------------------------
 */

/* In order, cheap first; before `instrumented` has passed, nothing of the variant runs as it is.
 * `fault` makes the launches that `poison`, `memory` and `compare` look at.
 */
static const struct gate {
    const char *name;
    kg_status (*run)(struct trial *trial);
    bool original; /* needs no variant */
} gates[] = {
    {"replay", gate_replay, true},    {"observed", gate_observed, false},
    {"vacuity", gate_vacuity, false}, {"admission", gate_footprint, false},
    {"bounds", gate_bounds, false},   {"instrumented", gate_instrumented, false},
    {"fault", gate_fault, false},     {"deadline", gate_deadline, false},
    {"poison", gate_poison, false},   {"memory", gate_memory, false},
    {"compare", gate_compare, false}, {"repeat", gate_repeat, false},
    {"layout", gate_layout, false},   {"stale", gate_stale, false},
    {"scalars", gate_scalars, false}, {"inputs", gate_inputs, false},
    {"time", gate_time, false},       {"timed", gate_timed, false},
};

/* Goes through the table; returns the name of the gate that refused, or NULL. A slower variant is
 * still asked whether its timed results were right: that names the graver fault. */
static const char *trial_gates(struct trial *trial, kg_status *status)
{
    const char *slower = NULL;
    for (size_t i = 0; i < sizeof gates / sizeof *gates; i++) {
        const struct gate *gate = &gates[i];
        if (trial->only_original && !gate->original)
            continue;
        trial_line(trial, "gate %s", gate->name);
        bool off = name_listed(trial->gates_off, gate->name);
        uint64_t begin = now_ns();
        kg_status found = gate->run(trial);
        evidence_gate(trial, gate->name, off || found == KG_OK, (double)(now_ns() - begin));
        if (off || found == KG_OK)
            continue;
        *status = found;
        if (found != KG_SLOWER)
            return gate->name;
        slower = gate->name;
    }
    return slower;
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
    json_t *unshown = json_array();
    for (uint32_t i = 0; i < trial->free_count; i++)
        if (trial->unshown[i])
            json_array_append_new(unshown, json_integer(i));
    json_t *end =
        json_pack("{si ss ss sb sf sf sf sf sf so sO}", "status", (int)status, "gate",
                  gate ? gate : "", "reason", status == KG_OK ? "" : trial->reason, "exact",
                  !trial->inexact.elements, "original_ns", timing->original_ns, "variant_ns",
                  timing->variant_ns, "ratio", timing->ratio, "low", timing->low, "high",
                  timing->high, "unshown", unshown, "evidence", trial->evidence);
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
    if (!trial->seeded &&
        getrandom(trial->seeds, sizeof trial->seeds, 0) != (ssize_t)sizeof trial->seeds)
        return KG_IO;
    trial->seeds[1] &= ~UINT64_C(1); /* any bits … */
    trial->seeds[2] |= 1;            /* … and floats */
    trial->seeds[3] &= ~UINT64_C(1);
    evidence_begin(trial);
    const char *gate = trial_gates(trial, &status);
    if (!gate && trial->only_original && trial->device->keep(trial->device) == KG_OK)
        time_original(trial);
    bool same = true;
    struct replay_device *device = trial->device;
    kg_status asked = !gate && device->settled ? device->settled(device, &same) : KG_OK;
    if (asked != KG_OK) {
        gate = "compare";
        status = because(trial, asked, "the device's copies of images cannot be looked at again");
    } else if (!same) {
        gate = "compare"; /* a mistake of this program, then: nobody may pass by it */
        status = because(trial, KG_NOT_ELIGIBLE, "images of memory changed during the verdict");
    }
    evidence_end(trial, status, gate);
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
        verdict_set(out, status, "replay", "%s",
                    *run.why ? run.why : "the replay could not be started");
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
