/* What dispatch.c shares with its tests and the benchmark beside app.h. */
#ifndef KG_DISPATCH_H
#define KG_DISPATCH_H

#include "app/app.h"

/* Most pointers and parameters a guard may have; signature_fits refuses more. */
enum { GUARD_POINTERS = 32, LAUNCH_PARAMS = 64 };

#endif
