/* Recorded replies out of a folder, and the table of makers that KGENRT_MAKERS chooses from. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "make_fixture.h"
#include "test.h"
#include "tune/makers.h"

#define BODY(entry)                                                                                \
    "words\n\n```cuda\nextern \"C\" __global__ void " entry                                        \
    "() {}\n```\n\n```json\n{\"entry\": \"" entry                                                  \
    "\", \"params\": [\"x\", \"y\", \"p\", \"n\", \"m\"], \"launch\": {\"grid\": [\"gx\", 1, 1], " \
    "\"block\": [32, 1, 1], "                                                                      \
    "\"shared\": 0}, \"guards\": [], \"globals\": [], \"note\": \"\"}\n```\n"

static struct job job;
static char dir[] = "/tmp/make_recorded_XXXXXX";

static void put(const char *name, const char *text)
{
    char path[KG_PATH];
    CHECK(path_make(path, "%s/%s", dir, name) == KG_OK &&
          file_write(path, text, strlen(text), 0600) == KG_OK);
}

static kg_status ask(unsigned attempt, struct candidate *c)
{
    return recorded_make(&job, dir, attempt, 0, NULL, NULL, c);
}

static void folder(void)
{
    struct candidate c;
    put("30-any.md", BODY("third"));
    put("10-mine.md", "kernel: secret\r\n" BODY("first"));
    put("20-other.md", "kernel: somebody\n" BODY("second"));
    put("40-bad.md", "kernel:   _Z6secretPKfPf  \nnothing here\n");
    put("50-empty.md", "kernel:\n" BODY("fifth"));
    put("60.txt", BODY("sixth"));
    put(".70.md", BODY("seventh"));
    put("80-last.md", BODY("eighth"));
    CHECK(ask(0, &c) == KG_OK && !strcmp(c.entry, "first") && c.launch.grid.x == 40 &&
          !strcmp(c.maker, "recorded"));
    CHECK(ask(1, &c) == KG_OK && !strcmp(c.entry, "third"));
    CHECK(ask(2, &c) == KG_BAD_INPUT && has(c.note, "no ```cuda") && has(c.reply, "nothing here"));
    CHECK(ask(3, &c) == KG_OK && !strcmp(c.entry, "eighth"));
    CHECK(ask(4, &c) == KG_NO_CANDIDATE && ask(1000, &c) == KG_NO_CANDIDATE);
    CHECK(recorded_make(&job, dir, 0, 1, &c, "wrong", &c) == KG_NO_CANDIDATE);
    CHECK(recorded_make(&job, "", 0, 0, NULL, NULL, &c) == KG_NO_CANDIDATE);
    CHECK(recorded_make(&job, "/nonexistent", 0, 0, NULL, NULL, &c) == KG_NO_CANDIDATE);
    char path[KG_PATH];
    CHECK(path_make(path, "%s/10-mine.md", dir) == KG_OK);
    CHECK(recorded_make(&job, path, 0, 0, NULL, NULL, &c) == KG_NO_CANDIDATE);
    /* what is too long is passed over */
    CHECK(truncate(path, 2 << 20) == 0);
    CHECK(ask(0, &c) == KG_OK && !strcmp(c.entry, "third"));
}

static char seen[512];

static bool note(void *self, const struct maker *maker, const char *argument)
{
    snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%s(%s)%u ", maker->name, argument,
             maker->turns);
    return --*(int *)self != 0;
}

/* Options are read once a process, so each case has one of its own. */
static bool lists(const char *makers, const char *url, int most, const char *expected)
{
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        setenv("KGENRT_MAKERS", makers, 1);
        setenv("KGENRT_OPENAI_URL", url, 1);
        makers_each(note, &most);
        if (strcmp(seen, expected))
            fprintf(stderr, "\"%s\": %s\n", makers, seen);
        _exit(strcmp(seen, expected) != 0);
    }
    int status;
    return waitpid(pid, &status, 0) == pid && status == 0;
}

static void table(void)
{
    CHECK(maker_count == 3);
    CHECK(lists("", "", 9, "rules()0 ") && lists("", "http://x", 9, "rules()0 openai()2 "));
    CHECK(lists("rules, openai, recorded:/a b/c:d", "", 9,
                "rules()0 openai()2 recorded(/a b/c:d)0 "));
    CHECK(lists("recorded:x", "http://x", 9, "recorded(x)0 ") &&
          lists(" openai , ,rules ", "", 9, "openai()2 rules()0 "));
    CHECK(lists("magic,rules", "", 9, "rules()0 ") && lists("rules,openai", "", 1, "rules()0 ") &&
          lists(",", "", 9, ""));
    static char large[5000];
    memset(large, ',', sizeof large - 1);
    CHECK(lists(large, "", 9, ""));
}

int main(void)
{
    table(); /* first: its children must not have read their options yet */
    fixture_job(&job);
    CHECK(mkdtemp(dir) != NULL);
    folder();
    char command[KG_PATH];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    CHECK(system(command) == 0);
    arena_free(&job.arena);
    return test_result();
}
