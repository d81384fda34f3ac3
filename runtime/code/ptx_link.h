/* Several PTX texts made into one, as a linker would: see ptx_link.c. */
#ifndef KG_PTX_LINK_H
#define KG_PTX_LINK_H

#include "kgenrt.h"

struct ptx_linker;
struct ptx_linker *ptx_linker_create(void); /* NULL: memory is out */
void ptx_linker_free(struct ptx_linker *linker);
/* Takes a copy of the text. KG_BAD_INPUT with a line in error: it is no PTX. */
kg_status ptx_linker_add(struct ptx_linker *linker, const char *text, size_t size, char *error,
                         size_t error_size);
unsigned ptx_linker_count(const struct ptx_linker *linker);
/* The one text, NUL-terminated, the caller's. whole: what is used must be defined, by a text or by
 * the device; else it stays a declaration. KG_BAD_INPUT with a line in error: a symbol is defined
 * twice, or by none. KG_LIMIT: too many of one name. */
kg_status ptx_linker_link(struct ptx_linker *linker, bool whole, char **out, char *error,
                          size_t error_size);

#endif
