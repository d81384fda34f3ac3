/* Ending replays from an app: those that hold their file are ended, and waited for; a file that
 * names a process which does not hold it ends nobody. */
#include "replaying.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

static char dir[] = "/tmp/kgenrt-replaying-XXXXXX";

static const char *in_dir(const char *name)
{
    static char path[KG_PATH];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

/* A process that replays in work/NAME until it is ended; NULL: one that only sleeps. */
static pid_t start(const char *name)
{
    int ready[2];
    char byte = 'x';
    CHECK(!pipe(ready));
    pid_t pid = fork();
    if (!pid) {
        bool good =
            !name || (dir_make(in_dir(name)) == KG_OK && replaying_begin(in_dir(name)) == KG_OK);
        (void)(good && write(ready[1], &byte, 1));
        close(ready[1]);
        for (;;)
            pause();
    }
    close(ready[1]);
    CHECK(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    return pid;
}

static bool killed(pid_t pid)
{
    int how = 0;
    return waitpid(pid, &how, 0) == pid && WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL;
}

static void ends_replays(void)
{
    CHECK(!replaying_any(dir) && !replaying_end_all(dir, 100));
    pid_t a = start("work/1-0"), b = start("work/1-1");
    CHECK(replaying_any(dir));
    CHECK(!replaying_ended(in_dir("work/1-0")));
    CHECK(replaying_end_all(dir, 2000) == 2);
    CHECK(replaying_ended(in_dir("work/1-0")) && replaying_ended(in_dir("work/1-1")));
    CHECK(killed(a) && killed(b));
    CHECK(!replaying_any(dir) && !replaying_end_all(dir, 100));
}

/* As after a reboot, or from another container: the pid is somebody else's now. */
static void spares_others(void)
{
    pid_t other = start(NULL);
    char text[32];
    for (int fd = -1; fd < 20; fd++) {
        int length = snprintf(text, sizeof text, "%d %d\n", (int)other, fd);
        CHECK(dir_make(in_dir("work/2-0")) == KG_OK);
        CHECK(file_write(in_dir("work/2-0/child"), text, (size_t)length, 0600) == KG_OK);
        CHECK(!replaying_any(dir) && !replaying_end_all(dir, 100));
    }
    static const char *const odd[] = {"", "1 0\n", "0 0\n", "-5 3\n", "99999999999 1\n", "x"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        CHECK(file_write(in_dir("work/2-0/child"), odd[i], strlen(odd[i]), 0600) == KG_OK);
        CHECK(!replaying_end_all(dir, 100));
    }
    CHECK(!waitpid(other, NULL, WNOHANG)); /* it lives */
    kill(other, SIGKILL);
    CHECK(killed(other));
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    ends_replays();
    spares_others();
    char command[KG_PATH];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    CHECK(!system(command));
    return test_result();
}
