/* Plain test programs: main returns test_result(); CHECK counts, SKIP ends with 77. */
#ifndef KG_TEST_H
#define KG_TEST_H

#include <stdio.h>
#include <stdlib.h>

static int test_failures, test_checks;

#define CHECK(expression)                                                                          \
    (test_checks++,                                                                                \
     (expression) ? 1                                                                              \
                  : (test_failures++,                                                              \
                     fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #expression), 0))

#define SKIP(reason)                                                                               \
    do {                                                                                           \
        fprintf(stderr, "skipped: %s\n", reason);                                                  \
        exit(77);                                                                                  \
    } while (0)

/* A test that checked nothing fails. */
static inline int test_result(void)
{
    fprintf(stderr, "%d checks, %d failed\n", test_checks, test_failures);
    return test_failures || !test_checks;
}

#endif
