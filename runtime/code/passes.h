/* Private doors between the files of exact rewriting: what is known of values (passes_value.c),
 * what an operation makes of known operands (passes_fold.c) and of ranges (passes_range.c), and the
 * texts that instructions become (passes_rows.c, passes_float.c, passes_divide.c). passes.c runs
 * them in rounds. Nothing here may guess: what is not known exactly is not known. */
#ifndef KG_PASSES_H
#define KG_PASSES_H

#include "graph.h"

/* The values low to high (unsigned, of the register's or type's bits). `some` is false as long as
 * nothing is known to be written at all. */
struct range {
    uint64_t low, high;
    bool some;
};

static inline uint64_t bits_mask(unsigned bits)
{
    return bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}
static inline struct range range_any(unsigned bits)
{
    return (struct range){0, bits_mask(bits), true};
}
static inline struct range range_one(uint64_t value)
{
    return (struct range){value, value, true};
}
static inline bool range_known(const struct range *range)
{
    return range->some && range->low == range->high;
}

/* ---- passes_fold.c ---- */

enum { FOLD_SOURCES = 6 }; /* operands read, at most; what has more is not folded */

/* What source `index` (from 0) of the operation is read as, and what destination `index` is written
 * as; PTX_TYPE_none: not an operation that is looked into. */
uint8_t fold_source_type(const struct ptx_form *form, unsigned index);
uint8_t fold_result_type(const struct ptx_form *form, unsigned index);
/* Whether all suffixes that are no types are among these; `mods` ends with PTX_MOD_none. */
bool mods_among(const struct ptx_form *form, const enum ptx_mod *mods);
/* The result of known sources, each within its type's bits; false: not known exactly. */
bool fold_known(const struct ptx_form *form, unsigned dest, const uint64_t *in, unsigned count,
                uint64_t *out);
/* The comparison of setp or set: one of eq ne lt le gt ge …; PTX_MOD_none: none. */
enum ptx_mod fold_comparison(const struct ptx_form *form);
bool fold_is_float(uint8_t type); /* f32 or f64 */

#define MODS(...)                                                                                  \
    (const enum ptx_mod[])                                                                         \
    {                                                                                              \
        __VA_ARGS__ __VA_OPT__(, ) PTX_MOD_none                                                    \
    }

static inline bool is_integer(uint8_t type)
{
    return ptx_types[type].class >= PTX_BITS && ptx_types[type].class <= PTX_SIGNED;
}
static inline int64_t extended(uint64_t value, unsigned bits)
{
    return bits >= 64 ? (int64_t)value : (int64_t)(value << (64 - bits)) >> (64 - bits);
}

/* ---- passes_real.c ---- */

double real_value(uint8_t type, uint64_t bits); /* of f32 or f64 */
bool real_denormal(uint8_t type, double value);
bool fold_conversion(const struct ptx_form *form, uint64_t in, uint64_t *out);
bool fold_real(const struct ptx_form *form, const uint64_t *in, unsigned count, uint64_t *out);

/* ---- passes_range.c ---- */

/* Sources and result as above, as ranges; never fails: at worst anything of the type. */
struct range range_result(const struct ptx_form *form, unsigned dest, const struct range *in,
                          unsigned count);

/* ---- passes_value.c ---- */

struct values {
    const struct graph *graph;
    const struct kg_launch *launch; /* NULL: not known */
    struct range *ranges;           /* by value; not `some`: never written where code can run */
    bool *executed;                 /* by block */
    uint8_t *writes;                /* by register: how often it is written; 2: several times */
};
/* KG_LIMIT, KG_NO_MEMORY: nothing is known of this function. */
kg_status values_make(const struct graph *graph, const struct kg_launch *launch,
                      struct kg_arena *arena, struct values *out);
/* What instruction `instr` reads as source `operand`, seen as `type`. */
struct range values_source(const struct values *values, uint32_t instr,
                           const struct ptx_operand *operand, uint8_t type);
/* What it writes to its destination number `dest` (parts of a vector count) when it is executed,
 * whatever its guard. `source` receives whether all operands were single values. */
struct range values_result(const struct values *values, uint32_t instr, unsigned dest,
                           bool *known_sources);
/* The destinations of an instruction in order, parts of vectors one by one; 0 if more than room. */
unsigned instr_results(const struct ptx_instr *instr, const struct ptx_operand **out,
                       unsigned room);

/* ---- specialise.c ---- */

/* The first rewrite, and the rows param and launch: text without what the entry does not need, even
 * if nothing else could be replaced. Parameters as for ptx_rewrite. */
kg_status ptx_specialise(const char *ptx, const char *entry, const struct kg_launch *launch,
                         const struct kg_param *params, uint32_t param_count,
                         const struct kg_scalar *scalars, uint32_t scalar_count,
                         struct kg_bytes *out, unsigned done[PASS_COUNT]);

/* ---- the rows ---- */

struct rewriter {
    struct kg_arena *arena;
    const char *source;
    const struct ptx_func *func;
    const struct graph *graph;
    const struct values *values;
};

/* What stands instead of an instruction: text of the rewriter's arena. */
struct rewrite {
    enum rewrite_pass pass;
    const char *text;
};

/* Texts of several instructions stand in a scope of their own; their registers begin with this, and
 * an instruction that names one is not taken apart again. */
#define OUR_PREFIX "%kg"
bool names_ours(const struct rewriter *r, const struct ptx_instr *instr);

/* Each returns whether the instruction is rewritten, and fills out. */
typedef bool rewrite_row(const struct rewriter *r, uint32_t instr, struct rewrite *out);
rewrite_row rewrite_settle; /* passes_settle.c: rounded, hidden; before all others */
rewrite_row rewrite_common; /* passes_rows.c: all others */
rewrite_row rewrite_float;  /* passes_float.c: div_one, div_power, div_known, mul_one, add_zero */
rewrite_row rewrite_divide; /* passes_divide.c: div_int, narrow */

/* Text of the source between two places, and of an instruction's guard with the blank behind it. */
const char *source_text(const struct rewriter *r, uint32_t begin, uint32_t end);
const char *guard_text(const struct rewriter *r, const struct ptx_instr *instr);
/* Bytes of "@!%p1 " before the operation; 0: not understood. */
size_t guard_size(const char *text, size_t size);
/* "0d4000000000000000", "0f3F800000" or "0x1F". */
const char *literal_text(const struct rewriter *r, uint8_t type, uint64_t bits);

#endif
