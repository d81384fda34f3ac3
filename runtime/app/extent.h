/* What memory of the app's an address lies in, asked of the driver. On the launch path of captures
 * and checks, in the watcher, and (what is freed and taken) in the hooks: no lock, no allocation.
 */
#ifndef KG_APP_EXTENT_H
#define KG_APP_EXTENT_H

#include "app/app.h"

struct extent {
    uint64_t base, size; /* size 0: in no memory that a launch of now may touch */
    bool pool;           /* stream-ordered: it may go while other streams work */
    const char *why;     /* a kind that is left alone, in words; NULL: plain device memory */
};

/* The allocation that holds the address. One that is made of many mappings side by side in one
 * reserved range, as frameworks grow theirs, counts as one, as far as it is needed for [from, to),
 * which holds the address. own: the current context's device. */
struct extent extent_find(uint64_t address, uint64_t from, uint64_t to, CUdevice own);
/* For an address in no extent, through which a launch may touch memory: ordinary host memory, where
 * the device can reach that; NULL, or words as `why`. */
const char *extent_pageable(uint64_t address, CUdevice own);

#endif
