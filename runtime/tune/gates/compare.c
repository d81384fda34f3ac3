/* Gate compare: the result is the original's, bit for bit or within the accuracy asked for. */
#include "tune/gates/gates.h"

kg_status gate_compare(struct trial *trial)
{
    struct replay_memory *memory = trial->memory;
    char text[512];
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

/* Equal where the original writes, within accuracy; else bit for bit. `at`: the first offence. */
bool same_memory(const struct trial *trial, const unsigned char *got, const unsigned char *expected,
                 size_t *at)
{
    const struct replay_memory *memory = trial->memory;
    if (!results_equal(memory, got, expected, &trial->accuracy, at))
        return false;
    size_t from = 0;
    while ((*at = first_difference(got, expected, NULL, from, memory->total)) < memory->total) {
        if (!memory->written[*at])
            return false;
        from = *at + 1;
    }
    return true;
}
