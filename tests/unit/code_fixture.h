/* Fixtures of the code_* tests: sources given to nvcc in a folder of their own, sections taken out
 * of the objects it makes. A machine without nvcc skips. */
#ifndef CODE_FIXTURE_H
#define CODE_FIXTURE_H

#include <elf.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "code/code.h"
#include "test.h"

static char fixture_dir[64];

static inline void fixture_begin(void)
{
    if (access(NVCC, X_OK))
        SKIP("no nvcc");
    strcpy(fixture_dir, "/tmp/kgenrt_code_XXXXXX");
    if (!mkdtemp(fixture_dir)) {
        perror(fixture_dir);
        exit(1);
    }
}

static inline char *fixture_path(const char *name)
{
    static char paths[8][256];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", fixture_dir, name);
    return path;
}

__attribute__((format(printf, 1, 2))) static inline bool fixture_run(const char *format, ...)
{
    char command[2048];
    int at = snprintf(command, sizeof command, "cd %s && ", fixture_dir);
    va_list args;
    va_start(args, format);
    vsnprintf(command + at, sizeof command - (size_t)at, format, args);
    va_end(args);
    int status = system(command);
    if (status)
        fprintf(stderr, "%s: status %d\n", command, status);
    return !status;
}

static inline void fixture_end(void)
{
    fixture_run("rm -rf %s", fixture_dir);
}

static inline void fixture_write(const char *name, const char *text)
{
    if (file_write(fixture_path(name), text, strlen(text), 0600) != KG_OK)
        exit(1);
}

static inline struct kg_bytes fixture_read(const char *name)
{
    struct kg_bytes bytes;
    if (file_read(fixture_path(name), 256 << 20, &bytes) != KG_OK) {
        fprintf(stderr, "%s: cannot be read\n", fixture_path(name));
        exit(1);
    }
    return bytes;
}

/* The bytes of a section of a host object file; empty if it has none of that name. */
static inline struct kg_bytes fixture_section(const char *object, const char *name)
{
    struct kg_bytes file = fixture_read(object), out = {0};
    Elf64_Ehdr head;
    Elf64_Shdr names, section;
    memcpy(&head, file.data, sizeof head);
    memcpy(&names, file.data + head.e_shoff + head.e_shstrndx * sizeof names, sizeof names);
    for (unsigned i = 0; i < head.e_shnum && !out.data; i++) {
        memcpy(&section, file.data + head.e_shoff + i * sizeof section, sizeof section);
        if (strcmp((char *)file.data + names.sh_offset + section.sh_name, name))
            continue;
        out.data = calloc(1, section.sh_size + 1);
        out.size = section.sh_size;
        memcpy(out.data, file.data + section.sh_offset, section.sh_size);
    }
    bytes_free(&file);
    return out;
}

/* PTX text without what fatbinary leaves out: comments, and white space but for one blank between
 * words. In place. */
static inline char *fixture_plain(char *text)
{
    char *to = text;
    for (char *at = text; *at;) {
        if (!strncmp(at, "//", 2)) {
            at += strcspn(at, "\n");
        } else if (isspace((unsigned char)*at)) {
            at++;
            if (to > text && to[-1] != ' ')
                *to++ = ' ';
        } else {
            *to++ = *at++;
        }
    }
    while (to > text && to[-1] == ' ')
        to--;
    *to = 0;
    return text;
}

#endif
