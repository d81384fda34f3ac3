/* Reach against truth: each runnable kernel of the corpus runs on the software GPU, which records
 * the bytes that it touches of each buffer; they must lie in the interval that reach gives for the
 * pointer, and fill it to both ends where reach says exact. With the launches and scalars of
 * corpus.def, and with random ones. An argument SEED makes the random ones others. */
#include "code/reach.h"
#include "ptx/corpus.h"
#include "test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TURNS = 6 };

/* Random scalars may make a loop endless: a run has a second. */
static volatile bool expired;

static void expire(int number)
{
    expired = true;
}

static unsigned runs, known, exact, unknown, loose;

static struct reach_launch launch_of(const struct corpus_case *c, const struct kg_launch *launch)
{
    return (struct reach_launch){
        .launch = launch, .params = c->params, .param_bytes = c->param_bytes, .exact = true};
}

/* First and last byte that the bitmap has, or false. */
static bool ends(const uint8_t *bitmap, uint64_t size, int64_t *low, int64_t *high)
{
    bool any = false;
    for (uint64_t i = 0; i < size; i++) {
        if (!exec_was_touched(bitmap, i))
            continue;
        *low = any ? *low : (int64_t)i;
        *high = (int64_t)i + 1;
        any = true;
    }
    return any;
}

static const struct corpus_buffer *buffer_at(const struct corpus_case *c, uint64_t base)
{
    for (uint32_t i = 0; i < c->buffer_count; i++)
        if (c->buffers[i].base == base)
            return &c->buffers[i];
    return NULL;
}

/* Whether the target is a pointer into the buffer, and how many bytes after its base. */
static bool leads_to(const struct corpus_case *c, const struct reach_target *target,
                     const struct corpus_buffer *buffer, int64_t *shift)
{
    for (uint32_t i = 0; i < c->pointer_count && target->at != REACH_NONE; i++) {
        const struct corpus_buffer *pointer = &c->pointers[i];
        if (pointer->base != buffer->base ||
            c->func->params[pointer->param]->offset + pointer->offset != target->at)
            continue;
        *shift = (int64_t)(pointer->value - buffer->base);
        return true;
    }
    return false;
}

/* What all pointers into the buffer reach together; exact if it is one pointer's, and exact. False:
 * nothing. */
static bool reached(const struct corpus_case *c, const struct reach *reach,
                    const struct corpus_buffer *buffer, bool written, struct reach_bytes *out)
{
    unsigned count = 0;
    *out = (struct reach_bytes){.low = INT64_MAX, .high = INT64_MIN, .exact = true};
    for (uint32_t t = 0; t < reach->target_count; t++) {
        const struct reach_target *target = &reach->targets[t];
        const struct reach_bytes *bytes = written ? &target->written : &target->read;
        int64_t shift;
        if (bytes->state != REACH_KNOWN || !leads_to(c, target, buffer, &shift))
            continue;
        out->low = bytes->low + shift < out->low ? bytes->low + shift : out->low;
        out->high = bytes->high + shift > out->high ? bytes->high + shift : out->high;
        out->exact &= bytes->exact && !count++;
    }
    return out->low < out->high;
}

static void compare(const struct corpus_case *c, const struct reach *reach,
                    const struct exec_touched *touched, bool written)
{
    const struct corpus_buffer *buffer = buffer_at(c, touched->base);
    struct reach_bytes said;
    int64_t low = 0, high = 0;
    bool any = ends(written ? touched->written : touched->read, touched->size, &low, &high);
    bool claims = reached(c, reach, buffer, written, &said);
    bool same = claims && said.low == low && said.high == high;
    if (!CHECK(!any || (claims && said.low <= low && high <= said.high)) ||
        !CHECK(!claims || !said.exact || (any && same)))
        fprintf(stderr,
                "%s: touches [%lld, %lld) of the buffer of parameter %u, %s; reach is "
                "[%lld, %lld)%s\n",
                c->entry->entry, (long long)low, (long long)high, buffer->param,
                written ? "written" : "read", (long long)said.low, (long long)said.high,
                said.exact ? " exact" : "");
    exact += claims && said.exact;
    loose += claims && !same;
}

static void print_bytes(const char *what, const struct reach_bytes *bytes)
{
    if (bytes->state == REACH_KNOWN)
        printf(" %s [%lld, %lld)%s", what, (long long)bytes->low, (long long)bytes->high,
               bytes->exact ? " exact" : "");
    else if (bytes->state == REACH_UNKNOWN)
        printf(" %s unknown: %s, line %u;", what, bytes->why, bytes->line);
}

static void print_reach(const struct corpus_case *c, const struct reach *reach)
{
    printf("%s/%s:", c->entry->file, c->entry->entry);
    for (uint32_t t = 0; t < reach->target_count; t++) {
        printf(" @%d", (int)reach->targets[t].at);
        print_bytes("read", &reach->targets[t].read);
        print_bytes("written", &reach->targets[t].written);
    }
    print_bytes("stray", &reach->stray);
    putchar('\n');
}

/* Runs the case with its present parameters and compares, unless the kernel faults: random scalars
 * may make it do that. */
static void run_case(struct corpus_case *c, const struct kg_launch *launch, bool print)
{
    const struct corpus_entry *entry = c->entry;
    struct corpus_entry own = *entry;
    own.launch = *launch;
    c->entry = &own;
    struct exec_touched touched[CORPUS_ARGS];
    struct exec_record record = {touched, c->buffer_count};
    struct exec_config config = {.record = &record, .threads = 1, .cancel = &expired};
    struct exec_result result;
    struct reach reach;
    struct reach_launch how = launch_of(c, launch);
    for (uint32_t i = 0; i < c->buffer_count; i++) {
        size_t size = c->buffers[i].size / 8 + 1;
        touched[i] = (struct exec_touched){c->buffers[i].base, c->buffers[i].size, calloc(1, size),
                                           calloc(1, size)};
    }
    if (CHECK(reach_of(&c->module, c->func, &how, &reach) == KG_OK)) {
        expired = false;
        alarm(1 + print * 30);
        corpus_run(c, NULL, &config, &result);
        alarm(0);
        if (print)
            print_reach(c, &reach);
        runs++;
        known += reach.complete;
        unknown += !reach.complete;
        for (uint32_t i = 0; reach.complete && result.fault == EXEC_OK && i < c->buffer_count;
             i++) {
            compare(c, &reach, &touched[i], false);
            compare(c, &reach, &touched[i], true);
        }
        reach_free(&reach);
    }
    for (uint32_t i = 0; i < c->buffer_count; i++) {
        free(touched[i].read);
        free(touched[i].written);
    }
    c->entry = entry;
}

/* Other integers in place of those that the row gives, and another grid. What leaves a buffer
 * faults at once, and nothing is compared then. */
static void vary(struct corpus_case *c, struct kg_launch *launch)
{
    for (unsigned i = 0, param = 0; i < CORPUS_ARGS && c->entry->args[i].kind; i++) {
        const struct corpus_arg *arg = &c->entry->args[i];
        param += i && !arg->within;
        if (arg->kind != CORPUS_INTEGER || arg->within || param >= c->func->param_count)
            continue;
        const struct ptx_var *var = c->func->params[param];
        int64_t most = arg->integer > 1 && arg->integer < 100000 ? arg->integer : 8;
        int64_t value = rand() % 3 ? rand() % (most + 1) : most;
        if (var->size == 4 || var->size == 8)
            memcpy(c->params + var->offset, &value, var->size);
    }
    launch->grid.x = 1 + (uint32_t)rand() % (launch->grid.x + 1);
    launch->grid.y = 1 + (uint32_t)rand() % launch->grid.y;
}

int main(int count, char **arguments)
{
    signal(SIGALRM, expire);
    srand(count > 1 ? (unsigned)strtoul(arguments[1], NULL, 0) : 1);
    for (unsigned i = 0; i < corpus_count; i++) {
        struct corpus_case c;
        if (corpus[i].traits & (CORPUS_FAULTS | CORPUS_UNRUN) || !corpus_open(&corpus[i], &c))
            continue;
        corpus_fill(&c, 1);
        run_case(&c, &corpus[i].launch, true);
        unsigned char params[CORPUS_PARAM_BYTES];
        memcpy(params, c.params, sizeof params);
        for (unsigned turn = 0; turn < TURNS && !(corpus[i].traits & CORPUS_SPINS); turn++) {
            struct kg_launch launch = corpus[i].launch;
            memcpy(c.params, params, sizeof params);
            vary(&c, &launch);
            corpus_fill(&c, turn);
            run_case(&c, &launch, false);
        }
        corpus_close(&c);
    }
    printf("%u launches: reach complete in %u, not known in %u; %u buffers exact, %u looser than "
           "what was touched\n",
           runs, known, unknown, exact, loose);
    CHECK(known > unknown && exact > loose);
    return test_result();
}
