/* Snapshots: made from the store, opened like an app does; nothing that is damaged is ever mapped;
 * old ones go, the one before stays. */
#include "cache_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *dir;
static struct kg_id hardware;

static struct kg_id put(struct store *store, const char *kernel, uint32_t grid, const char *code,
                        double ratio)
{
    struct kg_variant variant = fixture_variant(kernel, grid, ratio);
    CHECK(store_put_blob(store, code, strlen(code), &variant.code) == KG_OK);
    CHECK(store_put_blob(store, "evidence", 8, &variant.evidence) == KG_OK);
    variant_identify(&variant);
    CHECK(store_put_variant(store, &variant, NULL) == KG_OK);
    return variant.id;
}

struct seen {
    unsigned count;
    struct kg_id code, last;
};

static bool see(void *self, const struct kg_variant *variant)
{
    struct seen *seen = self;
    seen->count++;
    seen->last = variant->id;
    seen->code = variant->code;
    return true;
}

static unsigned files(const char *suffix)
{
    char path[KG_PATH];
    struct dirent *entry;
    unsigned count = 0;
    snprintf(path, sizeof path, "%s/snapshots", dir);
    DIR *folder = opendir(path);
    while (folder && (entry = readdir(folder)))
        count += strlen(entry->d_name) > strlen(suffix) &&
                 !strcmp(entry->d_name + strlen(entry->d_name) - strlen(suffix), suffix);
    if (folder)
        closedir(folder);
    return count;
}

static void content(struct store *store)
{
    struct snapshot *snapshot;
    struct kg_bytes code;
    struct kg_id current, kernel = id_of("one"), none = id_of("none");
    struct kg_id best = put(store, "one", 64, "fast code", 1.5);
    struct kg_id next = put(store, "one", 64, "slow code", 1.1);
    put(store, "one", 128, "other size", 1.3);
    put(store, "two", 64, "of another kernel", 1.3);
    CHECK(snapshot_open(dir, &hardware, &snapshot) == KG_NOT_FOUND && !snapshot);
    CHECK(snapshot_current(dir, &hardware, &current) == KG_NOT_FOUND);
    CHECK(snapshot_make(store, dir, &hardware) == KG_OK);
    CHECK(snapshot_open(dir, &none, &snapshot) == KG_NOT_FOUND);
    if (!CHECK(snapshot_open(dir, &hardware, &snapshot) == KG_OK))
        return;
    CHECK(snapshot_kernel_count(snapshot) == 2);
    CHECK(snapshot_current(dir, &hardware, &current) == KG_OK &&
          id_equal(&current, snapshot_id(snapshot)));
    struct seen seen = {0};
    CHECK(snapshot_each(snapshot, &kernel, see, &seen) == KG_OK && seen.count == 2);
    seen = (struct seen){0};
    CHECK(snapshot_each(snapshot, &none, see, &seen) == KG_OK && !seen.count);
    kernel = id_of("two");
    CHECK(snapshot_each(snapshot, &kernel, see, &seen) == KG_OK && seen.count == 1);
    CHECK(snapshot_blob(snapshot, &seen.code, &code) == KG_OK && code.size == 17 &&
          !memcmp(code.data, "of another kernel", 18));
    bytes_free(&code);
    CHECK(snapshot_blob(snapshot, &none, &code) == KG_NOT_FOUND);
    struct kg_id evidence;
    CHECK(store_put_blob(store, "evidence", 8, &evidence) == KG_OK);
    CHECK(snapshot_blob(snapshot, &evidence, &code) == KG_NOT_FOUND); /* not the app's business */
    /* Both of one signature are demoted: the old snapshot still has one, the next has none. */
    CHECK(store_demote(store, &best, "test") == KG_OK);
    CHECK(store_demote(store, &next, "test") == KG_OK);
    CHECK(snapshot_make(store, dir, &hardware) == KG_OK);
    kernel = id_of("one");
    seen = (struct seen){0};
    CHECK(snapshot_each(snapshot, &kernel, see, &seen) == KG_OK && seen.count == 2);
    CHECK(snapshot_current(dir, &hardware, &current) == KG_OK &&
          !id_equal(&current, snapshot_id(snapshot)));
    snapshot_close(snapshot);
    CHECK(snapshot_open(dir, &hardware, &snapshot) == KG_OK);
    seen = (struct seen){0};
    CHECK(snapshot_each(snapshot, &kernel, see, &seen) == KG_OK && seen.count == 1);
    snapshot_close(snapshot);
    snapshot_close(NULL);
}

static void lifecycle(struct store *store)
{
    struct kg_id before, after, other = id_of("other hardware");
    struct snapshot *snapshot;
    CHECK(snapshot_current(dir, &hardware, &before) == KG_OK);
    CHECK(snapshot_make(store, dir, &hardware) == KG_OK); /* nothing changed */
    CHECK(snapshot_current(dir, &hardware, &after) == KG_OK && id_equal(&before, &after));
    for (uint32_t i = 0; i < 4; i++) {
        put(store, "three", 2 + i, "code", 1.2);
        CHECK(snapshot_make(store, dir, &hardware) == KG_OK);
    }
    CHECK(files(".kgs") == 2 && files(".current") == 1 && files(".compact") == 0);
    CHECK(snapshot_make(store, dir, &other) == KG_OK); /* nothing is known of it */
    CHECK(snapshot_open(dir, &other, &snapshot) == KG_OK && !snapshot_kernel_count(snapshot));
    snapshot_close(snapshot);
    CHECK(files(".kgs") == 3);
}

static void path_of_current(char path[KG_PATH])
{
    char key[KG_ID_TEXT], text[KG_ID_TEXT];
    struct kg_id id;
    CHECK(snapshot_current(dir, &hardware, &id) == KG_OK);
    snprintf(path, KG_PATH, "%s/snapshots/%s-%s.kgs", dir, id_text(&hardware, key),
             id_text(&id, text));
}

/* Cut at every 509th byte, and 4,000 bits spread over the file flipped: never opened, never a
 * crash. (Opened by LMDB alone, most of these crash: that is why the digest comes first.) */
static void damage(void)
{
    char path[KG_PATH];
    struct kg_bytes file;
    struct snapshot *snapshot;
    unsigned opened = 0;
    path_of_current(path);
    if (!CHECK(file_read(path, 64 << 20, &file) == KG_OK))
        return;
    for (size_t size = 0; size < file.size; size += 509) {
        CHECK(!truncate(path, 0) && file_write(path, file.data, size, 0600) == KG_OK);
        opened += snapshot_open(dir, &hardware, &snapshot) == KG_OK;
    }
    FILE *out = fopen(path, "wb");
    CHECK(out && fwrite(file.data, 1, file.size, out) == file.size && !fflush(out));
    for (unsigned i = 0; i < 4000; i++) {
        size_t bit = (size_t)i * 2654435761u % (8 * file.size);
        unsigned char flipped = file.data[bit / 8] ^ (unsigned char)(1 << bit % 8);
        CHECK(pwrite(fileno(out), &flipped, 1, (off_t)(bit / 8)) == 1);
        opened += snapshot_open(dir, &hardware, &snapshot) == KG_OK;
        CHECK(pwrite(fileno(out), file.data + bit / 8, 1, (off_t)(bit / 8)) == 1);
    }
    fclose(out);
    CHECK(!opened);
    CHECK(snapshot_open(dir, &hardware, &snapshot) == KG_OK);
    snapshot_close(snapshot);
    bytes_free(&file);
}

/* The file is cut short under an open snapshot: all of it can be read still, and no SIGBUS. */
static void cut_while_open(void)
{
    char path[KG_PATH];
    struct kg_bytes file, code = {0};
    struct snapshot *snapshot;
    struct seen seen = {0};
    struct kg_id kernel = id_of("two");
    path_of_current(path);
    if (!CHECK(file_read(path, 64 << 20, &file) == KG_OK) ||
        !CHECK(snapshot_open(dir, &hardware, &snapshot) == KG_OK))
        return;
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        CHECK(!truncate(path, 0));
        CHECK(snapshot_each(snapshot, &kernel, see, &seen) == KG_OK && seen.count == 1);
        CHECK(snapshot_blob(snapshot, &seen.code, &code) == KG_OK && code.size);
        _exit(test_failures != 0);
    }
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid && !status);
    snapshot_close(snapshot);
    CHECK(file_write(path, file.data, file.size, 0600) == KG_OK);
    bytes_free(&file);
}

/* An app closes descriptors that it does not know, and opens files of its own: they stay open. */
static void closed_by_the_app(void)
{
    struct snapshot *snapshot;
    struct seen seen = {0};
    struct kg_id kernel = id_of("two");
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        CHECK(snapshot_open(dir, &hardware, &snapshot) == KG_OK);
        CHECK(!close_range(3, ~0u, 0));
        int first = open("/dev/null", O_RDONLY), last = first;
        for (int i = 0; i < 50; i++)
            last = open("/dev/null", O_RDONLY);
        CHECK(snapshot_each(snapshot, &kernel, see, &seen) == KG_OK && seen.count == 1);
        snapshot_close(snapshot);
        for (int fd = first; fd <= last; fd++)
            CHECK(fcntl(fd, F_GETFD) >= 0);
        _exit(test_failures != 0);
    }
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid && !status);
}

static void changes(void)
{
    char path[KG_PATH], key[KG_ID_TEXT], other[KG_PATH + 8];
    struct snapshot_mark mark = {0}, none = {0};
    snprintf(path, sizeof path, "%s/snapshots/%s.current", dir, id_text(&hardware, key));
    snprintf(other, sizeof other, "%s.other", path);
    CHECK(snapshot_changed(dir, &hardware, &mark) && !snapshot_changed(dir, &hardware, &mark));
    CHECK(!rename(path, other) && !snapshot_changed(dir, &hardware, &mark));
    CHECK(!rename(other, path) && snapshot_changed(dir, &hardware, &mark));
    CHECK(!snapshot_changed(dir, &hardware, &mark));
    CHECK(!snapshot_changed("/nonexistent", &hardware, &none));
}

static void refusals(void)
{
    char path[KG_PATH], folder[KG_PATH], key[KG_ID_TEXT];
    struct snapshot *snapshot;
    struct kg_id id;
    path_of_current(path);
    snprintf(folder, sizeof folder, "%s/snapshots", dir);
    CHECK(!chmod(path, 0666) && snapshot_open(dir, &hardware, &snapshot) == KG_DENIED);
    CHECK(!chmod(path, 0600) && !chmod(folder, 0777));
    CHECK(snapshot_open(dir, &hardware, &snapshot) == KG_DENIED);
    CHECK(!chmod(folder, 0700) && !chmod(dir, 0770));
    CHECK(snapshot_open(dir, &hardware, &snapshot) == KG_DENIED);
    CHECK(!chmod(dir, 0700) && !unlink(path));
    CHECK(snapshot_open(dir, &hardware, &snapshot) == KG_NOT_FOUND);
    CHECK(!mkdir(path, 0700) && snapshot_open(dir, &hardware, &snapshot) == KG_IO);
    snprintf(path, sizeof path, "%s/snapshots/%s.current", dir, id_text(&hardware, key));
    CHECK(file_write(path, "../../../etc/passwd\n", 20, 0600) == KG_OK);
    CHECK(snapshot_current(dir, &hardware, &id) == KG_CORRUPT);
    CHECK(snapshot_open(dir, &hardware, &snapshot) == KG_CORRUPT);
    CHECK(file_write(path, "", 0, 0600) == KG_OK);
    CHECK(snapshot_current(dir, &hardware, &id) == KG_CORRUPT);
}

/* No file is written by a reader: a read-only folder is enough, and no lock file appears. */
static void reader_writes_nothing(void)
{
    struct snapshot *snapshot;
    unsigned before = files("");
    CHECK(snapshot_open(dir, &hardware, &snapshot) == KG_OK);
    CHECK(files("") == before && !files("-lock"));
    snapshot_close(snapshot);
}

int main(void)
{
    struct kg_hardware facts = fixture_hardware();
    struct store *store;
    dir = fixture_folder("cache_snapshot");
    hardware_key(&facts, &hardware);
    if (CHECK(store_open(dir, false, &store) == KG_OK)) {
        content(store);
        lifecycle(store);
    }
    store_close(store);
    reader_writes_nothing();
    damage();
    cut_while_open();
    closed_by_the_app();
    changes();
    refusals();
    return test_result();
}
