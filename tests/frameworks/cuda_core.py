"""cuda.core: a program compiled and launched through NVIDIA's own Python bindings."""
import numpy
import cuda.core as core
from common import Digest

if not hasattr(core, "Device"):
    import cuda.core.experimental as core
source = r'''
extern "C" __global__ void fill(float* out, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a * i + sqrtf((float)i);
}'''
device = core.Device()
device.set_current()
stream = device.create_stream()
options = core.ProgramOptions(arch=f"sm_{device.arch}") if isinstance(device.arch, str) else core.ProgramOptions(
    arch=f"sm_{device.compute_capability[0]}{device.compute_capability[1]}")
kernel = core.Program(source, code_type="c++", options=options).compile("ptx").get_kernel("fill")
n = 1 << 20
pinned = core.LegacyPinnedMemoryResource() if hasattr(core, "LegacyPinnedMemoryResource") else device.memory_resource
buffer = pinned.allocate(4 * n, stream=stream)
for i in range(500):
    core.launch(stream, core.LaunchConfig(grid=(n + 255) // 256, block=256), kernel, buffer.handle, numpy.float32(1.5),
                numpy.int32(n))
stream.sync()
digest = Digest()
digest.add(numpy.from_dlpack(buffer).view(numpy.uint8))
digest.print()
