// The kernels of the sample program polynomial, as they are.
#include "../../samples/polynomial/polynomial.cu"
