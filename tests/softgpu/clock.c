/* The model clock of the software GPU. Every operation has a modelled length: a launch costs 2 us
 * and what the time model (exec_model.h) makes of its counts on the device that SOFTGPU_DEVICE
 * names; a copy costs 1 us and the bytes over a fixed bandwidth. The standard device is modelled as
 * one multiprocessor of an H200 with its share of the caches and memory, because programs that run
 * here are small: else they would be all launch. An operation starts when what it must wait for has
 * ended, and not before the time at which its thread had last seen the device (what other threads
 * saw does not count: a watcher's polling would move an app's times). So the times of a program
 * that issues the same work in the same order are the same in every run, on every machine.
 *
 * They order events and tell more work from less. They are no measurement: no performance claim may
 * rest on them. */
#include "clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static _Thread_local uint64_t seen;

/* Bytes that an L2 moves in a clock, as far as is known (exec_model.h), and the part of L2 and DRAM
 * rates that is reached, in hundredths. */
static uint64_t l2_clock_bytes(const struct device_model *model)
{
    return model->major >= 8 && model->bus_bits > 1024 ? 5120 : model->major >= 8 ? 1536 : 1280;
}
enum { L2_REACHED = 60, DRAM_REACHED = 88 };

static void fill(struct exec_device *out, const struct device_model *model)
{
    uint64_t share = strcmp(model->word, "standard") ? 1 : (uint64_t)model->sms;
    *out = (struct exec_device){
        .sms = (uint32_t)((uint64_t)model->sms / share),
        .sm_threads = (uint32_t)model->sm_threads,
        .sm_blocks = (uint32_t)model->sm_blocks,
        .sm_registers = SOFT_SM_REGISTERS,
        .sm_shared = (uint32_t)model->sm_shared_kib << 10,
        .reserved_shared = (uint32_t)model->reserved_kib << 10,
        .l2_bytes = (uint64_t)model->l2_bytes / share,
        .clock_khz = (uint64_t)model->clock_khz,
        .l2_rate =
            l2_clock_bytes(model) * (uint64_t)model->clock_khz / 1000 * L2_REACHED / 100 / share,
        .dram_rate = (uint64_t)model->bus_bits / 8 * (uint64_t)model->memory_khz * 2 / 1000 *
                     DRAM_REACHED / 100 / share,
    };
    exec_device_rates(out, model->major, model->minor);
}

const struct exec_device *clock_device(const struct device *device)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct exec_device devices[SOFT_DEVICES_MOST];
    struct exec_device *out = &devices[device->ordinal];
    pthread_mutex_lock(&lock);
    if (!out->sms)
        fill(out, device->model);
    pthread_mutex_unlock(&lock);
    return out;
}

/* splitmix64 of a count of launches, as a number in (0, 1). */
static double chance(uint64_t number)
{
    uint64_t z = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return ((double)((z ^ (z >> 31)) >> 11) + 0.5) / 9007199254740992.0;
}

/* SOFTGPU_NOISE, in percent: the spread of most launches, with a long tail; a clock that changes
 * between two speeds now and then; and one in fifty launches with a neighbour's slice of 2 ms. */
static uint64_t disturb(uint64_t picoseconds)
{
    static atomic_uint_least64_t launches;
    static atomic_bool slow;
    double noise = (double)soft_number("SOFTGPU_NOISE", 0) / 100;
    if (noise <= 0)
        return picoseconds;
    uint64_t seed = soft_number("SOFTGPU_SEED", 0) << 32,
             number = seed + 4 * atomic_fetch_add(&launches, 1);
    double late = chance(number + 1), factor = 1 + noise * chance(number);
    if (late < 0.1)
        factor += noise / (10 * late + 0.05);
    if (chance(number + 2) < 0.05)
        atomic_store(&slow, !atomic_load(&slow));
    if (atomic_load(&slow))
        factor *= 1 + 2 * noise;
    uint64_t slice = chance(number + 3) < 0.02 ? 2000000000 : 0;
    return (uint64_t)((double)picoseconds * factor) + slice;
}

uint64_t clock_of_launch(uint64_t picoseconds)
{
    return disturb(2000000 + picoseconds);
}

uint64_t clock_of_bytes(uint64_t bytes, bool host)
{
    return 1000000 + (host ? bytes * 20 : bytes / 2); /* 50 GB/s, 2 TB/s */
}

uint64_t clock_host(void)
{
    return seen;
}

void clock_host_saw(uint64_t time)
{
    if (time > seen)
        seen = time;
}
