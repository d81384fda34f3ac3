/* Stands in for files of this folder that are still being written; each part goes when its file
 * comes. */
#include "app/inside.h"

#if !__has_include("watch.c")
void *(*app_dlsym)(void *, const char *);
static atomic_bool active;
bool app_active(void)
{
    return atomic_load_explicit(&active, memory_order_relaxed);
}
bool app_start(void)
{
    if (options_mode() != KG_MODE_OFF)
        atomic_store(&active, true);
    return app_active();
}
void app_context_created(CUcontext context)
{
}
void app_context_dying(CUcontext context)
{
}
void app_after_fork_child(void)
{
    atomic_store(&active, false);
}
void app_finish(void)
{
    for (struct kernel *k = kernels_first(); k; k = k->next)
        log_line(KG_INFO, "%s: %lu launches", k->name, (unsigned long)atomic_load(&k->launches));
}
enum kg_mode app_mode(void)
{
    return options_mode();
}
void app_limit(enum kg_mode mode, const char *why)
{
}
const char *app_dir(void)
{
    return "";
}
bool app_hardware(struct kg_hardware *hardware, struct kg_id *key)
{
    return false;
}
void app_note(const char *format, ...)
{
}
void app_program(char path[static 256])
{
    path[0] = 0;
}
void app_notes_each(void (*each)(void *, const char *), void *self)
{
}
CUstreamCaptureMode capture_mode_relax(void)
{
    return CU_STREAM_CAPTURE_MODE_RELAXED;
}
void capture_mode_restore(CUstreamCaptureMode mode)
{
}
#endif

#if !__has_include("capture_app.c")
bool capture_begin(struct kernel *kernel, const struct launch *launch)
{
    return false;
}
#endif

#if !__has_include("spool.c")
bool spool_holds(const struct kg_id *kernel)
{
    return true;
}
#endif

#if !__has_include("spawn.c")
void spawn_wanted(void)
{
}
#endif

#if !__has_include("code/identify.c") && !__has_include("code/model.c")
__attribute__((weak)) kg_status kernel_model_make(const struct image_code *code, const char *entry,
                                                  struct kernel_model *out)
{
    return KG_UNSUPPORTED;
}
__attribute__((weak)) void kernel_model_free(struct kernel_model *model)
{
}
#endif

#if !__has_include("flight.c")
void flight_fault(const char *text)
{
}
bool flight_late(const struct kg_id *variant)
{
    return false;
}
void flight_reading(const struct kg_id *snapshot)
{
}
bool flight_snapshot_bad(const struct kg_id *snapshot)
{
    return true;
}
bool flight_suspended(const struct kg_id *variant, uint64_t verified)
{
    return true;
}
void flight_write(const char *event)
{
}
#endif
