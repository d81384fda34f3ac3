/* Inside the PTX executor only: decoded code, threads, warps, blocks, launches. exec.h is the door.
 *
 * A kernel is decoded once: every operand becomes a slot of the thread's frame (registers, then
 * constants, special registers and addresses that are set when the frame is made), so an operation
 * is a plain expression over slots. Addresses: global and const ones are host addresses; the other
 * spaces have windows of their own, told by the bits above 48, in which an address is an offset.
 *
 * A warp executes in lockstep those of its lanes that stand at the same place of the code. The
 * frames of its 32 lanes lie side by side: the slot of number n is 32 values, and a slot's index
 * (code->a and so on) is n * WARP. So with R = a lane's column, R[c->a] is that lane's value
 * everywhere, and with R = the warp's frame, R[c->a + i] is that of lane i.
 *
 * How an operation is executed, in the order of preference: (1) a row of exec_ops.def, a statement
 * over D, A, B, C that becomes a loop over the warp's lanes (exec_rows.c); (2) a slow_function,
 * called for each lane with its column; (3) a collective of a warp (exec_warp.c), called when its
 * lanes have met, with R of each lane in lane->R; (4) what exec_run.c does for the whole group. A
 * function that reaches memory gets its address from memory_at, which checks, records and reports;
 * none may keep values outside of slots, lane, block. */
#ifndef SOFTGPU_EXEC_CORE_H
#define SOFTGPU_EXEC_CORE_H

#include "code/ptx.h"
#include "exec.h"

#include <pthread.h>

enum {
    WARP = 32,
    BARRIERS = 17,
    CLUSTER_BARRIER = 16 /* no program can name it */,
    MAX_THREADS = 1024,
    MAX_DEPTH = 64,
    RANGES = 8
};
enum window {
    WINDOW_GLOBAL,
    WINDOW_SHARED,
    WINDOW_LOCAL,
    WINDOW_PARAM,
    WINDOW_FUNCTION,
    WINDOW_NONE = 0xffff /* of an address that its space cannot have */
};
#define WINDOW_BASE(window) ((uint64_t)(window) << 48)

union slot {
    uint64_t u64;
    int64_t s64;
    uint32_t u32;
    int32_t s32;
    uint16_t u16;
    int16_t s16;
    uint8_t u8;
    int8_t s8;
    float f32;
    double f64;
};

/* Operations of the inner loop: the rows of exec_ops.def, then what exec_run.c writes by hand. */
enum exec_op {
#define ROW(id, text, ...) X_##id,
#include "exec_ops.def"
    X_mov,
    X_load, /* kind: enum ptx_space */
    X_store,
    X_ld_param,
    X_special, /* clocks and timers: read when executed */
    X_slow,    /* code->slow */
    X_skip_if, /* guards; count as no instruction */
    X_skip_unless,
    X_negate, /* a negated predicate operand; counts as no instruction */
    X_bra,
    X_bra_if,
    X_bra_unless,
    X_brx,
    X_call,
    X_ret,
    X_exit,
    X_trap,
    X_yield,
    X_barrier,
    X_arrive,
    X_collective, /* waits for other lanes of the warp */
    X_unsupported,
    X_COUNT
};

/* Modes of float operations; the low two bits are the rounding. */
enum mode { ROUND_NEAREST, ROUND_ZERO, ROUND_DOWN, ROUND_UP, ROUND_MASK = 3, FTZ = 4, SAT = 8 };

struct lane;
struct code;
typedef bool (*slow_function)(struct lane *lane, union slot *R, const struct code *c);
/* R: frame of the warp; mask: the lanes. */
typedef void (*row_function)(union slot *R, const struct code *c, uint32_t mask);

/* What the time model counts for an instruction: exec_model.h. */
struct cost {
    uint8_t pipe, slots, special, latency;
    bool direct; /* at an address that is known: an operand of its user */
    uint32_t work;
};

struct code {
    uint16_t op;   /* enum exec_op */
    uint8_t mode;  /* enum mode */
    uint8_t type;  /* enum ptx_type of the operation (the last type suffix: the source's) */
    uint8_t width; /* bytes of an element in memory */
    uint8_t count; /* elements */
    uint8_t kind;  /* comparison, atomic operation, ...: enum ptx_mod's value where it fits */
    bool narrow;   /* address register has 32 bits */
    uint32_t d, p; /* destinations: result, predicate */
    uint32_t a, b, c, m;
    int64_t imm; /* address offset; target of a branch */
    struct cost cost;
    row_function row; /* of an operation that is a row */
    slow_function slow;
    union {
        const uint32_t *list; /* slots of a vector; targets of brx, count first */
        const struct call_site *call;
        const struct matrix *matrix; /* exec_matrix.h */
        const struct bulk *bulk;
    };
    const struct ptx_instr *instr;
};

/* A lane's address: one of 32 bits stays so, whatever is added to it. */
static inline uint64_t operand_address(const struct code *c, const union slot *R)
{
    return c->narrow ? (uint32_t)(R[c->a].u32 + (uint64_t)c->imm) : R[c->a].u64 + (uint64_t)c->imm;
}

struct call_arg {
    bool in_memory;        /* a .param variable of the caller's frame, else a slot */
    uint32_t slot, offset; /* offset: in the frame's local memory */
    uint32_t size;
};

/* The addresses of a bulk copy: to, from, and the mbarrier that is told. */
enum { BULK_TO, BULK_FROM, BULK_MBARRIER, BULK_ADDRESSES };
struct bulk {
    uint32_t slots[BULK_ADDRESSES], size; /* size: slot of the number of bytes */
    int64_t offsets[BULK_ADDRESSES];
    uint8_t spaces[BULK_ADDRESSES];
    bool narrow[BULK_ADDRESSES];
    unsigned count;
};

enum builtin { BUILTIN_NONE, BUILTIN_PRINTF, BUILTIN_ASSERT, BUILTIN_MALLOC, BUILTIN_FREE };

struct call_site {
    const struct exec_func *callee; /* NULL: indirect (address in slot), or built in, or missing */
    enum builtin builtin;
    bool indirect;
    uint32_t slot;
    uint32_t arg_count, result_count;
    struct call_arg *args, *results;
};

/* A slot whose value depends on thread, block or frame. */
struct fixup {
    uint32_t slot;
    uint8_t special; /* 0: the frame's local memory + value, in the local window or, with component
                        1, as an offset */
    uint8_t component;
    uint64_t value;
};

struct exec_func {
    const struct ptx_func *ptx;
    const struct exec_module *module;
    uint32_t code_count, slot_count, fixup_count;
    struct code *code;
    union slot *frame; /* initial values of the slots */
    struct fixup *fixups;
    uint32_t local_bytes;                   /* of one frame */
    uint32_t *param_offset, *result_offset; /* in the frame's local memory (not of an entry) */
    uint32_t shared_base, shared_bytes;     /* its own shared variables: [base, bytes) */
    uint32_t stack_bytes;                   /* local memory with all callees */
    bool visiting, visited;                 /* while and when stack_bytes are summed up */
};

struct exec_kernel {
    struct exec_func *func;
    struct kg_param *params;
    struct exec_info info;
};

struct exec_variable {
    const char *name;
    uint64_t address, size;
    bool owned;
};

struct exec_module {
    struct ptx_module ptx;
    struct kg_arena arena;
    struct exec_memory memory;
    struct heap *heap;
    uint32_t variable_count, func_count, kernel_count;
    struct exec_variable *variables; /* parallel to ptx.vars */
    struct exec_func *funcs;         /* parallel to ptx.funcs */
    struct exec_kernel *kernels;
    uint32_t *shared_offset; /* parallel to ptx.vars: of shared variables of the module */
    uint32_t dynamic_offset; /* of the unsized ones: behind the static memory of every entry */
};

/* ---- running --------------------------------------------------------------------------------- */

enum lane_state { READY, DONE, AT_BARRIER, AT_COLLECTIVE };

struct frame {
    const struct exec_func *func;
    const struct code *back; /* in the caller */
    const struct call_site *site;
    uint32_t slot_base, local_base, allocated;
};

struct lane {
    struct block *block;
    struct warp *warp;
    const struct exec_func *func; /* the current one */
    const struct code *pc;
    union slot *R; /* column of the current frame */
    unsigned char *local;
    uint32_t index, tid[3];
    uint32_t depth, stack_used; /* slots of the frames of callees */
    uint8_t state, carry;
    const void *stores;          /* what the access is about to store, if that is known */
    uint64_t released, acquired; /* when last, by the clock of races */
    uint32_t allocated;          /* bytes by alloca, at the end of its local memory */
    struct frame *frames;        /* of callees: MAX_DEPTH of them, made at the first call */
};

struct warp {
    struct block *block;
    struct lane *lanes;
    uint32_t count, all; /* lanes, and the mask of them */
    union slot *base;    /* frame of the entry */
    union slot *stack;   /* frames of callees; grows */
    uint32_t stack_room; /* slots */
    uint64_t time;       /* of the model: clocks since the block began */
    uint32_t epoch;      /* collectives that have happened */
    uint64_t *ready;     /* and when each slot of the entry's frame has its value */
};

struct block {
    struct worker *worker;
    struct lane *lanes;
    struct warp *warps;
    union slot *slots;
    unsigned char *shared, *local;
    bool used; /* has run a block of this launch: constants are in the frames */
    uint32_t ctaid[3];
    uint64_t number;
    uint32_t lane_count, warp_count, live;
    uint64_t clock; /* instructions of its warps */
    uint64_t *ready;
    uint32_t ready_slots; /* of each warp */
    uint32_t epoch;       /* barriers that have completed */
    uint64_t acquired;
    uint32_t arrived[BARRIERS];
    struct block *next; /* parked */
};

struct launch {
    const struct exec_kernel *kernel;
    const struct exec_config *config;
    const unsigned char *params;
    struct exec_result *result;
    uint64_t block_count, next_block; /* next_block: atomic */
    uint64_t order_step, order_start;
    uint32_t lane_count, shared_bytes, local_bytes, resident;
    /* Dynamic shared memory begins behind the variables of the module's largest kernel; what is
     * between this kernel's own and that, [gap, dynamic), is nobody's. Equal: nothing is. */
    uint32_t gap, dynamic;
    bool careful;       /* every access goes through memory_at: it is recorded or judged */
    unsigned char dirt; /* what shared and local memory hold at first */
    bool stop;          /* atomic: a fault or cancellation */
    pthread_mutex_t lock;
};

struct worker {
    struct launch *launch;
    struct model *model;              /* NULL: the launch has no device to model */
    struct race *race;                /* NULL: not asked for */
    struct exec_range cached[RANGES]; /* the last used first */
    uint64_t instructions;
    struct block *parked, *idle;
    uint32_t parked_count;
};

/* exec_decode.c */
kg_status exec_decode(struct exec_module *module, struct exec_func *func);
/* exec_forms.c: the row of a form and its mode; X_COUNT if there is none. */
uint16_t form_row(const struct ptx_form *form, uint8_t *mode);
slow_function form_slow(const struct ptx_form *form); /* NULL: not implemented */
bool form_known(const struct ptx_form *form);         /* of what has no function: loads, stores */
/* exec_rows.c, exec_rows_wide.c (the same for newer processors): of row id, or NULL */
row_function row_of(uint16_t op);
row_function row_of_wide(uint16_t op);

/* The lanes that run together, all at c. */
struct group {
    struct warp *warp;
    const struct code *c, *first; /* first: of the function */
    union slot *R;                /* frame of lane 0 */
    uint32_t mask;
    const struct code *stop; /* go no further: others wait there; NULL: nobody does */
    const struct code
        *rejoin; /* lanes of outer that are not in mask wait there for a guarded one */
    uint32_t outer;
    uint32_t fuel; /* taken branches left in this time slice */
};
enum group_end { GROUP_RUNS, GROUP_LEFT, GROUP_TIRED, GROUP_FAULT };
/* exec_run.c: runs the group until it waits, parts, ends, meets others, or its time slice is over.
 */
enum group_end group_run(struct group *group);
/* exec_access.c: X_load and X_store. False: a fault. */
bool group_load(struct group *group, const struct code *c);
bool group_store(struct group *group, const struct code *c);
/* exec_pressure.c */
uint32_t registers_of(const struct ptx_func *ptx, uint32_t max_threads);
/* exec_cost.c */
void cost_of(struct code *c);
/* exec_model.c: blocks of an SM at once. */
uint32_t model_resident(const struct exec_device *device, uint32_t threads, uint32_t registers,
                        uint32_t shared);
/* exec_traffic.c: one model a worker; only where worker->model is not NULL. */
struct model *model_create(const struct launch *launch);
void model_block_begin(struct block *block);
void model_block_end(struct block *block);
uint64_t model_meet(struct block *block);
void model_instruction(struct group *g, const struct code *c); /* but loads and stores */
void model_access(struct group *g, const struct code *c, const uint64_t *address, uint32_t bytes,
                  bool write);
void model_atomic(struct group *g, const struct code *c, const uint64_t *address, uint32_t bytes);
void model_end(struct model *m, struct model *into); /* frees m, adds its counts to `into` */
void model_result(struct model *m, struct exec_counts *out);

/* exec_call.c */
void warp_begin(struct warp *warp);
void block_begin(struct block *block, uint64_t number);
enum block_end { BLOCK_DONE, BLOCK_YIELDS, BLOCK_FAULT };
enum block_end block_run(struct block *block);
uint64_t special_value(const struct lane *lane, unsigned special, unsigned component);
/* exec_warp.c: lets waiting collectives of a warp happen; false if none can. loose: lanes at
 * different places of the code may meet if the operation is the same. quiet: no lane is ready, so
 * those that ask who is active may be answered. */
bool warp_collect(struct lane *lanes, uint32_t count, bool loose, bool quiet);
/* exec_memory.c: host address of a checked access, or NULL after recording a fault. size: a power
 * of two. */
void *memory_at(struct lane *lane, uint64_t address, uint32_t size, bool write);
/* exec_strict.c, exec_race.c: what config->strict asks for. False: a fault. */
void strict_block_begin(struct block *block);
bool strict_access(struct lane *lane, uint64_t address, const unsigned char *at, uint32_t size,
                   bool write);
struct race *race_create(const struct launch *launch);
void race_end(struct race *race);
void race_block_begin(struct block *block);
bool race_access(struct lane *lane, uint64_t address, const unsigned char *at, uint32_t size,
                 bool write);
void race_order(struct lane *lane); /* at a fence */
/* exec_record.c: into config->record, if the launch has one. */
void record_touch(const struct launch *launch, uint64_t address, uint32_t size, bool write);
/* Address in a space of its own, as a generic one. It must not come out in another space's window,
 * however far it is off. */
static inline uint64_t generic_address(unsigned space, uint64_t address)
{
    if (space == PTX_SPACE_generic || space == PTX_SPACE_param)
        return address;
    if (address >> 48)
        return address | WINDOW_BASE(WINDOW_NONE);
    return address + (space == PTX_SPACE_shared  ? WINDOW_BASE(WINDOW_SHARED)
                      : space == PTX_SPACE_local ? WINDOW_BASE(WINDOW_LOCAL)
                                                 : 0);
}
bool slow_atomic(struct lane *lane, union slot *R, const struct code *c);
bool slow_wide_atomic(struct lane *lane, union slot *R, const struct code *c); /* exec_wide.c */
bool slow_copy_async(struct lane *lane, union slot *R, const struct code *c);
/* exec_matrix.c */
bool matrix_plan(const struct ptx_form *form, struct matrix *plan); /* false: not implemented */
bool matrix_fits(const struct ptx_form *form, const struct matrix *plan);
bool matrix_places(struct kg_arena *arena, struct matrix *plan); /* false: out of memory */
bool matrix_happen(struct lane *lanes, uint32_t present);
/* exec_heap.c: 0 if there is no room; false: a fault, of an address that was not given */
struct heap *heap_create(void);
void heap_destroy(struct heap *heap, const struct exec_memory *memory);
uint64_t heap_take(struct lane *lane, uint64_t size);
bool heap_give(struct lane *lane, uint64_t address);
/* exec_call.c */
bool lane_call(struct lane *lane, const struct code *c);
void lane_return(struct lane *lane);
/* exec_launch.c: records the launch's first fault and stops it; returns false. */
bool lane_fault(struct lane *lane, enum exec_fault fault, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Of the NaNs among the operands of an operation on doubles one is its result, made quiet: the
 * second operand's if it is one, else the third's, else the first's. value, if there is none. */
static inline double chosen_nan(double value, double a, double b, double c)
{
    union slot nan = {.f64 = b != b ? b : c != c ? c : a};
    nan.u64 |= UINT64_C(1) << 51;
    return a != a || b != b || c != c ? nan.f64 : value;
}

/* exec_float.c */
float float_op(unsigned op, unsigned mode, float a, float b, float c);
double double_op(unsigned op, unsigned mode, double a, double b, double c);
float divide_approximately(unsigned mode, float a, float b);
uint32_t approximate_high(uint64_t a, bool root);
double small_to_double(uint8_t type, uint32_t bits);
uint32_t small_from_double(uint8_t type, double value, unsigned mode);
float flush(float value, unsigned mode);
float min_f32(float a, float b);
float max_f32(float a, float b);
double min_f64(double a, double b);
double max_f64(double a, double b);
bool slow_convert(struct lane *lane, union slot *R, const struct code *c);
bool slow_half(struct lane *lane, union slot *R, const struct code *c);
bool slow_pair(struct lane *lane, union slot *R, const struct code *c);

/* exec_int.c */
bool slow_int(struct lane *lane, union slot *R, const struct code *c);
bool slow_set(struct lane *lane, union slot *R, const struct code *c);
bool slow_pack(struct lane *lane, union slot *R, const struct code *c);
/* exec_video.c, exec_mbarrier.c, exec_more.c */
bool slow_video(struct lane *lane, union slot *R, const struct code *c);
bool video_selects(const struct ptx_operand *operand); /* a part that it knows */
bool slow_mbarrier(struct lane *lane, union slot *R, const struct code *c);
bool slow_stack(struct lane *lane, union slot *R, const struct code *c);
bool slow_hint(struct lane *lane, union slot *R, const struct code *c);
bool slow_cluster(struct lane *lane, union slot *R, const struct code *c);
bool slow_bulk(struct lane *lane, union slot *R, const struct code *c);
bool mbarrier_complete(struct lane *lane, uint64_t address, uint32_t bytes);
bool slow_cvt_pack(struct lane *lane, union slot *R, const struct code *c);

bool slow_fence(struct lane *lane, union slot *R, const struct code *c);
bool slow_space(struct lane *lane, union slot *R, const struct code *c);

#endif
