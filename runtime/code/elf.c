/* The ELF of a cubin: extent, sections, symbols. Every table and name is checked against the file
 * before it is lent. Knows nothing of PTX or of fatbins. */
#include "parts.h"

#include <elf.h>
#include <stdio.h>

enum {
    MACHINE_CUDA = 190,
    ABI_OLD = 7,        /* flags: architecture in the low byte; CUDA up to 12 */
    OTHER_ENTRY = 0x10, /* st_other of a kernel's symbol */
    ACCELERATED = 0x8,  /* e_flags of sm_90a, new ABI */
    ACCELERATED_OLD = 0x800,
    SECTION_MAX = 1 << 20, /* more than any real cubin has */
};

bool elf_is(const unsigned char *data, size_t size)
{
    return (!size || size >= sizeof(Elf64_Ehdr)) && !memcmp(data, ELFMAG, SELFMAG) &&
           data[EI_CLASS] == ELFCLASS64 && data[EI_DATA] == ELFDATA2LSB;
}

/* A range within the limit and, where that is known, within the file. */
static bool inside(uint64_t offset, uint64_t length, size_t size)
{
    uint64_t end = size ? size : IMAGE_LIMIT;
    return offset <= end && length <= end - offset;
}

static Elf64_Shdr header_at(const unsigned char *data, uint64_t table, uint32_t index)
{
    Elf64_Shdr header;
    memcpy(&header, data + table + (uint64_t)index * sizeof header, sizeof header);
    return header;
}

/* Number of sections; one table entry tells it where there are more than 65,279. */
static bool count_sections(const unsigned char *data, size_t size, const Elf64_Ehdr *head,
                           uint32_t *count)
{
    *count = head->e_shnum;
    if (!head->e_shoff)
        return !*count;
    if (head->e_shentsize != sizeof(Elf64_Shdr) || !inside(head->e_shoff, sizeof(Elf64_Shdr), size))
        return false;
    if (!*count) {
        uint64_t many = header_at(data, head->e_shoff, 0).sh_size;
        if (many > SECTION_MAX)
            return false;
        *count = (uint32_t)many;
    }
    return inside(head->e_shoff, (uint64_t)*count * sizeof(Elf64_Shdr), size);
}

static void reach(uint64_t *extent, uint64_t offset, uint64_t length)
{
    if (offset + length > *extent)
        *extent = offset + length;
}

kg_status elf_extent(const unsigned char *data, size_t size, size_t *extent)
{
    Elf64_Ehdr head;
    uint32_t sections;
    if (!elf_is(data, size))
        return KG_BAD_INPUT;
    memcpy(&head, data, sizeof head);
    if (head.e_machine != MACHINE_CUDA || !count_sections(data, size, &head, &sections))
        return KG_BAD_INPUT;
    uint64_t end = sizeof head;
    reach(&end, head.e_shoff, (uint64_t)sections * sizeof(Elf64_Shdr));
    for (uint32_t i = 0; i < sections; i++) {
        Elf64_Shdr section = header_at(data, head.e_shoff, i);
        if (section.sh_type == SHT_NULL || section.sh_type == SHT_NOBITS)
            continue;
        if (!inside(section.sh_offset, section.sh_size, size))
            return KG_BAD_INPUT;
        reach(&end, section.sh_offset, section.sh_size);
    }
    uint64_t programs = (uint64_t)head.e_phnum * sizeof(Elf64_Phdr);
    if (head.e_phnum &&
        (head.e_phentsize != sizeof(Elf64_Phdr) || !inside(head.e_phoff, programs, size)))
        return KG_BAD_INPUT;
    for (uint32_t i = 0; i < head.e_phnum; i++) {
        Elf64_Phdr program;
        memcpy(&program, data + head.e_phoff + i * sizeof program, sizeof program);
        if (!inside(program.p_offset, program.p_filesz, size))
            return KG_BAD_INPUT;
        reach(&end, program.p_offset, program.p_filesz);
    }
    if (head.e_phnum)
        reach(&end, head.e_phoff, programs);
    *extent = end;
    return KG_OK;
}

static void open_symbols(struct elf *elf)
{
    struct elf_section table, strings;
    for (uint32_t i = 1; i < elf->section_count; i++) {
        if (!elf_section_at(elf, i, &table) || table.type != SHT_SYMTAB || !table.data)
            continue;
        if (!elf_section_at(elf, table.link, &strings) || !strings.data || !strings.size ||
            strings.data[strings.size - 1])
            return;
        elf->symbols = table.data;
        elf->symbol_count = (uint32_t)(table.size / sizeof(Elf64_Sym));
        elf->strings = strings.data;
        elf->strings_size = strings.size;
        return;
    }
}

kg_status elf_open(const unsigned char *data, size_t size, struct elf *out)
{
    Elf64_Ehdr head;
    size_t extent;
    *out = (struct elf){.data = data, .size = size};
    if (!size || elf_extent(data, size, &extent) != KG_OK)
        return KG_BAD_INPUT;
    memcpy(&head, data, sizeof head);
    count_sections(data, size, &head, &out->section_count);
    out->sections_at = head.e_shoff;
    bool old = head.e_ident[EI_ABIVERSION] <= ABI_OLD;
    out->sm = old ? head.e_flags & 0xff : (head.e_flags >> 8) & 0xff;
    out->exact = head.e_flags & (old ? ACCELERATED_OLD : ACCELERATED);
    out->relocatable = head.e_type == ET_REL;
    uint32_t names = head.e_shstrndx;
    if (names == SHN_XINDEX && out->section_count)
        names = header_at(data, head.e_shoff, 0).sh_link;
    if (names >= out->section_count)
        return out->section_count ? KG_BAD_INPUT : KG_OK;
    Elf64_Shdr section = header_at(data, head.e_shoff, names);
    if (section.sh_type == SHT_NULL || section.sh_type == SHT_NOBITS || !section.sh_size ||
        data[section.sh_offset + section.sh_size - 1])
        return KG_BAD_INPUT;
    out->names = data + section.sh_offset;
    out->names_size = section.sh_size;
    open_symbols(out);
    return KG_OK;
}

bool elf_section_at(const struct elf *elf, uint32_t index, struct elf_section *out)
{
    if (index >= elf->section_count)
        return false;
    Elf64_Shdr header = header_at(elf->data, elf->sections_at, index);
    if (header.sh_name >= elf->names_size)
        return false;
    bool bytes = header.sh_type != SHT_NULL && header.sh_type != SHT_NOBITS;
    *out = (struct elf_section){.name = (const char *)elf->names + header.sh_name,
                                .type = header.sh_type,
                                .link = header.sh_link,
                                .info = header.sh_info,
                                .flags = header.sh_flags,
                                .data = bytes ? elf->data + header.sh_offset : NULL,
                                .size = header.sh_size};
    return true;
}

bool elf_symbol_at(const struct elf *elf, uint32_t index, struct elf_symbol *out)
{
    if (index >= elf->symbol_count)
        return false;
    Elf64_Sym symbol;
    memcpy(&symbol, elf->symbols + (uint64_t)index * sizeof symbol, sizeof symbol);
    if (symbol.st_name >= elf->strings_size)
        return false;
    *out = (struct elf_symbol){.name = (const char *)elf->strings + symbol.st_name,
                               .kind = ELF64_ST_TYPE(symbol.st_info),
                               .entry = ELF64_ST_TYPE(symbol.st_info) == STT_FUNC &&
                                        symbol.st_other & OTHER_ENTRY,
                               .section = symbol.st_shndx,
                               .value = symbol.st_value,
                               .size = symbol.st_size};
    return true;
}

uint32_t elf_find(const struct elf *elf, const char *prefix, const char *suffix,
                  struct elf_section *out)
{
    size_t length = strlen(prefix);
    for (uint32_t i = 1; i < elf->section_count; i++) {
        struct elf_section section;
        if (!elf_section_at(elf, i, &section) || strncmp(section.name, prefix, length) ||
            strcmp(section.name + length, suffix))
            continue;
        *out = section;
        return i;
    }
    return 0;
}
