/* What a kernel is: from the bytes that a load call was given to one entry point's model. The door
 * of runtime/code; the PTX library has its own, ptx.h. Safe in the app's process: input is hostile,
 * every offset is checked, nothing exits. */
#ifndef KG_CODE_H
#define KG_CODE_H

#include "kgenrt.h"

enum image_kind { IMAGE_UNKNOWN, IMAGE_WRAPPER, IMAGE_FATBIN, IMAGE_ELF, IMAGE_PTX };

/* Kind and extent of what stands at `data`. size: bytes that may be read, or 0 where the driver's
 * interface gives no length (then headers are believed, as the driver believes them). A wrapper's
 * `*data_out` is the fatbin it points to; otherwise data itself. extent: bytes from *data_out.
 * KG_UNSUPPORTED for wrapper version 2 with prelinked parts. */
kg_status image_extent(const void *data, size_t size, enum image_kind *kind, const void **data_out,
                       size_t *extent);

/* One image entry, decompressed. Owns its memory: free with image_code_free. */
struct image_code {
    struct kg_bytes selected; /* what the driver runs: PTX text (NUL-terminated) or an ELF cubin */
    bool machine_code;        /* selected is an ELF */
    struct kg_bytes
        ptx;           /* PTX raw material; equals selected's text when that is PTX; empty: none */
    unsigned sm;       /* of the selected entry: 90 for sm_90 */
    char options[256]; /* the entry's own option record, empty if none */
};

/* The entry that the driver selects for `arch` ("sm_90"): machine code of the same major and the
 * highest minor not above the device's, else the highest PTX not above it; and the best PTX beside
 * it. ptx_only: the device runs no machine code (the software GPU). KG_NOT_FOUND if nothing fits.
 * `size` as for image_extent. */
kg_status image_select(const void *data, size_t size, const char *arch, bool ptx_only,
                       struct image_code *out);
void image_code_free(struct image_code *code);

/* One fatbin of a cubin and the PTX it was made from, both stored: the driver and image_select take
 * the cubin, and the PTX is its raw material. out: owned. */
kg_status image_join(const void *cubin, size_t size, const char *ptx, struct kg_bytes *out);

/* Programs that were linked on the device (nvcc -rdc). A wrapper of version 2 names, beside the
 * fatbin that was linked, those of its parts: copies of all, the linked one first, follow one
 * another in out (owned). KG_NOT_FOUND: it is no such wrapper. KG_LIMIT: more than `most` bytes. */
kg_status image_parts(const void *wrapper, size_t most, struct kg_bytes *out);
/* Of what image_parts gave: one image of the linked machine code for this device and, as its raw
 * material, the PTX of the parts, linked here; with ptx_only that PTX alone. KG_UNSUPPORTED: there
 * is no such machine code, the driver links the parts, and what comes out is not known. out: owned.
 */
kg_status image_link(const struct kg_bytes *parts, const char *arch, bool ptx_only,
                     struct kg_bytes *out);

struct kernel_pointer {
    uint16_t param,
        offset; /* parameter and byte inside it (by-value structs) where 8 bytes of address stand */
};

struct kernel_global {
    char *name;
    uint64_t size; /* bytes; 0 unknown (extern) */
    bool constant; /* .const, else .global */
};

/* All that is known of one entry. Owns its memory. */
struct kernel_model {
    struct kg_arena arena;
    struct kg_id id;      /* kernel id, see the design's "kernel" */
    const char *entry;    /* mangled name */
    bool machine_code;    /* id is over machine code */
    uint32_t param_count; /* 0 to 64 */
    struct kg_param *params;
    uint32_t pointer_count; /* words that reach an address; see kernel_model_make */
    struct kernel_pointer *pointers;
    uint32_t global_count; /* module variables that the entry or what it calls names */
    struct kernel_global *globals;
    const char *ineligible; /* NULL: eligible; else a reason of eligible.def, as text */
};

/* Makes the model of `entry`. Pointers are told from scalars by data flow: a word of a parameter is
 * a pointer when its value, followed through moves, cvta, additions, selections and calls, becomes
 * the address of a generic or global access. KG_NOT_FOUND if the image has no such entry. The
 * kernel id does not depend on other entries of the module, on labels, debug lines, white space, or
 * on the names of functions, the entry's own among them; it does on the names of the globals, by
 * which variants find them. A kernel that cannot be replaced, even one whose PTX does not parse,
 * has a model: KG_OK and `ineligible`. */
kg_status kernel_model_make(const struct image_code *code, const char *entry,
                            struct kernel_model *out);
void kernel_model_free(struct kernel_model *model);
/* The global of this build that `name` means, which may come from another build of the same
 * program: the names differ where an anonymous namespace puts a hash of the source's path in. NULL:
 * none, or several that it could be. */
const struct kernel_global *kernel_global_find(const struct kernel_model *model, const char *name);
/* Characters that nvcc -rdc put before the name of something that is its file's own, or 0. */
size_t name_static_prefix(const char *name);

/* The rows of passes.def. */
enum rewrite_pass {
#define PASS(id, title, reason) PASS_##id,
#include "code/passes.def"
    PASS_COUNT
};
struct pass_row {
    const char *name, *title, *reason;
};
extern const struct pass_row pass_rows[PASS_COUNT];

/* The exact rewrites for the maker `rules`: the module's text with `entry`'s loads of the given
 * scalar parameter bytes and its reads of %ntid and %nctaid (if launch is not NULL) replaced by
 * constants, without what the entry does not need; then the other rows of passes.def in rounds,
 * until no more apply. KG_NO_CANDIDATE when there were none that ptxas would not make by itself.
 * out: PTX text, owned. done: how often each row. Safe with hostile input; work is bounded, and
 * what is too large is left as it is. */
kg_status ptx_rewrite(const char *ptx, const char *entry, const struct kg_launch *launch,
                      const struct kg_param *params, uint32_t param_count,
                      const struct kg_scalar *scalars, uint32_t scalar_count, struct kg_bytes *out,
                      unsigned done[PASS_COUNT]);

/* What admission asks of a candidate's PTX. */
enum { FACT_APPROX, FACT_FTZ, FACT_FULL, FACT_HOWS, FACT_INEXACT = 64 };
struct ptx_facts {
    unsigned entries;
    char entry[512]; /* the first */
    uint32_t param_count;
    struct kg_param params[64];
    bool writable_globals, unresolved_externs, device_runtime, allocates, prints, traps, clocks;
    bool half_math, bf16_math, tf32_math, nc_loads, atomics, volatile_access, spins, clusters;
    bool float_atomics; /* atomic additions of floats: their order, and so the result, is not fixed
                         */
    bool waits_for_previous, lets_next_start; /* programmatic dependent launch: griddepcontrol */
    bool double_math;
    /* operations that approximate or flush: op * FACT_HOWS + how */
    uint16_t inexact[FACT_INEXACT];
    unsigned inexact_count;
    uint32_t static_shared, local_bytes;
    char detail[256]; /* the first offending construct, with its line */
};
kg_status ptx_facts_of(const char *ptx, struct ptx_facts *out, char *error, size_t error_size);
/* "rsqrt.approx" */
const char *ptx_inexact_text(uint16_t inexact, char *text, size_t size);
/* The same of one entry and what it needs: of an original, whose module has other kernels. */
kg_status ptx_facts_of_entry(const char *ptx, const char *entry, struct ptx_facts *out, char *error,
                             size_t error_size);

/* Where one entry writes, as far as its PTX tells: never less than it does. */
enum { ACCESS_WORDS = 512, ACCESS_GLOBALS = 16 };
struct ptx_access {
    /* a bit an 8-byte word of the packed parameters whose value leads to … */
    uint64_t written[ACCESS_WORDS / 64]; /* … a write or atomic */
    uint64_t cached[ACCESS_WORDS / 64];  /* … a read past the coherent cache (ld.global.nc) */
    bool cached_unknown; /* reads past that cache from where no parameter or variable leads to */
    bool writes_unknown; /* also to addresses that no parameter or variable leads to */
    bool follows_loaded; /* it reads or writes where an address from memory leads, or an unknown */
    uint32_t global_count;
    char globals[ACCESS_GLOBALS][512]; /* variables of the module that it writes */
};
/* KG_LIMIT: too large or too twisted to tell. */
kg_status ptx_access_of(const char *ptx, const char *entry, struct ptx_access *out);

#endif
