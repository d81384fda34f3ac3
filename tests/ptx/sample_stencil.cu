// The kernels of the sample program stencil, as they are.
#include "../../samples/stencil/stencil.cu"
