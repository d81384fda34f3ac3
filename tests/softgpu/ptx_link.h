/* Several PTX texts made into one, as a linker would: see ptx_link.c. */
#ifndef SOFTGPU_PTX_LINK_H
#define SOFTGPU_PTX_LINK_H

#include "kgenrt.h"

struct ptx_linker;
struct ptx_linker *ptx_linker_create(void); /* NULL: memory is out */
void ptx_linker_free(struct ptx_linker *linker);
/* Takes a copy of the text. KG_BAD_INPUT with a line in error: it is no PTX. */
kg_status ptx_linker_add(struct ptx_linker *linker, const char *text, size_t size, char *error,
                         size_t error_size);
unsigned ptx_linker_count(const struct ptx_linker *linker);
/* The one text, NUL-terminated, the caller's. KG_BAD_INPUT with a line in error: a symbol is
 * defined twice, or by none. */
kg_status ptx_linker_link(const struct ptx_linker *linker, char **out, char *error,
                          size_t error_size);

#endif
