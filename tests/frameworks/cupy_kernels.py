"""CuPy: a RawKernel, an element-wise kernel, a reduction; all by NVRTC."""
import cupy
from common import Digest, elements, repeat

raw = cupy.RawKernel(r'''
extern "C" __global__ void scale(const float* x, float* y, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + sinf(x[i]);
}''', "scale")
square = cupy.ElementwiseKernel("float32 x, float32 y", "float32 z", "z = (x - y) * (x - y)", "square_difference")
x = cupy.arange(elements(1 << 20), dtype=cupy.float32) / 1000
y = cupy.empty_like(x)
digest = Digest()
for i in repeat(500):
    raw(((x.size + 255) // 256,), (256,), (x, y, cupy.float32(1.25), cupy.int32(x.size)))
    z = square(x, y)
    if i % 64 == 0:
        cupy.cuda.Device().synchronize()
digest.add(cupy.asnumpy(y))
digest.add(cupy.asnumpy(z))
digest.add(cupy.asnumpy(z.max()))
digest.print()
