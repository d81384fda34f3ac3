/* Nine hostile replies against each of two kernels (tests/cheats): each is refused by the gate
 * named here, with a reason that `kgenrt show` prints; nothing is published. One real launch is
 * captured from each sample, and a worker gets it with the hostile replies as its maker. With the
 * second argument, a gate's name, that gate is switched off: the test must then fail, which is what
 * gates.c checks. */
#include "e2e.h"

static const struct {
    const char *name;
    const char *gates; /* that may refuse it, by comma: the first that can see it does */
} cheats[] = {
    {"block_wrong", "poison,compare"},
    {"borrows_input", "admission"},
    {"does_nothing", "poison,compare"},
    {"endless_loop", "instrumented"},
    {"illegal_address", "bounds,instrumented"},
    {"missing_tail", "poison,compare"},
    {"off_by_one", "poison,compare,bounds,instrumented"},
    {"past_end", "bounds,instrumented"},
    {"trusts_result", "stale"},
};

static bool listed(const char *gate, const char *gates)
{
    size_t length = strlen(gate);
    for (const char *at = strstr(gates, gate); length && at; at = strstr(at + 1, gate))
        if ((at == gates || at[-1] == ',') && (at[length] == ',' || !at[length]))
            return true;
    return false;
}

/* The reply alone in a folder, given to a worker with the capture. */
static void cheat(const char *sample, const char *capture, const char *name, const char *gates,
                  double deadline)
{
    char *cache = e2e_text("%s/%s-%s", e2e_cache, sample, name),
         *replies = e2e_text("%s-reply", cache);
    CHECK(system(e2e_text("mkdir -p '%s' && cp '%s/tests/cheats/%s/%s.md' '%s'", replies,
                          E2E_SOURCE, sample, name, replies)) == 0);
    setenv("KGENRT_CACHE", cache, 1);
    CHECK(e2e_run((const char *[]){e2e_cli(), "worker", "--once", capture, NULL},
                  (const char *[]){e2e_text("KGENRT_MAKERS=recorded:%s", replies),
                                   e2e_text("KGENRT_DEADLINE=%.0f", deadline), NULL},
                  3 * deadline + 60) == 0);
    json_t *list = e2e_json("list", NULL);
    CHECK(json_array_size(json_object_get(list, "variants")) == 0);
    json_decref(list);
    json_t *status = e2e_json("status", NULL);
    json_t *refusal = json_array_get(json_object_get(status, "rejections"), 0);
    const char *gate = json_string_value(json_object_get(refusal, "gate"));
    const char *reason = json_string_value(json_object_get(refusal, "reason"));
    fprintf(stderr, "%-10s %-16s %-10s %s\n", sample, name, gate ? gate : "(not refused)",
            reason ? reason : "");
    if (!CHECK(gate && listed(gate, gates)))
        e2e_show_log();
    CHECK(reason && *reason);
    /* a person sees the same */
    CHECK(e2e_run((const char *[]){e2e_cli(), "show", sample, NULL}, NULL, 60) == 0);
    CHECK(gate && strstr(e2e_output, gate) && reason && strstr(e2e_output, reason));
    json_decref(status);
}

int main(int argc, char **argv)
{
    e2e_begin(argc, argv);
    char *top = e2e_text("%s", e2e_cache);
    static const char *const samples[] = {"polynomial", "transpose"};
    for (int s = 0; s < 2; s++) {
        snprintf(e2e_cache, sizeof e2e_cache, "%s/%s", top, samples[s]);
        CHECK(mkdir(e2e_cache, 0700) == 0);
        setenv("KGENRT_CACHE", e2e_text("%s/first", e2e_cache), 1);
        const char *capture = e2e_captured(e2e_sample(samples[s]), "--small");
        double deadline = 15 + 5 * e2e_verdict_seconds(capture, samples[s]);
        for (size_t i = 0; capture && i < sizeof cheats / sizeof *cheats; i++)
            cheat(samples[s], capture, cheats[i].name, cheats[i].gates, deadline);
    }
    snprintf(e2e_cache, sizeof e2e_cache, "%s", top);
    e2e_remove_cache();
    return test_result();
}
