/* The verdict "no faster variant" holds for its kernel and hardware, for a week, and ends with the
 * driver's version, the makers, the content of their folders, and the accuracy. */
#include "cache_fixture.h"

#include <sys/wait.h>
#include <time.h>
#include <utime.h>

static const char *dir;
static struct kg_id hardware, kernel;

/* Options are read once: in a process of its own, with this set. */
static bool holds(const char *variable, const char *value)
{
    int status = -1;
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        if (variable)
            setenv(variable, value, 1);
        _exit(judged_holds(dir, &hardware, &kernel, 13000));
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void put(void)
{
    int status = -1;
    pid_t child = fork();
    if (!child)
        _exit(judged_put(dir, &hardware, &kernel, 13000) != KG_OK);
    CHECK(waitpid(child, &status, 0) == child && !status);
}

static void aged(long seconds)
{
    char path[KG_PATH], key[KG_ID_TEXT], id[KG_ID_TEXT];
    struct utimbuf when = {time(NULL) + seconds, time(NULL) + seconds};
    snprintf(path, sizeof path, "%s/judged/%s-%s", dir, id_text(&hardware, key),
             id_text(&kernel, id));
    CHECK(!utime(path, &when));
}

int main(void)
{
    char makers[KG_PATH + 32], reply[KG_PATH];
    dir = fixture_folder("cache_judged");
    hardware = id_of("hardware");
    kernel = id_of("kernel");
    snprintf(reply, sizeof reply, "%s/replies", dir);
    CHECK(!mkdir(reply, 0700));
    snprintf(makers, sizeof makers, "rules, recorded:%s", reply);
    setenv("KGENRT_MAKERS", makers, 1);
    CHECK(!holds(NULL, NULL));
    put();
    CHECK(holds(NULL, NULL));
    CHECK(!holds("KGENRT_MAKERS", "rules") && !holds("KGENRT_ACCURACY", "rel:1e-5"));
    CHECK(!holds("KGENRT_OPENAI_URL", "http://localhost/v1"));
    aged(-7 * 86400 + 60);
    CHECK(holds(NULL, NULL));
    aged(-7 * 86400);
    CHECK(!holds(NULL, NULL));
    aged(86400); /* a clock that was wrong */
    CHECK(!holds(NULL, NULL));
    put();
    struct kg_id own = kernel;
    kernel = id_of("another");
    CHECK(!holds(NULL, NULL));
    kernel = own;
    CHECK(holds(NULL, NULL) && !judged_holds(dir, &hardware, &kernel, 13010));
    CHECK(judged_holds(dir, &hardware, &kernel, 13000));
    strcat(reply, "/1.md");
    CHECK(file_write(reply, "x", 1, 0600) == KG_OK);
    CHECK(!holds(NULL, NULL));
    put();
    judged_remove(dir, &hardware, &kernel);
    CHECK(!holds(NULL, NULL));
    return test_result();
}
