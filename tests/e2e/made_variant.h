/* A variant made by hand and published as a worker would: for tests of what happens to it in a
 * program. Nothing verifies it, so it may differ from its original on purpose. made_begin() and
 * made_publish() belong together; between them the test completes the variant. */
#ifndef MADE_VARIANT_H
#define MADE_VARIANT_H

#include "gpu/real.h"

#include "cache.h"
#include "code/code.h"

#include "e2e.h"

/* The original's model, of kernel "work", on this machine's device. */
struct made {
    struct kg_hardware hardware;
    struct image_code code;
    struct kernel_model model;
};

/* Returns a variant "fast" that has what is the same for all; signature, launch, note and numbers
 * are the caller's. */
static inline struct kg_variant made_begin(struct made *made, const char *original)
{
    WELL(real_open(NULL));
    WELL(real.cuInit(0));
    WELL(real_hardware(0, &made->hardware));
    WELL(image_select(original, strlen(original) + 1, made->hardware.arch,
                      !strcmp(made->hardware.vendor, "softgpu"), &made->code));
    WELL(kernel_model_make(&made->code, "work", &made->model));
    struct kg_variant v = {
        .kernel = made->model.id,
        .maker = "recorded",
        .entry = "fast",
        .kernel_name = "work",
        .accuracy = "bitwise",
        .ratio = 2,
        .low = 1.9,
        .high = 2.1,
        .driver_version = made->hardware.driver_version,
        .time = 1700000000,
    };
    hardware_key(&made->hardware, &v.hardware);
    return v;
}

/* Puts the variant with its text and its evidence (JSON) into a snapshot of the cache. It must be
 * the best one. */
static inline void made_publish(struct made *made, struct kg_variant *v, const char *text,
                                const char *evidence)
{
    struct store *store;
    bool best = false;
    WELL(store_open(cache_dir(), false, &store));
    WELL(store_put_hardware(store, &made->hardware));
    WELL(store_put_blob(store, text, strlen(text) + 1, &v->code));
    WELL(store_put_blob(store, evidence, strlen(evidence), &v->evidence));
    variant_identify(v);
    WELL(store_put_variant(store, v, &best));
    CHECK(best);
    WELL(snapshot_make(store, cache_dir(), &v->hardware));
    store_close(store);
    kernel_model_free(&made->model);
    image_code_free(&made->code);
}

/* For the processes that use one which differs on purpose: nobody finds out. */
static inline void made_environment(void)
{
    setenv("KGENRT_WORKER", "off", 1);
    setenv("KGENRT_SHADOW_MIB", "0", 1);
    setenv("KGENRT_LIVE_PAIRS", "0", 1);
}

#endif
