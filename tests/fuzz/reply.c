/* Replies: any bytes must give a candidate within the limits, or a message. */
#include <stdlib.h>
#include <string.h>

#include "../unit/make_fixture.h"
#include "tune/compile.h"
#include "tune/reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct job job;
    struct candidate c;
    char message[200] = "", words[100];
    fixture_job(&job);
    kg_status status = reply_parse(&job, (const char *)data, size, &c, message, sizeof message);
    if (status != KG_OK && !*message)
        abort();
    if (status == KG_OK) {
        const struct kg_launch *l = &c.launch;
        if (!l->grid.x || !l->grid.y || !l->grid.z || l->grid.x > INT32_MAX ||
            (uint64_t)l->block.x * l->block.y * l->block.z - 1 >= 1024 ||
            l->shared > SHARED_LIMIT || strlen(c.source) > SOURCE_LIMIT || !c.entry || !c.note ||
            c.global_count > 2)
            abort();
        if (source_admit(c.source, words, sizeof words) != KG_OK && !*words)
            abort();
        char entry[COMPILE_ENTRY];
        ptx_entries(c.source, entry);
        log_trim(c.source, words, sizeof words);
    }
    arena_free(&job.arena);
    return 0;
}
