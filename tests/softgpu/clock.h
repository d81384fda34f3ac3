/* The device that the time model of launches counts for: the figures of devices.def with those that
 * exec_model.h adds. One for each model, made at first use; lives as long as the process. */
#ifndef SOFTGPU_CLOCK_H
#define SOFTGPU_CLOCK_H

#include "soft.h"

const struct exec_device *clock_device(const struct device *device);

#endif
