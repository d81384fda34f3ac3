/* From an opcode with its suffixes to what executes it: a row of exec_ops.def, or a function for
 * the forms that are rarer or need more than an expression. A suffix or type that is not listed
 * here makes the form unsupported: never guessed at. */
#include "exec_core.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *text;
    uint16_t row;
} rows[] = {
#define ROW(id, text, ...) {text, X_##id},
#define SAME(id, text) {text, X_##id},
#include "exec_ops.def"
};

static uint16_t find(const char *text)
{
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].text, text))
            return rows[i].row;
    return X_COUNT;
}

/* The mode that a suffix stands for, or -1. */
static int mode_of(const char *suffix, size_t length)
{
    static const struct {
        const char *text;
        int mode;
    } modes[] = {{"rn", ROUND_NEAREST}, {"rz", ROUND_ZERO}, {"rm", ROUND_DOWN},
                 {"rp", ROUND_UP},      {"ftz", FTZ},       {"sat", SAT}};
    for (unsigned i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strlen(modes[i].text) == length && !strncmp(modes[i].text, suffix, length))
            return modes[i].mode;
    return -1;
}

uint16_t form_row(const struct ptx_form *form, uint8_t *mode)
{
    char key[128] = "~";
    size_t used = 1;
    *mode = 0;
    for (const char *at = form->text; *at;) {
        size_t length = strcspn(at, ".");
        int found = at == form->text ? -1 : mode_of(at, length);
        if (found >= 0) {
            *mode |= (uint8_t)found;
        } else {
            if (used + length + 2 > sizeof key)
                return X_COUNT;
            if (at != form->text)
                key[used++] = '.';
            memcpy(key + used, at, length);
            key[used += length] = 0;
        }
        at += length + (at[length] == '.');
    }
    uint16_t row = *mode ? (uint16_t)X_COUNT : find(key + 1);
    return row == X_COUNT ? find(key) : row;
}

/* ---- forms with a function of their own; NULL: exec_run.c does it -----------------------------
 */

#define INTS "u16 s16 u32 s32 u64 s64"
#define HALVES "f16 f16x2 bf16 bf16x2"
#define COMPARISONS "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan and or xor ftz"
#define ACCESS                                                                                     \
    "global const shared shared::cta shared::cluster local param param::entry param::func v2 v4 "  \
    "v8 volatile mmio weak relaxed acquire release acq_rel sc cta cluster gpu sys nc ca cg cs lu " \
    "cv wb wt L2::64B L2::128B L2::256B L1::evict_normal L1::evict_unchanged L1::evict_first "     \
    "L1::evict_last L1::no_allocate L2::cache_hint"
#define MEMORY_TYPES                                                                               \
    "b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f16 f16x2 bf16 bf16x2 f32 f64"

static const struct {
    uint16_t op;
    slow_function function;
    const char *mods, *types;
} slow[] = {
    {PTX_OP_cvt, slow_convert, "rn rz rm rp rna rni rzi rmi rpi ftz sat satfinite relu",
     "u8 s8 " INTS " f16 bf16 f16x2 bf16x2 tf32 f32 f64 e4m3x2 e5m2x2"},
    {PTX_OP_cvt, slow_cvt_pack, "pack sat", "u16 s16 u8 s8 u4 s4 u2 s2 s32 b32"},
    {PTX_OP_add, slow_half, "rn ftz sat", HALVES},
    {PTX_OP_sub, slow_half, "rn ftz sat", HALVES},
    {PTX_OP_mul, slow_half, "rn ftz sat", HALVES},
    {PTX_OP_fma, slow_half, "rn ftz sat relu", HALVES},
    {PTX_OP_neg, slow_half, "ftz", HALVES},
    {PTX_OP_abs, slow_half, "ftz", HALVES},
    {PTX_OP_min, slow_half, "ftz NaN xorsign abs", HALVES " f32"},
    {PTX_OP_max, slow_half, "ftz NaN xorsign abs", HALVES " f32"},
    {PTX_OP_ex2, slow_half, "approx ftz", HALVES},
    {PTX_OP_tanh, slow_half, "approx", HALVES},
    {PTX_OP_add, slow_pair, "rn rz rm rp ftz", "f32x2"},
    {PTX_OP_sub, slow_pair, "rn rz rm rp ftz", "f32x2"},
    {PTX_OP_mul, slow_pair, "rn rz rm rp ftz", "f32x2"},
    {PTX_OP_fma, slow_pair, "rn rz rm rp ftz", "f32x2"},
    {PTX_OP_add, slow_int, "sat cc", "s32 u32 s64 u64 u16x2 s16x2"},
    {PTX_OP_addc, slow_int, "cc", "s32 u32 s64 u64"},
    {PTX_OP_sub, slow_int, "sat cc", "s32 u32 s64 u64"},
    {PTX_OP_subc, slow_int, "cc", "s32 u32 s64 u64"},
    {PTX_OP_mad, slow_int, "lo hi cc sat", "s32 u32 s64 u64"},
    {PTX_OP_madc, slow_int, "lo hi cc", "s32 u32 s64 u64"},
    {PTX_OP_mul24, slow_int, "lo hi", "s32 u32"},
    {PTX_OP_mad24, slow_int, "lo hi sat", "s32 u32"},
    {PTX_OP_sad, slow_int, "", INTS},
    {PTX_OP_dp4a, slow_int, "", "s32 u32"},
    {PTX_OP_dp2a, slow_int, "lo hi", "s32 u32"},
    {PTX_OP_min, slow_int, "relu", "u16x2 s16x2 s32"},
    {PTX_OP_max, slow_int, "relu", "u16x2 s16x2 s32"},
    {PTX_OP_bfe, slow_int, "", "u32 s32 u64 s64"},
    {PTX_OP_bfi, slow_int, "", "b32 b64"},
    {PTX_OP_bfind, slow_int, "shiftamt", "u32 s32 u64 s64"},
    {PTX_OP_brev, slow_int, "", "b32 b64"},
    {PTX_OP_prmt, slow_int, "f4e b4e rc8 ecl ecr rc16", "b32"},
    {PTX_OP_shf, slow_int, "l r wrap clamp", "b32"},
    {PTX_OP_lop3, slow_int, "or and", "b32"},
    {PTX_OP_bmsk, slow_int, "clamp wrap", "b32"},
    {PTX_OP_fns, slow_int, "", "b32"},
    {PTX_OP_szext, slow_int, "clamp wrap", "u32 s32"},
    {PTX_OP_setp, slow_set, COMPARISONS, "b16 b32 b64 " INTS " f32 f64 " HALVES},
    {PTX_OP_set, slow_set, COMPARISONS, "b16 b32 b64 " INTS " f32 f64 " HALVES},
    {PTX_OP_slct, slow_set, "ftz", "b16 b32 b64 " INTS " f32 f64"},
    {PTX_OP_testp, slow_set, "finite infinite number notanumber normal subnormal", "f32 f64"},
    {PTX_OP_mov, slow_pack, "", "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64 f16 f16x2 pred"},
    {PTX_OP_membar, slow_fence, "cta gl sys", ""},
    {PTX_OP_fence, slow_fence,
     "sc acq_rel acquire release cta cluster gpu sys proxy async alias mbarrier_init global shared "
     "shared::cta shared::cluster",
     ""},
    {PTX_OP_griddepcontrol, slow_fence, "wait launch_dependents", ""},
    {PTX_OP_setmaxnreg, slow_fence, "inc dec sync aligned", "u32"},
    {PTX_OP_barrier_cluster_arrive, slow_fence, "release relaxed aligned", ""},
    {PTX_OP_prefetch, slow_fence, "global local L1 L2 L2::evict_last L2::evict_normal", ""},
    {PTX_OP_prefetchu, slow_fence, "L1", ""},
    {PTX_OP_pmevent, slow_fence, "", ""},
    {PTX_OP_brkpt, slow_fence, "", ""},
    {PTX_OP_cp_async_commit_group, slow_fence, "", ""},
    {PTX_OP_cp_async_wait_group, slow_fence, "", ""},
    {PTX_OP_cp_async_wait_all, slow_fence, "", ""},
    {PTX_OP_isspacep, slow_space,
     "global const shared shared::cta shared::cluster local param param::entry", ""},
    {PTX_OP_cvta, slow_space, "to global const shared shared::cta local param param::entry",
     "u32 u64"},
    {PTX_OP_ld, NULL, ACCESS, MEMORY_TYPES},
    {PTX_OP_ldu, NULL, ACCESS, MEMORY_TYPES},
    {PTX_OP_st, NULL, ACCESS, MEMORY_TYPES},
    {PTX_OP_atom, slow_atomic, ACCESS " and or xor cas exch add inc dec min max noftz",
     "b16 b32 b64 u32 u64 s32 s64 f32 f64 " HALVES},
    {PTX_OP_atom, slow_wide_atomic, ACCESS " cas exch", "b128"},
    {PTX_OP_red, slow_atomic, ACCESS " and or xor add inc dec min max noftz",
     "b32 b64 u32 u64 s32 s64 f32 f64 " HALVES},
#define VIDEO "eq ne lt le gt ge add min max sat clamp wrap"
#define VIDEO_ROW(op)                                                                              \
    {                                                                                              \
        PTX_OP_##op, slow_video, VIDEO, "u32 s32"                                                  \
    }
    VIDEO_ROW(vadd),
    VIDEO_ROW(vsub),
    VIDEO_ROW(vabsdiff),
    VIDEO_ROW(vmin),
    VIDEO_ROW(vmax),
    VIDEO_ROW(vshl),
    VIDEO_ROW(vshr),
    VIDEO_ROW(vset),
    VIDEO_ROW(vadd2),
    VIDEO_ROW(vsub2),
    VIDEO_ROW(vavrg2),
    VIDEO_ROW(vabsdiff2),
    VIDEO_ROW(vmin2),
    VIDEO_ROW(vmax2),
    VIDEO_ROW(vset2),
    VIDEO_ROW(vadd4),
    VIDEO_ROW(vsub4),
    VIDEO_ROW(vavrg4),
    VIDEO_ROW(vabsdiff4),
    VIDEO_ROW(vmin4),
    VIDEO_ROW(vmax4),
    VIDEO_ROW(vset4),
    {PTX_OP_vmad, slow_video, "sat shr7 shr15", "u32 s32"},
#define MBARRIER                                                                                   \
    "shared shared::cta shared::cluster release acquire relaxed cta cluster noComplete expect_tx " \
    "parity noinc"
#define MBARRIER_ROW(op)                                                                           \
    {                                                                                              \
        PTX_OP_##op, slow_mbarrier, MBARRIER, "b64"                                                \
    }
    MBARRIER_ROW(mbarrier_init),
    MBARRIER_ROW(mbarrier_inval),
    MBARRIER_ROW(mbarrier_expect_tx),
    MBARRIER_ROW(mbarrier_complete_tx),
    MBARRIER_ROW(mbarrier_arrive),
    MBARRIER_ROW(mbarrier_arrive_drop),
    MBARRIER_ROW(mbarrier_test_wait),
    MBARRIER_ROW(mbarrier_try_wait),
    MBARRIER_ROW(mbarrier_pending_count),
    MBARRIER_ROW(cp_async_mbarrier_arrive),
    {PTX_OP_alloca, slow_stack, "", "u32 u64"},
    {PTX_OP_stacksave, slow_stack, "", "u32 u64"},
    {PTX_OP_stackrestore, slow_stack, "", "u32 u64"},
    {PTX_OP_createpolicy, slow_hint,
     "fractional L2::evict_last L2::evict_normal L2::evict_first L2::evict_unchanged", "b64"},
    {PTX_OP_applypriority, slow_hint, "global L2::evict_normal", ""},
    {PTX_OP_discard, slow_hint, "global L2", ""},
    {PTX_OP_cp_async_bulk, slow_bulk,
     "shared::cta shared::cluster global mbarrier::complete_tx::bytes bulk_group", ""},
    {PTX_OP_cp_async_bulk_commit_group, slow_fence, "", ""},
    {PTX_OP_cp_async_bulk_wait_group, slow_fence, "read", ""},
    {PTX_OP_mapa, slow_cluster, "shared::cluster", "u32 u64"},
    {PTX_OP_getctarank, slow_cluster, "shared::cluster", "u32 u64"},
    {PTX_OP_cp_async, slow_copy_async, "ca cg shared shared::cta global L2::64B L2::128B L2::256B",
     ""},
};

static bool listed(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += length)
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
            return true;
    return false;
}

static bool fits(unsigned i, const struct ptx_form *form)
{
    if (slow[i].op != form->op)
        return false;
    for (unsigned k = 0; k < form->mod_count; k++)
        if (form->mods[k] >= PTX_MOD_COUNT || !listed(slow[i].mods, ptx_mods[form->mods[k]]))
            return false;
    for (unsigned k = 0; k < form->type_count; k++)
        if (!listed(slow[i].types, ptx_types[form->types[k]].text))
            return false;
    return true;
}

bool form_known(const struct ptx_form *form)
{
    for (unsigned i = 0; i < sizeof slow / sizeof *slow; i++)
        if (fits(i, form))
            return true;
    return false;
}

slow_function form_slow(const struct ptx_form *form)
{
    for (unsigned i = 0; i < sizeof slow / sizeof *slow; i++)
        if (fits(i, form))
            return slow[i].function;
    return NULL;
}
