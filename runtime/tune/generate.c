/* The table of makers, and KGENRT_MAKERS: who is asked for candidates, in which order. */
#include "tune/makers.h"

#include "tune/reply.h"

#include <stdio.h>
#include <string.h>

const struct maker makers[] = {
    {"rules", rules_make, 0},
    {"recorded", recorded_make, 0},
    {"openai", openai_make, 2},
};
const unsigned maker_count = sizeof makers / sizeof *makers;

static const struct maker *maker_find(const char *name)
{
    for (unsigned i = 0; i < maker_count; i++)
        if (!strcmp(makers[i].name, name))
            return &makers[i];
    return NULL;
}

static char *trim(char *text)
{
    while (*text == ' ')
        text++;
    size_t length = strlen(text);
    while (length && text[length - 1] == ' ')
        text[--length] = 0;
    return text;
}

/* A text that does not fit is refused as a whole: half a folder's name is another folder. */
void makers_each(bool (*each)(void *self, const struct maker *maker, const char *argument),
                 void *self)
{
    const char *wanted = options()->makers;
    if (!*wanted)
        wanted = *options()->openai_url ? "rules,openai" : "rules";
    char copy[4 * KG_PATH];
    if ((size_t)snprintf(copy, sizeof copy, "%s", wanted) >= sizeof copy) {
        log_line(KG_WARN, "KGENRT_MAKERS is longer than %zu bytes: no maker is asked",
                 sizeof copy - 1);
        return;
    }
    char *rest = copy;
    for (char *item; (item = strsep(&rest, ","));) {
        item = trim(item);
        if (!*item)
            continue;
        char *argument = strchr(item, ':');
        if (argument)
            *argument++ = 0;
        const struct maker *maker = maker_find(item);
        if (!maker)
            log_line(KG_WARN,
                     "KGENRT_MAKERS: unknown maker \"%s\"; known: rules, recorded:DIR, openai",
                     item);
        else if (!each(self, maker, argument ? argument : ""))
            return;
    }
}

kg_status maker_reply(struct job *job, const char *maker, const char *text, size_t size,
                      struct candidate *out)
{
    char message[1024] = "";
    kg_status status = reply_parse(job, text, size, out, message, sizeof message);
    out->maker = maker;
    out->reply = arena_copy(&job->arena, text, size < REPLY_LIMIT ? size : REPLY_LIMIT);
    if (status == KG_BAD_INPUT)
        out->note = arena_copy(&job->arena, message, strlen(message));
    if (!out->reply || !out->note)
        return KG_NO_MEMORY;
    return status;
}
