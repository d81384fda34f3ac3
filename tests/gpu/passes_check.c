/* Captured launches with the original and with what the maker `rules` makes of it: memory compared
 * byte for byte, times side by side.
 * Usage: passes_check [--set PARAM=VALUE]... [--grid X,Y,Z] CAPTURE...
 *
 * A kernel whose float atomics come in no order gives other bits each time; then both sides get
 * their atomics replaced by sums of the operands' bits as integers, which no order changes: equal
 * sums mean equal operands. Each capture is worked on in a process of its own. */
#include "replayed.h"
#include "tune/makers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "code/ptx.h"

enum { GOOD, BAD, VARIES = 10, TAKEN = 11, NOTHING = 12, TRIES = 10, SETS = 8 };

struct wanted {
    uint32_t params[SETS];
    uint64_t values[SETS];
    unsigned count;
    struct kg_dim grid; /* x 0: as captured */
};

/* ---- atomics without an order ---- */

static bool is_float_sum(const struct ptx_instr *instr)
{
    const struct ptx_form *form = instr->form;
    return (form->op == PTX_OP_atom || form->op == PTX_OP_red) && ptx_has(form, PTX_MOD_add) &&
           form->type_count == 1 && form->vector == 1 &&
           (form->types[0] == PTX_TYPE_f32 || form->types[0] == PTX_TYPE_f64);
}

/* "@%p atom.global.add.f64 %d, [%a], %v;" with integers of the same bits. What it returned is lost:
 * only kernels that do not use it come out right, the others differ and are found. */
static void write_sum(const char *source, const struct ptx_instr *instr, FILE *to)
{
    const struct ptx_operand *operands = instr->operands;
    unsigned bits = ptx_types[instr->form->types[0]].bits, first = instr->form->op == PTX_OP_atom;
    const struct ptx_operand *address = &operands[first], *value = &operands[first + 1];
    const char *guard = source + instr->place.begin;
    fprintf(to, "{ .reg .b%u %%kgs; mov.b%u %%kgs, %.*s; ", bits, bits,
            (int)(value->end - value->begin), source + value->begin);
    if (instr->guard != PTX_NO_REG)
        fprintf(to, "%.*s ", (int)strcspn(guard, " \t\n"), guard);
    fprintf(to, "red%s.add.u%u %.*s, %%kgs; }",
            instr->form->space == PTX_SPACE_shared   ? ".shared"
            : instr->form->space == PTX_SPACE_global ? ".global"
                                                     : "",
            bits, (int)(address->end - address->begin), source + address->begin);
}

static char *without_order(const char *source)
{
    char error[256], *text = NULL;
    size_t size = 0;
    struct ptx_module module;
    uint32_t at = 0;
    if (ptx_parse(source, strlen(source), &module, error, sizeof error) != KG_OK)
        return NULL;
    FILE *to = open_memstream(&text, &size);
    for (uint32_t i = 0; to && i < module.item_count; i++) {
        const struct ptx_func *func =
            module.items[i].kind == PTX_ITEM_DEFINE ? module.items[i].func : NULL;
        for (uint32_t j = 0; func && j < func->instr_count; j++) {
            const struct ptx_instr *instr = &func->instrs[j];
            if (!is_float_sum(instr))
                continue;
            fwrite(source + at, 1, instr->place.begin - at, to);
            write_sum(source, instr, to);
            at = instr->place.end;
        }
    }
    if (to) {
        fputs(source + at, to);
        fclose(to);
    }
    ptx_module_free(&module);
    return text;
}

/* ---- one capture ---- */

static int say(const struct replayed *r, int code, const char *text)
{
    printf("%-44.44s %s\n", r->job.capture.entry, text);
    fflush(stdout);
    return code;
}

/* Runs both sides; VARIES if the original does not repeat itself. */
static int compare(struct replayed *r, double *ns)
{
    struct replay_memory *memory = &r->memory;
    double time;
    if (replayed_run(r, ORIGINAL, memory->result, ns) != KG_OK)
        return say(r, BAD, r->reason);
    unsigned runs = *ns > 1e9 ? 1 : 3;
    for (unsigned i = 1; i < runs; i++) {
        if (replayed_run(r, ORIGINAL, memory->work, ns) != KG_OK)
            return say(r, BAD, r->reason);
        if (memcmp(memory->work, memory->result, memory->total))
            return VARIES;
    }
    for (unsigned i = 0; i < runs; i++) {
        if (replayed_run(r, VARIANT, memory->work, &time) != KG_OK)
            return say(r, BAD, r->reason);
        size_t at = first_difference(memory->work, memory->result, NULL, 0, memory->total);
        char place[160], line[256];
        if (at < memory->total && runs == 1)
            return VARIES; /* by itself, perhaps: the other way tells */
        snprintf(line, sizeof line, "DIFFERENT at %s",
                 memory_place(memory, at, place, sizeof place));
        if (at < memory->total)
            return say(r, BAD, line);
    }
    return GOOD;
}

static int measure(struct replayed *r, double ns, const char *note, bool ordered)
{
    double times[2] = {0, 0};
    unsigned batch = ns < 200e3 ? (unsigned)(200e3 / (ns + 1e3)) + 1 : 1;
    unsigned rounds = ns > 1e9 ? 1 : ns > 20e6 ? 3 : 10;
    if (r->device->keep(r->device) != KG_OK)
        return say(r, BAD, "memory cannot be kept");
    for (unsigned i = 0; i < rounds; i++)
        for (unsigned side = ORIGINAL; side <= VARIANT; side++)
            if (replayed_time(r, (enum side)side, ns > 1e9 ? 1 : 3, batch, &times[side]) != KG_OK)
                return say(r, BAD, r->reason);
    char line[1024];
    snprintf(line, sizeof line, "equal%s  %10.1f us %10.1f us  ratio %.3f  regs %u %u  %s",
             ordered ? "" : " (bits' sums)", times[0] / 1e3, times[1] / 1e3, times[0] / times[1],
             r->device->footprint[0].registers, r->device->footprint[1].registers, note);
    return say(r, GOOD, line);
}

static int check(const char *path, const struct wanted *wanted, bool ordered)
{
    static struct replayed r;
    struct candidate candidate;
    char *texts[2] = {NULL, NULL};
    double ns = 0;
    if (replayed_open(&r, path) != KG_OK)
        return say(&r, BAD, r.reason);
    if (wanted->grid.x)
        r.job.capture.launch.grid = wanted->grid;
    for (unsigned i = 0; i < wanted->count; i++)
        if (!replayed_set(&r, wanted->params[i], wanted->values[i]))
            return say(&r, BAD, "--set: no such parameter");
    kg_status status = rules_make(&r.job, "", 0, 0, NULL, NULL, &candidate);
    if (status != KG_OK)
        return say(&r, status == KG_NO_CANDIDATE ? NOTHING : BAD, status_text(status));
    if (!ordered) {
        texts[ORIGINAL] = without_order((const char *)r.job.image.ptx.data);
        texts[VARIANT] = without_order(candidate.ptx);
        if (!texts[ORIGINAL] || !texts[VARIANT])
            return say(&r, BAD, "atomics cannot be replaced");
        candidate.ptx = texts[VARIANT];
    }
    status = replayed_load(&r, texts[ORIGINAL], &candidate);
    if (status == KG_TAKEN)
        return TAKEN;
    if (status != KG_OK)
        return say(&r, BAD, r.reason);
    int outcome = compare(&r, &ns);
    if (outcome == VARIES && !ordered)
        return say(&r, BAD, "DIFFERENT from run to run, without an order in its atomics too");
    return outcome == GOOD ? measure(&r, ns, candidate.note, ordered) : outcome;
}

/* ---- all, a process each ---- */

static int run_one(char *const *arguments)
{
    int status = 0;
    pid_t child = fork();
    if (!child) {
        execv("/proc/self/exe", arguments);
        _exit(BAD);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return BAD;
    return WEXITSTATUS(status);
}

static bool take_set(const char *text, struct wanted *out)
{
    char *end;
    if (out->count == SETS)
        return false;
    out->params[out->count] = (uint32_t)strtoul(text, &end, 10);
    if (*end != '=')
        return false;
    out->values[out->count++] = strtoull(end + 1, &end, 0);
    return !*end;
}

int main(int argc, char **argv)
{
    struct wanted wanted = {0};
    unsigned counts[3] = {0, 0, 0}; /* equal, not so, nothing to rewrite */
    int first = 1;
    bool ordered = true, one = false;
    for (; first < argc && !strncmp(argv[first], "--", 2); first++) {
        one |= !strncmp(argv[first], "--one", 5);
        ordered &= strcmp(argv[first], "--one-unordered") != 0;
        if (!strcmp(argv[first], "--set") && (++first == argc || !take_set(argv[first], &wanted)))
            return 2;
        if (!strcmp(argv[first], "--grid") &&
            (++first == argc ||
             sscanf(argv[first], "%u,%u,%u", &wanted.grid.x, &wanted.grid.y, &wanted.grid.z) != 3))
            return 2;
    }
    if (one && first + 1 == argc)
        return check(argv[first], &wanted, ordered);
    for (int i = first; i < argc; i++) {
        char *arguments[2 * SETS + 8] = {argv[0], (char *)"--one"};
        int count = 2, outcome = TAKEN;
        for (int k = 1; k < first; k++)
            arguments[count++] = argv[k];
        arguments[count] = argv[i];
        for (unsigned k = 0; k < TRIES && (outcome == TAKEN || outcome == VARIES); k++) {
            if (outcome == VARIES)
                arguments[1] = (char *)"--one-unordered";
            outcome = run_one(arguments);
        }
        counts[outcome == GOOD ? 0 : outcome == NOTHING ? 2 : 1]++;
        if (outcome != GOOD && outcome != NOTHING)
            printf("%s: failed (%d)\n", argv[i], outcome);
    }
    printf("%u equal, %u failed, %u with nothing to rewrite\n", counts[0], counts[1], counts[2]);
    return counts[1] != 0;
}
