/* A cubin whose PTX was seen made in this process has raw material: the real NVRTC, through the
 * hook that a look-up by dlsym gets. And so has one that Triton's cache holds,
 * and one that was linked here. */
#include "app_fixture.h"

#include <dlfcn.h>

void *dlsym_next(void *handle, const char *name)
{
    return dlsym(handle, name);
}

#include "../interpose/hooks_nvrtc.c"
#include "app/material.c"

static const char *source =
    "extern \"C\" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }\n";

/* The cubin of the source, made under the preload or not: through the function at get_cubin. */
static struct kg_bytes cubin_of(void *nvrtc, int (*get_cubin)(void *, char *), void **program)
{
    struct kg_bytes out = {0};
    static const char *const options[] = {"-arch=sm_90"};
    int (*create)(void **, const char *, const char *, int, const char **, const char **) =
        (int (*)(void **, const char *, const char *, int, const char **, const char **))dlsym(
            nvrtc, "nvrtcCreateProgram");
    int (*compile)(void *, int, const char *const *) =
        (int (*)(void *, int, const char *const *))dlsym(nvrtc, "nvrtcCompileProgram");
    int (*size)(void *, size_t *) = (int (*)(void *, size_t *))dlsym(nvrtc, "nvrtcGetCUBINSize");
    CHECK(!create(program, source, "twice.cu", 0, NULL, NULL) && !compile(*program, 1, options));
    CHECK(!size(*program, &out.size) && (out.data = malloc(out.size)));
    CHECK(!get_cubin(*program, (char *)out.data));
    int (*destroy)(void **) = (int (*)(void **))dlsym(nvrtc, "nvrtcDestroyProgram");
    CHECK(!destroy(program));
    return out;
}

static struct kernel *load(const struct kg_bytes *image, void *module, void *function)
{
    module_loaded(module, false, image->data, NULL, NULL);
    function_found(module, "twice", function);
    struct kernel *kernel = kernel_find(function);
    records_lock();
    kernel_identify(kernel);
    records_unlock();
    return kernel;
}

/* Triton's cache: CACHE/<hash>/twice.cubin and .ptx. Returns whether the module's kernel can be
 * modelled once the cache was asked. */
static bool found_in_cache(const struct kg_bytes *image, uintptr_t handle)
{
    struct kernel *kernel = load(image, (void *)handle, (void *)(handle + 1));
    CHECK(kernel && kernel->why);
    if (!kernel)
        return false;
    for (int i = 0; i < 8; i++)
        material_tick();
    CHECK(kernel->why); /* nobody asks before its first launch */
    atomic_store(&kernel->launches, 1);
    for (int i = 0; i < 8; i++) /* one module each */
        material_tick();
    records_lock();
    kernel_identify(kernel);
    records_unlock();
    return !kernel->why && kernel->modelled;
}

static void triton_cache(const struct kg_bytes *image)
{
    static const char ptx[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
                              ".visible .entry twice(.param .u64 x)\n{\nret;\n}\n";
    char folder[KG_PATH], path[KG_PATH];
    CHECK(path_make(folder, "%s/triton", app_dir()) == KG_OK && dir_make(folder) == KG_OK);
    CHECK(!setenv("TRITON_CACHE_DIR", folder, 1));
    triton_start();
    CHECK(path_make(folder, "%s/triton/ABC", app_dir()) == KG_OK && dir_make(folder) == KG_OK);
    CHECK(path_make(path, "%s/twice.ptx", folder) == KG_OK);
    CHECK(file_write(path, ptx, strlen(ptx), 0600) == KG_OK);
    CHECK(path_make(path, "%s/twice.cubin", folder) == KG_OK);
    struct kg_bytes other = {malloc(image->size), image->size};
    memcpy(other.data, image->data, image->size);
    other.data[image->size - 1] ^= 1; /* another kernel of that name and size */
    CHECK(file_write(path, other.data, other.size, 0600) == KG_OK);
    CHECK(!found_in_cache(image, 0x5000));
    CHECK(file_write(path, image->data, image->size, 0600) == KG_OK);
    CHECK(found_in_cache(image, 0x6000));
    bytes_free(&other);
}

/* PTX texts that a linker in the process was given are the raw material of what came out. */
static void linked(const struct kg_bytes *cubin)
{
#define HEAD ".version 8.0\n.target sm_90\n.address_size 64\n"
    static const char caller[] =
        HEAD ".extern .func helper(.param .b64 p);\n"
             ".visible .entry twice(.param .u64 x)\n{\n.reg .b64 %rd<3>;\n"
             "ld.param.u64 %rd1, [x];\n{ .param .b64 a; st.param.b64 [a], %rd1;\n"
             "call helper, (a); }\nret;\n}\n";
    static const char called[] =
        HEAD ".visible .func helper(.param .b64 p)\n{\n.reg .b64 %rd<3>;\n.reg .b32 %r<2>;\n"
             "ld.param.u64 %rd1, [p];\nst.u32 [%rd1], 1;\nret;\n}\n";
    struct kg_bytes joined;
    const void *link = &joined;
    linking_input(link, cubin->data, cubin->size); /* no PTX: passed over */
    linking_output(link, cubin->data, cubin->size);
    CHECK(!material_join(cubin->data, cubin->size, &joined));
    linking_input(link, caller, sizeof caller);
    linking_end(link); /* given up by the program */
    linking_output(link, cubin->data, cubin->size);
    CHECK(!material_join(cubin->data, cubin->size, &joined));
    linking_input(link, caller, sizeof caller);
    linking_input(link, called, strlen(called));
    linking_output(link, cubin->data, 0); /* as long as its headers say */
    linking_end(link);
    struct kernel *kernel = load(cubin, (void *)0x8000, (void *)0x8010);
    CHECK(kernel && !kernel->why && kernel->modelled && kernel->model.pointer_count == 1);
    for (uintptr_t i = 1; i < 40; i++) /* the oldest are forgotten, none is lost */
        linking_input((void *)i, caller, sizeof caller);
    for (uintptr_t i = 1; i < 40; i++)
        linking_end((void *)i);
}

int main(void)
{
    void *nvrtc = dlopen(CUDA_ROOT "/lib64/libnvrtc.so", RTLD_NOW), *program = NULL;
    if (!nvrtc)
        SKIP("no libnvrtc");
    fixture_begin("material", KG_MODE_TUNE);
    char folder[KG_PATH];
    CHECK(path_make(folder, "%s/material", app_dir()) == KG_OK && dir_make(folder) == KG_OK);
    void *real_function = dlsym(nvrtc, "nvrtcGetCUBIN");
    struct kg_bytes plain = cubin_of(nvrtc, (int (*)(void *, char *))real_function, &program);

    struct kernel *kernel = load(&plain, (void *)0x1000, (void *)0x1010);
    CHECK(kernel && kernel->why); /* the fixture's device runs PTX only */
    module_dying((void *)0x1000);
    triton_cache(&plain);

    int (*hook)(void *, char *) = (int (*)(void *, char *))nvrtc_answer(real_function);
    CHECK((void *)hook != real_function);
    CHECK(nvrtc_answer((void *)&program) == (void *)&program); /* another NVRTC */
    source = "extern \"C\" __global__ void twice(float *x) { x[threadIdx.x] *= 3; }\n";
    struct kg_bytes cubin = cubin_of(nvrtc, hook, &program);
    kernel = load(&cubin, (void *)0x2000, (void *)0x2010);
    CHECK(kernel && !kernel->why && kernel->modelled && kernel->model.pointer_count == 1);

    /* once it matters, the next process that loads the cubin finds the PTX in the spool */
    atomic_store(&kernel->launches, (uint64_t)options()->hot_launches);
    for (int i = 0; i < 8; i++)
        material_tick();
    struct kg_id id;
    char path[KG_PATH], text[KG_ID_TEXT];
    hash_data(cubin.data, cubin.size, &id);
    CHECK(path_make(path, "%s/material/%s.ptx", app_dir(), id_text(&id, text)) == KG_OK);
    CHECK(access(path, R_OK) == 0);
    for (unsigned i = 0; i < KEPT; i++) /* as a new process begins */
        forget(&kept[i]);
    CHECK(found_in_cache(&cubin, 0x7000));

    struct kg_bytes joined; /* what image_join makes is a fatbin whose cubin the driver takes */
    struct image_code code;
    CHECK(material_join(cubin.data, cubin.size, &joined));
    CHECK(image_select(joined.data, joined.size, "sm_90", false, &code) == KG_OK);
    CHECK(code.machine_code && code.selected.size >= cubin.size && code.ptx.size &&
          !memcmp(code.selected.data, cubin.data, cubin.size));
    image_code_free(&code);
    bytes_free(&joined);
    CHECK(!material_join(cubin.data, cubin.size - 1, &joined)); /* other bytes */
    source = "extern \"C\" __global__ void twice(float *x) { x[threadIdx.x] *= 4; }\n";
    struct kg_bytes third = cubin_of(nvrtc, (int (*)(void *, char *))real_function, &program);
    linked(&third);
    bytes_free(&third);
    bytes_free(&cubin);
    bytes_free(&plain);
    /* NVRTC stays: what it never frees is told by its name */
    return test_result();
}
