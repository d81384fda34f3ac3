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

#endif
