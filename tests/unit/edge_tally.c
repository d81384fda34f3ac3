/* Launches are counted apart by thread, and no count is lost once each thread has its tally. */
#include "app/tally.h"

#include <pthread.h>

#include "test.h"

enum { THREADS = 6, LAUNCHES = 100000 };

static struct kernel kernel;
static pthread_barrier_t met, ready;

static uint64_t launch(void)
{
    struct tally *tally = tally_of(&kernel);
    tally_count(&tally->launches);
    return tally_number(tally);
}

static void *launcher(void *number)
{
    (void)launch(); /* the second thread that is seen: tallies are wanted */
    pthread_barrier_wait(&met);
    pthread_barrier_wait(&ready);
    for (int i = 0; i < LAUNCHES; i++)
        *(uint64_t *)number = launch();
    return NULL;
}

int main(void)
{
    pthread_t all[THREADS];
    uint64_t numbers[THREADS];
    for (uint64_t i = 1; i <= 3; i++)
        CHECK(launch() == i);
    tally_tick(&kernel);
    CHECK(!atomic_load(&kernel.tallies) && tally_launches(&kernel) == 3);
    CHECK(!pthread_barrier_init(&met, NULL, THREADS + 1));
    CHECK(!pthread_barrier_init(&ready, NULL, THREADS + 1));
    for (int i = 0; i < THREADS; i++)
        CHECK(!pthread_create(&all[i], NULL, launcher, &numbers[i]));
    pthread_barrier_wait(&met);
    uint64_t before = tally_launches(&kernel);
    CHECK(before > 3 && before <= 3 + THREADS); /* they shared one */
    tally_tick(&kernel);
    CHECK(atomic_load(&kernel.tallies));
    pthread_barrier_wait(&ready);
    for (int i = 0; i < 20; i++)
        tally_tick(&kernel);
    for (int i = 0; i < THREADS; i++)
        CHECK(!pthread_join(all[i], NULL) && numbers[i] >= LAUNCHES);
    uint64_t sum = before + (uint64_t)THREADS * LAUNCHES;
    CHECK(tally_launches(&kernel) == sum && kernel_launches(&kernel) == sum);
    tally_tick(&kernel); /* everybody's launches are known */
    CHECK(launch() == sum + 1);
    CHECK(kernel_swapped(&kernel) == 0 && kernel_refused(&kernel, REFUSED_SCALAR) == 0);
    tally_free(&kernel);
    return test_result();
}
