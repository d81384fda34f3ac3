/* Libraries of others, as they stand beside ours in LD_PRELOAD or LD_AUDIT. One at a time, by -D:
 * LIMITER    hooks dlsym by a plain C function, gives out hooks of its own for some of the driver's
 *            functions, and says at the end how many launches it saw; with PAST_ALL it takes the C
 *            library's dlsym, whoever stands behind it
 * WRAPPER    shows a launch of its own, which passes on to the next one; says the same
 * ALLOCATOR  replaces malloc, and looks the next one up by dlsym at the first allocation
 * HANDLER    handles SIGSEGV from its constructor on, on a stack of its own
 * STORAGE    has much thread-local memory from the start
 * AUDITOR    asks to be told of every binding, and changes none */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef LIMITER
#include <cuda.h>
#include <dlfcn.h>

static int launches;
static void *(*real_dlsym)(void *, const char *);
static __typeof__(&cuLaunchKernel) real_launch;
static __typeof__(&cuGetProcAddress_v2) real_address;

static void find_real(void)
{
#ifdef PAST_ALL
    void *from = dlopen("libc.so.6", RTLD_LAZY);
#else
    void *from = RTLD_NEXT;
#endif
    if (!real_dlsym)
        *(void **)&real_dlsym = dlvsym(from, "dlsym", "GLIBC_2.2.5");
}

static void *find(const char *name)
{
    find_real();
    return real_dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params,
                        void **extra)
{
    if (!real_launch)
        *(void **)&real_launch = find("cuLaunchKernel");
    launches++;
    return real_launch(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    if (!real_address)
        *(void **)&real_address = find("cuGetProcAddress_v2");
    CUresult result = real_address(symbol, pfn, version, flags, status);
    if (result == CUDA_SUCCESS && pfn && !strcmp(symbol, "cuLaunchKernel") && !(flags & 2)) {
        *(void **)&real_launch = *pfn;
        *pfn = (void *)cuLaunchKernel;
    }
    return result;
}

void *dlsym(void *handle, const char *name)
{
    find_real();
    if (!strcmp(name, "cuLaunchKernel"))
        return (void *)cuLaunchKernel;
    if (!strcmp(name, "cuGetProcAddress_v2"))
        return (void *)cuGetProcAddress_v2;
    return real_dlsym(handle, name);
}

__attribute__((destructor)) static void say(void)
{
    char line[64];
    int length = snprintf(line, sizeof line, "limiter: %d launches\n", launches);
    if (launches && write(2, line, (size_t)length) < 0)
        _exit(1);
}
#endif

#ifdef WRAPPER
#include <cuda.h>
#include <dlfcn.h>

static int launches;

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params,
                        void **extra)
{
    __typeof__(&cuLaunchKernel) next;
    *(void **)&next = dlsym(RTLD_NEXT, "cuLaunchKernel");
    launches++;
    return next(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
}

__attribute__((destructor)) static void say(void)
{
    char line[64];
    int length = snprintf(line, sizeof line, "wrapper: %d launches\n", launches);
    if (launches && write(2, line, (size_t)length) < 0)
        _exit(1);
}
#endif

#ifdef ALLOCATOR
#include <dlfcn.h>

static char early[1 << 16];
static size_t used;
static void *(*next_malloc)(size_t);
static void (*next_free)(void *);
static void *(*next_realloc)(void *, size_t);
static int starting;

static int is_early(const void *p)
{
    return (const char *)p >= early && (const char *)p < early + sizeof early;
}

static void *take(size_t size)
{
    void *p = early + used;
    used += (size + 15) & ~(size_t)15;
    return used <= sizeof early ? p : NULL;
}

static int start(void)
{
    if (next_malloc)
        return 1;
    if (starting)
        return 0;
    starting = 1;
    *(void **)&next_free = dlsym(RTLD_NEXT, "free");
    *(void **)&next_realloc = dlsym(RTLD_NEXT, "realloc");
    (void)dlsym(RTLD_NEXT, "no_such_symbol"); /* its error is allocated, which leads back here */
    *(void **)&next_malloc = dlsym(RTLD_NEXT, "malloc");
    starting = 0;
    return next_malloc != NULL;
}

void *malloc(size_t size)
{
    return start() ? next_malloc(size) : take(size);
}

void *calloc(size_t count, size_t size)
{
    void *p = malloc(count * size);
    return p ? memset(p, 0, count * size) : p;
}

void free(void *p)
{
    if (p && !is_early(p) && start())
        next_free(p);
}

void *realloc(void *p, size_t size)
{
    if (!is_early(p) && start())
        return next_realloc(p, size);
    void *more = malloc(size);
    size_t room = p ? (size_t)(early + sizeof early - (char *)p) : 0;
    return more ? memcpy(more, p ? p : early, room < size ? room : size) : more;
}
#endif

#ifdef HANDLER
#include <signal.h>

static void say(int number)
{
    static const char line[] = "handler: a fault\n";
    if (number && write(2, line, sizeof line - 1) > 0)
        _exit(77);
    _exit(78);
}

__attribute__((constructor)) static void install(void)
{
    static char stack[1 << 16];
    stack_t place = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = say, .sa_flags = SA_ONSTACK};
    if (sigaltstack(&place, NULL) || sigaction(SIGSEGV, &action, NULL))
        _exit(79);
}

/* Still there at the end. */
__attribute__((destructor)) static void check(void)
{
    struct sigaction action;
    stack_t place;
    if (sigaction(SIGSEGV, NULL, &action) || action.sa_handler != say ||
        sigaltstack(NULL, &place) || (place.ss_flags & SS_DISABLE))
        _exit(80);
}
#endif

#ifdef AUDITOR
#include <link.h>

unsigned la_version(unsigned version)
{
    return version < LAV_CURRENT ? version : LAV_CURRENT;
}

unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie)
{
    (void)map, (void)space, (void)cookie;
    return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to,
                       unsigned *flags, const char *name)
{
    (void)index, (void)from, (void)to, (void)flags, (void)name;
    return symbol->st_value;
}
#endif

#ifdef STORAGE
/* As an allocator's: laid out when the program starts. */
static __thread char storage[6000] __attribute__((tls_model("initial-exec")));

__attribute__((constructor)) static void use(void)
{
    memset(storage, 1, sizeof storage);
}
#endif
