/* Exact rewriting of any text that begins like PTX, with the entry `k` and made-up scalars: it
 * ends, and what it makes is PTX with the same entry and parameters. */
#include "ptx_text.h"

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
    char *text = ptx_text(data, size);
    ptx_text_model(text, size & 1 ? 0x3ff000003f800000 : size * 0x9e3779b97f4a7c15, rewrite);
    free(text);
    return 0;
}
