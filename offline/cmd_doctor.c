/* kgenrt doctor: what is here, what stands in the way, what would be done. Changes nothing. */
#include "doctor.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char *const level_names[] = {"ok", "note", "warn", "fail"};

void finding(struct doctor *doctor, enum level level, const char *what, const char *advice,
             const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    doctor->count[level]++;
    json_array_append_new(doctor->checks,
                          json_pack("{s:s, s:s, s:o, s:o}", "level", level_names[level], "what",
                                    what, "text", json_text(text), "advice",
                                    advice ? json_text(advice) : json_null()));
}

/* What would be done with a program that is started now, in a sentence. */
static json_t *outlook(const struct doctor *doctor)
{
    enum kg_mode mode = options_mode();
    if (mode == KG_MODE_OFF)
        return json_text("Programs would run as if kgenrt were not there: its mode is off.");
    if (!doctor->gpus)
        return json_text("Programs would run as they are: there is no GPU to tune for.");
    if (doctor->count[LEVEL_FAIL])
        return json_text("Programs would run; what is marked 'fail' keeps kgenrt from doing all of "
                         "its work.");
    if (mode == KG_MODE_OBSERVE)
        return json_text("Programs would be watched, and nothing replaced.");
    if (mode == KG_MODE_CACHED)
        return json_text("Programs would get the variants in the cache; nothing would be tuned.");
    return json_text("Programs would be watched; kernels that matter captured, tuned by a worker, "
                     "and replaced by verified variants that are faster.");
}

static void print(const json_t *result)
{
    const json_t *check;
    size_t i;
    json_array_foreach(json_object_get(result, "checks"), i, check)
    {
        say("%-5s %-12s %s\n", member_text(check, "level"), member_text(check, "what"),
            member_text(check, "text"));
        if (*member_text(check, "advice"))
            say("%19s-> %s\n", "", member_text(check, "advice"));
    }
    say("\n%s\n", member_text(result, "outlook"));
}

/* ---- --options ------------------------------------------------------------------------------- */

static void add_option(void *self, const char *variable, const char *value, const char *standard,
                       const char *text)
{
    json_array_append_new(self, json_pack("{s:s, s:o, s:s, s:s}", "variable", variable, "value",
                                          json_text(value), "default", standard, "text", text));
}

static void print_options(const json_t *result)
{
    const json_t *option;
    size_t i;
    json_array_foreach(json_object_get(result, "options"), i, option)
    {
        say("%s='%s' (default '%s')\n    %s\n", member_text(option, "variable"),
            member_text(option, "value"), member_text(option, "default"),
            member_text(option, "text"));
    }
}

static int run(const struct arguments *arguments)
{
    if (argument(arguments, "options")) {
        json_t *list = json_array();
        options_each(add_option, list);
        return output(arguments, json_pack("{s:o}", "options", list), print_options, EXIT_GOOD);
    }
    struct doctor doctor = {.checks = json_array(), .devices = json_array()};
    check_preload(&doctor);
    check_devices(&doctor);
    check_compilers(&doctor);
    check_environment(&doctor);
    check_cache(&doctor);
    json_t *result =
        json_pack("{s:o, s:o, s:o, s:i}", "checks", doctor.checks, "devices", doctor.devices,
                  "outlook", outlook(&doctor), "failures", (int)doctor.count[LEVEL_FAIL]);
    return output(arguments, result, print, doctor.count[LEVEL_FAIL] ? EXIT_FAILED : EXIT_GOOD);
}

static const struct cli_option own_options[] = {
    {"options", 'o', NULL, "list every option: variable, value in force, default, meaning"},
    {NULL, 0, NULL, NULL},
};

const struct command cmd_doctor = {
    .name = "doctor",
    .synopsis = "doctor [OPTION...]",
    .summary = "say what is here, and what stands in the way",
    .description =
        "Looks at the preload library, driver and devices, NVRTC, nvJitLink and the makers, the "
        "environment, the cache folder (ownership, store, snapshots, spool), and programs that did "
        "not end cleanly. Each line begins with ok, note, warn or fail, and says what to do where "
        "something is to be done. Nothing is changed, and no endpoint is contacted.",
    .options = own_options,
    .exits = "1 if a line says fail; a machine without a GPU is a warning.",
    .examples = " kgenrt doctor\n"
                " kgenrt doctor --options\n"
                " kgenrt doctor --json | jq '.checks[] | select(.level == \"fail\")'",
    .run = run,
};
