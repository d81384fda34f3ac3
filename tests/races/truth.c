/* instrument_truth CAPTURE...: runs each captured launch on the executor, which records the bytes
 * it touches, and again instrumented: both records must be equal to the byte, and so must memory.
 * For programs of which nothing may be committed: their captures are made by hand on the software
 * GPU. */
#include "instrument_fixture.h"

#include "capture.h"
#include "code/code.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { MOST = 64, PAGE = 4096 };

static struct exec_range mapped[4 * MOST];
static void *blocks[4 * MOST];
static unsigned mapped_count;

static bool find(uint64_t address, struct exec_range *out)
{
    for (unsigned i = 0; i < mapped_count; i++)
        if (address - mapped[i].base < mapped[i].size) {
            *out = mapped[i];
            return true;
        }
    return false;
}

static uint64_t alloc(size_t size, size_t align)
{
    void *block = NULL;
    if (mapped_count == 4 * MOST ||
        posix_memalign(&block, align < PAGE ? PAGE : align, size + PAGE))
        return 0;
    memset(block, 0, size + PAGE);
    blocks[mapped_count] = block;
    mapped[mapped_count++] = (struct exec_range){(uintptr_t)block, size, true};
    return (uintptr_t)block;
}

static void release(uint64_t address)
{
    for (unsigned i = 0; i < mapped_count; i++)
        if (mapped[i].base == address && blocks[i]) {
            free(blocks[i]);
            mapped[i].size = 0;
            blocks[i] = NULL;
        }
}

static const struct exec_memory memory = {find, alloc, release};

struct subject {
    struct kg_capture capture;
    struct image_code code;
    uint32_t count;
    const struct capture_region *regions[MOST];
    struct exec_touched touched[MOST];
    unsigned char *results[MOST];
    uint64_t read, written, different, differing_records;
};

/* Maps a page unless an earlier region did. */
static bool map_page(const struct subject *s, uint64_t page)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (page + PAGE > s->regions[i]->address &&
            page < s->regions[i]->address + s->regions[i]->size)
            return true;
    return mmap((void *)(uintptr_t)page, PAGE, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != MAP_FAILED;
}

/* Device addresses are host addresses: the regions stand where they were captured. */
static bool place(struct subject *s)
{
    for (uint32_t i = 0; i < s->capture.region_count; i++) {
        const struct capture_region *region = &s->capture.regions[i];
        if (region->kind == CAPTURE_GLOBAL || !region->size)
            continue;
        uint64_t page = region->address / PAGE * PAGE;
        for (; page < region->address + region->size; page += PAGE)
            if (s->count == MOST || !map_page(s, page))
                return false;
        mapped[mapped_count++] = (struct exec_range){region->address, region->size, true};
        s->regions[s->count] = region;
        s->touched[s->count] =
            (struct exec_touched){region->address, region->size, calloc(1, region->size / 8 + 1),
                                  calloc(1, region->size / 8 + 1)};
        s->results[s->count++] = malloc(region->size);
    }
    return true;
}

/* Memory and the module's variables as captured. */
static void restore(const struct subject *s, const struct exec_module *module)
{
    uint64_t address, size;
    for (uint32_t i = 0; i < s->count; i++)
        memcpy((void *)(uintptr_t)s->regions[i]->address, s->regions[i]->data, s->regions[i]->size);
    for (uint32_t i = 0; i < s->capture.region_count; i++) {
        const struct capture_region *region = &s->capture.regions[i];
        if (region->kind == CAPTURE_GLOBAL &&
            exec_module_global(module, region->name, &address, &size) && size == region->size)
            memcpy((void *)(uintptr_t)address, region->data, size);
    }
}

static bool run_plain(struct subject *s)
{
    char error[300];
    struct exec_module *module;
    struct exec_record record = {s->touched, s->count};
    struct exec_config config = {.launch = s->capture.launch, .record = &record, .threads = 1};
    struct exec_result result;
    if (exec_module_create((const char *)s->code.ptx.data, &memory, &module, error, sizeof error) !=
        KG_OK) {
        printf("%s\n", error);
        return false;
    }
    restore(s, module);
    exec_launch(exec_module_kernel(module, s->capture.entry), &config, s->capture.args.data,
                &result);
    for (uint32_t i = 0; i < s->count; i++)
        memcpy(s->results[i], (void *)(uintptr_t)s->regions[i]->address, s->regions[i]->size);
    exec_module_destroy(module);
    if (result.fault)
        printf("%s\n", result.text);
    return !result.fault;
}

static void compare(struct subject *s, const struct observe *observe)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const struct exec_touched *t = &s->touched[i];
        const struct observe_range *o = NULL;
        for (uint32_t j = 0; j < observe->range_count; j++)
            if (observe->ranges[j].address == t->base)
                o = &observe->ranges[j];
        const unsigned char *now = (const unsigned char *)(uintptr_t)t->base;
        for (uint64_t at = 0; o && at < t->size; at++) {
            bool read = exec_was_touched(t->read, at), written = exec_was_touched(t->written, at);
            s->read += read;
            s->written += written;
            s->different += now[at] != s->results[i][at];
            s->differing_records +=
                read != observed(o, o->reads, at) || written != observed(o, o->writes, at);
        }
    }
}

static bool run_instrumented(struct subject *s)
{
    struct fixture_run run;
    struct observe_range ranges[2 * MOST];
    struct exec_config config = {.launch = s->capture.launch, .threads = 1};
    uint32_t count = 0;
    uint64_t address, size;
    if (fixture_load(&run, (const char *)s->code.ptx.data, s->capture.entry, INSTRUMENT_RECORD,
                     &config.launch) != KG_OK) {
        printf("not instrumentable: %s\n", run.text.reason);
        return false;
    }
    for (; count < s->count; count++)
        ranges[count] = (struct observe_range){.address = s->touched[count].base,
                                               .size = s->touched[count].size,
                                               .rights = INSTRUMENT_READ | INSTRUMENT_WRITE};
    for (uint32_t i = 0; i < s->capture.region_count && count < 2 * MOST; i++)
        if (s->capture.regions[i].kind == CAPTURE_GLOBAL &&
            exec_module_global(run.module, s->capture.regions[i].name, &address, &size))
            ranges[count++] = (struct observe_range){
                .address = address, .size = size, .rights = INSTRUMENT_READ | INSTRUMENT_WRITE};
    bool good = observe_begin(&run.text, fixture_module(&run), fixture_function(&run),
                              &config.launch, ranges, count, UINT32_MAX, &run.observe) == KG_OK;
    if (good) {
        restore(s, run.module);
        exec_launch(run.kernel, &config, s->capture.args.data, &run.result);
        good = !run.result.fault && observe_read(&run.observe) == KG_OK;
        compare(s, &run.observe);
        printf("read %" PRIu64 " written %" PRIu64 " bytes, %" PRIu64
               " recorded otherwise, %" PRIu64 " with another result, %u outside\n",
               s->read, s->written, s->differing_records, s->different, run.observe.reports.count);
    }
    fixture_unload(&run);
    return good && !s->differing_records && !s->different;
}

static bool truth(const char *path)
{
    static struct subject s; /* leaves its memory to the process's end */
    s = (struct subject){0};
    mapped_count = 0;
    if (capture_read(path, &s.capture) != KG_OK ||
        image_select(s.capture.image, s.capture.image_size, s.capture.hardware.arch, true,
                     &s.code) != KG_OK ||
        !s.code.ptx.data)
        return false;
    printf("%.60s: ", s.capture.entry);
    if (!place(&s)) {
        printf("its addresses are taken\n");
        return false;
    }
    return run_plain(&s) && run_instrumented(&s);
}

int main(int argc, char **argv)
{
    unsigned good = 0;
    fixture_driver(&memory);
    for (int i = 1; i < argc; i++)
        good += truth(argv[i]);
    printf("%d captures, %u with equal records\n", argc - 1, good);
    return argc < 2 || good != (unsigned)argc - 1;
}
