/* Exact rewriting of whole kernels: every kernel of the corpus with its scalars and launch known,
 * all of them or some, at several values and launches, leaves the same bytes in memory as the
 * original. */
#include <stdlib.h>
#include <string.h>

#include "code/code.h"
#include "ptx/corpus.h"
#include "test.h"

enum { SCALARS = 256, ROUNDS = 5 };

static unsigned long totals[PASS_COUNT];
static unsigned opened, compared, rewritten;

static bool is_pointer(const struct corpus_case *c, uint32_t param, uint32_t offset)
{
    for (uint32_t i = 0; i < c->pointer_count; i++)
        if (c->pointers[i].param == param && c->pointers[i].offset / 8 == offset / 8)
            return true;
    return false;
}

/* The scalars among the parameters' bytes, those whose bit in `wanted` is set. */
static unsigned known_scalars(const struct corpus_case *c, uint64_t wanted, struct kg_scalar *out)
{
    unsigned count = 0, number = 0;
    for (uint32_t i = 0; i < c->func->param_count; i++) {
        const struct ptx_var *param = c->func->params[i];
        for (uint32_t at = 0; at < param->size && count < SCALARS; at += 8) {
            uint16_t size = (uint16_t)(param->size - at < 8 ? param->size - at : 8);
            if (is_pointer(c, i, at) || !(wanted >> (number++ & 63) & 1))
                continue;
            out[count] = (struct kg_scalar){(uint16_t)i, (uint16_t)at, size, 0, 0};
            memcpy(&out[count++].value, c->params + param->offset + at, size);
        }
    }
    return count;
}

static char *rewrite(const struct corpus_case *c, uint64_t wanted, const struct kg_launch *launch)
{
    static struct kg_param params[1024];
    struct kg_scalar scalars[SCALARS];
    struct kg_bytes out = {0};
    unsigned done[PASS_COUNT], count = known_scalars(c, wanted, scalars);
    for (uint32_t i = 0; i < c->func->param_count && i < 1024; i++)
        params[i] =
            (struct kg_param){c->func->params[i]->offset, (uint32_t)c->func->params[i]->size};
    kg_status status = ptx_rewrite((char *)c->text.data, c->entry->entry, launch, params,
                                   c->func->param_count, scalars, count, &out, done);
    if (!CHECK(status == KG_OK || status == KG_NO_CANDIDATE))
        fprintf(stderr, "%s: %s\n", c->entry->entry, status_text(status));
    for (unsigned i = 0; i < PASS_COUNT && status == KG_OK; i++)
        totals[i] += done[i];
    return (char *)out.data;
}

/* Both, from the same bytes. */
static void compare(struct corpus_case *c, const struct corpus_entry *launched, const char *text,
                    uint64_t seed)
{
    const struct corpus_entry *row = c->entry;
    unsigned char params[CORPUS_PARAM_BYTES];
    const struct exec_config config = {.threads = 1};
    struct exec_result results[2];
    uint64_t hashes[2];
    for (unsigned side = 0; side < 2; side++) {
        memcpy(params, c->params, sizeof params);
        corpus_fill(c, seed); /* of the row's own arguments */
        memcpy(c->params, params, sizeof params);
        c->entry = launched;
        corpus_run(c, side ? text : NULL, &config, &results[side]);
        c->entry = row;
        hashes[side] = corpus_hash(c);
    }
    bool ended = results[0].fault == EXEC_OK && results[1].fault == EXEC_OK;
    bool same = results[0].fault == results[1].fault && (!ended || hashes[0] == hashes[1]);
    compared += ended;
    if (!CHECK(same))
        fprintf(stderr, "%s %s: %s; %s\n", c->entry->file, c->entry->entry, results[0].text,
                results[1].text);
}

/* In the file that is about indices, numbers smaller than the row's are as safe: they are sizes. */
static void shrink(struct corpus_case *c, const struct corpus_entry *entry, unsigned round)
{
    for (uint32_t i = 0; i < c->func->param_count && i < CORPUS_ARGS; i++) {
        const struct corpus_arg *arg = &entry->args[i];
        const struct ptx_var *param = c->func->params[i];
        if (arg->kind == CORPUS_END || arg->within || entry->args[i + 1].within)
            break; /* behind a struct, arguments are no longer parameters */
        int64_t value = round == 4 ? 1 : arg->integer / (round + 1);
        if (arg->kind == CORPUS_INTEGER && arg->integer > 1 && param->size <= 8)
            memcpy(c->params + param->offset, &value, param->size);
    }
}

static void check_entry(const struct corpus_entry *row)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct corpus_case c;
        struct corpus_entry entry = *row;
        if (!corpus_open(row, &c))
            return;
        opened++;
        if (round >= 2 && !strcmp(row->file, "index"))
            shrink(&c, row, round);
        if (round == 3 && entry.launch.grid.x > 1)
            entry.launch.grid.x /= 2;
        uint64_t wanted = round == 1 ? 0x5555555555555555 : round == 3 ? 0xaaaaaaaaaaaaaaaa : ~0ull;
        char *text = rewrite(&c, wanted, round != 4 ? &entry.launch : NULL);
        if (text) {
            rewritten++;
            compare(&c, &entry, text, round + 1);
        }
        free(text);
        corpus_close(&c);
    }
}

int main(void)
{
    for (unsigned i = 0; i < corpus_count; i++)
        if (!(corpus[i].traits & (CORPUS_ORDER | CORPUS_RACES | CORPUS_SPINS | CORPUS_CLOCK)))
            check_entry(&corpus[i]);
    for (unsigned i = 0; i < PASS_COUNT; i++)
        printf("%6lu %s\n", totals[i], pass_rows[i].title);
    printf("%u openings, %u texts rewritten, %u launches compared\n", opened, rewritten, compared);
    CHECK(opened);
    /* Most have scalars or an index that a launch decides; few end in a fault on purpose. */
    CHECK(rewritten > opened / 2 && compared > rewritten / 2);
    return test_result();
}
