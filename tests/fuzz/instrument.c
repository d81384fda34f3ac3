/* Fuzz target of the instrumenter: any text with entries is instrumented or refused, and what comes
 * out parses and has the entry. A folder with a few .ptx files of nvcc's is a good corpus. */
#include "code/instrument.h"
#include "code/ptx.h"

#include <stdlib.h>
#include <string.h>

static void instrument(const char *text, const char *entry, unsigned what)
{
    struct instrument_options options = {what, {64, 1, 1}};
    struct instrumented out;
    struct ptx_module module;
    char error[128];
    if (ptx_instrument(text, entry, &options, &out) == KG_OK) {
        if (ptx_parse((char *)out.text.data, out.text.size, &module, error, sizeof error) != KG_OK)
            abort();
        if (!ptx_find_func(&module, entry) || !ptx_find_var(&module, "kgi_state"))
            abort();
        ptx_module_free(&module);
    }
    instrumented_free(&out);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct ptx_module module;
    char error[128];
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    if (ptx_parse(text, strlen(text), &module, error, sizeof error) == KG_OK) {
        for (uint32_t i = 0, tried = 0; i < module.func_count && tried < 2; i++) {
            if (!module.funcs[i]->entry || !module.funcs[i]->defined)
                continue;
            tried++;
            instrument(text, module.funcs[i]->name, 1);
            instrument(text, module.funcs[i]->name, 7);
        }
        ptx_module_free(&module);
    }
    free(text);
    return 0;
}
