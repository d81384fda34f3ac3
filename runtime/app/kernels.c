/* Records of originals: which handle is which kernel of which module, and what that kernel is.
 * Hooks come here when the app loads, looks up and unloads; launches only read the handle table. It
 * must never let a handle that died lead to a record: the driver gives the same value out again. */
#include "app/track.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "app/graphs.h"
#include "app/handles.h"
#include "app/inside.h"
#include "app/plan.h"
#include "app/tally.h"

enum { MODULE_LIMIT = 16 << 20, QUICK_IMAGE = 128 << 10, DEVICES = 64 };
#define IMAGES_LIMIT (UINT64_C(256) << 20) /* bytes of images that are kept in all */

_Thread_local bool inside_kgenrt __attribute__((tls_model("initial-exec")));

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct handle_table kernel_handles, module_handles;
static struct kernel *all_kernels;
static struct module *all_modules;
static struct {
    struct kernel *first, *last; /* by sibling, oldest first */
} retired;
static uint64_t image_bytes;

struct kernel *kernel_find(const void *function)
{
    return handles_find(&kernel_handles, function);
}

struct kernel *kernels_first(void)
{
    return all_kernels;
}

void records_lock(void)
{
    pthread_mutex_lock(&mutex);
}

void records_unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

void kernels_after_fork_child(void)
{
    pthread_mutex_init(&mutex, NULL); /* another thread of the parent may have held it */
    handles_forget(&kernel_handles);
    handles_forget(&module_handles);
    all_kernels = NULL;
    all_modules = NULL;
    retired.first = retired.last = NULL;
    image_bytes = 0;
}

/* ---- the life of a kernel's record --------------------------------------------------------------
 */

static CUcontext current_context(void)
{
    CUcontext context = NULL;
    if (context_is_green() || !real.cuCtxGetCurrent ||
        real.cuCtxGetCurrent(&context) != CUDA_SUCCESS)
        return NULL;
    return context;
}

static void kernel_init(struct kernel *kernel, struct module *module, const char *name)
{
    CUcontext context = current_context();
    atomic_store_explicit(&kernel->slow_at, 1, memory_order_relaxed); /* hot.c meets it at once */
    atomic_store_explicit(&kernel->state, KERNEL_NEW, memory_order_relaxed);
    size_t length = strnlen(name, sizeof kernel->name - 1);
    memcpy(kernel->name, name, length);
    kernel->name[length] = 0;
    kernel->carveout = kernel->cache_config = kernel->shared_config = -1;
    kernel->module = module;
    kernel->context = context ? context : module->context;
    kernel->sibling = module->kernels;
    module->kernels = kernel;
    if (name[length])
        kernel->why = "its name is too long";
    else if (!module->image.size && options_mode() >= KG_MODE_CACHED)
        kernel->why = module->why_no_image; /* who only observes needs none */
    if (kernel->why)
        atomic_store_explicit(&kernel->state, KERNEL_UNFIT, memory_order_relaxed);
}

static bool is_capturing(const struct kernel *kernel)
{
    return atomic_load_explicit(&kernel->state, memory_order_relaxed) == KERNEL_CAPTURING ||
           atomic_load_explicit(&kernel->held, memory_order_acquire);
}

/* A record whose last launch was long ago, blank again; NULL if there is none. */
static struct kernel *kernel_recycle(void)
{
    struct kernel *kernel = retired.first, *before = NULL;
    while (kernel && is_capturing(kernel)) /* its file is still being written */
        before = kernel, kernel = kernel->sibling;
    if (!kernel || now_ns() - kernel->retired_ns < QUIET_NS)
        return NULL;
    *(before ? &before->sibling : &retired.first) = kernel->sibling;
    if (retired.last == kernel)
        retired.last = before;
    if (kernel->modelled)
        kernel_model_free(&kernel->model);
    tracks_free(kernel);
    tally_free(kernel);
    plan_free(kernel->plan);
    struct kernel *next = kernel->next;
    memset(kernel, 0, sizeof *kernel);
    kernel->next = next;
    return kernel;
}

/* Records stand close together: each page that a launch must look at costs it a look-up of that
 * page, and with a record here and there among images and models that was most of the cost. */
static struct kernel *kernel_carve(void)
{
    enum { STRIDE = (sizeof(struct kernel) + 63) / 64 * 64, CHUNK = 32 };
    static char *chunk;
    static unsigned left;
    if (!left) {
        /* whole cache lines, so that two threads' counters do not share one */
        if (!(chunk = aligned_alloc(64, CHUNK * STRIDE)))
            return NULL;
        memset(chunk, 0, CHUNK * STRIDE);
        left = CHUNK;
    }
    return (struct kernel *)(chunk + STRIDE * --left);
}

struct kernel *kernel_new(struct module *module, const char *name)
{
    struct kernel *kernel = kernel_recycle();
    if (!kernel && (kernel = kernel_carve())) {
        kernel->next = all_kernels;
        all_kernels = kernel;
    }
    if (!kernel)
        return NULL;
    kernel_init(kernel, module, name);
    return kernel;
}

/* Unlinked from its module, dead for launches, and in line to be recycled. */
static void kernel_retire(struct kernel *kernel)
{
    handles_remove_value(&kernel_handles, kernel, NULL);
    kernel->retired_ns = now_ns();
    graphs_forget(kernel);
    kernel->sibling = NULL;
    if (retired.last)
        retired.last->sibling = kernel;
    else
        retired.first = kernel;
    retired.last = kernel;
}

/* ---- modules ------------------------------------------------------------------------------------
 */

static void keep_image(struct module *module, const void *image, const char *path)
{
    const char *why = "";
    const void *data = NULL;
    size_t size = 0;
    enum image_kind kind;
    struct kg_bytes file = {0}, joined = {0};
    kg_status parts = KG_NOT_FOUND;
    if (options_mode() < KG_MODE_CACHED)
        why = "images are not kept in this mode";
    else if (path && file_read(path, MODULE_LIMIT, &file) != KG_OK)
        why = "the module's file could not be read";
    else if (!path && !image)
        why = "its load was not seen";
    else if (!path && (parts = image_parts(image, MODULE_LIMIT, &joined)) != KG_NOT_FOUND)
        data = joined.data, size = parts == KG_LIMIT ? MODULE_LIMIT + 1 : joined.size;
    else if (image_extent(path ? file.data : image, file.size, &kind, &data, &size) != KG_OK)
        why = "the form of its module is not known";
    else if (size <= MODULE_LIMIT && kind == IMAGE_ELF && material_join(data, size, &joined)) {
        hash_data(data, size, &module->cubin);
        module->joined = true;
        data = joined.data, size = joined.size;
    }
    module->in_parts = !*why && parts == KG_OK;
    if (!*why && size > MODULE_LIMIT)
        why = "its module is larger than 16 MiB";
    else if (!*why && !data)
        why = "the form of its module is not known";
    else if (!*why && image_bytes + size > IMAGES_LIMIT)
        why = "the app's modules are larger than 256 MiB in all";
    else if (!*why && !(module->image.data = malloc(size + 1)))
        why = "out of memory";
    if (!*why) {
        memcpy(module->image.data, data, size);
        module->image.data[size] = 0; /* PTX text ends there */
        module->image.size = size;
        image_bytes += size;
    }
    memcpy(module->why_no_image, why, strlen(why) + 1);
    bytes_free(&file);
    bytes_free(&joined);
}

/* Whether a module died so long ago that nobody reads its image, or, with `all`, its record. */
static bool module_is_quiet(const struct module *module, bool all)
{
    if (!module->dead || now_ns() - module->retired_ns < QUIET_NS)
        return false;
    for (const struct kernel *k = retired.first; k; k = k->sibling)
        if (k->module == module && (all || is_capturing(k)))
            return false;
    return true;
}

static void module_free_content(struct module *module)
{
    image_bytes -= module->image.size;
    bytes_free(&module->image);
    if (module->selected)
        image_code_free(&module->code);
    module->image = (struct kg_bytes){0};
    module->selected = false;
}

static struct module *module_new(void)
{
    struct module *module = all_modules;
    while (module && !module_is_quiet(module, true))
        module = module->next;
    if (module) {
        struct module *next = module->next;
        module_free_content(module);
        memset(module, 0, sizeof *module);
        module->next = next;
        return module;
    }
    module = calloc(1, sizeof *module);
    if (module) {
        module->next = all_modules;
        all_modules = module;
    }
    return module;
}

static void retire_kernels(struct module *module)
{
    struct kernel *list = module->kernels, *next;
    module->kernels = NULL;
    for (struct kernel *k = list; k; k = next) {
        next = k->sibling;
        kernel_retire(k);
    }
}

static void module_retire(struct module *module)
{
    handles_remove_value(&module_handles, module, NULL);
    retire_kernels(module);
    module->dead = true;
    module->retired_ns = now_ns();
}

/* Caller holds the lock. */
static struct module *module_add(void *handle, bool library, const void *image, const char *path,
                                 const char *jit_options)
{
    struct module *old = handles_find(&module_handles, handle);
    if (old) /* its end was not seen, but this value is another module now */
        module_retire(old);
    struct module *module = module_new();
    if (!module)
        return NULL;
    module->handle = handle;
    module->library = library;
    module->context = current_context();
    if (!module->context || real.cuCtxGetDevice(&module->device) != CUDA_SUCCESS)
        module->device = 0; /* a library loaded early: libraries belong to no context */
    size_t length = strnlen(jit_options, sizeof module->jit_options - 1);
    memcpy(module->jit_options, jit_options, length);
    keep_image(module, image, path);
    if (handles_put(&module_handles, handle, module))
        return module;
    module_retire(module);
    return NULL;
}

void module_loaded(void *handle, bool library, const void *image, const char *path,
                   const char *jit_options)
{
    records_lock();
    (void)module_add(handle, library, image, path, jit_options ? jit_options : "");
    records_unlock();
}

void module_alias(void *library, void *module)
{
    records_lock();
    struct module *record = handles_find(&module_handles, library);
    if (record)
        (void)handles_put(&module_handles, module, record);
    records_unlock();
}

void module_of_function(void *module, void *function)
{
    records_lock();
    struct kernel *kernel = kernel_find(function);
    if (kernel && kernel->module->handle != module)
        (void)handles_put(&module_handles, module, kernel->module);
    records_unlock();
}

void module_dying(void *handle)
{
    records_lock();
    struct module *module = handles_find(&module_handles, handle);
    if (module && module->handle == handle)
        module_retire(module);
    else if (module) /* a library's module: it cannot be unloaded by itself, but be safe */
        retire_kernels(module);
    records_unlock();
}

/* A record of a library's kernel for a context that dies. */
static void elsewhere_retire(struct kernel *kernel)
{
    struct kernel **link = &kernel->module->kernels;
    elsewhere_leave(kernel);
    while (*link != kernel)
        link = &(*link)->sibling;
    *link = kernel->sibling;
    kernel_retire(kernel);
}

/* The next context that the program launches it in may load its variants anew. */
static void leave_context(struct kernel *kernel)
{
    int swapped = KERNEL_SWAPPED;
    handles_remove_value(&kernel_handles, kernel, kernel->handle);
    atomic_store_explicit(&kernel->swap, NULL, memory_order_release);
    atomic_compare_exchange_strong(&kernel->state, &swapped, KERNEL_COLD);
    kernel->context = NULL;
    kernel->snapshot_generation = 0;
}

void context_dying(CUcontext context)
{
    records_lock();
    app_context_dying(context);
    for (struct module *m = all_modules; m; m = m->next) {
        if (m->dead || (!m->library && context && m->context && m->context != context))
            continue;
        if (!m->library) {
            module_retire(m);
            continue;
        }
        /* a library and its CUkernels outlive contexts, its CUmodules and CUfunctions do not */
        handles_remove_value(&module_handles, m, m->handle);
        for (struct kernel *k = m->kernels, *next; k; k = next) {
            next = k->sibling;
            if (k->is_elsewhere && (!context || k->context == context))
                elsewhere_retire(k);
            else if (!context || !k->context || k->context == context)
                leave_context(k);
        }
    }
    records_unlock();
}

/* ---- look-up ------------------------------------------------------------------------------------
 */

static bool is_kernel(const struct kernel *kernel, const struct module *module, const char *name)
{
    return kernel->module == module && !strncmp(kernel->name, name, sizeof kernel->name - 1);
}

static struct kernel *kernel_of(struct module *module, const char *name)
{
    struct kernel *kernel = module->kernels;
    while (kernel && (kernel->is_elsewhere || !is_kernel(kernel, module, name)))
        kernel = kernel->sibling;
    return kernel ? kernel : kernel_new(module, name);
}

void function_found(void *handle, const char *name, void *function)
{
    if (!name || !function)
        return;
    records_lock();
    struct module *module = handles_find(&module_handles, handle);
    if (!module)
        module = module_add(handle, false, NULL, NULL, "");
    struct kernel *kernel = kernel_find(function);
    if (module && !(kernel && is_kernel(kernel, module, name))) {
        kernel = kernel_of(module, name);
        if (kernel && module->library && handle == module->handle)
            kernel->handle = function;
        bool known = kernel && handles_put(&kernel_handles, function, kernel);
        /* what takes long is left to the watcher: this is the app's thread */
        if (known && !kernel->modelled && module->image.size <= QUICK_IMAGE && variants_any()) {
            kernel_identify(kernel);
            variants_load(kernel);
        }
    }
    records_unlock();
}

void function_alias(void *kernel, void *function)
{
    records_lock();
    struct kernel *record = kernel_find(kernel);
    if (record) /* of this context's, so that it goes with the context */
        (void)handles_put(&kernel_handles, function, kernel_here(record));
    else /* a handle of something unknown must not lead to what it was before */
        handles_remove(&kernel_handles, function);
    records_unlock();
}

/* Asks the driver about libraries alone in which a kernel of this name was looked up. */
static struct kernel *named_in_library(CUmodule handle, const char *name)
{
    for (struct module *m = all_modules; m; m = m->next) {
        CUmodule of = NULL;
        if (!m->library || m->dead || !real.cuLibraryGetModule)
            continue;
        struct kernel *kernel = m->kernels;
        while (kernel && !is_kernel(kernel, m, name))
            kernel = kernel->sibling;
        if (kernel && real.cuLibraryGetModule(&of, m->handle) == CUDA_SUCCESS && of == handle)
            return kernel;
    }
    return NULL;
}

struct kernel *function_resolve(CUfunction function)
{
    CUmodule handle = NULL;
    const char *name = NULL;
    if (!real.cuFuncGetModule || !real.cuFuncGetName ||
        real.cuFuncGetName(&name, function) != CUDA_SUCCESS || !name ||
        real.cuFuncGetModule(&handle, function) != CUDA_SUCCESS)
        return NULL;
    records_lock();
    struct kernel *kernel = named_in_library(handle, name);
    if (kernel)
        (void)handles_put(&kernel_handles, function, kernel);
    records_unlock();
    return kernel;
}

/* ---- what a kernel is ---------------------------------------------------------------------------
 */

static bool device_arch(CUdevice device, const char **arch, bool *ptx_only)
{
    static struct kg_hardware hardware[DEVICES]; /* under the lock */
    if (device < 0 || device >= DEVICES)
        return false;
    struct kg_hardware *h = &hardware[device];
    if (!*h->arch && real_hardware(device, h) != KG_OK)
        return false;
    *arch = h->arch;
    *ptx_only = !strcmp(h->vendor, "softgpu");
    return true;
}

static void image_replace(struct module *module, struct kg_bytes image)
{
    module_free_content(module);
    module->image = image;
    image_bytes += image.size;
}

/* Of a program that was linked on the device: from its parts to the one image. */
static const char *link_parts(struct module *module, const char *arch, bool ptx_only)
{
    struct kg_bytes linked;
    kg_status status = image_link(&module->image, arch, ptx_only, &linked);
    if (status == KG_NOT_FOUND && ptx_only)
        status = image_link(&module->image, arch, false, &linked);
    if (status == KG_UNSUPPORTED)
        return "is linked by the driver out of parts (nvcc -rdc) that have no machine code for "
               "this device";
    if (status != KG_OK)
        return "its parts (nvcc -rdc) could not be read";
    image_replace(module, linked);
    module->in_parts = false;
    return NULL;
}

static const char *select_code(struct module *module)
{
    const char *arch, *why = NULL;
    bool ptx_only;
    if (module->selected)
        return NULL;
    if (!module->image.size)
        return module->why_no_image;
    if (!device_arch(module->device, &arch, &ptx_only))
        return "its device is not known";
    if (module->in_parts && (why = link_parts(module, arch, ptx_only)))
        return why;
    const struct kg_bytes *image = &module->image;
    kg_status status = image_select(image->data, image->size, arch, ptx_only, &module->code);
    /* The driver took it: so this software GPU runs machine code, too. */
    if (status == KG_NOT_FOUND && ptx_only)
        status = image_select(image->data, image->size, arch, false, &module->code);
    if (status != KG_OK)
        return "its module holds no code for this device";
    module->selected = true;
    return NULL;
}

void kernel_identify(struct kernel *kernel)
{
    if (kernel->modelled || kernel->why || kernel->retired_ns)
        return;
    kernel->why = select_code(kernel->module);
    if (!kernel->why &&
        kernel_model_make(&kernel->module->code, kernel->name, &kernel->model) != KG_OK)
        kernel->why = "its entry could not be read";
    if (!kernel->why) {
        kernel->modelled = true;
        kernel->params = kernel->model.params;
        kernel->param_count = kernel->model.param_count;
        if (kernel->left_alone)
            kernel->model.ineligible = kernel->left_alone;
        kernel->why = kernel->model.ineligible;
    }
    int state = kernel->why ? KERNEL_UNFIT : KERNEL_COLD;
    atomic_store_explicit(&kernel->state, state, memory_order_release);
}

/* What no launch reads: only kernels with a swap, or that are to be captured, have their parameters
 * looked at. */
static void forget_identity(struct kernel *kernel)
{
    int state = atomic_load_explicit(&kernel->state, memory_order_relaxed);
    if (state != KERNEL_UNFIT || atomic_load_explicit(&kernel->swap, memory_order_relaxed))
        return;
    kernel->params = NULL;
    kernel->param_count = 0;
    if (kernel->modelled)
        kernel_model_free(&kernel->model);
    kernel->modelled = false;
    kernel->why = NULL;
    kernel->snapshot_generation = 0;
    atomic_store_explicit(&kernel->state, KERNEL_NEW, memory_order_release);
}

struct module *modules_first(void)
{
    return all_modules;
}

void module_material_found(struct module *module, const struct kg_id *cubin)
{
    struct kg_bytes joined;
    struct kg_id id;
    if (module->dead || !module->image.size)
        return;
    hash_data(module->image.data, module->image.size, &id);
    if (!id_equal(&id, cubin) || !material_join(module->image.data, module->image.size, &joined))
        return;
    if (joined.size > MODULE_LIMIT ||
        image_bytes - module->image.size + joined.size > IMAGES_LIMIT) {
        bytes_free(&joined);
        return;
    }
    image_replace(module, joined);
    for (struct kernel *k = module->kernels; k; k = k->sibling)
        forget_identity(k);
}

/* ---- ticks --------------------------------------------------------------------------------------
 */

void kernels_tick(void)
{
    for (struct kernel *k = all_kernels; k; k = k->next) {
        elsewhere_make(k);
        tally_tick(k);
        const struct swap_entry *failed =
            atomic_exchange_explicit(&k->failed, NULL, memory_order_acquire);
        if (failed && !k->retired_ns)
            variant_drop(k, &failed->variant, "the driver refused its variant's launch");
    }
    for (struct module *m = all_modules; m; m = m->next)
        if (m->image.size && module_is_quiet(m, false))
            module_free_content(m);
}
