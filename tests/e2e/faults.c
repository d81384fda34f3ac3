/* Random faults under the samples: 1,000 launches of each, with variants swapped, while every few
 * calls that kgenrt makes fail (of the driver: random errors; of the C library: no memory, no file,
 * no thread, a full disk, a time of day that jumps), signals interrupt, and the cache folder is
 * torn up: snapshots cut short and overwritten, files and folders removed. Every
 * launch's whole output must be right, and the program must end as if nothing were there.
 *
 *   e2e_faults              two samples (one under a sanitizer), others each day; prints the seed
 *   e2e_faults SEED all     every sample
 *
 * The variants are the kernels' own code under another name in the cache: what is tried here is
 * kgenrt, not them. */
#include <dirent.h>
#include <glob.h>

#include "cache.h"
#include "capture.h"
#include "code/code.h"
#include "e2e.h"

static const char *const samples[] = {
    "polynomial",  "transpose",  "softmax", "stencil",   "sgemm",  "sgemv",
    "bias_grad",   "sum",        "scan",    "histogram", "conv2d", "depthwise",
    "maxpool",     "spmv",       "nbody",   "attention", "gelu",   "layernorm",
    "add_rmsnorm", "vector_add", "relu",    "residual",  "adamw"};
enum { SAMPLES = sizeof samples / sizeof *samples };
static uint64_t state;

static unsigned draw(unsigned below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % below;
}

/* ---- a cache with a variant of the sample's kernel ----------------------------------------------
 */

static void publish(const struct kg_capture *capture)
{
    struct image_code code;
    struct kernel_model model;
    struct store *store;
    bool best = false;
    struct kg_variant v = {.kernel = capture->kernel,
                           .launch = capture->launch,
                           .maker = "recorded",
                           .entry = capture->entry,
                           .kernel_name = capture->entry,
                           .note = "its own code",
                           .accuracy = "bitwise",
                           .ratio = 2,
                           .low = 1.9,
                           .high = 2.1,
                           .driver_version = capture->hardware.driver_version,
                           .time = 1700000000};
    WELL(image_select(capture->image, capture->image_size, capture->hardware.arch, true, &code));
    WELL(kernel_model_make(&code, capture->entry, &model));
    if (model.global_count) { /* its own copies of variables would be stale */
        fprintf(stderr, "%s: has variables, gets no variant\n", capture->entry);
    } else {
        hardware_key(&capture->hardware, &v.hardware);
        WELL(capture_signature(capture, &v.signature));
        WELL(store_open(cache_dir(), false, &store));
        WELL(store_put_hardware(store, &capture->hardware));
        WELL(store_put_blob(store, code.ptx.data, strlen((char *)code.ptx.data) + 1, &v.code));
        WELL(store_put_blob(store, "{}", 2, &v.evidence));
        variant_identify(&v);
        WELL(store_put_variant(store, &v, &best));
        WELL(snapshot_make(store, cache_dir(), &v.hardware));
        store_close(store);
        signature_free(&v.signature);
    }
    kernel_model_free(&model);
    image_code_free(&code);
}

/* A process of its own: the cache folder is read from the environment once. */
static int prepare(const char *path)
{
    struct kg_capture capture;
    WELL(capture_read(path, &capture));
    publish(&capture);
    capture_free(&capture);
    return test_result();
}

/* ---- the cache is torn up -----------------------------------------------------------------------
 */

static void spoil(const char *path)
{
    struct stat info;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &info) || !S_ISREG(info.st_mode) || info.st_size < 2) {
        if (fd >= 0)
            close(fd);
        return;
    }
    off_t at = (off_t)draw((unsigned)info.st_size);
    if (draw(2))
        (void)!ftruncate(fd, at);
    else
        (void)!pwrite(fd, "spoilt", 6, at);
    close(fd);
}

static void vandal(const char *cache)
{
    static const char *const patterns[] = {"snapshots/*", "spool/*", "flight/*", "judged/*",
                                           "snapshots/*.current"};
    static const char *const folders[] = {"spool", "snapshots", "flight", "material"};
    glob_t found;
    char *pattern = e2e_text("%s/%s", cache, patterns[draw(5)]);
    if (draw(8) == 0) {
        const char *folder = e2e_text("%s/%s", cache, folders[draw(4)]);
        (void)!system(
            e2e_text("rm -rf '%s'; %s '%s'", folder, draw(2) ? "touch" : "mkdir -p", folder));
    } else if (!glob(pattern, 0, NULL, &found)) {
        const char *path = found.gl_pathv[draw((unsigned)found.gl_pathc)];
        if (draw(4) == 0)
            (void)unlink(path);
        else
            spoil(path);
        globfree(&found);
    }
}

/* ---- a sample under faults ----------------------------------------------------------------------
 */

static unsigned failed(void)
{
    unsigned count = 0;
    FILE *file = fopen(e2e_text("%s.faults", e2e_cache), "r");
    if (!CHECK(file && fscanf(file, "%u", &count) == 1))
        count = 0;
    if (file)
        fclose(file);
    return count;
}

static const char *const *environment(unsigned rate, unsigned after, unsigned checked)
{
    static const char *all[20];
    unsigned n = 0;
    all[n++] = e2e_text("LD_PRELOAD=" PRELOAD_FIRST "%s/libkgenrt.so:%s/e2e_faults/libcuda.so.1",
                        E2E_BUILD, E2E_BUILD);
    all[n++] = e2e_text("LD_LIBRARY_PATH=%s/e2e_faults:%s", E2E_BUILD, getenv("LD_LIBRARY_PATH"));
    all[n++] = e2e_text("FAULT_SEED=%u", draw(1000000000));
    all[n++] = e2e_text("FAULT_RATE=%u", rate);
    all[n++] = e2e_text("FAULT_AFTER=%u", after);
    all[n++] = e2e_text("FAULT_REPORT=%s.faults", e2e_cache);
    if (draw(2))
        all[n++] = "FAULT_SIGNALS=1";
    all[n++] = e2e_text("KGENRT_SHADOW_FIRST=%u", checked);
    all[n++] = "FAULT_PACE=1000";
    all[n++] = "KGENRT_WORKER=off";
    all[n++] = "KGENRT_MODE=tune";
    all[n++] = "KGENRT_HOT_LAUNCHES=5";
    all[n++] = "KGENRT_SHADOW_EVERY=8";
    all[n++] = "KGENRT_MAKERS=rules";
    all[n] = NULL;
    return all;
}

/* Launches of the last program that ran a variant. */
static double swapped(void)
{
    json_t *status = e2e_json("status", NULL), *kernel;
    json_t *process = json_array_get(json_object_get(status, "processes"), 0);
    double sum = 0;
    size_t i;
    json_array_foreach(json_object_get(process, "kernels"), i, kernel) sum +=
        json_number_value(json_object_get(kernel, "swapped"));
    json_decref(status);
    return sum;
}

/* No faults; faults from the start on; after some launches; the same with the cache torn up. */
static void run(const char *sample, const char *kept, bool variant)
{
    static const struct {
        unsigned rate, after, checked; /* one call in so many fails; after so many launches;
                                          launches that are checked first */
    } rounds[] = {{0, 0, 3}, {25, 0, 900}, {4, 20, 900}, {2, 100, 200}};
    enum { ROUNDS = sizeof rounds / sizeof *rounds };
    unsigned all = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        e2e_fresh_cache();
        CHECK(!system(e2e_text("cp -r '%s'/. '%s'", kept, e2e_cache)));
        const char *const *with =
            environment(rounds[round].rate, rounds[round].after, rounds[round].checked);
        const char *const argv[] = {e2e_sample(sample), "--launches", "1000", "--tiny", NULL};
        pid_t tearing = round == ROUNDS - 1 ? fork() : -1;
        if (!tearing)
            for (;; usleep(20000))
                vandal(e2e_cache);
        int status = e2e_run(argv, with, 200);
        if (tearing > 0) {
            kill(tearing, SIGKILL);
            waitpid(tearing, NULL, 0);
        }
        if (!CHECK(status == 0 && strstr(e2e_output, " 1000 launches checked, 0 wrong"))) {
            fprintf(stderr, "%s, round %u: status %d; %s\n", sample, round, status, with[2]);
            e2e_show_log();
        }
        if (round == 0 && variant) /* without a fault: there is something to try */
            CHECK(swapped() > 0);
        all += failed();
        (void)unlink(e2e_text("%s.faults", e2e_cache));
        e2e_remove_cache();
    }
    fprintf(stderr, "%s: %u times 1,000 launches, %u calls failed\n", sample, ROUNDS, all);
    CHECK(all >= 30); /* fewer: nothing was tried */
}

static void sample_tried(const char *sample)
{
    e2e_fresh_cache();
    char *kept = e2e_text("%s", e2e_cache);
    const char *capture = e2e_captured(e2e_sample(sample), "--tiny");
    if (capture) {
        CHECK(e2e_run((const char *[]){"/proc/self/exe", "prepare", capture, NULL}, NULL, 60) == 0);
        CHECK(!system(e2e_text("rm '%s'/*.kgcap", kept)));
        run(sample, kept, !access(e2e_text("%s/store", kept), F_OK));
    }
    CHECK(!system(e2e_text("rm -rf '%s'", kept)));
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "prepare"))
        return prepare(argv[2]);
    bool all = argc > 2 && !strcmp(argv[2], "all");
    state = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL) / 86400;
    fprintf(stderr, "seed %llu\n", (unsigned long long)state);
    e2e_begin(0, NULL);
    e2e_remove_cache();
    unsigned first = draw(SAMPLES), count = all ? SAMPLES : *PRELOAD_FIRST ? 1 : 2;
    for (unsigned i = 0; i < count; i++)
        sample_tried(samples[(first + 5 * i) % SAMPLES]);
    return test_result();
}
