/* Code that is linked while the program runs, by the driver or by nvJitLink: which PTX went in, and
 * which cubin came out. Of nvJitLink only a look-up by dlsym is answered, as of NVRTC. */
#include "interpose.h"

static bool keeping(void)
{
    return watching() && options_mode() >= KG_MODE_CACHED;
}

/* ---- the driver's linker ----------------------------------------------------------------------
 */

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
                          const char *name, unsigned int numOptions, CUjit_option *options,
                          void **optionValues)
{
    NEED(cuLinkAddData_v2);
    CUresult result =
        real.cuLinkAddData_v2(state, type, data, size, name, numOptions, options, optionValues);
    if (result == CUDA_SUCCESS && type == CU_JIT_INPUT_PTX && keeping())
        linking_input(state, data, size);
    return result;
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
                          unsigned int numOptions, CUjit_option *options, void **optionValues)
{
    NEED(cuLinkAddFile_v2);
    CUresult result = real.cuLinkAddFile_v2(state, type, path, numOptions, options, optionValues);
    struct kg_bytes file;
    if (result == CUDA_SUCCESS && type == CU_JIT_INPUT_PTX && keeping() &&
        file_read(path, 4 << 20, &file) == KG_OK) {
        linking_input(state, file.data, file.size);
        bytes_free(&file);
    }
    return result;
}

CUresult cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
    NEED(cuLinkComplete);
    CUresult result = real.cuLinkComplete(state, cubinOut, sizeOut);
    if (result == CUDA_SUCCESS && cubinOut && sizeOut && keeping())
        linking_output(state, *cubinOut, *sizeOut);
    return result;
}

CUresult cuLinkDestroy(CUlinkState state)
{
    NEED(cuLinkDestroy);
    if (watching())
        linking_end(state);
    return real.cuLinkDestroy(state);
}

/* ---- nvJitLink --------------------------------------------------------------------------------
 */

/* Of the first nvJitLink that was asked for; another one in the same process is left alone. */
static _Atomic(void *) real_add, real_get, real_destroy;

static int jit_add(void *link, int type, const void *data, size_t size, const char *name)
{
    int (*add)(void *, int, const void *, size_t, const char *);
    *(void **)&add = atomic_load_explicit(&real_add, memory_order_acquire);
    int result = add(link, type, data, size, name);
    if (!result && data && keeping())
        linking_input(link, data, size);
    return result;
}

static int jit_get(void *link, void *cubin)
{
    int (*get)(void *, void *);
    *(void **)&get = atomic_load_explicit(&real_get, memory_order_acquire);
    int result = get(link, cubin);
    if (!result && cubin && keeping())
        linking_output(link, cubin, 0); /* as long as its headers say: it was just written */
    return result;
}

static int jit_destroy(void **link)
{
    int (*destroy)(void **);
    *(void **)&destroy = atomic_load_explicit(&real_destroy, memory_order_acquire);
    if (link && watching())
        linking_end(*link);
    return destroy(link);
}

static void *answer(_Atomic(void *) *place, void *found, void *mine)
{
    void *known = NULL;
    return atomic_compare_exchange_strong(place, &known, found) || known == found ? mine : found;
}

void *jit_add_answer(void *found)
{
    return answer(&real_add, found, (void *)jit_add);
}

void *jit_get_answer(void *found)
{
    return answer(&real_get, found, (void *)jit_get);
}

void *jit_destroy_answer(void *found)
{
    return answer(&real_destroy, found, (void *)jit_destroy);
}
