/* Every entry that the software GPU's driver exports, as a structure of pointers: for its tests,
 * and for the runtime library, which finds the driver like any other caller. */
#ifndef SOFTGPU_SOFT_ENTRIES_H
#define SOFTGPU_SOFT_ENTRIES_H

#include "gpu/real.h"

struct soft_driver {
#define API(ret, symbol, base, version, stream, use, params, args) ret(*symbol) params;
#include "gpu/cuda_api.def"
#include "soft_api.def"
#undef API
};

#endif
