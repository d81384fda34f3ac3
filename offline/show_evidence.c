/* kgenrt show --evidence: all that a verdict rests on, gate by gate, for one who does not believe
 * it. The numbers are the replay child's (runtime/tune/EVIDENCE.md has every field); nothing is
 * worked out here. What gates saw is printed as it is, whoever wrote it: units stand in the keys.
 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

enum { WIDTH = 96 };

static bool ends(const char *key, const char *unit)
{
    size_t a = strlen(key), b = strlen(unit);
    return a > b && !strcmp(key + a - b, unit);
}

/* A value that is no object or array, as text. */
static void plain_text(const char *key, const json_t *value, char *out, size_t size)
{
    char time[SHORT_TEXT];
    if (json_is_string(value))
        snprintf(out, size, "%s", json_string_value(value));
    else if (json_is_number(value) && ends(key, "_ns"))
        snprintf(out, size, "%s", duration_text(json_number_value(value), time));
    else if (json_is_integer(value))
        snprintf(out, size, "%lld", (long long)json_integer_value(value));
    else if (json_is_number(value))
        snprintf(out, size, "%.6g", json_number_value(value));
    else
        snprintf(out, size, "%s", json_is_true(value) ? "yes" : json_is_false(value) ? "no" : "-");
}

static bool is_plain(const json_t *value)
{
    return !json_is_object(value) && !json_is_array(value);
}

static bool all_plain(const json_t *value)
{
    const json_t *item;
    const char *key;
    size_t i;
    json_object_foreach((json_t *)value, key, item)
    {
        if (!is_plain(item))
            return false;
    }
    json_array_foreach(value, i, item)
    {
        if (!is_plain(item))
            return false;
    }
    return true;
}

static void print_value(const char *key, const json_t *value, int depth);

/* Members of an object or array of plain values, broken at WIDTH. */
static void print_line(const json_t *value, int indent)
{
    const json_t *item;
    const char *key;
    size_t i;
    int column = 0;
    char text[600], word[700];
#define WORD(...)                                                                                  \
    do {                                                                                           \
        int length = snprintf(word, sizeof word, __VA_ARGS__);                                     \
        if (column && column + length + indent > WIDTH) {                                          \
            say("\n%*s", indent, "");                                                              \
            column = 0;                                                                            \
        }                                                                                          \
        say("%s%s", column ? ", " : "", word);                                                     \
        column += length + 2;                                                                      \
    } while (0)
    json_object_foreach((json_t *)value, key, item)
    {
        plain_text(key, item, text, sizeof text);
        WORD("%s %s", key, text);
    }
    json_array_foreach(value, i, item)
    {
        plain_text("", item, text, sizeof text);
        WORD("%s", text);
    }
#undef WORD
    say("\n");
}

static void print_members(const json_t *value, int depth)
{
    const json_t *item;
    const char *key;
    size_t i;
    json_object_foreach((json_t *)value, key, item)
    {
        print_value(key, item, depth);
    }
    json_array_foreach(value, i, item)
    {
        print_value("-", item, depth);
    }
}

static void print_value(const char *key, const json_t *value, int depth)
{
    char text[1200];
    int indent = 4 + 2 * depth;
    if (is_plain(value)) {
        plain_text(key, value, text, sizeof text);
        say("%*s%s: %s\n", indent, "", key, text);
        return;
    }
    bool list = !strcmp(key, "-");
    say("%*s%s%s", indent, "", key, list ? " " : ": ");
    if (all_plain(value)) {
        print_line(value, indent + 2);
        return;
    }
    say("\n");
    print_members(value, depth + 1);
}

static void row(const char *title, const char *text)
{
    if (*text)
        say("  %-14s %s\n", title, text);
}

static void print_gate(const json_t *evidence, const json_t *gate)
{
    const char *name = member_text(gate, "name");
    const json_t *saw = json_object_get(json_object_get(evidence, "saw"), name);
    char time[SHORT_TEXT];
    say("\n  %-14s %-7s %8s   %s\n", name,
        json_is_true(json_object_get(gate, "passed")) ? "passed" : "REFUSED",
        duration_text(member_number(gate, "ms") * 1e6, time), gate_text(name));
    print_members(saw, 0);
}

static void print_timing(const json_t *evidence, const char *caches)
{
    const json_t *timing = json_object_get(evidence, caches);
    char from[SHORT_TEXT], to[SHORT_TEXT];
    if (!timing)
        return;
    bool chosen = !strcmp(member_text(evidence, "chosen"), caches);
    say("\n  %s caches%s\n    %s to %s, %.4f times as fast, 95%% interval [%.4f, %.4f]\n    ",
        caches, chosen ? " (the verdict rests on it)" : "",
        duration_text(member_number(timing, "original_ns"), from),
        duration_text(member_number(timing, "variant_ns"), to), member_number(timing, "ratio"),
        member_number(timing, "low"), member_number(timing, "high"));
    print_line(timing, 4);
}

static void print_side(const json_t *evidence, const char *side)
{
    const json_t *one = json_object_get(evidence, side), *launch = json_object_get(one, "launch");
    if (!one)
        return;
    say("  %-14s code %s\n", side, member_text(one, "code"));
    say("  %-14s %.0f registers, %.0f bytes local, %.0f static shared\n", "",
        member_number(one, "registers"), member_number(one, "local_bytes"),
        member_number(one, "static_shared"));
    if (launch) {
        char *text = json_dumps(launch, JSON_COMPACT);
        say("  %-14s launched as %s\n", "", text ? text : "");
        free(text);
    }
}

static void print_head(const json_t *record, const json_t *evidence)
{
    char when[SHORT_TEXT];
    json_t *seeds = json_object_get(evidence, "seeds");
    const json_t *others = json_object_get(evidence, "others");
    say("  %-14s %s (%s)\n", "of kernel", member_text(record, "readable"),
        member_text(evidence, "kernel"));
    row("signature", member_text(evidence, "signature"));
    int driver = (int)member_number(evidence, "driver"),
        compiler = (int)member_number(evidence, "compiler");
    say("  %-14s %s %s %s, driver for CUDA %d.%d, compiler %d.%d\n", "checked on",
        member_text(evidence, "device"), member_text(evidence, "arch"),
        member_text(evidence, "uuid"), driver / 1000, driver % 1000 / 10, compiler / 1000,
        compiler % 1000 / 10);
    say("  %-14s kgenrt %s at %s\n", "by", member_text(evidence, "kgenrt"),
        date_text(member_number(evidence, "time"), when));
    row("  program", member_text(evidence, "harness"));
    row("  instruments", member_text(evidence, "instrument"));
    row("capture", member_text(evidence, "capture"));
    for (size_t i = 0; i < json_array_size(others); i++)
        row("  another time", json_string_value(json_array_get(others, i)));
    row("inputs", member_text(evidence, "inputs"));
    row("result", member_text(evidence, "result"));
    say("  %-14s", "seeds");
    for (size_t i = 0; i < json_array_size(seeds); i++)
        say(" %s", json_string_value(json_array_get(seeds, i)));
    say("\n  %-14s %s: %s; %.0f bytes written by the original, of %.0f in the replay\n", "accuracy",
        member_text(evidence, "accuracy"), member_text(evidence, "comparison"),
        member_number(evidence, "written_bytes"), member_number(evidence, "memory_bytes"));
    say("  %-14s %.0f of the written bytes held random values before each launch; %.0f further "
        "launches gave equal results\n",
        "", member_number(evidence, "poisoned_bytes"), member_number(evidence, "repeats"));
    print_side(evidence, "original");
    print_side(evidence, "variant");
}

void evidence_print(const json_t *record, bool variant)
{
    const json_t *evidence = json_object_get(record, "evidence"), *gate;
    size_t i;
    if (variant)
        say("\nvariant %s by %s\n", member_text(record, "id"), member_text(record, "maker"));
    else
        say("\ncandidate by %s, refused by gate '%s': %s\n", member_text(record, "maker"),
            member_text(record, "gate"), member_text(record, "reason"));
    if (!json_is_object(evidence)) {
        say("  %-14s none is kept%s\n", "evidence", variant ? "" : ": it never met the GPU");
        return;
    }
    print_head(record, evidence);
    json_array_foreach(json_object_get(evidence, "gates"), i, gate)
    {
        print_gate(evidence, gate);
    }
    if (*member_text(evidence, "died_in"))
        say("\n  the replay ended in gate '%s'\n", member_text(evidence, "died_in"));
    print_timing(evidence, "cold");
    print_timing(evidence, "warm");
    if (variant)
        say("\n  Again, with other random numbers: kgenrt verify %.12s\n"
            "  Again, with the same ones:        kgenrt verify --seeds %.12s\n",
            member_text(record, "id"), member_text(record, "id"));
}
