/* The library is preloaded behind libkgenrt.so, for this file's sake: memory, files and threads are
 * refused to it at times, the time of day jumps under it, and the program is interrupted by a
 * signal every few milliseconds of its time, if FAULT_SIGNALS is set. In builds for the address
 * sanitizer its own functions come first: memory and most files are not refused there. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "faults.h"

struct faults faults;

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

static struct {
    __typeof__(&mmap) mmap;
    __typeof__(&open) open;
    __typeof__(&openat) openat;
    __typeof__(&fopen) fopen;
    __typeof__(&read) read;
    __typeof__(&write) write;
    __typeof__(&pwrite) pwrite;
    __typeof__(&rename) rename;
    __typeof__(&ftruncate) ftruncate;
    __typeof__(&memfd_create) memfd_create;
    __typeof__(&pthread_create) pthread_create;
    __typeof__(&clock_gettime) clock_gettime;
} next;

#define FIND(name)                                                                                 \
    do {                                                                                           \
        if (!next.name)                                                                            \
            next.name = (__typeof__(next.name))(uintptr_t)dlsym(RTLD_NEXT, #name);                 \
    } while (0)
#define FAILS(value, name, error)                                                                  \
    do {                                                                                           \
        if (faults_due(HERE))                                                                      \
            return errno = (error), (value);                                                       \
        FIND(name);                                                                                \
    } while (0)

void *malloc(size_t size)
{
    return faults_due(HERE) ? errno = ENOMEM, NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return faults_due(HERE) ? errno = ENOMEM, NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    return faults_due(HERE) ? errno = ENOMEM, NULL : __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return faults_due(HERE) ? errno = ENOMEM, NULL : __libc_memalign(alignment, size);
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    FAILS(MAP_FAILED, mmap, ENOMEM);
    return next.mmap(at, size, protection, flags, fd, offset);
}

#define MODE(flags)                                                                                \
    mode_t mode = 0;                                                                               \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                                                         \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode = va_arg(more, mode_t);                                                               \
        va_end(more);                                                                              \
    }

int open(const char *path, int flags, ...)
{
    MODE(flags);
    FAILS(-1, open, EMFILE);
    return next.open(path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
    MODE(flags);
    FAILS(-1, openat, EACCES);
    return next.openat(folder, path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    FAILS(NULL, fopen, EMFILE);
    return next.fopen(path, mode);
}

ssize_t read(int fd, void *buffer, size_t size)
{
    FAILS(-1, read, EIO);
    return next.read(fd, buffer, size);
}

ssize_t write(int fd, const void *buffer, size_t size)
{
    FAILS(-1, write, ENOSPC);
    return next.write(fd, buffer, size);
}

ssize_t pwrite(int fd, const void *buffer, size_t size, off_t offset)
{
    FAILS(-1, pwrite, ENOSPC);
    return next.pwrite(fd, buffer, size, offset);
}

int rename(const char *from, const char *to)
{
    FAILS(-1, rename, ENOSPC);
    return next.rename(from, to);
}

int ftruncate(int fd, off_t size)
{
    FAILS(-1, ftruncate, ENOSPC);
    return next.ftruncate(fd, size);
}

int memfd_create(const char *name, unsigned flags)
{
    FAILS(-1, memfd_create, EMFILE);
    return next.memfd_create(name, flags);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *argument)
{
    if (faults_due(HERE))
        return EAGAIN;
    FIND(pthread_create);
    return next.pthread_create(thread, attributes, run, argument);
}

/* The time of day is set by a day, either way; the monotonic clock is never. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
    FIND(clock_gettime);
    int result = next.clock_gettime(clock, time);
    if (!result && clock == CLOCK_REALTIME && faults_due(HERE))
        time->tv_sec += faults_draw() % 2 ? 86400 : -86400;
    return result;
}

static int faults_library(struct dl_phdr_info *info, size_t size, void *unused)
{
    if (!strstr(info->dlpi_name, "/libkgenrt.so"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        faults.low = faults.low && faults.low < from ? faults.low : from;
        uintptr_t to = from + info->dlpi_phdr[i].p_memsz;
        faults.high = faults.high > to ? faults.high : to;
    }
    return 1;
}

static void faults_begin(void)
{
    const char *seed = getenv("FAULT_SEED"), *rate = getenv("FAULT_RATE");
    const char *after = getenv("FAULT_AFTER");
    faults.seed = seed ? strtoull(seed, NULL, 0) : 1;
    faults.rate = rate ? strtoull(rate, NULL, 0) : 0;
    faults.pace_us = getenv("FAULT_PACE") ? (unsigned)atoi(getenv("FAULT_PACE")) : 0;
    faults.after = after ? strtoull(after, NULL, 0) : 0;
    dl_iterate_phdr(faults_library, NULL);
}

static void faults_end(void)
{
    const char *path = getenv("FAULT_REPORT");
    FILE *file = path && faults.high ? fopen(path, "a") : NULL;
    if (!file)
        return;
    fprintf(file, "%lu\n", (unsigned long)faults.failed);
    fclose(file);
}

/* ---- signals, start and end
 * ----------------------------------------------------------------------
 */

static void ignore(int signal)
{
}

static void quiet(void)
{
    const struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_PROF, &never, NULL);
}

__attribute__((constructor)) static void begin(void)
{
    const struct itimerval often = {{0, 2000}, {0, 2000}};
    const struct sigaction interrupt = {.sa_handler = ignore}; /* no SA_RESTART */
    faults_begin();
    if (!getenv("FAULT_SIGNALS") || sigaction(SIGPROF, &interrupt, NULL))
        return;
    setitimer(ITIMER_PROF, &often, NULL);
    atexit(quiet); /* the program's last words are not interrupted */
}

__attribute__((destructor)) static void end(void)
{
    faults.rate = 0;
    faults_end();
}
