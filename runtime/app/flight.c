/* The flight recorder: one file a process, DIR/flight/<pid>-<start>.kgf, that tells what was going
 * on when the process died, and what `kgenrt status` shows while it lives. Locked (flock) as long
 * as the process lives. Written by pwrite into a descriptor of ours, never through a mapping: a
 * full disk must not become a SIGBUS in the app. Never allocates, and never trusts an older file.
 *
 * The form is one JSON object. It begins in exactly this way, so that the next start can read it
 * without a JSON parser, and two fields can be changed in place (blanks fill up to their width):
 *   {"version":1,"clean":false,"reading_snapshot":"",<64 blanks>"late":["<variant id>",…],
 * late: variants that may have run. Then: pid, program, start (seconds since 1970), mode,
 * hot_launches and hot_share (from when on a kernel is hot), event (why it was written), fault,
 * snapshot, hardware {vendor, name, arch, uuid, driver_version}, memory {free_bytes,
 * steady_since, failed: seconds since 1970; see pressure.c}, notes, and kernels [{id, name,
 * state, eligible (true, false, or null: its code was not read), why, code (what runs: "PTX for
 * sm_80"), launches, swapped, first_swapped_launch, refused {key of refusal.def: count}, share,
 * before_ns, after_ns, samples, seconds_to_swap, in_graphs (of the launches), graphs_stale and
 * graphs_behind (executable graphs, see graphs.c), variants [{id, ratio, …}]}], left_out (kernels
 * that found no room). A variant also has, once it was loaded here: in_use, checked, differed,
 * unchecked (why it is not checked, or empty), skipped {key of skip.def: count}, pairs, said (what
 * became of it). */
#include "app/track.h"

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

#include "app/inside.h"
#include "app/json.h"
#include "suspects.h"

enum {
    OLD_FILES = 512,  /* looked at */
    KEEP = 20,        /* files of dead processes */
    HIGH_FD = 500,    /* the app's own descriptor numbers stay as they would be */
    TEXT = 256 << 10, /* bytes of the largest file */
};

enum {
    CLEAN_AT = sizeof FLIGHT_CLEAN - 1,
    CLEAN_WIDTH = 5, /* false */
    READING_AT = CLEAN_AT + CLEAN_WIDTH + sizeof FLIGHT_READING - 1,
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
    struct kg_id late[FLIGHT_LATE_MOST];
    unsigned late_count;
    size_t written;
    int next; /* of texts */
} flight = {.mutex = PTHREAD_MUTEX_INITIALIZER, .fd = -1, .event = "start"};
static char texts[2][TEXT]; /* as written last, and the next; apart, to take no room in the file */

static struct suspects suspects; /* filled at start, constant then */

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
    struct kg_quiet quiet;
    quiet_begin(&quiet);
    do
        done = pwrite(flight.fd, data, size, at);
    while (done < 0 && errno == EINTR);
    quiet_end(&quiet);
    return done == (ssize_t)size;
}

/* ---- the text -----------------------------------------------------------------------------------
 */

static const char *const state_names[] = {
    [KERNEL_NEW] = "new",         [KERNEL_COLD] = "cold",           [KERNEL_UNFIT] = "unfit",
    [KERNEL_WANTED] = "wanted",   [KERNEL_CAPTURING] = "capturing", [KERNEL_CAPTURED] = "captured",
    [KERNEL_SWAPPED] = "swapped", [KERNEL_JUDGED] = "judged",
};
static const char *const refusal_keys[] = {
#define REFUSAL(name, key, text) key,
#include "app/refusal.def"
#undef REFUSAL
};

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
    jout_raw(out, FLIGHT_CLEAN "false" FLIGHT_READING);
    put_reading(out);
    jout_raw(out, FLIGHT_LATE);
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
    uint64_t free_bytes, steady_since, failed;
    (void)app_hardware(&hw, &key);
    pressure_state(&free_bytes, &steady_since, &failed);
    jout_raw(out, ",\"pid\":"), jout_integer(out, (uint64_t)getpid());
    jout_raw(out, ",\"program\":"), jout_text(out, flight.program);
    jout_raw(out, ",\"start\":"), jout_integer(out, flight.start);
    jout_raw(out, ",\"mode\":"), jout_text(out, mode_names[app_mode()]);
    jout_raw(out, ",\"hot_launches\":"), jout_integer(out, (uint64_t)options()->hot_launches);
    jout_raw(out, ",\"hot_share\":"), jout_integer(out, (uint64_t)options()->hot_share);
    jout_raw(out, ",\"event\":"), jout_text(out, flight.event);
    jout_raw(out, ",\"fault\":"), jout_text(out, flight.fault);
    jout_raw(out, ",\"snapshot\":"), put_id(out, variants_snapshot());
    jout_raw(out, ",\"hardware\":{\"vendor\":"), jout_text(out, hw.vendor);
    jout_raw(out, ",\"name\":"), jout_text(out, hw.name);
    jout_raw(out, ",\"arch\":"), jout_text(out, hw.arch);
    jout_raw(out, ",\"uuid\":"), jout_text(out, hw.uuid);
    jout_raw(out, ",\"driver_version\":"), jout_integer(out, (uint64_t)hw.driver_version);
    jout_raw(out, "},\"memory\":{\"free_bytes\":"), jout_integer(out, free_bytes);
    jout_raw(out, ",\"steady_since\":"), jout_integer(out, steady_since);
    jout_raw(out, ",\"failed\":"), jout_integer(out, failed);
    jout_raw(out, "},\"notes\":[");
    app_notes_each(put_note, out);
    jout_raw(out, "]");
}

static void put_counts(struct jout *out, struct kernel *k)
{
    jout_raw(out, ",\"launches\":"), jout_integer(out, kernel_launches(k));
    jout_raw(out, ",\"swapped\":"), jout_integer(out, kernel_swapped(k));
    jout_raw(out, ",\"first_swapped_launch\":"), jout_integer(out, atomic_load(&k->first_swapped));
    jout_raw(out, ",\"refused\":{");
    for (int i = 0; i < REFUSAL_COUNT; i++) {
        uint64_t count = kernel_refused(k, (enum refusal)i);
        if (!count)
            continue;
        jout_comma(out);
        jout_text(out, refusal_keys[i]);
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
    jout_raw(out, ",\"in_graphs\":"), jout_integer(out, atomic_load(&k->in_graphs));
    jout_raw(out, ",\"graphs_stale\":"), jout_integer(out, k->graphs_stale);
    jout_raw(out, ",\"graphs_behind\":"), jout_integer(out, k->graphs_behind);
    jout_raw(out, ",\"kinds\":"), jout_integer(out, k->wish.count);
    jout_raw(out, ",\"kinds_full\":"), jout_raw(out, k->wish.full ? "true" : "false");
}

static const char *const skip_keys[] = {
#define SKIPPED(name, key, text) key,
#include "app/skip.def"
#undef SKIPPED
};

static void put_track(struct jout *out, const struct track *track)
{
    jout_raw(out, ",\"checked\":"), jout_integer(out, track->checked);
    jout_raw(out, ",\"differed\":"), jout_integer(out, track->differed);
    jout_raw(out, ",\"unchecked\":"), jout_text(out, track->unchecked ? track->unchecked : "");
    jout_raw(out, ",\"skipped\":{");
    for (int i = 0; i < SKIP_COUNT; i++) {
        uint64_t count = atomic_load_explicit(&track->skipped[i], memory_order_relaxed);
        if (!count)
            continue;
        jout_comma(out);
        jout_text(out, skip_keys[i]);
        jout_raw(out, ":"), jout_integer(out, count);
    }
    jout_raw(out, "},\"pairs\":"), jout_integer(out, track->live.test.pairs);
    jout_raw(out, ",\"said\":"), jout_text(out, track->said);
}

static void put_variant(struct jout *out, const struct kg_id *id, double ratio,
                        const struct track *track, bool in_use)
{
    jout_comma(out);
    jout_raw(out, "{\"id\":"), put_id(out, id);
    jout_raw(out, ",\"ratio\":"), jout_decimal(out, ratio);
    jout_raw(out, ",\"in_use\":"), jout_raw(out, in_use ? "true" : "false");
    if (track)
        put_track(out, track);
    jout_raw(out, "}");
}

/* Those in use, then those that were. */
static void put_variants(struct jout *out, struct kernel *k)
{
    const struct swap *swap = atomic_load_explicit(&k->swap, memory_order_acquire);
    for (uint32_t i = 0; swap && i < swap->count; i++) {
        const struct swap_entry *e = &swap->entries[i];
        put_variant(out, &e->variant, e->ratio, e->track, true);
    }
    for (const struct track *t = k->tracks; t; t = t->next) {
        bool there = false;
        for (uint32_t i = 0; swap && i < swap->count; i++)
            there |= swap->entries[i].track == t;
        if (!there)
            put_variant(out, &t->variant, t->ratio, t, false);
    }
}

/* What the driver selected of the module, as far as we know its rules. */
static void put_code(struct jout *out, const struct module *module)
{
    char text[48] = "";
    if (module->selected)
        snprintf(text, sizeof text, "%s for sm_%u",
                 module->code.machine_code ? "machine code" : "PTX", module->code.sm);
    jout_raw(out, ",\"code\":"), jout_text(out, text);
}

static void put_kernel(struct jout *out, struct kernel *k)
{
    int state = atomic_load_explicit(&k->state, memory_order_acquire);
    bool further = state == KERNEL_WANTED || state == KERNEL_CAPTURING || state == KERNEL_CAPTURED;
    if (further && atomic_load_explicit(&k->swap, memory_order_acquire))
        state = KERNEL_SWAPPED; /* another kind of its launches is looked at */
    bool observed = app_mode() == KG_MODE_OBSERVE && (state == KERNEL_NEW || state == KERNEL_COLD);
    jout_comma(out);
    jout_raw(out, "{\"id\":"), put_id(out, k->modelled ? &k->model.id : NULL);
    jout_raw(out, ",\"name\":"), jout_text(out, k->name);
    jout_raw(out, ",\"state\":"), jout_text(out, observed ? "observed" : state_names[state]);
    jout_raw(out, ",\"eligible\":");
    jout_raw(out, state == KERNEL_UNFIT ? "false" : k->modelled ? "true" : "null");
    jout_raw(out, ",\"why\":"), jout_text(out, state == KERNEL_UNFIT && k->why ? k->why : "");
    put_code(out, k->module);
    put_counts(out, k);
    jout_raw(out, ",\"variants\":[");
    put_variants(out, k);
    jout_raw(out, "]}");
}

static bool matters(struct kernel *k)
{
    int state = atomic_load_explicit(&k->state, memory_order_relaxed);
    return state > KERNEL_COLD || kernel_swapped(k);
}

/* Those that matter first, so that a lack of room hits the others. Records of unloaded modules stay
 * until they are recycled: a runtime unloads its modules before the process ends. */
static void put_kernels(struct jout *out)
{
    uint64_t left_out = 0;
    jout_raw(out, ",\"kernels\":[");
    for (int round = 0; round < 2; round++)
        for (struct kernel *k = kernels_first(); k; k = k->next) {
            if (!kernel_launches(k) || matters(k) != !round)
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
    struct jout out = {.data = texts[flight.next], .size = TEXT};
    put_prefix(&out);
    put_process(&out);
    put_kernels(&out);
    const char *last = texts[!flight.next];
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
    bool room = i < FLIGHT_LATE_MOST && flight.fd >= 0;
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
    return suspects_variant(&suspects, variant, verified);
}

bool flight_snapshot_bad(const struct kg_id *snapshot)
{
    return suspects_snapshot(&suspects, snapshot);
}

struct old_file {
    char name[64];
    uint64_t time;
    bool unclean;
};
struct old_files {
    uint64_t now;
    unsigned count;
    struct old_file files[OLD_FILES];
};

/* Oldest last; files that suspend something are kept longer. */
static int by_worth(const void *a, const void *b)
{
    const struct old_file *x = a, *y = b;
    if (x->unclean != y->unclean)
        return x->unclean ? -1 : 1;
    return x->time < y->time ? 1 : x->time > y->time ? -1 : 0;
}

/* A file younger than a minute may not have its lock yet. */
static void old_file_add(void *self, const char *name, uint64_t time, bool unclean)
{
    struct old_files *old = self;
    size_t length = strlen(name);
    if (old->count == OLD_FILES || time + 60 >= old->now || length >= sizeof old->files[0].name)
        return;
    struct old_file *file = &old->files[old->count++];
    memcpy(file->name, name, length + 1);
    file->time = time;
    file->unclean = unclean;
}

/* Fills the suspects and removes files that nobody needs. */
static void learn_all(const char *folder)
{
    struct old_files *old = calloc(1, sizeof *old);
    char path[KG_PATH];
    if (old)
        old->now = (uint64_t)time(NULL);
    suspects_read(app_dir(), &suspects, old ? old_file_add : NULL, old);
    if (old)
        qsort(old->files, old->count, sizeof *old->files, by_worth);
    for (unsigned i = KEEP; old && i < old->count; i++)
        if (path_make(path, "%s/%s", folder, old->files[i].name) == KG_OK)
            (void)unlink(path); /* another start may have done it at this moment */
    free(old);
    if (suspects.snapshot_count)
        app_note("%u snapshots are not opened: a process ended while it read one",
                 suspects.snapshot_count);
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
