/* The main job on every sample: an unmodified program gets faster while it runs and stays right;
 * the second run swaps at its first launches. Each sample's trap is looked for in `status`:
 * coefficients that change, a launch in place, another size, cold kernels. The last part runs
 * `rules`, where "no gain" is a right answer too. */
#include "e2e.h"

static json_t *process(json_t *status)
{
    return json_array_get(json_object_get(status, "processes"), 0);
}

/* The kernel whose name holds `part`, of the newest process. */
static json_t *kernel(json_t *status, const char *part)
{
    size_t index;
    json_t *one, *kernels = json_object_get(process(status), "kernels");
    json_array_foreach(kernels, index, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        if (name && strstr(name, part))
            return one;
    }
    return NULL;
}

static long number(json_t *object, const char *field)
{
    return (long)json_number_value(json_object_get(object, field));
}

static long refused(json_t *one)
{
    long sum = 0;
    const char *name;
    json_t *count;
    json_object_foreach(json_object_get(one, "refused"), name, count) sum +=
        (long)json_number_value(count);
    return sum;
}

static int run(const char *sample, const char *makers, double seconds)
{
    const char *text = e2e_text("%g", seconds);
    return e2e_run((const char *[]){e2e_cli(), "run", e2e_sample(sample), "--seconds", text, NULL},
                   (const char *[]){makers, NULL}, seconds * 4 + 120);
}

/* First and second run of one sample; returns false if the first did not swap. */
static void loop(const char *sample, double seconds)
{
    e2e_fresh_cache();
    int before = test_failures;
    if (!CHECK(run(sample, e2e_replies(sample), seconds) == 0))
        e2e_show_log();
    fprintf(stderr, "first run: %s", e2e_output);
    json_t *status = e2e_json("status", NULL), *hot = kernel(status, sample);
    CHECK(hot != NULL);
    CHECK(number(hot, "swapped") > 0);
    CHECK(number(hot, "first_swapped_launch") > 1);
    CHECK(number(hot, "swapped") + refused(hot) < number(hot, "launches"));
    fprintf(stderr,
            "%s: %ld launches, first swapped %ld, %ld swapped, %ld got the original by guard, %.2f "
            "-> %.2f us\n",
            sample, number(hot, "launches"), number(hot, "first_swapped_launch"),
            number(hot, "swapped"), refused(hot),
            json_number_value(json_object_get(hot, "before_ns")) / 1000,
            json_number_value(json_object_get(hot, "after_ns")) / 1000);
    if (!strcmp(sample, "transpose"))
        CHECK(number(json_object_get(hot, "refused"), "shape") > 0);
    if (!strcmp(sample, "stencil")) {
        CHECK(number(hot, "swapped") > 100); /* coefficients changed after the swap */
        CHECK(kernel(status, "tally") && kernel(status, "fade"));
        const char *cold[] = {"tally", "fade"};
        for (int i = 0; i < 2; i++) {
            const char *state =
                json_string_value(json_object_get(kernel(status, cold[i]), "state"));
            CHECK(state && !strcmp(state, "cold"));
        }
    }
    json_decref(status);

    if (!CHECK(run(sample, e2e_replies(sample), seconds / 3) == 0))
        e2e_show_log();
    fprintf(stderr, "second run: %s", e2e_output);
    status = e2e_json("status", NULL);
    hot = kernel(status, sample);
    CHECK(number(hot, "first_swapped_launch") > 0 && number(hot, "first_swapped_launch") < 10);
    /* the launch in place comes late in a run: in this one surely after the swap */
    if (!strcmp(sample, "softmax"))
        CHECK(number(json_object_get(hot, "refused"), "overlap") == 1);
    fprintf(stderr, "%s, second run: first swapped launch %ld\n", sample,
            number(hot, "first_swapped_launch"));
    json_decref(status);
    if (test_failures > before)
        e2e_show_log();
    e2e_remove_cache();
}

/* `rules` alone: a verdict with a measured ratio, whichever way, and a right program. */
static void rules(const char *sample, double seconds)
{
    e2e_fresh_cache();
    int before = test_failures;
    CHECK(run(sample, "KGENRT_MAKERS=rules", seconds) == 0);
    /* a worker that ended with the program left its capture to the next one */
    CHECK(e2e_run((const char *[]){e2e_cli(), "worker", "--once", NULL},
                  (const char *[]){"KGENRT_MAKERS=rules", NULL}, 400) == 0);
    json_t *list = e2e_json("list", NULL), *status = e2e_json("status", NULL);
    json_t *variant = json_array_get(json_object_get(list, "variants"), 0);
    json_t *rejection = json_array_get(json_object_get(status, "rejections"), 0);
    json_t *verdict = variant ? variant : rejection;
    CHECK(json_number_value(json_object_get(verdict, "ratio")) > 0);
    const char *reason = json_string_value(json_object_get(rejection, "reason"));
    fprintf(stderr, "%s, rules: ratio %.3f [%.3f, %.3f]%s%s\n", sample,
            json_number_value(json_object_get(verdict, "ratio")),
            json_number_value(json_object_get(verdict, "low")),
            json_number_value(json_object_get(verdict, "high")), variant ? "" : ", not used: ",
            variant  ? ""
            : reason ? reason
                     : "?");
    json_decref(list);
    json_decref(status);
    if (test_failures > before)
        e2e_show_log();
    e2e_remove_cache();
}

int main(int argc, char **argv)
{
    static const char *const samples[] = {"polynomial", "transpose", "softmax", "stencil"};
    e2e_begin(argc, argv);
    e2e_remove_cache();
    for (int i = 0; i < 4; i++) {
        if (argc > 2 && strcmp(argv[2], samples[i]))
            continue;
        double seconds = e2e_enough(samples[i]); /* its traps come after the swap */
        loop(samples[i], seconds);
        rules(samples[i], seconds);
    }
    return test_result();
}
