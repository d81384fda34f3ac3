// The kernels of the sample program softmax, as they are.
#include "../../samples/softmax/softmax.cu"
