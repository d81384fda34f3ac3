/* The PTX library: PTX text to a tree, and back. Shared by the runtime's analyses, the rewriter and
 * the executor of the software GPU. Second half of runtime/code: code.h is its other door.
 *
 * The tree is owned by one arena and never changed after parsing; all pointers in it live until
 * ptx_module_free. Equal names in one module are equal pointers. Every instruction and operand
 * knows the bytes of the source it came from, so that a rewriter can splice text exactly. Input is
 * hostile: sizes are bounded by the text's, nothing recurses without a limit, nothing exits. What
 * is not in ptx_ops.def is kept as opaque text with worst-case effects, and counted. */
#ifndef KG_PTX_H
#define KG_PTX_H

#include "kgenrt.h"

/* ---- words of the language: one row each in ptx_ops.def ---------------------------------------
 */

enum ptx_op {
#define PTX_OP(id, text, roles, effects) PTX_OP_##id,
#include "ptx_ops.def"
    PTX_OP_COUNT
};

enum ptx_type {
    PTX_TYPE_none,
#define PTX_TYPE(id, bits, class) PTX_TYPE_##id,
#include "ptx_ops.def"
    PTX_TYPE_COUNT
};
enum ptx_class { PTX_PRED, PTX_BITS, PTX_UNSIGNED, PTX_SIGNED, PTX_FLOAT, PTX_OPAQUE };

/* Suffixes of an operation that are no types: spaces, rounding, comparison, scope, ... Values from
 * PTX_MOD_COUNT on are suffixes unknown to the table; module->mod_texts has their texts. */
enum ptx_mod {
    PTX_MOD_none,
#define PTX_MOD(id, text) PTX_MOD_##id,
#include "ptx_ops.def"
    PTX_MOD_COUNT
};

enum ptx_space {
    PTX_SPACE_generic, /* none named */
    PTX_SPACE_global,
    PTX_SPACE_const,
    PTX_SPACE_shared,
    PTX_SPACE_local,
    PTX_SPACE_param,
    PTX_SPACE_reg,
    PTX_SPACE_tex, /* and .texref, .samplerref, .surfref variables */
};

/* Special registers. */
enum ptx_special {
    PTX_SR_unknown, /* not in the table: counted in module->unknown_count */
#define PTX_SPECIAL(id) PTX_SR_##id,
#include "ptx_ops.def"
    PTX_SR_COUNT
};

/* What an operation does beyond computing its destinations. */
enum ptx_effect {
    PTX_READS = 1,    /* memory */
    PTX_WRITES = 2,   /* memory */
    PTX_ATOMIC = 4,   /* reads and writes as one */
    PTX_BARRIER = 8,  /* waits for other threads of the block or cluster */
    PTX_WARP = 16,    /* exchanges with, or waits for, other lanes of the warp */
    PTX_FENCE = 32,   /* orders memory accesses */
    PTX_ASYNC = 64,   /* its accesses happen later */
    PTX_BRANCH = 128, /* may continue at a label */
    PTX_LEAVES = 256, /* ret, exit, trap: nothing after it runs unless guarded */
    PTX_CALLS = 512,
    PTX_TRAPS = 1024,   /* trap, brkpt */
    PTX_TEXTURE = 2048, /* reads or writes through a texture or surface */
    PTX_WORST = 4096,   /* unknown: anything above */
    PTX_STATE = 8192,   /* depends on, or changes, what is neither register nor memory: the stack,
                           the number of registers, time */
};

/* roles: a letter an operand; the last one stands for all that follow.
 *   d written   s read   b read and written   a address (its register is read)
 *   l label     t name of a .branchtargets list     f callee (and the lists around it) */
struct ptx_op_row {
    const char *text, *roles;
    uint32_t effects;
};
extern const struct ptx_op_row ptx_ops[PTX_OP_COUNT];

struct ptx_type_row {
    const char *text;
    uint8_t bits;  /* 1 for pred, 0 for opaque ones */
    uint8_t class; /* enum ptx_class */
};
extern const struct ptx_type_row ptx_types[PTX_TYPE_COUNT];
extern const char *const ptx_mods[PTX_MOD_COUNT];
extern const char *const ptx_specials[PTX_SR_COUNT]; /* without the % */
extern const char *const ptx_spaces[];

/* ---- tree ------------------------------------------------------------------------------------ */

/* Where in the source: bytes [begin, end), line and column of begin, both from 1. */
struct ptx_place {
    uint32_t begin, end, line, column;
};

/* An operation with all its suffixes, "ld.global.v4.f32"; one for each spelling in a module, so
 * equal spellings are equal pointers. */
struct ptx_form {
    const char *text;     /* as written, without white space */
    uint16_t op;          /* enum ptx_op; PTX_OP_unknown */
    uint8_t space;        /* enum ptx_space of the first space suffix */
    uint8_t vector;       /* 1; 2, 4, 8 with .v2, .v4, .v8 */
    bool strange;         /* has a suffix that is not in the table: worst-case effects */
    uint8_t type_count;   /* type suffixes in order, the first 6 */
    uint8_t types[6];     /* enum ptx_type */
    uint8_t mod_count;    /* the other suffixes in order, those of the op's own name left out */
    const uint16_t *mods; /* enum ptx_mod */
    uint32_t index;       /* number of this form in the module, from 0 */
};
bool ptx_has(const struct ptx_form *form, enum ptx_mod mod);
/* The space that a suffix names; PTX_SPACE_generic: none. */
enum ptx_space ptx_mod_space(unsigned mod);

enum ptx_kind {
    PTX_REG,     /* reg, negated (!%p), component (of a vector register); PTX_SELECTOR: bytes or
                    halves of it by name, "b3210", of the video operations */
    PTX_INT,     /* bits; a negative value is sign-extended */
    PTX_F32,     /* bits of a float written 0f... */
    PTX_F64,     /* bits of a double written 0d... or in decimal */
    PTX_SPECIAL, /* special, component */
    PTX_SYMBOL,  /* address of var or func, plus offset; a prototype or target list: list */
    PTX_ADDRESS, /* [base + offset]: base is reg, else var, else func, else none; parts: what
                    follows a comma inside the brackets (texture coordinates) */
    PTX_VECTOR,  /* {parts} */
    PTX_PAIR,    /* parts[0] | parts[1] */
    PTX_LIST,    /* (parts) of a call */
    PTX_LABEL,   /* label */
    PTX_SINK,    /* _ */
};
#define PTX_NO_REG UINT32_MAX
enum { PTX_SELECTOR = 5 }; /* a component */

struct ptx_operand {
    uint8_t kind;      /* enum ptx_kind */
    uint8_t component; /* 0: none; 1 to 4: .x .y .z .w; PTX_SELECTOR */
    bool negated;
    uint16_t special;    /* enum ptx_special */
    uint32_t begin, end; /* bytes of the source */
    uint32_t reg;        /* number in func->regs, or PTX_NO_REG */
    uint32_t label;      /* number in func->labels */
    uint32_t part_count;
    union {
        uint64_t bits;
        int64_t offset;
    };
    const struct ptx_var *var;
    const struct ptx_func *func;
    const struct ptx_list *list;
    const char *name; /* of a symbol or special register, as written; of a selector */
    struct ptx_operand *parts;
};

/* One instruction. The operands of a call are always: [0] list of results (empty if none), [1]
 * callee (PTX_SYMBOL, or PTX_REG when indirect), [2] list of arguments (empty if none), [3] only if
 * indirect: prototype or targets. */
struct ptx_instr {
    const struct ptx_form *form;
    struct ptx_place place; /* from the guard or opcode to the semicolon, both included */
    uint32_t guard;         /* predicate register, or PTX_NO_REG */
    bool guard_negated;
    bool opaque; /* unknown operation: worst-case effects */
    uint16_t operand_count;
    uint32_t scope; /* number in func->scopes */
    struct ptx_operand *operands;
    const char *opaque_text; /* operands as written, if they did not parse; else NULL */
};
/* Effects of an instruction: its row's; PTX_WORST too if a suffix is unknown. */
uint32_t ptx_effects(const struct ptx_instr *instr);
/* Bytes of memory that a ld, ldu, st, atom or red accesses; 0: not known, or another operation. */
uint32_t ptx_moved_bytes(const struct ptx_form *form);
/* Role letter of operand `index` of this instruction ("s" for opaque ones is not safe: see opaque).
 */
char ptx_role(const struct ptx_instr *instr, unsigned index);

/* A declaration of registers: one name, or a range "%r<12>". */
struct ptx_reg_decl {
    const char *name; /* of a range: the prefix */
    uint8_t type, vector;
    bool range;
    uint32_t count; /* 1, or that of the range: %r0 ... %r(count-1) */
    uint32_t scope;
};
/* A register that the text uses. Numbers are dense in order of first use. */
struct ptx_reg {
    const struct ptx_reg_decl *decl;
    uint32_t index; /* in a range */
    uint8_t type;   /* enum ptx_type */
};
/* Name of a register, as in the source, cut to size; returns text. */
char *ptx_reg_name(const struct ptx_reg *reg, char *text, size_t size);

/* An address in an initialiser: `size` bytes at `offset` get the address of var or func + addend.
 */
struct ptx_reloc {
    uint32_t offset;
    uint8_t size, shift; /* mask(): the byte of the address that starts at bit `shift` */
    bool generic;        /* generic(symbol): the generic address */
    const struct ptx_var *var;
    const struct ptx_func *func;
    int64_t addend;
};

enum ptx_linkage { PTX_LOCAL, PTX_VISIBLE, PTX_WEAK, PTX_EXTERN, PTX_COMMON };

/* A variable or parameter. */
struct ptx_var {
    const char *name;
    struct ptx_place place;
    uint8_t space, type, vector, linkage;
    bool managed;
    const char *attribute;   /* in .attribute(...), as written; NULL: none */
    bool array, unsized;     /* [..]; [] */
    uint32_t align;          /* in force: declared or natural */
    uint32_t declared_align; /* 0: none */
    uint64_t size;           /* bytes; 0 for [] */
    uint64_t element_count;  /* 1 for no array */
    uint8_t dim_count;
    uint64_t dims[8];
    /* parameters */
    uint32_t offset;    /* in the packed parameter buffer */
    bool is_register;   /* parameter of a .func declared as .reg */
    uint32_t reg;       /* then its number in func->regs */
    bool pointer;       /* .ptr */
    uint8_t ptr_space;  /* enum ptx_space named after .ptr */
    uint32_t ptr_align; /* after .ptr; 0: none */
    /* initialiser: image_bytes are given, the rest of size is zero */
    const unsigned char *image;
    uint64_t image_bytes;
    const char *opaque; /* initialiser of a sampler, as written */
    uint32_t reloc_count;
    struct ptx_reloc *relocs;
    uint32_t scope; /* of a body's variable */
};

struct ptx_label {
    const char *name;
    uint32_t instr; /* the instruction that follows it; instr_count at the end */
    uint32_t scope;
    struct ptx_place place;
};

struct ptx_scope {
    uint32_t parent;     /* scope 0, the body, is its own parent */
    uint32_t first, end; /* instructions [first, end) */
};

/* .callprototype, .calltargets, .branchtargets */
struct ptx_list {
    const char *name;
    enum { PTX_PROTOTYPE, PTX_CALL_TARGETS, PTX_BRANCH_TARGETS } kind;
    uint32_t count;
    uint32_t *labels;                   /* of .branchtargets */
    const struct ptx_func **funcs;      /* of .calltargets */
    uint32_t result_count, param_count; /* of .callprototype */
    struct ptx_var *results, *params;
    bool noreturn;
};

/* The body in order of the text, for printing: index counts in the array that kind names. */
struct ptx_stmt {
    enum {
        PTX_STMT_INSTR,
        PTX_STMT_LABEL,
        PTX_STMT_OPEN, /* scopes */
        PTX_STMT_CLOSE,
        PTX_STMT_REG, /* reg_decls */
        PTX_STMT_VAR,
        PTX_STMT_LIST,
        PTX_STMT_LINE, /* module->lines: .loc, .pragma and the like, verbatim */
    } kind;
    uint32_t index;
};

/* A function or entry. Declared several times, it is one ptx_func; defined: it has a body. */
struct ptx_func {
    const char *name;
    bool entry, defined, noreturn;
    uint8_t linkage;
    const char *attribute;         /* in .attribute(...), as written; NULL: none */
    struct ptx_place place;        /* of the definition: from its linkage to the closing brace */
    uint32_t body_begin, body_end; /* bytes: of the opening brace; behind the closing one */
    uint32_t param_count, param_bytes, result_count;
    struct ptx_var **params, **results;
    /* performance directives; 0: not given */
    uint32_t maxntid[3], reqntid[3], reqnctapercluster[3];
    uint32_t minnctapersm, maxnctapersm, maxnreg, maxclusterrank;
    bool explicit_cluster;
    uint32_t directive_count; /* all, in order, as they will be printed */
    const char **directives;
    uint32_t reg_decl_count, reg_count, var_count, label_count, scope_count, list_count;
    uint32_t instr_count, stmt_count;
    struct ptx_reg_decl **reg_decls;
    struct ptx_reg *regs;
    struct ptx_var **vars; /* of the body: .shared .local .param .global .const */
    struct ptx_label *labels;
    struct ptx_scope *scopes;
    struct ptx_list **lists;
    struct ptx_instr *instrs;
    struct ptx_stmt *stmts;
};

/* The module in order of the text, for printing. */
struct ptx_item {
    enum { PTX_ITEM_VAR, PTX_ITEM_DECLARE, PTX_ITEM_DEFINE, PTX_ITEM_LINE } kind;
    union {
        struct ptx_var *var;
        struct ptx_func *func;
        const char *line;
    };
    struct ptx_place place;
};

struct ptx_module {
    struct kg_arena arena;
    unsigned version_major, version_minor; /* .version */
    unsigned sm;                           /* of .target sm_90: 90 */
    const char *target;                    /* whole text: "sm_90a, debug" */
    unsigned address_size;
    uint32_t item_count, var_count, func_count, form_count, line_count;
    struct ptx_item *items;
    struct ptx_var **vars;   /* of the module */
    struct ptx_func **funcs; /* each once, in order of first mention */
    const struct ptx_form **forms;
    const char **lines; /* verbatim directives of bodies */
    uint32_t mod_text_count;
    const char **mod_texts; /* of suffixes PTX_MOD_COUNT + i */
    unsigned unknown_count; /* instructions that are unknown or have unknown suffixes, and uses of
                               unknown special registers */
};

/* Parses `size` bytes of text (no NUL needed; a NUL ends it). On failure error says
 * "line:column: what", and out is empty. Frees nothing of the caller's. */
kg_status ptx_parse(const char *text, size_t size, struct ptx_module *out, char *error,
                    size_t error_size);
void ptx_module_free(struct ptx_module *module); /* zeroed and freed ones are fine */

/* Text that parses to an equal tree (places apart). */
kg_status ptx_print(const struct ptx_module *module, struct kg_bytes *out);

/* NULL if there is none. */
struct ptx_func *ptx_find_func(const struct ptx_module *module, const char *name);
struct ptx_var *ptx_find_var(const struct ptx_module *module, const char *name);
struct ptx_var *ptx_find_param(const struct ptx_func *func, const char *name);

#endif
