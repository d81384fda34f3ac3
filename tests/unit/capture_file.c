/* A capture's file form: what is written is read back, and no truncation, bit flip or forged field
 * of a file gives anything but an error. */
#include "capture.h"
#include "pack.h"
#include "test.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *path = "capture_file.kgc";

/* f(float *out, const float *in, struct { int n; const float *table; float a, b, c; } s, char tag)
 */
static struct kg_param params[] = {{0, 8}, {8, 8}, {16, 28}, {44, 1}};
static unsigned char args[45];
static unsigned char out_data[64], in_data[100], coefficients[40], node[32];
static const unsigned char result[64] = {1, 2, 3}, node_after[32] = {9};
static struct capture_region regions[] = {
    {CAPTURE_POINTER, 0x7e0000000100, 64, 0x7e0000000000, 4096, "", out_data, result},
    {CAPTURE_POINTER, 0x7e0000000408, 100, 0x7e0000000000, 4096, "", in_data, NULL},
    {CAPTURE_GLOBAL, 0x7e0000800000, 40, 0, 0, "coefficients", coefficients, NULL},
    {CAPTURE_NESTED, 0x7e0001000010, 32, 0x7e0001000000, 64, "", node, node_after},
};
static struct capture_pointer pointers[] = {{0, 0, 0}, {1, 0, 1}, {2, 8, 1}};
/* in_data[8] leads to the node, the node's word 1 to its own end */
static struct capture_place places[] = {{1, 3, 8}, {3, 3, 8}};

static void put(unsigned at, uint64_t value, unsigned size)
{
    for (unsigned i = 0; i < size; i++)
        args[at + i] = (unsigned char)(value >> (8 * i));
}

static struct kg_capture sample(void)
{
    put(0, 0x7e0000000100, 8);
    put(8, 0x7e0000000408, 8);
    put(16, 1234, 8); /* n, and padding */
    put(24, 0x7e0000000408, 8);
    put(32, 0x1111111122222222, 8);
    put(40, 0x33333333, 4);
    put(44, 'x', 1);
    for (unsigned i = 0; i < sizeof in_data; i++)
        in_data[i] = (unsigned char)(i * 7);
    memcpy(in_data + 8, &(uint64_t){0x7e0001000010}, 8);
    memcpy(node + 8, &(uint64_t){0x7e0001000030}, 8);
    struct kg_capture capture = {.program = "/usr/bin/app",
                                 .pid = 77,
                                 .time = 1700000000,
                                 .entry = "_Z1fPfPKf1sc",
                                 .launch = {{4, 2, 1}, {128, 1, 1}, 1024},
                                 .max_dynamic_shared = 2048,
                                 .carveout = -1,
                                 .stack_limit = 1024,
                                 .printf_limit = 1 << 20,
                                 .heap_limit = 8 << 20,
                                 .app_ns = 1500.5,
                                 .app_share = 0.75,
                                 .jit_options = "-O3",
                                 .param_count = 4,
                                 .params = params,
                                 .args = {args, sizeof args},
                                 .pointer_count = 3,
                                 .pointers = pointers,
                                 .region_count = 4,
                                 .regions = regions,
                                 .place_count = 2,
                                 .places = places,
                                 .image = (const unsigned char *)".version 8.0",
                                 .image_size = 13};
    strcpy(capture.hardware.vendor, "nvidia");
    strcpy(capture.hardware.name, "NVIDIA H200");
    strcpy(capture.hardware.arch, "sm_90");
    strcpy(capture.hardware.uuid, "GPU-0");
    capture.hardware.sm_count = 132;
    capture.hardware.memory_bytes = (uint64_t)139 << 30;
    capture.hardware.driver_version = 13000;
    memset(capture.kernel.bytes, 0xab, sizeof capture.kernel.bytes);
    return capture;
}

/* Mangled names of templates' variables are long. */
static void long_name(void)
{
    struct kg_capture capture = sample(), back;
    struct capture_region *region = &regions[2];
    char before[sizeof region->name];
    memcpy(before, region->name, sizeof before);
    memset(region->name, 'a', 500);
    CHECK(capture_write(&capture, path) == KG_OK);
    if (CHECK(capture_read(path, &back) == KG_OK))
        CHECK(strlen(back.regions[2].name) == 500);
    capture_free(&back);
    memcpy(region->name, before, sizeof before);
}

static void same(const struct kg_capture *a, const struct kg_capture *b)
{
    CHECK(!memcmp(&a->hardware, &b->hardware, sizeof a->hardware));
    CHECK(!strcmp(a->program, b->program) && !strcmp(a->entry, b->entry));
    CHECK(a->pid == b->pid && a->time == b->time && id_equal(&a->kernel, &b->kernel));
    CHECK(!memcmp(&a->launch, &b->launch, sizeof a->launch));
    CHECK(a->max_dynamic_shared == b->max_dynamic_shared && a->carveout == b->carveout);
    CHECK(a->stack_limit == b->stack_limit && a->printf_limit == b->printf_limit &&
          a->heap_limit == b->heap_limit);
    CHECK(a->app_ns == b->app_ns && a->app_share == b->app_share);
    CHECK(!strcmp(a->jit_options, b->jit_options));
    CHECK(a->param_count == b->param_count &&
          !memcmp(a->params, b->params, a->param_count * sizeof *a->params));
    CHECK(a->args.size == b->args.size && !memcmp(a->args.data, b->args.data, a->args.size));
    CHECK(a->pointer_count == b->pointer_count &&
          !memcmp(a->pointers, b->pointers, a->pointer_count * sizeof *a->pointers));
    CHECK(a->image_size == b->image_size && !memcmp(a->image, b->image, a->image_size));
    CHECK(a->place_count == b->place_count &&
          !memcmp(a->places, b->places, a->place_count * sizeof *a->places));
    CHECK(a->region_count == b->region_count);
    for (unsigned i = 0; i < a->region_count; i++) {
        const struct capture_region *x = &a->regions[i], *y = &b->regions[i];
        CHECK(x->kind == y->kind && x->address == y->address && x->size == y->size &&
              x->allocation == y->allocation && x->allocation_size == y->allocation_size &&
              !strcmp(x->name, y->name) && !memcmp(x->data, y->data, x->size));
        CHECK(!x->after == !y->after && (!x->after || !memcmp(x->after, y->after, x->size)));
        CHECK((uintptr_t)y->data % 16 == 0);
    }
}

static void round_trip(void)
{
    struct kg_capture capture = sample(), back;
    CHECK(capture_write(&capture, path) == KG_OK);
    struct stat info;
    CHECK(!stat(path, &info) && (info.st_mode & 0777) == 0600);
    if (CHECK(capture_read(path, &back) == KG_OK))
        same(&capture, &back);
    capture_free(&back);
    CHECK(capture_read("does/not/exist", &back) == KG_NOT_FOUND);
    CHECK(capture_write(&capture, "does/not/exist") == KG_IO);
}

static kg_status parse_copy(const unsigned char *data, size_t size, struct kg_capture *out)
{
    struct kg_bytes copy = {malloc(size + 1), size};
    memcpy(copy.data, data, size);
    return capture_parse(copy, out);
}

/* Every truncation and every single bit flip. */
static void damage(const struct kg_bytes *file)
{
    struct kg_capture out;
    unsigned accepted = 0;
    for (size_t size = 0; size < file->size; size++)
        accepted += parse_copy(file->data, size, &out) == KG_OK;
    for (size_t at = 0; at < file->size; at++)
        for (int bit = 0; bit < 8; bit++) {
            file->data[at] ^= (unsigned char)(1 << bit);
            accepted += parse_copy(file->data, file->size, &out) == KG_OK;
            file->data[at] ^= (unsigned char)(1 << bit);
        }
    CHECK(!accepted);
    file->data[8]++; /* the version */
    CHECK(parse_copy(file->data, file->size, &out) == KG_UNSUPPORTED);
    file->data[8]--;
    file->data[0]++;
    CHECK(parse_copy(file->data, file->size, &out) == KG_BAD_INPUT);
    file->data[0]--;
}

static void reseal(unsigned char *data, size_t size)
{
    struct kg_hash hash;
    struct kg_id digest;
    hash_begin(&hash);
    hash_bytes(&hash, data, size - KG_ID_BYTES);
    hash_end(&hash, &digest);
    memcpy(data + size - KG_ID_BYTES, digest.bytes, KG_ID_BYTES);
}

/* Fields forged under a right digest: never a crash (the sanitizers look), and what is accepted can
 * be used whole. */
static void forged(const struct kg_bytes *file)
{
    static const unsigned char values[] = {0, 1, 0x7f, 0x80, 0xff};
    unsigned refused = 0;
    for (size_t at = 8; at < file->size - KG_ID_BYTES; at++)
        for (unsigned v = 0; v < sizeof values; v++) {
            unsigned char kept = file->data[at];
            file->data[at] = values[v];
            reseal(file->data, file->size);
            struct kg_capture out;
            struct kg_signature signature;
            kg_status status = parse_copy(file->data, file->size, &out);
            refused += status != KG_OK;
            if (status == KG_OK && CHECK(capture_signature(&out, &signature) == KG_OK))
                signature_free(&signature);
            if (status == KG_OK)
                for (unsigned i = 0; i < out.region_count; i++)
                    refused += out.regions[i].data[out.regions[i].size - 1] == 0xfe ||
                               (out.regions[i].after && *out.regions[i].after == 0xfe);
            capture_free(&out);
            file->data[at] = kept;
        }
    CHECK(refused > 200);
    reseal(file->data, file->size);
}

/* A writer that is asked for nonsense makes a file that no reader takes. */
static void nonsense(void)
{
    struct kg_capture capture = sample(), out;
    capture.launch.grid.y = 0;
    CHECK(capture_write(&capture, path) == KG_OK && capture_read(path, &out) == KG_CORRUPT);
    capture = sample();
    capture.app_ns = NAN; /* the one that is mended: unknown */
    CHECK(capture_write(&capture, path) == KG_OK && capture_read(path, &out) == KG_OK);
    CHECK(out.app_ns == 0);
    capture_free(&out);
    capture = sample();
    regions[0].address = 0x7dffffffffff; /* before its allocation */
    CHECK(capture_write(&capture, path) == KG_OK && capture_read(path, &out) == KG_CORRUPT);
    regions[0].address = 0x7e0000000100;
    pointers[2].offset = 21; /* past the struct */
    CHECK(capture_write(&capture, path) == KG_OK && capture_read(path, &out) == KG_CORRUPT);
    pointers[2].offset = 8;
    pointers[2].region = 2; /* a global */
    CHECK(capture_write(&capture, path) == KG_OK && capture_read(path, &out) == KG_CORRUPT);
    pointers[2].region = CAPTURE_NO_REGION; /* an address that the launch did not follow */
    CHECK(capture_write(&capture, path) == KG_OK && capture_read(path, &out) == KG_OK);
    CHECK(out.pointers[2].region == CAPTURE_NO_REGION);
    capture_free(&out);
    pointers[2].region = 1;
    static const struct capture_place wrong[] = {{4, 3, 8},  {1, 4, 8},  {1, 2, 8}, {1, 3, 93},
                                                 {1, 3, 16}, {1, 3, ~0}, {3, 1, 8}};
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct capture_place kept = places[0];
        places[0] = wrong[i];
        CHECK(capture_write(&capture, path) == KG_OK && capture_read(path, &out) == KG_CORRUPT);
        places[0] = kept;
    }
}

static void signature(void)
{
    struct kg_capture capture = sample();
    struct kg_signature s;
    CHECK(capture_signature(&capture, &s) == KG_OK);
    CHECK(s.launch.grid.x == 4 && s.launch.shared == 1024);
    if (CHECK(s.pointer_count == 3)) {
        CHECK(s.pointers[0].param == 0 && s.pointers[0].align == 256);
        CHECK(s.pointers[0].low == 0 && s.pointers[0].high == 64);
        CHECK(s.pointers[1].align == 8 && s.pointers[1].high == 100);
        CHECK(s.pointers[2].param == 2 && s.pointers[2].offset == 8);
    }
    if (CHECK(s.scalar_count == 4)) {
        CHECK(s.scalars[0].param == 2 && s.scalars[0].offset == 0 && s.scalars[0].size == 8 &&
              s.scalars[0].value == 1234);
        CHECK(s.scalars[1].offset == 16 && s.scalars[1].value == 0x1111111122222222);
        CHECK(s.scalars[2].offset == 24 && s.scalars[2].size == 4 &&
              s.scalars[2].value == 0x33333333);
        CHECK(s.scalars[3].param == 3 && s.scalars[3].size == 1 && s.scalars[3].value == 'x');
    }
    CHECK(s.overlap_count == 1 && s.overlaps[0].a == 1 && s.overlaps[0].b == 2 &&
          s.overlaps[0].delta == 0);
    signature_free(&s);
}

/* in points 4 bytes before out: their reach overlaps, and by how much is pinned. */
static void signature_overlap(void)
{
    struct kg_capture capture = sample();
    struct kg_signature s;
    regions[1].address = 0x7e00000000fc;
    put(8, 0x7e00000000fc, 8);
    put(24, 0x7e00000000fc, 8);
    CHECK(capture_signature(&capture, &s) == KG_OK);
    CHECK(s.pointers[1].align == 4 && s.overlap_count == 3);
    CHECK(s.overlaps[0].a == 0 && s.overlaps[0].b == 1 && s.overlaps[0].delta == -4);
    signature_free(&s);
    regions[1].address = 0x7e0000000408;
}

/* One word may reach several regions: one pointer with one reach. */
static void signature_merge(void)
{
    struct kg_capture capture = sample();
    struct kg_signature s;
    pointers[2] = (struct capture_pointer){0, 0, 1};
    CHECK(capture_signature(&capture, &s) == KG_OK);
    CHECK(s.pointer_count == 2 && s.pointers[0].low == 0 && s.pointers[0].high == 0x308 + 100);
    CHECK(s.scalar_count == 5); /* the struct's pointer is a scalar now, in 8-byte words */
    signature_free(&s);
    pointers[2] = (struct capture_pointer){2, 8, 1};
}

int main(void)
{
    round_trip();
    long_name();
    struct kg_bytes file;
    if (CHECK(file_read(path, 1 << 20, &file) == KG_OK)) {
        damage(&file);
        forged(&file);
    }
    bytes_free(&file);
    nonsense();
    signature();
    signature_overlap();
    signature_merge();
    unlink(path);
    return test_result();
}
