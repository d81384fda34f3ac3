/* What nvcc 13's launches call, for runtimes before 12.9 that lack it: so one object file of a
 * program can be linked with every version of the runtime. */
#include <stddef.h>
#include <vector_types.h>

int cudaLaunchKernel(const void *function, struct dim3 grid, struct dim3 block, void **arguments,
                     size_t shared, void *stream);

int __cudaGetKernel(const void **kernel, const void *function)
{
    *kernel = function; /* the host stub's address, by which it was registered */
    return 0;
}

int __cudaLaunchKernel(const void *kernel, struct dim3 grid, struct dim3 block, void **arguments,
                       size_t shared, void *stream)
{
    return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}
