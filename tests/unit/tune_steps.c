/* The table of steps: in order, each announced before it runs, and the first that fails ends it. */
#include "test.h"
#include "tune/job.h"

#include <string.h>

static char trace[128];
static kg_status second_gives;

static void entered(void *self, const char *name)
{
    strcat(strcat(strcat(trace, "<"), name), ">");
    (*(int *)self)++;
}

static kg_status first(void *self)
{
    strcat(trace, "1");
    return KG_OK;
}

static kg_status second(void *self)
{
    strcat(trace, "2");
    return second_gives;
}

static kg_status third(void *self)
{
    strcat(trace, "3");
    return KG_OK;
}

int main(void)
{
    static const struct step steps[] = {{"a", first}, {"b", second}, {"c", third}};
    const char *failed = "x";
    int count = 0;
    CHECK(steps_run(steps, 3, &count, entered, &failed) == KG_OK && !failed && count == 3);
    CHECK(!strcmp(trace, "<a>1<b>2<c>3"));
    *trace = 0;
    second_gives = KG_SLOWER;
    CHECK(steps_run(steps, 3, &count, entered, &failed) == KG_SLOWER && count == 5);
    CHECK(failed && !strcmp(failed, "b") && !strcmp(trace, "<a>1<b>2"));
    CHECK(name_listed("a,bc,d", "bc") && name_listed("bc", "bc") && !name_listed("abc,bcd", "bc") &&
          !name_listed(NULL, "bc") && !name_listed("", "bc"));
    return test_result();
}
