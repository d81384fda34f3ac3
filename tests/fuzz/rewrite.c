/* Exact rewriting of any text that begins like PTX, with the entry `k` and made-up scalars: it
 * ends, and what it makes is PTX with the same entry and parameters. */
#include <stdlib.h>
#include <string.h>

#include "code/code.h"

static void rewrite(const char *text, const struct kernel_model *model, uint64_t value)
{
    struct kg_launch launch = {{3, 2, 1}, {64, 2, 1}, 0};
    struct kg_scalar scalars[64];
    struct kg_bytes out;
    struct ptx_facts facts;
    unsigned done[PASS_COUNT];
    char error[128];
    for (uint32_t i = 0; i < model->param_count; i++)
        scalars[i] = (struct kg_scalar){
            .param = (uint16_t)i,
            .size = (uint16_t)(model->params[i].size > 8 ? 8 : model->params[i].size),
            .value = value >> i};
    if (ptx_rewrite(text, model->entry, &launch, model->params, model->param_count, scalars,
                    model->param_count, &out, done) == KG_OK &&
        (ptx_facts_of((char *)out.data, &facts, error, sizeof error) != KG_OK ||
         facts.param_count != model->param_count || strcmp(facts.entry, model->entry)))
        abort();
    bytes_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char head[] = ".version 8.0\n.target sm_80\n.address_size 64\n";
    struct image_code code;
    struct kernel_model model;
    char *text = malloc(sizeof head + size);
    if (!text)
        return 0;
    memcpy(text, head, sizeof head - 1);
    memcpy(text + sizeof head - 1, data, size);
    text[sizeof head - 1 + size] = 0;
    if (image_select(text, 0, "sm_90", true, &code) != KG_OK)
        abort();
    if (kernel_model_make(&code, "k", &model) == KG_OK && !model.ineligible)
        rewrite(text, &model, size & 1 ? 0x3ff000003f800000 : size * 0x9e3779b97f4a7c15);
    kernel_model_free(&model);
    image_code_free(&code);
    free(text);
    return 0;
}
