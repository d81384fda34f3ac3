/* What the auditor's files share. It is built without a C library. */
#ifndef KG_AUDIT_H
#define KG_AUDIT_H

#include <dlfcn.h>
#include <stddef.h>

#include "../object.h"

enum { PATH_BYTES = 4096 };

/* ---- exec.c ------------------------------------------------------------------------------------
 */

/* Once, when both are mapped. */
void exec_begin(const struct link_map *program, const struct link_map *libc);
/* Takes down the variables that children are to have: KGENRT_*, and the two paths by which the
 * auditor and the library came. Once, before the program runs; until then children get what they
 * are given. */
void exec_keep(const char *auditor, const char *library);
/* Our function instead of the C library's `real` of this name; NULL: none. */
void *exec_instead(const char *name, void *real);

#endif
