/* What kgenrt writes never raises a signal in the app: neither a log line to a pipe that nobody
 * reads, nor a file beyond the process's limit. The app's own writes raise theirs as ever. */
#include "kgenrt.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int ended(void (*run)(void))
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        run();
        _exit(test_failures ? 1 : 0);
    }
    return waitpid(pid, &status, 0) != pid ? -1
           : WIFSIGNALED(status)           ? 1000 + WTERMSIG(status)
                                           : WEXITSTATUS(status);
}

static void closed_stderr(void)
{
    int ends[2];
    if (!CHECK(pipe(ends) == 0) || !CHECK(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO))
        return;
    close(ends[0]);
    for (int i = 0; i < 3; i++)
        log_line(KG_ERROR, "nobody reads this");
}

static void then_its_own(void)
{
    closed_stderr();
    (void)!write(STDERR_FILENO, "x", 1);
}

static char path[] = "/tmp/kgenrt-quiet-XXXXXX";

static void over_the_limit(void)
{
    char file[64];
    struct rlimit none = {10, 10};
    snprintf(file, sizeof file, "%s/file", path);
    if (CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0))
        CHECK(file_write(file, "more than ten bytes", 19, 0600) == KG_IO);
    CHECK(access(file, F_OK) && errno == ENOENT);
}

/* A FIFO as log: nobody reads, nobody waits. */
static void fifo_log(void)
{
    char file[64];
    snprintf(file, sizeof file, "%s/fifo", path);
    setenv("KGENRT_LOG_FILE", file, 1);
    CHECK(mkfifo(file, 0600) == 0);
    alarm(5);
    log_line(KG_ERROR, "nobody reads this");
}

int main(void)
{
    if (!CHECK(mkdtemp(path) != NULL))
        return test_result();
    CHECK(ended(closed_stderr) == 0);
    CHECK(ended(then_its_own) == 1000 + SIGPIPE);
    CHECK(ended(over_the_limit) == 0);
    CHECK(ended(fifo_log) == 0);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", path);
    CHECK(system(command) == 0);
    return test_result();
}
