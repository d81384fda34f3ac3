/* Compilation as the worker sees it: a child process that is asked one thing through a memory file
 * and answers through a pipe, within a deadline. The worker itself never hands a candidate's text
 * to a compiler, and believes no size that the child reports. */
#include "tune/compile.h"

#include "tune/tune.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ENVIRONMENT = 8, LEAST_SECONDS = 2 };

struct compilation {
    char program[KG_PATH], folder[KG_PATH];
    char *environment[ENVIRONMENT + 1];
    int input, output; /* the child's standard input; our end of its standard output */
    pid_t pid;
};

/* The tool itself, or, for a unit test that is not the tool, what KGENRT_TEST_CLI names. */
static kg_status find_tool(char out[static KG_PATH])
{
    ssize_t length = readlink("/proc/self/exe", out, KG_PATH - 1);
    if (length > 0) {
        out[length] = 0;
        const char *name = strrchr(out, '/');
        const char *test = getenv("KGENRT_TEST_CLI");
        if (name && !strncmp(name, "/kgenrt", 7))
            return path_make(out, "/proc/self/exe");
        if (test && *test)
            return path_make(out, "%s", test);
    }
    log_line(KG_WARN, "compile: this program is not kgenrt, so it cannot start a compile child");
    return KG_CHILD;
}

/* All the child gets to know of the outside. */
static kg_status environment_make(struct compilation *c, struct kg_arena *arena)
{
    static const char *const kept[] = {"PATH",          "LD_LIBRARY_PATH",  "KGENRT_LOG",
                                       "KGENRT_NVRTC",  "KGENRT_NVJITLINK", "ASAN_OPTIONS",
                                       "UBSAN_OPTIONS", "KGENRT_DEADLINE"};
    _Static_assert(sizeof kept / sizeof *kept <= ENVIRONMENT, "room for each variable");
    unsigned count = 0;
    for (unsigned i = 0; i < sizeof kept / sizeof *kept; i++) {
        const char *value = getenv(kept[i]);
        if (!value)
            continue;
        c->environment[count] = arena_format(arena, "%s=%s", kept[i], value);
        if (!c->environment[count++])
            return KG_NO_MEMORY;
    }
    return KG_OK;
}

static kg_status question_write(struct compilation *c, const struct compile_question *question,
                                const char *text)
{
    c->input = memfd_create("candidate", MFD_CLOEXEC);
    if (c->input >= 0 && write_all(c->input, question, sizeof *question) &&
        write_all(c->input, text, (size_t)question->size + 1) && !lseek(c->input, 0, SEEK_SET))
        return KG_OK;
    log_line(KG_WARN, "compile: the candidate cannot be handed over: %s", strerror(errno));
    return KG_IO;
}

/* Between fork and exec: only what is safe after a fork of a process with threads. */
static _Noreturn void become_child(const struct compilation *c, int output)
{
    char *const arguments[] = {(char *)"kgenrt", (char *)"child", (char *)"compile", NULL};
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* above 2 first: a worker whose standard descriptors are closed got these numbers here */
    int in = fcntl(c->input, F_DUPFD, 3), out = fcntl(output, F_DUPFD, 3);
    if (in >= 3 && out >= 3 && dup2(in, 0) == 0 && dup2(out, 1) == 1 && !chdir(c->folder) &&
        !close_range(3, ~0U, CLOSE_RANGE_CLOEXEC))
        execve(c->program, arguments, c->environment);
    _exit(127);
}

static kg_status child_start(struct compilation *c)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) {
        log_line(KG_WARN, "compile: no pipe: %s", strerror(errno));
        return KG_IO;
    }
    c->output = ends[0];
    c->pid = fork();
    if (!c->pid)
        become_child(c, ends[1]);
    close(ends[1]);
    if (c->pid > 0)
        return KG_OK;
    log_line(KG_WARN, "compile: no child process: %s", strerror(errno));
    return KG_CHILD;
}

/* Exactly size bytes, or what was wrong. */
static kg_status answer_part(struct compilation *c, void *out, size_t size, uint64_t deadline)
{
    for (size_t done = 0; done < size;) {
        uint64_t now = now_ns();
        if (now >= deadline)
            return KG_TIMEOUT;
        struct pollfd ready = {.fd = c->output, .events = POLLIN};
        int events = poll(&ready, 1, (int)((deadline - now) / 1000000) + 1);
        if (events < 0 && errno != EINTR)
            return KG_IO;
        if (events <= 0)
            continue;
        ssize_t n = read(c->output, (char *)out + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return KG_CHILD;
        done += (size_t)n;
    }
    return KG_OK;
}

static kg_status answer_bytes(struct compilation *c, size_t size, uint64_t deadline,
                              struct kg_bytes *out)
{
    out->data = calloc(1, size + 1);
    if (!out->data)
        return KG_NO_MEMORY;
    out->size = size;
    return answer_part(c, out->data, size, deadline);
}

/* Takes the answer into the candidate; texts with a NUL inside are cut there by their users. */
static kg_status answer_read(struct compilation *c, struct job *job, struct candidate *candidate,
                             uint64_t deadline, char *message, size_t message_size)
{
    struct compile_answer answer;
    kg_status status = answer_part(c, &answer, sizeof answer, deadline);
    if (status != KG_OK)
        return status;
    if (answer.magic != COMPILE_MAGIC || answer.status >= KG_STATUS_COUNT ||
        answer.message > COMPILE_MESSAGE || answer.ptx > COMPILE_PTX_LIMIT ||
        answer.code > COMPILE_CODE_LIMIT || !memchr(answer.entry, 0, sizeof answer.entry))
        return KG_CHILD;
    struct kg_bytes words = {0}, ptx = {0}, code = {0};
    status = answer_bytes(c, answer.message, deadline, &words);
    if (status == KG_OK)
        status = answer_bytes(c, answer.ptx, deadline, &ptx);
    if (status == KG_OK)
        status = answer_bytes(c, answer.code, deadline, &code);
    if (status == KG_OK) {
        status = (kg_status)answer.status;
        snprintf(message, message_size, "%s", (const char *)words.data);
    }
    if (status == KG_OK) {
        candidate->ptx = arena_copy(&job->arena, (const char *)ptx.data, ptx.size);
        candidate->entry = arena_copy(&job->arena, answer.entry, strlen(answer.entry));
        candidate->code = code;
        candidate->compiler_version = (int)answer.version;
        code = (struct kg_bytes){0};
        if (!candidate->ptx || !candidate->entry)
            status = KG_NO_MEMORY;
    }
    bytes_free(&words);
    bytes_free(&ptx);
    bytes_free(&code);
    return status;
}

static void child_end(struct compilation *c)
{
    if (c->pid > 0) {
        kill(c->pid, SIGKILL);
        while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (c->output >= 0)
        close(c->output);
    if (c->input >= 0)
        close(c->input);
    if (*c->folder && rmdir(c->folder))
        log_line(KG_INFO, "%s: not removed: %s", c->folder, strerror(errno));
}

static kg_status folder_make(struct compilation *c)
{
    const char *base = getenv("TMPDIR");
    kg_status status =
        path_make(c->folder, "%s/kgenrt-compile-XXXXXX", base && *base == '/' ? base : "/tmp");
    if (status == KG_OK && mkdtemp(c->folder))
        return KG_OK;
    if (status == KG_OK)
        log_line(KG_WARN, "%s: cannot be made: %s", c->folder, strerror(errno));
    *c->folder = 0;
    return status == KG_OK ? KG_IO : status;
}

static kg_status ask(struct job *job, const struct compile_question *question, const char *text,
                     struct candidate *candidate, char *message, size_t message_size)
{
    struct compilation c = {.input = -1, .output = -1};
    long seconds = options()->deadline < LEAST_SECONDS ? LEAST_SECONDS : options()->deadline;
    kg_status status = find_tool(c.program);
    if (status == KG_OK)
        status = environment_make(&c, &job->arena);
    if (status == KG_OK)
        status = folder_make(&c);
    if (status == KG_OK)
        status = question_write(&c, question, text);
    if (status == KG_OK)
        status = child_start(&c);
    if (status == KG_OK) {
        uint64_t deadline = now_ns() + (uint64_t)seconds * 1000000000u;
        status = answer_read(&c, job, candidate, deadline, message, message_size);
        if (status == KG_TIMEOUT)
            snprintf(message, message_size, "the compiler did not finish within %ld seconds",
                     seconds);
        else if (status == KG_CHILD)
            snprintf(message, message_size,
                     "the compiler died: the source takes too much memory or time, or breaks it");
    }
    child_end(&c);
    return status;
}

/* A death or a timeout is the candidate's fault: a simpler one compiles. */
kg_status compile_candidate(struct job *job, struct candidate *candidate, char *message,
                            size_t message_size)
{
    const char *text = candidate->source ? candidate->source : candidate->ptx;
    struct compile_question question = {.magic = COMPILE_MAGIC,
                                        .source = candidate->source != NULL,
                                        .machine =
                                            strcmp(job->capture.hardware.vendor, "softgpu") != 0};
    *message = 0;
    if (!text || strlen(text) > COMPILE_PTX_LIMIT) {
        snprintf(message, message_size, "the candidate's text is missing or too long");
        return KG_COMPILE;
    }
    question.size = (uint32_t)strlen(text);
    snprintf(question.arch, sizeof question.arch, "%s", job->capture.hardware.arch);
    if ((size_t)snprintf(question.entry, sizeof question.entry, "%s", candidate->entry) >=
        sizeof question.entry) {
        snprintf(message, message_size, "the entry's name is too long");
        return KG_COMPILE;
    }
    if (question.source) {
        kg_status status = source_admit(text, message, message_size);
        if (status != KG_OK)
            return status;
    }
    kg_status status = ask(job, &question, text, candidate, message, message_size);
    if (status != KG_OK)
        log_line(KG_INFO, "compile: %s: %.400s", candidate->entry,
                 *message ? message : status_text(status));
    return status == KG_TIMEOUT || status == KG_CHILD ? (*message ? KG_COMPILE : status) : status;
}
