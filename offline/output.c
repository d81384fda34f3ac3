/* Text and JSON from one place: a command makes a JSON tree, which is printed as it is or by the
 * command's own text function. */
#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int output(const struct arguments *arguments, json_t *result, void (*text)(const json_t *),
           int code)
{
    if (!result)
        return failed("out of memory");
    if (argument(arguments, "json")) {
        json_dumpf(result, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(12));
        putchar('\n');
    } else {
        text(result);
    }
    json_decref(result);
    if (fflush(stdout) || ferror(stdout))
        return failed("standard output: %s", strerror(errno));
    return code;
}

void say(const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    if (length < 0)
        return;
    for (int i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i], next = (unsigned char)text[i + 1];
        if ((c < 32 && c != '\n' && c != '\t') || c == 127)
            text[i] = '?';
        if (c == 0xc2 && next >= 0x80 && next < 0xa0) /* control characters beyond ASCII */
            text[i] = text[i + 1] = '?';
    }
    fwrite(text, 1, (size_t)length, stdout);
    free(text);
}

int failed(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "kgenrt: ");
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return EXIT_FAILED;
}

json_t *json_sorted(json_t *array, int (*compare)(const void *, const void *))
{
    size_t size = json_array_size(array);
    json_t **items = calloc(size + 1, sizeof *items), *out = json_array();
    for (size_t i = 0; items && i < size; i++)
        items[i] = json_array_get(array, i);
    if (items)
        qsort(items, size, sizeof *items, compare);
    for (size_t i = 0; items && i < size; i++)
        json_array_append(out, items[i]);
    free(items);
    json_decref(array);
    return out;
}

/* ---- JSON of our nouns ----------------------------------------------------------------------- */

json_t *json_text(const char *text)
{
    if (!text)
        text = "";
    json_t *good = json_string(text);
    if (good)
        return good;
    char *copy = strdup(text); /* no UTF-8: a path or a reply */
    for (char *c = copy; c && *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    good = json_string(copy ? copy : "");
    free(copy);
    return good;
}

json_t *json_id(const struct kg_id *id)
{
    static const struct kg_id none;
    char text[KG_ID_TEXT];
    return id_equal(id, &none) ? json_null() : json_string(id_text(id, text));
}

json_t *json_launch(const struct kg_launch *launch)
{
    return json_pack("{s:[I,I,I], s:[I,I,I], s:I}", "grid", (json_int_t)launch->grid.x,
                     (json_int_t)launch->grid.y, (json_int_t)launch->grid.z, "block",
                     (json_int_t)launch->block.x, (json_int_t)launch->block.y,
                     (json_int_t)launch->block.z, "shared", (json_int_t)launch->shared);
}

json_t *json_hardware(const struct kg_hardware *hardware)
{
    struct kg_id key;
    hardware_key(hardware, &key);
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:i}", "key", json_id(&key),
                     "vendor", json_text(hardware->vendor), "name", json_text(hardware->name),
                     "arch", json_text(hardware->arch), "uuid", json_text(hardware->uuid),
                     "sm_count", (json_int_t)hardware->sm_count, "bus_bits",
                     (json_int_t)hardware->bus_bits, "l2_bytes", (json_int_t)hardware->l2_bytes,
                     "memory_bytes", (json_int_t)hardware->memory_bytes, "driver_version",
                     hardware->driver_version);
}

static json_t *json_signature(const struct kg_signature *signature)
{
    json_t *scalars = json_array(), *pointers = json_array(), *overlaps = json_array();
    struct kg_id id;
    signature_id(signature, &id);
    for (uint32_t i = 0; i < signature->scalar_count; i++) {
        const struct kg_scalar *scalar = &signature->scalars[i];
        char value[24], span[24];
        snprintf(value, sizeof value, "0x%llx", (unsigned long long)scalar->value);
        snprintf(span, sizeof span, "0x%llx", (unsigned long long)scalar->span);
        json_array_append_new(scalars, json_pack("{s:i, s:i, s:i, s:s, s:s}", "param",
                                                 scalar->param, "offset", scalar->offset, "size",
                                                 scalar->size, "value", value, "span", span));
    }
    for (uint32_t i = 0; i < signature->pointer_count; i++) {
        const struct kg_pointer *pointer = &signature->pointers[i];
        json_array_append_new(
            pointers, json_pack("{s:i, s:i, s:i, s:b, s:b, s:I, s:I}", "param", pointer->param,
                                "offset", pointer->offset, "align", pointer->align, "read",
                                !pointer->access || pointer->access & KG_READ, "written",
                                pointer_written(pointer), "low", (json_int_t)pointer->low, "high",
                                (json_int_t)pointer->high));
    }
    for (uint32_t i = 0; i < signature->overlap_count; i++) {
        const struct kg_overlap *overlap = &signature->overlaps[i];
        json_array_append_new(overlaps, json_pack("{s:i, s:i, s:I}", "a", overlap->a, "b",
                                                  overlap->b, "delta", (json_int_t)overlap->delta));
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "id", json_id(&id), "launch",
                     json_launch(&signature->launch), "scalars", scalars, "pointers", pointers,
                     "overlaps", overlaps);
}

json_t *json_variant(const struct kg_variant *variant, bool best)
{
    char readable[512];
    json_t *globals = json_array();
    for (uint32_t i = 0; i < variant->global_count; i++)
        json_array_append_new(globals, json_text(variant->globals[i]));
    name_readable(variant->kernel_name, readable, sizeof readable);
    return json_pack(
        "{s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:f, s:f, s:f, s:f, "
        "s:f, "
        "s:o, s:o, s:o, s:o, s:o, s:i, s:i, s:I}",
        "id", json_id(&variant->id), "best", best, "kernel", json_id(&variant->kernel), "name",
        json_text(variant->kernel_name), "readable", json_text(readable), "hardware",
        json_id(&variant->hardware), "maker", json_text(variant->maker), "entry",
        json_text(variant->entry), "note", json_text(variant->note), "accuracy",
        json_text(variant->accuracy), "exact", variant->exact, "launch",
        json_launch(&variant->launch), "globals", globals, "original_ns", variant->original_ns,
        "variant_ns", variant->variant_ns, "ratio", variant->ratio, "low", variant->low, "high",
        variant->high, "signature", json_signature(&variant->signature), "code",
        json_id(&variant->code), "source", json_id(&variant->source), "ptx", json_id(&variant->ptx),
        "evidence", json_id(&variant->evidence), "driver_version", variant->driver_version,
        "compiler_version", variant->compiler_version, "time", (json_int_t)variant->time);
}

json_t *json_rejection(const struct kg_rejection *rejection)
{
    char readable[512];
    name_readable(rejection->kernel_name, readable, sizeof readable);
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:f, s:f, s:f, s:i, s:I}", "evidence",
        json_id(&rejection->evidence), "kernel", json_id(&rejection->kernel), "name",
        json_text(rejection->kernel_name), "readable", json_text(readable), "hardware",
        json_id(&rejection->hardware), "signature", json_id(&rejection->signature), "maker",
        json_text(rejection->maker), "gate", json_text(rejection->gate), "reason",
        json_text(rejection->reason), "candidate", json_id(&rejection->candidate), "ratio",
        rejection->ratio, "low", rejection->low, "high", rejection->high, "driver_version",
        rejection->driver_version, "time", (json_int_t)rejection->time);
}

json_t *json_job(const struct kg_job_note *job)
{
    char readable[512];
    name_readable(job->kernel_name, readable, sizeof readable);
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I}", "kernel", json_id(&job->kernel),
                     "name", json_text(job->kernel_name), "readable", json_text(readable),
                     "hardware", json_id(&job->hardware), "signature", json_id(&job->signature),
                     "state", json_text(job->state), "detail", json_text(job->detail), "time",
                     (json_int_t)job->time);
}

/* ---- small things ---------------------------------------------------------------------------- */

const char *member_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

double member_number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key)); /* 0 for what is no number */
}

const char *duration_text(double ns, char out[static SHORT_TEXT])
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    unsigned unit = 0;
    while (ns >= 1000 && unit < 3) {
        ns /= 1000;
        unit++;
    }
    snprintf(out, SHORT_TEXT, "%.3g %s", ns, units[unit]);
    if (ns >= 999.5 || (ns >= 100 && unit == 3))
        snprintf(out, SHORT_TEXT, "%.0f %s", ns, units[unit]);
    return out;
}

const char *date_text(double seconds, char out[static SHORT_TEXT])
{
    time_t when = seconds >= 0 && seconds < 1e11 ? (time_t)seconds : 0;
    struct tm parts;
    if (!localtime_r(&when, &parts) || !strftime(out, SHORT_TEXT, "%Y-%m-%d %H:%M:%S", &parts))
        *out = 0;
    return out;
}
