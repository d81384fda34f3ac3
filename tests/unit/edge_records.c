/* Records of originals through the life of their handles: look-up, aliases, unloading, contexts
 * that die, and above all values that the driver gives out again. */
#include "app/app.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

static CUcontext current = (CUcontext)0xc1;
static const char ptx[] = ".version 7.0\n.target sm_50\n.address_size 64\n";

static CUresult fake_current(CUcontext *out)
{
    *out = current;
    return CUDA_SUCCESS;
}

static CUresult fake_device(CUdevice *out)
{
    *out = 0;
    return CUDA_SUCCESS;
}

static unsigned mirrored;
static CUresult fake_set_attribute(CUfunction f, CUfunction_attribute attribute, int value)
{
    mirrored++;
    return CUDA_SUCCESS;
}

static void *handle(unsigned i)
{
    return (void *)(0x10000 + 16 * (uintptr_t)i);
}

static struct kernel *loaded(void *module, const char *name, void *function)
{
    module_loaded(module, false, ptx, NULL, "max_registers=32");
    function_found(module, name, function);
    return kernel_find(function);
}

static void lookups(void)
{
    struct kernel *a = loaded(handle(1), "alpha", handle(2));
    if (!CHECK(a != NULL))
        return;
    CHECK(!strcmp(a->name, "alpha") && a->context == current && a->carveout == -1);
    CHECK(a->module->image.size == strlen(ptx) || a->module->image.size == sizeof ptx);
    CHECK(a->module->image.data != (const unsigned char *)ptx); /* a copy */
    CHECK(!strcmp(a->module->jit_options, "max_registers=32"));
    CHECK(atomic_load(&a->slow_at) == 1 && atomic_load(&a->state) == KERNEL_NEW);
    CHECK(!kernel_find(handle(3)) && !kernel_find(NULL));
    function_found(handle(1), "alpha", handle(2));
    CHECK(kernel_find(handle(2)) == a);
    function_found(handle(1), "alpha", handle(4)); /* another handle of the same */
    CHECK(kernel_find(handle(4)) == a);
    function_found(handle(1), "beta", handle(5));
    CHECK(kernel_find(handle(5)) && kernel_find(handle(5)) != a);
    function_alias(handle(2), handle(6));
    CHECK(kernel_find(handle(6)) == a);
    function_alias(handle(99), handle(6)); /* of something unknown: no longer alpha */
    CHECK(!kernel_find(handle(6)));
    function_attribute(handle(2), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 70000);
    function_attribute(handle(2), CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50);
    CHECK(a->max_dynamic_shared == 70000 && a->carveout == 50 && !mirrored);
    module_dying(handle(1));
    for (unsigned i = 2; i < 7; i++)
        CHECK(!kernel_find(handle(i)));
    CHECK(a->retired_ns && !strcmp(a->name, "alpha")); /* a launch may still hold it */
}

/* The driver gives the same values out for other code. */
static void recycled(void)
{
    struct kernel *first = loaded(handle(10), "first", handle(11));
    module_dying(handle(10));
    struct kernel *second = loaded(handle(10), "second", handle(11));
    CHECK(second && second != first && !strcmp(second->name, "second"));
    struct kernel *third = loaded(handle(10), "third", handle(11)); /* unloading was not seen */
    CHECK(third && third != second && second->retired_ns);
    function_found(handle(10), "fourth", handle(11)); /* nor a new meaning of the function */
    struct kernel *fourth = kernel_find(handle(11));
    CHECK(fourth && fourth != third && !strcmp(fourth->name, "fourth"));
    module_dying(handle(10));
    CHECK(!kernel_find(handle(11)));
    first->retired_ns -= UINT64_C(11000000000);
    struct kernel *again = loaded(handle(12), "again", handle(13));
    CHECK(again && again != second && again != third); /* those retired a moment ago */
    unsigned records = 0;
    for (struct kernel *k = kernels_first(); k; k = k->next)
        records++;
    CHECK(records <= 8);
    module_dying(handle(12));
}

/* What a capture still reads stays; what waits behind it does not. */
static void captured(void)
{
    struct kernel *slow = loaded(handle(14), "slow", handle(15));
    struct kernel *quick = loaded(handle(16), "quick", handle(17));
    if (!CHECK(slow && quick))
        return;
    struct module *slow_module = slow->module, *quick_module = quick->module;
    atomic_store(&slow->state, KERNEL_CAPTURING);
    module_dying(handle(14));
    module_dying(handle(16));
    for (struct kernel *k = kernels_first(); k; k = k->next)
        if (k->retired_ns)
            k->retired_ns -= UINT64_C(11000000000);
    slow_module->retired_ns -= UINT64_C(11000000000);
    quick_module->retired_ns -= UINT64_C(11000000000);
    records_lock();
    kernels_tick();
    records_unlock();
    CHECK(slow_module->image.size && !quick_module->image.size);
    for (unsigned i = 0; i < 8; i++)
        CHECK(loaded(handle(50 + i), "other", handle(60 + i)) != slow);
    CHECK(!strcmp(slow->name, "slow") && strcmp(quick->name, "quick"));
    for (unsigned i = 0; i < 8; i++)
        module_dying(handle(50 + i));
    atomic_store(&slow->state, KERNEL_CAPTURED);
}

static void unseen_load(void)
{
    function_found(handle(20), "early", handle(21));
    struct kernel *k = kernel_find(handle(21));
    CHECK(k && atomic_load(&k->state) == KERNEL_UNFIT && strstr(k->why, "not seen"));
    module_dying(handle(20));
}

static void contexts(void)
{
    struct kernel *here = loaded(handle(30), "here", handle(31));
    current = (CUcontext)0xc2;
    struct kernel *there = loaded(handle(32), "there", handle(33));
    module_loaded(handle(34), true, ptx, NULL, "");
    function_found(handle(34), "library", handle(35));
    module_alias(handle(34), handle(36));
    function_found(handle(36), "library", handle(37));
    CHECK(kernel_find(handle(35)) && kernel_find(handle(35)) == kernel_find(handle(37)));
    CHECK(there->context == current && here->context != current);
    context_dying(current);
    CHECK(kernel_find(handle(31)) == here);
    CHECK(!kernel_find(handle(33)) && !kernel_find(handle(37)));
    struct kernel *library = kernel_find(handle(35)); /* the library lives on, and its CUkernel */
    CHECK(library && !library->context);
    function_found(handle(34), "library", handle(35));
    CHECK(kernel_find(handle(35)) == library);
    library->context = current;
    static struct swap none;
    atomic_store(&library->swap, &none);
    atomic_store(&library->state, KERNEL_SWAPPED);
    context_dying(NULL);
    CHECK(!kernel_find(handle(31)) && kernel_find(handle(35)) == library);
    CHECK(!library->swap && !library->context && atomic_load(&library->state) == KERNEL_COLD);
    module_dying(handle(34));
    CHECK(!kernel_find(handle(35)));
    current = (CUcontext)0xc1;
}

static unsigned preferred;
static CUresult fake_cache(CUfunction f, CUfunc_cache config)
{
    preferred = (unsigned)config;
    return CUDA_SUCCESS;
}
static CUresult fake_banks(CUfunction f, CUsharedconfig config)
{
    preferred = 10 + (unsigned)config;
    return CUDA_SUCCESS;
}

static void mirrors(void)
{
    static _Alignas(8) char table[sizeof(struct swap) + sizeof(struct swap_entry)];
    struct swap *swap = (struct swap *)table;
    struct kernel *k = loaded(handle(40), "mirrored", handle(41));
    swap->count = 1;
    swap->entries[0].launch.shared = 50000;
    atomic_store(&k->swap, swap);
    function_attribute(handle(41), CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 30);
    CHECK(mirrored == 1);
    function_attribute(handle(41), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 40000);
    CHECK(mirrored == 1); /* the variant has more than that */
    function_attribute(handle(41), FUNCTION_CACHE_CONFIG, CU_FUNC_CACHE_PREFER_L1);
    CHECK(preferred == CU_FUNC_CACHE_PREFER_L1 && k->cache_config == CU_FUNC_CACHE_PREFER_L1);
    function_attribute(handle(41), FUNCTION_SHARED_CONFIG, 2);
    CHECK(preferred == 12 && k->shared_config == 2);
    function_attribute(handle(41), CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
    function_attribute(handle(41), CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 1);
    CHECK(k->swap && !k->why);
    function_attribute(handle(41), CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 2);
    CHECK(!k->swap && strstr(k->why, "cluster") && atomic_load(&k->state) == KERNEL_UNFIT);
    function_attribute(handle(41), CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 0);
    CHECK(k->left_alone && strstr(k->why, "cluster")); /* for good */
    module_of_function(handle(42), handle(41));
    function_found(handle(42), "mirrored", handle(43));
    CHECK(kernel_find(handle(43)) == k);
    module_dying(handle(40));
    CHECK(!kernel_find(handle(43)));
}

/* Launching threads beside one that loads and unloads. */
static atomic_bool stop;
static atomic_int wrong, looked;

static void *launcher(void *stable)
{
    while (!atomic_load(&stop)) {
        if (kernel_find(handle(1000)) != stable)
            atomic_fetch_add(&wrong, 1);
        for (unsigned i = 0; i < 64; i++) {
            struct kernel *k = kernel_find(handle(1100 + i));
            if (k)
                atomic_fetch_add_explicit(&k->launches, 1, memory_order_relaxed);
        }
        atomic_fetch_add(&looked, 1);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t pthreads[2];
    struct kernel *stable = loaded(handle(999), "stable", handle(1000));
    for (int i = 0; i < 2; i++)
        CHECK(!pthread_create(&pthreads[i], NULL, launcher, stable));
    for (unsigned round = 0; round < 50; round++)
        for (unsigned i = 0; i < 64; i++) {
            char name[32];
            snprintf(name, sizeof name, "kernel%u", i);
            CHECK(loaded(handle(1300 + i), name, handle(1100 + i)) != NULL);
            module_dying(handle(1300 + i));
        }
    while (atomic_load(&looked) < 4)
        ;
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(pthreads[i], NULL);
    CHECK(!wrong);
}

static void forked(void)
{
    CHECK(kernel_find(handle(1000)) != NULL);
    records_lock(); /* as another thread of the parent might */
    pid_t pid = fork();
    if (!pid) {
        kernels_after_fork_child();
        bool empty = !kernel_find(handle(1000)) && !kernels_first();
        records_lock();
        records_unlock();
        _exit(empty ? 0 : 1);
    }
    records_unlock();
    int status = 1;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(kernel_find(handle(1000)) != NULL);
}

int main(void)
{
    setenv("KGENRT_MODE", "tune", 1);
    real.cuCtxGetCurrent = fake_current;
    real.cuCtxGetDevice = fake_device;
    real.cuFuncSetAttribute = fake_set_attribute;
    real.cuFuncSetCacheConfig = fake_cache;
    real.cuFuncSetSharedMemConfig = fake_banks;
    lookups();
    recycled();
    captured();
    unseen_load();
    contexts();
    mirrors();
    threads();
    forked();
    return test_result();
}
