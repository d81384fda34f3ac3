// The kernels of the sample program transpose, as they are.
#include "../../samples/transpose/transpose.cu"
