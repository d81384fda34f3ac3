/* Old flight recorders are read in whatever thread of the app is first: one with a small stack too.
 * Garbage, cut and foreign files among them tell nothing. */
#include "suspects.h"
#include "test.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/kgenrt-suspects-XXXXXX";
static struct suspects found;
static unsigned files;

static void count(void *self, const char *name, uint64_t time, bool unclean)
{
    files++;
}

static void *read_all(void *unused)
{
    suspects_read(dir, &found, count, NULL);
    return NULL;
}

static void put(const char *name, const char *text, size_t size)
{
    char path[128];
    snprintf(path, sizeof path, "%s/flight/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    CHECK(fd >= 0 && write(fd, text, size) == (ssize_t)size);
    close(fd);
}

int main(void)
{
    char path[128], id[KG_ID_TEXT], text[512], huge[40000];
    struct kg_id variant = {.bytes = {1, 2, 3}};
    pthread_attr_t attributes;
    pthread_t thread;
    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/flight", dir);
    CHECK(mkdir(path, 0700) == 0);
    snprintf(text, sizeof text, "%sfalse%s\"\"%s\"%s\"],", FLIGHT_CLEAN, FLIGHT_READING,
             FLIGHT_LATE, id_text(&variant, id));
    put("1-1.kgf", text, strlen(text));
    put("2-1.kgf", text, strlen(text) - 20);
    memset(huge, 'x', sizeof huge);
    put("3-1.kgf", huge, sizeof huge);
    memcpy(huge, text, strlen(FLIGHT_CLEAN) + 5);
    put("4-1.kgf", huge, sizeof huge);
    put("5-1.kgf", "", 0);
    snprintf(path, sizeof path, "%s/flight/6-1.kgf", dir);
    CHECK(mkfifo(path, 0600) == 0);
    CHECK(!pthread_attr_init(&attributes) &&
          !pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN + 4096));
    CHECK(!pthread_create(&thread, &attributes, read_all, NULL) && !pthread_join(thread, NULL));
    CHECK(files == 5);
    CHECK(found.variant_count == 1 && id_equal(&found.variants[0].id, &variant));
    CHECK(!found.snapshot_count);
    snprintf(text, sizeof text, "rm -rf %s", dir);
    CHECK(system(text) == 0);
    return test_result();
}
