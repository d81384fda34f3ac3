/* Kernel models, facts and specialisation of any text that begins like PTX. The entry asked for is
 * `k`. */
#include <stdlib.h>
#include <string.h>

#include "code/code.h"

static void specialise(const char *text, const struct kernel_model *model)
{
    struct kg_launch launch = {{3, 2, 1}, {64, 2, 1}, 0};
    struct kg_scalar scalars[64];
    struct kg_bytes out;
    unsigned replaced;
    for (uint32_t i = 0; i < model->param_count; i++)
        scalars[i] = (struct kg_scalar){
            .param = (uint16_t)i, .size = (uint16_t)(model->params[i].size & 7), .value = 0x8001};
    if (ptx_specialise(text, model->entry, &launch, model->params, model->param_count, scalars,
                       model->param_count, &out, &replaced) == KG_OK &&
        (!replaced || !out.data))
        abort();
    bytes_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char head[] = ".version 8.0\n.target sm_80\n.address_size 64\n";
    struct image_code code;
    struct kernel_model model;
    struct ptx_facts facts;
    char error[128], *text = malloc(sizeof head + size);
    if (!text)
        return 0;
    memcpy(text, head, sizeof head - 1);
    memcpy(text + sizeof head - 1, data, size);
    text[sizeof head - 1 + size] = 0;
    if (image_select(text, 0, "sm_90", true, &code) != KG_OK)
        abort();
    if (kernel_model_make(&code, "k", &model) == KG_OK && !model.ineligible)
        specialise(text, &model);
    kernel_model_free(&model);
    image_code_free(&code);
    ptx_facts_of(text, &facts, error, sizeof error);
    free(text);
    return 0;
}
