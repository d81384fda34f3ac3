/* Roles against truth, on every kernel of the corpus that the software GPU runs: what is said to be
 * a free or unused scalar, or data that reach no address, branch or loop, is changed at random; the
 * bytes touched, and the number of instructions, must stay the same. And whatever a launch reads or
 * writes, some parameter was said to lead there. */
#include "ptx/corpus.h"

#include "code/roles.h"
#include "test.h"

#include <string.h>

enum { ROUNDS = 3, BUFFER_MAX = 1 << 16 };

struct run {
    struct exec_touched ranges[CORPUS_ARGS];
    uint8_t bits[2][CORPUS_ARGS][BUFFER_MAX / 8];
    struct exec_result result;
    uint64_t hash;
};

static unsigned kernels, scalars, unused, buffers, skipped;

static uint32_t seed = 7;

static uint32_t draw(void)
{
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

static void run(struct corpus_case *c, struct run *out)
{
    memset(out->bits, 0, sizeof out->bits);
    for (unsigned i = 0; i < c->buffer_count; i++)
        out->ranges[i] = (struct exec_touched){c->buffers[i].base, c->buffers[i].size,
                                               out->bits[0][i], out->bits[1][i]};
    struct exec_record record = {out->ranges, c->buffer_count};
    struct exec_config config = {.threads = 1, .record = &record};
    corpus_run(c, NULL, &config, &out->result);
    out->hash = corpus_hash(c);
}

static bool same_way(const struct run *a, const struct run *b, bool instructions)
{
    return a->result.fault == b->result.fault && !memcmp(a->bits, b->bits, sizeof a->bits) &&
           (!instructions || a->result.instructions == b->result.instructions);
}

static void complain(const struct corpus_case *c, const struct roles *roles,
                     const struct role_set *uses, const char *what, uint32_t number)
{
    char text[200];
    fprintf(stderr, "%s %s: %s %u: %s\n", c->entry->file, c->entry->entry, what, number,
            roles_text(uses, text, sizeof text));
}

/* ---- scalars ---- */

static void change_scalars(struct corpus_case *c, const struct roles *roles,
                           const struct run *before)
{
    static struct run after;
    for (uint32_t i = 0; i < roles->piece_count; i++) {
        const struct roles_piece *piece = &roles->pieces[i];
        unsigned char saved[CORPUS_PARAM_BYTES];
        if (piece->pointer || piece->pinned)
            continue;
        memcpy(saved, c->params, sizeof saved);
        for (unsigned round = 0; round < ROUNDS; round++) {
            for (uint32_t byte = 0; byte < piece->size; byte++)
                c->params[piece->offset + byte] = round ? (unsigned char)draw() : 0;
            corpus_fill(c, 1);
            run(c, &after);
            if (!CHECK(same_way(before, &after, true)) ||
                (!piece->uses.roles && !CHECK(before->hash == after.hash)))
                complain(c, roles, &piece->uses, "parameter byte", piece->offset);
        }
        memcpy(c->params, saved, sizeof saved);
        scalars++;
        unused += !piece->uses.roles;
    }
}

/* ---- data ---- */

static bool leads_to(const struct roles *roles, const struct roles_access *access, uint32_t byte)
{
    const struct origin_set set = origins_set(&roles->origins, access->set);
    for (uint32_t i = 0; i < set.count; i++)
        if (set.items[i] >= ORIGIN_LOADED ||
            (!roles->origins.origins[set.items[i]].var &&
             roles->origins.origins[set.items[i]].word == byte / 8))
            return true; /* what was loaded may lead anywhere */
    return !set.count;
}

static uint32_t byte_of(const struct corpus_case *c, const struct corpus_buffer *pointer)
{
    return c->func->params[pointer->param]->offset + pointer->offset;
}

/* Roles of all that is read from the buffer, through whichever of its pointers. */
static unsigned data_roles(const struct corpus_case *c, const struct roles *roles,
                           const struct corpus_buffer *buffer)
{
    unsigned found = 0;
    for (unsigned p = 0; p < c->pointer_count; p++) {
        if (c->pointers[p].base != buffer->base)
            continue;
        for (uint32_t i = 0; i < roles->access_count; i++)
            if (roles->accesses[i].read && roles->accesses[i].spaces & SPACE_GLOBAL &&
                leads_to(roles, &roles->accesses[i], byte_of(c, &c->pointers[p])))
                found |= roles->accesses[i].data.roles;
    }
    return found;
}

static void change_data(struct corpus_case *c, const struct roles *roles, const struct run *before)
{
    static struct run after;
    for (unsigned b = 0; b < c->buffer_count; b++) {
        unsigned found = data_roles(c, roles, &c->buffers[b]);
        if (found & (ROLE_POINTER | ROLE_INDEX | ROLE_BOUND | ROLE_BRANCH | ROLE_UNKNOWN))
            continue;
        for (unsigned round = 0; round < ROUNDS; round++) {
            unsigned char *data = (unsigned char *)(uintptr_t)c->buffers[b].base;
            corpus_fill(c, 1);
            for (uint64_t i = 0; i < c->buffers[b].size; i++)
                data[i] = (unsigned char)draw();
            run(c, &after);
            /* a guarded operation that is no access counts as executed or not */
            if (!CHECK(same_way(before, &after, !(found & ROLE_SELECT)))) {
                struct role_set uses = {.roles = found};
                complain(c, roles, &uses, "buffer", b);
            }
        }
        buffers++;
    }
}

/* ---- accesses ---- */

static bool any(const uint8_t *bits, uint64_t size)
{
    for (uint64_t i = 0; i < size; i++)
        if (exec_was_touched(bits, i))
            return true;
    return false;
}

/* A buffer that is read (written): some access that reads (writes) leads there. */
static void check_touched(struct corpus_case *c, const struct roles *roles, const struct run *run)
{
    for (unsigned b = 0; b < c->buffer_count; b++)
        for (unsigned write = 0; write < 2; write++) {
            bool said = false;
            if (!any(run->bits[write][b], c->buffers[b].size))
                continue;
            for (unsigned p = 0; p < c->pointer_count; p++)
                for (uint32_t i = 0; i < roles->access_count; i++)
                    said |= c->pointers[p].base == c->buffers[b].base &&
                            (write ? roles->accesses[i].written : roles->accesses[i].read) &&
                            leads_to(roles, &roles->accesses[i], byte_of(c, &c->pointers[p]));
            if (!CHECK(said))
                fprintf(stderr, "%s %s: buffer %u %s\n", c->entry->file, c->entry->entry, b,
                        write ? "written" : "read");
        }
    bool loaded = false; /* addresses that stand in memory lead to buffers too */
    for (uint32_t i = 0; i < roles->access_count; i++) {
        const struct origin_set set = origins_set(&roles->origins, roles->accesses[i].set);
        loaded |= set.count && set.items[set.count - 1] >= ORIGIN_LOADED;
    }
    for (unsigned p = 0; p < c->pointer_count && !loaded; p++) {
        const struct roles_piece *piece = roles_at(roles, byte_of(c, &c->pointers[p]));
        unsigned b = 0;
        while (c->buffers[b].base != c->pointers[p].base)
            b++;
        bool touched =
            any(run->bits[0][b], c->buffers[b].size) || any(run->bits[1][b], c->buffers[b].size);
        if (CHECK(piece) && touched && c->pointers[p].arg->kind == CORPUS_POINTER &&
            !CHECK(piece->pointer))
            complain(c, roles, &piece->uses, "no pointer", piece->offset);
    }
}

static void check_case(struct corpus_case *c)
{
    static struct run before, again;
    struct kg_arena arena = {0};
    struct roles roles;
    bool small = true;
    for (unsigned b = 0; b < c->buffer_count; b++)
        small &= c->buffers[b].size <= BUFFER_MAX;
    if (small && CHECK(roles_make(&c->module, c->func, &arena, &roles) == KG_OK)) {
        corpus_fill(c, 1);
        run(c, &before);
        corpus_fill(c, 1);
        run(c, &again);
        if (before.result.fault == EXEC_OK && before.hash == again.hash &&
            same_way(&before, &again, true)) {
            kernels++;
            check_touched(c, &roles, &before);
            change_scalars(c, &roles, &before);
            change_data(c, &roles, &before);
        } else {
            skipped++;
        }
    } else {
        skipped++;
    }
    arena_free(&arena);
}

int main(void)
{
    for (unsigned i = 0; i < corpus_count; i++) {
        struct corpus_case c;
        if (!corpus_open(&corpus[i], &c))
            continue;
        if (corpus[i].traits & (CORPUS_ORDER | CORPUS_FAULTS | CORPUS_RACES | CORPUS_SPINS |
                                CORPUS_UNRUN | CORPUS_CLOCK))
            skipped++;
        else
            check_case(&c);
        corpus_close(&c);
    }
    fprintf(stderr,
            "%u kernels (%u left out): %u scalars changed, %u of them unused; %u buffers changed\n",
            kernels, skipped, scalars, unused, buffers);
    CHECK(kernels && scalars && buffers);
    return test_result();
}
