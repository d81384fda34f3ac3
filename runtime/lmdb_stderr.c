/* The stream to which LMDB prints before it aborts on a broken invariant. The build renames LMDB's
 * reference to stderr to this symbol: see CMakeLists.txt. */
#include <stdio.h>

extern FILE *kg_lmdb_stderr;
FILE *kg_lmdb_stderr;

__attribute__((constructor)) static void set(void)
{
    kg_lmdb_stderr = stderr;
}
