/* Signatures: their digest, which is a key of the store, and their place in a variant's record. */
#include "record.h"

enum { MOST_PARAM = 4096 }; /* parameters of a kernel, an index that is surely forged */

void pack_signature(struct pack *pack, const struct kg_signature *signature)
{
    pack_launch(pack, &signature->launch);
    pack_u32(pack, signature->scalar_count);
    for (uint32_t i = 0; i < signature->scalar_count; i++) {
        const struct kg_scalar *scalar = &signature->scalars[i];
        pack_u16(pack, scalar->param);
        pack_u16(pack, scalar->offset);
        pack_u16(pack, scalar->size);
        pack_u64(pack, scalar->value);
        pack_u64(pack, scalar->span);
    }
    pack_u32(pack, signature->pointer_count);
    for (uint32_t i = 0; i < signature->pointer_count; i++) {
        const struct kg_pointer *pointer = &signature->pointers[i];
        pack_u16(pack, pointer->param);
        pack_u16(pack, pointer->offset);
        pack_u16(pack, pointer->align);
        pack_u16(pack, pointer->access);
        pack_u64(pack, (uint64_t)pointer->low);
        pack_u64(pack, (uint64_t)pointer->high);
    }
    pack_u32(pack, signature->overlap_count);
    for (uint32_t i = 0; i < signature->overlap_count; i++) {
        pack_u16(pack, signature->overlaps[i].a);
        pack_u16(pack, signature->overlaps[i].b);
        pack_u64(pack, (uint64_t)signature->overlaps[i].delta);
    }
}

static void *items(struct unpack *in, struct kg_arena *arena, uint32_t count, size_t size)
{
    void *memory = arena_alloc(arena, (count ? count : 1) * size);
    if (!memory)
        in->failed = true;
    return memory;
}

static void unpack_scalars(struct unpack *in, struct kg_arena *arena, struct kg_signature *out)
{
    uint32_t count = unpack_count(in, 22);
    out->scalars = items(in, arena, count, sizeof *out->scalars);
    for (uint32_t i = 0; i < count && !in->failed; i++) {
        struct kg_scalar *scalar = &out->scalars[i];
        scalar->param = unpack_u16(in);
        scalar->offset = unpack_u16(in);
        scalar->size = unpack_u16(in);
        scalar->value = unpack_u64(in);
        scalar->span = unpack_u64(in);
        if (scalar->param >= MOST_PARAM || !scalar->size || scalar->size > 8 ||
            (scalar->value | scalar->span) & ~scalar_mask(scalar->size))
            in->failed = true;
    }
    out->scalar_count = in->failed ? 0 : count;
}

static void unpack_pointers(struct unpack *in, struct kg_arena *arena, struct kg_signature *out)
{
    uint32_t count = unpack_count(in, 24);
    out->pointers = items(in, arena, count, sizeof *out->pointers);
    for (uint32_t i = 0; i < count && !in->failed; i++) {
        struct kg_pointer *pointer = &out->pointers[i];
        pointer->param = unpack_u16(in);
        pointer->offset = unpack_u16(in);
        pointer->align = unpack_u16(in);
        pointer->access = unpack_u16(in);
        pointer->low = (int64_t)unpack_u64(in);
        pointer->high = (int64_t)unpack_u64(in);
        if (pointer->param >= MOST_PARAM || !pointer->align ||
            (pointer->align & (pointer->align - 1)) || pointer->access > (KG_READ | KG_WRITTEN) ||
            pointer->low > pointer->high)
            in->failed = true;
    }
    out->pointer_count = in->failed ? 0 : count;
}

static void unpack_overlaps(struct unpack *in, struct kg_arena *arena, struct kg_signature *out)
{
    uint32_t count = unpack_count(in, 12);
    out->overlaps = items(in, arena, count, sizeof *out->overlaps);
    for (uint32_t i = 0; i < count && !in->failed; i++) {
        struct kg_overlap *overlap = &out->overlaps[i];
        overlap->a = unpack_u16(in);
        overlap->b = unpack_u16(in);
        overlap->delta = (int64_t)unpack_u64(in);
        if (overlap->a >= overlap->b || overlap->b >= out->pointer_count)
            in->failed = true;
    }
    out->overlap_count = in->failed ? 0 : count;
}

void unpack_signature(struct unpack *in, struct kg_arena *arena, struct kg_signature *out)
{
    *out = (struct kg_signature){0};
    unpack_launch(in, &out->launch);
    unpack_scalars(in, arena, out);
    unpack_pointers(in, arena, out);
    unpack_overlaps(in, arena, out);
}

static void hash_launch(struct kg_hash *hash, const struct kg_launch *launch)
{
    hash_u64(hash, launch->grid.x);
    hash_u64(hash, launch->grid.y);
    hash_u64(hash, launch->grid.z);
    hash_u64(hash, launch->block.x);
    hash_u64(hash, launch->block.y);
    hash_u64(hash, launch->block.z);
    hash_u64(hash, launch->shared);
}

/* Field by field, not over the packed form: the key of the store outlives record versions. */
void signature_id(const struct kg_signature *signature, struct kg_id *out)
{
    struct kg_hash hash;
    hash_begin(&hash);
    hash_text(&hash, "kgenrt signature 2");
    hash_launch(&hash, &signature->launch);
    hash_u64(&hash, signature->scalar_count);
    for (uint32_t i = 0; i < signature->scalar_count; i++) {
        const struct kg_scalar *scalar = &signature->scalars[i];
        hash_u64(&hash, scalar->param);
        hash_u64(&hash, scalar->offset);
        hash_u64(&hash, scalar->size);
        hash_u64(&hash, scalar->value);
        hash_u64(&hash, scalar->span);
    }
    hash_u64(&hash, signature->pointer_count);
    for (uint32_t i = 0; i < signature->pointer_count; i++) {
        const struct kg_pointer *pointer = &signature->pointers[i];
        hash_u64(&hash, pointer->param);
        hash_u64(&hash, pointer->offset);
        hash_u64(&hash, pointer->align);
        hash_u64(&hash, pointer->access);
        hash_u64(&hash, (uint64_t)pointer->low);
        hash_u64(&hash, (uint64_t)pointer->high);
    }
    hash_u64(&hash, signature->overlap_count);
    for (uint32_t i = 0; i < signature->overlap_count; i++) {
        hash_u64(&hash, signature->overlaps[i].a);
        hash_u64(&hash, signature->overlaps[i].b);
        hash_u64(&hash, (uint64_t)signature->overlaps[i].delta);
    }
    hash_end(&hash, out);
}

void variant_identify(struct kg_variant *variant)
{
    struct kg_hash hash;
    struct kg_id signature;
    signature_id(&variant->signature, &signature);
    hash_begin(&hash);
    hash_text(&hash, "kgenrt variant 1");
    hash_bytes(&hash, variant->hardware.bytes, KG_ID_BYTES);
    hash_bytes(&hash, variant->kernel.bytes, KG_ID_BYTES);
    hash_bytes(&hash, signature.bytes, KG_ID_BYTES);
    hash_bytes(&hash, variant->code.bytes, KG_ID_BYTES);
    hash_text(&hash, variant->entry ? variant->entry : "");
    hash_launch(&hash, &variant->launch);
    hash_u64(&hash, variant->global_count);
    for (uint32_t i = 0; i < variant->global_count; i++)
        hash_text(&hash, variant->globals[i]);
    hash_end(&hash, &variant->id);
}
