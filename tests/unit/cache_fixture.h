/* A variant and a folder to test the cache with. */
#ifndef CACHE_FIXTURE_H
#define CACHE_FIXTURE_H

#include "cache.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct kg_scalar fixture_scalars[] = {{2, 0, 4, 1000, 24}, {3, 0, 8, 0x400921fb54442d18, 0}};
static struct kg_pointer fixture_pointers[] = {{0, 0, 256, KG_READ, 0, 4096},
                                               {1, 0, 16, 0, -16, 4096}};
static struct kg_overlap fixture_overlaps[] = {{0, 1, 16}};

static inline struct kg_id id_of(const char *text)
{
    struct kg_hash hash;
    struct kg_id id;
    hash_begin(&hash);
    hash_text(&hash, text);
    hash_end(&hash, &id);
    return id;
}

static inline struct kg_hardware fixture_hardware(void)
{
    struct kg_hardware hardware = {.vendor = "nvidia",
                                   .name = "NVIDIA H200",
                                   .arch = "sm_90",
                                   .sm_count = 132,
                                   .bus_bits = 6144,
                                   .l2_bytes = 50 << 20,
                                   .memory_bytes = (uint64_t)139 << 30,
                                   .uuid = "GPU-1",
                                   .driver_version = 13000};
    return hardware;
}

/* Not identified yet: set what differs, then call variant_identify. */
static inline struct kg_variant fixture_variant(const char *kernel, uint32_t grid, double ratio)
{
    struct kg_hardware hardware = fixture_hardware();
    struct kg_variant variant = {
        .kernel = id_of(kernel),
        .signature = {.launch = {{grid, 1, 1}, {256, 1, 1}, 0},
                      .scalar_count = 2,
                      .pointer_count = 2,
                      .overlap_count = 1,
                      .scalars = fixture_scalars,
                      .pointers = fixture_pointers,
                      .overlaps = fixture_overlaps},
        .launch = {{grid / 2, 1, 1}, {512, 1, 1}, 128},
        .maker = "recorded",
        .entry = "fast",
        .kernel_name = kernel,
        .note = "vector loads",
        .accuracy = "bitwise",
        .global_count = 1,
        .globals = {"coefficients"},
        .original_ns = 2000,
        .variant_ns = 2000 / ratio,
        .ratio = ratio,
        .low = ratio - 0.01,
        .high = ratio + 0.01,
        .driver_version = 13000,
        .compiler_version = 13000,
        .time = 1700000000,
    };
    hardware_key(&hardware, &variant.hardware);
    return variant;
}

/* A fresh folder of this test below the working directory. */
static inline const char *fixture_folder(const char *name)
{
    static char path[256], command[300];
    char here[180];
    if (!getcwd(here, sizeof here))
        exit(1);
    snprintf(path, sizeof path, "%s/%s.dir", here, name);
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    if (system(command) || mkdir(path, 0700))
        exit(1);
    return path;
}

#endif
