/* Where machine code came from: PTX that a compiler in this process made beside a cubin, by the
 * cubin's hash. A kernel that would be "machine code only" has raw material then. Bounded; never
 * guesses: other bytes are another cubin. */
#include "app/inside.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { ORIGINS = 1024 };
#define ORIGINS_BYTES ((size_t)64 << 20)

struct origin {
    struct kg_id cubin; /* hash of its bytes */
    char *ptx;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct origin origins[ORIGINS]; /* a ring: the oldest give way */
static unsigned next;
static size_t bytes;

static struct origin *find(const struct kg_id *cubin)
{
    for (unsigned i = 0; i < ORIGINS; i++)
        if (origins[i].ptx && id_equal(&origins[i].cubin, cubin))
            return &origins[i];
    return NULL;
}

static void forget(struct origin *origin)
{
    if (!origin->ptx)
        return;
    bytes -= strlen(origin->ptx) + 1;
    free(origin->ptx);
    origin->ptx = NULL;
}

void origin_add(const void *cubin, size_t size, char *ptx)
{
    struct kg_id id;
    enum image_kind kind;
    const void *data;
    size_t extent, length = strlen(ptx) + 1;
    if (image_extent(cubin, size, &kind, &data, &extent) != KG_OK || kind != IMAGE_ELF) {
        free(ptx);
        return;
    }
    hash_data(cubin, extent, &id); /* all that a load call, which gives no length, can know */
    pthread_mutex_lock(&lock);
    if (find(&id) || length > ORIGINS_BYTES / 4) {
        pthread_mutex_unlock(&lock);
        free(ptx);
        return;
    }
    forget(&origins[next]);
    for (unsigned i = 1; i < ORIGINS && bytes + length > ORIGINS_BYTES; i++)
        forget(&origins[(next + i) % ORIGINS]);
    origins[next] = (struct origin){id, ptx};
    bytes += length;
    next = (next + 1) % ORIGINS;
    pthread_mutex_unlock(&lock);
}

bool origin_join(const void *cubin, size_t size, struct kg_bytes *out)
{
    struct kg_id id;
    hash_data(cubin, size, &id);
    pthread_mutex_lock(&lock);
    const struct origin *origin = find(&id);
    bool joined = origin && image_join(cubin, size, origin->ptx, out) == KG_OK;
    pthread_mutex_unlock(&lock);
    return joined;
}

/* The parent's lock may be held by a thread that the child does not have. */
void origins_after_fork_child(void)
{
    pthread_mutex_init(&lock, NULL);
}
