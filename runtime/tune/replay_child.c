/* The replay child: `kgenrt child replay REQUEST`. Reads what it is asked, opens the device, goes
 * through the gates, and tells its parent in lines on descriptor 3. Code that nobody has verified
 * runs on the GPU from here and nowhere else; a fault or a hang ends this process alone. */
#include "code/instrument.h"
#include "tune/replay.h"

#include "replaying.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { MOST_REQUEST = 1 << 20, MOST_CODE = 64 << 20, MOST_SELF = 256 << 20, LAYOUT_TRIES = 8 };
enum { EVIDENCE_FORM = 2 }; /* EVIDENCE.md */

/* ---- the request -------------------------------------------------------------------------------
 */

static json_t *texts_of(const char *const *texts, uint32_t count)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(list, json_string(texts[i]));
    return list;
}

static bool texts_take(const json_t *list, uint32_t most, const char **out, uint32_t *count)
{
    if (json_array_size(list) > most)
        return false;
    *count = (uint32_t)json_array_size(list);
    for (uint32_t i = 0; i < *count; i++)
        if (!(out[i] = json_string_value(json_array_get(list, i))))
            return false;
    return true;
}

/* What the worker's manners allow. */
static void manners_put(const struct replay_request *request, json_t *json)
{
    json_object_set_new(json, "share", json_integer((json_int_t)request->share));
    json_object_set_new(json, "reserve", json_integer((json_int_t)request->reserve));
}

/* What the evidence says of the request, and the seeds of an earlier verdict. A seed has 64 bits,
 * more than a JSON number may have in other readers. */
static void label_put(const struct replay_request *request, json_t *json)
{
    json_t *seeds = json_array();
    char text[20];
    if (request->guard_pages)
        json_object_set_new(json, "guard_pages", json_true());
    for (unsigned i = 0; i < 4 && request->seeded; i++) {
        snprintf(text, sizeof text, "%016llx", (unsigned long long)request->seeds[i]);
        json_array_append_new(seeds, json_string(text));
    }
    json_object_set_new(json, "seeds", seeds);
    json_object_set_new(json, "exact_maker", json_boolean(request->exact_maker));
    if (request->signature)
        json_object_set_new(json, "signature", json_string(request->signature));
}

static void free_put(const struct replay_request *request, json_t *json)
{
    json_t *pieces = json_array();
    for (uint32_t i = 0; i < request->free_count; i++) {
        const struct free_piece *piece = &request->free[i];
        json_array_append_new(pieces, json_pack("[IIi]", (json_int_t)piece->at,
                                                (json_int_t)piece->size, piece->type));
    }
    json_object_set_new(json, "free", pieces);
}

static bool free_take(json_t *json, struct replay_request *out)
{
    json_t *pieces = json_object_get(json, "free"), *item;
    size_t i;
    if (json_array_size(pieces) > FREE_PIECES)
        return false;
    json_array_foreach(pieces, i, item)
    {
        json_int_t at, size;
        int type;
        if (json_unpack(item, "[IIi]", &at, &size, &type))
            return false;
        out->free[i] = (struct free_piece){(uint32_t)at, (uint32_t)size, (uint8_t)type};
    }
    out->free_count = (uint32_t)json_array_size(pieces);
    return true;
}

kg_status request_write(const struct replay_request *request, const char *path)
{
    const struct kg_launch *l = &request->launch;
    json_t *json = json_pack(
        "{ss ss* ss* ss* ss ss* s[IIIIIII] so so sI sI sI si}", "capture", request->capture, "code",
        request->code, "ptx", request->ptx, "entry", request->entry, "accuracy", request->accuracy,
        "gates_off", request->gates_off, "launch", (json_int_t)l->grid.x, (json_int_t)l->grid.y,
        (json_int_t)l->grid.z, (json_int_t)l->block.x, (json_int_t)l->block.y,
        (json_int_t)l->block.z, (json_int_t)l->shared, "globals",
        texts_of(request->globals, request->global_count), "others",
        texts_of(request->others, request->other_count), "repeats", (json_int_t)request->repeats,
        "runs", (json_int_t)request->runs, "limit_ms", (json_int_t)request->variant_limit_ms,
        "compiler", request->compiler_version);
    if (json) {
        label_put(request, json);
        free_put(request, json);
        manners_put(request, json);
    }
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    kg_status status = text ? file_write(path, text, strlen(text), 0600) : KG_NO_MEMORY;
    free(text);
    return status;
}

static bool label_take(json_t *json, struct replay_request *out)
{
    out->exact_maker = json_is_true(json_object_get(json, "exact_maker"));
    json_t *seeds = json_object_get(json, "seeds");
    out->signature = json_string_value(json_object_get(json, "signature"));
    out->seeded = json_array_size(seeds) > 0;
    out->guard_pages = json_is_true(json_object_get(json, "guard_pages"));
    for (unsigned i = 0; i < 4 && out->seeded; i++) {
        const char *text = json_string_value(json_array_get(seeds, i));
        if (!text)
            return false;
        out->seeds[i] = strtoull(text, NULL, 16);
    }
    return true;
}

static bool manners_take(json_t *json, struct replay_request *out)
{
    json_int_t share, reserve;
    if (json_unpack(json, "{sI sI}", "share", &share, "reserve", &reserve) || share < 1)
        return false;
    out->share = (unsigned)share;
    out->reserve = (uint64_t)reserve;
    return true;
}

static kg_status unpack(json_t *json, struct replay_request *out)
{
    json_int_t n[7], repeats, runs, limit;
    json_t *globals, *others;
    if (json_unpack(json, "{ss s?s s?s s?s ss s?s s[IIIIIII] so so sI sI sI si}", "capture",
                    &out->capture, "code", &out->code, "ptx", &out->ptx, "entry", &out->entry,
                    "accuracy", &out->accuracy, "gates_off", &out->gates_off, "launch", &n[0],
                    &n[1], &n[2], &n[3], &n[4], &n[5], &n[6], "globals", &globals, "others",
                    &others, "repeats", &repeats, "runs", &runs, "limit_ms", &limit, "compiler",
                    &out->compiler_version))
        return KG_BAD_INPUT;
    out->launch = (struct kg_launch){{(uint32_t)n[0], (uint32_t)n[1], (uint32_t)n[2]},
                                     {(uint32_t)n[3], (uint32_t)n[4], (uint32_t)n[5]},
                                     (uint32_t)n[6]};
    if (!texts_take(globals, VARIANT_GLOBALS, out->globals, &out->global_count) ||
        !texts_take(others, JOB_OTHERS, out->others, &out->other_count) || !label_take(json, out) ||
        !free_take(json, out) || !manners_take(json, out))
        return KG_BAD_INPUT;
    out->repeats = (unsigned)repeats;
    out->runs = (unsigned)runs;
    out->variant_limit_ms = (long)limit;
    return out->code && !out->entry ? KG_BAD_INPUT : KG_OK;
}

kg_status request_read(const char *path, struct replay_request *out)
{
    struct kg_bytes text;
    *out = (struct replay_request){0};
    kg_status status = file_read(path, MOST_REQUEST, &text);
    if (status != KG_OK)
        return status;
    out->json = json_loadb((const char *)text.data, text.size, 0, NULL);
    bytes_free(&text);
    status = out->json ? unpack(out->json, out) : KG_BAD_INPUT;
    if (status != KG_OK)
        log_line(KG_ERROR, "%s: not a replay request", path);
    return status;
}

/* ---- the child ---------------------------------------------------------------------------------
 */

/* What a trial borrows until its end. */
struct child {
    struct replay_request request;
    struct kg_capture capture, others[JOB_OTHERS];
    unsigned other_count;
    struct kg_bytes code, ptx;
    struct replay_memory memory;
    struct trial trial;
};

/* The child must not outlive its worker (if that died just now, the first line finds the pipe
 * closed and SIGPIPE ends it), or fill the disk with a core. */
static void settle(const char *request)
{
    struct rlimit none = {0, 0};
    char folder[KG_PATH];
    const char *slash = strrchr(request, '/');
    if (!slash || path_make(folder, "%.*s", (int)(slash - request), request) != KG_OK ||
        replaying_begin(folder) != KG_OK)
        log_line(KG_INFO, "replay: programs that lack memory cannot end this replay");
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || setrlimit(RLIMIT_CORE, &none))
        log_line(KG_INFO, "replay: limits of the process could not be set");
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "1000", 4) != 4)
        log_line(KG_DEBUG, "replay: oom_score_adj could not be set");
    if (fd >= 0)
        close(fd);
}

/* Further inputs: one that cannot be read any more is one less. */
static kg_status open_others(struct child *child)
{
    for (unsigned i = 0; i < child->request.other_count; i++)
        child->other_count +=
            capture_read(child->request.others[i], &child->others[child->other_count]) == KG_OK;
    return memory_others(&child->memory, child->others, child->other_count);
}

/* The original's PTX, for what it says of its memory; without, nothing is known. */
static kg_status read_original(struct child *child)
{
    const struct kg_capture *capture = &child->capture;
    struct image_code code = {0};
    bool soft = !strcmp(capture->hardware.vendor, "softgpu");
    bool has = image_select(capture->image, capture->image_size, capture->hardware.arch, soft,
                            &code) == KG_OK &&
               code.ptx.size;
    kg_status status =
        memory_data(&child->memory, has ? (const char *)code.ptx.data : NULL, capture->entry);
    image_code_free(&code);
    return status;
}

static kg_status prepare(struct child *child, char *reason, size_t reason_size)
{
    const struct replay_request *request = &child->request;
    struct trial *trial = &child->trial;
    if (!accuracy_parse(request->accuracy, &trial->accuracy))
        log_line(KG_ERROR, "KGENRT_ACCURACY='%s' is not known: bitwise", request->accuracy);
    kg_status status = capture_read(request->capture, &child->capture);
    if (status == KG_OK && request->code)
        status = file_read(request->code, MOST_CODE, &child->code);
    if (status == KG_OK && request->ptx)
        status = file_read(request->ptx, MOST_CODE, &child->ptx);
    if (status != KG_OK) {
        snprintf(reason, reason_size, "%s", status_text(status));
        return status;
    }
    status = cuda_open(&child->capture, request, request->code ? &child->code : NULL,
                       &child->memory, &trial->device, reason, reason_size);
    if (status != KG_OK)
        return status;
    status = memory_create(&child->memory);
    if (status == KG_OK) {
        cuda_pin(trial->device);
        status = open_others(child);
    }
    if (status == KG_OK)
        status = read_original(child);
    if (status != KG_OK)
        snprintf(reason, reason_size, "%s", status_text(status));
    return status;
}

static json_t *footprint_of(const struct child *child, enum side side)
{
    const struct replay_footprint *f = &child->trial.device->footprint[side];
    return json_pack("{si si si}", "registers", (int)f->registers, "local_bytes",
                     (int)f->local_bytes, "static_shared", (int)f->static_shared);
}

static json_t *launch_of(const struct kg_launch *l)
{
    return json_pack("{s[III] s[III] sI}", "grid", (json_int_t)l->grid.x, (json_int_t)l->grid.y,
                     (json_int_t)l->grid.z, "block", (json_int_t)l->block.x, (json_int_t)l->block.y,
                     (json_int_t)l->block.z, "shared_bytes", (json_int_t)l->shared);
}

/* A side: digest of the very bytes that were loaded, footprint, launch. */
static json_t *side_of(const struct child *child, enum side side)
{
    const void *code = side == ORIGINAL ? (const void *)child->capture.image : child->code.data;
    size_t size = side == ORIGINAL ? child->capture.image_size : child->code.size;
    struct kg_id id;
    char text[KG_ID_TEXT];
    json_t *out = footprint_of(child, side);
    hash_data(code, size, &id);
    json_object_set_new(out, "code", json_string(id_text(&id, text)));
    json_object_set_new(
        out, "launch",
        launch_of(side == ORIGINAL ? &child->capture.launch : &child->request.launch));
    return out;
}

/* Who checks is part of the evidence: the digest of this program. */
static void put_harness(json_t *out)
{
    struct kg_bytes self;
    struct kg_id id;
    char text[KG_ID_TEXT];
    instrument_digest(&id);
    json_object_set_new(out, "instrument", json_string(id_text(&id, text)));
    if (file_read("/proc/self/exe", MOST_SELF, &self) != KG_OK)
        return;
    hash_data(self.data, self.size, &id);
    bytes_free(&self);
    json_object_set_new(out, "harness", json_string(id_text(&id, text)));
}

/* Digests of the captures of other times. */
static void put_others(const struct child *child, json_t *out)
{
    json_t *others = json_array();
    char text[KG_ID_TEXT];
    for (unsigned i = 0; i < child->other_count; i++) {
        const struct kg_bytes *file = &child->others[i].file;
        struct kg_id digest;
        memcpy(digest.bytes, file->data + file->size - KG_ID_BYTES, KG_ID_BYTES);
        json_array_append_new(others, json_string(id_text(&digest, text)));
    }
    json_object_set_new(out, "others", others);
}

/* What is known before the first gate. */
static json_t *evidence_of(const struct child *child)
{
    const struct kg_capture *capture = &child->capture;
    const struct kg_hardware *hardware = &capture->hardware;
    char kernel[KG_ID_TEXT], seal[KG_ID_TEXT];
    struct kg_id digest; /* a capture ends in the digest of all before it */
    memcpy(digest.bytes, capture->file.data + capture->file.size - KG_ID_BYTES, KG_ID_BYTES);
    json_t *out = json_pack(
        "{si ss sI ss ss ss* ss ss ss ss si si ss sf so}", "form", EVIDENCE_FORM, "kgenrt",
        KG_VERSION, "time", (json_int_t)time(NULL), "kernel", id_text(&capture->kernel, kernel),
        "capture", id_text(&digest, seal), "signature", child->request.signature, "device",
        hardware->name, "arch", hardware->arch, "uuid", hardware->uuid, "vendor", hardware->vendor,
        "driver", child->trial.device->driver_version, "compiler", child->request.compiler_version,
        "accuracy", child->request.accuracy, "app_ns", capture->app_ns, "original",
        side_of(child, ORIGINAL));
    if (child->request.code)
        json_object_set_new(out, "variant", side_of(child, VARIANT));
    put_others(child, out);
    put_harness(out);
    return out;
}

/* The same child begins again: another process image has another address layout, in which the
 * captured addresses may be free (one in thirty was not, on an H200, where allocations lie among
 * the host's mappings). */
static void begin_again(const char *request)
{
    const char *before = getenv("KGENRT_REPLAY_TRY");
    long tries = before ? strtol(before, NULL, 10) : 1;
    char next[16];
    if (tries < 1 || tries >= LAYOUT_TRIES)
        return;
    snprintf(next, sizeof next, "%ld", tries + 1);
    if (setenv("KGENRT_REPLAY_TRY", next, 1) || close_range(RESULT_FD + 1, ~0u, 0))
        return;
    const char *arguments[] = {"kgenrt", "child", "replay", request, NULL};
    execv("/proc/self/exe", (char *const *)(uintptr_t)arguments);
}

static int run(struct child *child, const char *request)
{
    struct trial *trial = &child->trial;
    char reason[512] = "";
    trial->lines = RESULT_FD;
    trial_line(trial, "gate replay");
    kg_status status = prepare(child, reason, sizeof reason);
    if (status == KG_TAKEN)
        begin_again(request);
    if (status == KG_NO_MEMORY)
        status = KG_BUSY; /* others have it now */
    if (status != KG_OK) {
        json_t *end = json_pack("{si ss ss}", "status", (int)status, "gate",
                                status == KG_REFUSED ? "admission" : "replay", "reason", reason);
        char *text = json_dumps(end, JSON_COMPACT);
        json_decref(end);
        bool said = text && dprintf(RESULT_FD, "end %s\n", text) > 0;
        free(text);
        return said ? 0 : 1;
    }
    trial->memory = &child->memory;
    trial->original = child->capture.launch;
    trial->variant = child->request.launch;
    trial->gates_off = child->request.gates_off;
    trial->exact_maker = child->request.exact_maker;
    trial->free = child->request.free;
    trial->free_count = child->request.free_count;
    trial->repeats = child->request.repeats;
    trial->runs = child->request.runs;
    trial->variant_limit_ms = child->request.variant_limit_ms;
    trial->app_ns = child->capture.app_ns;
    trial->only_original = !child->request.code;
    trial->variant_ptx = (const char *)child->ptx.data;
    trial->variant_entry = child->request.entry;
    trial->global_count = child->request.global_count;
    trial->globals = child->request.globals;
    trial->seeded = child->request.seeded;
    trial->guard_pages = child->request.guard_pages;
    memcpy(trial->seeds, child->request.seeds, sizeof trial->seeds);
    trial->evidence = evidence_of(child);
    share_limit(trial, child->request.share);
    child->memory.device = trial->device;
    return trial_run(trial) == KG_IO;
}

int replay_child(int argc, char **argv)
{
    struct child child = {0};
    if (argc < 1 || request_read(argv[argc - 1], &child.request) != KG_OK)
        return 2;
    settle(argv[argc - 1]);
    int code = run(&child, argv[argc - 1]);
    cuda_close(child.trial.device);
    memory_free(&child.memory);
    bytes_free(&child.code);
    bytes_free(&child.ptx);
    for (unsigned i = 0; i < child.other_count; i++)
        capture_free(&child.others[i]);
    capture_free(&child.capture);
    json_decref(child.request.json);
    return code;
}
