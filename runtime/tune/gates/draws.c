/* What gates vacuity and inputs share: states of memory with other inputs, and whether a side is
 * sound on them. */
#include "tune/gates/gates.h"

#include "code/instrument.h"

#include <stdio.h>

/* Branches backward of the original's threads on a draw: some times as many as on the captured
 * inputs. A draw on which it loops more (a sparse matrix's rows of any length) is not used, and
 * costs no more than this, whatever stands in a loop's bounds. */
enum { DRAW_FACTOR = 16, LEAST_DRAW = 1000 };

static uint64_t budget_on_draw(const struct trial *trial, enum side side)
{
    uint64_t own = (trial->observed.most + 1) * DRAW_FACTOR + LEAST_DRAW;
    if (side == VARIANT)
        return variant_budget(trial);
    return own < UINT32_MAX ? own : UINT32_MAX - 1;
}

bool draw_unsound(struct trial *trial, enum side side, const struct drawn *drawn,
                  char why[static 320])
{
    const unsigned whats[] = {INSTRUMENT_CHECK, INSTRUMENT_RACES};
    unsigned count = !(drawn->roles & ROLES_RISK) ? 0 : drawn->roles & ROLES_INDEX ? 2 : 1;
    for (unsigned i = 0; i < count; i++) {
        struct replay_observed seen = {0};
        if (!trial->device->observe) {
            snprintf(why, 320, "there is no instrumented run on this device");
            return true;
        }
        kg_status status = trial_observe(trial, side, whats[i], budget_on_draw(trial, side),
                                         trial->memory->work, NULL, NULL, &seen);
        if (status == KG_OK && !seen.offences && !seen.races)
            continue;
        snprintf(why, 320, "%s", status == KG_OK ? seen.first : trial->device->error);
        return true;
    }
    return false;
}

void draw_state(struct trial *trial, unsigned number, unsigned turn, unsigned level, uint64_t seed,
                struct drawn *drawn, const char **text)
{
    struct replay_memory *memory = trial->memory;
    memory_state(memory, seed & ~UINT64_C(1), false, memory->work);
    if (number < draw_row_count) {
        *text = draw_rows[number].text;
        *drawn = draw_fill(memory, &draw_rows[number], turn, level, seed, memory->work);
        return;
    }
    *text = "captured at another time";
    memory_other(memory, number - draw_row_count, memory->other);
    *drawn = (struct drawn){0};
    /* but for red zones, and outputs that hold anything */
    const struct where stays[] = {OUTSIDE(memory->written), OUTSIDE(memory->poisoned)};
    for (unsigned i = 0; i < 2; i++) {
        size_t at;
        drawn->changed |= images_differ(memory, memory->other, memory->work, OUTSIDE(memory->slack),
                                        stays[i], &at) != 0;
        images_mix(memory, memory->work, memory->other, OUTSIDE(memory->slack), stays[i],
                   memory->work);
    }
}
