/* What a person reads who goes by hand from a program to a verified variant on the software GPU:
 * doctor, capture, replay, worker --once, list, show. No driver, or nothing that matches, is said
 * with what to do about it. */
#include "e2e.h"

static bool says(const char *text)
{
    if (strstr(e2e_output, text))
        return true;
    fprintf(stderr, "not in the output: \"%s\"; it is:\n%s\n", text, e2e_output);
    return false;
}

/* The one file in DIR/captures. */
static const char *captured(void)
{
    char *folder = e2e_text("%s/captures", e2e_cache);
    const char *cli = e2e_cli(), *sample = e2e_sample("polynomial");
    CHECK(e2e_run((const char *[]){cli, "capture", "-o", folder, "-k", "nosuch", sample,
                                   "--launches", "60", NULL},
                  NULL, 120) == 3);
    CHECK(says("Nothing that matches nosuch was captured") &&
          says("polynomial, launched 60 times, 100.0% of the GPU time"));
    CHECK(e2e_run((const char *[]){cli, "capture", "-o", folder, sample, "--nonsense", NULL}, NULL,
                  120) == 3);
    CHECK(says("The program ended with status 2") && says("kgenrt saw no kernel"));
    /* A launch is captured some ticks of the watcher after the kernel got hot. */
    CHECK(e2e_run((const char *[]){cli, "capture", "-o", folder, "-k", "poly", sample, "--seconds",
                                   "2", NULL},
                  NULL, 120) == 0);
    char *at = strstr(e2e_output, folder), *end = at ? strstr(at, ".kgcap") : NULL;
    if (!CHECK(end && says("  polynomial, ")))
        return NULL;
    return e2e_text("%.*s", (int)(end - at) + 6, at);
}

static void replayed(const char *capture)
{
    const char *const words[] = {e2e_cli(), "replay", capture, NULL};
    CHECK(e2e_run(words, NULL, 120) == 0);
    CHECK(says("polynomial: ") && says("the best of 20 runs") && says("on             softgpu"));
    char *first = strstr(e2e_output, "  result "), *line = e2e_text("%s", first ? first : "");
    CHECK(strlen(line) > 64);
    CHECK(e2e_run(words, NULL, 120) == 0 && says(line)); /* the same digest again */
    if (access("/dev/nvidiactl", F_OK)) {
        CHECK(e2e_run(words, (const char *[]){"LD_LIBRARY_PATH=", NULL}, 120) == 1);
        CHECK(says("no GPU driver") && says("the capture was made on softgpu"));
    }
}

static void tuned(const char *capture)
{
    const char *cli = e2e_cli();
    CHECK(e2e_run((const char *[]){cli, "worker", "--once", capture, NULL},
                  (const char *[]){e2e_replies("polynomial"), NULL}, 240) == 0);
    CHECK(says("polynomial: done: 1 published, 0 refused") && says("kgenrt show KERNEL"));
    CHECK(e2e_run((const char *[]){cli, "list", NULL}, NULL, 60) == 0);
    CHECK(says("softgpu sm_90") && says("recorded"));
    CHECK(e2e_run((const char *[]){cli, "show", "poly", NULL}, NULL, 60) == 0);
    CHECK(says("verified       on softgpu sm_90, driver for CUDA ") &&
          says("passed         replay observed vacuity") &&
          says("65516 bytes that the original writes") && says("timed          cold caches: "));
    /* The record keeps the PTX and the launch; the capture has them itself. */
    CHECK(e2e_run((const char *[]){cli, "show", "--analysis", "poly", NULL}, NULL, 60) == 0);
    CHECK(says("replaceable    yes") && says("parameter 0: reads [0, 65516) exactly; in bounds") &&
          says("parameter 1: writes [0, 65516) exactly; in bounds") && says("pinned, ") &&
          says("stride 4, 4 sectors a warp") && says("always 7 times"));
    CHECK(e2e_run((const char *[]){cli, "show", "--analysis", "--json", capture, NULL}, NULL, 60) ==
          0);
    CHECK(says("\"complete\": true"));
    sleep(1); /* jobs bear their second */
    CHECK(e2e_run((const char *[]){cli, "worker", "--once", NULL}, NULL, 60) == 0);
    CHECK(says("No capture was worked off"));
}

int main(int argc, char **argv)
{
    e2e_begin(argc, argv);
    if (e2e_gpu)
        SKIP("its words are of the software GPU");
    CHECK(e2e_run((const char *[]){e2e_cli(), "doctor", NULL}, NULL, 60) <= 1);
    CHECK(says("ok    audit") && says("/libkgenrt_audit.so"));
    CHECK(says("this is the software GPU: its times are modelled"));
    const char *capture = captured();
    if (capture) {
        replayed(capture);
        tuned(capture);
    }
    e2e_remove_cache();
    return test_result();
}
