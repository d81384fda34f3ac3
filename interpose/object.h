/* What a loaded object says of itself in its dynamic section. Read by the look-up rules and by the
 * auditor, at moments when nothing of libc may be called: no allocation, no lock, no sanitizer's
 * check, no call at all. */
#ifndef KG_OBJECT_H
#define KG_OBJECT_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

#define EARLY __attribute__((no_sanitize("address", "thread", "undefined")))

EARLY static inline bool text_equal(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

/* The address that a row of the dynamic section stands for; NULL: no such row. The dynamic linker
 * relocates them in place in some objects, and not in others. */
EARLY static inline const void *object_table(const struct link_map *map, ElfW(Sxword) tag)
{
    for (const ElfW(Dyn) *d = map ? map->l_ld : NULL; d && d->d_tag != DT_NULL; d++)
        if (d->d_tag == tag)
            return (const void *)(d->d_un.d_ptr < map->l_addr ? d->d_un.d_ptr + map->l_addr
                                                              : d->d_un.d_ptr);
    return NULL;
}

/* Whether this is the library's own name for itself: files may be called anything. */
EARLY static inline bool object_named(const struct link_map *map, const char *soname)
{
    const char *strings = object_table(map, DT_STRTAB);
    for (const ElfW(Dyn) *d = strings ? map->l_ld : NULL; d && d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_SONAME)
            return text_equal(strings + d->d_un.d_val, soname);
    return false;
}

EARLY static inline uint32_t object_hash(const char *name)
{
    uint32_t hash = 5381;
    while (*name)
        hash = hash * 33 + (unsigned char)*name++;
    return hash;
}

/* The symbol's number by the GNU hash table, or by going through all of an older table; 0: it is
 * not defined here. */
EARLY static inline uint32_t object_find(const struct link_map *map, const ElfW(Sym) * symbols,
                                         const char *strings, const char *name)
{
    const uint32_t *table = object_table(map, DT_GNU_HASH), *old = object_table(map, DT_HASH);
    for (uint32_t i = 1; !table && old && i < old[1]; i++)
        if (symbols[i].st_shndx != SHN_UNDEF && text_equal(strings + symbols[i].st_name, name))
            return i;
    if (!table || !table[0])
        return 0;
    uint32_t buckets = table[0], first = table[1], hash = object_hash(name);
    const uint32_t *bucket = table + 4 + table[2] * (sizeof(ElfW(Addr)) / sizeof *table);
    const uint32_t *chain = bucket + buckets;
    for (uint32_t i = bucket[hash % buckets]; i >= first && i; i++) {
        if ((chain[i - first] | 1) == (hash | 1) && symbols[i].st_shndx != SHN_UNDEF &&
            text_equal(strings + symbols[i].st_name, name))
            return i;
        if (chain[i - first] & 1)
            break;
    }
    return 0;
}

/* The address of what this object defines under a name; NULL: nothing. */
EARLY static inline void *object_symbol(const struct link_map *map, const char *name)
{
    const ElfW(Sym) *symbols = object_table(map, DT_SYMTAB);
    const char *strings = object_table(map, DT_STRTAB);
    uint32_t i = symbols && strings ? object_find(map, symbols, strings, name) : 0;
    return i ? (void *)(map->l_addr + symbols[i].st_value) : NULL;
}

#endif
