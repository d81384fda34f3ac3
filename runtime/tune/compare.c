/* Comparing images: bitwise, or within a relative error per element where that was asked for.
 * Pure functions over bytes; no device. */
#include "tune/replay.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 4096 };

kg_status accuracy_parse(const char *text, struct accuracy *out)
{
    *out = (struct accuracy){0};
    if (accuracy_relative(text, &out->relative))
        return KG_OK;
    log_line(KG_ERROR, "KGENRT_ACCURACY='%s' is neither bitwise nor rel:X with 0 < X < 1", text);
    return KG_BAD_INPUT;
}

size_t first_difference(const unsigned char *a, const unsigned char *b, const unsigned char *mask,
                        size_t from, size_t total)
{
    for (size_t at = from; at < total;) {
        size_t size = total - at < CHUNK ? total - at : CHUNK;
        if (!memcmp(a + at, b + at, size)) {
            at += size;
            continue;
        }
        for (size_t end = at + size; at < end; at++)
            if (a[at] != b[at] && (!mask || mask[at]))
                return at;
    }
    return total;
}

static bool near(double got, double expected, double relative)
{
    if (isnan(expected) || isnan(got))
        return isnan(expected) && isnan(got);
    if (isinf(expected) || isinf(got))
        return got == expected;
    return fabs(got - expected) <= relative * fabs(expected);
}

static double value_at(const unsigned char *image, size_t at, enum element element)
{
    float single;
    double wide;
    if (element == ELEMENT_F64) {
        memcpy(&wide, image + at, sizeof wide);
        return wide;
    }
    memcpy(&single, image + at, sizeof single);
    return single;
}

bool results_equal(const struct replay_memory *memory, const unsigned char *got,
                   const unsigned char *expected, const struct accuracy *accuracy, size_t *at)
{
    size_t width = accuracy->element == ELEMENT_F64 ? 8 : 4;
    bool loose = accuracy->relative > 0 && accuracy->element != ELEMENT_BITS;
    *at = 0;
    for (;;) {
        *at = first_difference(got, expected, memory->written, *at, memory->total);
        if (*at >= memory->total)
            return true;
        size_t element = *at / width * width;
        if (!loose || element + width > memory->total ||
            !near(value_at(got, element, accuracy->element),
                  value_at(expected, element, accuracy->element), accuracy->relative))
            return false;
        *at = element + width;
    }
}

void difference_text(const struct replay_memory *memory, const unsigned char *got,
                     const unsigned char *expected, const struct accuracy *accuracy, size_t at,
                     char *text, size_t size)
{
    char place[160];
    const struct kg_dim block = memory->capture->launch.block;
    uint64_t threads = (uint64_t)block.x * block.y * block.z;
    size_t element = at & ~(size_t)3;
    uint32_t raw[2];
    memcpy(&raw[0], got + element, 4);
    memcpy(&raw[1], expected + element, 4);
    int used =
        snprintf(text, size, "%s: 0x%08x instead of 0x%08x (as float %.9g instead of %.9g",
                 memory_place(memory, element, place, sizeof place), raw[0], raw[1],
                 value_at(got, element, ELEMENT_F32), value_at(expected, element, ELEMENT_F32));
    if (used > 0 && (size_t)used < size && accuracy->element == ELEMENT_F64)
        used += snprintf(text + used, size - (size_t)used, "; as double %.17g instead of %.17g",
                         value_at(got, at & ~(size_t)7, ELEMENT_F64),
                         value_at(expected, at & ~(size_t)7, ELEMENT_F64));
    const char *plus = strstr(place, " + ");
    if (used <= 0 || (size_t)used >= size)
        return;
    if (plus && threads)
        snprintf(text + used, size - (size_t)used,
                 "; block %llu if each thread has one 4-byte element)",
                 strtoull(plus + 3, NULL, 10) / 4 / threads);
    else
        snprintf(text + used, size - (size_t)used, ")");
}

/* ---- what the original stores ------------------------------------------------------------------
 */

/* The type that a register gets by its last definition before `limit`, an instruction
 * "op.type %reg, …"; movs are followed. Textual: a doubt gives ELEMENT_BITS. */
static enum element defined_as(const char *start, const char *limit, const char *name,
                               unsigned depth)
{
    size_t length = strcspn(name, ",; \t}\n");
    const char *found = NULL;
    for (const char *p = start; (p = memmem(p, (size_t)(limit - p), name, length)); p += length) {
        const char *line = p;
        while (line > start && line[-1] != '\n')
            line--;
        line += strspn(line, " \t");
        size_t op = strcspn(line, " \t");
        if (p[length] == ',' && line + op + strspn(line + op, " \t") == p)
            found = line;
    }
    if (!found || depth > 8)
        return ELEMENT_BITS;
    char op[64];
    snprintf(op, sizeof op, "%.*s", (int)strcspn(found, " \t"), found);
    const char *type = strrchr(op, '.');
    if (!strncmp(op, "mov.", 4)) {
        const char *source = strchr(found, ',') + 1;
        source += strspn(source, " \t");
        if (*source == '%')
            return defined_as(start, found, source, depth + 1);
    }
    if (!strncmp(op, "ld.", 3) || !type)
        return ELEMENT_BITS; /* moved, not computed: compared by bits unless typed below */
    return !strcmp(type, ".f32") ? ELEMENT_F32 : !strcmp(type, ".f64") ? ELEMENT_F64 : ELEMENT_BITS;
}

/* Type of one store's registers: by the store's own type, else by their definitions. */
static enum element stored_as(const char *start, const char *store)
{
    char op[64];
    snprintf(op, sizeof op, "%.*s", (int)strcspn(store, " \t"), store);
    const char *type = strrchr(op, '.');
    if (type && !strcmp(type, ".f32"))
        return ELEMENT_F32;
    if (type && !strcmp(type, ".f64"))
        return ELEMENT_F64;
    const char *end = strchr(store, ';'), *p = strchr(store, ']');
    enum element all = ELEMENT_BITS;
    bool any = false;
    if (!end || !p)
        return ELEMENT_BITS;
    for (; (p = strchr(p, '%')) && p < end; p++) {
        enum element one = defined_as(start, store, p, 0);
        if (one == ELEMENT_BITS || (any && one != all))
            return ELEMENT_BITS;
        all = one;
        any = true;
    }
    return all;
}

enum element element_of_ptx(const char *ptx, const char *entry)
{
    const char *start = ptx;
    size_t length = strlen(entry);
    while ((start = strstr(start, ".entry"))) {
        start += 6;
        start += strspn(start, " \t\n");
        if (!strncmp(start, entry, length) && strchr("( \t\n", start[length]))
            break;
    }
    const char *end = start ? strstr(start, "\n}") : NULL;
    enum element all = ELEMENT_BITS;
    bool any = false;
    if (!end || !length)
        return ELEMENT_BITS;
    for (const char *p = start; (p = strpbrk(p, "sarc")) && p < end; p++) {
        if (p[-1] != '\t' && p[-1] != ' ' && p[-1] != '\n')
            continue;
        if (!strncmp(p, "atom.", 5) || !strncmp(p, "red.", 4) || !strncmp(p, "call", 4))
            return ELEMENT_BITS;
        if (strncmp(p, "st.", 3) || !strncmp(p, "st.shared", 9) || !strncmp(p, "st.local", 8))
            continue;
        enum element one = stored_as(start, p);
        if (one == ELEMENT_BITS || (any && one != all))
            return ELEMENT_BITS;
        all = one;
        any = true;
    }
    return all;
}
