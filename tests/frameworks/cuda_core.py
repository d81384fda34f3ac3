"""cuda.core: a program compiled to PTX and launched through NVIDIA's own Python bindings. They use the driver alone,
so this runs on the GPU in software, too."""
import numpy
import cuda.core as core
from common import Digest, elements, repeat

if not hasattr(core, "Device"):
    import cuda.core.experimental as core
source = r'''
extern "C" __global__ void series(const float* x, float* y, float a, int terms, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i], sum = a;
    for (int k = 1; k < terms; k++)
        sum = sum * v + a;
    y[i] = sum;
}'''


def series(a, turns):
    """A launch for each turn, all with the same result, which is returned."""
    device = core.Device()
    device.set_current()
    stream = device.create_stream()
    major, minor = device.compute_capability
    options = core.ProgramOptions(arch=f"sm_{major}{minor}")
    kernel = core.Program(source, code_type="c++", options=options).compile("ptx").get_kernel("series")
    n = elements(1 << 20)
    host = (core.LegacyPinnedMemoryResource() if hasattr(core, "LegacyPinnedMemoryResource")
            else core.PinnedMemoryResource()).allocate(4 * n, stream=stream)
    values = numpy.from_dlpack(host).view(numpy.float32)
    values[:] = numpy.linspace(-1, 1, n, dtype=numpy.float32)
    x, y = device.allocate(4 * n, stream=stream), device.allocate(4 * n, stream=stream)
    host.copy_to(x, stream=stream)
    for i in turns:
        core.launch(stream, core.LaunchConfig(grid=(n + 255) // 256, block=256), kernel, x.handle, y.handle,
                    numpy.float32(a), numpy.int32(32), numpy.int32(n))
        if i % 100 == 99:
            stream.sync()
    y.copy_to(host, stream=stream)
    stream.sync()
    return values.copy()


if __name__ == "__main__":
    digest = Digest()
    digest.add(series(0.75, repeat(500)))
    digest.print()
