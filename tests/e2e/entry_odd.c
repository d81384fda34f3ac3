/* What broke other interposers, where no other test of ours stands: wrong calls get the driver's
 * answers, a driver may be opened by any path and may look its own functions up, many processes
 * start at once. Each problem that was reported of others (the numbers: section 3 of
 * facts/interposers.md) and can concern us is covered:
 *
 *   a hook of another version or a newer one than asked (1, 3, 15, 21, 25), one that the driver
 *   lacks (22, 23), names by prefix (11), answers without a place for them (16), wrappers in the
 *   way of RTLD_NEXT (12, 13, 26), a driver that looks itself up (14)
 *                                                     e2e/edge_lookup, versions/lookups
 *   a start in the midst of the runtime's look-ups (2, 4)    e2e/edge_process, versions/lookups
 *   launches by cuLaunchKernelEx, by a CUkernel (5, 32), by later stubs (46)
 *                                                     e2e/forms, e2e/launch_forms
 *   fork: states and locks of the parent (7, 19)      e2e/entry_life
 *   captures and graphs (8, 9, 24)                    e2e/graphs, e2e/graphs_capture, frameworks
 *   results read of failed calls (10, 16)             here: wrong_calls
 *   a driver opened by its path (29, 33)              here: opened_by_path
 *   many processes at once (18)                       here: crowd
 *   a library that is named and not there (20)        e2e/cli_run
 *   code without PTX (28), several kernels of a name  e2e/code
 *   loads beside a kernel that does not end (30, 36)  unit/app_hot, e2e/edge_swap
 *   LD_PRELOAD overwritten (31)                       e2e/entry
 *   profilers beside us (37)                          tests/frameworks, on a GPU
 *   limits of shared memory set by the program (38)   unit/edge_records, e2e/launch_forms
 *   locks of the dynamic linker (41)                  e2e/entry_life: threads, ifunc
 *   an allocator's start (43)                         e2e/entry_others
 *   the real function is our own (44)                 e2e/entry_others: limiter behind
 *   the environment read at each call (6)             bench/launch_cost
 *
 * Not ours: private tables and their checks are left alone (17, 27, 34), nothing is patched (35),
 * sections of cubins are no contract (45), HIP (39, 40, 42), MPS' own rules (47), checkpoints (48).
 */
#include "entry/entry.h"

static const char *program;

static void wrong_calls(void)
{
    const char *odd = entry_build("odd", "odd", ""), *const command[] = {odd, NULL};
    static const char *const modes[] = {"KGENRT_MODE=observe", "KGENRT_MODE=cached",
                                        "KGENRT_MODE=tune", "KGENRT_MODE=off"};
    int status = e2e_run(command, NULL, 120); /* a real driver may end at such a call */
    const char *expected = e2e_text("%s", e2e_output);
    CHECK(strlen(expected) > 200 && (status == 0 || e2e_gpu));
    for (size_t i = 0; i < 4; i++) {
        e2e_fresh_cache();
        CHECK(e2e_run(command, (const char *[]){e2e_preload(), modes[i], "KGENRT_WORKER=off", NULL},
                      120) == status);
        if (!CHECK(!strcmp(e2e_output, expected)))
            fprintf(stderr, "%s: %s\nwithout kgenrt: %s\n", modes[i], e2e_output, expected);
        e2e_remove_cache();
    }
    e2e_fresh_cache();
    CHECK(e2e_run((const char *[]){e2e_cli(), "run", "--via", "audit", odd, NULL}, NULL, 120) ==
          status);
    CHECK(!strcmp(e2e_output, expected));
    e2e_remove_cache();
}

static void seen_by(const char *what, const char *const environment[])
{
    for (int audit = 0; audit < 2; audit++) {
        e2e_fresh_cache();
        CHECK(e2e_run((const char *[]){e2e_cli(), "run", "--mode", "observe", "--via",
                                       audit ? "audit" : "preload", program, NULL},
                      environment, 120) == 0 &&
              strstr(e2e_output, "right"));
        long launches = entry_seen().launches;
        if (!CHECK(launches == 60))
            fprintf(stderr, "%s, %s: %ld launches\n", what, audit ? "audit" : "preload", launches);
        e2e_remove_cache();
    }
}

/* By its path, and as a file of another name in another folder. */
static void opened_by_path(void)
{
    const char *path = e2e_text("%s/softgpu/libcuda.so.1", E2E_BUILD),
               *other = e2e_text("%s/driver-of-today.so", entry_folder);
    if (e2e_gpu)
        return;
    CHECK(!system(e2e_text("cp '%s' '%s'", path, other)));
    seen_by("by path", (const char *[]){e2e_text("JOB_DRIVER=%s", path), NULL});
    seen_by("another name", (const char *[]){e2e_text("JOB_DRIVER=%s", other), NULL});
}

/* Many at once in one cache folder: each ends well and has its own recorder. */
static void crowd(void)
{
    enum { CROWD = 32 };
    e2e_fresh_cache();
    const char *command =
        e2e_text("for i in $(seq %d); do '%s' & pids=\"$pids $!\"; done; for p in $pids; do "
                 "wait $p || exit 1; done",
                 CROWD, program);
    CHECK(e2e_run((const char *[]){e2e_cli(), "run", "--mode", "observe", "/bin/sh", "-c", command,
                                   NULL},
                  NULL, 240) == 0);
    CHECK(!system(e2e_text("cd '%s/flight' && grep -l '\"clean\":true ' *.kgf >../ended && "
                           "[ $(grep -l '\"launches\":60,' $(cat ../ended) | wc -l) = %d ]",
                           e2e_cache, CROWD)));
    e2e_remove_cache();
}

int main(int argc, char **argv)
{
    entry_begin(argc, argv);
    program = entry_build("job", "job", "");
    wrong_calls();
    opened_by_path();
    crowd();
    return entry_end();
}
