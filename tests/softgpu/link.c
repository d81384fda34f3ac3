/* The linker calls. What was added is PTX, whatever it came in; what comes out is one PTX text in
 * the place of a "cubin", and the load calls take it. Which errors the driver gives for symbols
 * that are undefined or defined twice its manual does not say: here CUDA_ERROR_INVALID_IMAGE, with
 * a line in the error log. */
#include "soft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "code/ptx_link.h"

struct link {
    struct ptx_linker *linker;
    char *text; /* of the last cuLinkComplete */
    char *log;  /* of the caller, for errors */
    size_t log_size;
};

static CUresult enter(CUlinkState handle, struct link **out)
{
    *out = (struct link *)handle;
    return handle_enter(handle, HANDLE_LINK, CUDA_ERROR_INVALID_HANDLE);
}

/* Other options speak of machine code. */
static void read_options(struct link *link, unsigned count, const CUjit_option *options,
                         void **values)
{
    for (unsigned i = 0; i < count; i++) {
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
            link->log = values[i];
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
            link->log_size = (uintptr_t)values[i];
    }
    if (link->log && link->log_size)
        link->log[0] = 0;
}

static void tell(const struct link *link, const char *line)
{
    soft_say("link: %s", line);
    if (link->log && link->log_size)
        snprintf(link->log, link->log_size, "%s", line);
}

CUresult cuLinkCreate_v2(unsigned int numOptions, CUjit_option *options, void **optionValues,
                         CUlinkState *stateOut)
{
    struct context *context;
    CUresult result = context_enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!stateOut || (numOptions && (!options || !optionValues)))
        return CUDA_ERROR_INVALID_VALUE;
    struct link *link = calloc(1, sizeof *link);
    if (link)
        link->linker = ptx_linker_create();
    if (!link || !link->linker || !handle_add(link, HANDLE_LINK)) {
        if (link)
            ptx_linker_free(link->linker);
        free(link);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    read_options(link, numOptions, options, optionValues);
    *stateOut = (CUlinkState)link;
    return CUDA_SUCCESS;
}

static CUresult add(struct link *link, const void *data, size_t size)
{
    char error[256] = "";
    kg_status status = ptx_linker_add(link->linker, data, size, error, sizeof error);
    if (status == KG_OK || status == KG_NO_MEMORY)
        return soft_status(status);
    tell(link, error);
    return CUDA_ERROR_INVALID_PTX;
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
    result = code_create(data, size, context_here()->device->arch, &code);
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
        result = code_from_file(path, context_here()->device->arch, &code);
    if (result != CUDA_SUCCESS)
        return result;
    result = add(link, code->image.ptx.data, code->image.ptx.size);
    code_release(code);
    return result;
}

CUresult cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
    struct link *link;
    char error[256] = "", *text;
    CUresult result = enter(state, &link);
    if (result != CUDA_SUCCESS)
        return result;
    if (!cubinOut || !ptx_linker_count(link->linker))
        return CUDA_ERROR_INVALID_VALUE;
    kg_status status = ptx_linker_link(link->linker, true, &text, error, sizeof error);
    if (status != KG_OK) {
        tell(link, error);
        return status == KG_NO_MEMORY ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_IMAGE;
    }
    free(link->text);
    link->text = text;
    *cubinOut = text;
    if (sizeOut)
        *sizeOut = strlen(text) + 1;
    return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState state)
{
    struct link *link;
    CUresult result = enter(state, &link);
    if (result != CUDA_SUCCESS)
        return result;
    handle_remove(link);
    ptx_linker_free(link->linker);
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
