/* instrument_check CAPTURE...: replays each captured launch, as it was and instrumented in each
 * way, at the captured addresses, and compares what memory holds afterwards, byte for byte. One
 * line a capture and way, a total at the end. Each replay has a process of its own: addresses are
 * reserved in it. Results that vary from run to run by themselves are said to. */
#include "gpu/real.h"

#include "tune/observe.h"
#include "tune/replay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TAKEN = 75, TRIES = 8, SAMPLES = 5 };

static const struct way {
    const char *name;
    unsigned what;
} ways[] = {
    {"find", INSTRUMENT_RECORD},
    {"plain", 0},
    {"again", 0},
    {"again", 0},
    {"again", 0},
    {"record", INSTRUMENT_RECORD},
    {"check", INSTRUMENT_CHECK},
    {"races", INSTRUMENT_RACES},
};
enum { FIND, PLAIN, AGAIN, AGAIN_LAST = AGAIN + 2, WAYS = sizeof ways / sizeof *ways };
enum { POISON = 0xa5 };

struct outcome {
    kg_status status;
    double ns;
    unsigned accesses;
    uint32_t reports, same_value, most;
    /* bytes; missed: changed, and not recorded */
    uint64_t read, written, changed, missed, poisoned;
    char entry[128], text[512];
};

/* ---- in the child ----------------------------------------------------------------------------
 */

struct child {
    const struct way *way;
    struct kg_capture capture;
    struct image_code code;
    struct instrumented text;
    struct replay_memory memory;
    struct replay_device *device;
    struct observe observe;
    struct outcome *out;
};

static kg_status because(struct child *child, kg_status status, const char *text)
{
    snprintf(child->out->text, sizeof child->out->text, "%s", text);
    return status;
}

/* Puts the instrumented text in the place of the captured image. */
static kg_status instrument(struct child *child)
{
    struct kg_capture *capture = &child->capture;
    struct instrument_options options = {child->way->what, capture->launch.block};
    bool soft = !strcmp(capture->hardware.vendor, "softgpu");
    kg_status status = image_select(capture->image, capture->image_size, capture->hardware.arch,
                                    soft, &child->code);
    if (status != KG_OK || !child->code.ptx.data)
        return because(child, KG_UNSUPPORTED, "no PTX in its image");
    status =
        ptx_instrument((const char *)child->code.ptx.data, capture->entry, &options, &child->text);
    if (status != KG_OK)
        return because(child, status,
                       *child->text.reason ? child->text.reason : status_text(status));
    child->out->accesses = child->text.accesses;
    capture->image = child->text.text.data;
    capture->image_size = child->text.text.size;
    return KG_OK;
}

static kg_status observe(struct child *child)
{
    struct replay_memory *memory = &child->memory;
    const struct kg_capture *capture = &child->capture;
    void *module, *function;
    uint32_t count = 0;
    struct observe_range *ranges =
        calloc(capture->region_count + memory->extent_count + 1, sizeof *ranges);
    if (!ranges)
        return KG_NO_MEMORY;
    for (uint32_t i = 0; i < capture->region_count; i++)
        if (capture->regions[i].kind != CAPTURE_GLOBAL)
            ranges[count++] = (struct observe_range){.address = capture->regions[i].address,
                                                     .size = capture->regions[i].size,
                                                     .rights = INSTRUMENT_READ | INSTRUMENT_WRITE};
    for (uint32_t i = 0; i < memory->extent_count; i++)
        if (memory->extents[i].global)
            ranges[count++] = (struct observe_range){.address = memory->extents[i].address,
                                                     .size = memory->extents[i].size,
                                                     .rights = INSTRUMENT_READ | INSTRUMENT_WRITE};
    cuda_code(child->device, ORIGINAL, &module, &function);
    kg_status status = observe_begin(&child->text, module, function, &capture->launch, ranges,
                                     count, UINT32_MAX, &child->observe);
    free(ranges);
    return status == KG_OK ? KG_OK : because(child, status, "instrumentation has no room");
}

static bool recorded(const struct child *child, uint64_t address, bool writes)
{
    for (uint32_t i = 0; i < child->observe.range_count; i++) {
        const struct observe_range *range = &child->observe.ranges[i];
        if (address - range->address < range->size)
            return observed(range, writes ? range->writes : range->reads, address - range->address);
    }
    return false;
}

/* Counts what was recorded, and looks whether every byte that changed is there. */
static void count_bytes(struct child *child)
{
    const struct replay_memory *memory = &child->memory;
    struct outcome *out = child->out;
    for (uint32_t i = 0; i < child->observe.range_count; i++) {
        const struct observe_range *range = &child->observe.ranges[i];
        for (uint64_t at = 0; at < range->size; at++) {
            out->read += observed(range, range->reads, at);
            out->written += observed(range, range->writes, at);
        }
    }
    for (uint32_t i = 0; i < memory->extent_count; i++) {
        const struct replay_extent *extent = &memory->extents[i];
        for (uint64_t at = 0; at < extent->size; at++) {
            if (memory->work[extent->at + at] == memory->pristine[extent->at + at])
                continue;
            out->changed++;
            out->missed += !recorded(child, extent->address + at, true);
        }
    }
}

/* Which bytes are written and not read goes to a file; or it is read, and they are poisoned. */
static kg_status write_mask(const struct child *child, int file)
{
    const struct replay_memory *memory = &child->memory;
    for (uint32_t i = 0; i < memory->extent_count; i++) {
        const struct replay_extent *extent = &memory->extents[i];
        for (uint64_t at = 0; at < extent->size; at++)
            memory->other[extent->at + at] = recorded(child, extent->address + at, true) &&
                                             !recorded(child, extent->address + at, false);
    }
    return ftruncate(file, 0) || !write_all(file, memory->other, memory->total) ? KG_IO : KG_OK;
}

static kg_status poison(struct child *child, int file)
{
    const struct replay_memory *memory = &child->memory;
    ssize_t got = 0;
    for (size_t at = 0; at < memory->total; at += (size_t)got) {
        got = pread(file, memory->other + at, memory->total - at, (off_t)at);
        if (got <= 0)
            return at ? KG_IO : KG_OK; /* the recording failed: as captured */
    }
    for (size_t at = 0; at < memory->total; at++) {
        if (!memory->other[at])
            continue;
        memory->pristine[at] = POISON;
        child->out->poisoned++;
    }
    return KG_OK;
}

static kg_status replay(struct child *child, int image, int mask)
{
    struct trial trial = {.device = child->device, .memory = &child->memory};
    struct outcome *out = child->out;
    struct replay_memory *memory = &child->memory;
    double ns;
    bool find = child->way == &ways[FIND];
    if (!find && poison(child, mask) != KG_OK)
        return because(child, KG_IO, "the mask could not be read");
    if (trial_launch(&trial, ORIGINAL, memory->pristine, memory->work) != KG_OK)
        return because(child, KG_DRIVER, child->device->error);
    if (child->way->what) {
        if (observe_read(&child->observe) != KG_OK)
            return because(child, KG_DRIVER, "records could not be read");
        out->reports = child->observe.reports.count;
        out->same_value = child->observe.reports.same_value;
        out->most = child->observe.reports.most;
        if (out->reports)
            observe_text(&child->observe, &child->observe.reports.list[0], out->text,
                         sizeof out->text);
        if (child->way->what & INSTRUMENT_RECORD)
            count_bytes(child);
    }
    if (find)
        return write_mask(child, mask);
    if (ftruncate(image, (off_t)memory->total) || !write_all(image, memory->work, memory->total))
        return because(child, KG_IO, "the image could not be written");
    for (unsigned i = 0; i < SAMPLES; i++) {
        if (child->device->write(child->device, memory->extents[0].address,
                                 memory->pristine + memory->extents[0].at,
                                 memory->extents[0].size) != KG_OK ||
            child->device->sample(child->device, ORIGINAL, false, 1, &ns) != KG_OK)
            return because(child, KG_DRIVER, child->device->error);
        if (!i || ns < out->ns)
            out->ns = ns;
    }
    return KG_OK;
}

static int child_main(const char *path, unsigned way, int image, int mask, struct outcome *out)
{
    struct child child = {.way = &ways[way], .out = out};
    struct replay_request request = {0};
    char reason[512] = "";
    *out = (struct outcome){0};
    out->status = capture_read(path, &child.capture);
    if (out->status != KG_OK)
        return 0;
    snprintf(out->entry, sizeof out->entry, "%.120s", child.capture.entry);
    if (child.way->what)
        out->status = instrument(&child);
    request.launch = child.capture.launch;
    if (out->status == KG_OK) {
        out->status = cuda_open(&child.capture, &request, NULL, &child.memory, &child.device,
                                reason, sizeof reason);
        if (out->status == KG_TAKEN)
            return TAKEN;
        if (out->status != KG_OK)
            because(&child, out->status, reason);
    }
    if (out->status == KG_OK)
        out->status = memory_create(&child.memory);
    if (out->status == KG_OK && child.way->what)
        out->status = observe(&child);
    if (out->status == KG_OK)
        out->status = replay(&child, image, mask);
    return 0; /* all else goes with the process */
}

/* ---- in the parent ---------------------------------------------------------------------------
 */

static int shared_file(size_t size)
{
    int fd = memfd_create("check", 0);
    return fd >= 0 && size && ftruncate(fd, (off_t)size) ? -1 : fd;
}

static void *map(int fd, size_t *size)
{
    struct stat info;
    if (fstat(fd, &info) || !info.st_size)
        return NULL;
    *size = (size_t)info.st_size;
    void *at = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* Runs one way in a new image of this program; the captured addresses may need several. */
static bool start(const char *path, unsigned way, const int files[3], struct outcome *out)
{
    char words[4][16];
    int how = 0;
    snprintf(words[0], sizeof words[0], "%u", way);
    for (unsigned i = 0; i < 3; i++)
        snprintf(words[i + 1], sizeof words[i + 1], "%d", files[i]);
    for (unsigned i = 0; i < TRIES; i++) {
        pid_t pid = fork();
        if (!pid) {
            execl("/proc/self/exe", "instrument_check", "--child", path, words[0], words[1],
                  words[2], words[3], (char *)NULL);
            _exit(126);
        }
        while (pid > 0 && waitpid(pid, &how, 0) < 0 && errno == EINTR)
            continue;
        if (pid < 0 || !WIFEXITED(how) || WEXITSTATUS(how) != TAKEN)
            break;
    }
    if (WIFEXITED(how) && !WEXITSTATUS(how))
        return true;
    out->status = KG_CHILD;
    snprintf(out->text, sizeof out->text, "its process ended with status 0x%x", (unsigned)how);
    return false;
}

static bool tally(const struct outcome *all, unsigned way, size_t different, bool steady)
{
    const struct outcome *out = &all[way];
    char note[768] = "";
    bool races = ways[way].what & INSTRUMENT_RACES, same = !different;
    bool good =
        out->status == KG_OK && (same || !steady) && (!out->reports || races) && !out->missed;
    if (ways[way].what & INSTRUMENT_RECORD && out->status == KG_OK)
        snprintf(note, sizeof note, " read %" PRIu64 " written %" PRIu64 " (changed %" PRIu64 ")",
                 out->read, out->written, out->changed);
    else if (ways[way].what & INSTRUMENT_CHECK)
        snprintf(note, sizeof note, ", %u branches back and calls at most", out->most);
    if (different)
        snprintf(note + strlen(note), sizeof note - strlen(note), ", %zu bytes differ", different);
    printf("  %-7s %s %s %.2fx (%.3f ms) %u accesses%s, %u reports%s%s %s\n", ways[way].name,
           good                             ? "ok"
           : out->status == KG_NOT_ELIGIBLE ? "not instrumentable"
                                            : "FAILED",
           same     ? "same"
           : steady ? "DIFFERENT"
                    : "varies by itself",
           all[PLAIN].ns > 0 ? out->ns / all[PLAIN].ns : 0, out->ns / 1e6, out->accesses, note,
           out->reports, out->same_value ? ", equal writes" : "",
           out->missed ? ", CHANGED BYTES NOT RECORDED" : "", out->text);
    return good;
}

/* How many bytes differ; all, if there is nothing to compare. */
static size_t differences(const unsigned char *a, size_t a_size, const unsigned char *b,
                          size_t b_size)
{
    size_t count = 0;
    if (!a || !b || a_size != b_size)
        return SIZE_MAX;
    for (size_t at = 0; at < a_size; at++)
        count += a[at] != b[at];
    return count;
}

static unsigned check(const char *path)
{
    struct outcome all[WAYS] = {0};
    void *images[WAYS] = {0};
    size_t sizes[WAYS] = {0}, size;
    unsigned bad = 0;
    bool steady = true;
    int mask = shared_file(0);
    for (unsigned way = 0; way < WAYS; way++) {
        int files[3] = {shared_file(0), mask, shared_file(sizeof(struct outcome))};
        struct outcome *out = files[2] >= 0 ? map(files[2], &size) : NULL;
        if (files[0] < 0 || mask < 0 || !out)
            return 1;
        start(path, way, files, out);
        all[way] = *out;
        munmap(out, sizeof *out);
        images[way] = map(files[0], &sizes[way]);
        close(files[0]);
        close(files[2]);
        size_t different = differences(images[PLAIN], sizes[PLAIN], images[way], sizes[way]);
        bool again = way >= AGAIN && way <= AGAIN_LAST, failed = all[way].status != KG_OK;
        if (way == PLAIN)
            printf("%.100s\n  plain   %s %.3f ms, %" PRIu64 " bytes poisoned %s\n",
                   *all[way].entry ? all[way].entry : path,
                   all[way].status == KG_OK ? "ok" : "FAILED", all[way].ns / 1e6, all[way].poisoned,
                   all[way].text);
        else if (again && failed)
            printf("  again   FAILED %s\n", all[way].text);
        else if (again)
            steady &= !different || !images[PLAIN];
        else if (way > AGAIN_LAST)
            bad += !tally(all, way, different, steady);
        bad += (way == PLAIN || again) && failed;
    }
    for (unsigned way = 0; way < WAYS; way++)
        if (images[way])
            munmap(images[way], sizes[way]);
    close(mask);
    return bad;
}

int main(int argc, char **argv)
{
    unsigned bad = 0;
    size_t size;
    if (argc == 7 && !strcmp(argv[1], "--child")) {
        struct outcome *out = map(atoi(argv[6]), &size);
        return out ? child_main(argv[2], (unsigned)atoi(argv[3]), atoi(argv[4]), atoi(argv[5]), out)
                   : 1;
    }
    for (int i = 1; i < argc; i++) {
        bad += check(argv[i]);
        fflush(stdout);
    }
    printf("%d captures, %u of their replays not as they should be\n", argc - 1, bad);
    return bad != 0 || argc < 2;
}
