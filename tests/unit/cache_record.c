/* Records and blobs: what is packed is parsed back; damage and forged fields are errors. */
#include "../../cache/record.h"
#include "cache_fixture.h"

#include <math.h>

static void same_signature(const struct kg_signature *a, const struct kg_signature *b)
{
    CHECK(!memcmp(&a->launch, &b->launch, sizeof a->launch));
    CHECK(a->scalar_count == b->scalar_count && a->pointer_count == b->pointer_count &&
          a->overlap_count == b->overlap_count);
    CHECK(a->scalars[1].value == b->scalars[1].value && a->scalars[1].param == b->scalars[1].param);
    CHECK(a->scalars[0].span == 24 && b->scalars[0].span == 24 && !b->scalars[1].span);
    CHECK(a->pointers[0].access == KG_READ && b->pointers[0].access == KG_READ &&
          !b->pointers[1].access);
    CHECK(a->pointers[1].low == b->pointers[1].low && a->pointers[1].align == b->pointers[1].align);
    CHECK(a->overlaps[0].delta == b->overlaps[0].delta);
    struct kg_id x, y;
    signature_id(a, &x);
    signature_id(b, &y);
    CHECK(id_equal(&x, &y));
}

static void variant(void)
{
    struct kg_variant one = fixture_variant("_Z4polyPf", 64, 1.5), two;
    struct kg_bytes record;
    one.code = id_of("code");
    one.evidence = id_of("evidence");
    one.recipe = id_of("recipe");
    variant_identify(&one);
    CHECK(variant_pack(&one, &record) == KG_OK);
    CHECK(variant_parse(record.data, record.size, &two) == KG_OK);
    CHECK(id_equal(&one.id, &two.id) && id_equal(&one.hardware, &two.hardware) &&
          id_equal(&one.kernel, &two.kernel) && id_equal(&one.code, &two.code) &&
          id_equal(&one.source, &two.source) && id_equal(&one.ptx, &two.ptx) &&
          id_equal(&one.recipe, &two.recipe) && id_equal(&one.evidence, &two.evidence));
    same_signature(&one.signature, &two.signature);
    CHECK(!memcmp(&one.launch, &two.launch, sizeof one.launch));
    CHECK(!strcmp(one.maker, two.maker) && !strcmp(one.entry, two.entry) &&
          !strcmp(one.kernel_name, two.kernel_name) && !strcmp(one.note, two.note) &&
          !strcmp(one.accuracy, two.accuracy));
    CHECK(two.global_count == 1 && !strcmp(two.globals[0], "coefficients"));
    CHECK(one.original_ns == two.original_ns && one.variant_ns == two.variant_ns &&
          one.ratio == two.ratio && one.low == two.low && one.high == two.high);
    CHECK(two.driver_version == 13000 && two.compiler_version == 13000 && two.time == one.time);
    variant_identify(&two);
    CHECK(id_equal(&one.id, &two.id));
    variant_free(&two);
    record.data[8]++;
    CHECK(variant_parse(record.data, record.size, &two) == KG_UNSUPPORTED);
    bytes_free(&record);
}

/* Everything that decides what runs changes the id; what is for people does not. */
static void identity(void)
{
    struct kg_variant base = fixture_variant("k", 64, 1.5);
    variant_identify(&base);
#define DIFFERS(change)                                                                            \
    do {                                                                                           \
        struct kg_variant other = fixture_variant("k", 64, 1.5);                                   \
        change;                                                                                    \
        variant_identify(&other);                                                                  \
        CHECK(!id_equal(&base.id, &other.id));                                                     \
    } while (0)
    DIFFERS(other.code = id_of("other"));
    DIFFERS(other.entry = "other");
    DIFFERS(other.launch.shared++);
    DIFFERS(other.signature.launch.block.x = 128);
    DIFFERS(other.signature.scalar_count = 1);
    DIFFERS(other.signature.overlap_count = 0);
    DIFFERS(other.globals[0] = "g");
    DIFFERS(other.global_count = 0);
    DIFFERS(other.kernel = id_of("other"));
    DIFFERS(other.hardware = id_of("other"));
    fixture_scalars[0].value++;
    DIFFERS((void)0);
    fixture_scalars[0].value--;
    fixture_scalars[0].span++;
    DIFFERS((void)0);
    fixture_scalars[0].span--;
    fixture_pointers[0].access = KG_READ | KG_WRITTEN;
    DIFFERS((void)0);
    fixture_pointers[0].access = KG_READ;
    struct kg_variant same = fixture_variant("k", 64, 3.0);
    same.note = same.kernel_name = same.maker = "other";
    variant_identify(&same);
    CHECK(id_equal(&base.id, &same.id));
}

static void reseal(struct kg_bytes *record)
{
    struct kg_hash hash;
    struct kg_id digest;
    hash_begin(&hash);
    hash_bytes(&hash, record->data, record->size - KG_ID_BYTES);
    hash_end(&hash, &digest);
    memcpy(record->data + record->size - KG_ID_BYTES, digest.bytes, KG_ID_BYTES);
}

static kg_status parse_exact(const unsigned char *data, size_t size, struct kg_variant *out)
{
    unsigned char *copy = malloc(size ? size : 1); /* so that a sanitizer sees an overrun */
    memcpy(copy, data, size);
    kg_status status = variant_parse(copy, size, out);
    free(copy);
    return status;
}

static void damage(void)
{
    struct kg_variant one = fixture_variant("k", 64, 1.5), out;
    struct kg_bytes record;
    unsigned accepted = 0, refused = 0;
    CHECK(variant_pack(&one, &record) == KG_OK);
    for (size_t size = 0; size < record.size; size++)
        accepted += parse_exact(record.data, size, &out) == KG_OK;
    for (size_t bit = 0; bit < 8 * record.size; bit++) {
        record.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        accepted += parse_exact(record.data, record.size, &out) == KG_OK;
        record.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    CHECK(!accepted);
    for (size_t bit = 8 * 12; bit < 8 * (record.size - KG_ID_BYTES); bit++) {
        record.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        reseal(&record);
        kg_status status = parse_exact(record.data, record.size, &out);
        CHECK(status == KG_OK || status == KG_CORRUPT);
        refused += status != KG_OK;
        variant_free(&out);
        record.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    CHECK(refused > 100);
    bytes_free(&record);
}

/* A signature that would lead a guard astray is no signature. */
static void forged_signature(void)
{
    struct kg_variant out;
    struct kg_bytes record;
#define REFUSED(set, restore)                                                                      \
    do {                                                                                           \
        struct kg_variant one = fixture_variant("k", 64, 1.5);                                     \
        set;                                                                                       \
        CHECK(variant_pack(&one, &record) == KG_OK);                                               \
        CHECK(variant_parse(record.data, record.size, &out) == KG_CORRUPT);                        \
        bytes_free(&record);                                                                       \
        restore;                                                                                   \
    } while (0)
    REFUSED(fixture_scalars[0].size = 9, fixture_scalars[0].size = 4);
    REFUSED(fixture_scalars[0].size = 0, fixture_scalars[0].size = 4);
    REFUSED(fixture_scalars[0].value = 1ull << 32, fixture_scalars[0].value = 1000);
    REFUSED(fixture_scalars[0].span = 1ull << 32, fixture_scalars[0].span = 24);
    REFUSED(fixture_pointers[0].access = 4, fixture_pointers[0].access = KG_READ);
    REFUSED(fixture_pointers[0].align = 0, fixture_pointers[0].align = 256);
    REFUSED(fixture_pointers[0].align = 48, fixture_pointers[0].align = 256);
    REFUSED(fixture_pointers[0].low = 5000, fixture_pointers[0].low = 0);
    REFUSED(fixture_overlaps[0].b = 2, fixture_overlaps[0].b = 1);
    REFUSED(fixture_overlaps[0].a = 1, fixture_overlaps[0].a = 0);
    REFUSED(one.launch.block.y = 0, (void)0);
    REFUSED(one.signature.launch.grid.z = 0, (void)0);
    REFUSED(one.entry = "", (void)0);
}

static void others(void)
{
    struct kg_rejection rejection = {.gate = "memory",
                                     .reason = "writes past the end",
                                     .driver_version = 13000,
                                     .evidence = id_of("evidence"),
                                     .time = 5},
                        rejection2;
    struct kg_job_note job = {.state = "verify", .detail = "gate 4"}, job2;
    struct kg_kernel_note kernel = {.name = "k",
                                    .program = "/bin/app",
                                    .app_ns = NAN,
                                    .ptx = id_of("ptx"),
                                    .launch = id_of("launch")},
                          kernel2;
    struct kg_hardware hardware = fixture_hardware(), hardware2;
    struct kg_bytes record;
    CHECK(rejection_pack(&rejection, &record) == KG_OK &&
          rejection_parse(record.data, record.size, &rejection2) == KG_OK);
    CHECK(!strcmp(rejection.reason, rejection2.reason) && rejection2.time == 5);
    CHECK(rejection2.driver_version == 13000 &&
          id_equal(&rejection.evidence, &rejection2.evidence));
    /* Version 2 had no evidence at its end, version 1 no driver's version either. */
    struct kg_bytes old;
    for (unsigned version = 2; version; version--) {
        size_t less = version == 2 ? KG_ID_BYTES : KG_ID_BYTES + 4;
        old = (struct kg_bytes){malloc(record.size), record.size - less};
        static const struct kg_id none;
        memcpy(old.data, record.data, old.size);
        old.data[8] = (unsigned char)version;
        reseal(&old);
        CHECK(rejection_parse(old.data, old.size, &rejection2) == KG_OK);
        CHECK(rejection2.time == 5 && id_equal(&rejection2.evidence, &none));
        CHECK(rejection2.driver_version == (version == 2 ? 13000 : 0));
        free(old.data);
    }
    /* A record of one kind is not read as another. */
    CHECK(job_note_parse(record.data, record.size, &job2) == KG_CORRUPT);
    bytes_free(&record);
    CHECK(job_note_pack(&job, &record) == KG_OK &&
          job_note_parse(record.data, record.size, &job2) == KG_OK &&
          !strcmp(job2.state, "verify") && !strcmp(job2.detail, "gate 4"));
    CHECK(job_note_parse(record.data, record.size - 1, &job2) == KG_CORRUPT);
    bytes_free(&record);
    CHECK(kernel_note_pack(&kernel, &record) == KG_OK &&
          kernel_note_parse(record.data, record.size, &kernel2) == KG_OK && kernel2.app_ns == 0);
    CHECK(id_equal(&kernel2.ptx, &kernel.ptx) && id_equal(&kernel2.launch, &kernel.launch));
    /* The version before had no PTX and no launch at its end. */
    struct kg_id none = {{0}};
    old = (struct kg_bytes){malloc(record.size), record.size - 2 * KG_ID_BYTES};
    memcpy(old.data, record.data, old.size);
    old.data[8] = 1;
    reseal(&old);
    CHECK(kernel_note_parse(old.data, old.size, &kernel2) == KG_OK);
    CHECK(id_equal(&kernel2.ptx, &none) && !strcmp(kernel2.program, "/bin/app"));
    free(old.data);
    bytes_free(&record);
    CHECK(hardware_pack(&hardware, &record) == KG_OK &&
          hardware_parse(record.data, record.size, &hardware2) == KG_OK);
    CHECK(!memcmp(&hardware, &hardware2, sizeof hardware));
    bytes_free(&record);
}

static void blobs(void)
{
    char text[5000];
    struct kg_id id, other = id_of("other");
    struct kg_bytes packed, back;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)("kgenrt"[i % 6] + (i / 997));
    CHECK(blob_pack(text, sizeof text, &id, &packed) == KG_OK && packed.size < sizeof text / 4);
    CHECK(blob_unpack(packed.data, packed.size, &id, &back) == KG_OK);
    CHECK(back.size == sizeof text && !memcmp(back.data, text, sizeof text));
    bytes_free(&back);
    CHECK(blob_unpack(packed.data, packed.size, &other, &back) == KG_CORRUPT && !back.data);
    unsigned accepted = 0;
    for (size_t size = 0; size < packed.size; size++)
        accepted += blob_unpack(packed.data, size, &id, &back) == KG_OK;
    for (size_t bit = 0; bit < 8 * packed.size; bit++) {
        packed.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        /* A frame has bits without a meaning: then the content is the right one. */
        if (blob_unpack(packed.data, packed.size, &id, &back) == KG_OK)
            accepted += memcmp(back.data, text, sizeof text) != 0;
        bytes_free(&back);
        packed.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    CHECK(!accepted);
    bytes_free(&packed);
    CHECK(blob_pack("", 0, &id, &packed) == KG_OK &&
          blob_unpack(packed.data, packed.size, &id, &back) == KG_OK && !back.size);
    bytes_free(&back);
    bytes_free(&packed);
}

int main(void)
{
    variant();
    identity();
    damage();
    forged_signature();
    others();
    blobs();
    return test_result();
}
