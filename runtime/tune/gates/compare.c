/* Gate compare: the result is the original's, bit for bit or within the accuracy asked for. */
#include "tune/gates/gates.h"

kg_status gate_compare(struct trial *trial)
{
    struct replay_memory *memory = trial->memory;
    char text[512];
    memory->inexact = &trial->inexact;
    for (unsigned run = 0; run < 2; run++) {
        const unsigned char *got = run ? memory->other : memory->first;
        size_t at;
        memory_expected(memory, trial->seeds[1 + run], memory->work);
        if (results_equal(memory, got, memory->work, &trial->accuracy, &at))
            continue;
        difference_text(memory, got, memory->work, &trial->accuracy, at, text, sizeof text);
        return because(trial, KG_REFUSED, "wrong result at %s", text);
    }
    return KG_OK;
}

bool same_memory_as(const struct replay_memory *memory, const unsigned char *got,
                    const unsigned char *expected, const struct accuracy *accuracy, size_t *at)
{
    if (!images_differ(memory, got, expected, EVERYWHERE, EVERYWHERE, at))
        return true;
    if (!results_equal(memory, got, expected, accuracy, at))
        return false;
    return !images_differ(memory, got, expected, OUTSIDE(memory->written), EVERYWHERE, at);
}

bool same_memory(const struct trial *trial, const unsigned char *got, const unsigned char *expected,
                 size_t *at)
{
    return same_memory_as(trial->memory, got, expected, &trial->accuracy, at);
}
