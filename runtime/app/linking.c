/* Code that is linked in this process, by the driver (cuLink*) or by nvJitLink: the PTX texts that
 * went in, linked here into one, are raw material of the cubin that comes out. Inputs that are no
 * PTX add nothing: who needs them is seen to use what its module does not define. Bounded; what
 * does not fit is forgotten. */
#include "app/inside.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "code/ptx_link.h"

enum { LINKS = 16, BYTES = 4 << 20 };

struct linking {
    const void *link; /* NULL: free */
    struct ptx_linker *linker;
    size_t bytes;
    bool given_up;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct linking linkings[LINKS];
static unsigned next;

static void forget(struct linking *one)
{
    ptx_linker_free(one->linker);
    *one = (struct linking){0};
}

static struct linking *find(const void *link)
{
    for (unsigned i = 0; i < LINKS; i++)
        if (linkings[i].link == link)
            return &linkings[i];
    return NULL;
}

/* A new one takes a free place, or the oldest one's. */
static struct linking *find_or_make(const void *link)
{
    struct linking *one = find(link);
    if (one)
        return one;
    if (!(one = find(NULL))) {
        one = &linkings[next++ % LINKS];
        forget(one);
    }
    *one = (struct linking){.link = link, .linker = ptx_linker_create()};
    one->given_up = !one->linker;
    return one;
}

void linking_input(const void *link, const void *data, size_t size)
{
    enum image_kind kind;
    const void *start;
    size_t extent;
    char error[256] = "";
    if (!link || !size || image_extent(data, size, &kind, &start, &extent) != KG_OK ||
        kind != IMAGE_PTX)
        return;
    pthread_mutex_lock(&lock);
    struct linking *one = find_or_make(link);
    one->bytes += extent;
    if (!one->given_up && (one->bytes > BYTES || ptx_linker_add(one->linker, start, extent, error,
                                                                sizeof error) != KG_OK)) {
        one->given_up = true;
        log_line(KG_INFO, "what is linked has no raw material: %s",
                 *error ? error : "more than 4 MiB of PTX");
    }
    pthread_mutex_unlock(&lock);
}

void linking_output(const void *link, const void *cubin, size_t size)
{
    char error[256] = "", *text = NULL;
    kg_status status = KG_NOT_FOUND;
    pthread_mutex_lock(&lock);
    struct linking *one = link ? find(link) : NULL;
    if (one && !one->given_up && ptx_linker_count(one->linker))
        status = ptx_linker_link(one->linker, false, &text, error, sizeof error);
    pthread_mutex_unlock(&lock);
    if (status == KG_OK)
        material_add(cubin, size, text);
    else if (*error)
        log_line(KG_INFO, "what is linked has no raw material: %s", error);
}

void linking_end(const void *link)
{
    pthread_mutex_lock(&lock);
    struct linking *one = link ? find(link) : NULL;
    if (one)
        forget(one);
    pthread_mutex_unlock(&lock);
}

/* The parent's lock may be held by a thread that the child does not have. */
void linking_after_fork_child(void)
{
    pthread_mutex_init(&lock, NULL);
}
