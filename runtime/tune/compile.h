/* What the worker and its compile child say to each other, and the pieces of either that tests and
 * fuzzers call. */
#ifndef KG_COMPILE_H
#define KG_COMPILE_H

#include "kgenrt.h"

enum {
    COMPILE_MAGIC = 0x4b47434d,
    COMPILE_ENTRY = 512,          /* bytes of an entry's name with its NUL */
    COMPILE_MESSAGE = 16 << 10,   /* most bytes of the compiler's words */
    COMPILE_PTX_LIMIT = 16 << 20, /* most bytes of PTX */
    COMPILE_CODE_LIMIT = 64 << 20 /* most bytes of machine code */
};

/* On the child's standard input, followed by `size` bytes of source or PTX and a NUL. */
struct compile_question {
    uint32_t magic, size;
    uint32_t source;  /* 1: CUDA C++; 0: PTX */
    uint32_t machine; /* 1: machine code wanted; 0: PTX is what runs */
    char arch[16];
    char entry[COMPILE_ENTRY];
};

/* On its standard output, followed by message, PTX and code. The parent distrusts it. */
struct compile_answer {
    uint32_t magic, status, version;
    uint32_t message, ptx, code; /* bytes */
    char entry[COMPILE_ENTRY];
};

/* KG_COMPILE and a message if the source could make the compiler open a file: `#include` and its
 * kin, however they are spelled. Deliberately blunt: it looks into comments and strings too. */
kg_status source_admit(const char *source, char *message, size_t message_size);
/* Number of `.entry` directives in PTX text; *one holds the first one's name. */
unsigned ptx_entries(const char *ptx, char one[static COMPILE_ENTRY]);
/* Where NVRTC says that it cannot find the entry. */
#define LOG_NAME_MAP "__nv_name_map"
/* The useful lines of a compiler's log: errors, with what belongs to them; not those of
 * LOG_NAME_MAP, and no totals. */
void log_trim(const char *log, char *out, size_t out_size);

/* Limits on time, memory and files written. */
void sandbox_limits(unsigned seconds);
/* From here on no file can be opened and no connection made; false where the kernel cannot. */
bool sandbox_files(void);

#endif
