/* The real CUDA driver: one pointer for each row of cuda_api.def. Whoever calls the driver calls it
 * through here, so that nothing of ours is linked to libcuda and our own calls never enter our
 * hooks. */
#ifndef KG_REAL_H
#define KG_REAL_H

#ifdef CUDA_VERSION
#error "include gpu/real.h before cuda.h: it switches off the header's renaming"
#endif
#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>

#if CUDA_VERSION < 12050
typedef struct CUctxCreateParams_st CUctxCreateParams;
#endif

#include "kgenrt.h"

struct real_driver {
#define API(ret, symbol, base, version, stream, use, params, args) ret(*symbol) params;
#include "cuda_api.def"
#undef API
};

/* Pointers of entries that this driver lacks are NULL. Filled by real_open or, entry by entry, by
 * the interposer as it sees the app resolve them. */
extern struct real_driver real;

/* A row of the table for those who walk it. Names are arrays, not pointers: the dynamic linker
 * would have to relocate pointers at the start of every program that is preloaded. */
struct real_row {
    char symbol[56]; /* exported name */
    char base[56];   /* name asked of cuGetProcAddress */
    int version;
    char stream; /* 'L' LEGACY, 'P' PTDS, 'B' BOTH */
    bool hooked;
    size_t offset; /* of the pointer in struct real_driver */
};
extern const struct real_row real_rows[];
extern const unsigned real_row_count;

/* Opens libcuda.so.1 (or what the process has loaded under that name) and fills `real` by its
 * exported names with dlsym_of (NULL: dlsym). KG_NO_DRIVER with one log line where there is none.
 * Idempotent, thread-safe. */
kg_status real_open(void *(*dlsym_of)(void *handle, const char *name));

/* The error's name, never NULL ("CUDA_ERROR_INVALID_VALUE"). */
const char *real_error(CUresult result);
/* True on success; else logs "WHAT: error name" at warn and returns false. */
bool real_ok(CUresult result, const char *what);

/* Facts of a device. A device whose name begins with "softgpu" has vendor "softgpu". */
kg_status real_hardware(CUdevice device, struct kg_hardware *out);

#endif
