/* The job as a program or, with -DMAIN=job_run and -shared, as a library for deep.c. Its argument:
 * seconds that it stays afterwards. */
#include "job.h"

#include <unistd.h>

#ifdef OWN_DLSYM /* in a program, found before everybody's */
static int asked;

void *dlsym(void *handle, const char *name)
{
    static void *(*next)(void *, const char *);
    if (!next)
        *(void **)&next = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    asked++;
    return next(handle, name);
}
#endif

#ifndef MAIN
#define MAIN main
#endif

int MAIN(int argc, char **argv)
{
    struct job job = {0};
    int line = job_begin(&job);
    line = line ? line : job_launch(&job, 60);
    line = line ? line : job_right(&job);
#ifdef OWN_DLSYM
    line = line ? line : !asked;
#endif
    if (!line)
        puts("right");
    fflush(stdout);
    if (argc > 1)
        sleep((unsigned)atoi(argv[1]));
    return line != 0;
}
