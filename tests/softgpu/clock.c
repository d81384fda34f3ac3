/* The model clock of the software GPU. Every operation has a modelled length: a launch costs 2 us
 * and then 50 picoseconds for each executed thread-instruction (small programs would be all launch
 * otherwise); a copy costs 1 us and the bytes over a fixed bandwidth. An operation starts when what
 * it must wait for has ended, and not before the time at which its thread had last seen the device
 * (what other threads saw does not count: a watcher's polling would move an app's times). So the
 * times of a program that issues the same work in the same order are the same in
 * every run, on every machine.
 *
 * They order events and tell more work from less. They are no measurement: no performance claim may
 * rest on them. */
#include "soft.h"

static _Thread_local uint64_t seen;

uint64_t clock_of_launch(uint64_t instructions)
{
    return 2000000 + 50 * instructions;
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
