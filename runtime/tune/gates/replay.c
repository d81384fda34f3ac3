/* Gate replay: the original runs here, gives the same three times whatever stands in the red zones,
 * and touches nothing that was not captured. Catches captures that are not the whole story (an
 * original that reads what was not captured), replays that are not what the app does (the app's own
 * result, which the capture holds, must come out), and originals whose results vary: these are
 * left alone. Catalogue row 20; dangers 20. */
#include "tune/gates/gates.h"

/* The result that the app's own launch left, which the capture must hold, is the replay's, bit for
 * bit. Another stream of the app may have written there in between: also then the kernel is left
 * alone, since nobody knows. */
static kg_status same_as_app(struct trial *trial)
{
    const struct replay_memory *memory = trial->memory;
    const struct kg_capture *capture = memory->capture;
    uint64_t compared = 0;
    char place[160];
    for (uint32_t i = 0; i < capture->region_count; i++) {
        const struct capture_region *region = &capture->regions[i];
        size_t at, size = (size_t)region->size;
        if (!region->after)
            continue;
        if (!memory_region(memory, i, &at))
            return because(trial, KG_NOT_ELIGIBLE, "variable %.100s is not to be found in a replay",
                           region->name);
        size_t wrong = first_difference(memory->result + at, region->after, NULL, 0, size);
        if (wrong < size)
            return because(trial, KG_NOT_ELIGIBLE,
                           "the replay is not faithful: the app's own launch left another result "
                           "at %s",
                           memory_place(memory, at + wrong, place, sizeof place));
        compared += size;
    }
    if (!compared && !trial->only_original)
        return because(trial, KG_NOT_ELIGIBLE,
                       "unverifiable: the capture does not hold what the app's own launch left");
    trial_saw(trial, "replay",
              json_pack("{sI si}", "app_result_bytes", (json_int_t)compared, "other_captures",
                        (int)memory->other_count));
    return KG_OK;
}

kg_status gate_replay(struct trial *trial)
{
    struct replay_memory *memory = trial->memory;
    char place[160];
    for (unsigned run = 0; run < 3; run++) {
        unsigned char *out = run ? memory->other : memory->result;
        memory_state(memory, trial->seeds[0] + run, false, memory->work);
        if (trial_launch(trial, ORIGINAL, memory->work, out) != KG_OK)
            return because(trial, KG_NOT_ELIGIBLE, "the original does not run in a replay: %s",
                           trial->device->error);
        size_t at;
        if (images_differ(memory, memory->work, out, INSIDE(memory->slack), EVERYWHERE, &at))
            return because(trial, KG_NOT_ELIGIBLE,
                           "the original writes memory that was not captured: %s",
                           memory_place(memory, at, place, sizeof place));
        /* zeros there as in pristine, so that images compare */
        images_mix(memory, out, NULL, INSIDE(memory->slack), EVERYWHERE, out);
        if (images_differ(memory, memory->result, out, EVERYWHERE, EVERYWHERE, &at))
            return because(trial, KG_NOT_ELIGIBLE,
                           "the original's results vary from run to run, or depend on memory that "
                           "was not captured: first at %s",
                           memory_place(memory, at, place, sizeof place));
    }
    return same_as_app(trial);
}
