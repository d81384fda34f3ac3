/* A capture: all that is needed to run one launch again elsewhere. The app writes it into the
 * spool, the worker and `kgenrt replay` read it. This is the file's form and nothing more: no GPU,
 * and safe in the app.
 *
 * File: magic "KGCAP1\0\0", little-endian fields and tables with their counts and sizes, then the
 * data of image and regions, then a BLAKE2b-256 over everything before it (capture.c has the
 * order). A reader trusts nothing: every size and count is checked against the file's size, and the
 * digest against its bytes. In the spool it is called DIR/spool/<kernel id>-<pid>-<number>.kgcap;
 * other names there are unfinished. */
#ifndef KG_CAPTURE_H
#define KG_CAPTURE_H

#include "kgenrt.h"

#define CAPTURE_SUFFIX ".kgcap" /* of finished captures' names */

enum capture_region_kind {
    CAPTURE_POINTER = 0, /* reached through a pointer parameter */
    CAPTURE_GLOBAL = 1,  /* a __device__ or __constant__ variable of the module */
    CAPTURE_NESTED = 2,  /* reached through pointers that stand in captured memory */
};

/* An interval of bytes that the kernel may touch. Several may lie in one allocation. */
struct capture_region {
    enum capture_region_kind kind;
    uint64_t address;         /* device address of the first captured byte */
    uint64_t size;            /* bytes captured */
    uint64_t allocation;      /* base of the allocation it lies in */
    uint64_t allocation_size; /* bytes */
    char name[512];           /* of a global; else empty */
    const unsigned char *data;
    const unsigned char *after; /* the same bytes after the app's own launch; NULL: not kept */
};

#define CAPTURE_NO_REGION UINT32_MAX

struct capture_pointer {    /* which argument word reaches which bytes */
    uint16_t param, offset; /* as in kg_pointer */
    uint32_t region;        /* index into regions; CAPTURE_NO_REGION: an address that this launch
                               does not follow */
};

/* A pointer that stands in captured memory: the 8 bytes at `offset` of a region lead into region
 * `target`, or to its end. */
struct capture_place {
    uint32_t region, target;
    uint64_t offset;
};

struct kg_capture {
    struct kg_hardware hardware;
    char program[256]; /* path of the app's executable */
    int pid;
    uint64_t time; /* seconds since 1970 */
    struct kg_id kernel;
    char entry[512]; /* the entry's own (mangled) name */
    struct kg_launch launch;
    uint32_t max_dynamic_shared; /* function attribute in force, bytes; 0: never set */
    int32_t carveout;            /* preferred shared memory carve-out, percent; -1: never set */
    uint64_t stack_limit, printf_limit, heap_limit; /* context limits, bytes */
    double app_ns;         /* median time of the launch as sampled in the app, 0 unknown */
    double app_share;      /* share of the app's GPU time, 0 to 1 */
    char jit_options[256]; /* of the load call, as text; empty: none */
    uint32_t param_count;
    struct kg_param *params;
    struct kg_bytes args; /* packed parameter buffer */
    uint32_t pointer_count;
    struct capture_pointer *pointers;
    uint32_t region_count;
    struct capture_region *regions;
    uint32_t place_count;
    struct capture_place *places;
    const unsigned char
        *image; /* exactly what the app's load call was given (fatbin, cubin or PTX) */
    size_t image_size;
    struct kg_bytes file; /* after capture_read: what image and data point into */
};

/* Writes the capture to `path` (mode 0600) by a temporary file and rename. Regions' data may stand
 * anywhere. */
kg_status capture_write(const struct kg_capture *capture, const char *path);
/* Reads and checks a capture; free it with capture_free. KG_CORRUPT or KG_BAD_INPUT with one log
 * line otherwise. */
kg_status capture_read(const char *path, struct kg_capture *out);
/* The same from memory, which it takes over (also on failure). For the fuzzer. */
kg_status capture_parse(struct kg_bytes file_take, struct kg_capture *out);
void capture_free(struct kg_capture *capture);

/* The launch signature of a captured launch with every scalar pinned. Free with signature_free. */
kg_status capture_signature(const struct kg_capture *capture, struct kg_signature *out);
void signature_free(struct kg_signature *signature);
/* Finds the overlaps anew, from what the pointers now reach and how they are used. */
kg_status signature_overlaps(const struct kg_capture *capture, struct kg_signature *out);
/* Whether two pointers of these values may stand where they do: neither is written, or they have no
 * byte in common. */
bool reaches_apart(const struct kg_pointer *x, uint64_t at_x, const struct kg_pointer *y,
                   uint64_t at_y);

#endif
