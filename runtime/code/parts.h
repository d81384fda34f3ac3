/* Private doors between the files of this folder: containers, ELF, parameters, identity. Nobody
 * outside runtime/code includes it. Input is hostile everywhere: functions here take the bytes that
 * may be read and check every offset against them. */
#ifndef KG_CODE_PARTS_H
#define KG_CODE_PARTS_H

#include <string.h>

#include "code.h"

static inline uint16_t read_u16(const unsigned char *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static inline uint32_t read_u32(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static inline uint64_t read_u64(const unsigned char *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* No image, stored or unpacked, is larger than this: what claims to be is damaged. */
#define IMAGE_LIMIT ((uint64_t)512 << 20)

/* ---- fatbin.c ---- */

enum fatbin_kind { FATBIN_PTX = 1, FATBIN_ELF = 2 };
enum fatbin_packing { FATBIN_STORED, FATBIN_LZ4, FATBIN_ZSTD };
/* Where an entry runs: later devices too, later ones of its family, or just its own architecture
 * (the `a` of sm_90a). */
enum fatbin_reach { REACH_LATER, REACH_FAMILY, REACH_EXACT };

/* One entry; points into the container. */
struct fatbin_entry {
    unsigned kind; /* enum fatbin_kind; others exist and are passed over */
    unsigned sm;
    enum fatbin_reach reach;
    enum fatbin_packing packing;
    const unsigned char *payload;
    size_t stored, unpacked; /* bytes */
    const char *options;     /* not terminated; NULL: none */
    size_t options_size;
};

/* Bytes of the fatbin at data, headers and all. size 0: its header is believed. */
kg_status fatbin_extent(const unsigned char *data, size_t size, size_t *extent);
/* Walks the entries of one or several fatbins that follow one another. *position starts as 0.
 * KG_NOT_FOUND at the end. */
kg_status fatbin_next(const unsigned char *data, size_t size, size_t *position,
                      struct fatbin_entry *out);
/* The payload, decompressed; PTX without its NULs. */
kg_status fatbin_unpack(const struct fatbin_entry *entry, struct kg_bytes *out);

/* ---- elf.c ---- */

struct elf_section {
    const char *name; /* terminated, inside the file */
    uint32_t type, link, info;
    uint64_t flags;
    const unsigned char *data; /* NULL for a section without bytes in the file */
    uint64_t size;
};

struct elf {
    const unsigned char *data;
    size_t size;
    unsigned sm;
    bool exact; /* runs on just this architecture */
    bool relocatable;
    uint32_t section_count;
    const unsigned char *symbols, *strings; /* of .symtab; NULL: none */
    uint32_t symbol_count;
    uint64_t strings_size, names_size;
    uint64_t sections_at;
    const unsigned char *names;
};

struct elf_symbol {
    const char *name;
    unsigned kind; /* 0 none, 1 object, 2 function, 3 section */
    bool entry;    /* a kernel */
    uint32_t section;
    uint64_t value, size;
};

bool elf_is(const unsigned char *data, size_t size);
/* Bytes of the file by its headers. size 0: they are believed. */
kg_status elf_extent(const unsigned char *data, size_t size, size_t *extent);
/* Checks the headers and opens; elf lends from data. */
kg_status elf_open(const unsigned char *data, size_t size, struct elf *out);
/* False if the section or symbol lies (partly) outside the file. */
bool elf_section_at(const struct elf *elf, uint32_t index, struct elf_section *out);
bool elf_symbol_at(const struct elf *elf, uint32_t index, struct elf_symbol *out);
/* The section `prefix``suffix`; its index, or 0. */
uint32_t elf_find(const struct elf *elf, const char *prefix, const char *suffix,
                  struct elf_section *out);

#endif
