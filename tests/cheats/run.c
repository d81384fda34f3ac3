/* The corpus: hostile, wrong and honest variants of the samples' kernels (rows of corpus.def),
 * each through admission and every gate, with the verdict that its row asks for. One launch of each
 * sample is captured first. See README.md here for the form of rows and variants, and usage below.
 *
 * A verdict is judged, never the way to it: a child that crashes or is killed refuses as a gate
 * does. Rows marked MISSED or DENIED are known to be judged wrongly: they are listed, not hidden.
 */
#include "e2e/e2e.h"

#include "tune/job.h"
#include "tune/replay.h"

enum { MESSAGE = 4096, MOST_GATES = 32 };

/* ---- the rows ----------------------------------------------------------------------------------
 */

enum kind {
    HOSTILE, /* must be refused by one of its gates */
    HONEST,  /* must pass, or be refused for its time only */
    MISSED,  /* hostile, and known to pass today, or to be refused by another gate than it should */
    DENIED,  /* honest, and known to be refused today */
};
static const char *const kinds[] = {"hostile", "honest", "missed", "denied"};

enum { A_SAMPLE, A_LAUNCH, A_VARIANT };

static const struct row {
    int what;
    const char *name;
    enum kind kind;
    const char *text[6];
} rows[] = {
#define SAMPLE_IN(folder, name, program, arguments, kernel, params, globals)                       \
    {A_SAMPLE, #name, 0, {program, arguments, kernel, params, globals, #folder}},
#define SAMPLE(name, program, arguments, kernel, params, globals)                                  \
    SAMPLE_IN(name, name, program, arguments, kernel, params, globals)
#define LAUNCH(name, grid, block, shared) {A_LAUNCH, #name, 0, {grid, block, shared}},
#define VARIANT(name, kind, accuracy, launch, gates, what)                                         \
    {A_VARIANT, #name, kind, {accuracy, #launch, gates, what}},
#include "corpus.def"
#undef SAMPLE
#undef SAMPLE_IN
#undef LAUNCH
#undef VARIANT
};
enum { ROWS = sizeof rows / sizeof *rows };
enum { PROGRAM, ARGUMENTS, KERNEL, PARAMS, GLOBALS, FOLDER }; /* of a sample */
enum { GRID, BLOCK, SHARED };                                 /* of a launch */
enum { ACCURACY, TRANSFORM, GATES, WHAT };                    /* of a variant */

static struct {
    const char *sample, *variant, *off;
    unsigned seeds;
    bool big, gates, names;
} asked = {.seeds = 1};

/* ---- a row as a reply --------------------------------------------------------------------------
 */

/* "a, f(b, c), d" as "a", "f(b, c)", "d". */
static void put_list(FILE *out, const char *text)
{
    int depth = 0;
    fputs(*text ? "[\"" : "[", out);
    for (const char *c = text; *c; c++) {
        depth += (*c == '(') - (*c == ')');
        if (*c == ',' && !depth)
            fputs("\", \"", out);
        else if (*c != ' ' || depth)
            fputc(*c, out);
    }
    fputs(*text ? "\"]" : "]", out);
}

static const struct row *launch_of(const struct row *sample, const char *name)
{
    for (const struct row *row = sample + 1; row < rows + ROWS && row->what != A_SAMPLE; row++)
        if (row->what == A_LAUNCH && !strcmp(row->name, name))
            return row;
    return NULL;
}

/* The whole reply, as a model would give it: each of the sample's variants has a macro V_<name>,
 * and this row's is 1. S_<sample> tells samples of one folder apart. */
static char *reply_make(const struct row *sample, const struct row *row, size_t *size)
{
    struct kg_bytes common, source;
    char *text = NULL;
    const struct row *launch = launch_of(sample, row->text[TRANSFORM]);
    const char *folder = e2e_text("%s/tests/cheats", E2E_SOURCE);
    FILE *out = open_memstream(&text, size);
    if (!CHECK(launch) || !CHECK(out) ||
        !CHECK(file_read(e2e_text("%s/common.cuh", folder), 1 << 18, &common) == KG_OK) ||
        !CHECK(file_read(e2e_text("%s/%s/variants.cu", folder, sample->text[FOLDER]), 1 << 18,
                         &source) == KG_OK))
        exit(1);
    fprintf(out, "```cuda\n#define S_%s 1\n", sample->name);
    for (const struct row *one = sample + 1; one < rows + ROWS && one->what != A_SAMPLE; one++)
        if (one->what == A_VARIANT)
            fprintf(out, "#define V_%s %d\n", one->name, one == row);
    fprintf(out, "%s%s\n```\n\n```json\n{\"entry\": \"variant\", \"guards\": [], \"params\": ",
            common.data, source.data);
    put_list(out, sample->text[PARAMS]);
    fputs(", \"globals\": ", out);
    put_list(out, sample->text[GLOBALS]);
    fputs(", \"launch\": {\"grid\": ", out);
    put_list(out, launch->text[GRID]);
    fputs(", \"block\": ", out);
    put_list(out, launch->text[BLOCK]);
    fprintf(out, ", \"shared\": \"%s\"}, \"note\": \"%s\"}\n```\n", launch->text[SHARED],
            row->name);
    fclose(out);
    bytes_free(&common);
    bytes_free(&source);
    return text;
}

/* ---- verdicts ----------------------------------------------------------------------------------
 */

/* What each gate refused, of hostile rows and of honest ones. */
static struct {
    char gate[32];
    unsigned hostile, honest;
} caught[MOST_GATES];

static void count(const char *gate, bool honest)
{
    for (int i = 0; i < MOST_GATES; i++) {
        if (*caught[i].gate && strcmp(caught[i].gate, gate))
            continue;
        snprintf(caught[i].gate, sizeof caught[i].gate, "%s", gate);
        caught[i].hostile += !honest;
        caught[i].honest += honest;
        return;
    }
}

static bool hostile(const struct row *row)
{
    return row->kind == HOSTILE || row->kind == MISSED;
}

/* Found right; that it is not faster is another question. */
static bool accepted(const struct verdict *verdict)
{
    return verdict->status == KG_OK || verdict->status == KG_SLOWER;
}

/* Whether the verdict is the one that the row asks for. That a variant is not faster is no
 * judgement of its results: an honest one may be slower, a hostile one must be found out all the
 * same. */
static bool right(const struct row *row, const struct verdict *verdict)
{
    return hostile(row) ? !accepted(verdict) && name_listed(row->text[GATES], verdict->gate)
                        : accepted(verdict);
}

static kg_status judge(struct job *job, const struct row *sample, const struct row *row,
                       struct candidate *candidate, struct verdict *out)
{
    char message[MESSAGE] = "";
    size_t size = 0;
    *out = (struct verdict){0};
    if (!candidate->source) {
        char *reply = reply_make(sample, row, &size);
        kg_status status = reply_parse(job, reply, size, candidate, message, sizeof message);
        free(reply);
        const char *step = "reply";
        if (status == KG_OK) {
            step = "compile";
            status = compile_candidate(job, candidate, message, sizeof message);
        }
        if (status != KG_OK) {
            verdict_set(out, status, step, "%s", *message ? message : status_text(status));
            return status;
        }
    }
    /* an option in force is read when a replay begins, and each row has its own */
    static const char *given; /* the options' own text stays known: it is theirs until the end */
    given = given ? given : options()->accuracy;
    ((struct kg_options *)(uintptr_t)options())->accuracy = row->text[ACCURACY];
    return verify_candidate(job, candidate, out);
}

static unsigned wrong_verdicts, known, verdicts;

static void report(const struct row *sample, const struct row *row, const struct verdict *verdict,
                   double seconds)
{
    bool good = right(row, verdict);
    /* what does not even compile is not the known wrong verdict */
    bool excused = (row->kind == MISSED || row->kind == DENIED) &&
                   !name_listed("reply,compile", verdict->gate);
    const char *gate = verdict->status == KG_OK ? "(accepted)" : verdict->gate;
    printf("%-11s %-7s %-11s %-22s %-10s %4.1f s  ",
           good      ? "ok"
           : excused ? hostile(row) ? "NOT CAUGHT" : "REFUSED"
                     : "WRONG",
           kinds[row->kind], sample->name, row->name, gate, seconds);
    if (accepted(verdict))
        printf("%.2f times as fast", verdict->ratio);
    printf("%s%.150s\n", verdict->status == KG_SLOWER ? "; " : "", verdict->reason);
    if (excused && good)
        printf("            this row is judged rightly now: make it %s\n",
               hostile(row) ? "HOSTILE" : "HONEST");
    if (!good)
        printf("            %s\n", row->text[WHAT]);
    fflush(stdout);
    verdicts++;
    known += excused && !good;
    wrong_verdicts += !excused && !good;
    if (verdict->status != KG_OK)
        count(verdict->gate, !hostile(row));
}

/* All seeds of one row; verification draws them itself. Returns whether the last verdict was the
 * one asked for. */
static bool run_row(struct job *job, const struct row *sample, const struct row *row)
{
    struct candidate candidate = {0};
    struct verdict verdict;
    bool good = true;
    for (unsigned seed = 0; seed < asked.seeds && good; seed++) {
        double start = e2e_now();
        judge(job, sample, row, &candidate, &verdict);
        report(sample, row, &verdict, e2e_now() - start);
        good = right(row, &verdict);
        free(verdict.evidence);
        if (!candidate.code.size)
            break; /* it has not come to drawing anything */
    }
    bytes_free(&candidate.code);
    return good;
}

/* ---- samples -----------------------------------------------------------------------------------
 */

/* The first capture in a folder, or an empty text. */
static void first_capture(const char *folder, char path[static KG_PATH])
{
    FILE *ls = popen(e2e_text("ls '%s'/*.kgcap 2>/dev/null", folder), "r");
    if (!ls || !fgets(path, KG_PATH, ls))
        *path = 0;
    if (ls)
        pclose(ls);
    path[strcspn(path, "\n")] = 0;
}

/* One launch of the sample's kernel, captured; the path, or NULL. */
static const char *capture_of(const struct row *sample)
{
    const char *folder = e2e_text("%s/%s", e2e_cache, sample->name);
    const char *argv[24] = {e2e_cli(),
                            "capture",
                            "-o",
                            folder,
                            "--kernel",
                            sample->text[KERNEL],
                            e2e_sample(sample->text[PROGRAM])};
    int used = 7, amount;
    char *rest = e2e_text("%s", sample->text[ARGUMENTS]), path[KG_PATH] = "";
    for (char *word; used < 18 && (word = strsep(&rest, " "));)
        if (*word)
            argv[used++] = word;
    if (!asked.big)
        argv[used++] = "--tiny";
    argv[used++] = e2e_gpu ? "--launches" : "--seconds";
    amount = used;
    argv[amount] = !e2e_gpu ? "0.6" : asked.big ? "200" : "20000";
    for (int attempt = 0; attempt < 3 && !*path; attempt++) { /* a busy machine: too few launches */
        if (e2e_run(argv, NULL, 300) == 0) /* else it says that nothing was captured */
            first_capture(folder, path);
        argv[amount] = !e2e_gpu ? "4" : "60000";
    }
    if (CHECK(*path))
        return e2e_text("%s", path);
    fprintf(stderr, "%s: no launch of %s was captured:\n%s\n", sample->name, sample->text[KERNEL],
            e2e_output);
    return NULL;
}

static bool wanted(const struct row *sample, const struct row *row)
{
    return (!asked.sample || name_listed(asked.sample, sample->name)) &&
           (!row || !asked.variant || name_listed(asked.variant, row->name));
}

/* With the gate switched off, this row is not judged as it should be. Gates that are not here see
 * what another has refused before them, or ask about the original alone: unit/tune_gates has them,
 * on a device of its own. */
static const struct {
    const char *gate, *sample, *variant;
} counts[] = {
#define COUNTS(gate, sample, variant) {#gate, #sample, #variant},
#include "gates.def"
#undef COUNTS
};

static bool counted(const struct row *sample)
{
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (!strcmp(counts[i].sample, sample->name))
            return true;
    return false;
}

static void each_sample(void (*visit)(struct job *job, const struct row *sample))
{
    for (const struct row *sample = rows; sample < rows + ROWS; sample++) {
        if (sample->what != A_SAMPLE || !wanted(sample, NULL) || (asked.gates && !counted(sample)))
            continue;
        const char *path = capture_of(sample);
        struct job job = {.dir = e2e_cache};
        if (path && CHECK(job_open(&job, path) == KG_OK) && CHECK(job_model(&job) == KG_OK))
            visit(&job, sample);
        job_close(&job);
    }
}

static void run_sample(struct job *job, const struct row *sample)
{
    for (const struct row *row = sample + 1; row < rows + ROWS && row->what != A_SAMPLE; row++)
        if (row->what == A_VARIANT && wanted(sample, row))
            run_row(job, sample, row);
}

/* ---- every gate counts -------------------------------------------------------------------------
 */

static void run_without(struct job *job, const struct row *sample)
{
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (strcmp(counts[i].sample, sample->name))
            continue;
        const struct row *row = sample + 1;
        while (row < rows + ROWS && row->what != A_SAMPLE && strcmp(row->name, counts[i].variant))
            row++;
        if (!CHECK(row < rows + ROWS && row->what == A_VARIANT))
            continue;
        struct candidate candidate = {0};
        struct verdict with, without;
        judge(job, sample, row, &candidate, &with);
        verify_gates_off = counts[i].gate;
        judge(job, sample, row, &candidate, &without);
        verify_gates_off = NULL;
        bool good = right(row, &with) && !strcmp(with.gate, counts[i].gate);
        printf("%-13s %-11s %-20s refused by %s; without it: %s%s\n", counts[i].gate, sample->name,
               row->name, with.gate, accepted(&without) ? "accepted" : "refused by ",
               accepted(&without) ? "" : without.gate);
        if (!CHECK(good) || !CHECK(!right(row, &without)))
            fprintf(stderr, "  %s\n  %s\n", with.reason, without.reason);
        free(with.evidence);
        free(without.evidence);
        bytes_free(&candidate.code);
        verdicts += 2;
    }
}

static void summary(void)
{
    printf("\ngate         hostile refused   honest refused or slower\n");
    for (int i = 0; i < MOST_GATES && *caught[i].gate; i++)
        printf("%-12s %15u   %24u\n", caught[i].gate, caught[i].hostile, caught[i].honest);
    printf("%u verdicts, %u wrong, %u known to be wrong\n", verdicts, wrong_verdicts, known);
}

/* ---- the program -------------------------------------------------------------------------------
 */

static int usage(const char *program)
{
    fprintf(stderr,
            "usage: %s [gpu] [--sample NAMES] [--variant NAMES] [--seeds N] [--big] [--off GATES] "
            "[--gates | --samples]\n"
            "  gpu       on this machine's GPU; else on the software GPU\n"
            "  --sample  only these, by comma; --variant likewise\n"
            "  --seeds   verifications of each variant (each draws its own seeds); 1\n"
            "  --big     the samples' full sizes, for a GPU\n"
            "  --off     without these gates: the test must then fail\n"
            "  --samples only names them\n"
            "  --gates   shows that: for each gate, a variant that is judged wrongly without it\n",
            program);
    return 2;
}

static bool arguments(int argc, char **argv)
{
    for (int i = argc > 1 && !strcmp(argv[1], "gpu") ? 2 : 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(argv[i], "--big"))
            asked.big = true;
        else if (!strcmp(argv[i], "--gates"))
            asked.gates = true;
        else if (!strcmp(argv[i], "--samples"))
            asked.names = true;
        else if (!value)
            return false;
        else if (!strcmp(argv[i], "--sample"))
            asked.sample = argv[++i];
        else if (!strcmp(argv[i], "--variant"))
            asked.variant = argv[++i];
        else if (!strcmp(argv[i], "--seeds"))
            asked.seeds = (unsigned)atoi(argv[++i]);
        else if (!strcmp(argv[i], "--off"))
            verify_gates_off = argv[++i];
        else
            return false;
    }
    return asked.seeds > 0;
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "child")) /* replays are children of whoever judges */
        return replay_child(argc - 2, argv + 2);
    if (!arguments(argc, argv))
        return usage(argv[0]);
    if (asked.names) {
        for (const struct row *row = rows; row < rows + ROWS; row++)
            if (row->what == A_SAMPLE)
                puts(row->name);
        return 0;
    }
    e2e_begin(argc, argv);
    setenv("KGENRT_TEST_CLI", e2e_cli(), 1); /* compilations are children of the tool */
    each_sample(asked.gates ? run_without : run_sample);
    if (!asked.gates)
        summary();
    e2e_remove_cache();
    CHECK(verdicts > 0 && !wrong_verdicts);
    if (asked.gates && !asked.sample) /* a row of gates.def may not name what is not there */
        CHECK(verdicts == 2 * sizeof counts / sizeof *counts);
    return test_result();
}
