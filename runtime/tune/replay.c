/* The worker's side of a replay: starts the child, reads its lines, and turns whatever becomes of
 * it into a verdict. The child may say nothing, lie, crash or hang: a death is blamed on the gate
 * that it was in. */
#include "tune/job.h"
#include "tune/manners.h"
#include "tune/replay.h"

#include "replaying.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_TEXT = 1 << 20, LONGEST_POLL_MS = 10000 };

/* ---- starting ----------------------------------------------------------------------------------
 */

/* A folder of our own for the request and the code: DIR/work/<pid>-<number>. */
static kg_status make_folder(const char *dir, struct replay_run *run)
{
    static unsigned number;
    char parent[KG_PATH];
    kg_status status = path_make(parent, "%s/work", dir);
    if (status == KG_OK)
        status = dir_make(parent);
    if (status == KG_OK)
        status = path_make(run->folder, "%s/%d-%u", parent, (int)getpid(), number++);
    if (status != KG_OK) {
        *run->folder = 0;
        return status;
    }
    return dir_make(run->folder);
}

static kg_status write_request(struct job *job, const struct candidate *candidate, unsigned runs,
                               const struct manners *manners, const struct replay_run *run,
                               char request_path[static KG_PATH])
{
    char code[KG_PATH], ptx[KG_PATH], signature[KG_ID_TEXT];
    struct replay_request request = {.capture = job->capture_path,
                                     .accuracy =
                                         job->accuracy ? job->accuracy : options()->accuracy,
                                     .seeded = job->seeded,
                                     .gates_off = verify_gates_off,
                                     .repeats = (unsigned)options()->repeats,
                                     .signature = id_text(&job->signature_key, signature),
                                     .guard_pages = options()->guard_pages,
                                     .runs = runs,
                                     .share = manners->share,
                                     .reserve = manners->reserve};
    kg_status status = path_make(request_path, "%s/request.json", run->folder);
    memcpy(request.seeds, job->seeds, sizeof request.seeds);
    request.other_count = job->other_count;
    memcpy(request.others, job->others, sizeof request.others);
    if (status == KG_OK)
        status = path_make(code, "%s/code", run->folder);
    if (status == KG_OK)
        status = path_make(ptx, "%s/ptx", run->folder);
    if (status == KG_OK && candidate) {
        request.code = code;
        request.ptx = candidate->ptx ? ptx : NULL;
        request.entry = candidate->entry;
        request.exact_maker = candidate->maker && !strcmp(candidate->maker, "rules");
        request.launch = candidate->launch;
        request.compiler_version = candidate->compiler_version;
        request.global_count = candidate->global_count;
        request.free_count = job->free_count;
        memcpy(request.free, job->free, job->free_count * sizeof *job->free);
        memcpy(request.globals, candidate->globals, sizeof request.globals);
        status = file_write(code, candidate->code.data, candidate->code.size, 0600);
        if (status == KG_OK && candidate->ptx)
            status = file_write(ptx, candidate->ptx, strlen(candidate->ptx), 0600);
    }
    return status == KG_OK ? request_write(&request, request_path) : status;
}

/* Between fork and exec: only calls that are safe there. */
static void become_child(int result, const char *const *arguments, char **environment)
{
    int high = fcntl(result, F_DUPFD, RESULT_FD + 1); /* out of the way of what follows */
    int null = open("/dev/null", O_RDWR);
    if (high < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
        dup2(high, RESULT_FD) < 0)
        _exit(126);
    if (close_range(RESULT_FD + 1, ~0u, 0))
        _exit(126);
    signal(SIGPIPE, SIG_DFL);
    execve("/proc/self/exe", (char *const *)arguments, environment);
    _exit(126);
}

/* The environment without the preload: a child never tunes itself. NULL when memory is out. */
static char **clean_environment(void)
{
    size_t count = 0, kept = 0;
    while (environ[count])
        count++;
    char **out = calloc(count + 1, sizeof *out);
    for (size_t i = 0; out && i < count; i++)
        if (strncmp(environ[i], "LD_PRELOAD=", 11) && strncmp(environ[i], "LD_AUDIT=", 9))
            out[kept++] = environ[i];
    return out;
}

static kg_status start(struct replay_run *run, const char *request)
{
    const char *arguments[] = {"kgenrt", "child", "replay", request, NULL};
    char **environment = clean_environment();
    int ends[2];
    if (!environment)
        return KG_NO_MEMORY;
    if (pipe2(ends, O_CLOEXEC)) {
        free(environment);
        return KG_CHILD;
    }
    run->pid = fork();
    if (!run->pid)
        become_child(ends[1], arguments, environment);
    free(environment);
    close(ends[1]);
    run->fd = ends[0];
    if (run->pid > 0)
        return KG_OK;
    log_line(KG_WARN, "replay: fork: %s", strerror(errno));
    return KG_CHILD;
}

kg_status replay_begin(struct job *job, const struct candidate *candidate, unsigned runs,
                       struct replay_run *out)
{
    char request[KG_PATH];
    struct manners manners;
    *out = (struct replay_run){.fd = -1, .deadline_off = name_listed(verify_gates_off, "deadline")};
    snprintf(out->gate, sizeof out->gate, "replay");
    kg_status status = manners_wait(job->dir, &manners);
    if (status != KG_OK)
        snprintf(out->why, sizeof out->why, "%s", manners.why);
    if (status == KG_OK)
        status = make_folder(job->dir, out);
    if (status == KG_OK)
        status = write_request(job, candidate, runs, &manners, out, request);
    if (status == KG_OK)
        status = start(out, request);
    out->deadline_ns = now_ns() + (uint64_t)options()->deadline * 1000000000u;
    if (status != KG_OK)
        replay_end(out);
    return status;
}

static void remove_folder(const char *folder)
{
    static const char *const names[] = {"request.json", "code", "ptx", "child", "yield"};
    char path[KG_PATH];
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (path_make(path, "%s/%s", folder, names[i]) == KG_OK && unlink(path) && errno != ENOENT)
            log_line(KG_INFO, "%s: %s", path, strerror(errno));
    if (rmdir(folder) && errno != ENOENT)
        log_line(KG_INFO, "%s: %s", folder, strerror(errno));
}

void replay_end(struct replay_run *run)
{
    if (run->fd >= 0)
        close(run->fd);
    if (run->pid > 0) {
        kill(run->pid, SIGKILL);
        while (waitpid(run->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (*run->folder)
        remove_folder(run->folder);
    free(run->lines);
    json_decref(run->evidence);
    *run = (struct replay_run){.fd = -1};
}

/* ---- reading -----------------------------------------------------------------------------------
 */

static bool number(json_t *json, const char *name, double *out)
{
    json_t *item = json_object_get(json, name);
    if (json_is_number(item))
        *out = json_number_value(item);
    return json_is_number(item);
}

/* Of free pieces; all of them where the child did not say. */
static void take_unshown(const json_t *list, struct verdict *out)
{
    size_t i;
    json_t *item;
    memset(out->unshown, !json_is_array(list), sizeof out->unshown);
    json_array_foreach(list, i, item)
    {
        json_int_t index = json_integer_value(item);
        if (index >= 0 && index < FREE_PIECES)
            out->unshown[index] = true;
    }
}

static void take_end(struct replay_run *run, const char *text, struct verdict *out)
{
    json_t *json = json_loads(text, 0, NULL), *evidence = json_object_get(json, "evidence");
    const char *gate = json_string_value(json_object_get(json, "gate"));
    const char *reason = json_string_value(json_object_get(json, "reason"));
    double status = -1;
    if (!gate || !reason || !number(json, "status", &status) || status < 0 ||
        status >= KG_STATUS_COUNT) {
        verdict_set(out, KG_CHILD, run->gate, "the replay child gave no readable verdict");
    } else {
        verdict_set(out, (kg_status)status, gate, "%s", reason);
        out->exact = json_is_true(json_object_get(json, "exact"));
        number(json, "original_ns", &out->original_ns);
        number(json, "variant_ns", &out->variant_ns);
        number(json, "ratio", &out->ratio);
        number(json, "low", &out->low);
        number(json, "high", &out->high);
        take_unshown(json_object_get(json, "unshown"), out);
        out->evidence = evidence ? json_dumps(evidence, JSON_INDENT(1)) : NULL;
    }
    json_decref(json);
}

/* It leaves a gate: the child tells at its end alone how it fared, and may not come to it. */
static void leave_gate(struct replay_run *run, bool passed)
{
    if (run->gate_ns)
        json_array_append_new(json_object_get(run->evidence, "gates"),
                              json_pack("{ss sf sb}", "name", run->gate, "ms",
                                        (double)(now_ns() - run->gate_ns) * 1e-6, "passed",
                                        passed));
    run->gate_ns = run->evidence ? now_ns() : 0;
}

/* The evidence of a child that gave no end: what it began with, and why there is no more. */
static void blame_evidence(struct replay_run *run, struct verdict *out)
{
    if (!run->evidence)
        return;
    leave_gate(run, false);
    json_object_set_new(run->evidence, "gate", json_string(out->gate));
    json_object_set_new(run->evidence, "died_in", json_string(run->gate));
    json_object_set_new(run->evidence, "reason", json_string(out->reason));
    free(out->evidence);
    out->evidence = json_dumps(run->evidence, JSON_INDENT(1));
}

enum line { LINE_OTHER, LINE_UNTIL, LINE_END };

static enum line take_line(struct replay_run *run, const char *line, const char *until,
                           struct verdict *out)
{
    if (!strncmp(line, "gate ", 5)) {
        leave_gate(run, true);
        snprintf(run->gate, sizeof run->gate, "%.31s", line + 5);
        return until && !strcmp(run->gate, until) ? LINE_UNTIL : LINE_OTHER;
    }
    if (!strncmp(line, "limit ", 6)) {
        long ms = strtol(line + 6, NULL, 10);
        run->launching = ms > 0;
        run->limit_ns = ms > 0 && !run->deadline_off ? now_ns() + (uint64_t)ms * 1000000u : 0;
        return LINE_OTHER;
    }
    if (!strncmp(line, "rest ", 5)) { /* beside a program: not the replay's own time */
        uint64_t ns = strtoul(line + 5, NULL, 10) * 1000000u;
        run->deadline_ns += ns;
        run->limit_ns += run->limit_ns ? ns : 0;
        return LINE_OTHER;
    }
    if (!strncmp(line, "evidence ", 9) && !run->evidence)
        run->evidence = json_loads(line + 9, 0, NULL);
    if (strncmp(line, "end ", 4))
        return LINE_OTHER;
    take_end(run, line + 4, out);
    return LINE_END;
}

/* Takes one whole line out of the buffer; false if there is none yet. */
static bool next_line(struct replay_run *run, char **line)
{
    char *end = run->used ? memchr(run->lines, '\n', run->used) : NULL;
    if (!end)
        return false;
    *end = 0;
    *line = strdup(run->lines);
    size_t taken = (size_t)(end - run->lines) + 1;
    memmove(run->lines, run->lines + taken, run->used - taken);
    run->used -= taken;
    return *line != NULL;
}

/* Waits for more text: 1 got some, 0 the child closed its end, -1 time is over. */
static int more(struct replay_run *run)
{
    uint64_t until = run->deadline_ns, now = now_ns();
    if (run->limit_ns && run->limit_ns < until)
        until = run->limit_ns;
    if (now >= run->deadline_ns)
        return -1;
    struct pollfd wait = {.fd = run->fd, .events = POLLIN};
    uint64_t ms = now < until ? (until - now) / 1000000u + 1 : 0;
    int ready = poll(&wait, 1, ms < LONGEST_POLL_MS ? (int)ms : LONGEST_POLL_MS);
    if (ready < 0)
        return errno == EINTR ? 1 : 0;
    if (!ready) /* the clock is looked at again; the end of the launch may have been said in time */
        return now < until ? 1 : -1;
    if (run->used + 4096 > MOST_TEXT)
        return 0;
    char *room = realloc(run->lines, run->used + 4096);
    if (!room)
        return 0;
    run->lines = room;
    ssize_t got = read(run->fd, run->lines + run->used, 4096);
    if (got > 0)
        run->used += (size_t)got;
    return got > 0 || (got < 0 && errno == EINTR);
}

static void blame_time(struct replay_run *run, struct verdict *out)
{
    bool limit = run->limit_ns && run->limit_ns < run->deadline_ns;
    bool original = name_listed("replay,observed,vacuity", run->gate);
    kill(run->pid, SIGKILL);
    if (run->launching)
        verdict_set(out, KG_TIMEOUT, "deadline", "the variant did not end within %s (in gate %s)",
                    limit ? "many times the original's time" : "KGENRT_DEADLINE", run->gate);
    else
        verdict_set(out, original ? KG_NOT_ELIGIBLE : KG_CHILD, run->gate,
                    "%s took longer than KGENRT_DEADLINE, %ld s",
                    original ? "the original's replay" : "the gates", options()->deadline);
}

/* Nothing on a GPU can send SIGKILL: it was the out-of-memory killer, or a person. The whole
 * verdict is tried once more, in a new child. */
static bool begin_again(struct replay_run *run)
{
    char request[KG_PATH];
    if (run->again || !*run->folder || path_make(request, "%s/request.json", run->folder) != KG_OK)
        return false;
    log_line(KG_WARN, "the replay child was killed (memory, or by somebody): once more");
    close(run->fd);
    run->fd = -1;
    run->again = true;
    run->launching = false;
    run->limit_ns = 0;
    run->used = 0;
    json_decref(run->evidence);
    run->evidence = NULL;
    run->gate_ns = 0;
    snprintf(run->gate, sizeof run->gate, "replay");
    run->deadline_ns = now_ns() + (uint64_t)options()->deadline * 1000000000u;
    return start(run, request) == KG_OK;
}

/* False: there is a new child, and no verdict yet. */
static bool blame_death(struct replay_run *run, struct verdict *out)
{
    int how = 0;
    char death[80];
    pid_t ended = waitpid(run->pid, &how, WNOHANG);
    if (!ended) { /* it closed the pipe and lives on, or is just about to end */
        struct timespec moment = {0, 100000000};
        nanosleep(&moment, NULL);
        ended = waitpid(run->pid, &how, WNOHANG);
    }
    bool lived = !ended;
    if (lived) {
        kill(run->pid, SIGKILL);
        while (waitpid(run->pid, &how, 0) < 0 && errno == EINTR)
            ;
    }
    run->pid = 0;
    if (replaying_ended(run->folder)) {
        verdict_set(out, KG_BUSY, run->gate, "ended for its memory: a program's allocation failed");
        return true;
    }
    bool killed = !lived && WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL;
    if (killed && begin_again(run))
        return false;
    if (lived)
        snprintf(death, sizeof death, "closed its lines");
    else if (killed)
        snprintf(death, sizeof death, "was killed%s (signal 9: memory, or by somebody)",
                 run->again ? " twice" : "");
    else if (WIFSIGNALED(how))
        snprintf(death, sizeof death, "was ended by signal %d", WTERMSIG(how));
    else
        snprintf(death, sizeof death, "ended with code %d", WEXITSTATUS(how));
    if (run->launching || !strcmp(run->gate, "admission")) /* where the driver loads its code */
        verdict_set(out, KG_REFUSED, "fault",
                    "the replay child %s while the variant ran (in gate %s)", death, run->gate);
    else if (name_listed("replay,observed,vacuity", run->gate))
        verdict_set(out, KG_NOT_ELIGIBLE, run->gate, "the replay child %s while the original ran",
                    death);
    else
        verdict_set(out, KG_REFUSED, run->gate, "the replay child %s", death);
    return true;
}

kg_status replay_wait(struct replay_run *run, const char *until, struct verdict *out, bool *ended)
{
    *ended = false;
    for (;;) {
        char *line;
        while (next_line(run, &line)) {
            enum line kind = take_line(run, line, until, out);
            free(line);
            if (kind == LINE_UNTIL)
                return KG_OK;
            if (kind == LINE_END) {
                *ended = true;
                return out->status;
            }
        }
        int got = more(run);
        if (got > 0)
            continue;
        if (got < 0)
            blame_time(run, out);
        else if (!blame_death(run, out))
            continue;
        *ended = true;
        blame_evidence(run, out);
        return out->status;
    }
}
