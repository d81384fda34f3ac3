/* The PTX executor of the software GPU: on runtime/code's front end and ptx_ops.def. Knows no
 * driver API; the driver (tests/softgpu/driver.c and neighbours) gives it memory and launches, it
 * gives back results, counts and faults. */
#ifndef SOFTGPU_EXEC_H
#define SOFTGPU_EXEC_H

#include "kgenrt.h"

#include "exec_model.h"

/* A mapped, accessible range of device memory. Device addresses are host addresses of reserved
 * windows, so a checked access is a plain load or store. */
struct exec_range {
    uint64_t base, size;
    bool writable;
};

/* What the executor asks of the driver. Called from several threads; must not block on a launch. */
struct exec_memory {
    /* The live range that holds address; or false, and *out is untouched, or, for a fault's text,
     * the range that held address until it was freed. */
    bool (*find)(uint64_t address, struct exec_range *out);
    uint64_t (*alloc)(size_t size, size_t align); /* for module variables; 0 on failure */
    void (*free)(uint64_t address);
};

struct exec_module;
struct exec_kernel;

/* Parses and prepares PTX text; variables are allocated and initialised. error: "line:column:
 * text". */
kg_status exec_module_create(const char *ptx, const struct exec_memory *memory,
                             struct exec_module **out, char *error, size_t error_size);
void exec_module_destroy(struct exec_module *module);
const struct exec_kernel *exec_module_kernel(const struct exec_module *module, const char *name);
unsigned exec_module_kernel_count(const struct exec_module *module);
const struct exec_kernel *exec_module_kernel_at(const struct exec_module *module, unsigned index);
bool exec_module_global(const struct exec_module *module, const char *name, uint64_t *address,
                        uint64_t *size);

struct exec_info {
    const char *name;
    uint32_t param_count, param_bytes;
    const struct kg_param *params;
    uint32_t static_shared, local_bytes,
        registers;        /* registers: an estimate from declared ones, 16 to 255 */
    uint32_t max_threads; /* 1024, or less by .maxntid / .reqntid */
};
void exec_kernel_info(const struct exec_kernel *kernel, struct exec_info *out);

enum exec_fault {
    EXEC_OK,
    EXEC_ILLEGAL_ADDRESS, /* -> CUDA_ERROR_ILLEGAL_ADDRESS */
    EXEC_MISALIGNED,      /* -> CUDA_ERROR_MISALIGNED_ADDRESS */
    EXEC_TRAP,            /* -> CUDA_ERROR_LAUNCH_FAILED */
    EXEC_ASSERT,
    EXEC_UNSUPPORTED, /* an instruction not implemented: named in text */
    EXEC_DEADLOCK,    /* every live thread waits at a barrier that cannot complete */
    EXEC_CANCELLED,   /* *cancel became true */
    EXEC_DIVERGENT,   /* an aligned barrier that part of a warp's live threads reached -> hardware
                         hangs, or what happens is undefined: CUDA_ERROR_LAUNCH_FAILED */
    EXEC_UNWRITTEN,   /* only with EXEC_STRICT_UNWRITTEN -> CUDA_ERROR_LAUNCH_FAILED */
    EXEC_RACE,        /* only with EXEC_STRICT_RACES -> CUDA_ERROR_LAUNCH_FAILED */
};

/* Which bytes of some ranges of device memory a launch touched: exact, atomics in both, whatever
 * instruction made the access, and whatever host thread. One bit a byte, (size + 7) / 8 bytes, the
 * lowest bit first; the caller makes and clears the bitmaps (either may be NULL) and must not
 * overlap ranges. Accesses outside the ranges are not recorded; shared, local and parameter memory
 * never are. A launch that records is several times slower. A faulting access is not recorded; what
 * came before it is. */
struct exec_touched {
    uint64_t base, size;
    uint8_t *read, *written;
};

struct exec_record {
    struct exec_touched *ranges;
    unsigned count;
};

static inline bool exec_was_touched(const uint8_t *bitmap, uint64_t byte)
{
    return bitmap[byte / 8] >> byte % 8 & 1;
}

/* What no GPU notices; makes a launch tens of times slower. Races: one host thread, whatever
 * `threads` says. Unwritten: only of global memory that exec_fill_unwritten was called for when it
 * was allocated, and of shared memory. */
enum exec_strict { EXEC_STRICT_UNWRITTEN = 1, EXEC_STRICT_RACES = 2 };
void exec_fill_unwritten(uint64_t address, uint64_t size);

struct exec_config {
    struct kg_launch launch;
    uint64_t seed;               /* block order; 0: ascending */
    unsigned threads;            /* host threads; 0: as many as processors */
    const volatile bool *cancel; /* may be NULL */
    bool cooperative;            /* blocks wait for each other: all must make progress */
    uint64_t workspace; /* of cooperative groups: size and counter of the grid's barrier; 0: none */
    const struct exec_record *record; /* filled during the launch; may be NULL */
    const struct exec_device *device; /* counts are wanted; may be NULL */
    unsigned strict;                  /* enum exec_strict, or'ed */
    size_t heap;                      /* bytes for malloc in kernels; 0: 8 MiB */
    uint64_t budget; /* instructions of a host thread, roughly, until EXEC_CANCELLED; 0: no end */
};

struct exec_result {
    enum exec_fault fault;
    uint64_t instructions;     /* executed, summed over threads */
    struct exec_counts counts; /* of the time model, if config->device */
    char text[512];            /* of a fault: kernel, PTX line, block, thread, address */
};

/* Runs a whole launch to its end, in the calling thread (and helpers of its own). params: packed
 * parameter buffer of exec_info.param_bytes. */
void exec_launch(const struct exec_kernel *kernel, const struct exec_config *config,
                 const void *params, struct exec_result *out);

#endif
