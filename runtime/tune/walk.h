/* Walks over images of memory (replay.h), word by word: what a word becomes, and what of it
 * differs, is a function of that word's place alone, so that walks go in any order: here by
 * threads, and on the GPU by walk_device.cu, which is made from this very text and gives the same
 * bytes. Nothing here knows an image but by its address. */
#ifndef KG_WALK_H
#define KG_WALK_H

#include <stdint.h>

#ifdef __CUDACC__
#define WALK_FUNCTION static __device__ inline
#define WALK_CALLED static __device__ __noinline__ /* the driver compiles it in each replay */
#else
#include <string.h>
#define WALK_FUNCTION static inline
#define WALK_CALLED static inline
#endif

enum walk_kind {
    WALK_MIX,    /* out: y where the masks are set, else x (NULL: all ones) */
    WALK_DIFFER, /* bytes that differ between x and y where the masks are set */
    WALK_SUM,    /* of all words of x, each mixed with its place: tells contents apart */
    WALK_NUDGE,  /* out: the lowest bit of 4-byte words changed */
};
enum walk_source { WALK_IMAGE, WALK_ZEROS, WALK_PATTERN, WALK_POISON };

enum { WALK_MASKS = 3, WALK_SPANS = 8 };

struct walk_span {
    uint64_t low, size;
};

/* Images are at least 8-aligned, and have room for a whole last word. */
struct walk {
    uint32_t kind, source; /* enum walk_kind; of y: enum walk_source */
    const unsigned char *x, *y;
    unsigned char *out;
    const unsigned char *masks[WALK_MASKS]; /* all must be set; NULL: is */
    uint32_t invert;                        /* bit i: mask i counts where it is not set */
    uint64_t from, to;                      /* bytes; NUDGE: words that lie within */
    uint64_t seed, flip;                    /* of POISON, one_in and halves */
    uint64_t pattern[2];                    /* of PATTERN: bytes by place, modulo 16 */
    uint64_t shift;  /* MIX: y stands so many bytes behind, a multiple of 4, and the masks count
                        there  too */
    uint64_t one_in; /* MIX: but for one word of 4 bytes in so many, by chance, … */
    uint64_t skip;   /* … and for the one here */
    /* NUDGE: masks are what is written, what is read, and, inverted, what stays */
    uint32_t written;    /* words that are written; else those that are only read */
    uint32_t halves;     /* of these, by chance every other one */
    uint32_t span_count; /* 8-byte words of x that read as an address in here are left alone */
    struct walk_span spans[WALK_SPANS];
};

struct walked {
    uint64_t count; /* DIFFER: bytes; SUM: the sum */
    uint64_t first; /* DIFFER: the first one; UINT64_MAX: none */
};

WALK_FUNCTION uint64_t random_word(uint64_t seed, uint64_t index)
{
    uint64_t z = seed + (index + 1) * UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Any bits, or, of an odd seed, floats from 32 to 128: among random floats most sums are just the
 * larger one, and an addition where nothing should be added would not show. */
WALK_FUNCTION uint64_t walk_poison(uint64_t seed, uint64_t at)
{
    uint64_t word = random_word(seed, at);
    return seed & 1 ? (word & UINT64_C(0x00ffffff00ffffff)) | UINT64_C(0x4200000042000000) : word;
}

WALK_FUNCTION uint64_t walk_load(const unsigned char *image, uint64_t at)
{
#ifdef __CUDACC__
    return *(const uint64_t *)(image + at);
#else
    uint64_t word;
    memcpy(&word, image + at, sizeof word);
    return word;
#endif
}

/* At a multiple of 4. */
WALK_FUNCTION uint64_t walk_load_half(const unsigned char *image, uint64_t at)
{
#ifdef __CUDACC__
    return *(const uint32_t *)(image + at);
#else
    uint32_t word;
    memcpy(&word, image + at, sizeof word);
    return word;
#endif
}

WALK_FUNCTION void walk_store(unsigned char *image, uint64_t at, uint64_t word)
{
#ifdef __CUDACC__
    *(uint64_t *)(image + at) = word;
#else
    memcpy(image + at, &word, sizeof word);
#endif
}

WALK_FUNCTION uint64_t walk_mask(const struct walk *w, uint64_t at)
{
    uint64_t mask = UINT64_MAX;
    for (unsigned i = 0; i < WALK_MASKS; i++)
        if (w->masks[i])
            mask &= walk_load(w->masks[i], at) ^ (w->invert >> i & 1 ? UINT64_MAX : 0);
    if (at < w->from)
        mask &= UINT64_MAX << 8 * (w->from - at);
    if (at + 8 > w->to)
        mask &= UINT64_MAX >> 8 * (at + 8 - w->to);
    return mask;
}

/* 4 bytes of y at a multiple of 4, and of the masks, as far as there are any. */
WALK_FUNCTION uint64_t walk_behind(const struct walk *w, uint64_t at, uint64_t *mask)
{
    *mask = 0;
    if (at + 4 > w->to)
        return 0;
    *mask = UINT32_MAX;
    for (unsigned i = 0; i < WALK_MASKS; i++)
        if (w->masks[i])
            *mask &= walk_load_half(w->masks[i], at) ^ (w->invert >> i & 1 ? UINT32_MAX : 0);
    return walk_load_half(w->y, at);
}

WALK_FUNCTION uint64_t walk_sieve(const struct walk *w, uint64_t at)
{
    uint64_t mask = 0;
    for (unsigned half = 0; half < 2; half++) {
        uint64_t place = at + 4 * half;
        if (place != w->skip && random_word(w->seed, place / 4) % w->one_in)
            mask |= (uint64_t)UINT32_MAX << 32 * half;
    }
    return mask;
}

WALK_FUNCTION uint64_t walk_source(const struct walk *w, uint64_t at, uint64_t *mask)
{
    switch (w->source) {
    case WALK_POISON:
        return walk_poison(w->seed, at) ^ w->flip;
    case WALK_PATTERN:
        return w->pattern[at / 8 % 2];
    case WALK_IMAGE:
        break;
    default:
        return 0;
    }
    if (!w->shift)
        return walk_load(w->y, at);
    uint64_t low_mask, high_mask;
    uint64_t low = walk_behind(w, at + w->shift, &low_mask);
    uint64_t high = walk_behind(w, at + w->shift + 4, &high_mask);
    *mask &= low_mask | high_mask << 32;
    return low | high << 32;
}

WALK_FUNCTION void walk_mix(const struct walk *w, uint64_t at)
{
    uint64_t mask = walk_mask(w, at), y = 0;
    if (w->one_in)
        mask &= walk_sieve(w, at);
    if (mask)
        y = walk_source(w, at, &mask);
    if (!mask && w->x == w->out)
        return;
    uint64_t x = w->x ? walk_load(w->x, at) : UINT64_MAX;
    walk_store(w->out, at, (x & ~mask) | (y & mask));
}

WALK_FUNCTION void walk_differ(const struct walk *w, uint64_t at, struct walked *seen)
{
    uint64_t changed = walk_load(w->x, at);
    if (w->y)
        changed ^= walk_load(w->y, at);
    if (changed)
        changed &= walk_mask(w, at);
    for (unsigned i = 0; changed && i < 8; i++) {
        if (!(changed >> 8 * i & 255))
            continue;
        seen->count++;
        if (at + i < seen->first)
            seen->first = at + i;
    }
}

WALK_FUNCTION uint32_t walk_is_address(const struct walk *w, uint64_t value)
{
    for (uint32_t i = 0; i < w->span_count; i++)
        if (value - w->spans[i].low <= w->spans[i].size)
            return 1;
    return 0;
}

WALK_FUNCTION void walk_nudge(const struct walk *w, uint64_t at)
{
    uint64_t written = walk_load(w->masks[0], at), read = walk_load(w->masks[1], at), bits = 0;
    for (unsigned half = 0; half < 2; half++) {
        uint64_t place = at + 4 * half;
        uint32_t writes = (uint32_t)(written >> 32 * half), reads = (uint32_t)(read >> 32 * half);
        if (place >= w->from && place + 4 <= w->to && !writes == !w->written && (writes || reads))
            bits |= UINT64_C(1) << 32 * half;
    }
    if (bits && w->masks[2])
        bits &= ~walk_load(w->masks[2], at);
    if (bits && w->halves) {
        uint64_t chance = random_word(w->seed, at);
        bits &= (chance & 1) | (chance & 2) << 31;
    }
    if (bits && !walk_is_address(w, walk_load(w->x, at)))
        walk_store(w->out, at, walk_load(w->out, at) ^ bits);
}

WALK_FUNCTION void walk_word(const struct walk *w, uint64_t at, struct walked *seen)
{
    switch (w->kind) {
    case WALK_MIX:
        walk_mix(w, at);
        break;
    case WALK_DIFFER:
        walk_differ(w, at, seen);
        break;
    case WALK_SUM:
        seen->count += random_word(walk_load(w->x, at), at);
        break;
    default:
        walk_nudge(w, at);
    }
}

#ifndef __CUDACC__
/* All words that [from, to) touches, by threads of this process. */
void walk_here(const struct walk *w, struct walked *seen);
#endif

#endif
