/* Programs of several processes (MPI, NCCL): variants that are not bitwise would make their results
 * differ in the last bits, so all of them begin with the same snapshot or use none. Here is told
 * whether the process is one of several, which job it belongs to, and whether all of the job runs
 * on this machine, whose cache folder it is. What is not known counts against using them. */
#include "app/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How many processes launchers say there are, and how many of them on this machine. */
static const struct {
    const char *all, *here; /* here NULL: it does not say */
} sizes[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE"},
    {"WORLD_SIZE", "LOCAL_WORLD_SIZE"},
    {"PMI_SIZE", "MPI_LOCALNRANKS"},
    {"SLURM_NTASKS", NULL},
};
static const char *const machines[] = {"SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES",
                                       "SLURM_NNODES"};
/* What names a job, alike in all its processes and in no other job. */
static const char *const names[] = {"SLURM_JOB_ID", "PMIX_NAMESPACE", "OMPI_MCA_orte_hnp_uri",
                                    "TORCHELASTIC_RUN_ID"};
/* What tells a job's parts or restarts apart, but names none by itself. */
static const char *const parts[] = {"SLURM_STEP_ID", "TORCHELASTIC_RESTART_COUNT"};
static const char *const libraries[] = {"/libmpi.so", "/libmpi_cray.so", "/libmpich.so",
                                        "/libnccl.so", "/librccl.so"};

static long number(const char *variable)
{
    const char *value = getenv(variable);
    return value ? strtol(value, NULL, 10) : 0;
}

static const char *library_mapped(void)
{
    char line[KG_PATH + 128];
    const char *found = NULL;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && !found && fgets(line, sizeof line, maps))
        for (size_t i = 0; i < sizeof libraries / sizeof *libraries && !found; i++)
            if (strstr(line, libraries[i]))
                found = libraries[i] + 1;
    if (maps)
        fclose(maps);
    return found;
}

bool bound_several(const char **seen)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (number(*seen = sizes[i].all) > 1)
            return true;
    if (getenv(*seen = "PMIX_RANK"))
        return true;
    return (*seen = library_mapped()) != NULL;
}

/* NULL: all of the job's processes run here. */
static const char *spread(void)
{
    static const char far[] = "its processes run on several machines",
                      unknown[] = "it is not known whether its processes run on one machine";
    const char *master = getenv("MASTER_ADDR");
    bool said = false, several = false;
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        if (number(machines[i]) > 1)
            return far;
        said |= number(machines[i]) == 1;
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        long all = number(sizes[i].all), here = sizes[i].here ? number(sizes[i].here) : 0;
        if (here > 0 && here < all)
            return far;
        said |= here > 0 && here == all;
        several |= all > 1;
    }
    if (master && (!strncmp(master, "127.", 4) || !strcmp(master, "localhost")))
        said = true;
    /* without a launcher, what tells of other processes is their common parent, on this machine */
    return said || (!several && !getenv("PMIX_RANK")) ? NULL : unknown;
}

/* The parent and when it started; false for process 1, everybody's parent. */
static bool parent_hash(struct kg_hash *hash)
{
    char path[64], text[1024] = "";
    pid_t parent = getppid();
    if (parent <= 1)
        return false;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)parent);
    FILE *file = fopen(path, "re");
    bool read = file && fgets(text, sizeof text, file);
    if (file)
        fclose(file);
    const char *at = read ? strrchr(text, ')') : NULL; /* a name may hold anything */
    for (int field = 2; at && field < 22; field++)
        if ((at = strchr(at, ' ')))
            at++;
    if (!at)
        return false;
    hash_text(hash, "parent");
    hash_u64(hash, (uint64_t)parent);
    hash_u64(hash, strtoull(at, NULL, 10));
    return true;
}

static bool add(struct kg_hash *hash, const char *name)
{
    const char *value = getenv(name);
    if (!value || !*value || !strcmp(value, "none")) /* torchrun's name for a job without a name */
        return false;
    hash_text(hash, name);
    hash_text(hash, value);
    return true;
}

static bool job_key(const struct kg_id *hardware, struct kg_id *out)
{
    struct kg_hash hash;
    bool named = false;
    hash_begin(&hash);
    hash_text(&hash, "kgenrt job 1");
    hash_bytes(&hash, hardware->bytes, sizeof hardware->bytes);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        named |= add(&hash, names[i]);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        (void)add(&hash, parts[i]);
    if (!named) {
        bool address = add(&hash, "MASTER_ADDR"), port = add(&hash, "MASTER_PORT");
        named = address && port;
    }
    if (!named)
        named = parent_hash(&hash);
    hash_end(&hash, out);
    return named;
}

const char *bound_agree(const struct kg_id *hardware, const struct kg_id *offer,
                        struct kg_id *named)
{
    static const struct kg_id none;
    struct kg_id job;
    const char *why = spread();
    if (why)
        return why;
    if (!job_key(hardware, &job))
        return "nothing names the job that they belong to";
    if (bound_take(app_dir(), &job, offer, named) != KG_OK)
        return "what they began with cannot be agreed on in the cache folder";
    return id_equal(named, &none) ? "the first of its processes began without a snapshot" : NULL;
}
