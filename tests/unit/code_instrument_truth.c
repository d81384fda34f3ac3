/* Instrumented kernels of the whole PTX corpus, and of the samples, against the plain ones: the
 * same bytes in memory; the recorded bytes are just those that the executor saw touched; checks
 * give no false alarm, and race tags only where a race was put in. */
#include "instrument_fixture.h"
#include "test.h"

#include <stdlib.h>
#include <unistd.h>

enum { RANGES = 64, BUDGET = 1 << 24 };

static unsigned ran, refused, bytes_read, bytes_written;

static const unsigned ways[] = {INSTRUMENT_RECORD, INSTRUMENT_CHECK,
                                INSTRUMENT_RECORD | INSTRUMENT_CHECK | INSTRUMENT_RACES};
enum { RECORD = 1, CHECK_ONLY = 2, ALL = 4, CHECKS = CHECK_ONLY | ALL, ANY = RECORD | CHECKS };

/* What is not instrumented, in which ways, and why. Everything else must be. */
static const struct {
    const char *file, *entry;
    unsigned ways; /* bit n: ways[n] */
    const char *reason;
} refusals[] = {
    {"warp", "named_barriers", ALL, "not a barrier of the whole block"},
    {"calls", "calls", ANY, "indirect calls"},
    {"control", "indirect", ANY, "indirect calls"},
    {"control", "virtuals", ANY, "indirect calls"},
    {"control", "recursion", CHECKS, "recursion"},
    {"control", "prints", CHECKS, "vprintf"},
    {"control", "asserts", CHECKS, "__assertfail"},
    {"control", "traps", CHECKS, "trap ends the whole launch"},
    {"control", "allocates", ANY, "malloc"},
    {"scalars", "waits_first", ANY, "griddepcontrol.wait"},
    {"scalars", "waits_late", ANY, "griddepcontrol.wait"},
    {"tensor", "wmma_tile", ALL, "wmma.load"},
    {"tensor", "bulk_copy", RECORD | CHECK_ONLY, "cp.async.bulk"},
    {"tensor", "bulk_copy", ALL, "mbarrier.init"},
};

static const char *refusal(const struct corpus_entry *entry, unsigned way)
{
    for (unsigned i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (!strcmp(refusals[i].file, entry->file) && !strcmp(refusals[i].entry, entry->entry) &&
            refusals[i].ways >> way & 1)
            return refusals[i].reason;
    return NULL;
}

struct truth {
    struct corpus_case c;
    struct exec_touched touched[RANGES];
    struct exec_record record;
    enum exec_fault fault;
    uint64_t hash;
};

static void name(const struct truth *truth, unsigned what, const char *text)
{
    fprintf(stderr, "%s, %s, way %u: %s\n", truth->c.entry->file, truth->c.entry->entry, what,
            text);
}

/* The plain run, with what it touched. */
static void run_plain(struct truth *truth)
{
    struct corpus_case *c = &truth->c;
    struct exec_config config = {
        .launch = c->entry->launch, .record = &truth->record, .threads = 1};
    struct exec_result result;
    truth->record.ranges = truth->touched;
    for (uint32_t i = 0; i < c->buffer_count && i < RANGES; i++) {
        uint64_t size = c->buffers[i].size;
        truth->touched[i] = (struct exec_touched){c->buffers[i].base, size, calloc(1, size / 8 + 1),
                                                  calloc(1, size / 8 + 1)};
        truth->record.count = i + 1;
    }
    corpus_fill(c, 1);
    corpus_run(c, NULL, &config, &result);
    truth->fault = result.fault;
    truth->hash = corpus_hash(c);
}

/* Buffers, and variables of the module. */
static uint32_t ranges_of(const struct truth *truth, const struct fixture_run *run,
                          struct observe_range *out)
{
    uint32_t count = 0;
    const struct ptx_module *module = &truth->c.module;
    for (uint32_t i = 0; i < truth->record.count; i++)
        out[count++] = (struct observe_range){.address = truth->touched[i].base,
                                              .size = truth->touched[i].size,
                                              .rights = INSTRUMENT_READ | INSTRUMENT_WRITE};
    for (uint32_t i = 0; i < module->var_count && count < RANGES; i++) {
        uint64_t address, size;
        if (module->vars[i]->space == PTX_SPACE_global &&
            exec_module_global(run->module, module->vars[i]->name, &address, &size))
            out[count++] = (struct observe_range){
                .address = address, .size = size, .rights = INSTRUMENT_READ | INSTRUMENT_WRITE};
    }
    return count;
}

static void compare_records(const struct truth *truth, const struct fixture_run *run, unsigned what)
{
    for (uint32_t i = 0; i < truth->record.count; i++) {
        const struct exec_touched *t = &truth->touched[i];
        const struct observe_range *o = NULL;
        for (uint32_t j = 0; j < run->observe.range_count; j++)
            if (run->observe.ranges[j].address == t->base)
                o = &run->observe.ranges[j];
        if (!t->size || !CHECK(o != NULL))
            continue;
        uint64_t at = 0;
        for (; at < t->size; at++) {
            bool read = exec_was_touched(t->read, at), written = exec_was_touched(t->written, at);
            bytes_read += read;
            bytes_written += written;
            if (read != observed(o, o->reads, at) || written != observed(o, o->writes, at))
                break;
        }
        if (!CHECK(at == t->size)) {
            char text[160];
            snprintf(text, sizeof text, "buffer %u, byte %llu: read %d written %d, recorded %d %d",
                     i, (unsigned long long)at, exec_was_touched(t->read, at),
                     exec_was_touched(t->written, at), observed(o, o->reads, at),
                     observed(o, o->writes, at));
            name(truth, what, text);
        }
    }
}

static void judge(struct truth *truth, const struct fixture_run *run, unsigned what)
{
    const unsigned traits = truth->c.entry->traits;
    const struct instrument_reports *reports = &run->observe.reports;
    char text[512];
    bool races = what & INSTRUMENT_RACES && traits & CORPUS_RACES;
    if (!CHECK(run->result.fault == truth->fault))
        name(truth, what, run->result.text);
    if (!(traits & (CORPUS_ORDER | CORPUS_CLOCK | CORPUS_RACES)) &&
        !CHECK(corpus_hash(&truth->c) == truth->hash))
        name(truth, what, "other bytes");
    if (!CHECK(races ? reports->count > 0 : !reports->count))
        name(truth, what,
             reports->count ? observe_text(&run->observe, &reports->list[0], text, sizeof text)
                            : "its race was not found");
    if (what & INSTRUMENT_RECORD && !(traits & (CORPUS_CLOCK | CORPUS_RACES)))
        compare_records(truth, run, what);
}

static void run_way(struct truth *truth, unsigned way)
{
    const unsigned what = ways[way];
    const char *reason = refusal(truth->c.entry, way);
    struct fixture_run run;
    struct observe_range ranges[RANGES];
    struct exec_config config = {.launch = truth->c.entry->launch, .threads = 1};
    kg_status status = fixture_load(&run, (const char *)truth->c.text.data, truth->c.entry->entry,
                                    what, &config.launch);
    if (status == KG_NOT_ELIGIBLE) {
        refused++;
        if (!CHECK(reason && strstr(run.text.reason, reason)))
            name(truth, what, run.text.reason);
    } else if (CHECK(status == KG_OK)) {
        if (!CHECK(!reason))
            name(truth, what, "is instrumented now: take it off the list");
        uint32_t count = ranges_of(truth, &run, ranges);
        CHECK(observe_begin(&run.text, fixture_module(&run), fixture_function(&run), &config.launch,
                            ranges, count, BUDGET, &run.observe) == KG_OK);
        corpus_fill(&truth->c, 1);
        exec_launch(run.kernel, &config, truth->c.params, &run.result);
        CHECK(observe_read(&run.observe) == KG_OK);
        judge(truth, &run, what);
        ran++;
    } else {
        name(truth, what, run.text.reason);
    }
    fixture_unload(&run);
}

int main(int argc, char **argv)
{
    unsigned opened = 0;
    fixture_driver(&corpus_memory);
    for (unsigned i = 0; i < corpus_count; i++) {
        struct truth truth = {0};
        if ((argc > 1 && strcmp(argv[1], corpus[i].entry)) || !corpus_open(&corpus[i], &truth.c))
            continue;
        opened++;
        run_plain(&truth);
        if (!CHECK(truth.fault == EXEC_OK || corpus[i].traits & (CORPUS_FAULTS | CORPUS_UNRUN)))
            name(&truth, 0, "the plain kernel does not run");
        for (unsigned w = 0; w < sizeof ways / sizeof *ways; w++)
            if (truth.fault == EXEC_OK)
                run_way(&truth, w);
        for (uint32_t b = 0; b < truth.record.count; b++) {
            free(truth.touched[b].read);
            free(truth.touched[b].written);
        }
        corpus_close(&truth.c);
    }
    printf("%u kernels, %u instrumented runs, %u not instrumentable; %u bytes read and %u written, "
           "all recorded and no other\n",
           opened, ran, refused, bytes_read, bytes_written);
    CHECK(ran);
    return test_result();
}
