/* What the fuzzers of the PTX library share: a text that begins like PTX around the fuzzer's bytes,
 * so that it gets past the head, and the model of its entry `k`. */
#ifndef FUZZ_PTX_TEXT_H
#define FUZZ_PTX_TEXT_H

#include "code/code.h"

#include <stdlib.h>
#include <string.h>

#define PTX_TEXT_HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"
enum { PTX_TEXT_HEAD_SIZE = sizeof PTX_TEXT_HEAD - 1 };

/* Ends with a 0; the caller frees it. */
static inline char *ptx_text(const uint8_t *data, size_t size)
{
    char *text = malloc(PTX_TEXT_HEAD_SIZE + size + 1);
    if (!text)
        abort();
    memcpy(text, PTX_TEXT_HEAD, PTX_TEXT_HEAD_SIZE);
    if (size)
        memcpy(text + PTX_TEXT_HEAD_SIZE, data, size);
    text[PTX_TEXT_HEAD_SIZE + size] = 0;
    return text;
}

/* Calls `use` with the model of the entry, if there is one that may be tuned. */
static inline void ptx_text_model(const char *text, uint64_t seed,
                                  void (*use)(const char *text, const struct kernel_model *model,
                                              uint64_t seed))
{
    struct image_code code;
    struct kernel_model model;
    if (image_select(text, 0, "sm_90", true, &code) != KG_OK)
        abort();
    if (kernel_model_make(&code, "k", &model) == KG_OK && !model.ineligible)
        use(text, &model, seed);
    kernel_model_free(&model);
    image_code_free(&code);
}

#endif
