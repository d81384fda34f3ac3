/* Each form of memory that a program can give a kernel: its launches' results are right under the
 * preload; it is captured, with just the bytes that the app had there, and replays to the app's
 * result; or it is left alone, and `status` says why. And launches of a variant with each form.
 * On the software GPU, or with the argument "gpu" on the machine's. */
#include "memory_forms.h"

#include "capture.h"
#include "made_variant.h"

#include <dirent.h>
#include <sys/prctl.h>
#include <sys/socket.h>

/* On a lent GPU, its neighbours are left alone, and what it can reach is as it is. */
static bool here(const struct form *form)
{
    return (form->make != peer && form->make != pageable) || !getenv("MEMORY_GPU");
}

/* ---- kernels -----------------------------------------------------------------------------------
 */

static const char *const codes[INDEXED + 1] = {
    [PLAIN] = "",
    [GUARDED] = "setp.ge.f32 %p2, %f1, 0f7E967699;\n@!%p2 bra STORE;\n"
                "add.s64 %d7, %d8, %d3; ld.global.f32 %f3, [%d7]; add.f32 %f2, %f2, %f3;\nSTORE:\n",
};

/* turns: of a loop that changes nothing, but that division takes longer than what the rules make of
 * it. */
static const char *kernel_text(const char *name, enum code code, unsigned stride, unsigned number,
                               unsigned turns)
{
    const char *head = ".param .u64 in, .param .u64 out, .param .u64 extra, .param .u32 n",
               *load = "ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out]; ld.param.u64 %d8, "
                       "[extra]; ld.param.u32 %r1, [n];\n",
               *address = "mul.wide.u32 %d6, %r5, ", *also = codes[code] ? codes[code] : "";
    if (code == STRUCT) {
        head = ".param .align 8 .b8 s[40]";
        load = "ld.param.u64 %d1, [s+8]; ld.param.u64 %d2, [s+24]; ld.param.u64 %d8, [s+32]; "
               "ld.param.u32 %r1, [s];\n";
    }
    if (code == INDEXED)
        address = "add.s64 %d7, %d8, %d3; ld.global.u32 %r6, [%d7];\nmul.wide.u32 %d6, %r6, ";
    return e2e_text(
        ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry %s(%s)\n{\n"
        ".reg .pred %%p<4>; .reg .b32 %%r<10>; .reg .f32 %%f<8>; .reg .b64 %%d<10>;\n%s"
        "mov.u32 %%r2, %%ctaid.x; mov.u32 %%r3, %%ntid.x; mov.u32 %%r4, %%tid.x;\n"
        "mad.lo.s32 %%r5, %%r2, %%r3, %%r4;\nsetp.ge.u32 %%p0, %%r5, %%r1;\n@%%p0 bra DONE;\n"
        "cvta.to.global.u64 %%d1, %%d1; cvta.to.global.u64 %%d2, %%d2;\n"
        "cvta.to.global.u64 %%d8, %%d8;\n%smul.wide.u32 %%d3, %%r5, 4;\n%s%u;\n"
        "add.s64 %%d4, %%d1, %%d6; add.s64 %%d5, %%d2, %%d3;\nld.global.f32 %%f1, [%%d4];\n"
        "mov.u32 %%r6, 0;\nAGAIN:\nadd.u32 %%r6, %%r6, 1;\n"
        "div.rn.f32 %%f1, %%f1, 0f40000000; mul.f32 %%f1, %%f1, 0f40000000;\n"
        "setp.lt.u32 %%p1, %%r6, %u;\n@%%p1 bra AGAIN;\n"
        "mov.u32 %%r7, %u; cvt.rn.f32.u32 %%f4, %%r7;\n"
        "fma.rn.f32 %%f2, %%f1, 0f40000000, %%f4;\n%sst.global.f32 [%%d5], %%f2;\nDONE:\nret;\n}\n",
        name, head, load, code == NESTED ? "ld.global.u64 %d1, [%d1];\n" : "", address, stride,
        turns, number, also);
}

static unsigned stride_of(const struct form *form)
{
    return form->stride ? form->stride : 4;
}

enum { GROUPS = 4, PROGRAMS = 5 }; /* at a time: a process captures one launch after another */

static unsigned form_named(const char *name)
{
    unsigned f = 0;
    while (f < form_count && strcmp(forms[f].name, name))
        f++;
    return f;
}

static const char *work_text(const char *name, unsigned turns)
{
    return kernel_text(name, PLAIN, 4, 100, turns);
}

/* ---- the program -------------------------------------------------------------------------------
 */

/* What stands at an element; the first one is the turn's number. */
static float value(unsigned turn, unsigned i)
{
    return i ? (float)(i % 89) - 40 : (float)(turn % 4096);
}

/* A process that makes memory and hands it over as a descriptor, on the socket. */
static int exporter(int out)
{
    CUcontext context;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = on_device(0);
    int fd = -1;
    char byte = 0, space[CMSG_SPACE(sizeof fd)] = "";
    struct iovec data = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    WELL(real_open(NULL));
    WELL(real.cuInit(0));
    WELL(real.cuDevicePrimaryCtxRetain(&context, 0));
    WELL(real.cuMemCreate(&handle, 2 * MIB, &prop, 0));
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    WELL(ENTRY(cuMemExportToShareableHandle)(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                             0));
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    CHECK(sendmsg(out, &message, 0) == 1);
    return test_result();
}

static int receive(int in)
{
    int fd = -1;
    char byte, space[CMSG_SPACE(sizeof fd)];
    struct iovec data = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    WELL(recvmsg(in, &message, 0) != 1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

static void imported(struct memory *m)
{
    int ends[2], status = -1;
    CUmemGenericAllocationHandle handle;
    WELL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    pid_t pid =
        e2e_start((const char *[]){"/proc/self/exe", "exporter", e2e_text("%d", ends[1]), NULL},
                  (const char *[]){"KGENRT_MODE=off", NULL}, -1);
    WELL(waitpid(pid, &status, 0) != pid || status);
    int fd = receive(ends[0]);
    WELL(ENTRY(cuMemImportFromShareableHandle)(&handle, (void *)(intptr_t)fd,
                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    close(ends[0]);
    close(ends[1]);
    m->data = m->in = reserve(32 * MIB);
    map(m->in, 2 * MIB, handle);
    m->out = m->in + MIB;
}

static void fill(const struct memory *m, unsigned stride, unsigned turn)
{
    static float values[COUNT];
    for (unsigned i = 0; i < m->count; i++)
        values[i] = value(turn, i);
    if (stride == 4)
        WELL(real.cuMemcpyAsync(m->data, (uintptr_t)values, 4 * m->count, stream));
    for (unsigned i = 0; stride != 4 && i < m->count; i++)
        WELL(real.cuMemcpyAsync(m->data + (uint64_t)i * stride, (uintptr_t)&values[i], 4, stream));
}

/* Only what changes, where all else stands there already. */
static void touch(const struct memory *m, unsigned turn)
{
    float first = value(turn, 0);
    WELL(real.cuMemcpyAsync(m->data, (uintptr_t)&first, 4, stream));
}

static void launch(CUfunction function, const struct memory *m, enum code code)
{
    unsigned n = m->count;
    struct {
        unsigned n;
        CUdeviceptr in;
        unsigned unused;
        CUdeviceptr out, extra;
    } packed = {n, m->in, 7, m->out, m->extra};
    void *each[] = {(void *)(uintptr_t)&m->in, (void *)(uintptr_t)&m->out,
                    (void *)(uintptr_t)&m->extra, &n};
    void *one[] = {&packed};
    WELL(real.cuLaunchKernel(function, (COUNT + BLOCK - 1) / BLOCK, 1, 1, BLOCK, 1, 1, 0, stream,
                             code == STRUCT ? one : each, NULL));
}

/* One launch with the form's memory, and its result. */
static void turn(const struct form *form, struct memory *m, CUfunction function, unsigned stride,
                 unsigned number, unsigned turn)
{
    static float out[COUNT];
    if (form->before)
        form->before(m);
    if (form->before || turn < 2)
        fill(m, stride, turn);
    else if (m->count)
        touch(m, turn);
    if (form->last)
        form->last(m);
    launch(function, m, form->code);
    if (form->make == pageable) /* whose copies do not wait for the stream */
        WELL(real.cuStreamSynchronize(stream));
    if (m->count)
        WELL(real.cuMemcpyAsync((uintptr_t)out, m->out, 4 * m->count, stream));
    if (form->behind)
        form->behind(m);
    WELL(real.cuStreamSynchronize(stream));
    for (unsigned i = 0; i < m->count; i++)
        if (!CHECK(out[i] == 2 * value(turn, i) + (float)number)) {
            fprintf(stderr, "%s: %g at %u in turn %u\n", form->name, (double)out[i], i, turn);
            exit(1);
        }
}

static CUfunction function_of(const char *name, const char *text)
{
    CUmodule module;
    CUfunction function;
    WELL(real.cuModuleLoadData(&module, text));
    WELL(real.cuModuleGetFunction(&function, module, name));
    return function;
}

static bool runs(unsigned f, unsigned step, bool all)
{
    const struct form *form = &forms[f];
    return here(form) && (step == form_count || !form->alone) &&
           (!all || (form->work && !form->left));
}

/* Forms in turn until the file is there: a group, or one, each with a kernel of its own; "work":
 * all with one kernel; "work-NAME": one with it. */
static int program(const char *stop, const char *what)
{
    bool work = !strncmp(what, "work", 4), all = !strcmp(what, "work");
    unsigned first = form_named(what + (work && !all ? 5 : 0)), step = form_count;
    if (first == form_count) {
        first = all ? 0 : (unsigned)atoi(what);
        step = all ? 1 : GROUPS;
    } else if (forms[first].make == pageable) {
        setenv("SOFTGPU_PAGEABLE", "1", 1); /* where freed memory may pass for the host's */
    }
    static struct memory memory[64];
    CUfunction functions[64];
    CUcontext context;
    WELL(prctl(PR_SET_PDEATHSIG, SIGKILL)); /* it never ends on its own */
    WELL(form_count > 64);
    WELL(real_open(NULL));
    WELL(real.cuInit(0));
    WELL(real.cuDevicePrimaryCtxRetain(&context, 0));
    WELL(real.cuCtxSetCurrent(context));
    WELL(real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    WELL(real.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    WELL(!(driver = dlopen("libcuda.so.1", RTLD_NOW)));
    CUfunction one = work ? function_of("work", work_text("work", 60)) : NULL;
    for (unsigned f = first; f < form_count; f += step) {
        struct memory *m = &memory[f];
        m->count = COUNT;
        functions[f] = work ? one
                            : function_of(forms[f].name, kernel_text(forms[f].name, forms[f].code,
                                                                     stride_of(&forms[f]), f,
                                                                     forms[f].judged ? 100 : 1));
        if (!runs(f, step, all))
            continue;
        if (forms[f].make) {
            forms[f].make(m);
        } else {
            m->data = m->in = plain(BYTES);
            m->out = plain(BYTES);
        }
    }
    for (unsigned t = 0; access(stop, F_OK); t++)
        for (unsigned f = first; f < form_count; f += step)
            if (runs(f, step, all))
                turn(&forms[f], &memory[f], functions[f], work ? 4 : stride_of(&forms[f]),
                     work ? 100 : f, t);
    return test_result();
}

/* ---- the test: captures ------------------------------------------------------------------------
 */

static bool settled[64], unfit[64];
static const char *why[64];

static void look_at(const json_t *kernel)
{
    const char *state = json_string_value(json_object_get(kernel, "state"));
    unsigned f = form_named(json_string_value(json_object_get(kernel, "name")));
    if (f == form_count || (strcmp(state, "unfit") != 0 && strcmp(state, "captured") != 0))
        return;
    settled[f] = true;
    unfit[f] = !strcmp(state, "unfit");
    why[f] = e2e_text("%s", json_string_value(json_object_get(kernel, "why")));
}

/* Whether each form's kernel is captured or left alone. */
static bool all_settled(void)
{
    json_t *status = e2e_json("status", NULL), *process, *one;
    unsigned count = 0;
    size_t i, k;
    json_array_foreach(json_object_get(status, "processes"), i, process)
    {
        json_array_foreach(json_object_get(process, "kernels"), k, one) look_at(one);
    }
    json_decref(status);
    for (unsigned f = 0; f < form_count; f++)
        count += settled[f] || !here(&forms[f]);
    return count == form_count;
}

/* Captured bytes at an address, or NULL. */
static const unsigned char *at(const struct kg_capture *c, uint64_t address, unsigned size,
                               bool after)
{
    for (uint32_t i = 0; i < c->region_count; i++) {
        const struct capture_region *r = &c->regions[i];
        const unsigned char *data = after ? r->after : r->data;
        if (data && address >= r->address && address + size <= r->address + r->size)
            return data + (address - r->address);
    }
    return NULL;
}

static uint64_t word(const unsigned char *bytes, size_t size)
{
    uint64_t out = 0;
    if (CHECK(bytes))
        memcpy(&out, bytes, size);
    return out;
}

static bool number_is(const unsigned char *bytes, float wanted)
{
    return bytes && !memcmp(bytes, &wanted, 4);
}

/* Exactly what the app had before the launch, and what the launch left. */
static void contents(const struct kg_capture *c, unsigned f)
{
    const struct form *form = &forms[f];
    const unsigned char *args = c->args.data;
    uint64_t in = word(args + (form->code == STRUCT ? 8 : 0), 8),
             out = word(args + (form->code == STRUCT ? 24 : 8), 8);
    unsigned n = (unsigned)word(args + (form->code == STRUCT ? 0 : 24), 4), wrong = 0;
    float first = 0;
    if (form->code == NESTED)
        in = word(at(c, in, 8, false), 8);
    CHECK(n == (form->make == hole ? 2 : form->make == nothing ? 0 : COUNT));
    if (n && CHECK(at(c, in, 4, false)))
        memcpy(&first, at(c, in, 4, false), 4);
    for (unsigned i = 0; i < n; i++) {
        float v = i ? value(0, i) : first;
        wrong += !number_is(at(c, in + (uint64_t)i * stride_of(form), 4, false), v) ||
                 !number_is(at(c, out + 4 * (uint64_t)i, 4, true), 2 * v + (float)f);
    }
    if (!CHECK(!wrong))
        fprintf(stderr, "%s: %u elements of its capture are not the app's\n", form->name, wrong);
}

static bool replays(const char *path)
{
    return e2e_run((const char *[]){e2e_cli(), "replay", path, NULL},
                   (const char *[]){"KGENRT_LOG=error", NULL}, 300) == 0;
}

static void captured(void)
{
    bool found[64] = {0};
    const char *folder = e2e_text("%s/spool", e2e_cache);
    DIR *list = opendir(folder);
    for (struct dirent *e; CHECK(list) && (e = readdir(list));) {
        struct kg_capture c;
        const char *path = e2e_text("%s/%s", folder, e->d_name);
        if (!strstr(e->d_name, CAPTURE_SUFFIX) || !CHECK(capture_read(path, &c) == KG_OK))
            continue;
        unsigned f = form_named(c.entry);
        if (CHECK(f < form_count && !found[f])) {
            found[f] = true;
            contents(&c, f);
            if (!CHECK(replays(path)))
                fprintf(stderr, "%s: %s", c.entry, e2e_output);
            if (!forms[f].judged)
                CHECK(unlink(path) == 0);
        }
        capture_free(&c);
    }
    if (list)
        closedir(list);
    for (unsigned f = 0; f < form_count; f++) {
        const char *left = forms[f].left;
        if (!here(&forms[f]))
            continue;
        bool good = CHECK(found[f] == !left && settled[f] && unfit[f] == (left != NULL));
        if (good && left)
            good = CHECK(strstr(why[f], left));
        fprintf(stderr, "%-14s %s\n", forms[f].name,
                !settled[f] ? "not settled"
                : unfit[f]  ? why[f]
                            : "captured");
    }
}

/* Runs the programs until `done`. */
static void run(const char *const whats[], const char *const environment[], bool (*done)(void))
{
    const char *stop = e2e_text("%s/stop-%s", e2e_cache, whats[0]);
    pid_t pids[PROGRAMS] = {0};
    bool over = false, alive = true;
    for (unsigned i = 0; i < PROGRAMS && whats[i]; i++)
        pids[i] = e2e_start((const char *[]){"/proc/self/exe", "program", whats[i], stop, NULL},
                            environment, -1);
    for (double end = e2e_now() + 500; !over && alive && e2e_now() < end;) {
        for (unsigned i = 0; i < PROGRAMS && pids[i]; i++) {
            siginfo_t ended = {.si_pid = 0}; /* none of them ends before it is told to */
            alive &=
                !waitid(P_PID, (id_t)pids[i], &ended, WEXITED | WNOHANG | WNOWAIT) && !ended.si_pid;
        }
        if (alive && !(over = done()))
            usleep(200000);
    }
    CHECK(over && alive);
    CHECK(file_write(stop, "", 0, 0600) == KG_OK);
    for (unsigned i = 0; i < PROGRAMS && pids[i]; i++) {
        int status = -1;
        if (!CHECK(waitpid(pids[i], &status, 0) == pids[i] && status == 0))
            fprintf(stderr, "program %s: status 0x%x\n", whats[i], (unsigned)status);
    }
}

/* What the worker made of the captures that are left: a variant by its own rules where buffers go
 * over several mappings; where one goes over a hole, nothing is held against the candidate but that
 * it is no faster. */
static void judged(pid_t worker)
{
    int status = -1;
    CHECK(waitpid(worker, &status, 0) == worker && status == 0);
    json_t *list = e2e_json("list", NULL), *all = e2e_json("status", NULL), *one;
    json_t *variants = json_object_get(list, "variants");
    CHECK(e2e_gpu || json_array_size(variants) >= 1); /* a GPU may be too fast for a gain */
    size_t i;
    json_array_foreach(json_object_get(all, "rejections"), i, one)
    {
        CHECK(!strcmp(json_string_value(json_object_get(one, "gate")), "time"));
    }
    CHECK(json_array_size(variants) + json_array_size(json_object_get(all, "rejections")) == 2);
    json_decref(list);
    json_decref(all);
}

/* ---- the test: a variant -----------------------------------------------------------------------
 */

static int publish(void)
{
    struct made made;
    struct kg_scalar scalars[] = {{3, 0, 4, COUNT, 0}};
    struct kg_pointer pointers[] = {{0, 0, 16, KG_READ, 0, BYTES},
                                    {1, 0, 16, KG_WRITTEN, 0, BYTES}};
    struct kg_variant v = made_begin(&made, work_text("work", 60));
    v.launch = (struct kg_launch){{(COUNT + BLOCK - 1) / BLOCK, 1, 1}, {BLOCK, 1, 1}, 0};
    v.signature = (struct kg_signature){.launch = v.launch,
                                        .scalar_count = 1,
                                        .pointer_count = 2,
                                        .scalars = scalars,
                                        .pointers = pointers};
    v.note = "fast";
    made_publish(&made, &v, work_text("fast", 2), "{}");
    return test_result();
}

static json_t *variant_of(const json_t *process)
{
    json_t *kernel = json_array_get(json_object_get(process, "kernels"), 0);
    return json_array_get(json_object_get(kernel, "variants"), 0);
}

static long number(const json_t *from, const char *key)
{
    return (long)json_number_value(json_object_get(from, key));
}

/* The variant runs, and its launches are checked. */
static bool checked_enough(void)
{
    json_t *status = e2e_json("status", NULL);
    json_t *one = variant_of(json_array_get(json_object_get(status, "processes"), 0));
    long differed = number(one, "differed"),
         memory = number(json_object_get(one, "skipped"), "memory");
    bool enough = number(one, "checked") >= 30 && json_is_true(json_object_get(one, "in_use"));
    if ((enough || differed) && !CHECK(!differed && !memory))
        fprintf(stderr, "%ld differed, %ld not checked for their memory\n", differed, memory);
    json_decref(status);
    return enough || differed;
}

/* In each process: the variant is not used, and why not is said. */
static bool foreign_said(void)
{
    json_t *status = e2e_json("status", NULL), *process;
    size_t i;
    unsigned count = 0, wanted = e2e_gpu ? 3 : 5;
    char said[512] = "";
    long swapped = 0;
    json_array_foreach(json_object_get(status, "processes"), i, process)
    {
        const json_t *one = variant_of(process);
        const char *text = json_string_value(json_object_get(one, "said"));
        size_t used = strlen(said);
        if (!text || !strstr(text, "is not used: it is given ") ||
            !number(json_object_get(one, "skipped"), "kind"))
            continue;
        count++;
        swapped += number(json_array_get(json_object_get(process, "kernels"), 0), "swapped");
        snprintf(said + used, sizeof said - used, "%s\n", text);
    }
    json_decref(status);
    if (count == wanted && !CHECK(!swapped))
        fprintf(stderr, "%ld launches of it\n", swapped);
    fprintf(stderr, "%s", count == wanted ? said : "");
    return count == wanted;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "publish"))
        return publish();
    if (argc > 2 && !strcmp(argv[1], "exporter"))
        return exporter(atoi(argv[2]));
    if (argc > 3 && !strcmp(argv[1], "program"))
        return program(argv[3], argv[2]);
    e2e_begin(argc, argv);
    if (e2e_gpu)
        setenv("MEMORY_GPU", "1", 1);
    setenv("SOFTGPU_DEVICES", "2", 1);
    run((const char *[]){"0", "1", "2", "3", e2e_gpu ? NULL : "pageable"},
        (const char *[]){e2e_preload(), "KGENRT_WORKER=off", "KGENRT_HOT_SHARE=0",
                         "KGENRT_HOT_LAUNCHES=10", "KGENRT_CAPTURES=1", "KGENRT_CAPTURE_MIB=16",
                         NULL},
        all_settled);
    captured();
    char first[sizeof e2e_cache];
    memcpy(first, e2e_cache, sizeof first);
    pid_t worker = e2e_start((const char *[]){e2e_cli(), "worker", "--once", NULL},
                             (const char *[]){"KGENRT_MAKERS=rules", "KGENRT_REPEATS=3", NULL}, -1);
    e2e_fresh_cache();
    const char *const cached[] = {e2e_preload(),         "KGENRT_WORKER=off",
                                  "KGENRT_MODE=cached",  "KGENRT_SHADOW_FIRST=40",
                                  "KGENRT_LIVE_PAIRS=0", NULL};
    CHECK(e2e_run((const char *[]){"/proc/self/exe", "publish", NULL}, NULL, 60) == 0);
    run((const char *[]){"work", NULL}, cached, checked_enough);
    run((const char *[]){"work-managed", "work-host_mapped", "work-registered",
                         e2e_gpu ? NULL : "work-pageable", "work-peer"},
        cached, foreign_said);
    if (test_failures && e2e_run((const char *[]){e2e_cli(), "status", NULL}, NULL, 60) >= 0)
        e2e_show_log(); /* it goes with its cache */
    e2e_remove_cache();
    memcpy(e2e_cache, first, sizeof first);
    setenv("KGENRT_CACHE", first, 1);
    judged(worker);
    if (test_failures)
        e2e_show_log();
    e2e_remove_cache();
    return test_result();
}
