/* The SOFTGPU_* variables: read and judged once, at cuInit. A value that cannot be is one line that
 * says what is allowed, and cuInit fails with CUDA_ERROR_INVALID_VALUE: a test that asks for a
 * fault must not pass because of a misspelling. README.md in this folder is the reference. */
#include "strict.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ---- */

uint64_t soft_number(const char *variable, uint64_t standard)
{
    const char *text = getenv(variable);
    char *end;
    uint64_t value = text ? strtoull(text, &end, 0) : 0;
    return text && *text && !*end ? value : standard;
}

bool soft_verbose(void)
{
    return soft_number("SOFTGPU_VERBOSE", 0) != 0;
}

/* A whole number, with K, M or G for powers of 1024 when scaled. */
static bool number_read(const char *text, size_t length, bool scaled, uint64_t *out)
{
    static const char units[] = "KMG";
    char digits[24];
    const char *unit = scaled && length ? strchr(units, text[length - 1]) : NULL;
    if (unit)
        length--;
    if (!length || length >= sizeof digits)
        return false;
    memcpy(digits, text, length);
    digits[length] = 0;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(digits, &end, scaled ? 10 : 0);
    unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    if (*end || errno || digits[0] < '0' || digits[0] > '9' || value > UINT64_MAX >> shift)
        return false;
    *out = (uint64_t)value << shift;
    return true;
}

static bool refuse(const char *variable, const char *value, const char *allowed)
{
    soft_say("%s=%.200s: %s", variable, value, allowed);
    return false;
}

static bool numbers_good(void)
{
    static const char *const variables[] = {"SOFTGPU_VERBOSE",  "SOFTGPU_SEED",
                                            "SOFTGPU_THREADS",  "SOFTGPU_NOISE",
                                            "SOFTGPU_PAGEABLE", "SOFTGPU_GRAPHS"};
    uint64_t value;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *text = getenv(variables[i]);
        if (text && *text && !number_read(text, strlen(text), false, &value))
            return refuse(variables[i], text, "a whole number is wanted");
    }
    return true;
}

enum soft_mode soft_mode(void)
{
    static const char *const modes[SOFT_MODES] = {"default", "exclusive", "mps"};
    const char *text = getenv("SOFTGPU_MODE");
    for (int mode = 0; text && *text && mode < SOFT_MODES; mode++)
        if (!strcmp(text, modes[mode]))
            return (enum soft_mode)mode;
    return text && *text ? SOFT_MODES : SOFT_MODE_DEFAULT;
}

static bool mode_read(void)
{
    return soft_mode() < SOFT_MODES ||
           refuse("SOFTGPU_MODE", getenv("SOFTGPU_MODE"), "default, exclusive or mps is wanted");
}

/* ---- faults on order ---- */

enum { FAULTS = SOFT_EVENTS };

static const char *const kinds[FAULTS] = {
    [SOFT_OOM] = "oom",   [SOFT_LAUNCH] = "launch", [SOFT_HANG] = "hang",
    [SOFT_LOST] = "lost", [SOFT_SLOW] = "slow",
};
static struct {
    uint64_t number; /* 0: not asked for */
    bool onwards;    /* and every later one */
    atomic_uint_fast64_t count;
} faults[FAULTS];
static atomic_bool lost;

/* One of "kind:N" and "kind:N+". */
static bool fault_read(const char *text, size_t length)
{
    for (int kind = 0; kind < FAULTS; kind++) {
        size_t name = strlen(kinds[kind]);
        if (length <= name || strncmp(text, kinds[kind], name) || text[name] != ':')
            continue;
        const char *digits = text + name + 1;
        size_t left = length - name - 1;
        bool onwards = left && digits[left - 1] == '+' && kind != SOFT_SLOW;
        uint64_t number;
        if (!number_read(digits, left - onwards, false, &number) || !number)
            return false;
        faults[kind].number = number;
        faults[kind].onwards = onwards;
        return true;
    }
    return false;
}

static bool faults_read(void)
{
    const char *text = getenv("SOFTGPU_FAULT");
    for (const char *at = text; at && *at;) {
        size_t length = strcspn(at, ",");
        if (!fault_read(at, length))
            return refuse("SOFTGPU_FAULT", text,
                          "a list of oom:N launch:N hang:N lost:N slow:MILLISECONDS is wanted, "
                          "N from 1, N+ for it and all later ones");
        at += length + (at[length] == ',');
    }
    return true;
}

bool soft_fault_due(enum soft_event event)
{
    uint64_t turn = atomic_fetch_add(&faults[event].count, 1) + 1;
    uint64_t number = faults[event].number;
    return number && (turn == number || (faults[event].onwards && turn > number));
}

uint64_t soft_slowness(void)
{
    return faults[SOFT_SLOW].number;
}

void soft_lose(void)
{
    atomic_store(&lost, true);
}

bool soft_lost(void)
{
    return atomic_load_explicit(&lost, memory_order_relaxed);
}

/* ---- devices ---- */

static bool devices_refused(const char *variable, const char *value)
{
    return refuse(variable, value,
                  "h200, a100, l4, t4 or standard are known; SOFTGPU_DEVICES takes a number up to "
                  "8, or a list of them");
}

static bool devices_listed(const char *list, uint64_t memory)
{
    for (const char *at = list; *at;) {
        size_t length = strcspn(at, ",");
        const struct device_model *model = device_model_find(at, length);
        if (!model || !device_add(model, memory))
            return devices_refused("SOFTGPU_DEVICES", list);
        at += length + (at[length] == ',');
    }
    return true;
}

static bool devices_read(void)
{
    const char *word = getenv("SOFTGPU_DEVICE"), *list = getenv("SOFTGPU_DEVICES");
    const char *size = getenv("SOFTGPU_MEMORY");
    uint64_t memory = 0, count = 1;
    if (size && *size &&
        (!number_read(size, strlen(size), true, &memory) || memory < (uint64_t)32 << 20 ||
         memory > (uint64_t)1 << 40))
        return refuse("SOFTGPU_MEMORY", size, "bytes are wanted, 32M to 1024G");
    word = word && *word ? word : "standard";
    const struct device_model *model = device_model_find(word, strlen(word));
    if (!model)
        return devices_refused("SOFTGPU_DEVICE", word);
    if (list && *list && !number_read(list, strlen(list), false, &count))
        return devices_listed(list, memory);
    if (count > SOFT_DEVICES_MOST)
        return devices_refused("SOFTGPU_DEVICES", list);
    for (uint64_t i = 0; i < count; i++)
        (void)device_add(model, memory); /* there is room: counted above */
    return true;
}

CUresult soft_settings(void)
{
    if (!numbers_good() || !faults_read() || !strict_read() || !mode_read() || !devices_read())
        return CUDA_ERROR_INVALID_VALUE;
    return device_count() ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}
