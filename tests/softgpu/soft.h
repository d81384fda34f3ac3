/* The software GPU's driver, seen from inside: device, contexts, streams, memory, modules. Only the
 * files of libcuda.so.1 include it. Handles that the caller holds are addresses of these
 * structures, checked against a table before use, because tests hand in dead handles on purpose.
 *
 * One lock (soft_lock) guards everything here but the memory table and the handle table, which have
 * locks of their own and are taken last. Nothing runs a kernel, a copy or a callback under a lock.
 *
 * Times are modelled: see clock.c. They say what ran and how much moved, never how fast this
 * machine is, and no performance claim may rest on them. */
#ifndef SOFTGPU_SOFT_H
#define SOFTGPU_SOFT_H

#include "gpu/real.h"

#include <stdatomic.h>

#include "code/code.h"
#include "exec.h"

#define SOFT_SM_REGISTERS 65536
#define SOFT_SHARED (48u << 10) /* a block may have without asking */
#define SOFT_BUS 0x5f           /* PCI bus of the first device */
#define SOFT_DEVICES_MOST 8

/* ---- driver.c: state of the process ---- */

/* CUDA_SUCCESS, or why nothing can be done: not initialised, forked away, shutting down. */
CUresult soft_enter(void);
void soft_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
CUresult soft_status(kg_status status);

/* ---- settings.c: the SOFTGPU_* variables ---- */

/* Reads them all, once: devices and faults. */
CUresult soft_settings(void);
/* The number of the environment variable, or standard. */
uint64_t soft_number(const char *variable, uint64_t standard);
/* True when SOFTGPU_VERBOSE=1: each launch prints a line with its modelled time. */
bool soft_verbose(void);
/* How programs share the device: SOFTGPU_MODE. */
enum soft_mode { SOFT_MODE_DEFAULT, SOFT_MODE_EXCLUSIVE, SOFT_MODE_MPS, SOFT_MODES };
enum soft_mode soft_mode(void);
/* Counts an event of this kind; true for one that SOFTGPU_FAULT asks to fail. */
enum soft_event { SOFT_OOM, SOFT_LAUNCH, SOFT_HANG, SOFT_LOST, SOFT_SLOW, SOFT_EVENTS };
bool soft_fault_due(enum soft_event event);
uint64_t soft_slowness(void); /* milliseconds that each copy takes longer */
void soft_lose(void);         /* the device: every call fails from now on */
bool soft_lost(void);

/* ---- device.c ---- */

struct device_model {
    const char *word, *name;
    int major, minor, sms, sm_threads, sm_blocks, sm_shared_kib, block_shared_kib, reserved_kib,
        l2_bytes, clock_khz, memory_khz, bus_bits;
    uint64_t memory_bytes;
    int copy_engines, double_ratio;
};

struct device {
    const struct device_model *model;
    uint64_t memory; /* bytes */
    int ordinal;
    char arch[12]; /* "sm_90" */
};

const struct device_model *device_model_find(const char *word, size_t length);
bool device_add(const struct device_model *model, uint64_t memory); /* memory 0: the model's */
int device_count(void);
struct device *device_at(int ordinal); /* of a number that is known to be good */
CUresult device_of(CUdevice ordinal, struct device **out);

/* ---- entries.c: the rows of cuda_api.def ---- */

enum entry_form { FORM_LEGACY, FORM_PTDS, FORM_BOTH };
struct entry_row {
    const char *base;
    int version;
    enum entry_form form;
    void *function;
};
extern const struct entry_row entry_rows[];
extern const unsigned entry_row_count;

/* ---- handles.c ---- */

enum handle_kind {
    HANDLE_NONE,
    HANDLE_CONTEXT,
    HANDLE_STREAM,
    HANDLE_EVENT,
    HANDLE_MODULE,
    HANDLE_FUNCTION,
    HANDLE_LIBRARY,
    HANDLE_KERNEL,
    HANDLE_LINK,
    HANDLE_PHYSICAL,
    HANDLE_POOL,
    HANDLE_GRAPH,
    HANDLE_NODE,
    HANDLE_EXEC,
    HANDLE_USER_OBJECT,
    HANDLE_GREEN,
    HANDLE_RESOURCES,
};
/* False when memory is out. */
bool handle_add(const void *handle, enum handle_kind kind);
enum handle_kind handle_kind_of(const void *handle);
/* soft_enter, and then `error` unless the handle is alive and of this kind. */
CUresult handle_enter(const void *handle, enum handle_kind kind, CUresult error);
void handle_remove(const void *handle);

/* ---- context.c ---- */

enum { SOFT_LIMITS = 8 };

struct context {
    struct device *device;
    bool primary, listed; /* listed: among the contexts ever alive */
    atomic_bool alive;
    unsigned flags, references; /* references: of the primary context */
    unsigned peers;             /* bit N: access to device N's memory is enabled */
    uint64_t id;
    _Atomic CUresult fault; /* sticky; CUDA_SUCCESS: none */
    size_t limits[SOFT_LIMITS];
    struct stream *legacy;  /* the default stream */
    struct stream *streams; /* all of the context's, the default one among them */
    struct event *events;
    struct module *modules;
    struct context *whole; /* of a green context: the primary one; NULL: this is no part */
    struct green *green;
    struct context *next;
};

/* A part of the primary context, with streams of its own, and its end: green.c. */
CUresult context_part(struct context *primary, struct green *green, struct context **out);
void context_part_end(struct context *part);
/* That modules, functions and memory belong to. */
static inline struct context *context_whole(struct context *context)
{
    return context->whole ? context->whole : context;
}

/* The current context, alive and without a fault, or why not. */
CUresult context_enter(struct context **out);
/* The same of a given handle; NULL: the current one. */
CUresult context_of(CUcontext handle, struct context **out);
/* The context current to this thread, alive or not; NULL: none. */
struct context *context_current(void);
struct context *context_primary(int device);
/* The context current to this thread if it is alive, else the first device's primary one. */
struct context *context_here(void);
struct context *contexts_all(void);   /* the same, for callers that hold the lock */
struct context *contexts_first(void); /* all ever made: the list only grows, at its front */

/* ---- memory.c ---- */

/* Of cuMemAlloc; managed; a module's variable; pinned host memory, ours or the caller's; mapped by
 * the virtual memory calls. */
enum memory_kind {
    MEMORY_DEVICE,
    MEMORY_MANAGED,
    MEMORY_MODULE,
    MEMORY_HOST,
    MEMORY_REGISTERED,
    MEMORY_MAPPED,
};

struct memory_block {
    uint64_t base, size;
    enum memory_kind kind;
    bool writable, sync; /* sync: CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
    unsigned flags;      /* of the host call that made it */
    uint64_t id;         /* no two allocations of a process have the same */
    int device;          /* ordinal; of host memory: of the context that made it */
    struct context *context;
    struct pool *pool; /* that it was taken from; NULL: none */
};

/* Takes a new device, managed or module block. CUDA_ERROR_OUT_OF_MEMORY when the device has no
 * room. */
CUresult memory_take(struct context *context, uint64_t size, uint64_t align, enum memory_kind kind,
                     uint64_t *address);
/* Remembers that the block at this address is of a pool. */
void memory_mark(uint64_t address, struct pool *pool);
void memory_sync_set(uint64_t address, bool sync); /* of the block that holds address */
/* Gives such a block back; CUDA_ERROR_INVALID_VALUE unless address is its first byte and the block
 * is of this kind, or managed where device is asked for. */
CUresult memory_give(uint64_t address, enum memory_kind kind);
/* All blocks of a context that is going: device, managed and pinned host memory. */
void memory_give_all(struct context *context);
/* Enters memory that is mapped already into the table (id is given here), and takes it out again.
 */
CUresult memory_enter(struct memory_block block);
CUresult memory_leave(uint64_t base, enum memory_kind kind);
/* The live block that holds address. */
bool memory_find(uint64_t address, struct memory_block *out);
/* True when [address, address + size) is live device memory as a whole. */
bool memory_covers(uint64_t address, uint64_t size, bool write);
/* True when address lies in what was taken for device addresses: not live, it is a mistake. */
bool memory_is_device_address(uint64_t address);
/* Counts device memory that is taken by other means; false when there is no room. */
bool memory_charge(int device, uint64_t size);
void memory_uncharge(int device, uint64_t size);
uint64_t memory_used(int device);
/* Whose memory the executor's allocations of this thread are, for the variables of a module. */
void memory_owner_set(int device);
extern const struct exec_memory soft_memory;
uint64_t round_up(uint64_t value, uint64_t to);

/* pool.c: a block of a pool was given back; the work of a device was waited for. */
void pool_gave(const struct memory_block *block);
void pools_settle(int device);

/* vmm.c */
bool vmm_holds(uint64_t address); /* inside a reservation */
/* The reservation that holds the address; false: none. */
bool vmm_range(uint64_t address, uint64_t *base, uint64_t *size);

/* ---- stream.c: queues and the threads that serve them ---- */

struct op {
    struct op *next;
    unsigned references;
    bool done;
    struct stream *stream;
    struct op **after; /* must be done before this one starts */
    unsigned after_count, after_room;
    uint64_t issued, began, end; /* model clock, picoseconds */
    /* Set by who makes the op. run: without a lock; may be NULL. Its result, if not success, is the
     * context's sticky fault. drop: frees what the op owns; may be NULL. */
    CUresult (*run)(struct op *op);
    void (*drop)(struct op *op);
    uint64_t cost;    /* picoseconds; run may set it */
    bool even_faulty; /* run after a fault of the context, too */
};

struct stream {
    struct context *context;
    struct op *first, *last; /* queue; first runs when running is set */
    struct op *tail;         /* the last op ever queued, referenced; NULL: none */
    bool running, destroyed;
    unsigned flags;
    int priority;
    uint64_t id, owner; /* owner: number of the thread whose default stream it is; 0 none */
    uint64_t end;       /* model clock when its last op ended */
    CUlaunchAttribute attributes[4];
    unsigned attribute_count;
    struct capture *capture; /* that it is part of, and after which of its nodes it stands */
    struct node **captured;
    unsigned captured_count;
    struct stream *next_of_context, *next;
};

void soft_lock(void);
void soft_unlock(void);
uint64_t thread_number(void); /* of the calling thread, from 1 */

/* The stream that a handle means in this context. per_thread: NULL means the thread's own default
 * stream. */
CUresult stream_of(struct context *context, CUstream handle, bool per_thread, struct stream **out);
/* Caller holds the lock. */
CUresult stream_create(struct context *context, unsigned flags, int priority, struct stream **out);
/* An op of `size` bytes whose first member is struct op; NULL when memory is out. */
void *op_create(size_t size);
void op_release(struct op *op); /* caller holds the lock */
/* Ends an op that no queue holds: an event's. Takes the lock; does nothing the second time. */
void op_finish(struct op *op, uint64_t end);
void op_discard(struct op *op); /* one that was never submitted; without the lock */
/* Puts op at the end of stream; consumes it. With wait, returns when it is done, with the context's
 * fault. */
CUresult op_submit(struct stream *stream, struct op *op, bool wait);
/* Caller holds the lock. */
void op_after(struct op *op, struct op *earlier);
CUresult op_wait(struct op *op, struct context *context);
/* Waits until every stream of the context is empty. Takes the lock. */
CUresult context_drain(struct context *context);
void stream_forget_all(struct context *context); /* caller holds the lock; drained before */
extern volatile bool soft_cancel;                /* the process ends: kernels stop */
void streams_finish(void);                       /* at process exit */

/* event.c. Callers hold the lock. */
CUresult event_order(struct op *op, CUevent handle); /* op runs after the event's last record */
void event_forget_all(struct context *context);

/* ---- clock.c ---- */

uint64_t clock_of_launch(uint64_t picoseconds); /* of the kernel's time: clock.h */
/* Of a copy or fill of so many bytes; host: one side is host memory. */
uint64_t clock_of_bytes(uint64_t bytes, bool host);
/* The model clock as this thread has seen it. */
uint64_t clock_host(void);
void clock_host_saw(uint64_t time);

/* ---- module.c ---- */

/* PTX selected from an image; shared by the modules made from it. */
struct code {
    unsigned references;
    struct image_code image;
};
CUresult code_create(const void *data, size_t size, const char *arch, struct code **out);
/* The PTX that stands in for machine code, owned; false: none. */
bool cubin_ptx(const struct kg_bytes *cubin, struct kg_bytes *out);
CUresult code_from_file(const char *path, const char *arch, struct code **out);
void code_release(struct code *code); /* takes the lock */

struct module {
    struct context *context;
    struct library *library; /* NULL: loaded by cuModuleLoad* */
    struct code *code;
    struct exec_module *exec; /* shared with ops under way: `references` of them and the module */
    unsigned references;
    struct function *functions;
    struct module *next;
};

struct function {
    struct module *module;
    const struct exec_kernel *exec;
    struct exec_info info;
    struct kernel *kernel; /* NULL: of a module */
    unsigned max_shared;   /* dynamic shared memory it may have */
    int carveout;
    struct legacy *legacy; /* legacy.c; NULL: nobody asked for it */
    struct function *next;
};

struct kernel {
    struct library *library;
    char *name;
    unsigned max_shared;
    int carveout;
    struct function *function; /* of the context that used it last; see function_of */
    struct kernel *next;
};

struct library {
    struct code *code;
    struct kernel *kernels;
};

CUresult module_create(struct context *context, struct code *code, struct library *library,
                       struct module **out);
void module_hold(struct module *module); /* callers of these two do not hold the lock */
void module_release(struct module *module);
void module_unlink(struct module *module);  /* from its context */
void module_destroy(struct module *module); /* unlinked before */
bool module_eager(void);
CUresult module_global(struct module *module, const char *name, CUdeviceptr *address, size_t *size);
CUresult module_function(struct module *module, const char *name, struct function **out);
/* library.c: the library's module in a context, made at the first call. */
CUresult library_module(struct library *library, struct context *context, struct module **out);
/* function.c: what a CUfunction, or a CUkernel in its clothes, is in this context. */
CUresult function_of(const void *handle, struct context *context, struct function **out);
CUresult function_blocks(const struct function *function, uint64_t threads, uint64_t shared,
                         int *blocks);

/* ---- launch.c ---- */

struct launch_shape {
    struct kg_launch launch;
    bool cooperative;
};
/* What an op needs to be executed, checked; of a kernel's launch params says where the packed
 * parameters belong, and launch_pack puts them there. */
CUresult launch_check(const struct function *function, const struct launch_shape *shape);
CUresult launch_attributes(const CUlaunchAttribute *attributes, unsigned count,
                           struct launch_shape *shape);
CUresult launch_pack(const struct exec_info *info, void **params, void **extra, unsigned char *out);
CUresult launch_make(struct function *function, const struct launch_shape *shape,
                     unsigned char **params, struct op **out);

/* ---- copy.c ---- */

/* One side of a copy: rows of `width` bytes in slices of rows. */
struct side {
    uint64_t address;
    uint64_t pitch, slice; /* bytes from row to row, from slice to slice */
    bool pageable;         /* host memory the driver knows nothing of */
    bool host;
};

struct copy {
    struct side to, from;
    uint64_t width, height, depth;
    unsigned promise; /* what the name of the call says of the sides */
};

struct fill {
    uint64_t address, pitch, width, height; /* width: elements */
    uint32_t value;
    unsigned element; /* bytes */
};

CUresult copy_of(const CUDA_MEMCPY3D *p, struct copy *out);
CUresult copy_check(struct copy *copy); /* and completes the sides */
CUresult copy_make(const struct copy *checked, struct op **out);
CUresult fill_check(const struct fill *fill);
CUresult fill_make(const struct fill *checked, struct op **out);

/* Both stream forms of a call: CALL(name, suffix of the second form, parameters, what to do; `own`
 * says whether 0 is the thread's own default stream). */
#define CALL(name, suffix, parameters, action)                                                     \
    CUresult name parameters                                                                       \
    {                                                                                              \
        enum { own = false };                                                                      \
        return action;                                                                             \
    }                                                                                              \
    CUresult name##suffix parameters                                                               \
    {                                                                                              \
        enum { own = true };                                                                       \
        return action;                                                                             \
    }

#endif
