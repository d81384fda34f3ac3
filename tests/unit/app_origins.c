/* A cubin whose PTX was seen made in this process has raw material: the real NVRTC, through the
 * hook that a look-up by dlsym gets. */
#include "app_fixture.h"

#include <dlfcn.h>

void *dlsym_next(void *handle, const char *name)
{
    return dlsym(handle, name);
}

#include "../interpose/hooks_nvrtc.c"

static const char source[] =
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

int main(void)
{
    void *nvrtc = dlopen(CUDA_ROOT "/lib64/libnvrtc.so", RTLD_NOW), *program = NULL;
    if (!nvrtc)
        SKIP("no libnvrtc");
    fixture_begin("origins", KG_MODE_CACHED);
    void *real_function = dlsym(nvrtc, "nvrtcGetCUBIN");
    struct kg_bytes plain = cubin_of(nvrtc, (int (*)(void *, char *))real_function, &program);

    struct kernel *kernel = load(&plain, (void *)0x1000, (void *)0x1010);
    CHECK(kernel && kernel->why); /* the fixture's device runs PTX only */
    module_dying((void *)0x1000);

    int (*hook)(void *, char *) = (int (*)(void *, char *))nvrtc_answer(real_function);
    CHECK((void *)hook != real_function);
    CHECK(nvrtc_answer((void *)&program) == (void *)&program); /* another NVRTC */
    struct kg_bytes cubin = cubin_of(nvrtc, hook, &program);
    kernel = load(&cubin, (void *)0x2000, (void *)0x2010);
    CHECK(kernel && !kernel->why && kernel->modelled && kernel->model.pointer_count == 1);

    struct kg_bytes joined; /* what image_join makes is a fatbin whose cubin the driver takes */
    struct image_code code;
    CHECK(origin_join(cubin.data, cubin.size, &joined));
    CHECK(image_select(joined.data, joined.size, "sm_90", false, &code) == KG_OK);
    CHECK(code.machine_code && code.selected.size >= cubin.size && code.ptx.size &&
          !memcmp(code.selected.data, cubin.data, cubin.size));
    image_code_free(&code);
    bytes_free(&joined);
    CHECK(!origin_join(cubin.data, cubin.size - 1, &joined)); /* other bytes */
    bytes_free(&cubin);
    bytes_free(&plain);
    dlclose(nvrtc);
    return test_result();
}
