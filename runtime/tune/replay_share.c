/* A replay's share of the GPU beside running programs: between operations of the device the child
 * rests, so that they take at most so many percent of the time. An operation counts with all its
 * waiting, in which the program may have had the GPU: the share is an upper bound. Rests are taken
 * together, once there are a few milliseconds, and announced ("rest MS") so that deadlines do not
 * run meanwhile; never around a launch, whose time the caller takes: it is owed until the next copy
 * or change of memory. */
#include "tune/replay.h"

#include <time.h>

static const uint64_t least_rest_ns = 5000000;

static struct { /* there is one device a process */
    struct replay_device inner;
    struct trial *trial;
    unsigned percent;
    uint64_t owed_ns;
} share;

static void owe(uint64_t busy_ns)
{
    share.owed_ns += busy_ns * (100 - share.percent) / share.percent;
}

static void rest(uint64_t busy_ns)
{
    owe(busy_ns);
    if (share.owed_ns < least_rest_ns)
        return;
    trial_line(share.trial, "rest %lu", (unsigned long)(share.owed_ns / 1000000 + 1));
    struct timespec left = {(time_t)(share.owed_ns / 1000000000),
                            (long)(share.owed_ns % 1000000000)};
    while (nanosleep(&left, &left))
        ;
    share.owed_ns = 0;
}

#define SHARED(op, after, params, args)                                                            \
    static kg_status shared_##op params                                                            \
    {                                                                                              \
        uint64_t begin = now_ns();                                                                 \
        kg_status status = share.inner.op args;                                                    \
        after(now_ns() - begin);                                                                   \
        return status;                                                                             \
    }

SHARED(read, rest, (struct replay_device * device, uint64_t address, void *out, size_t size),
       (device, address, out, size))
SHARED(write, rest,
       (struct replay_device * device, uint64_t address, const void *data, size_t size),
       (device, address, data, size))
SHARED(launch, owe, (struct replay_device * device, enum side side), (device, side))
SHARED(keep, rest, (struct replay_device * device), (device))
SHARED(restore, rest, (struct replay_device * device), (device))
SHARED(sample, owe,
       (struct replay_device * device, enum side side, bool cold, unsigned batch, double *ns),
       (device, side, cold, batch, ns))
/* Code that is only made ready costs the GPU nothing. */
static kg_status shared_observe(struct replay_device *device, enum side side, unsigned what,
                                uint64_t budget, unsigned char *reads, unsigned char *writes,
                                struct replay_observed *out)
{
    uint64_t begin = now_ns();
    kg_status status = share.inner.observe(device, side, what, budget, reads, writes, out);
    if (out)
        owe(now_ns() - begin);
    return status;
}

SHARED(holds, rest, (struct replay_device * device, const unsigned char *image, bool *same),
       (device, image, same))
SHARED(relocate, rest, (struct replay_device * device, enum layout layout), (device, layout))
SHARED(set_select, rest, (struct replay_device * device, unsigned index), (device, index))

void share_limit(struct trial *trial, unsigned percent)
{
    struct replay_device *device = trial->device;
    if (!percent || percent >= 100)
        return;
    share.inner = *device;
    share.trial = trial;
    share.percent = percent;
#define WRAP(op)                                                                                   \
    if (device->op)                                                                                \
    device->op = shared_##op
    WRAP(read);
    WRAP(write);
    WRAP(launch);
    WRAP(keep);
    WRAP(restore);
    WRAP(sample);
    WRAP(observe);
    WRAP(holds);
    device->walk = NULL; /* a program waits for the GPU: some of the host's threads walk images */
    device->draw = NULL;
    device->settle = NULL;
    WRAP(relocate);
    WRAP(set_select);
#undef WRAP
}
