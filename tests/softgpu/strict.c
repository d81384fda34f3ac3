/* SOFTGPU_STRICT: what the device looks for beyond what a GPU notices, and what is remembered of
 * freed memory, so that a fault says that an address was freed and not merely that it is none.
 *
 *   unwritten  reads of memory that nobody has written since it was allocated
 *   races      data races within and across blocks
 *   freed      addresses are not used again, so that every use after a free is found
 *   all        all of them */
#include "strict.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { FREED = 512 };

static const struct {
    const char *word;
    unsigned value;
} words[] = {{"unwritten", EXEC_STRICT_UNWRITTEN},
             {"races", EXEC_STRICT_RACES},
             {"freed", STRICT_FREED},
             {"all", EXEC_STRICT_UNWRITTEN | EXEC_STRICT_RACES | STRICT_FREED}};
static unsigned wanted;

static struct exec_range freed[FREED]; /* the last ones: a ring */
static unsigned next;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

bool strict_read(void)
{
    const char *text = getenv("SOFTGPU_STRICT");
    for (const char *at = text; at && *at;) {
        size_t length = strcspn(at, ",");
        unsigned value = 0;
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (strlen(words[i].word) == length && !memcmp(words[i].word, at, length))
                value = words[i].value;
        if (!value) {
            soft_say("SOFTGPU_STRICT=%.200s: a list of unwritten, races, freed or all is wanted",
                     text);
            return false;
        }
        wanted |= value;
        at += length + (at[length] == ',');
    }
    return true;
}

unsigned strict_wanted(void)
{
    return wanted;
}

void strict_taken(uint64_t base, uint64_t size)
{
    if (wanted & EXEC_STRICT_UNWRITTEN)
        exec_fill_unwritten(base, size);
    pthread_mutex_lock(&mutex);
    for (unsigned i = 0; i < FREED; i++) /* what was freed there is forgotten */
        if (base < freed[i].base + freed[i].size && freed[i].base < base + size)
            freed[i].size = 0;
    pthread_mutex_unlock(&mutex);
}

void strict_freed(uint64_t base, uint64_t size)
{
    pthread_mutex_lock(&mutex);
    freed[next++ % FREED] = (struct exec_range){base, size, false};
    pthread_mutex_unlock(&mutex);
}

void strict_was_freed(uint64_t address, struct exec_range *out)
{
    pthread_mutex_lock(&mutex);
    for (unsigned i = 0; i < FREED; i++)
        if (address - freed[i].base < freed[i].size)
            *out = freed[i];
    pthread_mutex_unlock(&mutex);
}
