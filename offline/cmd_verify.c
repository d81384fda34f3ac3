/* kgenrt verify: makes a stored verdict again, and says whether it comes out the same. */
#include "cli.h"

#include "tune/again.h"

#include <stdlib.h>
#include <string.h>

enum { CONFIRMED = 0, DENIED = 1, IMPOSSIBLE = 2 };
#define EXITS                                                                                      \
    " 0     every verdict was reproduced\n"                                                        \
    " 1     one was not: a gate refused, or inputs, result or gain were other ones\n"              \
    " 2     one could not be made again (its capture is not kept, another GPU, wrong use)\n"       \
    " 3     nothing was found that matches"

/* ---- which ones --------------------------------------------------------------------------------
 */

struct wanted {
    const char *what; /* NULL: all that programs get */
    size_t count;
    struct kg_bytes *records; /* a walk's records are the walker's only for the call */
    bool failed;
};

static void add(struct wanted *wanted, const struct kg_variant *variant)
{
    struct kg_bytes *more = realloc(wanted->records, (wanted->count + 1) * sizeof *wanted->records);
    if (more)
        wanted->records = more;
    if (!more || variant_pack(variant, &more[wanted->count]) != KG_OK)
        wanted->failed = true;
    else
        wanted->count++;
}

static bool begins(const struct kg_id *id, const char *what)
{
    char text[KG_ID_TEXT];
    return strlen(what) >= 4 && !strncmp(id_text(id, text), what, strlen(what));
}

static bool by_id(void *self, const struct kg_variant *variant, bool best)
{
    struct wanted *wanted = self;
    if (begins(&variant->id, wanted->what))
        add(wanted, variant);
    return !wanted->failed;
}

static bool by_kernel(void *self, const struct kg_variant *variant, bool best)
{
    struct wanted *wanted = self;
    if (best &&
        (!wanted->what || name_matches(wanted->what, variant->kernel_name, &variant->kernel)))
        add(wanted, variant);
    return !wanted->failed;
}

static void find(struct store *store, struct wanted *out)
{
    if (out->what)
        (void)store_each_variant(store, by_id, out); /* damage was said already */
    if (!out->count)
        (void)store_each_variant(store, by_kernel, out);
}

/* ---- one ---------------------------------------------------------------------------------------
 */

static const char *const words[] = {"reproduced", "not reproduced", "not possible"};

static void say_equal(const json_t *result, const char *key)
{
    const char *then = member_text(json_object_get(result, "stored"), key),
               *now = member_text(json_object_get(result, "evidence"), key);
    if (*then && *now)
        say("  %-14s %s%s%s\n", key, now, strcmp(then, now) ? ", then " : ", as then",
            strcmp(then, now) ? then : "");
}

static void say_gain(const json_t *result, const char *which, const char *when)
{
    const json_t *evidence = json_object_get(result, which),
                 *timing = json_object_get(evidence, member_text(evidence, "chosen"));
    if (timing)
        say("  %-14s %.3f times as fast [%.3f, %.3f], %s caches\n", when,
            member_number(timing, "ratio"), member_number(timing, "low"),
            member_number(timing, "high"), member_text(evidence, "chosen"));
}

static void print_one(const json_t *result)
{
    const json_t *gate;
    size_t i;
    char time[SHORT_TEXT];
    say("variant %.12s of %s by %s\n", member_text(result, "id"), member_text(result, "readable"),
        member_text(result, "maker"));
    json_array_foreach(json_object_get(json_object_get(result, "evidence"), "gates"), i, gate)
    {
        say("  %-14s %-7s %8s   %s\n", member_text(gate, "name"),
            json_is_true(json_object_get(gate, "passed")) ? "passed" : "REFUSED",
            duration_text(member_number(gate, "ms") * 1e6, time),
            gate_text(member_text(gate, "name")));
    }
    say_equal(result, "inputs");
    say_equal(result, "result");
    say_gain(result, "stored", "gain then");
    say_gain(result, "evidence", "gain now");
    say("  %s%s%s\n", member_text(result, "outcome"), *member_text(result, "reason") ? ": " : "",
        member_text(result, "reason"));
    if (json_is_true(json_object_get(result, "demoted")))
        say("  taken out of use\n");
}

static void print(const json_t *result)
{
    const json_t *item;
    size_t i;
    json_array_foreach(json_object_get(result, "variants"), i, item)
    {
        print_one(item);
    }
    say("%.0f reproduced, %.0f not reproduced, %.0f not possible\n",
        member_number(result, "reproduced"), member_number(result, "not_reproduced"),
        member_number(result, "not_possible"));
}

static bool demote(struct store *store, const struct kg_variant *variant, const char *reason)
{
    kg_status status = store_demote(store, &variant->id, reason);
    if (status == KG_OK)
        status = snapshot_make(store, cache_dir(), &variant->hardware);
    if (status != KG_OK)
        failed("it could not be taken out of use: %s", status_text(status));
    return status == KG_OK;
}

static json_t *verify_one(struct store *store, const struct arguments *arguments,
                          const struct kg_variant *variant, enum again *outcome)
{
    struct again_result got;
    char readable[512];
    verify_again(store, cache_dir(), variant, argument(arguments, "seeds"), &got);
    *outcome = got.outcome;
    bool gone = got.outcome == AGAIN_NOT_REPRODUCED && argument(arguments, "demote") &&
                demote(store, variant, got.reason);
    json_t *result = json_pack(
        "{s:o, s:o, s:o, s:o, s:s, s:o, s:b, s:o, s:o}", "id", json_id(&variant->id), "name",
        json_text(variant->kernel_name), "readable",
        json_text(name_readable(variant->kernel_name, readable, sizeof readable)), "maker",
        json_text(variant->maker), "outcome", words[got.outcome], "reason", json_text(got.reason),
        "demoted", gone, "evidence", got.evidence ? got.evidence : json_null(), "stored",
        got.stored ? got.stored : json_null());
    return result;
}

/* ---- the command -------------------------------------------------------------------------------
 */

static int verify_all(struct store *store, const struct arguments *arguments,
                      const struct wanted *wanted)
{
    json_t *list = json_array();
    json_int_t counts[3] = {0};
    for (size_t i = 0; i < wanted->count; i++) {
        struct kg_variant variant;
        enum again outcome;
        if (variant_parse(wanted->records[i].data, wanted->records[i].size, &variant) != KG_OK)
            continue; /* it was parsed a moment ago */
        if (wanted->count > 1)
            fprintf(stderr, "kgenrt: %zu of %zu, %s\n", i + 1, wanted->count, variant.kernel_name);
        json_array_append_new(list, verify_one(store, arguments, &variant, &outcome));
        counts[outcome]++;
        variant_free(&variant);
    }
    int code = counts[AGAIN_NOT_REPRODUCED] ? DENIED
               : counts[AGAIN_NOT_POSSIBLE] ? IMPOSSIBLE
                                            : CONFIRMED;
    return output(arguments,
                  json_pack("{s:o, s:I, s:I, s:I}", "variants", list, "reproduced", counts[0],
                            "not_reproduced", counts[1], "not_possible", counts[2]),
                  print, code);
}

static int run(const struct arguments *arguments)
{
    struct wanted wanted = {.what = arguments->count ? arguments->operands[0] : NULL};
    struct store *store;
    bool all = argument(arguments, "all") != NULL;
    if (all == (wanted.what != NULL))
        return wrong_use(arguments->command, "give a variant, a kernel, or --all");
    kg_status status = store_open(cache_dir(), !argument(arguments, "demote"), &store);
    if (status != KG_OK) {
        failed("%s/store: %s", cache_dir(), status_text(status));
        return status == KG_NOT_FOUND ? EXIT_NOTHING : IMPOSSIBLE;
    }
    find(store, &wanted);
    int code = EXIT_NOTHING;
    if (wanted.count)
        code = verify_all(store, arguments, &wanted);
    else
        failed("nothing in %s is called '%s': 'kgenrt list' shows what there is", cache_dir(),
               wanted.what ? wanted.what : "anything");
    for (size_t i = 0; i < wanted.count; i++)
        bytes_free(&wanted.records[i]);
    free(wanted.records);
    store_close(store);
    return code;
}

static const struct cli_option own_options[] = {
    {"all", 'a', NULL, "every variant that programs get"},
    {"demote", 'd', NULL, "take what is not reproduced out of use, as the worker would"},
    {"seeds", 's', NULL, "with the random numbers of the evidence, instead of fresh ones"},
    {NULL, 0, NULL, NULL},
};

const struct command cmd_verify = {
    .name = "verify",
    .synopsis = "verify [OPTION...] VARIANT|KERNEL\n"
                "       kgenrt verify --all [OPTION...]",
    .summary = "make the verdict on a variant again",
    .description =
        "VARIANT is the beginning of a variant's id, KERNEL a part of a kernel's name (the "
        "variants "
        "that programs get for it). Its code is taken from the store, the capture from the cache "
        "folder's captures/, and it goes through all gates and timing as when it was published. "
        "That is compared with the evidence of then ('kgenrt show --evidence'): digests of inputs "
        "and result must be equal, and the intervals of the gain must meet, give or take 5% for "
        "the day.\n"
        "\n"
        "Nothing is changed, unless --demote is given: then a variant that is not reproduced is "
        "taken out of use, for every program of this cache. A verdict that cannot be made here "
        "never takes one out of use.\n"
        "\n"
        "Captures of published variants are kept as KGENRT_KEPT_MIB says. The accuracy is that of "
        "then; a "
        "variant that was admitted by KGENRT_LOWER needs it again.",
    .options = own_options,
    .most = 1,
    .foreign_status = true,
    .exits = EXITS,
    .examples = " kgenrt verify 3fa9c01b\n"
                " kgenrt verify --seeds softmax\n"
                " kgenrt verify --all --demote --json",
    .run = run,
};
