/* kgenrt show --analysis: of a kernel in the store, a capture, or a file of PTX. */
#include "cli.h"

#include "capture.h"
#include "code/code.h"

#include <string.h>

static void print_analyses(const json_t *result)
{
    const json_t *item;
    size_t i;
    json_array_foreach(json_object_get(result, "analyses"), i, item)
    {
        say("%s", i ? "\n" : "");
        analysis_print(item);
    }
}

static int put_analyses(const struct arguments *arguments, json_t *analyses)
{
    return output(arguments, json_pack("{s:s, s:o}", "kind", "analyses", "analyses", analyses),
                  print_analyses, EXIT_GOOD);
}

static void capture_launch(const struct kg_capture *capture, struct analysis_launch *out)
{
    *out = (struct analysis_launch){.launch = capture->launch, .args = capture->args};
    for (uint32_t i = 0; i < capture->pointer_count && i < 64; i++) {
        const struct capture_pointer *pointer = &capture->pointers[i];
        uint32_t at = capture->params[pointer->param].offset + pointer->offset;
        uint64_t value = 0;
        if (at + 8u > capture->args.size || pointer->region == CAPTURE_NO_REGION)
            continue;
        const struct capture_region *region = &capture->regions[pointer->region];
        memcpy(&value, capture->args.data + at, 8);
        out->extents[out->extent_count++] = (struct analysis_extent){
            at, (int64_t)(region->allocation - value),
            (int64_t)(region->allocation + region->allocation_size - value)};
    }
}

int analyse_capture(const struct arguments *arguments, const char *path)
{
    struct kg_capture capture;
    struct image_code code = {0};
    struct analysis_launch launch;
    if (capture_read(path, &capture) != KG_OK)
        return EXIT_FAILED;
    json_t *one = NULL;
    kg_status status = image_select(capture.image, capture.image_size, capture.hardware.arch,
                                    !strcmp(capture.hardware.vendor, "softgpu"), &code);
    capture_launch(&capture, &launch);
    if (status != KG_OK || !code.ptx.size)
        failed("%s: its kernel has no PTX", path);
    else
        one = analysis_json((const char *)code.ptx.data, capture.entry, &launch);
    image_code_free(&code);
    capture_free(&capture);
    return one ? put_analyses(arguments, json_pack("[o]", one)) : EXIT_FAILED;
}

int analyse_text(const struct arguments *arguments, const char *path)
{
    struct kg_bytes text;
    kg_status status = file_read(path, (size_t)256 << 20, &text);
    if (status != KG_OK)
        return failed("%s: %s", path, status_text(status));
    json_t *one = analysis_json((const char *)text.data,
                                arguments->count > 1 ? arguments->operands[1] : NULL, NULL);
    bytes_free(&text);
    return one ? put_analyses(arguments, json_pack("[o]", one)) : EXIT_FAILED;
}

static void analyse_stored(struct store *store, const json_t *kernel, json_t *out)
{
    struct analysis_launch launch = {0};
    json_t *ptx = blob_text(store, json_object_get(kernel, "ptx"));
    json_t *text = blob_text(store, json_object_get(kernel, "launch"));
    bool known = json_is_string(text) && analysis_launch_parse(json_string_value(text), &launch);
    if (!json_is_string(ptx)) {
        failed("%s: no PTX is kept: it has none, or was met by an older version",
               member_text(kernel, "name"));
    } else {
        json_t *one = analysis_json(json_string_value(ptx), member_text(kernel, "name"),
                                    known ? &launch : NULL);
        if (one)
            json_array_append_new(out, one);
    }
    bytes_free(&launch.args);
    json_decref(ptx);
    json_decref(text);
}

int analyse_kernel(const struct arguments *arguments, const char *what)
{
    struct store *store;
    json_t *stored = stored_read(cache_dir()), *out = json_array(), *kernel;
    json_t *kernels = matching(stored, "kernels", "id", what);
    const char *state = member_text(stored, "store");
    int code = EXIT_FAILED;
    kg_status status;
    size_t i;
    if (!json_array_size(kernels) && strcmp(state, "ok") && strcmp(state, "none")) {
        failed("%s/store: %s", cache_dir(), state);
    } else if (!json_array_size(kernels)) {
        failed("no kernel in %s is called '%s': 'kgenrt list' and 'kgenrt status' show what there "
               "is",
               cache_dir(), what);
        code = EXIT_NOTHING;
    } else if ((status = store_open(cache_dir(), true, &store)) != KG_OK) {
        failed("%s/store: %s", cache_dir(), status_text(status));
    } else {
        json_array_foreach(kernels, i, kernel)
        {
            analyse_stored(store, kernel, out);
        }
        store_close(store);
    }
    json_decref(kernels);
    json_decref(stored);
    if (json_array_size(out))
        return put_analyses(arguments, out);
    json_decref(out);
    return code;
}
