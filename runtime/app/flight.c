/* The flight recorder: one file a process, DIR/flight/<pid>-<start>.kgf, that tells what was going
 * on when the process died, and what `kgenrt status` shows while it lives. Locked (flock) as long
 * as the process lives. Written by pwrite into a descriptor of ours, never through a mapping: a
 * full disk must not become a SIGBUS in the app. Never allocates, and never trusts an older file.
 *
 * The form is one JSON object. It begins in exactly this way, so that the next start can read it
 * without a JSON parser, and two fields can be changed in place (blanks fill up to their width):
 *   {"version":1,"clean":false,"reading_snapshot":"",<64 blanks>"late":["<variant id>",…],
 * late: variants that may have run. Then: pid, program, start (seconds since 1970), mode, event
 * (why it was written), fault, snapshot, hardware {vendor, name, arch, uuid, driver_version},
 * notes, and kernels [{id, name, state, why, launches, swapped, first_swapped_launch, refused
 * {reason: count}, share, before_ns, after_ns, samples, seconds_to_swap, variants [{id, ratio}]}],
 * left_out (kernels that found no room). */
#include "app/inside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "app/json.h"

enum {
    LATE = 256,       /* variants in use in one process */
    SUSPECTS = 512,   /* variants of processes that died */
    BAD = 16,         /* snapshots that a process died over */
    KEEP = 20,        /* files of dead processes */
    HIGH_FD = 500,    /* the app's own descriptor numbers stay as they would be */
    TEXT = 256 << 10, /* bytes of the largest file */
    OLD = 32 << 10,   /* bytes of an older file that are read */
};

#define PREFIX_CLEAN "{\"version\":1,\"clean\":"
#define PREFIX_READING ",\"reading_snapshot\":"
enum {
    CLEAN_AT = sizeof PREFIX_CLEAN - 1,
    CLEAN_WIDTH = 5, /* false */
    READING_AT = CLEAN_AT + CLEAN_WIDTH + sizeof PREFIX_READING - 1,
    READING_WIDTH = 2 + 2 * KG_ID_BYTES,
};

static struct {
    pthread_mutex_t mutex; /* over what follows; taken after records_lock, if both */
    int fd;
    dev_t device;
    ino_t inode;
    char path[KG_PATH];
    uint64_t start;
    char program[256];
    const char *event;
    char fault[64];
    char reading[KG_ID_TEXT];
    struct kg_id late[LATE];
    unsigned late_count;
    char texts[2][TEXT]; /* as written last, and the next */
    size_t written;
    int next;
} flight = {.mutex = PTHREAD_MUTEX_INITIALIZER, .fd = -1, .event = "start"};

/* Filled at start, constant then. */
static struct {
    struct kg_id variant;
    uint64_t time;
} suspects[SUSPECTS];
static unsigned suspect_count;
static struct kg_id bad[BAD];
static unsigned bad_count;

/* ---- the descriptor -----------------------------------------------------------------------------
 */

static bool is_ours(int fd)
{
    struct stat info;
    return fd >= 0 && !fstat(fd, &info) && info.st_dev == flight.device &&
           info.st_ino == flight.inode;
}

/* Moved to a high number, locked; our identity of it is kept. */
static bool adopt(int low)
{
    int fd = fcntl(low, F_DUPFD_CLOEXEC, HIGH_FD);
    if (fd < 0) /* a small limit on descriptors */
        fd = fcntl(low, F_DUPFD_CLOEXEC, 64);
    close(low);
    struct stat info;
    if (fd < 0 || fstat(fd, &info)) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    int tries = 50; /* a reader that asks who lives holds it for microseconds */
    while (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK && --tries)
        usleep(1000);
    if (!tries)
        log_line(KG_INFO, "%s: cannot be locked: somebody else holds it", flight.path);
    flight.device = info.st_dev;
    flight.inode = info.st_ino;
    flight.fd = fd;
    return true;
}

/* An app may close every descriptor, and its own file may now have our number: then the recorder is
 * opened again by its name. */
static bool ready(void)
{
    if (is_ours(flight.fd))
        return true;
    if (flight.fd < 0)
        return false;
    flight.fd = -1;
    int fd = open(flight.path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (is_ours(fd))
        return adopt(fd);
    if (fd >= 0)
        close(fd);
    return false;
}

static bool put_at(const void *data, size_t size, off_t at)
{
    ssize_t done;
    do
        done = pwrite(flight.fd, data, size, at);
    while (done < 0 && errno == EINTR);
    return done == (ssize_t)size;
}

/* ---- the text -----------------------------------------------------------------------------------
 */

static const char *const state_names[] = {
    [KERNEL_NEW] = "new",         [KERNEL_COLD] = "cold",           [KERNEL_UNFIT] = "unfit",
    [KERNEL_WANTED] = "wanted",   [KERNEL_CAPTURING] = "capturing", [KERNEL_CAPTURED] = "captured",
    [KERNEL_SWAPPED] = "swapped",
};
static const char *const mode_names[] = {"off", "observe", "cached", "tune"};

static void put_id(struct jout *out, const struct kg_id *id)
{
    char text[KG_ID_TEXT];
    jout_text(out, id ? id_text(id, text) : "");
}

static void put_reading(struct jout *out)
{
    char field[READING_WIDTH + 1];
    char quoted[READING_WIDTH + 1];
    snprintf(quoted, sizeof quoted, "\"%s\"", flight.reading);
    snprintf(field, sizeof field, "%-*s", READING_WIDTH, quoted);
    jout_raw(out, field);
}

static void put_prefix(struct jout *out)
{
    jout_raw(out, PREFIX_CLEAN "false" PREFIX_READING);
    put_reading(out);
    jout_raw(out, ",\"late\":[");
    for (unsigned i = 0; i < flight.late_count; i++) {
        jout_raw(out, i ? "," : "");
        put_id(out, &flight.late[i]);
    }
    jout_raw(out, "]");
}

static void put_note(void *self, const char *note)
{
    struct jout *out = self;
    jout_comma(out);
    jout_text(out, note);
}

static void put_process(struct jout *out)
{
    struct kg_hardware hw = {0};
    struct kg_id key;
    (void)app_hardware(&hw, &key);
    jout_raw(out, ",\"pid\":"), jout_integer(out, (uint64_t)getpid());
    jout_raw(out, ",\"program\":"), jout_text(out, flight.program);
    jout_raw(out, ",\"start\":"), jout_integer(out, flight.start);
    jout_raw(out, ",\"mode\":"), jout_text(out, mode_names[app_mode()]);
    jout_raw(out, ",\"event\":"), jout_text(out, flight.event);
    jout_raw(out, ",\"fault\":"), jout_text(out, flight.fault);
    jout_raw(out, ",\"snapshot\":"), put_id(out, variants_snapshot());
    jout_raw(out, ",\"hardware\":{\"vendor\":"), jout_text(out, hw.vendor);
    jout_raw(out, ",\"name\":"), jout_text(out, hw.name);
    jout_raw(out, ",\"arch\":"), jout_text(out, hw.arch);
    jout_raw(out, ",\"uuid\":"), jout_text(out, hw.uuid);
    jout_raw(out, ",\"driver_version\":"), jout_integer(out, (uint64_t)hw.driver_version);
    jout_raw(out, "},\"notes\":[");
    app_notes_each(put_note, out);
    jout_raw(out, "]");
}

static void put_counts(struct jout *out, struct kernel *k)
{
    jout_raw(out, ",\"launches\":"), jout_integer(out, atomic_load(&k->launches));
    jout_raw(out, ",\"swapped\":"), jout_integer(out, atomic_load(&k->swapped));
    jout_raw(out, ",\"first_swapped_launch\":"), jout_integer(out, atomic_load(&k->first_swapped));
    jout_raw(out, ",\"refused\":{");
    for (int i = 0; i < REFUSAL_COUNT; i++) {
        uint64_t count = atomic_load_explicit(&k->refused[i], memory_order_relaxed);
        if (!count)
            continue;
        jout_comma(out);
        jout_text(out, refusal_texts[i]);
        jout_raw(out, ":"), jout_integer(out, count);
    }
    jout_raw(out, "},\"share\":"), jout_decimal(out, hot_share(k));
    jout_raw(out, ",\"before_ns\":"), jout_decimal(out, k->before_ns);
    jout_raw(out, ",\"after_ns\":"), jout_decimal(out, k->after_ns);
    jout_raw(out, ",\"samples\":"), jout_integer(out, k->samples + k->after_samples);
    double seconds = k->swapped_ns > k->first_seen_ns && k->first_seen_ns
                         ? (double)(k->swapped_ns - k->first_seen_ns) / 1e9
                         : 0;
    jout_raw(out, ",\"seconds_to_swap\":"), jout_decimal(out, seconds);
}

static void put_kernel(struct jout *out, struct kernel *k)
{
    int state = atomic_load_explicit(&k->state, memory_order_acquire);
    jout_comma(out);
    jout_raw(out, "{\"id\":"), put_id(out, k->modelled ? &k->model.id : NULL);
    jout_raw(out, ",\"name\":"), jout_text(out, k->name);
    jout_raw(out, ",\"state\":"), jout_text(out, state_names[state]);
    jout_raw(out, ",\"why\":"), jout_text(out, state == KERNEL_UNFIT && k->why ? k->why : "");
    put_counts(out, k);
    jout_raw(out, ",\"variants\":[");
    const struct swap *swap = atomic_load_explicit(&k->swap, memory_order_acquire);
    for (uint32_t i = 0; swap && i < swap->count; i++) {
        jout_comma(out);
        jout_raw(out, "{\"id\":"), put_id(out, &swap->entries[i].variant);
        jout_raw(out, ",\"ratio\":"), jout_decimal(out, swap->entries[i].ratio), jout_raw(out, "}");
    }
    jout_raw(out, "]}");
}

static bool matters(struct kernel *k)
{
    int state = atomic_load_explicit(&k->state, memory_order_relaxed);
    return state > KERNEL_COLD || atomic_load_explicit(&k->swapped, memory_order_relaxed);
}

/* Those that matter first, so that a lack of room hits the others. */
static void put_kernels(struct jout *out)
{
    uint64_t left_out = 0;
    jout_raw(out, ",\"kernels\":[");
    for (int round = 0; round < 2; round++)
        for (struct kernel *k = kernels_first(); k; k = k->next) {
            if (k->retired_ns || !atomic_load_explicit(&k->launches, memory_order_relaxed) ||
                matters(k) != !round)
                continue;
            size_t before = out->used;
            put_kernel(out, k);
            if (out->full || out->used > TEXT - 64) {
                jout_cut(out, before);
                left_out++;
            }
        }
    jout_raw(out, "],\"left_out\":"), jout_integer(out, left_out);
    jout_raw(out, "}\n");
}

/* Locked, under flight.mutex. Nothing is written where nothing changed. */
static void write_state(void)
{
    struct jout out = {.data = flight.texts[flight.next], .size = TEXT};
    put_prefix(&out);
    put_process(&out);
    put_kernels(&out);
    const char *last = flight.texts[!flight.next];
    while (out.used < flight.written)
        out.data[out.used++] = ' '; /* the file never shrinks: no moment with an old text's tail */
    if (out.full || !ready() || (out.used == flight.written && !memcmp(out.data, last, out.used)))
        return;
    if (!put_at(out.data, out.used, 0))
        return; /* a full disk: tried again in a second */
    flight.written = out.used;
    flight.next = !flight.next;
}

void flight_write(const char *event)
{
    pthread_mutex_lock(&flight.mutex);
    flight.event = event;
    if (flight.fd >= 0)
        write_state();
    pthread_mutex_unlock(&flight.mutex);
}

void flight_tick(void)
{
    static uint64_t next;
    uint64_t now = now_ns();
    if (now < next)
        return;
    next = now + 1000000000u;
    flight_write(flight.event);
}

bool flight_late(const struct kg_id *variant)
{
    pthread_mutex_lock(&flight.mutex);
    unsigned i = 0;
    while (i < flight.late_count && !id_equal(&flight.late[i], variant))
        i++;
    bool room = i < LATE && flight.fd >= 0;
    if (room && i == flight.late_count)
        flight.late[flight.late_count++] = *variant;
    pthread_mutex_unlock(&flight.mutex);
    return room;
}

void flight_reading(const struct kg_id *snapshot)
{
    struct jout field = {.data = (char[READING_WIDTH + 1]){0}, .size = READING_WIDTH + 1};
    pthread_mutex_lock(&flight.mutex);
    *flight.reading = 0;
    if (snapshot)
        id_text(snapshot, flight.reading);
    put_reading(&field);
    if (flight.written && ready())
        (void)put_at(field.data, READING_WIDTH, READING_AT);
    pthread_mutex_unlock(&flight.mutex);
}

void flight_fault(const char *text)
{
    pthread_mutex_lock(&flight.mutex);
    snprintf(flight.fault, sizeof flight.fault, "%s", text);
    pthread_mutex_unlock(&flight.mutex);
    app_note("a kernel of this process faulted: %s", text);
    flight_write("a kernel faulted");
}

void flight_finish(bool whole)
{
    if (whole)
        flight_write("end");
    pthread_mutex_lock(&flight.mutex);
    if (!*flight.fault && flight.written && ready())
        (void)put_at("true ", CLEAN_WIDTH, CLEAN_AT);
    pthread_mutex_unlock(&flight.mutex);
}

void flight_abandon(void)
{
    if (is_ours(flight.fd))
        close(flight.fd); /* the lock is the parent's: it stays */
    flight.fd = -1;
    pthread_mutex_init(&flight.mutex, NULL);
}

/* ---- what older files tell ----------------------------------------------------------------------
 */

bool flight_suspended(const struct kg_id *variant, uint64_t verified)
{
    for (unsigned i = 0; i < suspect_count; i++)
        if (id_equal(&suspects[i].variant, variant) && verified <= suspects[i].time)
            return true;
    return false;
}

bool flight_snapshot_bad(const struct kg_id *snapshot)
{
    for (unsigned i = 0; i < bad_count; i++)
        if (id_equal(&bad[i], snapshot))
            return true;
    return false;
}

static bool skip(const char **at, const char *text)
{
    size_t length = strlen(text);
    if (strncmp(*at, text, length))
        return false;
    *at += length;
    return true;
}

/* A quoted id; false if there is none, or an empty text. */
static bool read_id(const char **at, struct kg_id *out)
{
    char text[KG_ID_TEXT];
    if (strnlen(*at, READING_WIDTH) < READING_WIDTH || **at != '"' ||
        (*at)[READING_WIDTH - 1] != '"')
        return false;
    memcpy(text, *at + 1, KG_ID_TEXT - 1);
    text[KG_ID_TEXT - 1] = 0;
    *at += READING_WIDTH;
    return id_parse(text, out) == KG_OK;
}

/* Whether the file is of a process that ended uncleanly; what it had in use is suspended. */
static bool learn(const char *text, uint64_t time)
{
    struct kg_id id;
    const char *at = text;
    if (!skip(&at, PREFIX_CLEAN "false" PREFIX_READING))
        return false;
    if (read_id(&at, &id)) {
        if (bad_count < BAD)
            bad[bad_count++] = id;
    } else {
        at += strcspn(at, ",");
    }
    if (!skip(&at, ",\"late\":["))
        return true;
    while (read_id(&at, &id)) {
        if (suspect_count < SUSPECTS) {
            suspects[suspect_count].variant = id;
            suspects[suspect_count++].time = time;
        }
        if (!skip(&at, ","))
            break;
    }
    return true;
}

/* 0: its process lives, or it cannot be read; else its time. */
static uint64_t learn_file(int folder, const char *name, bool *unclean)
{
    char text[OLD + 1];
    struct stat info;
    uint64_t time_written = 0;
    *unclean = false;
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return 0;
    if (!flock(fd, LOCK_SH | LOCK_NB) && !fstat(fd, &info) && S_ISREG(info.st_mode) &&
        info.st_uid == geteuid()) {
        ssize_t got = pread(fd, text, OLD, 0);
        text[got < 0 ? 0 : got] = 0;
        time_written = (uint64_t)info.st_mtime;
        unsigned before = suspect_count;
        *unclean = got > 0 && learn(text, time_written) && suspect_count > before;
    }
    close(fd);
    return time_written;
}

struct old_file {
    char name[64];
    uint64_t time;
    bool unclean;
};

/* Oldest last; files that suspend something are kept longer. */
static int by_worth(const void *a, const void *b)
{
    const struct old_file *x = a, *y = b;
    if (x->unclean != y->unclean)
        return x->unclean ? -1 : 1;
    return x->time < y->time ? 1 : x->time > y->time ? -1 : 0;
}

static void learn_all(const char *folder)
{
    enum { MOST = 512 };
    DIR *list = opendir(folder);
    struct old_file *files = calloc(MOST, sizeof *files);
    unsigned count = 0;
    uint64_t now = (uint64_t)time(NULL);
    for (struct dirent *e; list && files && count < MOST && (e = readdir(list));) {
        size_t length = strlen(e->d_name);
        struct old_file *f = &files[count];
        if (length < 5 || length >= sizeof f->name || strcmp(e->d_name + length - 4, ".kgf"))
            continue;
        memcpy(f->name, e->d_name, length + 1);
        f->time = learn_file(dirfd(list), f->name, &f->unclean);
        if (f->time && f->time + 60 < now) /* a younger one may not have its lock yet */
            count++;
    }
    if (files)
        qsort(files, count, sizeof *files, by_worth);
    for (unsigned i = KEEP; i < count; i++)
        (void)unlinkat(dirfd(list), files[i].name, 0); /* or by another start at this moment */
    if (suspect_count)
        app_note("%u variants wait to be verified again: a process that used them ended uncleanly",
                 suspect_count);
    if (bad_count)
        app_note("%u snapshots are not opened: a process ended while it read one", bad_count);
    free(files);
    if (list)
        closedir(list);
}

kg_status flight_start(void)
{
    char folder[KG_PATH];
    kg_status status = path_make(folder, "%s/flight", app_dir());
    if (status == KG_OK)
        status = dir_make(folder);
    if (status != KG_OK)
        return status;
    learn_all(folder);
    flight.start = (uint64_t)time(NULL);
    app_program(flight.program);
    int fd = -1;
    for (unsigned more = 0; fd < 0 && more < 4; more++) { /* pids of two containers may be equal */
        status = path_make(flight.path, "%s/%d-%llu.kgf", folder, (int)getpid(),
                           (unsigned long long)flight.start + more);
        if (status != KG_OK)
            return status;
        fd = open(flight.path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    if (fd >= 0 && adopt(fd))
        return KG_OK;
    log_line(KG_WARN, "%s: cannot be made: %s; nothing is swapped without it", flight.path,
             strerror(errno));
    return KG_IO;
}
