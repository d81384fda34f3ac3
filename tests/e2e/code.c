/* Code in every form in which programs bring it: `kgenrt status` says of each kernel whether it can
 * be replaced, and else why; names are readable; programs run as ever. The programs are built in
 * e2e/code/ and all run at once, until the flight recorders say of every kernel what it is. On the
 * software GPU cubins are run by their PTX, which SOFTGPU_CUBINS has (tests/softgpu/cubin.c). */
#include "e2e.h"

#include <glob.h>

#include "code/code.h"

enum { PROGRAMS = 24, KERNELS = 10, LIMIT = 240 };

static const char no_ptx[] = "exists as machine code only: there is no PTX to work from";
static const char texture[] = "uses textures or surfaces";
static char *stop, *cubins;

/* One kernel of a program, by its readable name; why: NULL where it can be replaced. */
struct expected {
    const char *name, *why;
};

static const struct expected forms[] = {
    {"scale<float, 4>", NULL},     {"scale<double, 2>", NULL}, {"plain_c", NULL},
    {"(anonymous)::hidden", NULL}, {"variables", NULL},        {"textured", texture},
    {"surfaced", texture},         {"architecture", NULL},     {NULL, NULL}};
static const struct expected machine_code[] = {{"scale<float, 4>", no_ptx},
                                               {"scale<double, 2>", no_ptx},
                                               {"plain_c", no_ptx},
                                               {"(anonymous)::hidden", no_ptx},
                                               {"variables", no_ptx},
                                               {"textured", no_ptx},
                                               {"surfaced", no_ptx},
                                               {"architecture", no_ptx},
                                               {NULL, NULL}};
static const struct expected separate[] = {{"sum", NULL},
                                           {"same_name", NULL},
                                           {"same_name", NULL},
                                           {"parent", "launches kernels itself"},
                                           {NULL, NULL}};
static const char by_driver[] = "is linked by the driver out of parts (nvcc -rdc) that have no "
                                "machine code for this device";
static const struct expected separate_unknown[] = {{"sum", by_driver},
                                                   {"same_name", by_driver},
                                                   {"same_name", by_driver},
                                                   {"parent", by_driver},
                                                   {NULL, NULL}};
static const struct expected one[] = {{"add_one", NULL}, {NULL, NULL}};
static const struct expected two[] = {{"add_one", NULL}, {"add_one", NULL}, {NULL, NULL}};
static const struct expected one_bare[] = {{"add_one", no_ptx}, {NULL, NULL}};

struct program {
    const char *what;
    const struct expected *expected;
    const char *argv[10], *says, *code; /* code: what the driver runs; NULL: not looked at */
    const char *environment[4];
    pid_t pid;
    int out;
};
static struct program programs[PROGRAMS];
static unsigned count;

/* The next program; its file of e2e_code/, and what it prints at its end. */
static struct program *add(const char *what, const char *file, const struct expected *expected)
{
    struct program *p = &programs[count++];
    *p = (struct program){.what = what, .expected = expected, .says = "right"};
    bool runtime = strcmp(file, "jit") != 0;
    p->argv[0] = e2e_text("%s/e2e_code/%s%s", E2E_BUILD, file, runtime && e2e_gpu ? "-static" : "");
    p->argv[1] = stop;
    return p;
}

static struct program *add_jit(const char *what, const struct expected *expected, const char *adds,
                               const char *const words[])
{
    struct program *p = add(what, "jit", expected);
    p->argv[2] = adds;
    for (unsigned i = 0; words[i]; i++)
        p->argv[3 + i] = words[i];
    return p;
}

static const char *cuda_library(const char *name)
{
    return e2e_text("%s/lib64/%s", e2e_place("CUDA_ROOT", CUDA_ROOT), name);
}

static void copy(const char *from, const char *to)
{
    WELL(system(e2e_text("cp '%s' '%s'", from, to)));
}

/* The software GPU's stand-ins for the machine code of a program that has nothing else: the same
 * source's PTX, as `forms` has it. */
static void stand_in(const char *with_code, const char *with_ptx)
{
    struct image_code code, ptx;
    const char *const files[2] = {with_code, with_ptx};
    struct image_code *const out[2] = {&code, &ptx};
    for (int i = 0; i < 2; i++) {
        const char *part = e2e_text("%s/section", e2e_cache);
        struct kg_bytes section;
        WELL(system(e2e_text("objcopy -O binary --only-section=.nv_fatbin "
                             "'%s/e2e_code/%s.o' '%s'",
                             E2E_BUILD, files[i], part)));
        WELL(file_read(part, 64 << 20, &section) != KG_OK);
        WELL(image_select(section.data, section.size, "sm_90", i == 1, out[i]) != KG_OK);
        bytes_free(&section);
    }
    WELL(!code.machine_code || !ptx.ptx.size);
    WELL(file_write(e2e_text("%s/%s.cubin", cubins, with_code), code.selected.data,
                    code.selected.size, 0600) != KG_OK);
    WELL(file_write(e2e_text("%s/%s.ptx", cubins, with_code), ptx.ptx.data, ptx.ptx.size, 0600) !=
         KG_OK);
    image_code_free(&code);
    image_code_free(&ptx);
}

/* Another kernel of the same name: adds 5. */
static const char *another(void)
{
    const char *path = e2e_text("%s/another.ptx", e2e_cache);
    WELL(system(e2e_text("sed 's/, 1;$/, 5;/' '%s/e2e_code/add.ptx' >'%s'", E2E_BUILD, path)));
    return path;
}

static void triton_cache(struct program *p)
{
    const char *folder = e2e_text("%s/triton/0AB1", e2e_cache);
    WELL(system(e2e_text("mkdir -p '%s' && chmod go-w '%s'", folder, folder)));
    copy(e2e_text("%s/e2e_code/add.cubin", E2E_BUILD), e2e_text("%s/add_one.cubin", folder));
    copy(e2e_text("%s/e2e_code/add.ptx", E2E_BUILD), e2e_text("%s/add_one.ptx", folder));
    p->environment[0] = e2e_text("TRITON_CACHE_DIR=%s/triton", e2e_cache);
}

/* What is selected of its image: the program says for what it was compiled, kgenrt what it took. */
static void runs(struct program *p, const char *kind, unsigned sm)
{
    p->says = e2e_text("right, compiled for %u", sm);
    p->code = e2e_text("%s for sm_%u", kind, sm);
}

static void list_programs(void)
{
    const char *cubin = e2e_text("%s/e2e_code/add.cubin", E2E_BUILD);
    const char *ptx = e2e_text("%s/e2e_code/add.ptx", E2E_BUILD), *other = another();
    const char *nvrtc = cuda_library("libnvrtc.so"), *nvjitlink = cuda_library("libnvJitLink.so");
    runs(add("PTX of this architecture", "forms", forms), "PTX", 90);
    runs(add("debug build, LZ4", "forms-debug", forms), "PTX", 90);
    runs(add("PTX of lower and higher architectures", "forms-archs", forms), "PTX", 80);
    runs(add("machine code and PTX, Zstandard", "forms-both", forms),
         e2e_gpu ? "machine code" : "PTX", 90);
    runs(add("machine code only", "forms-sass", machine_code), "machine code", 90);
    add("parts that are linked on the device", "separate-both", separate);
    /* on the software GPU the same text that kgenrt makes of them; hardware links in its own way */
    add("parts that the driver links", "separate", e2e_gpu ? separate_unknown : separate);
    add_jit("one module twice", two, "2", (const char *[]){"files", ptx, ptx, NULL});
    add_jit("two modules, one name", two, "6", (const char *[]){"files", ptx, other, NULL});
    add_jit("a cubin of unknown origin", one_bare, "1", (const char *[]){"files", cubin, NULL})
        ->environment[0] = e2e_text("TRITON_CACHE_DIR=%s/none", e2e_cache);
    triton_cache(
        add_jit("a cubin of Triton's cache", one, "1", (const char *[]){"files", cubin, NULL}));
    add_jit("linked by the driver", one, "1", (const char *[]){"culink", ptx, NULL});
    if (!access(nvrtc, R_OK))
        add_jit("a cubin of NVRTC", one, "1", (const char *[]){"nvrtc", nvrtc, NULL});
    if (!access(nvrtc, R_OK) && !access(nvjitlink, R_OK))
        add_jit("a cubin of nvJitLink", one, "1",
                (const char *[]){"nvjitlink", nvrtc, nvjitlink, NULL});
}

/* ---- running, and what is said of it --------------------------------------------------------- */

static void start_all(void)
{
    for (unsigned i = 0; i < count; i++) {
        struct program *p = &programs[i];
        const char *environment[12] = {e2e_preload(), "KGENRT_MODE=cached",
                                       e2e_text("SOFTGPU_CUBINS=%s", cubins), "SOFTGPU_THREADS=1"};
        for (unsigned j = 0; p->environment[j]; j++)
            environment[4 + j] = p->environment[j];
        char *path = e2e_text("%s/out-%u", e2e_cache, i);
        p->out = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        p->pid = e2e_start(p->argv, environment, p->out);
    }
}

static json_t *process_of(const json_t *status, pid_t pid)
{
    json_t *process;
    size_t i;
    json_array_foreach(json_object_get(status, "processes"), i, process)
    {
        if (json_integer_value(json_object_get(process, "pid")) == pid)
            return process;
    }
    return NULL;
}

/* Whether all is known of its kernels: each has a verdict that is not about to change. */
static bool known(const struct program *p, const json_t *process)
{
    const json_t *kernel;
    size_t i, seen = 0, wanted = 0, fit = 0, wanted_fit = 0;
    for (; p->expected[wanted].name; wanted++)
        wanted_fit += !p->expected[wanted].why;
    json_array_foreach(json_object_get(process, "kernels"), i, kernel)
    {
        seen += !json_is_null(json_object_get(kernel, "eligible"));
        fit += json_is_true(json_object_get(kernel, "eligible"));
    }
    return seen >= wanted && fit >= wanted_fit;
}

static void wait_for_all(void)
{
    double end = e2e_now() + LIMIT;
    unsigned done = 0;
    while (done < count && e2e_now() < end) {
        json_t *status = e2e_json("status", NULL);
        done = 0;
        for (unsigned i = 0; i < count; i++)
            done += known(&programs[i], process_of(status, programs[i].pid));
        json_decref(status);
        if (done < count)
            usleep(200000);
    }
    int fd = open(stop, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && close(fd) == 0);
    for (unsigned i = 0; i < count; i++) {
        struct program *p = &programs[i];
        int status = -1;
        char text[4096] = "";
        CHECK(waitpid(p->pid, &status, 0) == p->pid);
        CHECK(pread(p->out, text, sizeof text - 1, 0) >= 0 && close(p->out) == 0);
        if (!CHECK(WIFEXITED(status) && !WEXITSTATUS(status)) || !CHECK(strstr(text, p->says)))
            fprintf(stderr, "%s: status %x: %s\n", p->what, (unsigned)status, text);
    }
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static const char *text_of_item(const json_t *list, size_t index)
{
    const char *text = json_string_value(json_array_get(list, index));
    return text ? text : "";
}

/* One kernel that bears the name and the verdict, and was not taken before. */
static bool take(const json_t *process, const struct expected *e, bool taken[KERNELS])
{
    const json_t *kernel;
    size_t i;
    json_array_foreach(json_object_get(process, "kernels"), i, kernel)
    {
        bool eligible = json_is_true(json_object_get(kernel, "eligible"));
        if (i >= KERNELS || taken[i] || strcmp(text_of(kernel, "readable"), e->name) ||
            eligible != !e->why || strcmp(text_of(kernel, "why"), e->why ? e->why : ""))
            continue;
        taken[i] = true;
        return *text_of(kernel, "name") &&
               json_number_value(json_object_get(kernel, "launches")) >= 40;
    }
    return false;
}

/* Shares of the process's GPU time: what can be replaced, and the rest by reason. */
static void account(const struct program *p, const json_t *process)
{
    const json_t *time = json_object_get(process, "gpu_time"), *group;
    const json_t *unread = json_object_get(time, "not_read");
    double eligible =
               json_number_value(json_object_get(json_object_get(time, "eligible"), "share")),
           sum = eligible + json_number_value(json_object_get(unread, "share"));
    bool any_fit = false, any_unfit = false;
    size_t i;
    for (unsigned k = 0; p->expected[k].name; k++) {
        any_fit |= !p->expected[k].why;
        any_unfit |= p->expected[k].why != NULL;
    }
    json_array_foreach(json_object_get(time, "left_alone"), i, group)
    {
        CHECK(*text_of(group, "why"));
        sum += json_number_value(json_object_get(group, "share"));
    }
    CHECK(json_integer_value(json_object_get(unread, "kernels")) == 0);
    CHECK(sum > 0.99 && sum < 1.01);
    CHECK((eligible > 0) == any_fit && (eligible < 0.999) == any_unfit);
}

/* The ids of the process's two kernels are equal. */
static bool twins(const json_t *process)
{
    const json_t *kernels = json_object_get(process, "kernels");
    return !strcmp(text_of(json_array_get(kernels, 0), "id"),
                   text_of(json_array_get(kernels, 1), "id"));
}

static void judge(const struct program *p, const json_t *process)
{
    bool taken[KERNELS] = {false}, good = CHECK(process != NULL);
    size_t wanted = 0;
    for (; p->expected[wanted].name; wanted++)
        good &= CHECK(take(process, &p->expected[wanted], taken));
    good &= CHECK(json_array_size(json_object_get(process, "kernels")) == wanted);
    if (strstr(p->what, "one module twice"))
        CHECK(twins(process));
    if (strstr(p->what, "one name"))
        CHECK(!twins(process));
    for (size_t i = 0; p->code && i < wanted; i++)
        good &= CHECK(!strcmp(
            p->code, text_of(json_array_get(json_object_get(process, "kernels"), i), "code")));
    account(p, process);
    if (good)
        return;
    char *text = json_dumps(process, JSON_INDENT(1));
    fprintf(stderr, "---- %s:\n%s\n", p->what, text ? text : "");
    free(text);
}

/* With this variable the driver compiles PTX even where a module has machine code: not what a
 * replay, which does not have it, would run. */
static void forced(void)
{
    const char *ptx = e2e_text("%s/e2e_code/add.ptx", E2E_BUILD);
    const char *const argv[] = {
        e2e_text("%s/e2e_code/jit", E2E_BUILD), "/", "1", "files", ptx, NULL};
    CHECK(
        e2e_run(argv,
                (const char *[]){e2e_preload(), "KGENRT_MODE=cached", "CUDA_FORCE_PTX_JIT=1", NULL},
                60) == 0);
    json_t *status = e2e_json("status", NULL);
    json_t *process = json_array_get(json_object_get(status, "processes"), 0);
    CHECK(!strcmp(text_of(process, "mode"), "observe"));
    CHECK(strstr(text_of_item(json_object_get(process, "notes"), 0), "CUDA_FORCE_PTX_JIT"));
    json_decref(status);
}

/* ---- what is captured can be run again: the original is the code that the driver runs ---------
 */

struct keeping {
    const char *what, *program, *words[4];
    size_t wanted; /* captures */
    char *out;
    pid_t pid;
};

static size_t captures(const char *pattern, const char *folder, glob_t *found)
{
    *found = (glob_t){0};
    return glob(e2e_text("%s/%s", folder, pattern), 0, NULL, found) ? 0 : found->gl_pathc;
}

static size_t number_of(const char *pattern, const char *folder)
{
    glob_t found;
    size_t number = captures(pattern, folder, &found);
    globfree(&found);
    return number;
}

/* `kgenrt capture` of the program, which runs until there is enough or the time is up. */
static void keep(struct keeping *k, const char *until)
{
    const char *argv[12] = {e2e_cli(), "capture", "-o", k->out, k->program, until};
    unsigned count_words = 6;
    if (k->words[0])
        argv[count_words++] = "1";
    for (unsigned i = 0; i < 4 && k->words[i]; i++)
        argv[count_words++] = k->words[i];
    k->pid = e2e_start(
        argv, (const char *[]){"KGENRT_CAPTURES=1", e2e_text("SOFTGPU_CUBINS=%s", cubins), NULL},
        -1);
}

static void replayed(const struct keeping *k)
{
    glob_t found;
    size_t number = captures("*.kgcap", k->out, &found);
    if (!CHECK(number >= k->wanted))
        fprintf(stderr, "%s: %zu captures\n", k->what, number);
    for (size_t i = 0; i < number; i++) {
        int status =
            e2e_run((const char *[]){e2e_cli(), "replay", found.gl_pathv[i], NULL}, NULL, 120);
        if (!CHECK(status == 0))
            fprintf(stderr, "%s: %s\n", k->what, e2e_output);
    }
    globfree(&found);
}

static void replays(void)
{
    const char *nvrtc = cuda_library("libnvrtc.so"), *until = e2e_text("%s/enough", e2e_cache);
    struct keeping all[] = {{"linked on the device", "separate-both", {NULL}, 3, NULL, 0},
                            {"a cubin of NVRTC", "jit", {"nvrtc", nvrtc}, 1, NULL, 0}};
    const size_t number = access(nvrtc, R_OK) ? 1 : 2;
    double end = e2e_now() + LIMIT;
    for (size_t i = 0; i < number; i++) {
        bool runtime = !all[i].words[0];
        all[i].program = e2e_text("%s/e2e_code/%s%s", E2E_BUILD, all[i].program,
                                  runtime && e2e_gpu ? "-static" : "");
        all[i].out = e2e_text("%s/kept-%zu", e2e_cache, i);
        keep(&all[i], until);
    }
    for (size_t done = 0; done < number && e2e_now() < end; usleep(100000)) {
        done = 0;
        for (size_t i = 0; i < number; i++) {
            /* in the program's spool, or moved because its own time was up */
            done += number_of(".kgenrt-*/spool/*.kgcap", all[i].out) >= all[i].wanted ||
                    number_of("*.kgcap", all[i].out) >= all[i].wanted;
        }
    }
    int fd = open(until, O_WRONLY | O_CREAT | O_CLOEXEC, 0600), status;
    CHECK(fd >= 0 && close(fd) == 0);
    for (size_t i = 0; i < number; i++) {
        CHECK(waitpid(all[i].pid, &status, 0) == all[i].pid && WIFEXITED(status) &&
              !WEXITSTATUS(status));
        replayed(&all[i]);
    }
}

/* As a person reads it. */
static void as_text(void)
{
    CHECK(e2e_run((const char *[]){e2e_cli(), "status", NULL}, NULL, 60) == 0);
    CHECK(strstr(e2e_output, "  scale<float, 4>\n") && strstr(e2e_output, "(anonymous)::hidden"));
    CHECK(!strstr(e2e_output, "_Z"));
    CHECK(strstr(e2e_output, "of the GPU time is in kernels that can be replaced"));
    CHECK(strstr(e2e_output, e2e_text("100.0%% in 8 kernels left alone: %s", no_ptx)));
    CHECK(strstr(e2e_output, e2e_text("cannot be replaced: %s", texture)));
}

int main(int argc, char **argv)
{
    e2e_begin(argc, argv);
    if (access(e2e_text("%s/e2e_code/forms", E2E_BUILD), X_OK))
        SKIP("no nvcc here: the programs were not built");
    stop = e2e_text("%s/stop", e2e_cache);
    cubins = e2e_text("%s/cubins", e2e_cache);
    WELL(mkdir(cubins, 0700));
    copy(e2e_text("%s/e2e_code/add.cubin", E2E_BUILD), e2e_text("%s/add.cubin", cubins));
    copy(e2e_text("%s/e2e_code/add.ptx", E2E_BUILD), e2e_text("%s/add.ptx", cubins));
    if (!e2e_gpu)
        stand_in("forms-sass", "forms");
    forced();
    list_programs();
    start_all();
    wait_for_all();
    json_t *status = e2e_json("status", NULL);
    for (unsigned i = 0; i < count; i++)
        judge(&programs[i], process_of(status, programs[i].pid));
    json_decref(status);
    as_text();
    replays();
    fprintf(stderr, "%u programs\n", count);
    if (test_result())
        e2e_show_log();
    e2e_remove_cache();
    return test_result();
}
