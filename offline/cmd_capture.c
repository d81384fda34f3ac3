/* kgenrt capture: a program's hot launches as files, to be replayed or tuned on another day. */
#include "cli.h"

#include "capture.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_OF_A_NAME = 40 };

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info, (void)kind, (void)place;
    return remove(path);
}

/* OUT/<readable name>-<8 digits of the kernel's id>[-n].kgcap, the first that is free. */
static bool free_path(const char *out, const struct kg_capture *capture, char path[static KG_PATH])
{
    char readable[512], id[KG_ID_TEXT];
    name_readable(capture->entry, readable, sizeof readable);
    readable[MOST_OF_A_NAME] = 0;
    for (char *c = readable; *c; c++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", *c))
            *c = '_';
    id_text(&capture->kernel, id);
    for (int n = 1; n < 10000; n++) {
        char number[16] = "";
        if (n > 1)
            snprintf(number, sizeof number, "-%d", n);
        if (path_make(path, "%s/%s-%.8s%s" CAPTURE_SUFFIX, out, readable, id, number) != KG_OK)
            return false;
        if (access(path, F_OK))
            return true;
    }
    return false;
}

/* Takes one file of the spool over, if it is wanted and sound. */
static void take(const char *spooled, const char *out, const char *kernel, json_t *list)
{
    struct kg_capture capture;
    char path[KG_PATH], readable[512];
    if (capture_read(spooled, &capture) != KG_OK)
        return;
    bool wanted = !kernel || name_matches(kernel, capture.entry, &capture.kernel);
    if (wanted && (!free_path(out, &capture, path) || rename(spooled, path)))
        failed("%s: the capture cannot be moved to %s: %s", spooled, out, strerror(errno));
    else if (wanted)
        json_array_append_new(
            list, json_pack("{s:o, s:o, s:o, s:o, s:I}", "file", json_text(path), "kernel",
                            json_id(&capture.kernel), "name", json_text(capture.entry), "readable",
                            json_text(name_readable(capture.entry, readable, sizeof readable)),
                            "bytes", (json_int_t)capture.file.size));
    capture_free(&capture);
}

static json_t *gather(const char *cache, const char *out, const char *kernel)
{
    char path[KG_PATH];
    struct dirent *entry;
    json_t *list = json_array();
    if (path_make(path, "%s/spool", cache) != KG_OK)
        return list;
    DIR *folder = opendir(path);
    while (folder && (entry = readdir(folder))) {
        if (text_ends(entry->d_name, CAPTURE_SUFFIX) &&
            path_make(path, "%s/spool/%s", cache, entry->d_name) == KG_OK)
            take(path, out, kernel, list);
    }
    if (folder)
        closedir(folder);
    return list;
}

/* What became of every kernel, from the recorders of the program's processes. */
static json_t *kernels_of(const char *cache)
{
    json_t *flights = flights_read(cache), *all = json_array(), *flight, *kernel;
    size_t i, k;
    json_array_foreach(flights, i, flight)
    {
        json_array_foreach(json_object_get(flight, "kernels"), k, kernel)
        {
            char readable[512];
            if (!json_is_object(kernel))
                continue;
            name_readable(member_text(kernel, "name"), readable, sizeof readable);
            json_object_set_new(kernel, "readable", json_text(readable));
            json_object_set_new(kernel, "explanation", kernel_explain(kernel, flight, NULL));
            json_array_append(all, kernel);
        }
    }
    json_decref(flights);
    return all;
}

static void print(const json_t *result)
{
    const char *wanted = member_text(result, "wanted");
    double status = member_number(result, "program_status");
    const json_t *item;
    size_t i;
    if (status != 0)
        say("The program ended with status %.0f.\n", status);
    json_array_foreach(json_object_get(result, "captures"), i, item)
    {
        say("%s  %s, %.1f MiB\n", member_text(item, "file"), member_text(item, "readable"),
            member_number(item, "bytes") / (1 << 20));
    }
    if (i)
        return;
    if (!json_array_size(json_object_get(result, "kernels"))) {
        say("Nothing was captured: kgenrt saw no kernel ('kgenrt doctor' may say why).\n");
        return;
    }
    say("Nothing%s%s was captured. The kernels that ran:\n", *wanted ? " that matches " : "",
        wanted);
    json_array_foreach(json_object_get(result, "kernels"), i, item)
    {
        say("  %s, launched %.0f times, %.1f%% of the GPU time: %s\n",
            member_text(item, "readable"), member_number(item, "launches"),
            100 * member_number(item, "share"), member_text(item, "explanation"));
    }
}

static int run(const struct arguments *arguments)
{
    const char *out = argument(arguments, "output");
    struct start start = {.program = arguments->operands, .mode = "tune", .eager = true};
    char wanted[KG_PATH], cache[KG_PATH];
    if (path_make(wanted, "%s", out ? out : ".") != KG_OK)
        return EXIT_FAILED;
    if (mkdir(wanted, 0700) && errno != EEXIST)
        return failed("%s: %s", wanted, strerror(errno));
    char *folder = realpath(wanted, NULL); /* the program may go elsewhere */
    if (!folder || path_make(cache, "%s/.kgenrt-XXXXXX", folder) != KG_OK || !mkdtemp(cache)) {
        free(folder);
        return failed("%s: %s", wanted, strerror(errno));
    }
    start.cache = cache;
    kg_status status = start_run(&start);
    json_t *captures = gather(cache, folder, argument(arguments, "kernel"));
    json_t *kernels = kernels_of(cache);
    if (nftw(cache, remove_one, 16, FTW_DEPTH | FTW_PHYS))
        failed("%s: cannot be removed: %s; it may hold the program's data", cache, strerror(errno));
    free(folder);
    if (status != KG_OK) {
        json_decref(captures);
        json_decref(kernels);
        return status == KG_BAD_INPUT ? start.code : EXIT_FAILED;
    }
    int code = json_array_size(captures) ? EXIT_GOOD : EXIT_NOTHING;
    return output(arguments,
                  json_pack("{s:i, s:o, s:o, s:o}", "program_status", start.code, "wanted",
                            json_text(argument(arguments, "kernel")), "captures", captures,
                            "kernels", kernels),
                  print, code);
}

static const struct cli_option own_options[] = {
    {"output", 'o', "DIR", "where the files go; it is made if it is not there (.)"},
    {"kernel", 'k', "NAME", "only of kernels with this in their name, or an id that begins so"},
    {NULL, 0, NULL, NULL},
};

const struct command cmd_capture = {
    .name = "capture",
    .synopsis = "capture [OPTION...] PROGRAM [ARGUMENT...]",
    .summary = "run a program and keep launches of each hot kernel as files",
    .description =
        "Runs PROGRAM with libkgenrt.so preloaded, an empty cache of its own and no worker, and "
        "moves what it captured to DIR, a file a launch, at most KGENRT_CAPTURES of a kernel and "
        "kind "
        "of launch: the code, the arguments, and the memory they reach. 'kgenrt replay' runs such "
        "a file, 'kgenrt worker FILE' tunes it, on this or "
        "another day; 'kgenrt show' tells what is in it. Kernels count as hot from 5 launches and "
        "1% of the GPU time on, unless KGENRT_HOT_LAUNCHES and KGENRT_HOT_SHARE say otherwise.\n"
        "\n"
        "A capture holds the program's data: it is readable by you alone. Options of kgenrt "
        "capture "
        "end at PROGRAM.",
    .options = own_options,
    .least = 1,
    .most = -1,
    .program = true,
    .exits = "The program's own exit status is not returned: it is \"program_status\" with --json. "
             "126 or 127 if the program cannot be started or is not found.",
    .examples = " kgenrt capture -o captures ./app\n"
                " kgenrt capture --kernel softmax ./app --steps 10",
    .run = run,
};
