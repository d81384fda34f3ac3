/* What the tests of the ways in share: the programs of this folder, built with the C compiler, and
 * what kgenrt has seen of a run. */
#ifndef KG_ENTRY_H
#define KG_ENTRY_H

#include "../e2e.h"

static char *entry_folder;

/* Builds entry/NAME.c with these flags as a file of the test's folder; its path. */
static inline const char *entry_build(const char *file, const char *name, const char *flags)
{
    char *path = e2e_text("%s/%s", entry_folder, file);
    const char *root = e2e_place("CUDA_ROOT", CUDA_ROOT);
    const char *command =
        e2e_text("gcc -D_GNU_SOURCE -I'%s/include' -I'%s/targets/x86_64-linux/include' -o '%s' "
                 "'%s/tests/e2e/entry/%s.c' %s -ldl -pthread",
                 root, root, path, E2E_SOURCE, name, flags);
    int status = system(command);
    if (!CHECK(status == 0)) {
        fprintf(stderr, "failed: %s\n", command);
        exit(1);
    }
    return path;
}

/* With the driver to link to. */
static inline const char *entry_build_linked(const char *file, const char *name, const char *flags)
{
    const char *driver = e2e_gpu ? "-L/usr/local/nvidia/lib64 -L/usr/local/cuda/compat "
                                   "-L/usr/lib/x86_64-linux-gnu -l:libcuda.so.1"
                                 : e2e_text("'%s/softgpu/libcuda.so.1'", E2E_BUILD);
    return entry_build(file, name,
                       e2e_text("-DLINKED %s %s -Wl,--allow-shlib-undefined", flags, driver));
}

static inline void entry_begin(int argc, char **argv)
{
    e2e_begin(argc, argv);
    entry_folder = e2e_text("%s", e2e_cache);
}

static inline int entry_end(void)
{
    snprintf(e2e_cache, sizeof e2e_cache, "%s", entry_folder);
    e2e_remove_cache();
    return test_result();
}

/* What kgenrt has seen in the processes of this cache folder. */
struct entry_seen {
    int processes, unclean;
    long launches;
};

static inline struct entry_seen entry_seen(void)
{
    struct entry_seen seen = {0};
    json_t *status = e2e_json("status", NULL), *process, *kernel;
    size_t p, k;
    json_array_foreach(json_object_get(status, "processes"), p, process)
    {
        seen.processes++;
        seen.unclean += json_is_true(json_object_get(process, "unclean"));
        json_array_foreach(json_object_get(process, "kernels"), k, kernel)
        {
            seen.launches += (long)json_number_value(json_object_get(kernel, "launches"));
        }
    }
    json_decref(status);
    return seen;
}

#endif
