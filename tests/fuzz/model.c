/* Kernel models, facts and specialisation of any text that begins like PTX. The entry asked for is
 * `k`. */
#include "code/passes.h"

#include "ptx_text.h"

static void specialise(const char *text, const struct kernel_model *model, uint64_t value)
{
    struct kg_launch launch = {{3, 2, 1}, {64, 2, 1}, 0};
    struct kg_scalar scalars[64];
    struct kg_bytes out;
    unsigned done[PASS_COUNT];
    for (uint32_t i = 0; i < model->param_count; i++)
        scalars[i] = (struct kg_scalar){
            .param = (uint16_t)i, .size = (uint16_t)(model->params[i].size & 7), .value = value};
    if (ptx_specialise(text, model->entry, &launch, model->params, model->param_count, scalars,
                       model->param_count, &out, done) == KG_OK &&
        !out.data)
        abort();
    bytes_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ptx_facts facts;
    char error[128], *text = ptx_text(data, size);
    ptx_text_model(text, 0x8001, specialise);
    ptx_facts_of(text, &facts, error, sizeof error);
    free(text);
    return 0;
}
