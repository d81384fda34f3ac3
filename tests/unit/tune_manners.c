/* The worker's manners without a GPU: what programs tell in their flight recorders decides whether
 * a replay may start, and a replay beside them rests so that it takes no more than its share. */
#include "replaying.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "test.h"
#include "tune/manners.h"
#include "tune/replay.h"

static char dir[] = "/tmp/kgenrt-manners-XXXXXX";

/* A recorder as a living program has it, until the descriptor is closed. */
static int recorder(const char *name, const char *mode, long steady_for, long failed_ago)
{
    char path[KG_PATH], text[512];
    long now = (long)time(NULL);
    int length = snprintf(text, sizeof text,
                          "{\"version\":1,\"clean\":false,\"program\":\"/bin/app\",\"mode\":\"%s\","
                          "\"memory\":{\"free_bytes\":1,\"steady_since\":%ld,\"failed\":%ld}}   ",
                          mode, steady_for < 0 ? 0 : now - steady_for,
                          failed_ago < 0 ? 0 : now - failed_ago);
    snprintf(path, sizeof path, "%s/flight/%s.kgf", dir, name);
    CHECK(file_write(path, text, (size_t)length, 0600) == KG_OK);
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB));
    return fd;
}

static kg_status ask(const char *mode, long steady_for, long failed_ago, const char *why)
{
    struct manners manners;
    int fd = recorder("1", mode, steady_for, failed_ago);
    kg_status status = manners_ask(dir, &manners);
    CHECK(manners.apps == 1 && manners.share == 10 && manners.reserve == UINT64_C(1024) << 20);
    CHECK(!why == !*manners.why && (!why || strstr(manners.why, why)));
    close(fd);
    return status;
}

static void who_decides(void)
{
    struct manners manners;
    char path[KG_PATH];
    snprintf(path, sizeof path, "%s/flight", dir);
    CHECK(!app_alive(dir) && manners_ask(dir, &manners) == KG_OK && manners.share == 100);
    CHECK(dir_make(path) == KG_OK && !app_alive(dir));
    CHECK(ask("tune", 60, -1, NULL) == KG_OK);
    CHECK(!app_alive(dir)); /* its lock is gone, the file is there */
    CHECK(manners_ask(dir, &manners) == KG_OK && !manners.apps && !manners.reserve);
    CHECK(ask("tune", -1, -1, "not steady") == KG_BUSY); /* not known */
    CHECK(ask("tune", 0, -1, "not steady") == KG_BUSY);
    CHECK(ask("tune", 60, 5, "lacked device memory") == KG_BUSY);
    CHECK(ask("tune", 60, 300, NULL) == KG_OK);
    CHECK(ask("cached", -1, -1, NULL) == KG_OK); /* it has no captures, and does not tell */
    CHECK(ask("cached", -1, 5, "lacked device memory") == KG_BUSY);
    int a = recorder("1", "tune", 60, -1), b = recorder("2", "tune", 0, -1);
    CHECK(manners_ask(dir, &manners) == KG_BUSY);
    close(b);
    CHECK(manners_ask(dir, &manners) == KG_OK && manners.apps == 1);
    close(a);
}

static void waits_until_steady(void)
{
    struct manners manners;
    int fd = recorder("1", "tune", 1, -1);
    uint64_t begin = now_ns();
    CHECK(manners_wait(dir, &manners) == KG_OK);
    CHECK(now_ns() - begin > 200000000 && now_ns() - begin < UINT64_C(30000000000));
    close(fd);
}

/* ---- share -------------------------------------------------------------------------------------
 */

static kg_status works(struct replay_device *device, enum side side)
{
    uint64_t until = now_ns() + 3000000;
    while (now_ns() < until)
        ;
    return KG_OK;
}

static kg_status reads(struct replay_device *device, uint64_t address, void *out, size_t size)
{
    return KG_OK;
}

static void keeps_its_share(void)
{
    int lines[2];
    char text[4096] = "";
    CHECK(!pipe(lines));
    struct replay_device device = {.launch = works, .read = reads};
    struct trial trial = {.device = &device, .lines = lines[1]};
    share_limit(&trial, 20);
    CHECK(device.launch != works && !device.sample && !device.observe);
    uint64_t begin = now_ns(), least = 0;
    for (int i = 0; i < 20; i++) {
        uint64_t launched = now_ns(), slept;
        CHECK(device.launch(&device, ORIGINAL) == KG_OK);
        slept = now_ns() - launched;
        least = !i || slept < least ? slept : least;
        CHECK(device.read(&device, 0, NULL, 0) == KG_OK);
    }
    CHECK(least < 3000000 + 2 * 3000000); /* no rest of four times as much is in it */
    uint64_t took = now_ns() - begin;
    CHECK(took >= UINT64_C(20) * 3000000 * 5 - 20000000); /* but for what is still owed */
    CHECK(read(lines[0], text, sizeof text - 1) > 0);
    unsigned long rests = 0;
    for (char *at = text; (at = strstr(at, "rest ")); at++)
        rests += strtoul(at + 5, NULL, 10);
    CHECK(rests >= 20 * 3 * 4 - 20); /* said, so that no deadline runs */

    struct replay_device alone = {.launch = works};
    trial.device = &alone;
    share_limit(&trial, 100);
    CHECK(alone.launch == works);
    close(lines[0]);
    close(lines[1]);
}

int main(void)
{
    char command[KG_PATH];
    unsetenv("KGENRT_GPU_SHARE");
    unsetenv("KGENRT_RESERVE_MIB");
    if (!mkdtemp(dir))
        return 1;
    who_decides();
    waits_until_steady();
    keeps_its_share();
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    CHECK(!system(command));
    return test_result();
}
