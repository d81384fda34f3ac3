/* Maker "recorded:DIR": a model's replies out of files, each a whole reply as a model would give
 * it. The files DIR/NAME.md are offered in order of their names. A first line
 * "kernel: TEXT" makes a file serve only kernels whose mangled name holds TEXT, so that one folder
 * can serve several. */
#include "tune/makers.h"
#include "tune/reply.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int is_reply(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return length > 3 && *entry->d_name != '.' && !strcmp(entry->d_name + length - 3, ".md");
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Whether the file is for this kernel. */
static bool serves(const struct kg_bytes *file, const char *kernel)
{
    static const char tag[] = "kernel:";
    const char *text = (const char *)file->data;
    if (strncmp(text, tag, sizeof tag - 1))
        return true;
    const char *start = text + sizeof tag - 1;
    start += strspn(start, " \t");
    size_t length = strcspn(start, "\r\n");
    while (length && (start[length - 1] == ' ' || start[length - 1] == '\t'))
        length--;
    return length && memmem(kernel, strlen(kernel), start, length);
}

static kg_status offer(struct job *job, const char *path, const struct kg_bytes *file,
                       struct candidate *out)
{
    kg_status status = maker_reply(job, "recorded", (const char *)file->data, file->size, out);
    if (status == KG_BAD_INPUT)
        log_line(KG_WARN, "%s: %s", path, out->note);
    return status;
}

static kg_status pick(struct job *job, const char *dir, struct dirent **entries, int count,
                      unsigned attempt, struct candidate *out)
{
    for (int i = 0; i < count; i++) {
        char path[KG_PATH];
        struct kg_bytes file;
        if (path_make(path, "%s/%s", dir, entries[i]->d_name) != KG_OK ||
            file_read(path, REPLY_LIMIT, &file) != KG_OK)
            continue;
        bool found = serves(&file, job->model.entry) && !attempt--;
        kg_status status = found ? offer(job, path, &file, out) : KG_NO_CANDIDATE;
        bytes_free(&file);
        if (found)
            return status;
    }
    return KG_NO_CANDIDATE;
}

kg_status recorded_make(struct job *job, const char *argument, unsigned attempt, unsigned turn,
                        const struct candidate *previous, const char *message,
                        struct candidate *out)
{
    (void)previous, (void)message;
    *out = (struct candidate){.maker = "recorded"};
    if (turn)
        return KG_NO_CANDIDATE;
    struct dirent **entries = NULL;
    int count = *argument ? scandir(argument, &entries, is_reply, by_name) : -1;
    if (count < 0) {
        log_line(
            KG_WARN,
            "recorded: the folder \"%s\" cannot be read: %s; write recorded:DIR in KGENRT_MAKERS",
            argument, *argument ? strerror(errno) : "no folder given");
        return KG_NO_CANDIDATE;
    }
    kg_status status = pick(job, argument, entries, count, attempt, out);
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    return status;
}
