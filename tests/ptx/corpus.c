/* Opens, fills and runs the kernels of corpus.def. Test code: what must not happen is printed, and
 * ends the program. */
#include "ptx/corpus.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the table ------------------------------------------------------------------------------- */

#define T(name) .type = PTX_TYPE_##name
#define ARG(k, ...)                                                                                \
    {                                                                                              \
        .kind = CORPUS_##k, __VA_ARGS__                                                            \
    }
#define BUFFER(t, n, how, ...) ARG(POINTER, T(t), .count = n, .fill = CORPUS_##how, __VA_ARGS__)
#define IN(t, n) BUFFER(t, n, RANDOM)
#define OUT(t, n) BUFFER(t, n, POISON, .output = true)
#define INOUT(t, n) BUFFER(t, n, RANDOM, .output = true)
#define ZERO(t, n) BUFFER(t, n, ZERO, .output = true)
#define BELOW(t, n, l) BUFFER(t, n, BELOW, .limit = l)
#define RISING(t, n) BUFFER(t, n, RISING)
#define OFFSETS(n, l) BUFFER(u32, n, OFFSETS, .limit = l)
#define POINTERS(n, to) BUFFER(b64, n, POINTERS, .other = to)
#define CHAIN(n) BUFFER(b64, 2 * (n), CHAIN)
#define SHIFTED(t, n, s) BUFFER(t, n, RANDOM, .shift = s, .output = true)
#define ALIAS(to, s) ARG(ALIAS, .other = to, .shift = s)
#define INT(t, v) ARG(INTEGER, T(t), .integer = v)
#define REAL(t, v) ARG(REAL, T(t), .real = v)
#define FIELD_INT(t, v) ARG(INTEGER, T(t), .integer = v, .within = true)
#define FIELD_REAL(t, v) ARG(REAL, T(t), .real = v, .within = true)
#define FIELD_OUT(t, n) BUFFER(t, n, POISON, .output = true, .within = true)
#define FIELD_SHIFTED(t, n, s) BUFFER(t, n, POISON, .shift = s, .output = true, .within = true)
#define DIM(...)                                                                                   \
    {                                                                                              \
        DIMS(__VA_ARGS__, 1, 1, 1)                                                                 \
    }
#define DIMS(x, y, z, ...) x, y, z

const struct corpus_entry corpus[] = {
#define CORPUS(file, entry, grid, block, shared, traits, ...)                                      \
    {file, entry, {grid, block, shared}, traits, {__VA_ARGS__}},
#include "ptx/corpus.def"
};
const unsigned corpus_count = sizeof corpus / sizeof *corpus;

static void fail(const struct corpus_entry *entry, const char *what)
{
    fprintf(stderr, "corpus %s, %s: %s\n", entry->file, entry->entry, what);
    exit(1);
}

/* ---- device memory --------------------------------------------------------------------------- */

enum { BLOCKS = 512 };
static struct block {
    struct exec_range range;
    void *data;
} blocks[BLOCKS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool memory_find(uint64_t address, struct exec_range *out)
{
    bool found = false;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < BLOCKS && !found; i++) {
        found = address - blocks[i].range.base < blocks[i].range.size;
        if (found)
            *out = blocks[i].range;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* Blocks stand apart, so that an access beside a buffer is found. */
static uint64_t memory_alloc(size_t size, size_t align)
{
    enum { APART = 4096 };
    uint64_t base = 0;
    void *data;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < BLOCKS && !base; i++) {
        if (blocks[i].data)
            continue;
        if (posix_memalign(&data, align < APART ? APART : align, size + 2 * APART))
            break;
        memset(data, 0x7e, size + 2 * APART);
        base = (uintptr_t)data + APART;
        blocks[i] = (struct block){{base, size, true}, data};
    }
    pthread_mutex_unlock(&lock);
    return base;
}

static void memory_free(uint64_t base)
{
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; base && i < BLOCKS; i++) {
        if (blocks[i].range.base != base)
            continue;
        free(blocks[i].data);
        blocks[i] = (struct block){0};
    }
    pthread_mutex_unlock(&lock);
}

const struct exec_memory corpus_memory = {memory_find, memory_alloc, memory_free};

/* ---- arguments ------------------------------------------------------------------------------- */

static uint32_t type_bytes(unsigned type)
{
    return (ptx_types[type].bits + 7u) / 8;
}

static uint64_t scalar_bits(const struct corpus_arg *arg)
{
    uint64_t bits = (uint64_t)arg->integer;
    float narrow = (float)arg->real;
    if (arg->kind == CORPUS_REAL && arg->type == PTX_TYPE_f64)
        memcpy(&bits, &arg->real, 8);
    if (arg->kind == CORPUS_REAL && arg->type == PTX_TYPE_f32) {
        bits = 0;
        memcpy(&bits, &narrow, 4);
    }
    return bits;
}

/* The buffer of argument number `arg`. */
static struct corpus_buffer *buffer_of(struct corpus_case *c, unsigned arg)
{
    for (unsigned i = 0; i < c->buffer_count; i++)
        if (c->buffers[i].arg == &c->entry->args[arg])
            return &c->buffers[i];
    fail(c->entry, "an argument's buffer is none");
    return NULL;
}

static uint64_t pass_pointer(struct corpus_case *c, const struct corpus_arg *arg, uint32_t param,
                             uint32_t offset)
{
    struct corpus_buffer buffer = {.arg = arg, .param = param, .offset = offset};
    if (arg->kind == CORPUS_POINTER) {
        buffer.size = (uint64_t)arg->count * type_bytes(arg->type);
        buffer.base = memory_alloc(buffer.size, 256);
        if (!buffer.base)
            fail(c->entry, "out of memory");
        buffer.value = buffer.base + (uint64_t)arg->shift;
        c->buffers[c->buffer_count++] = buffer;
    } else {
        const struct corpus_buffer *other = buffer_of(c, arg->other);
        buffer.base = other->base;
        buffer.size = other->size;
        buffer.value = buffer.base + (uint64_t)arg->shift;
    }
    c->pointers[c->pointer_count++] = buffer;
    return buffer.value;
}

static void pass_arguments(struct corpus_case *c)
{
    uint32_t param = 0, inside = 0, next = 0;
    for (unsigned i = 0; i < CORPUS_ARGS && c->entry->args[i].kind; i++) {
        const struct corpus_arg *arg = &c->entry->args[i];
        bool pointer = arg->kind == CORPUS_POINTER || arg->kind == CORPUS_ALIAS;
        uint32_t bytes = pointer ? 8 : type_bytes(arg->type);
        inside = arg->within ? (inside + bytes - 1) / bytes * bytes : 0;
        param = arg->within ? param : next++;
        if (param >= c->func->param_count || inside + bytes > c->func->params[param]->size ||
            c->func->params[param]->offset + inside + bytes > CORPUS_PARAM_BYTES)
            fail(c->entry, "more arguments than parameters");
        uint64_t bits = pointer ? pass_pointer(c, arg, param, inside) : scalar_bits(arg);
        memcpy(c->params + c->func->params[param]->offset + inside, &bits, bytes);
        inside += bytes;
    }
    if (next != c->func->param_count)
        fail(c->entry, "fewer arguments than parameters");
    c->param_bytes = c->func->param_bytes;
}

/* The folder of the PTX files: the build's, or another machine's. */
static const char *folder(void)
{
    const char *named = getenv("KGENRT_CORPUS");
    return named && *named ? named : CORPUS_DIR;
}

/* Of a source that nobody could compile. */
static bool may_be_absent(const struct corpus_entry *entry)
{
    char source[KG_PATH];
    snprintf(source, sizeof source, CORPUS_SOURCES "/%s.cu", entry->file);
    return !CORPUS_COMPILED && !access(source, R_OK);
}

bool corpus_open(const struct corpus_entry *entry, struct corpus_case *out)
{
    char path[KG_PATH], error[300];
    memset(out, 0, sizeof *out);
    out->entry = entry;
    snprintf(path, sizeof path, "%s/%s.ptx", folder(), entry->file);
    if (may_be_absent(entry) && access(path, R_OK))
        return false;
    if (file_read(path, 1 << 26, &out->text) != KG_OK)
        fail(entry, "the file cannot be read");
    if (ptx_parse((char *)out->text.data, out->text.size, &out->module, error, sizeof error))
        fail(entry, error);
    out->func = ptx_find_func(&out->module, entry->entry);
    if (!out->func || !out->func->entry || !out->func->defined)
        fail(entry, "there is no such entry");
    pass_arguments(out);
    return true;
}

void corpus_close(struct corpus_case *c)
{
    for (unsigned i = 0; i < c->buffer_count; i++)
        memory_free(c->buffers[i].base);
    ptx_module_free(&c->module);
    bytes_free(&c->text);
    memset(c, 0, sizeof *c);
}

/* ---- contents -------------------------------------------------------------------------------- */

static uint64_t draw(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

/* Bits of a random element; halves and narrower floats: never NaN or infinite. */
static uint64_t random_element(unsigned type, uint64_t *state)
{
    uint64_t bits = draw(state);
    double wide = (double)(int64_t)bits / 9223372036854775808.0;
    float narrow = (float)wide;
    switch (type) {
    case PTX_TYPE_f64:
        memcpy(&bits, &wide, 8);
        return bits;
    case PTX_TYPE_f32:
        memcpy(&bits, &narrow, 4);
        return bits;
    case PTX_TYPE_f16: /* exponents below that of 1 */
        return bits & 0xbbff;
    case PTX_TYPE_bf16:
        return (bits & 0x80ff) | 0x3e00;
    default:
        return bits;
    }
}

static void fill_addresses(struct corpus_case *c, const struct corpus_buffer *buffer)
{
    const struct corpus_arg *arg = buffer->arg;
    const struct corpus_buffer *to = buffer_of(c, arg->other);
    uint64_t *words = (uint64_t *)(uintptr_t)buffer->base;
    for (uint32_t i = 0; i < arg->count; i++)
        words[i] = to->base + to->size / arg->count / 16 * 16 * i;
}

/* 16 bytes an element: the next one's address and a value; the order is no straight line. Visits
 * all where their number is a power of two. */
static void fill_chain(const struct corpus_buffer *buffer)
{
    uint64_t *words = (uint64_t *)(uintptr_t)buffer->base;
    uint32_t count = buffer->arg->count / 2, at = 0, step = count / 2 + 1;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t next = (at + step) % count;
        words[2 * at] = i + 1 < count && next ? buffer->base + 16 * (uint64_t)next : 0;
        words[2 * at + 1] = i * 7 + 1;
        at = next;
    }
}

static void fill_buffer(struct corpus_case *c, const struct corpus_buffer *buffer, uint64_t *state)
{
    const struct corpus_arg *arg = buffer->arg;
    unsigned char *data = (unsigned char *)(uintptr_t)buffer->base;
    uint32_t bytes = type_bytes(arg->type);
    memset(data, arg->fill == CORPUS_ZERO ? 0 : 0x7e, buffer->size);
    for (uint32_t i = 0; i < arg->count; i++) {
        uint64_t bits;
        switch ((enum corpus_fill)arg->fill) {
        case CORPUS_RANDOM:
            bits = random_element(arg->type, state);
            break;
        case CORPUS_BELOW:
            bits = draw(state) % arg->limit;
            break;
        case CORPUS_RISING:
            bits = i;
            break;
        case CORPUS_OFFSETS: /* the square makes rows uneven */
            bits = arg->limit * i / (arg->count - 1) * i / (arg->count - 1);
            break;
        case CORPUS_POINTERS:
            fill_addresses(c, buffer);
            return;
        case CORPUS_CHAIN:
            fill_chain(buffer);
            return;
        default:
            return;
        }
        memcpy(data + (size_t)i * bytes, &bits, bytes);
    }
}

void corpus_fill(struct corpus_case *c, uint64_t seed)
{
    for (unsigned i = 0; i < c->buffer_count; i++) {
        uint64_t state = seed * 1000 + i;
        fill_buffer(c, &c->buffers[i], &state);
    }
}

uint64_t corpus_hash(const struct corpus_case *c)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (unsigned i = 0; i < c->buffer_count; i++) {
        const unsigned char *data = (const unsigned char *)(uintptr_t)c->buffers[i].base;
        bool addresses = c->buffers[i].arg->fill >= CORPUS_POINTERS; /* not the same every run */
        for (uint64_t k = 0; k < c->buffers[i].size && !addresses; k++)
            hash = (hash ^ data[k]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* ---- running --------------------------------------------------------------------------------- */

void corpus_run(const struct corpus_case *c, const char *text, const struct exec_config *config,
                struct exec_result *out)
{
    struct exec_config used = config ? *config : (struct exec_config){0};
    struct exec_module *module = NULL;
    *out = (struct exec_result){.fault = EXEC_UNSUPPORTED};
    used.launch = c->entry->launch;
    if (exec_module_create(text ? text : (char *)c->text.data, &corpus_memory, &module, out->text,
                           sizeof out->text))
        return;
    const struct exec_kernel *kernel = exec_module_kernel(module, c->entry->entry);
    if (kernel)
        exec_launch(kernel, &used, c->params, out);
    else
        snprintf(out->text, sizeof out->text, "no entry %s", c->entry->entry);
    exec_module_destroy(module);
}

/* ---- files ----------------------------------------------------------------------------------- */

static int is_ptx(const struct dirent *file)
{
    const char *dot = strrchr(file->d_name, '.');
    return dot && !strcmp(dot, ".ptx");
}

const char *corpus_path(unsigned index)
{
    static char path[KG_PATH];
    struct dirent **files;
    int count = scandir(folder(), &files, is_ptx, alphasort);
    bool found = count > 0 && index < (unsigned)count;
    if (found)
        snprintf(path, sizeof path, "%s/%s", folder(), files[index]->d_name);
    for (int i = 0; i < count; i++)
        free(files[i]);
    if (count >= 0)
        free(files);
    return found ? path : NULL;
}
