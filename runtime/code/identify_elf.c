/* The kernel id of machine code: the entry's section with the sections it calls into, its own
 * constants, parameter records and relocations. Symbol numbers, debug sections and names of
 * functions are left out. */
#include "parts.h"

#include <elf.h>

enum {
    SECTIONS_MAX = 1024, /* that one entry reaches */
    PARAM_CBANK = 0x0a,
    EXTERNS = 0x0f,
};

struct reached {
    uint32_t sections[SECTIONS_MAX], count;
};

/* Number of a section in order of first mention; NO_NUMBER above the limit. */
static uint32_t reach(struct reached *reached, uint32_t section)
{
    for (uint32_t i = 0; i < reached->count; i++)
        if (reached->sections[i] == section)
            return i;
    if (reached->count == SECTIONS_MAX)
        return NO_NUMBER;
    reached->sections[reached->count] = section;
    return reached->count++;
}

static void hash_section(struct kg_hash *hash, const struct elf_section *section)
{
    hash_u64(hash, section->size);
    if (section->data)
        hash_bytes(hash, section->data, section->size);
}

/* What a relocation points to: code, which is reached; or a variable, whose name counts. */
static void hash_target(struct kg_hash *hash, const struct elf *elf, uint32_t number,
                        struct reached *reached)
{
    struct elf_symbol symbol;
    struct elf_section section;
    if (!elf_symbol_at(elf, number, &symbol)) {
        hash_text(hash, "nothing");
        return;
    }
    hash_u64(hash, symbol.value);
    if (symbol.section && elf_section_at(elf, symbol.section, &section) &&
        !strncmp(section.name, ".text.", 6))
        hash_u64(hash, reach(reached, symbol.section));
    else
        hash_name(hash, symbol.name);
}

static void hash_relocations(struct kg_hash *hash, const struct elf *elf, uint32_t target,
                             struct reached *reached)
{
    struct elf_section section;
    for (uint32_t i = 1; i < elf->section_count; i++) {
        if (!elf_section_at(elf, i, &section) || section.info != target || !section.data ||
            (section.type != SHT_RELA && section.type != SHT_REL))
            continue;
        uint64_t entry = section.type == SHT_RELA ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
        for (uint64_t at = 0; at + entry <= section.size; at += entry) {
            uint64_t info = read_u64(section.data + at + 8);
            hash_u64(hash, read_u64(section.data + at));
            hash_u64(hash, ELF64_R_TYPE(info));
            hash_u64(hash, section.type == SHT_RELA ? read_u64(section.data + at + 16) : 0);
            hash_target(hash, elf, (uint32_t)ELF64_R_SYM(info), reached);
        }
    }
}

/* Records of .nv.info.<entry>, but for the symbol numbers in some of them. */
static void hash_info(struct kg_hash *hash, const struct elf_section *section)
{
    unsigned attribute, size;
    const unsigned char *data;
    for (uint64_t at = 0; info_next(section, &at, &attribute, &data, &size);) {
        unsigned skip = attribute == EXTERNS ? size : attribute == PARAM_CBANK && size > 4 ? 4 : 0;
        hash_u64(hash, attribute);
        hash_u64(hash, size);
        hash_bytes(hash, data + skip, size - skip);
    }
}

kg_status hash_elf(struct kg_hash *hash, const struct elf *elf, const char *entry)
{
    static const char *const own[] = {".nv.constant0.", ".nv.constant2.", ".nv.shared.",
                                      ".nv.local."};
    struct reached reached = {0};
    struct elf_section section;
    uint32_t text = elf_find(elf, ".text.", entry, &section);
    if (!text || !section.data)
        return KG_NOT_FOUND;
    hash_text(hash, "elf 1");
    hash_u64(hash, elf->sm);
    reach(&reached, text);
    for (uint32_t i = 0; i < reached.count; i++) {
        if (!elf_section_at(elf, reached.sections[i], &section))
            return KG_BAD_INPUT;
        hash_section(hash, &section);
        hash_relocations(hash, elf, reached.sections[i], &reached);
        if (reached.count == SECTIONS_MAX)
            return KG_LIMIT;
    }
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        hash_text(hash, own[i]);
        if (elf_find(elf, own[i], entry, &section))
            hash_section(hash, &section);
    }
    if (elf_find(elf, ".nv.info.", entry, &section) && section.data)
        hash_info(hash, &section);
    return KG_OK;
}
