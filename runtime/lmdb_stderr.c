/* The stream to which LMDB prints before it aborts on a broken invariant. The build renames LMDB's
 * reference to stderr to this symbol: see CMakeLists.txt. In an app that cannot come to pass by a
 * damaged file: a snapshot's bytes are checked before LMDB sees them. */
#include <stdio.h>

extern FILE *kg_lmdb_stderr;
FILE *kg_lmdb_stderr;

__attribute__((constructor)) static void set(void)
{
    kg_lmdb_stderr = stderr;
}
