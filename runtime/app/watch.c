/* The process's state and its watcher: one thread, started with the first use of the driver, that
 * does all slow work every 100 ms and ends with the process. It blocks all signals, touches no
 * stream that is being captured, never delays the app's exit by more than a fifth of a second, and
 * is gone after a fork. Nothing here runs in a process that does not use a GPU. */
#include "app/shadow.h"

#include "app/graphs.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NOTES = 16, NOTE = 240, STACK = 1 << 20 };
#ifndef TICK_NS /* a test that includes this file has its own */
#define TICK_NS 100000000L
#endif
#define EXIT_NS 200000000L

enum phase { PHASE_NEW, PHASE_ON, PHASE_OFF };

void *(*app_dlsym)(void *handle, const char *name);

static atomic_int phase;
static pid_t process; /* that was started in: a fork by system call is told to nobody */
static atomic_int mode = KG_MODE_OFF;
static char dir[KG_PATH];
static pthread_mutex_t start_mutex = PTHREAD_MUTEX_INITIALIZER; /* starting, contexts */

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t wake; /* on the monotonic clock */
    bool stop, done;
} watcher = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Set under records_lock; constant once `known`. */
static struct {
    struct kg_hardware hardware;
    struct kg_id key;
    uint64_t alike; /* the devices of this kind that were seen, as bits */
    atomic_bool known;
} device;

static struct {
    pthread_mutex_t mutex;
    char texts[NOTES][NOTE];
    unsigned count; /* ever kept; the newest stands at (count - 1) % NOTES */
} notes = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- state --------------------------------------------------------------------------------------
 */

bool app_active(void)
{
    return atomic_load_explicit(&phase, memory_order_acquire) == PHASE_ON;
}

enum kg_mode app_mode(void)
{
    return (enum kg_mode)atomic_load_explicit(&mode, memory_order_relaxed);
}

void app_limit(enum kg_mode most, const char *why)
{
    if (app_mode() <= most)
        return;
    atomic_store_explicit(&mode, most, memory_order_relaxed);
    app_note("%s: %s", why,
             most == KG_MODE_OBSERVE ? "kgenrt only observes here" : "kgenrt tunes nothing here");
}

const char *app_dir(void)
{
    return dir;
}

void app_program(char path[static 256])
{
    ssize_t length = readlink("/proc/self/exe", path, 255);
    path[length < 0 ? 0 : length] = 0;
}

static bool note_known(const char *text)
{
    for (unsigned i = 0; i < notes.count && i < NOTES; i++)
        if (!strcmp(notes.texts[i], text))
            return true;
    return false;
}

void app_note(const char *format, ...)
{
    char text[NOTE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pthread_mutex_lock(&notes.mutex);
    bool fresh = !note_known(text);
    if (fresh)
        memcpy(notes.texts[notes.count++ % NOTES], text, sizeof text);
    pthread_mutex_unlock(&notes.mutex);
    if (fresh)
        log_line(KG_INFO, "%s", text);
}

void app_notes_each(void (*each)(void *self, const char *note), void *self)
{
    pthread_mutex_lock(&notes.mutex);
    unsigned first = notes.count > NOTES ? notes.count - NOTES : 0;
    for (unsigned i = first; i < notes.count; i++)
        each(self, notes.texts[i % NOTES]);
    pthread_mutex_unlock(&notes.mutex);
}

static const CUstreamCaptureMode mode_unchanged = (CUstreamCaptureMode)-1;

CUstreamCaptureMode capture_mode_relax(void)
{
    CUstreamCaptureMode now = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (!real.cuThreadExchangeStreamCaptureMode ||
        real.cuThreadExchangeStreamCaptureMode(&now) != CUDA_SUCCESS)
        return mode_unchanged;
    return now; /* what it was */
}

void capture_mode_restore(CUstreamCaptureMode was)
{
    if (was != mode_unchanged)
        (void)real.cuThreadExchangeStreamCaptureMode(&was);
}

/* ---- contexts and the device --------------------------------------------------------------------
 */

bool app_hardware(struct kg_hardware *hardware, struct kg_id *key)
{
    if (!device.known)
        return false;
    *hardware = device.hardware;
    *key = device.key;
    return true;
}

/* Locked. Whether the device is of the kind that the process is tuned for: that of the first. Such
 * devices share their variants. */
static bool device_seen(CUdevice handle)
{
    struct kg_id key;
    struct kg_hardware hardware;
    uint64_t bit = handle >= 0 && handle < 64 ? UINT64_C(1) << handle : 0;
    if (device.alike & bit)
        return true;
    if (real_hardware(handle, &hardware) != KG_OK)
        return false;
    hardware_key(&hardware, &key);
    if (device.known && !id_equal(&key, &device.key)) {
        app_note("this process uses several kinds of devices: kernels get variants on the first "
                 "kind only, %.80s",
                 device.hardware.name);
        return false;
    }
    device.alike |= bit;
    if (device.known)
        return true;
    device.hardware = hardware;
    device.key = key;
    device.known = true;
    return true;
}

bool device_fits(void)
{
    CUdevice handle;
    if (real.cuCtxGetDevice(&handle) != CUDA_SUCCESS)
        return false;
    return device_seen(handle);
}

/* The context is current. True: it is new. */
static bool context_enter(CUcontext context)
{
    CUdevice handle;
    records_lock();
    bool fresh = real_ok(real.cuCtxGetDevice(&handle), "device of a context") &&
                 context_add(context, handle, device_seen(handle));
    records_unlock();
    return fresh;
}

void app_context_created(CUcontext context)
{
    if (!context || !app_start())
        return;
    bool was_inside = inside_kgenrt;
    inside_kgenrt = true;
    CUcontext popped;
    pthread_mutex_lock(&start_mutex);
    CUstreamCaptureMode was = capture_mode_relax(); /* another thread may capture a graph now */
    if (real.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS) {
        if (context_enter(context)) {
            capture_ring_create();
            variants_open(); /* so that the first launches can swap */
        }
        (void)real.cuCtxPopCurrent_v2(&popped);
    }
    capture_mode_restore(was);
    pthread_mutex_unlock(&start_mutex);
    inside_kgenrt = was_inside;
}

/* A fault shows in any query of its context; after this there is nobody left to ask. */
static void faults_find(CUcontext context)
{
    for (int i = 0; i < CONTEXTS; i++) {
        struct context *c = &contexts[i];
        CUcontext handle = atomic_load_explicit(&c->handle, memory_order_acquire), popped;
        if (!handle || (context && handle != context) ||
            real.cuCtxPushCurrent_v2(handle) != CUDA_SUCCESS)
            continue;
        context_fault(c, real.cuEventQuery(c->samples[0].end));
        (void)real.cuCtxPopCurrent_v2(&popped);
    }
}

void app_context_dying(CUcontext context)
{
    if (!app_active())
        return;
    bool was_inside = inside_kgenrt;
    inside_kgenrt = true;
    CUstreamCaptureMode was = capture_mode_relax();
    faults_find(context);
    capture_context_dying(context);
    shadow_context_dying(context);
    context_forget(context);
    capture_mode_restore(was);
    inside_kgenrt = was_inside;
}

/* ---- the watcher --------------------------------------------------------------------------------
 */

static struct timespec after(long ns)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    time.tv_nsec += ns;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

static bool wait_for_tick(void)
{
    struct timespec until = after(TICK_NS);
    int result = 0;
    pthread_mutex_lock(&watcher.mutex);
    while (!watcher.stop && !result)
        result = pthread_cond_timedwait(&watcher.wake, &watcher.mutex, &until);
    bool go_on = !watcher.stop;
    pthread_mutex_unlock(&watcher.mutex);
    return go_on;
}

static void tick(void)
{
    if (app_mode() >= KG_MODE_CACHED)
        material_tick();
    records_lock();
    kernels_tick();
    graphs_tick();
    hot_tick();
    track_tick();
    records_unlock();
    capture_tick();
    variants_tick();
    spawn_tick();
    pressure_tick();
    records_lock();
    flight_tick();
    records_unlock();
}

static void *watch(void *unused)
{
    inside_kgenrt = true;
    (void)pthread_setname_np(pthread_self(), "kgenrt");
    (void)capture_mode_relax();
    while (wait_for_tick())
        tick();
    records_lock();
    graphs_tick();     /* the last launches */
    faults_find(NULL); /* an app that met a fault ends in good order, as a rule */
    flight_finish(true);
    records_unlock();
    pthread_mutex_lock(&watcher.mutex);
    watcher.done = true;
    pthread_cond_broadcast(&watcher.wake);
    pthread_mutex_unlock(&watcher.mutex);
    return NULL;
}

/* The kernel's stack must also hold the thread-local data of all of the app's libraries: where that
 * is large, the standard size is taken. */
static bool watcher_start(void)
{
    pthread_condattr_t clock;
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    if (pthread_condattr_init(&clock) || pthread_condattr_setclock(&clock, CLOCK_MONOTONIC) ||
        pthread_cond_init(&watcher.wake, &clock) || pthread_attr_init(&attributes))
        return false;
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attributes, STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int error = pthread_create(&thread, &attributes, watch, NULL);
    if (error == EINVAL) {
        pthread_attr_destroy(&attributes);
        (void)pthread_attr_init(&attributes);
        (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        error = pthread_create(&thread, &attributes, watch, NULL);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    pthread_condattr_destroy(&clock);
    if (error)
        log_line(KG_WARN, "no thread can be made (%s): kgenrt does nothing here", strerror(error));
    return !error;
}

/* ---- start and end ------------------------------------------------------------------------------
 */

/* What every step here calls; a driver that lacks one is too old. */
static bool driver_complete(void)
{
    bool complete = real.cuCtxGetCurrent && real.cuCtxSetCurrent && real.cuCtxGetDevice &&
                    real.cuCtxPushCurrent_v2 && real.cuCtxPopCurrent_v2 && real.cuCtxGetLimit &&
                    real.cuEventCreate && real.cuEventRecord && real.cuEventQuery &&
                    real.cuEventElapsedTime && real.cuStreamIsCapturing && real.cuLaunchKernel &&
                    real.cuPointerGetAttribute && real.cuMemGetAddressRange_v2 &&
                    real.cuMemcpyDtoHAsync_v2 && real.cuModuleGetGlobal_v2 &&
                    real.cuFuncSetAttribute && real.cuDriverGetVersion;
    if (!complete)
        log_line(KG_INFO, "this driver is too old for kgenrt, which does nothing here");
    return complete;
}

static bool folders_make(void)
{
    static const char *const names[] = {"",           "/spool",    "/flight",
                                        "/snapshots", "/material", "/ahead"};
    char path[KG_PATH];
    if (!*cache_dir()) {
        log_line(KG_WARN, "no folder for the cache: set HOME or KGENRT_CACHE");
        return false;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (path_make(path, "%s%s", cache_dir(), names[i]) != KG_OK || dir_make(path) != KG_OK)
            return false;
        if (access(path, W_OK)) {
            log_line(KG_WARN, "%s: cannot be written: %s", path, strerror(errno));
            return false;
        }
    }
    return path_make(dir, "%s", cache_dir()) == KG_OK && flight_start() == KG_OK;
}

static bool start(void)
{
    enum kg_mode option = options_mode();
    if (option == KG_MODE_OFF || real_open(app_dlsym) != KG_OK || !driver_complete())
        return false;
    atomic_store_explicit(&mode, option, memory_order_relaxed);
    if (!folders_make()) {
        *dir = 0;
        app_limit(KG_MODE_OBSERVE, "the cache folder cannot be used");
    }
    const char *forced = getenv("CUDA_FORCE_PTX_JIT");
    if (forced && *forced && strcmp(forced, "0"))
        app_limit(KG_MODE_OBSERVE,
                  "CUDA_FORCE_PTX_JIT is set: other code runs than the modules' own");
    triton_start();
    ahead_start();
    spawn_prepare();
    process = getpid();
    (void)at_quick_exit(
        app_finish); /* fails when memory is out: then such an end looks like a crash */
    records_lock();
    flight_write("start");
    records_unlock();
    return watcher_start();
}

bool app_start(void)
{
    if (atomic_load_explicit(&phase, memory_order_acquire) != PHASE_NEW)
        return app_active();
    bool was_inside = inside_kgenrt;
    inside_kgenrt = true;
    pthread_mutex_lock(&start_mutex);
    if (atomic_load_explicit(&phase, memory_order_relaxed) == PHASE_NEW)
        atomic_store_explicit(&phase, start() ? PHASE_ON : PHASE_OFF, memory_order_release);
    pthread_mutex_unlock(&start_mutex);
    inside_kgenrt = was_inside;
    return app_active();
}

void app_after_fork_child(void)
{
    int on = PHASE_ON;
    if (atomic_compare_exchange_strong(&phase, &on, PHASE_OFF))
        flight_abandon();
    pthread_mutex_init(&start_mutex, NULL); /* another thread of the parent may have held it */
    pthread_mutex_init(&notes.mutex, NULL);
}

/* The watcher blocks all signals: who interrupted a thread of the app does not wait for it. */
static bool watcher_end(void)
{
    struct timespec until = after(EXIT_NS);
    int result = 0;
    pthread_mutex_lock(&watcher.mutex);
    watcher.stop = true;
    pthread_cond_broadcast(&watcher.wake);
    while (!watcher.done && !result)
        result = pthread_cond_timedwait(&watcher.wake, &watcher.mutex, &until);
    bool done = watcher.done;
    pthread_mutex_unlock(&watcher.mutex);
    return done;
}

static bool ends_here(void)
{
    int on = PHASE_ON;
    return process == getpid() && atomic_compare_exchange_strong(&phase, &on, PHASE_OFF);
}

void app_leave(void)
{
    if (ends_here())
        (void)watcher_end();
}

void app_finish(void)
{
    if (ends_here() && !watcher_end())
        flight_finish(
            false); /* it waits for the driver, perhaps: its last tick's state has to do */
}
