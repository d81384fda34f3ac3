/* The ways in: a program finds the driver's functions by the linker (the hooks' exported names), by
 * dlsym, or by cuGetProcAddress. What is asked for and is not ours is answered by the real function
 * as if we were not there: dlsym, dlvsym and dlopen *jump* to it, since all look at who called.
 *
 * They may run before libc's and our own constructors, inside an allocator's start, and on any
 * thread: no allocation, no lock, no sanitizer's check. Nothing is answered that the driver lacks.
 */
#include "interpose.h"
#include "object.h"

#include <dlfcn.h>

/* Our function for each row, in the table's order; NULL where the row is not hooked. */
#define MINE_HOOKED(symbol) (void *)symbol,
#define MINE_PLAIN(symbol) NULL,
static void *const mine[] = {
#define API(ret, symbol, base, version, stream, use, params, args) MINE_##use(symbol)
#include "gpu/cuda_api.def"
#undef API
};

/* ---- the real functions ------------------------------------------------------------------------
 */

#define HIDDEN __attribute__((visibility("hidden")))

HIDDEN void *(*next_dlsym)(void *, const char *);
HIDDEN void *(*next_dlopen)(const char *, int);
HIDDEN void *(*plain_dlvsym)(void *, const char *, const char *);
static void *(*plain_dlsym)(void *, const char *);
static atomic_bool deepbind;

/* The C library's own function, which nobody stands before. Found without a call: who is asked here
 * may be asking us. Before glibc 2.34 they were in a library of their own. */
EARLY static void *library_function(const char *name)
{
    void *found = NULL;
    for (const struct link_map *map = _r_debug.r_map; map && !found; map = map->l_next)
        if (object_named(map, "libc.so.6") || object_named(map, "libdl.so.2"))
            found = object_symbol(map, name);
    return found;
}

/* What stands behind us: another interposer's, or the C library's. */
EARLY static void *behind_us(const char *name)
{
    void *found = plain_dlsym(RTLD_NEXT, name);
    __asm__ volatile("" : "+r"(found)); /* no tail call, or our caller would be the one who asks */
    return found;
}

EARLY static void find_next(void)
{
    if (next_dlopen)
        return;
    *(void **)&plain_dlsym = library_function("dlsym");
    *(void **)&plain_dlvsym = library_function("dlvsym");
    if (!plain_dlsym)
        return;
    *(void **)&next_dlsym = behind_us("dlsym");
    if (!next_dlsym)
        next_dlsym = plain_dlsym;
    *(void **)&next_dlopen = behind_us("dlopen");
}

bool deepbind_seen(void)
{
    return atomic_load_explicit(&deepbind, memory_order_relaxed);
}

/* ---- who owns an address -----------------------------------------------------------------------
 */

static bool begins(const char *text, const char *with)
{
    while (*with && *text == *with)
        text++, with++;
    return !*with;
}

EARLY static const struct link_map *owner(const void *address)
{
    Dl_info info;
    struct link_map *map = NULL;
    return dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) ? map : NULL;
}

EARLY static bool is_driver(const struct link_map *map)
{
    return object_named(map, "libcuda.so.1");
}

/* An interposer behind us may name its own function and get ours, which comes first: then it is
 * the one behind us that is meant. */
EARLY void *dlsym_next(void *handle, const char *name)
{
    find_next();
    if (!next_dlsym || handle == RTLD_NEXT)
        return next_dlsym ? behind_us(name) : NULL;
    void *found = next_dlsym(handle, name);
    if (!found || owner(found) != owner((void *)dlsym_next))
        return found;
    void *behind = behind_us(name);
    return behind ? behind : plain_dlsym(handle, name);
}

/* What a hook calls. Where the program is linked to the driver, another library behind us may stand
 * before that, too, and is to be called as it would be without us. */
EARLY void *real_symbol(void *driver, const char *name)
{
    void *next = dlsym_next(RTLD_NEXT, name);
    bool linked = next && plain_dlsym(RTLD_DEFAULT, "cuDeviceGetName");
    return linked && !is_driver(owner(next)) ? next : dlsym_next(driver, name);
}

/* ---- dlsym -------------------------------------------------------------------------------------
 */

struct answer {
    void *address;
    uintptr_t final; /* 0: ask the real dlsym, which sees the caller */
};

/* Exact names only: libcublas, libcudnn and libcurl begin like the driver's. */
EARLY static int row_named(const char *name)
{
    if (name[0] != 'c' || name[1] != 'u' || name[2] < 'A' || name[2] > 'Z')
        return -1;
    for (unsigned i = 0; i < real_row_count; i++)
        if (mine[i] && text_equal(real_rows[i].symbol, name))
            return (int)i;
    return -1;
}

struct wanted {
    const char *name;
    void *address;
};

EARLY static int look_into(struct dl_phdr_info *info, size_t size, void *of)
{
    struct link_map map = {.l_addr = info->dlpi_addr};
    struct wanted *wanted = of;
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            map.l_ld = (ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    wanted->address = is_driver(&map) ? object_symbol(&map, wanted->name) : NULL;
    return wanted->address != NULL;
}

/* No dlopen: it looks for files, and while a program is being linked, one that finds nothing ends
 * it. */
EARLY void *driver_symbol(const char *name)
{
    struct wanted wanted = {name, NULL};
    (void)dl_iterate_phdr(look_into, &wanted);
    return wanted.address;
}

/* The search order led to our own export: what stands behind us decides. */
static struct answer behind(int row)
{
    const char *name = real_rows[row].symbol;
    if (driver_symbol(name))
        return (struct answer){mine[row], true};
    return (struct answer){dlsym_next(RTLD_NEXT, name), true};
}

static struct answer answer(int row, void *handle, void *caller)
{
    const char *name = real_rows[row].symbol;
    const struct answer jump = {NULL, false};
    if (inside_kgenrt || is_driver(owner(caller)))
        return jump;
    if (handle == RTLD_NEXT) {
        /* An interposer's look-up of what it wraps, a matter of order: ours only if before ours. */
        if (driver_symbol(name))
            return jump;
        void *next = dlsym_next(RTLD_NEXT, name);
        return next && owner(next) == owner(caller) ? jump : (struct answer){next, true};
    }
    void *found = next_dlsym(handle, name);
    if (!found)
        return jump;
    if (found == mine[row])
        return behind(row);
    const struct link_map *there = owner(found);
    /* asked of the driver, answered by an interposer behind us: what we call is that one's */
    bool stands_for_it = handle != RTLD_DEFAULT && is_driver(handle) && there != owner(caller);
    if ((!is_driver(there) && !stands_for_it) || !driver_ready())
        return jump;
    return (struct answer){mine[row], true};
}

/* What compilers and linkers in the process make is seen by these of their functions. */
static const struct {
    const char *name;
    void *(*answer)(void *found);
} makers[] = {
    {"nvrtcGetCUBIN", nvrtc_answer},
    {"nvJitLinkAddData", jit_add_answer},
    {"nvJitLinkGetLinkedCubin", jit_get_answer},
    {"nvJitLinkDestroy", jit_destroy_answer},
};

EARLY static int maker_named(const char *name)
{
    for (unsigned i = 0; name[0] == 'n' && name[1] == 'v' && i < sizeof makers / sizeof *makers;
         i++)
        if (text_equal(name, makers[i].name))
            return (int)i;
    return -1;
}

static struct answer answer_maker(int maker, void *handle, void *caller)
{
    void *found =
        inside_kgenrt || handle == RTLD_NEXT ? NULL : dlsym_next(handle, makers[maker].name);
    if (!found || owner(found) == owner(caller))
        return (struct answer){NULL, false};
    return (struct answer){makers[maker].answer(found), true};
}

/* An interposer before us that wants what it stands before: the C library's versions of the name
 * are not ours, and it would miss us. */
EARLY __attribute__((used)) HIDDEN struct answer lookup_versioned(void *handle, const char *name,
                                                                  const char *version, void *caller)
{
    find_next();
    if (!plain_dlvsym)
        return (struct answer){NULL, true};
    const bool symbol = name && text_equal(name, "dlsym"),
               opening = name && text_equal(name, "dlopen");
    const struct link_map *map = handle == RTLD_NEXT && (symbol || opening) ? owner(caller) : NULL;
    const struct link_map *ours = map ? owner((void *)lookup_versioned) : NULL;
    for (; map && map != ours; map = map->l_next)
        if (map->l_next == ours)
            return (struct answer){symbol ? (void *)dlsym : (void *)dlopen, true};
    return (struct answer){NULL, false};
}

EARLY __attribute__((used)) HIDDEN struct answer lookup_symbol(void *handle, const char *name,
                                                               void *caller)
{
    find_next();
    if (!next_dlsym)
        return (struct answer){NULL, true};
    int maker = name ? maker_named(name) : -1;
    if (maker >= 0)
        return answer_maker(maker, handle, caller);
    int row = name ? row_named(name) : -1;
    if (row < 0)
        return (struct answer){NULL, false};
    struct answer found = answer(row, handle, caller);
    if (found.address)
        (void)dlerror(); /* of look-ups on the way: a program may take it for its own */
    return found;
}

EARLY __attribute__((used)) HIDDEN void lookup_opening(const char *file, int flags)
{
    find_next();
    if (flags & RTLD_DEEPBIND)
        atomic_store_explicit(&deepbind, true, memory_order_relaxed);
}

#ifndef __x86_64__
#error                                                                                             \
    "dlsym, dlvsym and dlopen must end in a jump that keeps their caller: write it for this processor"
#endif

__asm__(".text\n"
        ".p2align 4\n"
        ".globl dlsym\n"
        ".type dlsym, @function\n"
        "dlsym:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    movq (%rsp), %rdx\n" /* the caller */
        "    pushq %rdi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %rsi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    subq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    call lookup_symbol\n"
        "    addq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rsi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rdi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    testq %rdx, %rdx\n"
        "    jnz 1f\n"
        "    jmp *next_dlsym(%rip)\n"
        "1:  ret\n"
        "    .cfi_endproc\n"
        ".size dlsym, . - dlsym\n"

        ".p2align 4\n"
        ".globl dlvsym\n"
        ".type dlvsym, @function\n"
        "dlvsym:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    movq (%rsp), %rcx\n" /* the caller */
        "    pushq %rdi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %rsi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %rdx\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    call lookup_versioned\n"
        "    movq %rdx, %rcx\n"
        "    popq %rdx\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rsi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rdi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    testq %rcx, %rcx\n"
        "    jnz 1f\n"
        "    jmp *plain_dlvsym(%rip)\n"
        "1:  ret\n"
        "    .cfi_endproc\n"
        ".size dlvsym, . - dlvsym\n"

        ".p2align 4\n"
        ".globl dlopen\n"
        ".type dlopen, @function\n"
        "dlopen:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    pushq %rdi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %rsi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    subq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    call lookup_opening\n"
        "    addq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rsi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rdi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    jmp *next_dlopen(%rip)\n"
        "    .cfi_endproc\n"
        ".size dlopen, . - dlopen\n");

/* ---- cuGetProcAddress --------------------------------------------------------------------------
 */

static void **real_entry(unsigned row)
{
    return (void **)((char *)&real + real_rows[row].offset);
}

static bool stream_fits(char stream, cuuint64_t flags)
{
    bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    return stream == 'B' || (stream == 'P') == per_thread;
}

/* A request, and the function of ours through which the same driver can be asked again. */
struct request {
    const char *base;
    int version;
    cuuint64_t flags;
    CUresult (*ask)(const struct request *request, int version, void **address);
};

/* The row that the driver answered with, or -1. The address tells it surely where it is an exported
 * one, be it of a longer base (from 12000 on, cuGraphInstantiate is ...WithFlags); else
 * it is the row of the highest version not above the requested, unless the driver knows a newer
 * function under this name, which our table does not: then an older version gives another address.
 */
static int row_answered(const struct request *request, void *address)
{
    int best = -1, same = -1, alias = -1;
    for (unsigned i = 0; i < real_row_count; i++) {
        if (!text_equal(real_rows[i].base, request->base)) {
            if (*real_entry(i) == address && begins(real_rows[i].symbol, request->base))
                alias = (int)i;
            continue;
        }
        bool fits = real_rows[i].version <= request->version &&
                    stream_fits(real_rows[i].stream, request->flags);
        if (*real_entry(i) == address && (same < 0 || fits))
            same = (int)i;
        if (fits && (best < 0 || real_rows[i].version >= real_rows[best].version))
            best = (int)i;
    }
    void *again = NULL;
    if (same >= 0 || alias >= 0)
        return same >= 0 ? same : alias;
    if (best < 0 || real_rows[best].version == request->version)
        return best;
    return !request->ask(request, real_rows[best].version, &again) && again == address ? best : -1;
}

static void *replacement(const struct request *request, void *address)
{
    if (!request->base || !address || inside_kgenrt)
        return address;
    int row = row_answered(request, address);
    if (row < 0 || !mine[row])
        return address;
    if (!*real_entry((unsigned)row)) /* given out, but not exported */
        __atomic_store_n(real_entry((unsigned)row), address, __ATOMIC_RELEASE);
    return mine[row];
}

static CUresult ask_v1(const struct request *request, int version, void **address)
{
    return real.cuGetProcAddress(request->base, address, version, request->flags);
}

static CUresult ask_v2(const struct request *request, int version, void **address)
{
    return real.cuGetProcAddress_v2(request->base, address, version, request->flags, NULL);
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int driverVersion, cuuint64_t flags)
{
    NEED(cuGetProcAddress);
    CUresult result = real.cuGetProcAddress(symbol, pfn, driverVersion, flags);
    if (result == CUDA_SUCCESS && pfn)
        *pfn = replacement(&(struct request){symbol, driverVersion, flags, ask_v1}, *pfn);
    return result;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int driverVersion, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *symbolFound)
{
    NEED(cuGetProcAddress_v2);
    CUresult result = real.cuGetProcAddress_v2(symbol, pfn, driverVersion, flags, symbolFound);
    if (result == CUDA_SUCCESS && pfn)
        *pfn = replacement(&(struct request){symbol, driverVersion, flags, ask_v2}, *pfn);
    return result;
}
