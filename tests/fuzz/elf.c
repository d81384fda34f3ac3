/* Cubins: any bytes must open or not, and each entry found must have a model, the same twice. */
#include <stdlib.h>
#include <string.h>

#include "code/parts.h"

enum { ENTRIES = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct image_code code = {.machine_code = true, .sm = 90};
    struct elf elf;
    struct elf_symbol symbol;
    struct kernel_model first, second;
    if (!size || !(code.selected.data = malloc(size + 1)))
        return 0;
    memcpy(code.selected.data, data, size);
    code.selected.data[size] = 0;
    code.selected.size = size;
    bool open = elf_open(code.selected.data, size, &elf) == KG_OK;
    unsigned found = 0;
    for (uint32_t i = 0; open && i < elf.symbol_count && found < ENTRIES; i++) {
        if (!elf_symbol_at(&elf, i, &symbol) || !symbol.entry)
            continue;
        found++;
        kg_status status = kernel_model_make(&code, symbol.name, &first);
        if (status != kernel_model_make(&code, symbol.name, &second) ||
            (status == KG_OK && !id_equal(&first.id, &second.id)))
            abort();
        kernel_model_free(&first);
        kernel_model_free(&second);
    }
    image_code_free(&code);
    return 0;
}
