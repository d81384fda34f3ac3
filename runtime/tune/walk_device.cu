// Walks over images and draws on the GPU: the very text of walk.h and draw_element.h, a word or an element a thread. device_text.sh makes walk_device.inc of it, so that
// neither a build nor a user needs a compiler. Products and sums are not fused: the host does not fuse them either.
#include "tune/draw_element.h"

// seen: zeros, and the complement of no place at all.
extern "C" __global__ void kgenrt_walk(const __grid_constant__ struct walk w, struct walked *all)
{
    uint64_t thread = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x, threads = (uint64_t)gridDim.x * blockDim.x;
    struct walked seen = {0, UINT64_MAX};
    for (uint64_t at = (w.from & ~UINT64_C(7)) + 8 * thread; at < w.to; at += 8 * threads)
        walk_word(&w, at, &seen);
    if (!seen.count)
        return;
    atomicAdd((unsigned long long *)&all->count, (unsigned long long)seen.count);
    atomicMin((unsigned long long *)&all->first, (unsigned long long)seen.first);
}

extern "C" __global__ void kgenrt_draw(const __grid_constant__ struct draw_buffer buffer)
{
    uint64_t thread = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x, threads = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = thread; i < buffer.count; i += threads)
        draw_element(&buffer, i);
}
