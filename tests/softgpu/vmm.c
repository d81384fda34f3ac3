/* The virtual memory calls: reservations of address space, physical memory as anonymous files, and
 * the mapping of the one into the other. As on the hardware we measured, a hint is honoured exactly
 * when it is free and a multiple of 32 MiB, and rounded up to the next one otherwise. */
#include "soft.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define WINDOW ((uint64_t)0x7ec000000000)
#define WINDOW_END ((uint64_t)0x7ef000000000) /* above it the system may map its own */
#define HINT_ALIGN ((uint64_t)32 << 20)
#define GRANULE ((uint64_t)2 << 20)

struct reservation {
    uint64_t base, size;
    struct reservation *next;
};

struct physical {
    int fd, device;
    uint64_t size;
    unsigned references; /* its handle as often as it was given out, and each mapping */
    unsigned handles;    /* how often that is */
    bool shared;         /* it may be handed to another process */
    bool imported;       /* from another process, which pays for it */
};

struct mapping {
    uint64_t base, size;
    struct physical *physical;
    bool accessible;
    CUmemAccess_flags access[SOFT_DEVICES_MOST];
    struct mapping *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct reservation *reservations;
static struct mapping *mappings;

/* The memory table calls vmm_range and we call the table: so this lock is never held over there. */
bool vmm_range(uint64_t address, uint64_t *base, uint64_t *size)
{
    pthread_mutex_lock(&mutex);
    const struct reservation *r = reservations;
    while (r && address - r->base >= r->size)
        r = r->next;
    if (r) {
        *base = r->base;
        *size = r->size;
    }
    pthread_mutex_unlock(&mutex);
    return r != NULL;
}

bool vmm_holds(uint64_t address)
{
    uint64_t base, size;
    return vmm_range(address, &base, &size);
}

static bool inside_reservation(uint64_t base, uint64_t size)
{
    for (const struct reservation *r = reservations; r; r = r->next)
        if (base >= r->base && base - r->base <= r->size && size <= r->size - (base - r->base))
            return true;
    return false;
}

static bool overlaps_mapping(uint64_t base, uint64_t size)
{
    for (const struct mapping *m = mappings; m; m = m->next)
        if (base < m->base + m->size && m->base < base + size)
            return true;
    return false;
}

static bool hold(uint64_t base, uint64_t size)
{
    void *want = (void *)(uintptr_t)base;
    void *got = mmap(want, size, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == want)
        return true;
    if (got != MAP_FAILED)
        munmap(got, size);
    return false;
}

/* Address of a reservation of `size`, held; 0: no room. */
static uint64_t place(uint64_t size, uint64_t align, uint64_t hint)
{
    if (hint && hint <= UINT64_MAX / 2) {
        uint64_t at = round_up(hint, align > HINT_ALIGN ? align : HINT_ALIGN);
        if (hold(at, size))
            return at;
    }
    uint64_t step = align > HINT_ALIGN ? align : HINT_ALIGN;
    for (uint64_t at = round_up(WINDOW, step); at + size <= WINDOW_END; at += step)
        if (hold(at, size))
            return at;
    return 0;
}

CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                             unsigned long long flags)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    if (!ptr || !size || size % GRANULE || flags || (alignment & (alignment - 1)))
        return CUDA_ERROR_INVALID_VALUE;
    if (size > WINDOW_END - WINDOW)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct reservation *reservation = malloc(sizeof *reservation);
    if (!reservation)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&mutex);
    *reservation = (struct reservation){place(size, alignment, addr), size, reservations};
    bool held = reservation->base != 0;
    if (held) {
        reservations = reservation;
        *ptr = reservation->base;
    }
    pthread_mutex_unlock(&mutex);
    if (!held)
        free(reservation);
    return held ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&mutex);
    struct reservation **link = &reservations;
    while (*link && ((*link)->base != ptr || (*link)->size != size))
        link = &(*link)->next;
    struct reservation *found = *link;
    if (found && !overlaps_mapping(ptr, size))
        *link = found->next;
    else
        found = NULL;
    if (found)
        munmap((void *)(uintptr_t)ptr, size);
    pthread_mutex_unlock(&mutex);
    free(found);
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool location_fits(const CUmemLocation *location)
{
    return location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id >= 0 &&
           location->id < device_count();
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    if (!granularity || !prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        !location_fits(&prop->location))
        return CUDA_ERROR_INVALID_VALUE;
    *granularity = GRANULE;
    return CUDA_SUCCESS;
}

/* Takes the descriptor, which may be -1. */
static struct physical *physical_of_file(int fd, int device, uint64_t size, bool shared)
{
    struct physical *physical = malloc(sizeof *physical);
    if (physical && fd >= 0) {
        *physical = (struct physical){fd, device, size, 1, 1, shared, false};
        if (handle_add(physical, HANDLE_PHYSICAL))
            return physical;
    }
    if (fd >= 0)
        close(fd);
    free(physical);
    return NULL;
}

/* The file's name says whose memory it is, for a process that imports it. */
static struct physical *physical_create(int device, uint64_t size, bool shared)
{
    char name[32];
    snprintf(name, sizeof name, "softgpu-%d", device);
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)size)) {
        close(fd);
        fd = -1;
    }
    return physical_of_file(fd, device, size, shared);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle_v1 *handle, size_t size,
                     const CUmemAllocationProp *prop, unsigned long long flags)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    if (!handle || !size || size % GRANULE || flags || !prop ||
        prop->type != CU_MEM_ALLOCATION_TYPE_PINNED || !location_fits(&prop->location))
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (soft_fault_due(SOFT_OOM) || !memory_charge(prop->location.id, size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    bool shared = prop->requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    struct physical *physical = physical_create(prop->location.id, size, shared);
    if (!physical) {
        memory_uncharge(prop->location.id, size);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *handle = (uintptr_t)physical;
    return CUDA_SUCCESS;
}

/* Caller holds the mutex. */
static void physical_release(struct physical *physical)
{
    if (--physical->references)
        return;
    if (!physical->imported)
        memory_uncharge(physical->device, physical->size);
    close(physical->fd);
    free(physical);
}

static struct physical *physical_of(CUmemGenericAllocationHandle_v1 handle)
{
    void *pointer = (void *)(uintptr_t)handle;
    return handle_kind_of(pointer) == HANDLE_PHYSICAL ? pointer : NULL;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle_v1 handle)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    struct physical *physical = physical_of(handle);
    if (!physical)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&mutex);
    if (--physical->handles == 0)
        handle_remove(physical);
    physical_release(physical);
    pthread_mutex_unlock(&mutex);
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                  CUmemGenericAllocationHandle_v1 handle, unsigned long long flags)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    struct physical *physical = physical_of(handle);
    if (!physical || !size || size % GRANULE || ptr % GRANULE || offset % GRANULE || flags ||
        offset > physical->size || size > physical->size - offset)
        return CUDA_ERROR_INVALID_VALUE;
    struct mapping *mapping = malloc(sizeof *mapping);
    if (!mapping)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&mutex);
    bool fits = inside_reservation(ptr, size) && !overlaps_mapping(ptr, size);
    if (fits && mmap((void *)(uintptr_t)ptr, size, PROT_NONE, MAP_SHARED | MAP_FIXED, physical->fd,
                     (off_t)offset) == MAP_FAILED)
        fits = false;
    if (fits) {
        physical->references++;
        *mapping =
            (struct mapping){.base = ptr, .size = size, .physical = physical, .next = mappings};
        mappings = mapping;
    }
    pthread_mutex_unlock(&mutex);
    if (!fits)
        free(mapping);
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Takes the first mapping that lies in the range off the list; NULL: none left. */
static struct mapping *take_mapping(uint64_t base, uint64_t size)
{
    struct mapping **link = &mappings;
    while (*link && !((*link)->base >= base && (*link)->base + (*link)->size <= base + size))
        link = &(*link)->next;
    struct mapping *found = *link;
    if (found)
        *link = found->next;
    return found;
}

static uint64_t mapped_bytes(uint64_t base, uint64_t size)
{
    uint64_t total = 0;
    for (const struct mapping *m = mappings; m; m = m->next)
        if (m->base >= base && m->base + m->size <= base + size)
            total += m->size;
    return total;
}

/* Unmapping waits for the device: what runs may use the memory. */
CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    struct context *context = NULL;
    CUresult result = soft_enter();
    if (result == CUDA_SUCCESS && context_enter(&context) == CUDA_SUCCESS)
        (void)context_drain(context); /* a fault there is no reason to keep the mapping */
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&mutex);
    bool whole = size && mapped_bytes(ptr, size) == size;
    struct mapping *mapping;
    while (whole && (mapping = take_mapping(ptr, size))) {
        if (mapping->accessible)
            (void)memory_leave(mapping->base, MEMORY_MAPPED);
        if (mmap((void *)(uintptr_t)mapping->base, mapping->size, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
            result = CUDA_ERROR_OPERATING_SYSTEM;
        physical_release(mapping->physical);
        free(mapping);
    }
    pthread_mutex_unlock(&mutex);
    return whole ? result : CUDA_ERROR_INVALID_VALUE;
}

static CUresult set_access(struct mapping *mapping, CUmemAccess_flags access)
{
    bool readable = access != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    bool writable = access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    int protection = (readable ? PROT_READ : PROT_NONE) | (writable ? PROT_WRITE : 0);
    if (mapping->accessible)
        (void)memory_leave(mapping->base, MEMORY_MAPPED);
    mapping->accessible = false;
    if (mprotect((void *)(uintptr_t)mapping->base, mapping->size, protection))
        return CUDA_ERROR_OPERATING_SYSTEM;
    if (!readable)
        return CUDA_SUCCESS;
    CUresult result = memory_enter((struct memory_block){
        .base = mapping->base,
        .size = mapping->size,
        .kind = MEMORY_MAPPED,
        .writable = writable,
        .device = mapping->physical->device,
    });
    mapping->accessible = result == CUDA_SUCCESS;
    return result;
}

/* What the host and the executor may do is what some device may: they cannot tell devices apart. */
static CUresult set_accesses(struct mapping *mapping, const CUmemAccessDesc *desc, size_t count)
{
    CUmemAccess_flags most = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    for (size_t i = 0; i < count; i++)
        mapping->access[desc[i].location.id] = desc[i].flags;
    for (int i = 0; i < SOFT_DEVICES_MOST; i++)
        most = mapping->access[i] > most ? mapping->access[i] : most;
    return set_access(mapping, most);
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    if (!desc || !count || !size)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (!location_fits(&desc[i].location))
            return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&mutex);
    if (mapped_bytes(ptr, size) != size)
        result = CUDA_ERROR_INVALID_VALUE;
    for (struct mapping *m = mappings; m && result == CUDA_SUCCESS; m = m->next)
        if (m->base >= ptr && m->base + m->size <= ptr + size)
            result = set_accesses(m, desc, count);
    pthread_mutex_unlock(&mutex);
    return result;
}

/* ---- questions ---- */

/* The mapping that holds address, or NULL. Caller holds the mutex. */
static const struct mapping *mapping_at(uint64_t address)
{
    const struct mapping *m = mappings;
    while (m && address - m->base >= m->size)
        m = m->next;
    return m;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    if (!flags || !location || !location_fits(location))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&mutex);
    const struct mapping *mapping = mapping_at(ptr);
    if (mapping)
        *flags = mapping->access[location->id];
    pthread_mutex_unlock(&mutex);
    return mapping ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle_v1 *handle, void *addr)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&mutex);
    const struct mapping *mapping = mapping_at((uintptr_t)addr);
    struct physical *physical = mapping ? mapping->physical : NULL;
    if (physical && !physical->handles && !handle_add(physical, HANDLE_PHYSICAL))
        physical = NULL;
    if (physical) {
        physical->handles++;
        physical->references++;
        *handle = (uintptr_t)physical;
    }
    pthread_mutex_unlock(&mutex);
    return physical ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                CUmemGenericAllocationHandle_v1 handle)
{
    CUresult result = soft_enter();
    const struct physical *physical = physical_of(handle);
    if (result == CUDA_SUCCESS && (!prop || !physical))
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *prop = (CUmemAllocationProp){
            .type = CU_MEM_ALLOCATION_TYPE_PINNED,
            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = physical->device}};
    return result;
}

/* ---- between processes ---- */

CUresult cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle_v1 handle,
                                      CUmemAllocationHandleType handleType,
                                      unsigned long long flags)
{
    CUresult result = soft_enter();
    const struct physical *physical = physical_of(handle);
    if (result != CUDA_SUCCESS)
        return result;
    if (!shareableHandle || !physical || flags || !physical->shared ||
        handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    int fd = fcntl(physical->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *(int *)shareableHandle = fd;
    return CUDA_SUCCESS;
}

/* The device whose memory the file is, and its size; -1: it is none that was exported. */
static int imported_device(int fd, uint64_t *size)
{
    char path[48], name[64] = "";
    int device;
    struct stat info;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (readlink(path, name, sizeof name - 1) < 0 || fstat(fd, &info) ||
        sscanf(name, "/memfd:softgpu-%d", &device) != 1 || device < 0 || device >= device_count())
        return -1;
    *size = (uint64_t)info.st_size;
    return device;
}

/* The descriptor stays the caller's. The memory is charged to the process that created it. */
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle_v1 *handle, void *osHandle,
                                        CUmemAllocationHandleType shHandleType)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    uint64_t size;
    int given = (int)(intptr_t)osHandle, device = imported_device(given, &size);
    if (!handle || device < 0 || shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    struct physical *physical =
        physical_of_file(fcntl(given, F_DUPFD_CLOEXEC, 0), device, size, true);
    if (!physical)
        return CUDA_ERROR_OUT_OF_MEMORY;
    physical->imported = true;
    *handle = (uintptr_t)physical;
    return CUDA_SUCCESS;
}
