/* What a program's file says, before it is started, about whether a library can be preloaded into
 * it. Only what is sure is said: a program of which nothing is known here is started like any
 * other. Scripts are followed to their interpreter. */
#include "program.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { HEAD = 4096, MOST_SCRIPTS = 4, MOST_SEGMENTS = 128, LOADER = 192 };

#define SAY(out, ...) (void)snprintf((out)->reason, sizeof(out)->reason, __VA_ARGS__)

/* ---- finding the file --------------------------------------------------------------------------
 */

static bool executable(const char *path)
{
    struct stat info;
    return !stat(path, &info) && S_ISREG(info.st_mode) && !access(path, X_OK);
}

/* As execvp looks. */
static bool find(const char *name, char path[static KG_PATH])
{
    if (strchr(name, '/'))
        return path_make(path, "%s", name) == KG_OK && executable(path);
    const char *folder = getenv("PATH");
    for (folder = folder ? folder : "/bin:/usr/bin"; *name; folder++) {
        int length = (int)strcspn(folder, ":");
        if (path_make(path, "%.*s%s%s", length, folder, length ? "/" : "", name) == KG_OK &&
            executable(path))
            return true;
        folder += length;
        if (!*folder)
            break;
    }
    return false;
}

/* ---- what its beginning says -------------------------------------------------------------------
 */

/* The next word of a line, cut out of it; NULL: there is none. */
static char *word(char **line)
{
    char *start = *line + strspn(*line, " \t"), *end = start + strcspn(start, " \t");
    *line = *end ? end + 1 : end;
    *end = 0;
    return *start ? start : NULL;
}

/* The program that "#!INTERPRETER" names; "#!/usr/bin/env NAME" names NAME. */
static const char *interpreter_of(char *head)
{
    char *line = head + 2;
    line[strcspn(line, "\n")] = 0;
    char *program = word(&line), *slash = program ? strrchr(program, '/') : NULL, *next;
    if (!slash || strcmp(slash, "/env"))
        return program;
    while ((next = word(&line)) && (*next == '-' || strchr(next, '=')))
        ;
    return next ? next : program;
}

static const char *machine_name(unsigned machine)
{
    return machine == EM_386       ? "32-bit x86"
           : machine == EM_AARCH64 ? "64-bit ARM"
           : machine == EM_ARM     ? "32-bit ARM"
           : machine == EM_PPC64   ? "64-bit POWER"
           : machine == EM_RISCV   ? "RISC-V"
                                   : "another kind of processor";
}

/* Where the loader's path stands in the file; false: the file asks for none. */
static bool loader_of(int fd, const Elf64_Ehdr *elf, char loader[static LOADER])
{
    Elf64_Phdr segment;
    for (unsigned i = 0; i < elf->e_phnum && i < MOST_SEGMENTS; i++) {
        off_t at = (off_t)(elf->e_phoff + i * sizeof segment);
        if (pread(fd, &segment, sizeof segment, at) != sizeof segment)
            return false;
        if (segment.p_type != PT_INTERP)
            continue;
        ssize_t got = pread(fd, loader, LOADER - 1, (off_t)segment.p_offset);
        size_t length = got < 0 ? 0 : (size_t)got;
        if (segment.p_filesz < length)
            length = (size_t)segment.p_filesz;
        loader[length] = 0;
        return length > 0;
    }
    return false;
}

static void look_at_elf(int fd, const char *head, struct program *out)
{
    const Elf64_Ehdr *elf = (const Elf64_Ehdr *)(const void *)head;
    char loader[LOADER];
    /* the machine's field is at the same place in both classes, and of this machine's byte order
     * in whatever can be of this machine */
    if (elf->e_ident[EI_CLASS] != ELFCLASS64 || elf->e_machine != EM_X86_64) {
        SAY(out, "is a program for %s, the library is one for 64-bit x86",
            machine_name(elf->e_machine));
        out->refuses = true;
        return;
    }
    if (!loader_of(fd, elf, loader)) {
        SAY(out, "is linked statically, it has no dynamic loader that would take a library in");
        return;
    }
    const char *name = strrchr(loader, '/') ? strrchr(loader, '/') + 1 : loader;
    if (strncmp(name, "ld-linux", 8)) {
        SAY(out, "is built for another C library (%s) than the library, which needs glibc",
            strncmp(name, "ld-musl", 7) ? loader : "musl");
        out->refuses = true;
    } else if (access(loader, R_OK)) {
        SAY(out, "asks for the loader %s, which is not on this machine", loader);
    }
}

/* The loader ignores the preload where the kernel gives a program rights that its caller lacks. */
static void look_at_rights(int fd, struct program *out)
{
    struct stat info;
    struct statvfs system;
    char value[64];
    if (fstat(fd, &info) || fstatvfs(fd, &system) || (system.f_flag & ST_NOSUID))
        return;
    if ((info.st_mode & S_ISUID) && info.st_uid != getuid())
        SAY(out, "is set-user-id");
    else if ((info.st_mode & S_ISGID) && (info.st_mode & S_IXGRP) && info.st_gid != getgid())
        SAY(out, "is set-group-id");
    else if (getuid() && fgetxattr(fd, "security.capability", value, sizeof value) > 0)
        SAY(out, "has file capabilities");
    else
        return;
    (void)strncat(out->reason, ", and the loader preloads nothing into such programs",
                  sizeof out->reason - strlen(out->reason) - 1);
}

/* ---- all together ------------------------------------------------------------------------------
 */

void program_look(const char *name, struct program *out)
{
    _Alignas(Elf64_Ehdr) char head[HEAD] = "";
    const char *next = name;
    *out = (struct program){.reason = ""};
    for (int depth = 0; depth < MOST_SCRIPTS && next; depth++) {
        if (!find(next, out->path))
            return;
        if (!depth)
            memcpy(out->file, out->path, sizeof out->file);
        int fd = open(out->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        ssize_t got = fd < 0 ? -1 : pread(fd, head, sizeof head - 1, 0);
        head[got < 0 ? 0 : got] = 0;
        next = NULL;
        if (got > 2 && !memcmp(head, "#!", 2))
            next = interpreter_of(head);
        else if (got >= (ssize_t)sizeof(Elf64_Ehdr) && !memcmp(head, ELFMAG, SELFMAG))
            look_at_elf(fd, head, out);
        if (fd >= 0 && !next && !*out->reason)
            look_at_rights(fd, out);
        if (fd >= 0)
            close(fd);
    }
}
