/* The replay's device by the real driver, private to replay_cuda.c (operations, loading),
 * replay_place.c (where memory stands), replay_layout.c (where else it may stand), replay_clock.c
 * (what memory holds, and the clock), replay_walk.c (walks over images) and replay_observe.c
 * (instrumented launches). Runs only in the replay child: it may die at any call. */
#ifndef KG_REPLAY_CUDA_H
#define KG_REPLAY_CUDA_H

#include "gpu/real.h"

#include "tune/observe.h"
#include "tune/replay.h"

enum observe_kind { OBSERVE_TOUCHED, OBSERVE_RACES, OBSERVE_KINDS };

/* A side's instrumented code of one kind, made when it is first asked for. */
struct observer {
    bool made;
    kg_status status; /* of making it */
    char reason[256];
    struct instrumented text;
    CUmodule module;
    CUfunction function;
};

/* A side's PTX. Its model names the module's variables. */
struct side_text {
    struct image_code code;
    struct kernel_model model;
    const char *entry;
};

/* Bytes of the image that stand elsewhere: captured ones, and red zones beside them. */
struct moved {
    uint64_t from, size; /* captured address, of all of it … */
    uint64_t to;         /* … and where it stands now */
    uint64_t first, end; /* captured addresses of what was captured */
};

enum { CUDA_IMAGES = 9, CUDA_SETTLED = 6 }; /* the latter: of those that settle */

struct cuda {
    struct replay_device device; /* first: the ops' argument */
    const struct kg_capture *capture;
    const struct replay_request *request;
    struct replay_memory *memory;
    struct kg_hardware hardware;
    unsigned char *image; /* of the original */
    CUdevice handle;
    CUstream stream;
    CUevent start, stop;
    CUmodule modules[2];
    CUfunction functions[2];
    struct kg_launch launches[2];
    void *params[2][64 + VARIANT_GLOBALS + 1];
    unsigned char args[8192];
    CUdeviceptr globals[VARIANT_GLOBALS];  /* of the original's module, for the variant */
    CUdeviceptr kept[REPLAY_SETS];         /* device copies of all extents, 0: none */
    unsigned char *kept_host[REPLAY_SETS]; /* where the device has no room for them */
    unsigned pinned;                       /* images of memory, in images_of's order */
    bool walks;                            /* the GPU can walk them */
    CUfunction walk, draw;
    unsigned walk_blocks;
    CUdeviceptr settled[CUDA_SETTLED]; /* copies of the first of these images; 0: none */
    CUdeviceptr walked;                /* struct walked; 0: walks are not loaded yet */
    unsigned set;                      /* of these, the one in use */
    CUdeviceptr flush;                 /* written before a cold sample */
    size_t flush_bytes;
    unsigned char flush_value;
    CUfunction dirty; /* fills shared memory; NULL: not to be had */
    unsigned dirty_blocks, dirty_bytes, dirty_turn;
    struct moved *moved; /* sorted; NULL: all stands where it was captured */
    uint32_t moved_count;
    uint64_t moved_base, moved_size; /* reserved for it */
    uint64_t granule;
    unsigned layouts; /* so far: each has other distances */
    struct side_text texts[2];
    struct observer observers[2][OBSERVE_KINDS];
};

/* Sets the device's error, which the caller returns. */
kg_status cuda_fail(struct cuda *cuda, CUresult result, const char *what);

#define TRY(what, call)                                                                            \
    do {                                                                                           \
        CUresult result_ = (call);                                                                 \
        if (result_ != CUDA_SUCCESS)                                                               \
            return cuda_fail(cuda, result_, what);                                                 \
    } while (0)

int cuda_attribute(const struct cuda *cuda, CUdevice_attribute which);
/* One launch of a function with a side's configuration and parameters, without waiting. */
CUresult cuda_enqueue(struct cuda *cuda, enum side side, CUfunction function);

/* ---- replay_place.c ----------------------------------------------------------------------------
 */

/* Plans the memory's extents, reserves their addresses, and maps physical memory there. */
kg_status place_all(struct cuda *cuda);
CUmemAllocationProp place_physical(const struct cuda *cuda);
/* Physical memory of its own at a reserved address. */
kg_status place_map(struct cuda *cuda, uint64_t address, uint64_t size);

/* ---- replay_layout.c ---------------------------------------------------------------------------
 */

kg_status cuda_relocate(struct replay_device *device, enum layout layout);
/* Copies by captured addresses, to and from where the bytes stand. */
kg_status layout_read(struct cuda *cuda, uint64_t address, unsigned char *out, size_t size);
kg_status layout_write(struct cuda *cuda, uint64_t address, const unsigned char *data, size_t size);

/* ---- replay_clock.c ----------------------------------------------------------------------------
 */

kg_status clock_open(struct cuda *cuda);
void clock_close(struct cuda *cuda);
kg_status cuda_keep(struct replay_device *device);
kg_status cuda_restore(struct replay_device *device);
kg_status cuda_set_select(struct replay_device *device, unsigned index);
kg_status cuda_sample(struct replay_device *device, enum side side, bool cold, unsigned batch,
                      double *ns);

/* ---- replay_walk.c -----------------------------------------------------------------------------
 */

kg_status cuda_walk(struct replay_device *device, const struct walk *w, struct walked *seen);
kg_status cuda_draw(struct replay_device *device, const struct draw_buffer *buffer);
kg_status cuda_settle(struct replay_device *device);
kg_status cuda_settled(struct replay_device *device, bool *same);
kg_status cuda_holds(struct replay_device *device, const unsigned char *image, bool *same);
void cuda_unpin(struct cuda *cuda);

/* ---- replay_observe.c --------------------------------------------------------------------------
 */

kg_status cuda_observe(struct replay_device *device, enum side side, unsigned what, uint64_t budget,
                       unsigned char *reads, unsigned char *writes, struct replay_observed *out);
/* Frees what the host holds. */
void observers_free(struct cuda *cuda);

#endif
