/* A kernel for which no maker had anything is captured once, not in every run: the second run
 * leaves it alone and `status` says so. A reply more, and it is captured again, and swapped. */
#include "e2e.h"

/* The kernel of the newest process whose name holds "polynomial"; *status is to be freed. */
static json_t *kernel(json_t **status)
{
    size_t index;
    json_t *one;
    *status = e2e_json("status", NULL);
    json_t *process = json_array_get(json_object_get(*status, "processes"), 0);
    json_array_foreach(json_object_get(process, "kernels"), index, one)
    {
        if (strstr(json_string_value(json_object_get(one, "name")), "polynomial"))
            return one;
    }
    return NULL;
}

static int run(const char *makers, const char *seconds)
{
    return e2e_run(
        (const char *[]){e2e_cli(), "run", e2e_sample("polynomial"), "--seconds", seconds, NULL},
        (const char *[]){makers, NULL}, 300);
}

static bool is(json_t *one, const char *field, const char *part)
{
    const char *text = json_string_value(json_object_get(one, field));
    return text && strstr(text, part);
}

static int captures(void)
{
    char text[32] = "";
    FILE *count = popen(e2e_text("grep -c ': captured, ' '%s/log'", e2e_cache), "r");
    CHECK(count && fgets(text, sizeof text, count));
    if (count)
        pclose(count);
    return atoi(text);
}

int main(int argc, char **argv)
{
    json_t *status;
    e2e_begin(argc, argv);
    setenv("KGENRT_CAPTURES", "1", 1); /* further ones of the same launch would be counted, too */
    e2e_remove_cache();
    const char *enough = e2e_text("%.0f", e2e_enough("polynomial"));
    e2e_fresh_cache();
    char *folder = e2e_text("%s/replies", e2e_cache);
    char *makers = e2e_text("KGENRT_MAKERS=recorded:%s", folder);
    CHECK(!mkdir(folder, 0700));
    CHECK(run(makers, "10") == 0);
    json_t *one = kernel(&status);
    CHECK(is(one, "state", "captured") && is(one, "explanation", "0 published, 0 refused"));
    CHECK(captures() == 1);
    json_decref(status);

    CHECK(run(makers, "10") == 0);
    one = kernel(&status);
    CHECK(is(one, "state", "judged"));
    CHECK(is(one, "explanation", "judged before: no faster variant"));
    CHECK(captures() == 1);
    json_decref(status);

    CHECK(system(e2e_text("cp '%s/samples/polynomial/reply/'*.md '%s/'", E2E_SOURCE, folder)) == 0);
    CHECK(run(makers, enough) == 0);
    one = kernel(&status);
    CHECK(captures() == 2);
    CHECK(is(one, "state", "swapped"));
    json_decref(status);
    if (test_failures)
        e2e_show_log();
    e2e_remove_cache();
    return test_result();
}
