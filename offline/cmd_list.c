/* kgenrt list: the variants in the cache. */
#include "cli.h"

#include <string.h>

static bool wanted(const json_t *variant, const char *kernel, const char *maker)
{
    struct kg_id id = {{0}};
    (void)id_parse(member_text(variant, "kernel"), &id); /* ours: it parses */
    return (!kernel || name_matches(kernel, member_text(variant, "name"), &id)) &&
           (!maker || !strcmp(maker, member_text(variant, "maker")));
}

static void print(const json_t *result)
{
    const char *state = member_text(result, "store");
    const json_t *variant;
    size_t i;
    if (!strcmp(state, "none"))
        say("No variants: nothing was tuned in %s yet.\n", member_text(result, "cache"));
    else if (!json_array_size(json_object_get(result, "variants")) && !strcmp(state, "ok"))
        say("No variants%s; 'kgenrt status' says what was refused and why.\n",
            json_is_true(json_object_get(result, "filtered")) ? " that match" : "");
    else if (json_array_size(json_object_get(result, "variants")))
        say("%-12s  %-4s %-9s %-20s %-9s %-22s %s\n", "VARIANT", "BEST", "MAKER", "TIMES AS FAST",
            "ACCURACY", "DEVICE", "KERNEL");
    json_array_foreach(json_object_get(result, "variants"), i, variant)
    {
        char range[SHORT_TEXT];
        snprintf(range, sizeof range, "%.2f [%.2f, %.2f]", member_number(variant, "ratio"),
                 member_number(variant, "low"), member_number(variant, "high"));
        say("%.12s  %-4s %-9s %-20s %-9s %-22s %s\n", member_text(variant, "id"),
            json_is_true(json_object_get(variant, "best")) ? "yes" : "-",
            member_text(variant, "maker"), range, member_text(variant, "accuracy"),
            member_text(variant, "device"), member_text(variant, "readable"));
    }
}

static int run(const struct arguments *arguments)
{
    json_t *stored = stored_read(cache_dir()), *variants = json_array(), *variant;
    size_t i;
    json_array_foreach(json_object_get(stored, "variants"), i, variant)
    {
        if (wanted(variant, argument(arguments, "kernel"), argument(arguments, "maker")))
            json_array_append(variants, variant);
    }
    const char *state = member_text(stored, "store");
    int code = json_array_size(variants) ? EXIT_GOOD : EXIT_NOTHING;
    if (strcmp(state, "ok") && strcmp(state, "none"))
        code = failed("%s/store: %s", cache_dir(), state);
    json_t *result = json_pack(
        "{s:s, s:s, s:b, s:o}", "cache", cache_dir(), "store", state, "filtered",
        argument(arguments, "kernel") || argument(arguments, "maker"), "variants", variants);
    json_decref(stored);
    return output(arguments, result, print, code);
}

static const struct cli_option own_options[] = {
    {"kernel", 'k', "NAME", "only of kernels with this in their name, or an id that begins so"},
    {"maker", 'M', "MAKER", "only of this maker: rules, openai, recorded"},
    {NULL, 0, NULL, NULL},
};

const struct command cmd_list = {
    .name = "list",
    .synopsis = "list [OPTION...]",
    .summary = "list the variants in the cache",
    .description =
        "One line a variant: the beginning of its id, whether it is the best for its kernel, "
        "hardware and launch (what programs get), who made it, how many times as fast as the "
        "original it was in the replay with the 95% interval, under which accuracy it was "
        "verified, on which device, and the kernel. 'kgenrt show' tells all about one.",
    .options = own_options,
    .examples = " kgenrt list --kernel softmax\n"
                " kgenrt list --maker rules --json",
    .run = run,
};
