/* See manners.h. What a program does not tell (it runs in another mode, or its recorder is just
 * being written) is taken as not known yet, and waited for; what is no flight recorder is passed
 * over. */
#include "tune/manners.h"

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    STEADY_S = 2,   /* free memory must have been the same for so long … */
    RECOVER_S = 30, /* … and no allocation have failed */
    POLL_MS = 200,
    MOST_FLIGHT = 8 << 20,
};
static const uint64_t longest_wait_ns = 60000000000;

/* An app holds its flight recorder's lock as long as it lives. Calls `each` for every such file
 * until it says no. */
static unsigned apps_each(const char *dir, bool (*each)(const char *path, void *self), void *self)
{
    char folder[KG_PATH], path[KG_PATH];
    unsigned count = 0;
    bool more = true;
    if (path_make(folder, "%s/flight", dir) != KG_OK)
        return 0;
    DIR *list = opendir(folder);
    for (struct dirent *e; list && more && (e = readdir(list));) {
        if (!text_ends(e->d_name, ".kgf") || path_make(path, "%s/%s", folder, e->d_name) != KG_OK ||
            !file_locked(path))
            continue;
        count++;
        more = each(path, self);
    }
    if (list)
        closedir(list);
    return count;
}

static bool one_is_enough(const char *path, void *self)
{
    return false;
}

bool app_alive(const char *dir)
{
    return apps_each(dir, one_is_enough, NULL) > 0;
}

static double number(json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static bool look(const char *path, void *self)
{
    struct manners *manners = self;
    struct kg_bytes file;
    if (file_read(path, MOST_FLIGHT, &file) != KG_OK)
        return true;
    json_t *flight = json_loadb((const char *)file.data, file.size, JSON_DISABLE_EOF_CHECK, NULL);
    bytes_free(&file);
    const char *mode = json_string_value(json_object_get(flight, "mode"));
    const char *program = json_string_value(json_object_get(flight, "program"));
    json_t *memory = json_object_get(flight, "memory");
    double now = (double)time(NULL), steady = number(memory, "steady_since"),
           failed = number(memory, "failed");
    if (failed > 0 && now - failed < RECOVER_S)
        snprintf(manners->why, sizeof manners->why,
                 "%.120s lacked device memory %.0f s ago: replays wait %d s",
                 program ? program : "", now - failed, RECOVER_S);
    else if (mode && !strcmp(mode, "tune") && (steady <= 0 || now - steady < STEADY_S))
        snprintf(manners->why, sizeof manners->why, "the memory use of %.120s is not steady yet",
                 program ? program : "a program");
    json_decref(flight);
    return !*manners->why;
}

kg_status manners_ask(const char *dir, struct manners *out)
{
    *out = (struct manners){.share = 100};
    out->apps = apps_each(dir, look, out);
    if (out->apps) {
        long share = options()->gpu_share, reserve = options()->reserve_mib;
        out->share = share < 1 ? 1 : share > 100 ? 100 : (unsigned)share;
        out->reserve = reserve < 0 ? 0 : (uint64_t)reserve << 20;
    }
    return *out->why ? KG_BUSY : KG_OK;
}

kg_status manners_wait(const char *dir, struct manners *out)
{
    uint64_t until = now_ns() + longest_wait_ns;
    kg_status status;
    while ((status = manners_ask(dir, out)) == KG_BUSY && now_ns() < until)
        nanosleep(&(struct timespec){0, POLL_MS * 1000000L}, NULL);
    return status;
}
