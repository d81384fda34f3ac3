/* kgenrt show: all about one kernel, variant or capture. */
#include "cli.h"

#include "capture.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

enum { MOST_LINES = 40 }; /* of a refused candidate */
enum { MOST_GUARD = 12 }; /* scalars of a guard that are listed */

/* Every gate in order, for those who ask why a candidate was refused. */
#define GATES(GATE)                                                                                \
    GATE("reply", "the model's reply has the form that was asked for, and is new")                 \
    GATE("compile", "the candidate compiles for this very architecture")                           \
    GATE("admission", "its code uses nothing that the original's does not, and fits")              \
    GATE("replay", "the original runs again, alone, with the same result each time")               \
    GATE("observed", "with instruments: what the original reads and writes, without conflicts")    \
    GATE("vacuity", "doing nothing, zeros, a constant or a copy would not pass the comparison")    \
    GATE("bounds", "what its PTX alone proves of its accesses")                                    \
    GATE("instrumented",                                                                           \
         "it reads, writes and turns only as the original does, without conflicts")                \
    GATE("fault", "the variant's launch does not fail")                                            \
    GATE("deadline", "it ends in time")                                                            \
    GATE("poison", "its result does not depend on what stood in the outputs before")               \
    GATE("memory", "it writes nothing that the original leaves alone")                             \
    GATE("compare", "its result is the original's")                                                \
    GATE("repeat", "equal inputs give equal results, every time")                                  \
    GATE("layout", "its result does not depend on where its buffers stand")                        \
    GATE("stale", "nor on old results, right ones or wrong ones, in the outputs")                  \
    GATE("scalars", "scalars that a launch may change are honoured at any value")                  \
    GATE("inputs", "drawn inputs, and those of other times, give the original's result too")       \
    GATE("time", "it is measurably faster: cold and warm caches, interleaved launches")            \
    GATE("timed", "the launches that were timed gave the right result too")                        \
    GATE("doubt", "after all gates: a program saw it differ, and no replay has since")

static const struct {
    const char *name, *text;
} gates[] = {
#define GATE(name, text) {name, text},
    GATES(GATE)
#undef GATE
};

const char *gate_text(const char *name)
{
    for (unsigned i = 0; i < sizeof gates / sizeof *gates; i++)
        if (!strcmp(gates[i].name, name))
            return gates[i].text;
    return "";
}

/* ---- variants and kernels -------------------------------------------------------------------- */

json_t *blob_text(struct store *store, const json_t *id)
{
    struct kg_id blob;
    struct kg_bytes bytes;
    if (!json_is_string(id) || id_parse(json_string_value(id), &blob) != KG_OK ||
        store_get_blob(store, &blob, &bytes) != KG_OK)
        return json_null();
    json_t *text = json_text((const char *)bytes.data);
    bytes_free(&bytes);
    return text;
}

/* A blob that is JSON, or null where there is none. */
static json_t *blob_json(struct store *store, const json_t *id)
{
    struct kg_id blob;
    struct kg_bytes bytes;
    if (!json_is_string(id) || id_parse(json_string_value(id), &blob) != KG_OK ||
        store_get_blob(store, &blob, &bytes) != KG_OK)
        return json_null();
    json_t *json = json_loadb((const char *)bytes.data, bytes.size, 0, NULL);
    bytes_free(&bytes);
    return json ? json : json_null();
}

/* Adds what stands in blobs: evidence, sources. */
static void complete(json_t *result)
{
    struct store *store;
    json_t *item;
    size_t i;
    if (store_open(cache_dir(), true, &store) != KG_OK)
        return;
    json_array_foreach(json_object_get(result, "variants"), i, item)
    {
        json_object_set_new(item, "evidence", blob_json(store, json_object_get(item, "evidence")));
        json_object_set_new(item, "source_text", blob_text(store, json_object_get(item, "source")));
        json_object_set_new(item, "ptx_text", blob_text(store, json_object_get(item, "ptx")));
    }
    json_array_foreach(json_object_get(result, "rejections"), i, item)
    {
        json_object_set_new(item, "source_text",
                            blob_text(store, json_object_get(item, "candidate")));
        json_object_set_new(item, "evidence", blob_json(store, json_object_get(item, "evidence")));
    }
    store_close(store);
}

json_t *matching(const json_t *stored, const char *list, const char *id_key, const char *what)
{
    json_t *out = json_array(), *item;
    size_t i;
    json_array_foreach(json_object_get(stored, list), i, item)
    {
        struct kg_id id = {{0}};
        (void)id_parse(member_text(item, id_key), &id); /* ours: it parses */
        if (name_matches(what, member_text(item, "name"), &id))
            json_array_append(out, item);
    }
    return out;
}

/* A variant by the beginning of its id. */
static json_t *variant_by_id(const json_t *stored, const char *what)
{
    json_t *out = json_array(), *item;
    size_t i;
    json_array_foreach(json_object_get(stored, "variants"), i, item)
    {
        if (strlen(what) >= 4 && !strncmp(member_text(item, "id"), what, strlen(what)))
            json_array_append(out, item);
    }
    return out;
}

static json_t *find(const json_t *stored, const char *what)
{
    json_t *variants = variant_by_id(stored, what);
    if (json_array_size(variants))
        return json_pack("{s:s, s:o}", "kind", "variant", "variants", variants);
    json_decref(variants);
    return json_pack("{s:s, s:o, s:o, s:o, s:o}", "kind", "kernel", "kernels",
                     matching(stored, "kernels", "id", what), "variants",
                     matching(stored, "variants", "kernel", what), "rejections",
                     matching(stored, "rejections", "kernel", what), "jobs",
                     matching(stored, "jobs", "kernel", what));
}

static size_t size_of(const json_t *result, const char *list)
{
    return json_array_size(json_object_get(result, list));
}

/* ---- text ------------------------------------------------------------------------------------ */

/* A text, each line behind a bar; the first `most` lines of it. */
static void print_block(const char *title, const char *text, unsigned most)
{
    unsigned line = 0, rest = 0;
    if (!*text)
        return;
    say("  %s:\n", title);
    for (; *text; line++) {
        int length = (int)strcspn(text, "\n");
        if (line < most)
            say("    | %.*s\n", length, text);
        else
            rest++;
        text += length + (text[length] == '\n');
    }
    if (rest)
        say("    (%u more lines: --json has them)\n", rest);
}

static void print_launch(const char *title, const json_t *launch)
{
    json_int_t v[7] = {0};
    json_error_t error;
    if (json_unpack_ex((json_t *)launch, &error, 0, "{s:[I,I,I], s:[I,I,I], s:I}", "grid", &v[0],
                       &v[1], &v[2], "block", &v[3], &v[4], &v[5], "shared", &v[6]))
        return;
    say("  %-14s grid %lld x %lld x %lld, block %lld x %lld x %lld, %lld bytes shared\n", title,
        (long long)v[0], (long long)v[1], (long long)v[2], (long long)v[3], (long long)v[4],
        (long long)v[5], (long long)v[6]);
}

static void print_version(const char *title, int version)
{
    if (version > 0)
        say(", %s %d.%d", title, version / 1000, version % 1000 / 10);
}

/* The evidence in sentences; all of it is in --json. */
static void print_evidence(const json_t *evidence)
{
    const json_t *gate;
    size_t i;
    if (!json_is_object(evidence)) {
        say("  %-14s none is kept\n", "evidence");
        return;
    }
    say("  %-14s on %s", "verified", member_text(evidence, "device"));
    print_version("driver for CUDA", (int)member_number(evidence, "driver"));
    print_version("compiler", (int)member_number(evidence, "compiler"));
    say(", kgenrt %s\n  %-14s", member_text(evidence, "kgenrt"), "passed");
    json_array_foreach(json_object_get(evidence, "gates"), i, gate)
    {
        if (json_is_true(json_object_get(gate, "passed")))
            say(" %s", member_text(gate, "name"));
    }
    say("\n  %-14s %.0f bytes that the original writes, %s; %.0f launches gave equal results\n",
        "compared", member_number(evidence, "written_bytes"), member_text(evidence, "comparison"),
        member_number(evidence, "repeats"));
    static const char *const caches[] = {"cold", "warm"};
    for (i = 0; i < 2; i++) {
        const json_t *timing = json_object_get(evidence, caches[i]);
        char from[SHORT_TEXT], to[SHORT_TEXT];
        if (timing)
            say("  %-14s %s caches: %s to %s, %.3f times as fast [%.3f, %.3f], %.0f pairs\n",
                "timed", caches[i], duration_text(member_number(timing, "original_ns"), from),
                duration_text(member_number(timing, "variant_ns"), to),
                member_number(timing, "ratio"), member_number(timing, "low"),
                member_number(timing, "high"), member_number(timing, "pairs"));
    }
}

/* What a launch must be like, in lines; all of it is in --json. */
static void print_guard(const json_t *signature)
{
    const json_t *item, *scalars = json_object_get(signature, "scalars");
    const char *label = "guard";
    size_t i;
    json_array_foreach(scalars, i, item)
    {
        if (i == MOST_GUARD)
            break;
        bool span = strcmp(member_text(item, "span"), "0x0") != 0;
        say("  %-14s p%.0f, byte %.0f, %.0f bytes: %s%s%s\n", label, member_number(item, "param"),
            member_number(item, "offset"), member_number(item, "size"), member_text(item, "value"),
            span ? ", or more by at most " : "", span ? member_text(item, "span") : "");
        label = "";
    }
    if (json_array_size(scalars) > MOST_GUARD)
        say("  %-14s and %zu more scalar words\n", "", json_array_size(scalars) - MOST_GUARD);
    json_array_foreach(json_object_get(signature, "pointers"), i, item)
    {
        bool read = json_is_true(json_object_get(item, "read"));
        bool written = json_is_true(json_object_get(item, "written"));
        say("  %-14s p%.0f, byte %.0f: a multiple of %.0f; %s bytes [%.0f, %.0f) from it\n", label,
            member_number(item, "param"), member_number(item, "offset"),
            member_number(item, "align"),
            read && written ? "reads and writes"
            : written       ? "writes"
                            : "reads",
            member_number(item, "low"), member_number(item, "high"));
        label = "";
    }
    say("  %-14s %zu pairs of pointers overlap as captured; where one is written, all others are "
        "apart; scalars that are not named are free\n",
        label, json_array_size(json_object_get(signature, "overlaps")));
}

static void print_variant(const json_t *variant, bool whole)
{
    char from[SHORT_TEXT], to[SHORT_TEXT], when[SHORT_TEXT];
    const json_t *signature = json_object_get(variant, "signature");
    say("\nvariant %s%s\n", member_text(variant, "id"),
        json_is_true(json_object_get(variant, "best")) ? " (the best: programs get it)" : "");
    say("  %-14s %s (%s), on %s\n", "of kernel", member_text(variant, "readable"),
        member_text(variant, "name"), member_text(variant, "device"));
    say("  %-14s %s, %s\n", "made by", member_text(variant, "maker"),
        date_text(member_number(variant, "time"), when));
    say("  %-14s %.3f times as fast, 95%% interval [%.3f, %.3f]: %s to %s\n", "measured",
        member_number(variant, "ratio"), member_number(variant, "low"),
        member_number(variant, "high"), duration_text(member_number(variant, "original_ns"), from),
        duration_text(member_number(variant, "variant_ns"), to));
    say("  %-14s %s; in verification %s\n", "accuracy", member_text(variant, "accuracy"),
        json_is_true(json_object_get(variant, "exact")) ? "every result was equal bit for bit"
                                                        : "some results differed within it");
    if (*member_text(variant, "note"))
        say("  %-14s %s\n", "note", member_text(variant, "note"));
    print_launch("for launches", json_object_get(signature, "launch"));
    print_launch("launched as", json_object_get(variant, "launch"));
    print_guard(signature);
    print_evidence(json_object_get(variant, "evidence"));
    if (!whole) {
        say("  %-14s kgenrt show %.12s\n", "its source", member_text(variant, "id"));
        return;
    }
    print_block("source", member_text(variant, "source_text"), UINT_MAX);
    if (!*member_text(variant, "source_text"))
        print_block("PTX", member_text(variant, "ptx_text"), UINT_MAX);
}

static void print_rejection(const json_t *rejection)
{
    char when[SHORT_TEXT];
    const char *gate = member_text(rejection, "gate"), *meaning = gate_text(gate);
    say("\n%s '%s': %s\n",
        !strcmp(gate, "doubt") ? "not refused, but seen by gate" : "refused by gate", gate,
        member_text(rejection, "reason"));
    if (*meaning)
        say("  %-14s %s\n", "the gate asks", meaning);
    say("  %-14s %s, %s\n", "made by", member_text(rejection, "maker"),
        date_text(member_number(rejection, "time"), when));
    if (member_number(rejection, "ratio") > 0)
        say("  %-14s %.3f times as fast, 95%% interval [%.3f, %.3f]\n", "measured",
            member_number(rejection, "ratio"), member_number(rejection, "low"),
            member_number(rejection, "high"));
    print_block("candidate", member_text(rejection, "source_text"), MOST_LINES);
}

static void print_kernel(const json_t *kernel)
{
    char time[SHORT_TEXT], when[SHORT_TEXT];
    say("kernel %s\n  %-14s %s\n", member_text(kernel, "id"), "name",
        member_text(kernel, "readable"));
    say("  %-14s %s\n  %-14s %s\n", "mangled", member_text(kernel, "name"), "seen in",
        member_text(kernel, "program"));
    say("  %-14s %s a launch, %.1f%% of the program's GPU time\n", "in the app",
        duration_text(member_number(kernel, "app_ns"), time),
        100 * member_number(kernel, "app_share"));
    say("  %-14s %s\n", "last seen", date_text(member_number(kernel, "time"), when));
    if (*member_text(kernel, "ineligible"))
        say("  %-14s %s\n", "left alone", member_text(kernel, "ineligible"));
}

static void print(const json_t *result)
{
    const json_t *item;
    size_t i;
    bool whole = !strcmp(member_text(result, "kind"), "variant");
    json_array_foreach(json_object_get(result, "kernels"), i, item)
    {
        print_kernel(item);
    }
    json_array_foreach(json_object_get(result, "jobs"), i, item)
    {
        say("\njob: %s%s%s\n", member_text(item, "state"), *member_text(item, "detail") ? ": " : "",
            member_text(item, "detail"));
    }
    json_array_foreach(json_object_get(result, "variants"), i, item)
    {
        print_variant(item, whole);
    }
    json_array_foreach(json_object_get(result, "rejections"), i, item)
    {
        print_rejection(item);
    }
}

static void print_all_evidence(const json_t *result)
{
    const json_t *item;
    size_t i;
    json_array_foreach(json_object_get(result, "variants"), i, item)
    {
        evidence_print(item, true);
    }
    json_array_foreach(json_object_get(result, "rejections"), i, item)
    {
        evidence_print(item, false);
    }
}

/* ---- captures -------------------------------------------------------------------------------- */

static json_t *json_words(const struct kg_capture *capture)
{
    static const char digits[] = "0123456789abcdef";
    json_t *params = json_array();
    for (uint32_t i = 0; i < capture->param_count; i++) {
        const struct kg_param *param = &capture->params[i];
        char hex[2 * 64 + 1];
        uint32_t shown = param->size < 64 ? param->size : 64;
        for (uint32_t b = 0; b < shown; b++) {
            unsigned char byte = capture->args.data[param->offset + b];
            hex[2 * b] = digits[byte >> 4];
            hex[2 * b + 1] = digits[byte & 15];
        }
        hex[2 * shown] = 0;
        json_array_append_new(params,
                              json_pack("{s:I, s:I, s:s}", "offset", (json_int_t)param->offset,
                                        "size", (json_int_t)param->size, "bytes", hex));
    }
    return params;
}

static json_t *json_regions(const struct kg_capture *capture)
{
    static const char *const kinds[] = {"pointer", "global", "nested"};
    json_t *regions = json_array();
    for (uint32_t i = 0; i < capture->region_count; i++) {
        const struct capture_region *region = &capture->regions[i];
        char address[24];
        snprintf(address, sizeof address, "0x%llx", (unsigned long long)region->address);
        json_array_append_new(
            regions, json_pack("{s:s, s:s, s:I, s:b, s:o}", "kind", kinds[region->kind], "address",
                               address, "size", (json_int_t)region->size, "result_kept",
                               region->after != NULL, "name", json_text(region->name)));
    }
    return regions;
}

static json_t *json_capture(const struct kg_capture *capture, const char *path)
{
    char readable[512];
    json_t *pointers = json_array();
    name_readable(capture->entry, readable, sizeof readable);
    for (uint32_t i = 0; i < capture->pointer_count; i++)
        json_array_append_new(pointers,
                              json_pack("{s:i, s:i, s:I}", "param", capture->pointers[i].param,
                                        "offset", capture->pointers[i].offset, "region",
                                        capture->pointers[i].region == CAPTURE_NO_REGION
                                            ? (json_int_t)-1
                                            : (json_int_t)capture->pointers[i].region));
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:f, s:f, s:I, s:o, s:o, s:o, s:I, s:i}",
                     "kind", "capture", "file", json_text(path), "kernel",
                     json_id(&capture->kernel), "name", json_text(capture->entry), "readable",
                     json_text(readable), "program", json_text(capture->program), "launch",
                     json_launch(&capture->launch), "app_ns", capture->app_ns, "app_share",
                     capture->app_share, "time", (json_int_t)capture->time, "params",
                     json_words(capture), "pointers", pointers, "regions", json_regions(capture),
                     "image_bytes", (json_int_t)capture->image_size, "pid", capture->pid);
}

static void print_capture(const json_t *result)
{
    const json_t *item;
    char time[SHORT_TEXT], when[SHORT_TEXT];
    size_t i;
    say("capture %s\n", member_text(result, "file"));
    say("  %-14s %s (%s)\n  %-14s %s\n", "of kernel", member_text(result, "readable"),
        member_text(result, "name"), "kernel id", member_text(result, "kernel"));
    say("  %-14s %s, process %.0f, %s\n", "made by", member_text(result, "program"),
        member_number(result, "pid"), date_text(member_number(result, "time"), when));
    say("  %-14s %s (%s)\n", "on", member_text(json_object_get(result, "hardware"), "name"),
        member_text(json_object_get(result, "hardware"), "arch"));
    say("  %-14s %s a launch, %.1f%% of the program's GPU time\n", "in the app",
        duration_text(member_number(result, "app_ns"), time),
        100 * member_number(result, "app_share"));
    print_launch("launch", json_object_get(result, "launch"));
    json_array_foreach(json_object_get(result, "params"), i, item)
    {
        say("  parameter %-4zu %.0f bytes: %s\n", i, member_number(item, "size"),
            member_text(item, "bytes"));
    }
    json_array_foreach(json_object_get(result, "pointers"), i, item)
    {
        say("  pointer in     parameter %.0f, byte %.0f: region %.0f\n",
            member_number(item, "param"), member_number(item, "offset"),
            member_number(item, "region"));
    }
    json_array_foreach(json_object_get(result, "regions"), i, item)
    {
        say("  region %-7zu %s %s, %.0f bytes %s\n", i, member_text(item, "kind"),
            member_text(item, "address"), member_number(item, "size"), member_text(item, "name"));
    }
}

static int show_capture(const struct arguments *arguments, const char *path)
{
    struct kg_capture capture;
    kg_status status = capture_read(path, &capture);
    if (status != KG_OK)
        return EXIT_FAILED; /* capture_read said what is wrong */
    json_t *result = json_capture(&capture, path);
    json_object_set_new(result, "hardware", json_hardware(&capture.hardware));
    capture_free(&capture);
    return output(arguments, result, print_capture, EXIT_GOOD);
}

/* ---- the command ----------------------------------------------------------------------------- */

static int run(const struct arguments *arguments)
{
    const char *what = arguments->operands[0];
    bool analysis = argument(arguments, "analysis") != NULL;
    if (arguments->count > 1 && !(analysis && text_ends(what, ".ptx")))
        return wrong_use(arguments->command, "a second name belongs to --analysis of a .ptx file");
    if (analysis && text_ends(what, ".ptx"))
        return analyse_text(arguments, what);
    if (analysis && (strchr(what, '/') || strstr(what, CAPTURE_SUFFIX)))
        return analyse_capture(arguments, what);
    if (analysis)
        return analyse_kernel(arguments, what);
    if (strchr(what, '/') || strstr(what, CAPTURE_SUFFIX) || !access(what, F_OK))
        return show_capture(arguments, what);
    json_t *stored = stored_read(cache_dir());
    json_t *result = find(stored, what);
    const char *state = member_text(stored, "store");
    bool broken = strcmp(state, "ok") && strcmp(state, "none");
    int code = broken ? failed("%s/store: %s", cache_dir(), state) : EXIT_GOOD;
    json_decref(stored);
    if (size_of(result, "variants") + size_of(result, "kernels") + size_of(result, "rejections") +
        size_of(result, "jobs")) {
        complete(result);
        bool evidence = argument(arguments, "evidence") != NULL;
        return output(arguments, result, evidence ? print_all_evidence : print, code);
    }
    json_decref(result);
    if (broken)
        return code;
    failed("nothing in %s is called '%s': 'kgenrt list' and 'kgenrt status' show what there is",
           cache_dir(), what);
    return EXIT_NOTHING;
}

static const struct cli_option show_options[] = {
    {"analysis", 'a', NULL, "show what the kernel's PTX tells of it, instead of results"},
    {"evidence", 'e', NULL, "show all that a verdict rests on, gate by gate (--json: all of it)"},
    {0},
};

const struct command cmd_show = {
    .name = "show",
    .synopsis = "show [OPTION...] KERNEL|VARIANT|CAPTURE\n"
                "       kgenrt show --analysis [OPTION...] KERNEL|CAPTURE|FILE.ptx [ENTRY]",
    .summary = "show all about one kernel, variant or capture",
    .description =
        "KERNEL is a part of a kernel's name, or the beginning of its id: shows where it was seen, "
        "its jobs, its variants, and every candidate that was refused, with the gate that refused "
        "it and the reason.\n"
        "\n"
        "VARIANT is the beginning of a variant's id (at least four digits): shows its record, the "
        "evidence (what was checked, with which inputs and results, both timings), and its "
        "source.\n"
        "\n"
        "CAPTURE is a file made by 'kgenrt capture': shows the launch that it holds.\n"
        "\n"
        "With --evidence: for each variant and each refused candidate that met the GPU, who "
        "checked "
        "what on which device, by which program and which code, the digests of inputs and result, "
        "each gate in order with the time it took and what it saw, both timings with all their "
        "parameters, and the command that repeats the verdict ('kgenrt verify').\n"
        "\n"
        "With --analysis: what the kernel's PTX tells, for the launch that was captured last. "
        "Whether "
        "it can be replaced; what each parameter is for, and whether a variant may rely on its "
        "value; which bytes from each pointer it reads and writes at most (\"exactly\": the first "
        "and the last of them are touched), and whether that is inside what is allocated; each "
        "access with its stride between neighbouring threads and the 32-byte sectors that a full "
        "warp touches; how often loops turn. FILE.ptx has no launch: addresses are shown as "
        "formulas.\n"
        "\n"
        "The gates, in order, and what each asks:\n"
#define GATE(name, text) " " name ": " text "\n"
    GATES(GATE)
#undef GATE
        ,
    .options = show_options,
    .least = 1,
    .most = 2,
    .examples = " kgenrt show softmax\n"
                " kgenrt show 3fa9c01b\n"
                " kgenrt show --evidence 3fa9c01b\n"
                " kgenrt show ./stencil-1f2e3d4c.kgcap\n"
                " kgenrt show --analysis softmax",
    .run = run,
};
