/* Cubins: any bytes must open or not, and each entry found must have a model, the same twice. */
#include <stdlib.h>
#include <string.h>

#include "code/code.h"

struct entries {
    char names[4][128];
    unsigned count;
};

static void each(void *self, const char *name)
{
    struct entries *entries = self;
    if (entries->count < 4 && strlen(name) < sizeof entries->names[0])
        strcpy(entries->names[entries->count++], name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct image_code code = {.machine_code = true, .sm = 90};
    struct entries entries = {.count = 0};
    struct kernel_model first, second;
    if (!size || !(code.selected.data = malloc(size + 1)))
        return 0;
    memcpy(code.selected.data, data, size);
    code.selected.data[size] = 0;
    code.selected.size = size;
    image_entries(&code, each, &entries);
    for (unsigned i = 0; i < entries.count; i++) {
        kg_status status = kernel_model_make(&code, entries.names[i], &first);
        if (status != kernel_model_make(&code, entries.names[i], &second) ||
            (status == KG_OK && !id_equal(&first.id, &second.id)))
            abort();
        kernel_model_free(&first);
        kernel_model_free(&second);
    }
    image_code_free(&code);
    return 0;
}
