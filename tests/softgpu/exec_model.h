/* The time model of the software GPU: what a launch did, counted, and how long a device of given
 * figures would take for it. It ranks kernels; it is no measurement, and no performance claim may
 * rest on it. Counts and times are the same in every run and with any number of host threads (of a
 * program whose control flow does not depend on the order of its threads).
 *
 * The model, in the order of the code:
 *   slots     each PTX instruction takes a number of issue slots, by its operation (exec_cost.c);
 *             what becomes no machine code (moves, address space changes, scalar parameters) takes
 *             none. Lanes that diverged issue one after another.
 *   pipes     the same instruction keeps one execution pipe busy: rate[] is in hundredths of a warp
 *             instruction a clock and SM.
 *   global    a warp's access is cut into 128-byte lines (one pass of the L1 each) and 32-byte
 *             sectors. Loads look into the block's share of the L1 (direct mapped; the SM's L1
 *             less shared memory, divided by the resident blocks); what misses goes to the L2.
 *             Stores and atomics go to the L2. A sector that a store fills in part counts twice.
 *   shared    32 banks of 4 bytes: as many passes as the busiest bank has different words.
 *   DRAM      every sector counts once for each launch that touches it; beyond that, what the L2
 *             cannot hold: repeated sectors x (1 - L2 / footprint).
 *   latency   of each warp alone: an instruction starts when the one before has issued and its
 *             operands are there. A block lasts as long as its slowest warp; barriers bring its
 *             warps together. An SM works on as many blocks at once as registers, shared memory,
 *             threads and block slots allow.
 *   time      = (sum of bound^4)^(1/4) over: issue, each pipe, L2, DRAM, latency: the largest
 *             rules, others that are nearly as large add to it. Every SM gets an even share of the
 *             launch: tails and devices that are partly empty are left out.
 *
 * Figures of devices: SMs, clocks, DRAM widths and sizes: devices.def. Rates by compute capability:
 * CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions". L2: 5120 bytes a
 * clock on A100 by NVIDIA's architecture paper, assumed for the H200; estimates for L4 and T4; six
 * tenths of it are reached, and 0.88 of the DRAM's nominal rate (4.3 TB/s of a copy on an H200,
 * measured). Latencies are round numbers from published microbenchmarks. Fitted to the H200:
 * indexed constants at half a warp instruction a clock (polynomial). */
#ifndef SOFTGPU_EXEC_MODEL_H
#define SOFTGPU_EXEC_MODEL_H

#include <stdbool.h>
#include <stdint.h>

enum exec_pipe {
    PIPE_NONE,
    PIPE_INT,
    PIPE_FLOAT,
    PIPE_DOUBLE,
    PIPE_SPECIAL, /* reciprocals, exponentials, conversions */
    PIPE_TENSOR,  /* multiply-adds, not instructions */
    PIPE_L1,      /* passes of global and local accesses */
    PIPE_SHARED,  /* passes; shuffles */
    PIPE_CONST,   /* indexed constants and parameters */
    PIPE_ATOMIC,  /* lanes */
    PIPE_COUNT
};

struct exec_device {
    uint32_t sms, sm_threads, sm_blocks, sm_registers, sm_shared, reserved_shared; /* a block */
    uint32_t l1_bytes; /* with shared memory in it */
    uint32_t issue;    /* as rate */
    uint32_t rate[PIPE_COUNT];
    uint64_t l2_bytes, clock_khz;
    uint64_t l2_rate, dram_rate; /* bytes a microsecond, of the whole device */
};

struct exec_counts {
    uint64_t issue, pipe[PIPE_COUNT];
    uint64_t l2_sectors;
    uint64_t unique_sectors; /* of global memory, touched at all */
    uint64_t latency;        /* clocks, the sum over blocks */
    uint32_t resident;       /* blocks of an SM at once */
};

/* Rates of the compute capability; sets nothing else. False: unknown, those of 9.0 are taken. */
bool exec_device_rates(struct exec_device *device, int major, int minor);

/* Picoseconds of the device, without the cost of launching. */
uint64_t exec_model_time(const struct exec_device *device, const struct exec_counts *counts);

#endif
