/* Usage: starter HOW PROGRAM [ARGUMENT...]. Starts the program as programs do that keep their
 * variables from it: HOW is execve, execv, execl, execvpe, fexecve (in this process), posix_spawn,
 * posix_spawnp, vfork, fork (a child, waited for), or own: LD_PRELOAD and LD_AUDIT are overwritten
 * by values of its own. With + before it nothing is kept from the program. Else only
 * LD_LIBRARY_PATH, TMPDIR and what sanitizers need go on. */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static char *kept[8]; /* the environment that the program is to get */

static void make_bare(void)
{
    static const char *const names[] = {
        "LD_LIBRARY_PATH=", "TMPDIR=", "ASAN_OPTIONS=", "LSAN_OPTIONS="};
    int count = 0;
    for (char **line = environ; *line; line++)
        for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
            if (!strncmp(*line, names[i], strlen(names[i])))
                kept[count++] = *line;
}

static int wait_for(pid_t pid)
{
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 120;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 121;
    const char *how = argv[1], *path = argv[2];
    char **arguments = argv + 2, **bare = kept;
    pid_t pid;
    make_bare();
    if (*how == '+') {
        how++;
        bare = environ;
    }
    if (!strcmp(how, "execve"))
        execve(path, arguments, bare);
    if (!strcmp(how, "execvpe"))
        execvpe(path, arguments, bare);
    if (!strcmp(how, "fexecve"))
        fexecve(open(path, O_RDONLY), arguments, bare);
    if (!strcmp(how, "posix_spawn"))
        return posix_spawn(&pid, path, NULL, NULL, arguments, bare) ? 122 : wait_for(pid);
    if (!strcmp(how, "posix_spawnp"))
        return posix_spawnp(&pid, path, NULL, NULL, arguments, bare) ? 122 : wait_for(pid);
    if (!strcmp(how, "vfork")) {
        pid = vfork();
        if (!pid) {
            execve(path, arguments, bare);
            _exit(123);
        }
        return wait_for(pid);
    }
    if (!strcmp(how, "own")) {
        setenv("LD_PRELOAD", "libm.so.6", 1);
        setenv("LD_AUDIT", "", 1);
        unsetenv("KGENRT_CACHE");
        execv(path, arguments);
    }
    if (!strcmp(how, "execle") && argc == 5)
        execle(path, path, argv[3], argv[4], (char *)NULL, bare);
    if (!strcmp(how, "execle"))
        execle(path, path, (char *)NULL, bare);
    environ = bare;
    if (!strcmp(how, "execl"))
        execl(path, path, (char *)NULL);
    if (!strcmp(how, "execlp"))
        execlp(path, path, (char *)NULL);
    if (!strcmp(how, "execv"))
        execv(path, arguments);
    if (!strcmp(how, "execvp"))
        execvp(path, arguments);
    if (!strcmp(how, "fork")) {
        pid = fork();
        if (!pid)
            execv(path, arguments);
        return wait_for(pid);
    }
    return 124;
}
