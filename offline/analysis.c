/* What the PTX library knows of a kernel, as JSON and as text: for `kgenrt show --analysis`. Claims
 * nothing of its own: each line is what eligibility, roles or reach say. */
#include "cli.h"

#include "code/reach.h"
#include "code/roles.h"

#include <stdlib.h>
#include <string.h>

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *json_bytes(const struct reach_bytes *bytes)
{
    if (bytes->state == REACH_UNTOUCHED)
        return json_null();
    if (bytes->state == REACH_KNOWN)
        return json_pack("{s:b, s:b, s:I, s:I}", "known", 1, "exact", bytes->exact, "low",
                         (json_int_t)bytes->low, "high", (json_int_t)bytes->high);
    return json_pack("{s:b, s:o, s:I}", "known", 0, "why", json_text(bytes->why ? bytes->why : ""),
                     "line", (json_int_t)bytes->line);
}

static const char *proof_text(uint8_t proof)
{
    static const char *const texts[] = {"", "in bounds", "not proven", "out of bounds"};
    return texts[proof];
}

static json_t *json_params(const struct roles *roles)
{
    json_t *out = json_array();
    for (uint32_t i = 0; i < roles->piece_count; i++) {
        const struct roles_piece *piece = &roles->pieces[i];
        char text[512];
        const char *element = element_texts[piece->pointer ? piece->data : piece->element];
        json_array_append_new(
            out, json_pack("{s:I, s:I, s:I, s:o, s:s, s:s, s:o}", "parameter",
                           (json_int_t)piece->param, "offset",
                           (json_int_t)(piece->offset - roles->entry->params[piece->param]->offset),
                           "size", (json_int_t)piece->size, "roles",
                           json_text(roles_text(&piece->uses, text, sizeof text)), "element",
                           element, "class",
                           piece->pointer  ? "pointer"
                           : piece->pinned ? "pinned"
                                           : "free",
                           "why", json_text(piece->why ? piece->why : "")));
    }
    return out;
}

static json_t *json_targets(const struct reach *reach, const struct ptx_func *entry)
{
    json_t *out = json_array();
    for (uint32_t i = 0; i < reach->target_count; i++) {
        const struct reach_target *target = &reach->targets[i];
        json_t *item = json_pack("{s:o, s:o, s:s}", "read", json_bytes(&target->read), "written",
                                 json_bytes(&target->written), "proof", proof_text(target->proof));
        for (uint32_t p = 0; target->at != REACH_NONE && p < entry->param_count; p++)
            if (target->at - entry->params[p]->offset < entry->params[p]->size) {
                json_object_set_new(item, "parameter", json_integer(p));
                json_object_set_new(item, "offset",
                                    json_integer(target->at - entry->params[p]->offset));
            }
        if (target->at == REACH_NONE)
            json_object_set_new(item, "variable", json_text(target->name));
        json_array_append_new(out, item);
    }
    return out;
}

static const char *space_text(unsigned spaces)
{
    switch (spaces) {
    case SPACE_GLOBAL:
        return "global";
    case SPACE_SHARED:
        return "shared";
    case SPACE_LOCAL:
        return "local";
    case SPACE_CONST:
        return "const";
    default:
        return "generic";
    }
}

static json_t *json_accesses(const struct reach *reach)
{
    json_t *out = json_array();
    for (uint32_t i = 0; i < reach->access_count; i++) {
        const struct reach_access *access = &reach->accesses[i];
        json_t *item =
            json_pack("{s:I, s:o, s:s, s:I, s:I, s:o, s:o, s:s}", "line", (json_int_t)access->line,
                      "operation", json_text(access->operation), "space", space_text(access->space),
                      "bytes", (json_int_t)access->bytes, "vector", (json_int_t)access->vector,
                      "address", json_text(access->address ? access->address : ""), "reach",
                      json_bytes(&access->reach), "proof", proof_text(access->proof));
        json_object_set_new(item, "target",
                            access->target == REACH_NONE ? json_null()
                                                         : json_integer(access->target));
        json_object_set_new(item, "stride",
                            access->strided ? json_integer(access->stride) : json_null());
        json_object_set_new(item, "sectors",
                            access->sectors ? json_integer(access->sectors) : json_null());
        json_object_set_new(item, "times",
                            access->times == UINT64_MAX ? json_null()
                                                        : json_integer((json_int_t)access->times));
        if (access->proof == PROOF_VIOLATED)
            json_object_set_new(item, "witness",
                                json_pack("{s:[i,i,i], s:[i,i,i]}", "thread", access->witness[0],
                                          access->witness[1], access->witness[2], "block",
                                          access->witness[3], access->witness[4],
                                          access->witness[5]));
        json_array_append_new(out, item);
    }
    return out;
}

static json_t *json_loops(const struct reach *reach)
{
    json_t *out = json_array();
    for (uint32_t i = 0; i < reach->loop_count; i++) {
        const struct reach_loop *loop = &reach->loops[i];
        json_array_append_new(
            out, json_pack("{s:I, s:I, s:o, s:b, s:o}", "line", (json_int_t)loop->line, "depth",
                           (json_int_t)loop->depth, "most",
                           loop->known ? json_integer((json_int_t)loop->most) : json_null(),
                           "uniform", loop->uniform, "why", json_text(loop->why ? loop->why : "")));
    }
    return out;
}

/* Why the kernel cannot be replaced, as programs are told; null: it can be. As on the devices that
 * the text is for, be they of one kind only (sm_90a). */
static json_t *eligibility(const char *ptx, const struct ptx_module *module, const char *entry)
{
    const struct kg_bytes text = {(unsigned char *)ptx, strlen(ptx)}; /* lent */
    const struct image_code code = {.selected = text, .ptx = text, .sm = module->sm};
    struct kernel_model model;
    if (kernel_model_make(&code, entry, &model) != KG_OK)
        return json_text("its code cannot be read");
    json_t *out = model.ineligible ? json_text(model.ineligible) : json_null();
    kernel_model_free(&model);
    return out;
}

static kg_status reach_it(const struct ptx_module *module, const struct ptx_func *func,
                          const struct analysis_launch *launch, struct reach *out)
{
    struct reach_extent extents[64];
    struct reach_launch how = {.exact = true};
    if (launch && launch->args.size >= func->param_bytes) {
        for (uint32_t i = 0; i < launch->extent_count; i++)
            extents[i] = (struct reach_extent){launch->extents[i].at, launch->extents[i].low,
                                               launch->extents[i].high};
        how = (struct reach_launch){.launch = &launch->launch,
                                    .params = launch->args.data,
                                    .param_bytes = (uint32_t)launch->args.size,
                                    .extents = extents,
                                    .extent_count = launch->extent_count,
                                    .exact = true};
    }
    return reach_of(module, func, &how, out);
}

static json_t *of_entry(const char *ptx, const struct ptx_module *module,
                        const struct ptx_func *func, const struct analysis_launch *launch)
{
    struct kg_arena arena = {0};
    struct roles roles;
    struct reach reach;
    char readable[512];
    kg_status status = reach_it(module, func, launch, &reach);
    if (status != KG_OK) {
        failed("%s: %s", func->name, status_text(status));
        return NULL;
    }
    bool know = roles_make(module, func, &arena, &roles) == KG_OK;
    name_readable(func->name, readable, sizeof readable);
    json_t *out =
        json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:I, s:I}", "kind",
                  "analysis", "name", json_text(func->name), "readable", json_text(readable),
                  "ineligible", eligibility(ptx, module, func->name), "launch",
                  launch ? json_launch(&launch->launch) : json_null(), "parameters",
                  know ? json_params(&roles) : json_array(), "targets", json_targets(&reach, func),
                  "accesses", json_accesses(&reach), "loops", json_loops(&reach), "stray",
                  json_bytes(&reach.stray), "complete", reach.complete, "arithmetic",
                  (json_int_t)reach.arithmetic, "traffic", (json_int_t)reach.traffic);
    arena_free(&arena);
    reach_free(&reach);
    return out;
}

json_t *analysis_json(const char *ptx, const char *entry, const struct analysis_launch *launch)
{
    struct ptx_module module;
    char error[256];
    json_t *out = NULL;
    if (ptx_parse(ptx, strlen(ptx), &module, error, sizeof error) != KG_OK) {
        failed("its PTX cannot be read: %s", error);
        return NULL;
    }
    const struct ptx_func *func = NULL;
    unsigned entries = 0;
    for (uint32_t i = 0; i < module.func_count; i++) {
        const struct ptx_func *one = module.funcs[i];
        char readable[512];
        if (!one->entry || !one->defined)
            continue;
        name_readable(one->name, readable, sizeof readable);
        entries++;
        if (entry ? !strcmp(one->name, entry) || !strcmp(readable, entry) : !func)
            func = one;
    }
    if (!func)
        failed("it has no kernel of the name '%s'", entry ? entry : "");
    else if (!entry && entries > 1)
        failed("it has %u kernels: name one of them, such as %s", entries, func->name);
    else
        out = of_entry(ptx, &module, func, launch);
    ptx_module_free(&module);
    return out;
}

/* ---- launches -------------------------------------------------------------------------------- */

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool take_args(const char *hex, struct kg_bytes *out)
{
    size_t size = strlen(hex) / 2;
    out->data = size < 1 << 16 ? calloc(1, size + 1) : NULL;
    out->size = size;
    for (size_t i = 0; out->data && i < size; i++) {
        int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out->data[i] = (unsigned char)(high << 4 | low);
    }
    return out->data != NULL;
}

bool analysis_launch_parse(const char *text, struct analysis_launch *out)
{
    json_error_t error;
    json_t *json = json_loads(text, 0, &error), *pointers = NULL, *item;
    json_int_t v[7], at, low, high;
    const char *args = "";
    size_t i;
    *out = (struct analysis_launch){0};
    bool good = json && !json_unpack(json, "{s:[III], s:[III], s:I, s:s, s:o}", "grid", &v[0],
                                     &v[1], &v[2], "block", &v[3], &v[4], &v[5], "shared", &v[6],
                                     "args", &args, "pointers", &pointers);
    if (good) {
        out->launch = (struct kg_launch){{(uint32_t)v[0], (uint32_t)v[1], (uint32_t)v[2]},
                                         {(uint32_t)v[3], (uint32_t)v[4], (uint32_t)v[5]},
                                         (uint32_t)v[6]};
        good = take_args(args, &out->args);
    }
    json_array_foreach(pointers, i, item)
    {
        if (out->extent_count == 64 ||
            json_unpack(item, "{s:I, s:I, s:I}", "at", &at, "low", &low, "high", &high))
            break;
        out->extents[out->extent_count++] =
            (struct analysis_extent){(uint32_t)at, (int64_t)low, (int64_t)high};
    }
    json_decref(json);
    if (!good)
        bytes_free(&out->args);
    return good;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void say_bytes(const char *what, const json_t *bytes)
{
    if (!json_is_object(bytes))
        return;
    if (json_is_true(json_object_get(bytes, "known")))
        say(" %s [%.0f, %.0f)%s", what, member_number(bytes, "low"), member_number(bytes, "high"),
            json_is_true(json_object_get(bytes, "exact")) ? " exactly" : "");
    else
        say(" %s: not known, %s (line %.0f)", what, member_text(bytes, "why"),
            member_number(bytes, "line"));
}

static void say_targets(const json_t *analysis)
{
    const json_t *item;
    size_t i;
    say("\nreach, in bytes from each pointer's value%s\n",
        json_is_null(json_object_get(analysis, "launch")) ? " (for no launch: nothing is known)"
                                                          : "");
    json_array_foreach(json_object_get(analysis, "targets"), i, item)
    {
        if (json_object_get(item, "variable"))
            say("  %s:", member_text(item, "variable"));
        else if (member_number(item, "offset") > 0)
            say("  parameter %.0f, byte %.0f:", member_number(item, "parameter"),
                member_number(item, "offset"));
        else
            say("  parameter %.0f:", member_number(item, "parameter"));
        say_bytes("reads", json_object_get(item, "read"));
        say_bytes("writes", json_object_get(item, "written"));
        if (json_is_null(json_object_get(item, "read")) &&
            json_is_null(json_object_get(item, "written")))
            say(" not touched");
        say("%s%s\n", *member_text(item, "proof") ? "; " : "", member_text(item, "proof"));
    }
    if (json_is_object(json_object_get(analysis, "stray"))) {
        say("  elsewhere:");
        say_bytes("touches", json_object_get(analysis, "stray"));
        say("\n");
    }
}

static void say_params(const json_t *analysis)
{
    const json_t *item;
    size_t i;
    say("\nparameters\n");
    json_array_foreach(json_object_get(analysis, "parameters"), i, item)
    {
        say("  %.0f", member_number(item, "parameter"));
        if (member_number(item, "offset") > 0)
            say("+%.0f", member_number(item, "offset"));
        const char *class = member_text(item, "class"), *uses = member_text(item, "roles");
        bool told = !strncmp(uses, class, strlen(class)); /* a pointer's first role is its class */
        say(": %.0f bytes, %s%s%s%s%s%s", member_number(item, "size"), told ? "" : class,
            told ? "" : ", ", *uses ? uses : "not used", *member_text(item, "element") ? ", " : "",
            member_text(item, "element"), *member_text(item, "why") ? ": " : "");
        say("%s\n", member_text(item, "why"));
    }
}

static void say_accesses(const json_t *analysis)
{
    const json_t *item;
    size_t i;
    say("\naccesses\n");
    json_array_foreach(json_object_get(analysis, "accesses"), i, item)
    {
        const json_t *stride = json_object_get(item, "stride");
        const json_t *sectors = json_object_get(item, "sectors");
        say("  line %.0f: %s, %s, %.0f bytes", member_number(item, "line"),
            member_text(item, "operation"), member_text(item, "space"),
            member_number(item, "bytes"));
        if (json_is_integer(stride))
            say(", stride %.0f", member_number(item, "stride"));
        if (json_is_integer(sectors))
            say(", %.0f sectors a warp", member_number(item, "sectors"));
        if (json_is_integer(json_object_get(item, "times")))
            say(", at most %.0f times", member_number(item, "times"));
        say("\n    at %s", member_text(item, "address"));
        if (!json_is_null(json_object_get(analysis, "launch")))
            say_bytes(":", json_object_get(item, "reach"));
        if (*member_text(item, "proof"))
            say("; %s", member_text(item, "proof"));
        say("\n");
    }
}

static void say_loops(const json_t *analysis)
{
    const json_t *item;
    size_t i;
    if (!json_array_size(json_object_get(analysis, "loops")))
        return;
    say("\nloops\n");
    json_array_foreach(json_object_get(analysis, "loops"), i, item)
    {
        say("  line %.0f, depth %.0f: ", member_number(item, "line"), member_number(item, "depth"));
        if (json_is_integer(json_object_get(item, "most")))
            say("%s %.0f times\n",
                json_is_true(json_object_get(item, "uniform")) ? "always" : "at most",
                member_number(item, "most"));
        else
            say("%s\n", member_text(item, "why"));
    }
}

void analysis_print(const json_t *analysis)
{
    json_int_t v[7] = {0};
    double work = member_number(analysis, "arithmetic"), bytes = member_number(analysis, "traffic");
    say("kernel %s (%s)\n", member_text(analysis, "readable"), member_text(analysis, "name"));
    say("  %-14s %s%s\n", "replaceable",
        json_is_null(json_object_get(analysis, "ineligible")) ? "yes" : "no: ",
        member_text(analysis, "ineligible"));
    if (!json_unpack(json_object_get(analysis, "launch"), "{s:[III], s:[III], s:I}", "grid", &v[0],
                     &v[1], &v[2], "block", &v[3], &v[4], &v[5], "shared", &v[6]))
        say("  %-14s grid %lld x %lld x %lld, block %lld x %lld x %lld, %lld bytes shared\n",
            "launch", (long long)v[0], (long long)v[1], (long long)v[2], (long long)v[3],
            (long long)v[4], (long long)v[5], (long long)v[6]);
    if (bytes > 0)
        say("  %-14s at most %.0f operations and %.0f bytes a thread: %.2f a byte\n", "arithmetic",
            work, bytes, work / bytes);
    say_params(analysis);
    say_targets(analysis);
    say_accesses(analysis);
    say_loops(analysis);
}
