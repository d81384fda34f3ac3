/* The tool's face: help of every command, wrong use, exit codes, JSON everywhere; on a machine
 * without a driver, or without a cache. */
#include "cli.h"

static const char *dir;

static const char *const names[] = {"run",    "status", "list",   "show",  "capture",
                                    "replay", "worker", "verify", "doctor"};

static void see_variable(void *self, const char *variable, const char *value, const char *standard,
                         const char *text)
{
    CHECK(cli_says(variable));
}

static void help(void)
{
    static const char *const sections[] = {"NAME\n",      "\nSYNOPSIS\n",    "\nDESCRIPTION\n",
                                           "\nOPTIONS\n", "\nEXIT STATUS\n", "\nENVIRONMENT\n",
                                           "\nEXAMPLES\n"};
    CHECK(cli_run(dir, "$K --help") == 0);
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        CHECK(cli_says(names[i]));
    CHECK(!strstr(cli.out, "\n       child"));
    CHECK(cli_says("\nFILES\n"));
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        CHECK(cli_run(dir, "$K %s --help", names[i]) == 0);
        for (unsigned s = 0; s < sizeof sections / sizeof *sections; s++)
            CHECK(cli_says(sections[s]));
        options_each(see_variable, NULL);
        for (const char *line = cli.out; *line; line += strcspn(line, "\n") + 1)
            CHECK(strcspn(line, "\n") <= 100);
        char *before = strdup(cli.out);
        CHECK(cli_run(dir, "$K help %s", names[i]) == 0);
        CHECK(before && !strcmp(before, cli.out));
        free(before);
    }
    CHECK(cli_run(dir, "$K --version") == 0 && cli_says("kgenrt " KG_VERSION));
}

/* The README's table of options is the one of options.def, and it names every command. */
struct table {
    char text[16384];
    size_t used;
};

static void add_row(void *self, const char *variable, const char *value, const char *standard,
                    const char *text)
{
    struct table *table = self;
    const char *tick = *standard ? "`" : "";
    int length = snprintf(table->text + table->used, sizeof table->text - table->used,
                          "| `%s` | %s%s%s | %s |\n", variable, tick,
                          *standard ? standard : "empty", tick, text);
    if (CHECK(length > 0 && table->used + (size_t)length < sizeof table->text))
        table->used += (size_t)length;
}

static void readme(void)
{
    static char file[1 << 17];
    static struct table table;
    const char *source = getenv("KGENRT_SOURCE_DIR");
    char path[KG_PATH], example[64];
    snprintf(path, sizeof path, "%s/README.md", source && *source ? source : SOURCE_DIR);
    cli_read(path, file, sizeof file);
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(example, sizeof example, "kgenrt %s", names[i]);
        CHECK(strstr(file, example) != NULL);
    }
    char *rows = strstr(file, "| --- | --- | --- |\n");
    char *end = strstr(file, "<!-- end of options -->");
    if (!CHECK(rows && end))
        return;
    rows += strlen("| --- | --- | --- |\n");
    *end = 0;
    options_each(add_row, &table);
    if (!CHECK(!strcmp(rows, table.text)))
        fprintf(stderr, "the README's table of options should be:\n%s", table.text);
}

/* `show --help` says what each gate asks: none of the table in verify.c is left out. */
static void gates(void)
{
    static char file[1 << 17];
    const char *source = getenv("KGENRT_SOURCE_DIR"), *at = file;
    char path[KG_PATH], line[64];
    unsigned count = 0;
    snprintf(path, sizeof path, "%s/runtime/tune/verify.c",
             source && *source ? source : SOURCE_DIR);
    cli_read(path, file, sizeof file);
    CHECK(cli_run(dir, "$K show --help") == 0);
    while ((at = strstr(at, "{\""))) {
        const char *name = at += 2;
        size_t length = strcspn(name, "\"");
        if (strncmp(name + length, "\", gate_", 8) || length > 32)
            continue;
        snprintf(line, sizeof line, " %.*s: ", (int)length, name);
        CHECK(cli_says(line));
        count++;
    }
    CHECK(count >= 11);
}

static void wrong_use(void)
{
    static const struct {
        const char *arguments, *message;
    } cases[] = {
        {"", "a command is missing"},
        {"nonsense", "there is no command 'nonsense'"},
        {"help nonsense", "there is no command 'nonsense'"},
        {"list --nonsense", "there is no option '--nonsense'"},
        {"list -x", "there is no option '-x'"},
        {"list --kernel", "needs an argument"},
        {"list --json=yes", "takes no argument"},
        {"list a", "too much is given, from 'a' on"},
        {"show", "something is missing"},
        {"show a b", "a second name belongs to --analysis"},
        {"show --analysis a b", "a second name belongs to --analysis"},
        {"show a b c", "too much is given, from 'c' on"},
        {"run", "something is missing"},
        {"run --mode fast true", "'fast' is none of"},
        {"run --json true", "there is no option '--json'"},
        {"replay", "something is missing"},
        {"replay --runs 0 f", "--runs must be a number from 1"},
        {"replay --runs many f", "--runs must be a number from 1"},
        {"replay --runs 1x f", "--runs must be a number from 1"},
        {"child", "something is missing"},
        {"child nonsense", "there is no child 'nonsense'"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(cli_run(dir, "$K %s", cases[i].arguments) == 2);
        CHECK(cli_errs(cases[i].message) && cli_errs("--help") && !*cli.out);
    }
}

/* Nothing is there yet: said, with the code for it, as text and as JSON. */
static void nothing(void)
{
    CHECK(cli_run(dir, "$K status") == 3 && cli_says("No program has run under kgenrt"));
    CHECK(cli_run(dir, "$K list") == 3 && cli_says("nothing was tuned"));
    CHECK(cli_run(dir, "$K show softmax") == 3 && cli_errs("'softmax'"));
    CHECK(cli_run(dir, "$K show ./no.kgcap") == 1 && cli_errs("no.kgcap"));
    CHECK(cli_run(dir, "$K show --analysis softmax") == 3 && cli_errs("'softmax'"));
    CHECK(cli_run(dir, "$K show --analysis ./no.kgcap") == 1 && cli_errs("no.kgcap"));
    CHECK(cli_run(dir, "$K show --analysis ./no.ptx") == 1 && cli_errs("no.ptx"));
    CHECK(cli_run(dir, "$K replay ./no.kgcap") == 1 && cli_errs("no.kgcap"));
    static const char *const listings[] = {"status --json", "list -j", "doctor --json",
                                           "doctor --options --json"};
    for (unsigned i = 0; i < sizeof listings / sizeof *listings; i++) {
        cli_run(dir, "$K %s", listings[i]);
        json_t *root = cli_json();
        CHECK(json_is_object(root));
        json_decref(root);
    }
    /* The place of --cache counts, and it wins over the environment. */
    CHECK(cli_run(dir, "$K list --json --cache=%s/other", dir) == 3 && cli_says("/other\""));
    CHECK(cli_run(dir, "$K list --json -C %s/other2", dir) == 3 && cli_says("/other2\""));
    CHECK(cli_run(dir, "$K list > /dev/full") == 1 && cli_errs("standard output"));
}

/* Text for one kind of device only is analysed as that device takes it. */
static void analysis_of_text(void)
{
    static const char *const targets[] = {"sm_75", "sm_90a", "sm_100f"};
    for (unsigned i = 0; i < sizeof targets / sizeof *targets; i++) {
        char path[KG_PATH], text[1024];
        snprintf(path, sizeof path, "%s/text.ptx", dir);
        int size = snprintf(text, sizeof text,
                            ".version 8.8\n.target %s\n.address_size 64\n"
                            ".visible .entry good(.param .u64 p) { .reg .b64 %%d<2>;\n"
                            "ld.param.u64 %%d1, [p]; st.global.u32 [%%d1], 1; ret; }\n"
                            ".visible .entry waits() { nanosleep.u32 20; ret; }\n",
                            targets[i]);
        CHECK(file_write(path, text, (size_t)size, 0600) == KG_OK);
        CHECK(cli_run(dir, "$K show --analysis %s good", path) == 0);
        CHECK(cli_says("replaceable    yes") && cli_says("0: 8 bytes, pointer (line 5), "));
        CHECK(cli_run(dir, "$K show --analysis %s waits", path) == 0);
        CHECK(cli_says("replaceable    no") && cli_says("waits"));
    }
}

/* What doctor says of each state; the driver's absence is a line, not a failure. */
static void doctor(void)
{
    cli_run(dir, "LD_LIBRARY_PATH=%s $K doctor", dir);
    CHECK(cli_says("driver") && cli_says("preload"));
    if (access("/dev/nvidiactl", F_OK))
        CHECK(cli_says("no GPU driver on this machine") &&
              cli_says("Programs would run as they are"));
    CHECK(cli_run(dir, "KGENRT_MODE=off $K doctor") <= 1 && cli_says("kgenrt is switched off"));
    CHECK(cli_run(dir, "KGENRT_MODE=fast $K doctor") == 1 && cli_says("is no mode"));
    CHECK(cli_run(dir, "KGENRT_MAKERS=elves $K doctor") == 1 && cli_says("names no maker"));
    CHECK(cli_run(dir, "KGENRT_MAKERS=recorded:/no/such $K doctor") == 1 &&
          cli_says("'/no/such' cannot be read"));
    CHECK(cli_run(dir, "KGENRT_MAKERS=openai $K doctor") == 1 && cli_says("has no endpoint"));
    CHECK(cli_run(dir, "KGENRT_NVRTC=/no/such.so $K doctor") <= 1 &&
          cli_says("variants written in CUDA C++ cannot be compiled"));
    CHECK(cli_run(dir, "KGENRT_CACHE=/etc/passwd/x $K doctor") == 1 && cli_says("cannot be made"));
    CHECK(cli_run(dir, "mkdir -p %s/open && chmod 777 %s/open && KGENRT_CACHE=%s/open $K doctor",
                  dir, dir, dir) == 1 &&
          cli_says("mode 777"));
    CHECK(cli_run(dir, "$K doctor --options") == 0);
    options_each(see_variable, NULL);
    CHECK(cli_run(dir, "KGENRT_HOT_SHARE=17 $K doctor --options") == 0 &&
          cli_says("KGENRT_HOT_SHARE='17' (default '5')"));
}

int main(void)
{
    dir = cli_start("cli_help");
    if (CHECK(!access(BUILD_DIR "/kgenrt", X_OK))) {
        help();
        readme();
        gates();
        wrong_use();
        nothing();
        analysis_of_text();
        doctor();
    }
    return test_result();
}
