/* exec_rows.c for processors that have AVX2 and FMA; CMakeLists.txt gives the options. Where it has
 * none to give, this is the same code twice. */
#define ROW_OF row_of_wide
#include "exec_rows.c"
