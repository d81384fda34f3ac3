/* The store as JSON: what list, show and status look through. */
#include "cli.h"

#include <string.h>

static bool add_variant(void *self, const struct kg_variant *variant, bool best)
{
    json_array_append_new(json_object_get(self, "variants"), json_variant(variant, best));
    return true;
}

static bool add_rejection(void *self, const struct kg_rejection *rejection)
{
    json_array_append_new(json_object_get(self, "rejections"), json_rejection(rejection));
    return true;
}

static bool add_job(void *self, const struct kg_job_note *job)
{
    json_array_append_new(json_object_get(self, "jobs"), json_job(job));
    return true;
}

static bool add_kernel(void *self, const struct kg_kernel_note *kernel)
{
    char readable[512];
    name_readable(kernel->name, readable, sizeof readable);
    json_array_append_new(
        json_object_get(self, "kernels"),
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:f, s:f, s:I, s:o, s:o}", "id",
                  json_id(&kernel->kernel), "name", json_text(kernel->name), "readable",
                  json_text(readable), "hardware", json_id(&kernel->hardware), "program",
                  json_text(kernel->program), "ineligible", json_text(kernel->ineligible), "app_ns",
                  kernel->app_ns, "app_share", kernel->app_share, "time", (json_int_t)kernel->time,
                  "ptx", json_id(&kernel->ptx), "launch", json_id(&kernel->launch)));
    return true;
}

static bool add_hardware(void *self, const struct kg_id *key, const struct kg_hardware *hardware)
{
    json_array_append_new(json_object_get(self, "hardware"), json_hardware(hardware));
    return true;
}

/* A person knows a device by its name, not by its key. */
static void add_devices(json_t *stored)
{
    json_t *variant, *hardware;
    size_t i, k;
    json_array_foreach(json_object_get(stored, "variants"), i, variant)
    {
        const char *key = member_text(variant, "hardware"), *name = "";
        json_array_foreach(json_object_get(stored, "hardware"), k, hardware)
        {
            if (!strcmp(member_text(hardware, "key"), key))
                name = member_text(hardware, "name");
        }
        json_object_set_new(variant, "device", json_text(name));
    }
}

/* A worker holds DIR/worker.lock as long as it lives. */
static bool worker_runs(const char *dir)
{
    char path[KG_PATH];
    return path_make(path, "%s/worker.lock", dir) == KG_OK && file_locked(path);
}

json_t *stored_read(const char *dir)
{
    struct store *store;
    kg_status status = store_open(dir, true, &store);
    const char *state = status == KG_OK          ? "ok"
                        : status == KG_NOT_FOUND ? "none"
                                                 : status_text(status);
    json_t *out =
        json_pack("{s:s, s:b, s:[], s:[], s:[], s:[], s:[]}", "store", state, "worker",
                  worker_runs(dir), "variants", "rejections", "jobs", "kernels", "hardware");
    if (!out || status != KG_OK)
        return out;
    kg_status walks[] = {
        store_each_variant(store, add_variant, out),
        store_each_rejection(store, add_rejection, out), store_each_job(store, add_job, out),
        store_each_kernel(store, add_kernel, out), store_each_hardware(store, add_hardware, out)};
    for (unsigned i = 0; i < sizeof walks / sizeof *walks; i++)
        if (walks[i] != KG_OK)
            json_object_set_new(out, "store", json_string(status_text(walks[i])));
    store_close(store);
    add_devices(out);
    return out;
}
