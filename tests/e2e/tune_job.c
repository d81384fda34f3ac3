/* The worker's whole way on the software GPU (its kernel is too small for a real one to gain; there
 * loop.c does it): a capture in the spool, recorded replies as the maker, and what the store then
 * says. A right reply is published; hostile ones are refused by the gates named here and not tried
 * again; a worker that is killed on entry to any step leaves a spool that the next worker finishes.
 */
#include "tune_fixture.h"

#include "cache.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

static CUdeviceptr at[2];
static struct kg_hardware hardware;

/* ---- replies -----------------------------------------------------------------------------------
 */

/* The right kernel with something done to it. */
struct reply {
    const char *name, *gate;
    const char *limit, *value, *after;
};
static const struct reply hostile[] = {
    {"edge", "bounds", "n + 1", "2 * x[i] + 1", ""},
    {"tail", "poison", "n - n % 128", "2 * x[i] + 1", ""},
    {"block", "compare", "n", "2 * x[i] + (blockIdx.x == 3 ? 2 : 1)", ""},
    {"past", "bounds", "n", "2 * x[i] + 1", "if (i == 5) y[n + 100] = 0;"},
    {"endless", "instrumented", "n", "2 * x[i] + 1", "while (n > 0) y[i] = y[i] + 1;"},
    {"nothing", "poison", "0", "2 * x[i] + 1", ""},
    {"illegal", "bounds", "n", "2 * x[i] + 1", "if (i == 5) y[(size_t)1 << 42] = 0;"},
};
enum { HOSTILE = sizeof hostile / sizeof *hostile };

static void put_reply(const struct reply *reply)
{
    char text[2048], path[64];
    snprintf(text, sizeof text,
             "A faster one.\n\n```cuda\n"
             "extern \"C\" __global__ void fast(const float *x, float *y, int n)\n{\n"
             "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < %s) {\n"
             "        y[i] = %s;\n        %s\n    }\n}\n```\n\n```json\n{\"entry\": \"fast\", "
             "\"params\": [\"x\", \"y\", \"n\"], \"launch\": {\"grid\": [\"gx\", 1, 1], \"block\": "
             "[\"bx\", 1, 1], \"shared\": 0}, \"guards\": [], \"globals\": [], \"note\": "
             "\"%s\"}\n```\n",
             reply->limit, reply->value, reply->after, reply->name);
    snprintf(path, sizeof path, "replies/%s.md", reply->name);
    CHECK(file_write(in_dir(path), text, strlen(text), 0600) == KG_OK);
}

/* ---- the worker --------------------------------------------------------------------------------
 */

static void spool(void)
{
    CHECK(write_capture(in_dir("cache/spool/one.kgcap"), false, at, &hardware));
}

static int work(const char *die)
{
    int how = 0;
    pid_t child = start_worker(die);
    CHECK(waitpid(child, &how, 0) == child);
    return how;
}

/* ---- what the store says -----------------------------------------------------------------------
 */

struct found {
    unsigned variants, rejections, evidence, done, other_jobs;
    bool gates[HOSTILE], candidate;
    char note[64], detail[512];
    double ratio;
};

static bool each_variant(void *self, const struct kg_variant *v, bool best)
{
    struct found *found = self;
    found->variants += best;
    found->ratio = v->ratio;
    snprintf(found->note, sizeof found->note, "%s", v->note);
    return true;
}

static bool each_rejection(void *self, const struct kg_rejection *r)
{
    struct found *found = self;
    found->rejections++;
    for (unsigned i = 0; i < HOSTILE; i++)
        if (!found->gates[i] && !strcmp(r->gate, hostile[i].gate)) {
            found->gates[i] = true; /* two of one gate fill two rows */
            break;
        }
    static const struct kg_id none;
    found->candidate = !id_equal(&r->candidate, &none);
    found->evidence += !id_equal(&r->evidence, &none);
    fprintf(stderr, "  gate %s: %s\n", r->gate, r->reason);
    return true;
}

static bool first_rejection(void *self, const struct kg_rejection *r)
{
    *(struct kg_rejection *)self = *r;
    return false;
}

static bool each_job(void *self, const struct kg_job_note *j)
{
    struct found *found = self;
    if (strcmp(j->state, "done"))
        found->other_jobs++;
    else
        found->done++;
    snprintf(found->detail, sizeof found->detail, "%s", j->detail);
    fprintf(stderr, "  job %s: %s\n", j->state, j->detail);
    return true;
}

static void look(struct found *found)
{
    struct store *store;
    *found = (struct found){0};
    if (!CHECK(store_open(in_dir("cache"), true, &store) == KG_OK))
        return;
    CHECK(store_each_variant(store, each_variant, found) == KG_OK);
    CHECK(store_each_rejection(store, each_rejection, found) == KG_OK);
    CHECK(store_each_job(store, each_job, found) == KG_OK);
    store_close(store);
}

/* ---- cases -------------------------------------------------------------------------------------
 */

static const struct reply right = {"right", "", "n", "2 * x[i] + 1", ""};

static void published(void)
{
    struct found found;
    struct kg_id key, snapshot;
    fresh_cache();
    put_reply(&right);
    spool();
    CHECK(work(NULL) == 0);
    look(&found);
    CHECK(found.variants == 1 && !found.rejections && found.done == 1 && !found.other_jobs);
    CHECK(found.ratio > 1.03 && !strcmp(found.note, "right"));
    hardware_key(&hardware, &key);
    CHECK(snapshot_current(in_dir("cache"), &key, &snapshot) == KG_OK);
    CHECK(access(in_dir("cache/spool/one.kgcap"), F_OK));
    spool();
    CHECK(work(NULL) == 0);
    look(&found);
    CHECK(found.variants == 1 && strstr(found.detail, "has a verified variant already"));
}

static void refused(void)
{
    struct found found;
    fresh_cache();
    for (unsigned i = 0; i < HOSTILE; i++)
        put_reply(&hostile[i]);
    CHECK(file_write(in_dir("replies/garbage.md"), "I cannot help", 13, 0600) == KG_OK);
    spool();
    CHECK(work(NULL) == 0);
    look(&found);
    CHECK(!found.variants && found.rejections == HOSTILE + 1 && found.candidate);
    CHECK(found.evidence == HOSTILE); /* the garbage met no replay */
    for (unsigned i = 0; i < HOSTILE; i++)
        if (!CHECK(found.gates[i]))
            fprintf(stderr, "  %s was not refused by %s\n", hostile[i].name, hostile[i].gate);
    put_reply(&right); /* among the others, which are not tried again */
    spool();
    CHECK(work(NULL) == 0);
    look(&found);
    CHECK(found.variants == 1 && found.rejections <= HOSTILE + 2);
}

/* A driver that changes may change which one is faster: what the clock alone refused is timed
 * again, once; what was wrong stays refused. */
static void timed_anew(void)
{
    static const struct reply slow = {
        "slow", "time", "n", "2 * x[i] + 1",
        "for (int k = 0; k < n % 2 + 1500; k++) if (y[i] == k + 0.5f) y[i] = 0;"};
    struct found found;
    struct store *store;
    struct kg_rejection timed = {.driver_version = 0};
    fresh_cache();
    put_reply(&slow);
    spool();
    CHECK(work(NULL) == 0);
    for (int round = 0; round < 2; round++) { /* at first as it was left, then as of another */
        uint64_t time = timed.time;
        if (!CHECK(store_open(in_dir("cache"), false, &store) == KG_OK))
            return;
        CHECK(store_each_rejection(store, first_rejection, &timed) == KG_OK);
        CHECK(!strcmp(timed.gate, "time") && timed.driver_version == hardware.driver_version);
        CHECK(!round || timed.time == time);
        timed.time = 1;
        timed.driver_version -= round;
        CHECK(store_put_rejection(store, &timed) == KG_OK);
        store_close(store);
        spool();
        CHECK(work(NULL) == 0);
    }
    look(&found);
    CHECK(!found.variants && found.rejections == 1);
    CHECK(store_open(in_dir("cache"), true, &store) == KG_OK);
    CHECK(store_each_rejection(store, first_rejection, &timed) == KG_OK);
    CHECK(timed.driver_version == hardware.driver_version && timed.time > 1);
    store_close(store);
}

static void killed(void)
{
    static const char *const steps[] = {"open",  "analyse", "generate", "compile",
                                        "admit", "verify",  "time",     "publish"};
    for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct found found;
        fresh_cache();
        put_reply(&right);
        spool();
        int how = work(steps[i]);
        CHECK(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
        CHECK(!access(in_dir("cache/spool/one.kgcap"), F_OK));
        CHECK(work(NULL) == 0);
        look(&found);
        if (!CHECK(found.variants == 1 && found.done == 1))
            fprintf(stderr, "  after a kill on entry to %s\n", steps[i]);
    }
}

/* Wherever it is killed, the store stays whole and no replay outlives its worker. */
static void killed_at_random(void)
{
    struct found found;
    fresh_cache();
    put_reply(&hostile[4]); /* endless */
    put_reply(&right);
    for (unsigned i = 0; i < 20; i++) {
        struct timespec nap = {0, (long)(random_word(now_ns(), i) % 800000000)};
        spool();
        pid_t child = start_worker(NULL);
        nanosleep(&nap, NULL);
        kill(child, SIGKILL);
        CHECK(waitpid(child, NULL, 0) == child);
        (void)unlink(in_dir("cache/spool/one.kgcap.tries"));
    }
    spool();
    CHECK(work(NULL) == 0);
    look(&found);
    CHECK(found.variants == 1 && found.rejections == 1);
    struct timespec nap = {0, 200000000};
    nanosleep(&nap, NULL);
    char command[KG_PATH + 64];
    snprintf(command, sizeof command, "! grep -lsa '%s/[c]ache/work' /proc/[0-9]*/cmdline",
             tune_dir);
    CHECK(system(command) == 0);
}

int main(int argc, char **argv)
{
    fixture_device(argv);
    if (strstr(NVCC, "NOTFOUND"))
        SKIP("no CUDA toolkit here, so replies cannot be compiled");
    if (!fresh_dir() || !CHECK(addresses(at, &hardware)))
        return test_result();
    setenv("KGENRT_REPEATS", "3", 0);
    published();
    refused();
    timed_anew();
    killed();
    killed_at_random();
    remove_all("");
    return test_result();
}
