/* The handle table while others read it: growth, tombstones, recycled values. Worth most under
 * ThreadSanitizer. */
#include "app/handles.h"

#include <pthread.h>

#include "test.h"

enum { HANDLES = 5000, STABLE = 1000, ROUNDS = 20 };

static struct handle_table table;
static char values[2][HANDLES];
static atomic_bool stop;
static atomic_int wrong, looked;

static void *handle(unsigned i)
{
    return (void *)(0x10000 + 16 * (uintptr_t)i);
}

/* The first handles never die; of the others a reader sees nothing, or a value they have had. */
static void *reader(void *unused)
{
    while (!atomic_load(&stop)) {
        for (unsigned i = 0; i < HANDLES; i++) {
            void *value = handles_find(&table, handle(i));
            if (i < STABLE ? value != &values[0][i]
                           : value && value != &values[0][i] && value != &values[1][i])
                atomic_fetch_add(&wrong, 1);
        }
        atomic_fetch_add(&looked, 1);
    }
    return unused;
}

static void churn(void)
{
    pthread_t threads[3];
    for (unsigned i = 0; i < STABLE; i++)
        CHECK(handles_put(&table, handle(i), &values[0][i]));
    for (unsigned i = 0; i < 3; i++)
        CHECK(!pthread_create(&threads[i], NULL, reader, NULL));
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = STABLE; i < HANDLES; i++)
            CHECK(handles_put(&table, handle(i), &values[round % 2][i]));
        for (unsigned i = STABLE; i < HANDLES; i++)
            handles_remove(&table, handle(i));
    }
    while (atomic_load(&looked) < 6)
        ;
    atomic_store(&stop, true);
    for (unsigned i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    CHECK(!wrong);
}

static void meanings(void)
{
    static struct handle_table t;
    static struct handle_array *forgotten; /* left behind on purpose */
    int a, b;
    CHECK(!handles_find(&t, handle(1)) && !handles_find(&t, NULL));
    CHECK(!handles_put(&t, NULL, &a));
    handles_remove(&t, handle(1));
    CHECK(handles_put(&t, handle(1), &a) && handles_put(&t, handle(2), &a));
    CHECK(handles_put(&t, handle(3), &b));
    CHECK(handles_find(&t, handle(1)) == &a && !handles_find(&t, NULL));
    handles_remove(&t, handle(1));
    CHECK(!handles_find(&t, handle(1)) && handles_find(&t, handle(2)) == &a);
    CHECK(handles_put(&t, handle(1), &b)); /* the driver gave the value out again */
    CHECK(handles_find(&t, handle(1)) == &b);
    handles_remove_value(&t, &b, handle(3));
    CHECK(!handles_find(&t, handle(1)) && handles_find(&t, handle(3)) == &b);
    forgotten = t.array;
    handles_forget(&t);
    CHECK(forgotten != NULL);
    CHECK(!handles_find(&t, handle(2)) && handles_put(&t, handle(2), &b));
    CHECK(handles_find(&t, handle(2)) == &b);
}

/* Handles that come and go for ever do not make the table grow for ever. */
static void bounded(void)
{
    static struct handle_table t;
    int a;
    for (unsigned i = 0; i < 200000; i++) {
        (void)handles_put(&t, handle(i), &a);
        if (i >= 20)
            handles_remove(&t, handle(i - 20));
    }
    CHECK(t.array->mask + 1 <= 512);
    for (unsigned i = 0; i < 20; i++)
        CHECK(handles_find(&t, handle(199999 - i)) == &a);
}

int main(void)
{
    meanings();
    bounded();
    churn();
    return test_result();
}
