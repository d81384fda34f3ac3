/* The store: what is put is found by another process; the best of a signature is the fastest, ties
 * to the earlier; a full map grows; unsafe folders and damaged records are refused. */
#include "../../cache/env.h"
#include "cache_fixture.h"

#include <sys/socket.h>
#include <sys/wait.h>

static const char *dir;

struct seen {
    unsigned count, best;
    double best_ratio;
    struct kg_id best_id;
};

static bool see(void *self, const struct kg_variant *variant, bool best)
{
    struct seen *seen = self;
    seen->count++;
    seen->best += best;
    if (best) {
        seen->best_id = variant->id;
        seen->best_ratio = variant->ratio;
    }
    return true;
}

static struct kg_id put_variant(struct store *store, const char *code, double ratio, bool best)
{
    struct kg_variant variant = fixture_variant("kernel", 64, ratio);
    bool is_best = !best;
    CHECK(store_put_blob(store, code, strlen(code), &variant.code) == KG_OK);
    variant_identify(&variant);
    CHECK(store_put_variant(store, &variant, &is_best) == KG_OK && is_best == best);
    return variant.id;
}

static bool see_rejection(void *self, const struct kg_rejection *rejection)
{
    struct kg_rejection *out = self;
    *out = *rejection;
    return false;
}

/* What was verified under an older driver neither keeps a newer one from being the best, nor
 * follows it. */
static void another_driver(struct store *store)
{
    struct kg_variant newer = fixture_variant("kernel", 64, 1.1);
    struct seen seen = {0};
    bool is_best = false;
    newer.driver_version = 13010;
    CHECK(store_put_blob(store, "e", 1, &newer.code) == KG_OK);
    variant_identify(&newer);
    CHECK(store_put_variant(store, &newer, &is_best) == KG_OK && is_best);
    CHECK(store_demote(store, &newer.id, "wrong") == KG_OK);
    CHECK(store_each_variant(store, see, &seen) == KG_OK && seen.count == 5 && !seen.best);
}

static void best(struct store *store)
{
    struct seen seen = {0};
    struct kg_id first = put_variant(store, "a", 1.5, true);
    put_variant(store, "b", 1.5, false); /* a tie goes to the earlier */
    put_variant(store, "c", 1.2, false);
    CHECK(store_each_variant(store, see, &seen) == KG_OK);
    CHECK(seen.count == 3 && seen.best == 1 && id_equal(&seen.best_id, &first));
    struct kg_id second = put_variant(store, "d", 1.6, true);
    put_variant(store, "d", 1.55, true); /* measured again: stays the best */
    seen = (struct seen){0};
    CHECK(store_each_variant(store, see, &seen) == KG_OK);
    CHECK(seen.count == 4 && seen.best == 1 && id_equal(&seen.best_id, &second));
    struct kg_rejection rejection = {.time = 0};
    CHECK(store_demote(store, &second, "wrong in the app") == KG_OK);
    CHECK(store_demote(store, &(struct kg_id){{0}}, "x") == KG_NOT_FOUND);
    seen = (struct seen){0};
    CHECK(store_each_variant(store, see, &seen) == KG_OK && seen.count == 4 && seen.best == 1);
    CHECK(seen.best_ratio == 1.5); /* the second best takes its place */
    CHECK(store_each_rejection(store, see_rejection, &rejection) == KG_OK);
    CHECK(!strcmp(rejection.gate, "demoted") && !strcmp(rejection.reason, "wrong in the app"));
    for (int left = 2; left >= 0; left--) { /* and so on, but what was demoted never comes back */
        CHECK(store_demote(store, &seen.best_id, "wrong, too") == KG_OK);
        seen = (struct seen){0};
        CHECK(store_each_variant(store, see, &seen) == KG_OK && seen.best == (left > 0));
        CHECK(!left || seen.best_ratio == (left == 2 ? 1.5 : 1.2));
    }
    put_variant(store, "c", 1.2, true);
    another_driver(store);
}

static bool count_rejection(void *self, const struct kg_rejection *rejection)
{
    ++*(unsigned *)self;
    return true;
}

static bool see_job(void *self, const struct kg_job_note *job)
{
    CHECK(!*(char *)self);
    strcpy(self, job->state);
    return true;
}

static bool see_kernel(void *self, const struct kg_kernel_note *kernel)
{
    strcpy(self, kernel->name);
    return true;
}

static bool see_hardware(void *self, const struct kg_id *key, const struct kg_hardware *hardware)
{
    struct kg_hardware *out = self;
    *out = *hardware;
    return true;
}

static void notes(struct store *store)
{
    struct kg_hardware hardware = fixture_hardware(), found = {.vendor = ""};
    struct kg_job_note job = {.state = "queued"};
    struct kg_kernel_note kernel = {.name = "_Z6kernelv"};
    struct kg_rejection rejection = {.gate = "memory", .maker = "rules"};
    unsigned before = 0, after = 0;
    char state[32] = "", name[512] = "";
    CHECK(store_put_hardware(store, &hardware) == KG_OK);
    CHECK(store_each_hardware(store, see_hardware, &found) == KG_OK);
    CHECK(!memcmp(&found, &hardware, sizeof found));
    CHECK(store_put_job(store, &job) == KG_OK);
    strcpy(job.state, "done");
    CHECK(store_put_job(store, &job) == KG_OK); /* the latest state of one job */
    CHECK(store_each_job(store, see_job, state) == KG_OK && !strcmp(state, "done"));
    CHECK(store_put_kernel(store, &kernel) == KG_OK);
    CHECK(store_each_kernel(store, see_kernel, name) == KG_OK && !strcmp(name, "_Z6kernelv"));
    CHECK(store_each_rejection(store, count_rejection, &before) == KG_OK);
    CHECK(store_put_rejection(store, &rejection) == KG_OK);
    CHECK(store_put_rejection(store, &rejection) == KG_OK); /* once: the same verdict */
    rejection.candidate = id_of("source");
    CHECK(store_put_rejection(store, &rejection) == KG_OK);
    CHECK(store_each_rejection(store, count_rejection, &after) == KG_OK && after == before + 2);
}

/* More than the first map holds, and more than another process has mapped. */
static void growth(struct store *store)
{
    enum { SIZE = 8 << 20, COUNT = 12 };
    unsigned char *noise = malloc(SIZE);
    struct kg_id ids[COUNT];
    struct kg_bytes back;
    uint64_t state = 1;
    for (int i = 0; i < COUNT; i++) {
        for (size_t at = 0; at < SIZE; at += 8) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            memcpy(noise + at, &state, 8);
        }
        CHECK(store_put_blob(store, noise, SIZE, &ids[i]) == KG_OK);
        CHECK(store_put_blob(store, noise, SIZE, &ids[i]) == KG_OK); /* nothing new */
    }
    CHECK(store_get_blob(store, &ids[COUNT - 1], &back) == KG_OK && back.size == SIZE &&
          !memcmp(back.data, noise, SIZE));
    bytes_free(&back);
    CHECK(store_get_blob(store, &(struct kg_id){{0}}, &back) == KG_NOT_FOUND);
    free(noise);
}

/* A reader of another process, open since before the map grew, must follow. */
static void reader(int wake)
{
    struct store *store;
    struct seen seen = {0};
    char byte;
    bool good = store_open(dir, true, &store) == KG_OK;
    good = good && store_each_variant(store, see, &seen) == KG_OK && !seen.count;
    good = good && write(wake, "r", 1) == 1 && read(wake, &byte, 1) == 1;
    good = good && store_each_variant(store, see, &seen) == KG_OK && seen.count == 5;
    good = good && store_put_blob(store, "x", 1, &seen.best_id) == KG_DENIED;
    store_close(store);
    _exit(!good);
}

static void two_processes(void)
{
    int pair[2], result = -1;
    char byte;
    struct store *store;
    CHECK(store_open(dir, true, &store) == KG_NOT_FOUND);
    CHECK(store_open(dir, false, &store) == KG_OK);
    store_close(store); /* now it exists */
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    pid_t child = fork();
    if (!child) {
        close(pair[0]);
        reader(pair[1]);
    }
    close(pair[1]);
    CHECK(read(pair[0], &byte, 1) == 1);
    CHECK(store_open(dir, false, &store) == KG_OK);
    best(store);
    notes(store);
    growth(store);
    store_close(store);
    CHECK(write(pair[0], "w", 1) == 1);
    CHECK(waitpid(child, &result, 0) == child && !result);
    close(pair[0]);
}

static bool write_inside(void *self, const struct kg_variant *variant, bool is_best)
{
    struct kg_id id;
    CHECK(store_put_blob(self, "inside", 6, &id) == KG_BUSY);
    return false;
}

/* A record damaged in place: the others are seen, and the damage is said. */
static void damage(void)
{
    struct store *store;
    struct seen seen = {0};
    MDB_txn *txn;
    MDB_cursor *cursor = NULL;
    MDB_val key, value;
    CHECK(store_open(dir, false, &store) == KG_OK);
    CHECK(store_each_variant(store, write_inside, store) == KG_OK);
    CHECK(!mdb_txn_begin(store->env, NULL, 0, &txn) &&
          !mdb_cursor_open(txn, store->databases[DB_variants], &cursor) &&
          !mdb_cursor_get(cursor, &key, &value, MDB_FIRST));
    unsigned char copy[4096];
    if (CHECK(value.mv_size < sizeof copy)) {
        memcpy(copy, value.mv_data, value.mv_size);
        copy[40] ^= 1;
        value.mv_data = copy;
        CHECK(!mdb_cursor_put(cursor, &key, &value, MDB_CURRENT));
    }
    if (cursor)
        mdb_cursor_close(cursor);
    CHECK(!mdb_txn_commit(txn));
    CHECK(store_each_variant(store, see, &seen) == KG_CORRUPT && seen.count == 4);
    store_close(store);
}

/* Cut short, as after a full disk or a bad copy: LMDB would run into a SIGBUS. */
static void truncation(void)
{
    char path[KG_PATH];
    struct stat info;
    struct store *store;
    struct kg_bytes file;
    snprintf(path, sizeof path, "%s/store/data.mdb", dir);
    CHECK(!stat(path, &info) && info.st_size > 64 << 20);
    for (off_t size = info.st_size - 4096; size > 0; size /= 2) {
        CHECK(!truncate(path, size));
        CHECK(store_open(dir, true, &store) != KG_OK && !store);
        CHECK(store_open(dir, false, &store) != KG_OK && !store);
    }
    CHECK(!truncate(path, 0) && store_open(dir, false, &store) == KG_OK); /* as good as none */
    store_close(store);
    CHECK(file_read(path, 1 << 20, &file) == KG_OK);
    bytes_free(&file);
}

static void refusals(void)
{
    char path[KG_PATH];
    struct store *store;
    snprintf(path, sizeof path, "%s/file", dir);
    CHECK(file_write(path, "x", 1, 0600) == KG_OK);
    CHECK(store_open(path, false, &store) != KG_OK && !store); /* under a plain file */
    CHECK(store_open(path, true, &store) != KG_OK);
    snprintf(path, sizeof path, "%s/store/data.mdb", dir);
    CHECK(!chmod(path, 0666));
    CHECK(store_open(dir, true, &store) == KG_DENIED);
    CHECK(!chmod(path, 0600));
    CHECK(!chmod(dir, 0777));
    CHECK(store_open(dir, true, &store) == KG_DENIED);
    CHECK(store_open(dir, false, &store) == KG_DENIED);
    CHECK(!chmod(dir, 0700));
    CHECK(store_open(dir, true, &store) == KG_OK);
    store_close(store);
    CHECK(file_write(path, "no LMDB file at all, but a text of some length", 46, 0600) == KG_OK);
    CHECK(store_open(dir, true, &store) == KG_CORRUPT);
    CHECK(file_system_remote(0x6969) && file_system_remote(0xFF534D42));
    CHECK(!file_system_remote(0xEF53) && !file_system_remote(0x01021994));
}

int main(void)
{
    dir = fixture_folder("cache_store");
    two_processes();
    damage();
    truncation();
    refusals();
    return test_result();
}
