/* The linker calls, as far as one PTX text goes: what was added comes out as the "cubin", and the
 * load calls take it. Several inputs would have to be linked, which is not there. */
#include "soft.h"

#include <stdlib.h>
#include <string.h>

struct link {
    char *text; /* NUL-terminated */
    size_t size;
};

static CUresult enter(CUlinkState handle, struct link **out)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    *out = (struct link *)handle;
    return handle_kind_of(handle) == HANDLE_LINK ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuLinkCreate_v2(unsigned int numOptions, CUjit_option *options, void **optionValues,
                         CUlinkState *stateOut)
{
    struct context *context;
    CUresult result = context_enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!stateOut)
        return CUDA_ERROR_INVALID_VALUE;
    struct link *link = calloc(1, sizeof *link);
    if (!link || !handle_add(link, HANDLE_LINK)) {
        free(link);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *stateOut = (CUlinkState)link;
    return CUDA_SUCCESS;
}

static CUresult add(struct link *link, const void *data, size_t size)
{
    if (link->text)
        return CUDA_ERROR_NOT_SUPPORTED;
    size_t length = strnlen(data, size);
    link->text = malloc(length + 1);
    if (!link->text)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(link->text, data, length);
    link->text[length] = 0;
    link->size = length + 1;
    return CUDA_SUCCESS;
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
                          const char *name, unsigned int numOptions, CUjit_option *options,
                          void **optionValues)
{
    struct link *link;
    CUresult result = enter(state, &link);
    if (result != CUDA_SUCCESS)
        return result;
    if (!data || !size)
        return CUDA_ERROR_INVALID_VALUE;
    if (type == CU_JIT_INPUT_PTX)
        return add(link, data, size);
    struct code *code;
    result = code_create(data, size, device_at(0)->arch, &code);
    if (result != CUDA_SUCCESS)
        return result;
    result = add(link, code->image.ptx.data, code->image.ptx.size);
    code_release(code);
    return result;
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
                          unsigned int numOptions, CUjit_option *options, void **optionValues)
{
    struct link *link;
    struct code *code;
    CUresult result = enter(state, &link);
    if (result == CUDA_SUCCESS)
        result = code_from_file(path, device_at(0)->arch, &code);
    if (result != CUDA_SUCCESS)
        return result;
    result = add(link, code->image.ptx.data, code->image.ptx.size);
    code_release(code);
    return result;
}

CUresult cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
    struct link *link;
    CUresult result = enter(state, &link);
    if (result != CUDA_SUCCESS)
        return result;
    if (!cubinOut || !link->text)
        return CUDA_ERROR_INVALID_VALUE;
    *cubinOut = link->text;
    if (sizeOut)
        *sizeOut = link->size;
    return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState state)
{
    struct link *link;
    CUresult result = enter(state, &link);
    if (result != CUDA_SUCCESS)
        return result;
    handle_remove(link);
    free(link->text);
    free(link);
    return CUDA_SUCCESS;
}

CUresult cuLinkCreate(unsigned int numOptions, CUjit_option *options, void **optionValues,
                      CUlinkState *stateOut)
{
    return cuLinkCreate_v2(numOptions, options, optionValues, stateOut);
}

CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t size,
                       const char *name, unsigned int numOptions, CUjit_option *options,
                       void **optionValues)
{
    return cuLinkAddData_v2(state, type, data, size, name, numOptions, options, optionValues);
}

CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path,
                       unsigned int numOptions, CUjit_option *options, void **optionValues)
{
    return cuLinkAddFile_v2(state, type, path, numOptions, options, optionValues);
}
