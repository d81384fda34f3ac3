/* Private doors between the files of this folder: containers, ELF, parameters, identity. Nobody
 * outside runtime/code includes it. Input is hostile everywhere: functions here take the bytes that
 * may be read and check every offset against them. */
#ifndef KG_CODE_PARTS_H
#define KG_CODE_PARTS_H

#include <string.h>

#include "code.h"
#include "ptx.h"

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

/* ---- image.c ---- */

enum { WRAPPER_MAGIC = 0x466243B1 };

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

/* ---- needs.c: numbered things, and what an entry needs ---- */

/* Gives things (a pointer, and an offset where one pointer is not enough) dense numbers in order of
 * their first mention. A hash table in an arena. */
struct numbers {
    struct kg_arena *arena;
    struct number_slot *slots;
    uint32_t capacity, count; /* capacity: a power of two, or 0 */
};
#define NO_NUMBER UINT32_MAX
/* NO_NUMBER: not mentioned yet. */
uint32_t number_find(const struct numbers *numbers, const void *thing, uint64_t offset);
/* The same, but numbers what is new; NO_NUMBER when memory is out. */
uint32_t number_of(struct numbers *numbers, const void *thing, uint64_t offset);

/* Calls each for the operand and all its parts. */
void operand_each(const struct ptx_operand *operand,
                  void (*each)(void *self, const struct ptx_operand *operand), void *self);

/* The functions that an entry calls or names, transitively, itself first, and the module variables
 * that these name, or that those variables' initialisers name; in order of first use. */
struct needs {
    uint32_t func_count, var_count;
    const struct ptx_func **funcs;
    const struct ptx_var **vars;
    struct numbers func_numbers, var_numbers; /* index into funcs, vars */
    bool indirect;                            /* a call's target is not known */
    bool failed;                              /* no memory, or too many */
};
/* entry NULL: all functions and variables of the module. Memory: arena's. */
kg_status needs_make(const struct ptx_module *module, const struct ptx_func *entry,
                     struct kg_arena *arena, struct needs *out);
/* Whether it is a function or variable that is needed; all declarations of one variable are. */
bool needs_item(const struct needs *needs, const struct ptx_item *item);
/* Items of one statement stand together and begin at one place; its text reaches to the next
 * statement's, or to `size`, the whole text's. Returns the first item behind. */
uint32_t statement_end(const struct ptx_module *module, uint32_t item, uint32_t size,
                       uint32_t *end);

/* Bytes of shared and local memory that they declare (model.c). */
uint32_t needs_shared(const struct needs *needs);
uint32_t needs_local(const struct needs *needs);

/* ---- slice.c ---- */

/* The text, which ends with a NUL, without the entries of other names (entry NULL:
 * whole); owned. */
kg_status ptx_slice(const struct kg_bytes *ptx, const char *entry, struct kg_bytes *out);

/* ---- params.c ---- */

/* Layout and pointers of model, whose arena it uses, from the entry's PTX. KG_LIMIT: beyond what a
 * model can say. */
kg_status params_of_ptx(const struct needs *needs, struct kernel_model *model);
/* The record of a .nv.info section at *at, which moves behind it; false at the end. */
bool info_next(const struct elf_section *section, uint64_t *at, unsigned *attribute,
               const unsigned char **data, unsigned *size);
/* The layout alone, from the cubin's records. */
kg_status params_of_elf(const struct elf *elf, const char *entry, struct kernel_model *model);

/* ---- eligible.c ---- */

enum eligible_reason {
#define ELIGIBLE(name, text) ELIGIBLE_##name,
#include "eligible.def"
#undef ELIGIBLE
    ELIGIBLE_COUNT
};

/* Which reasons apply, and the first line that gave each (0: none). */
struct eligible {
    uint64_t reasons; /* bits 1 << enum eligible_reason */
    uint32_t lines[ELIGIBLE_COUNT];
};
void eligible_add(struct eligible *eligible, enum eligible_reason reason, uint32_t line);
/* Adds what the functions and variables of needs give. */
void eligible_scan(const struct ptx_module *module, const struct needs *needs,
                   struct eligible *out);
/* The first of the table that applies, as text; NULL: none. */
const char *eligible_first(const struct eligible *eligible);

/* ---- identify.c, identify_elf.c ---- */

/* A mangled name without what changes when only the source's folder does: the hashes of anonymous
 * namespaces. */
void hash_name(struct kg_hash *hash, const char *name);
/* The canonical form of needs.funcs[0] and all that it needs. text: what the tree was parsed from.
 */
void hash_ptx(struct kg_hash *hash, const struct ptx_module *module, const struct needs *needs,
              const char *text);
/* The machine code of an entry with what it calls, constants and relocations. KG_NOT_FOUND if there
 * is none. */
kg_status hash_elf(struct kg_hash *hash, const struct elf *elf, const char *entry);

#endif
