/* What the compile child gives up. Limits always hold; Landlock is best effort, because kernels
 * without it exist: the check of the source (source_admit) is the other bolt. */
#include "tune/compile.h"

#include <linux/landlock.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SHADOW_MEMORY 1 /* sanitizers reserve terabytes of address space */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SHADOW_MEMORY 1
#endif
#endif

static void limit(int resource, rlim_t value)
{
    const struct rlimit both = {value, value};
    if (setrlimit(resource, &both))
        log_line(KG_DEBUG, "compile: limit %d cannot be set", resource);
}

void sandbox_limits(unsigned seconds)
{
#ifndef SHADOW_MEMORY
    /* NVRTC and nvJitLink 13.0 compile small kernels within 400 MiB; this leaves large ones room */
    limit(RLIMIT_AS, (rlim_t)4 << 30);
#endif
    limit(RLIMIT_CPU, seconds);
    limit(RLIMIT_NOFILE, 64);
    limit(RLIMIT_FSIZE, 0);
    limit(RLIMIT_CORE, 0);
    signal(SIGXFSZ, SIG_IGN);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* Every right that the running kernel knows is taken; version 4 adds TCP. */
static int rules_create(void)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (version < 1)
        return -1;
    struct {
        uint64_t files, network;
    } taken = {.files = (1 << 13) - 1};
    if (version >= 2)
        taken.files |= 1 << 13; /* refer */
    if (version >= 3)
        taken.files |= 1 << 14; /* truncate */
    if (version >= 5)
        taken.files |= 1 << 15; /* ioctl on devices */
    if (version >= 4)
        taken.network = 3; /* bind, connect */
    size_t size = version >= 4 ? sizeof taken : sizeof taken.files;
    return (int)syscall(SYS_landlock_create_ruleset, &taken, size, 0);
}

bool sandbox_files(void)
{
    int rules = rules_create();
    if (rules < 0)
        return false;
    bool good = !syscall(SYS_landlock_restrict_self, rules, 0);
    close(rules);
    return good;
}
