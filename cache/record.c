/* Records of the store: every field in order, then a digest. A format that changes gets another
 * version number; an older record is then made again, never guessed at. */
#include "record.h"

enum { MOST_NAME = 4096, MOST_NOTE = 65536 };

static const char variant_magic[PACK_MAGIC] = "KGVARI\0";
static const char rejection_magic[PACK_MAGIC] = "KGREJE\0";
static const char kernel_magic[PACK_MAGIC] = "KGKERN\0";
static const char job_magic[PACK_MAGIC] = "KGJOBN\0";
static const char hardware_magic[PACK_MAGIC] = "KGHARD\0";

/* Of bytes in the store, another magic is damage, not a user's mistake. */
static kg_status begin(struct unpack *in, const void *data, size_t size, const char *magic,
                       uint32_t version)
{
    kg_status status = unpack_begin(in, data, size, magic, version);
    return status == KG_BAD_INPUT ? KG_CORRUPT : status;
}

static kg_status finish(const struct unpack *in)
{
    return unpack_done(in) ? KG_OK : KG_CORRUPT;
}

/* ---- variants -------------------------------------------------------------------------------- */

kg_status variant_pack(const struct kg_variant *variant, struct kg_bytes *out)
{
    struct pack pack = {0};
    pack_begin(&pack, variant_magic, 3);
    pack_id(&pack, &variant->id);
    pack_id(&pack, &variant->hardware);
    pack_id(&pack, &variant->kernel);
    pack_signature(&pack, &variant->signature);
    pack_launch(&pack, &variant->launch);
    pack_text(&pack, variant->maker);
    pack_text(&pack, variant->entry);
    pack_text(&pack, variant->kernel_name);
    pack_text(&pack, variant->note);
    pack_text(&pack, variant->accuracy);
    pack_u32(&pack, variant->exact);
    pack_u32(&pack, variant->global_count);
    for (uint32_t i = 0; i < variant->global_count && i < VARIANT_GLOBALS; i++)
        pack_text(&pack, variant->globals[i]);
    pack_id(&pack, &variant->code);
    pack_id(&pack, &variant->source);
    pack_id(&pack, &variant->ptx);
    pack_id(&pack, &variant->recipe);
    pack_id(&pack, &variant->evidence);
    pack_f64(&pack, variant->original_ns);
    pack_f64(&pack, variant->variant_ns);
    pack_f64(&pack, variant->ratio);
    pack_f64(&pack, variant->low);
    pack_f64(&pack, variant->high);
    pack_u32(&pack, (uint32_t)variant->driver_version);
    pack_u32(&pack, (uint32_t)variant->compiler_version);
    pack_u64(&pack, variant->time);
    return pack_seal(&pack, out);
}

static void unpack_names(struct unpack *in, struct kg_variant *out)
{
    out->maker = unpack_text_arena(in, &out->arena, MOST_NAME);
    out->entry = unpack_text_arena(in, &out->arena, MOST_NAME);
    out->kernel_name = unpack_text_arena(in, &out->arena, MOST_NAME);
    out->note = unpack_text_arena(in, &out->arena, MOST_NOTE);
    out->accuracy = unpack_text_arena(in, &out->arena, MOST_NAME);
    out->exact = unpack_u32(in) == 1;
    uint32_t count = unpack_count(in, 4);
    if (count > VARIANT_GLOBALS || !*out->entry)
        in->failed = true;
    for (uint32_t i = 0; i < count && !in->failed; i++)
        out->globals[out->global_count++] = unpack_text_arena(in, &out->arena, MOST_NAME);
}

static void unpack_timings(struct unpack *in, struct kg_variant *out)
{
    out->original_ns = unpack_f64(in);
    out->variant_ns = unpack_f64(in);
    out->ratio = unpack_f64(in);
    out->low = unpack_f64(in);
    out->high = unpack_f64(in);
    out->driver_version = (int)unpack_u32(in);
    out->compiler_version = (int)unpack_u32(in);
    out->time = unpack_u64(in);
}

kg_status variant_parse(const void *data, size_t size, struct kg_variant *out)
{
    struct unpack in;
    *out = (struct kg_variant){0};
    kg_status status = begin(&in, data, size, variant_magic, 3);
    if (status != KG_OK)
        return status;
    unpack_id(&in, &out->id);
    unpack_id(&in, &out->hardware);
    unpack_id(&in, &out->kernel);
    unpack_signature(&in, &out->arena, &out->signature);
    unpack_launch(&in, &out->launch);
    unpack_names(&in, out);
    unpack_id(&in, &out->code);
    unpack_id(&in, &out->source);
    unpack_id(&in, &out->ptx);
    unpack_id(&in, &out->recipe);
    unpack_id(&in, &out->evidence);
    unpack_timings(&in, out);
    status = finish(&in);
    if (status != KG_OK)
        variant_free(out);
    return status;
}

void variant_free(struct kg_variant *variant)
{
    arena_free(&variant->arena);
    *variant = (struct kg_variant){0};
}

/* ---- what a worker met and decided ----------------------------------------------------------- */

kg_status rejection_pack(const struct kg_rejection *in, struct kg_bytes *out)
{
    struct pack pack = {0};
    pack_begin(&pack, rejection_magic, 3);
    pack_id(&pack, &in->hardware);
    pack_id(&pack, &in->kernel);
    pack_id(&pack, &in->signature);
    pack_text(&pack, in->kernel_name);
    pack_text(&pack, in->maker);
    pack_text(&pack, in->gate);
    pack_text(&pack, in->reason);
    pack_id(&pack, &in->candidate);
    pack_f64(&pack, in->ratio);
    pack_f64(&pack, in->low);
    pack_f64(&pack, in->high);
    pack_u64(&pack, in->time);
    pack_u32(&pack, (uint32_t)in->driver_version);
    pack_id(&pack, &in->evidence);
    return pack_seal(&pack, out);
}

/* Version 1 ended before the driver's version, 2 before the evidence: such verdicts cost a model's
 * answers, and stay. */
kg_status rejection_parse(const void *data, size_t size, struct kg_rejection *out)
{
    struct unpack in;
    uint32_t version = 3;
    kg_status status = begin(&in, data, size, rejection_magic, version);
    while (status == KG_UNSUPPORTED && --version)
        status = begin(&in, data, size, rejection_magic, version);
    unpack_id(&in, &out->hardware);
    unpack_id(&in, &out->kernel);
    unpack_id(&in, &out->signature);
    unpack_text(&in, out->kernel_name, sizeof out->kernel_name);
    unpack_text(&in, out->maker, sizeof out->maker);
    unpack_text(&in, out->gate, sizeof out->gate);
    unpack_text(&in, out->reason, sizeof out->reason);
    unpack_id(&in, &out->candidate);
    out->ratio = unpack_f64(&in);
    out->low = unpack_f64(&in);
    out->high = unpack_f64(&in);
    out->time = unpack_u64(&in);
    out->driver_version = version < 2 ? 0 : (int)unpack_u32(&in);
    out->evidence = (struct kg_id){{0}};
    if (version >= 3)
        unpack_id(&in, &out->evidence);
    return status == KG_OK ? finish(&in) : status;
}

kg_status kernel_note_pack(const struct kg_kernel_note *in, struct kg_bytes *out)
{
    struct pack pack = {0};
    pack_begin(&pack, kernel_magic, 2);
    pack_id(&pack, &in->hardware);
    pack_id(&pack, &in->kernel);
    pack_text(&pack, in->name);
    pack_text(&pack, in->program);
    pack_text(&pack, in->ineligible);
    pack_f64(&pack, in->app_ns);
    pack_f64(&pack, in->app_share);
    pack_u64(&pack, in->time);
    pack_id(&pack, &in->ptx);
    pack_id(&pack, &in->launch);
    return pack_seal(&pack, out);
}

kg_status kernel_note_parse(const void *data, size_t size, struct kg_kernel_note *out)
{
    struct unpack in;
    kg_status status = begin(&in, data, size, kernel_magic, 2);
    bool old =
        status == KG_UNSUPPORTED && (status = begin(&in, data, size, kernel_magic, 1)) == KG_OK;
    unpack_id(&in, &out->hardware);
    unpack_id(&in, &out->kernel);
    unpack_text(&in, out->name, sizeof out->name);
    unpack_text(&in, out->program, sizeof out->program);
    unpack_text(&in, out->ineligible, sizeof out->ineligible);
    out->app_ns = unpack_f64(&in);
    out->app_share = unpack_f64(&in);
    out->time = unpack_u64(&in);
    out->ptx = out->launch = (struct kg_id){{0}};
    if (!old) {
        unpack_id(&in, &out->ptx);
        unpack_id(&in, &out->launch);
    }
    return status == KG_OK ? finish(&in) : status;
}

kg_status job_note_pack(const struct kg_job_note *in, struct kg_bytes *out)
{
    struct pack pack = {0};
    pack_begin(&pack, job_magic, 1);
    pack_id(&pack, &in->hardware);
    pack_id(&pack, &in->kernel);
    pack_id(&pack, &in->signature);
    pack_text(&pack, in->kernel_name);
    pack_text(&pack, in->state);
    pack_text(&pack, in->detail);
    pack_u64(&pack, in->time);
    return pack_seal(&pack, out);
}

kg_status job_note_parse(const void *data, size_t size, struct kg_job_note *out)
{
    struct unpack in;
    kg_status status = begin(&in, data, size, job_magic, 1);
    unpack_id(&in, &out->hardware);
    unpack_id(&in, &out->kernel);
    unpack_id(&in, &out->signature);
    unpack_text(&in, out->kernel_name, sizeof out->kernel_name);
    unpack_text(&in, out->state, sizeof out->state);
    unpack_text(&in, out->detail, sizeof out->detail);
    out->time = unpack_u64(&in);
    return status == KG_OK ? finish(&in) : status;
}

kg_status hardware_pack(const struct kg_hardware *in, struct kg_bytes *out)
{
    struct pack pack = {0};
    pack_begin(&pack, hardware_magic, 1);
    pack_hardware(&pack, in);
    return pack_seal(&pack, out);
}

kg_status hardware_parse(const void *data, size_t size, struct kg_hardware *out)
{
    struct unpack in;
    *out = (struct kg_hardware){0};
    kg_status status = begin(&in, data, size, hardware_magic, 1);
    unpack_hardware(&in, out);
    return status == KG_OK ? finish(&in) : status;
}
