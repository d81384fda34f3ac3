/* libkgenrt_audit.so, the second way in, for programs that a preload alone does not reach. The
 * dynamic linker loads it by LD_AUDIT, into a namespace of its own, and asks it about bindings:
 *   - those into the driver get the hooks of the one library, libkgenrt.so, which stands in the
 *     program's own namespace: preloaded there, or loaded from here. So
 *     RTLD_DEEPBIND hides nothing;
 *   - those to exec and posix_spawn get functions of ours that put our variables back where the
 *     program has removed or overwritten them for a child.
 *
 * It has no C library (the program's is another copy, which may not be ready), takes no lock and
 * allocates nothing. Once a call is bound it is out of the way: no PLT entry is watched. Before
 * glibc 2.35 an auditor slows down every call through a PLT for good: there it takes itself out,
 * and the preload, which `kgenrt run` sets as well, is what remains. */
#include "audit.h"

#define SHOWN __attribute__((visibility("default")))

enum { FIRST_WITHOUT_COST = 2 }; /* LAV_CURRENT of glibc 2.35 */

static const struct link_map *program, *libc, *driver, *ours;

/* ---- what the dynamic linker asks --------------------------------------------------------------
 */

SHOWN unsigned la_version(unsigned version)
{
    if (version < FIRST_WITHOUT_COST)
        return 0;
    return version < LAV_CURRENT ? version : LAV_CURRENT;
}

/* Bindings of the driver's own, and of our library's, are theirs. */
SHOWN unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie)
{
    *cookie = (uintptr_t)map;
    if (space != LM_ID_BASE)
        return 0;
    if (!program)
        program = map;
    if (object_named(map, "libkgenrt.so")) {
        ours = map;
        return 0;
    }
    if (object_named(map, "libcuda.so.1")) {
        driver = map;
        return LA_FLG_BINDTO;
    }
    if (object_named(map, "libc.so.6")) {
        libc = map;
        exec_begin(program, libc);
        return LA_FLG_BINDTO;
    }
    return LA_FLG_BINDFROM;
}

/* The next object may get the same address. */
SHOWN unsigned la_objclose(uintptr_t *cookie)
{
    const struct link_map *map = (const struct link_map *)*cookie;
    driver = driver == map ? NULL : driver;
    ours = ours == map ? NULL : ours;
    return 0;
}

/* Whoever stands behind us and shows functions of the driver, or a dlsym, stands between us and the
 * driver: what it looks up would lead to us in a circle. */
static bool interposes(const struct link_map *map, const char *name)
{
    const struct link_map *behind = ours;
    while (behind && behind != map)
        behind = behind->l_next;
    return behind && (object_symbol(map, name) || object_symbol(map, "dlsym"));
}

SHOWN uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to,
                             unsigned *flags, const char *name)
{
    const struct link_map *user = (const struct link_map *)*from;
    const struct link_map *owner = (const struct link_map *)*to;
    *flags |= LA_SYMB_NOPLTENTER | LA_SYMB_NOPLTEXIT;
    if (user == ours || user == driver)
        return symbol->st_value;
    void *instead = NULL;
    if (owner == libc)
        instead = exec_instead(name, (void *)symbol->st_value);
    else if (owner == driver && ours && !interposes(user, name))
        instead = object_symbol(ours, name);
    return instead ? (uintptr_t)instead : symbol->st_value;
}

/* ---- the one library ---------------------------------------------------------------------------
 */

/* Beside this one, unless it was preloaded. Programs that bind to the driver as they start were
 * bound by now: those need the preload. */
static void library_load(const char *self)
{
    static const char name[] = "libkgenrt.so";
    void *(*open)(Lmid_t, const char *, int);
    char path[PATH_BYTES];
    size_t folder = 0;
    for (size_t i = 0; self[i]; i++) {
        if (i + sizeof name >= sizeof path)
            return;
        path[i] = self[i];
        if (self[i] == '/')
            folder = i + 1;
    }
    for (size_t i = 0; i < sizeof name; i++)
        path[folder + i] = name[i];
    *(void **)&open = object_symbol(libc, "dlmopen");
    if (open)
        (void)open(LM_ID_BASE, path, RTLD_NOW | RTLD_GLOBAL); /* la_objopen is told */
}

/* Our own tool: its workers and replays are to be without us. */
static bool is_tool(void)
{
    static const char name[] = "kgenrt";
    unsigned long (*auxiliary)(unsigned long);
    *(void **)&auxiliary = object_symbol(libc, "getauxval");
    const char *file = auxiliary ? (const char *)auxiliary(AT_EXECFN) : NULL, *last = file;
    for (; file && *file; file++)
        if (*file == '/')
            last = file + 1;
    return last && text_equal(last, name);
}

SHOWN void la_preinit(uintptr_t *cookie)
{
    int (*address_of)(const void *, Dl_info *);
    Dl_info info;
    *(void **)&address_of = object_symbol(libc, "dladdr");
    if (is_tool() || !address_of || !address_of((void *)la_preinit, &info) || !info.dli_fname)
        return;
    if (!ours)
        library_load(info.dli_fname);
    if (ours)
        exec_keep(info.dli_fname, ours->l_name);
}
