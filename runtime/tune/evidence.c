/* Evidence: what a replay child writes down about a verdict, for one who does not believe it.
 * EVIDENCE.md says what each field means, in which unit. The gates add what they saw by trial_saw;
 * nothing here decides anything. */
#include "tune/gates/gates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_digest(const struct trial *trial, const char *name, const unsigned char *image)
{
    struct kg_id id;
    char text[KG_ID_TEXT];
    memory_digest(trial->memory, image, &id);
    json_object_set_new(trial->evidence, name, json_string(id_text(&id, text)));
}

/* What is known before the first gate goes to the parent at once: a variant that kills this process
 * leaves it as its evidence. */
static void tell(struct trial *trial)
{
    char *text = json_dumps(trial->evidence, JSON_COMPACT);
    if (!text || !write_all(trial->lines, "evidence ", 9) ||
        !write_all(trial->lines, text, strlen(text)) || !write_all(trial->lines, "\n", 1))
        log_line(KG_INFO, "the evidence so far could not be told");
    free(text);
}

void evidence_begin(struct trial *trial)
{
    const struct replay_memory *memory = trial->memory;
    json_t *seeds = json_array();
    char text[20];
    if (!trial->evidence)
        trial->evidence = json_object();
    for (unsigned i = 0; i < sizeof trial->seeds / sizeof *trial->seeds; i++) {
        snprintf(text, sizeof text, "%016llx", (unsigned long long)trial->seeds[i]);
        json_array_append_new(seeds, json_string(text));
    }
    json_object_set_new(trial->evidence, "seeds", seeds);
    put_digest(trial, "inputs", memory->pristine);
    json_object_set_new(trial->evidence, "memory_bytes", json_integer((json_int_t)memory->total));
    json_object_set_new(trial->evidence, "gates", json_array());
    tell(trial);
}

void evidence_gate(struct trial *trial, const char *gate, bool passed, double ns)
{
    json_t *entry = json_pack("{ss sf sb}", "name", gate, "ms", ns * 1e-6, "passed", passed);
    json_array_append_new(json_object_get(trial->evidence, "gates"), entry);
}

static void put_comparison(struct trial *trial)
{
    static const char *const modes[] = {"bitwise", "auto", "ulp", "rel"};
    const struct inexact *inexact = &trial->inexact;
    const char *mode = modes[trial->accuracy.mode];
    char place[160];
    json_t *text =
        trial->accuracy.mode == ACCURACY_BITWISE ? json_string(mode)
        : !inexact->elements
            ? json_sprintf("%s; every result equal bit for bit", mode)
            : json_sprintf("%s; %llu results differ, by at most %.3g ulp (%.3g of what is allowed "
                           "there) at %s",
                           mode, (unsigned long long)inexact->elements, inexact->ulps,
                           inexact->of_bound,
                           memory_place(trial->memory, inexact->at, place, sizeof place));
    json_object_set_new(trial->evidence, "comparison", text);
}

static void put_timing(struct trial *trial, const char *name, const struct timing *timing)
{
    if (!timing->pairs)
        return;
    json_object_set_new(trial->evidence, name,
                        json_pack("{sf sf sf sf sf si si si}", "original_ns", timing->original_ns,
                                  "variant_ns", timing->variant_ns, "ratio", timing->ratio, "low",
                                  timing->low, "high", timing->high, "pairs", (int)timing->pairs,
                                  "dropped", (int)timing->dropped, "batch", (int)timing->batch));
}

void evidence_end(struct trial *trial, kg_status status, const char *gate)
{
    const struct replay_memory *memory = trial->memory;
    json_t *evidence = trial->evidence;
    json_object_set_new(evidence, "gate", json_string(gate ? gate : ""));
    json_object_set_new(evidence, "reason", json_string(status == KG_OK ? "" : trial->reason));
    put_digest(trial, "result", memory->result);
    if (!trial->only_original) {
        json_object_set_new(evidence, "written_bytes",
                            json_integer((json_int_t)trial->written_bytes));
        json_object_set_new(evidence, "poisoned_bytes",
                            json_integer((json_int_t)trial->poisoned_bytes));
        json_object_set_new(evidence, "repeats", json_integer(trial->repeated));
    }
    put_comparison(trial);
    put_timing(trial, "cold", &trial->cold);
    put_timing(trial, "warm", &trial->warm);
    if (trial->chosen)
        json_object_set_new(evidence, "chosen",
                            json_string(trial->chosen == &trial->cold ? "cold" : "warm"));
}
