/* Captures that are kept for `kgenrt verify`: within the quota, least recently used go first, never
 * the one that was just kept; what stands there is known by the digest at its end. */
#include "test.h"
#include "tune/again.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FILES = 6, KIB = 300 };
static char dir[] = "/tmp/kgenrt-kept-XXXXXX";
static char paths[FILES][KG_PATH];

/* A file of 300 KiB whose last bytes are all `seal`; used `age` seconds ago. */
static void make(unsigned number, unsigned char seal, long age)
{
    static unsigned char data[KIB << 10];
    char text[KG_ID_TEXT];
    struct kg_id digest, kernel = {{7}};
    struct timespec times[2] = {{time(NULL) - age, 0}, {time(NULL) - age, 0}};
    memset(digest.bytes, seal, sizeof digest.bytes);
    memset(data + sizeof data - KG_ID_BYTES, seal, KG_ID_BYTES);
    CHECK(kept_path(dir, &kernel, id_text(&digest, text), paths[number]) == KG_OK);
    CHECK(file_write(paths[number], data, sizeof data, 0600) == KG_OK);
    CHECK(!utimensat(AT_FDCWD, paths[number], times, 0));
}

static bool there(unsigned number)
{
    return !access(paths[number], F_OK);
}

int main(void)
{
    struct kg_id kernel = {{7}};
    char text[KG_ID_TEXT], found[KG_PATH], folder[KG_PATH];
    setenv("KGENRT_KEPT_MIB", "1", 1); /* three files */
    if (!CHECK(mkdtemp(dir)) || path_make(folder, "%s/captures", dir) != KG_OK)
        return test_result();
    kept_trim(dir, ""); /* nothing there */
    CHECK(dir_make(folder) == KG_OK);
    for (unsigned i = 0; i < FILES; i++)
        make(i, (unsigned char)(i + 1), 100 * (i == 2 ? 50 : (long)i)); /* 2 is the oldest */
    kept_used(paths[4]);
    kept_trim(dir, paths[2]); /* just kept: stays, whatever its age */
    CHECK(there(2) && there(4) && there(0));
    CHECK(!there(5) && !there(3) && !there(1));
    kept_trim(dir, "");
    CHECK(there(2) && there(4) && there(0)); /* the quota holds: nothing more goes */

    memset(text, 0, sizeof text);
    for (unsigned i = 0; i < KG_ID_BYTES; i++)
        memcpy(text + 2 * i, "05", 2);
    CHECK(kept_find(dir, &kernel, text, found) == KG_OK && !strcmp(found, paths[4]));
    memcpy(text + 60, "ffff", 4); /* the name's part is right, the rest is not */
    CHECK(kept_find(dir, &kernel, text, found) == KG_CORRUPT);
    CHECK(kept_find(dir, &kernel, "0909090909090909", found) == KG_NOT_FOUND);
    CHECK(kept_find(dir, &kernel, "09", found) == KG_BAD_INPUT);
    char command[KG_PATH + 16];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    CHECK(system(command) == 0);
    return test_result();
}
