/* Gate layout: the variant gives the original's result also where its buffers stand at other
 * addresses, with other distances, and no better aligned than the guard asks for. Catches variants
 * that know their buffers' addresses or distances, keep answers by them, or load wider than the
 * pointers are aligned (rows 9, 26 and 34; danger 19). With KGENRT_GUARD_PAGES=1, further layouts
 * have an unmapped page behind, then before each buffer, as near as its alignment allows.
 *
 * The original must give its result there first. If it does not, its result depends on addresses
 * (it finds pointers in memory that nobody knows of, say): the layout is skipped and the evidence
 * says so; what the variant is then used for is no more than before. */
#include "tune/gates/gates.h"

#include <stdio.h>

static const struct {
    const char *name;
    bool guard;
} layouts[] = {[LAYOUT_ELSEWHERE] = {"elsewhere", false},
               [LAYOUT_AT_END] = {"end_at_unmapped_page", true},
               [LAYOUT_AT_START] = {"start_at_unmapped_page", true}};

/* Whether the original's result is the same here. */
static kg_status original_stands(struct trial *trial, uint64_t seed, bool *same)
{
    struct replay_memory *memory = trial->memory;
    size_t at;
    memory_state(memory, seed, false, memory->work);
    kg_status status = trial_launch(trial, ORIGINAL, memory->work, memory->other);
    if (status != KG_OK)
        return because(trial, KG_NOT_ELIGIBLE,
                       "the original does not run where its buffers stand at other addresses: %s",
                       trial->device->error);
    memory_expected(memory, seed, memory->work);
    *same = !images_differ(memory, memory->work, memory->other, EVERYWHERE, EVERYWHERE, &at);
    return KG_OK;
}

static kg_status judge(struct trial *trial, enum layout layout, const char **word)
{
    struct replay_memory *memory = trial->memory;
    uint64_t seed = random_word(trial->seeds[3], 500 + layout) & ~UINT64_C(1);
    bool same = false;
    char text[512];
    size_t at;
    kg_status status = original_stands(trial, seed, &same);
    *word = status != KG_OK ? "original failed" : "skipped: the original depends on addresses";
    if (status != KG_OK || !same)
        return status;
    *word = "refused";
    memory_state(memory, seed, false, memory->work);
    if (trial_launch(trial, VARIANT, memory->work, memory->other) != KG_OK)
        return because(trial, KG_REFUSED, "with its buffers at other addresses (%s) it failed: %s",
                       layouts[layout].name, trial->device->error);
    memory_expected(memory, seed, memory->work);
    if (!same_memory(trial, memory->other, memory->work, &at)) {
        difference_text(memory, memory->other, memory->work, &trial->accuracy, at, text,
                        sizeof text);
        return because(trial, KG_REFUSED,
                       "wrong result with its buffers at other addresses (%s), at %s",
                       layouts[layout].name, text);
    }
    *word = "same";
    return KG_OK;
}

kg_status gate_layout(struct trial *trial)
{
    struct replay_device *device = trial->device;
    json_t *saw = json_object();
    kg_status verdict = KG_OK;
    if (!device->relocate)
        verdict = because(trial, KG_REFUSED, "other layouts of memory are not to be had here");
    for (enum layout layout = LAYOUT_ELSEWHERE; layout <= LAYOUT_AT_START && verdict == KG_OK;
         layout++) {
        const char *word = "nothing to move";
        if (layouts[layout].guard && !trial->guard_pages)
            continue;
        kg_status status = device->relocate(device, layout);
        if (status == KG_OK)
            verdict = judge(trial, layout, &word);
        else if (status != KG_NOT_ELIGIBLE)
            verdict = because(trial, status, "buffers could not be put at other addresses: %s",
                              device->error);
        json_object_set_new(saw, layouts[layout].name, json_string(word));
    }
    if (verdict == KG_OK && device->relocate(device, LAYOUT_CAPTURED) != KG_OK)
        verdict = because(trial, KG_DRIVER, "buffers could not be put back: %s", device->error);
    trial_saw(trial, "layout", saw);
    return verdict;
}
