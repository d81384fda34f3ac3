/* A process's life under the preload, and under LD_AUDIT: launches from before main to after exit
 * handlers began, threads that launch while it ends, children of forks before and after the GPU was
 * used. Every launch counts, nothing hangs, each process has a flight recorder of its own, and what
 * ended in good order is recorded so: a child leaves its parent's recorder alone. */
#include "entry/entry.h"

static const char *program;

struct life {
    const char *how;
    int processes; /* that used the GPU, with a flight recorder each */
    long launches; /* seen in all; -1: not known beforehand */
    int unclean;   /* recorders of an unclean end */
};

static void lives(const struct life *life, const char *way)
{
    e2e_fresh_cache();
    /* a leak checker finds no peace in children of forks, nor among threads that do not end */
    const char *calm = "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0";
    int status = e2e_run((const char *[]){e2e_cli(), "run", "--mode", "observe", "--via", way,
                                          program, life->how, NULL},
                         (const char *[]){calm, NULL}, 120);
    bool right =
        CHECK(status == (strcmp(life->how, "_exit-3") ? 0 : 3) && strstr(e2e_output, "right"));
    if (!right)
        fprintf(stderr, "%s\n", e2e_output);
    struct entry_seen seen = entry_seen();
    fprintf(stderr, "%-8s %-14s exit status %d: %d processes, %ld launches, %d unclean\n", way,
            life->how, status, seen.processes, seen.launches, seen.unclean);
    CHECK(seen.processes == life->processes && seen.unclean == life->unclean);
    CHECK(life->launches < 0 || seen.launches == life->launches);
    e2e_remove_cache();
}

int main(int argc, char **argv)
{
    static const struct life all[] = {
        {"plain", 1, 60, 0},        {"ifunc", 1, 60, 0},         {"constructor", 1, 60, 0},
        {"destructor", 1, -1, 0},   {"atexit", 1, 60, 0},        {"quick_exit", 1, 60, 0},
        {"_exit", 1, 60, 0},        {"_exit-3", 1, -1, 1}, /* not told from a crash: its variants
                                                              are verified again */
        {"vfork-_exit", 1, 60, 0},  {"threads", 1, -1, 0},       {"thread-data", 1, 60, 0},
        {"fork-first", 2, 120, 0},  {"fork-look-up", 2, 120, 0}, {"fork-workers", 1, 60, 0},
        {"fork-threads", 1, -1, 0}, {"fork-unseen", 1, 60, 0},   {"fork-use", 1, 60, 0},
        {"fork-exec", 2, 120, 0},
    };
    entry_begin(argc, argv);
    program = entry_build("life", "life", *PRELOAD_FIRST ? "" : "-DRESOLVER");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (*PRELOAD_FIRST && !strcmp(all[i].how, "ifunc"))
            continue; /* a sanitizer does not start there */
        lives(&all[i], "preload");
        lives(&all[i], "audit");
    }
    return entry_end();
}
