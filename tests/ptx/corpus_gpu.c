/* corpus_gpu OUT [REFERENCE]: runs every kernel of corpus.def through whatever libcuda.so.1 is
 * found, a real GPU's or the software one's, and writes a line a kernel with a hash of its buffers
 * to OUT. With a REFERENCE, an OUT of another device, it says which results differ; those that may
 * (traits: order, races, clocks, approximate operations) do not fail it, a reference of other rows
 * does. KGENRT_CORPUS names the folder of the PTX files where it is not that of the build. Exit 77:
 * no device. */
#include "gpu/real.h"

#include "ptx/corpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void need(CUresult result, const char *what)
{
    if (!result)
        return;
    fprintf(stderr, "%s: %s\n", what, real_error(result));
    exit(1);
}
#define NEED(call) need(call, #call)

static bool open_driver(void)
{
    CUcontext context;
    char name[100] = "";
    if (real_open(NULL) != KG_OK || real.cuInit(0))
        return false;
    NEED(real.cuDevicePrimaryCtxRetain(&context, 0));
    NEED(real.cuCtxSetCurrent(context));
    NEED(real.cuDeviceGetName(name, sizeof name, 0));
    fprintf(stderr, "device: %s\n", name);
    return true;
}

/* ---- one kernel ------------------------------------------------------------------------------ */

/* What an address in a host buffer is on the device; others stay. */
static uint64_t on_device(const struct corpus_case *c, const CUdeviceptr *device, uint64_t address)
{
    for (uint32_t i = 0; i < c->buffer_count; i++)
        if (address - c->buffers[i].base < c->buffers[i].size)
            return device[i] + (address - c->buffers[i].base);
    return address;
}

static uint32_t buffer_index(const struct corpus_case *c, uint64_t base)
{
    uint32_t i = 0;
    while (c->buffers[i].base != base)
        i++;
    return i;
}

static void copy_in(struct corpus_case *c, CUdeviceptr *device)
{
    for (uint32_t i = 0; i < c->buffer_count; i++)
        NEED(real.cuMemAlloc_v2(&device[i], c->buffers[i].size));
    for (uint32_t i = 0; i < c->buffer_count; i++) {
        struct corpus_buffer *buffer = &c->buffers[i];
        uint64_t *words = (uint64_t *)(uintptr_t)buffer->base;
        for (uint64_t k = 0; buffer->arg->fill >= CORPUS_POINTERS && k < buffer->size / 8; k++)
            words[k] = on_device(c, device, words[k]);
        NEED(real.cuMemcpyHtoD_v2(device[i], words, buffer->size));
    }
    for (uint32_t i = 0; i < c->pointer_count; i++) {
        const struct corpus_buffer *pointer = &c->pointers[i];
        uint64_t value = device[buffer_index(c, pointer->base)] + (pointer->value - pointer->base);
        memcpy(c->params + c->func->params[pointer->param]->offset + pointer->offset, &value, 8);
    }
}

enum { ABSENT = 1 }; /* a hash: there was no nvcc */

/* Hash of the buffers after the launch; 0: it failed, and says why. */
static uint64_t run(const struct corpus_entry *entry)
{
    struct corpus_case c;
    CUmodule module;
    CUfunction function;
    CUdeviceptr device[CORPUS_ARGS];
    void *params[CORPUS_ARGS];
    if (!corpus_open(entry, &c)) {
        printf("%s: not compiled here\n", entry->entry);
        return ABSENT;
    }
    const struct kg_launch *launch = &entry->launch;
    CUresult result = real.cuModuleLoadData(&module, c.text.data);
    if (result) {
        printf("%s: not loaded: %s\n", entry->entry, real_error(result));
        corpus_close(&c);
        return 0;
    }
    corpus_fill(&c, 1);
    copy_in(&c, device);
    for (uint32_t i = 0; i < c.func->param_count; i++)
        params[i] = c.params + c.func->params[i]->offset;
    NEED(real.cuModuleGetFunction(&function, module, entry->entry));
    result = real.cuLaunchKernel(function, launch->grid.x, launch->grid.y, launch->grid.z,
                                 launch->block.x, launch->block.y, launch->block.z, launch->shared,
                                 NULL, params, NULL);
    if (!result)
        result = real.cuCtxSynchronize();
    if (result)
        printf("%s: %s\n", entry->entry, real_error(result));
    for (uint32_t i = 0; !result && i < c.buffer_count; i++)
        result = real.cuMemcpyDtoH_v2((void *)(uintptr_t)c.buffers[i].base, device[i],
                                      c.buffers[i].size);
    uint64_t hash = result ? 0 : corpus_hash(&c);
    for (uint32_t i = 0; i < c.buffer_count; i++)
        real.cuMemFree_v2(device[i]);
    real.cuModuleUnload(module);
    corpus_close(&c);
    return hash;
}

/* The same in a process of its own, for what may end the context; before this process has one. */
static uint64_t run_apart(const struct corpus_entry *entry)
{
    uint64_t hash = 0;
    int ends[2];
    if (pipe(ends))
        return 0;
    pid_t child = fork();
    if (!child) {
        close(ends[0]);
        hash = open_driver() ? run(entry) : 0;
        _exit(write(ends[1], &hash, sizeof hash) != sizeof hash);
    }
    close(ends[1]);
    if (child < 0 || read(ends[0], &hash, sizeof hash) != sizeof hash)
        hash = 0;
    close(ends[0]);
    waitpid(child, NULL, 0);
    return hash;
}

static bool stands_apart(const struct corpus_entry *entry)
{
    return entry->traits & (CORPUS_FAULTS | CORPUS_UNRUN);
}

/* ---- comparison ------------------------------------------------------------------------------ */

static bool may_differ(const struct corpus_entry *entry)
{
    return entry->traits &
           (CORPUS_ORDER | CORPUS_RACES | CORPUS_CLOCK | CORPUS_APPROXIMATE | CORPUS_UNRUN);
}

/* How much is not as it must be. A reference of another corpus, or of none, says nothing. */
static unsigned compare(const char *path, const uint64_t *hashes)
{
    unsigned equal = 0, allowed = 0, differ = 0, strange = 0, index;
    unsigned long long hash;
    char name[300];
    FILE *file = fopen(path, "r");
    if (!file) {
        fprintf(stderr, "%s cannot be read\n", path);
        return 1;
    }
    while (fscanf(file, "%u %299s %llx", &index, name, &hash) == 3) {
        if (index >= corpus_count || strcmp(corpus[index].entry, name)) {
            printf("%u %s of %s is no row of this corpus\n", index, name, path);
            strange++;
            continue;
        }
        if (hash <= ABSENT || hashes[index] <= ABSENT)
            continue;
        bool same = hash == hashes[index];
        equal += same;
        allowed += !same && may_differ(&corpus[index]);
        differ += !same && !may_differ(&corpus[index]);
        if (!same)
            printf("%s differs%s\n", name, may_differ(&corpus[index]) ? ", as it may" : "");
    }
    strange += !feof(file); /* a line of another form */
    fclose(file);
    printf("%u equal, %u differ as they may, %u differ, %u lines of other rows\n", equal, allowed,
           differ, strange);
    return differ + strange + !equal;
}

int main(int count, char **args)
{
    FILE *out = count > 1 ? fopen(args[1], "w") : NULL;
    uint64_t *hashes = calloc(corpus_count, sizeof *hashes);
    unsigned ran = 0, failed = 0;
    if (!out || !hashes) {
        fprintf(stderr, "usage: corpus_gpu OUT [REFERENCE]\n");
        return 2;
    }
    for (unsigned i = 0; i < corpus_count; i++)
        if (stands_apart(&corpus[i]))
            hashes[i] = run_apart(&corpus[i]);
    if (!open_driver()) {
        fprintf(stderr, "no device\n");
        return 77;
    }
    for (unsigned i = 0; i < corpus_count; i++) {
        if (!stands_apart(&corpus[i]))
            hashes[i] = run(&corpus[i]);
        bool wanted = !(corpus[i].traits & CORPUS_FAULTS);
        bool allowed = corpus[i].traits & CORPUS_UNRUN;
        ran += hashes[i] > ABSENT;
        failed += (hashes[i] != 0) != wanted && !allowed && hashes[i] != ABSENT;
        fprintf(out, "%u %s %016llx\n", i, corpus[i].entry, (unsigned long long)hashes[i]);
        fflush(out);
    }
    fclose(out);
    printf("%u of %u kernels ran, %u not as they should\n", ran, corpus_count, failed);
    unsigned differ = count > 2 ? compare(args[2], hashes) : 0;
    free(hashes);
    return differ || failed || !ran;
}
