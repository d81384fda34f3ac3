/* Captures of other times as further inputs: their bytes stand where the job's own do, wherever the
 * app had them; what has no like is not used. */
#include "tune/job.h"
#include "tune/replay.h"

#include "test.h"

#include <string.h>

static struct kg_param params[] = {{0, 8}, {8, 8}, {16, 4}};

struct one {
    unsigned char args[20], x[64], y[32], constant[8], node[16];
    struct capture_region regions[4];
    struct capture_pointer pointers[2];
    struct capture_place place;
    struct kg_capture capture;
};

/* Memory at `x` and `y`, full of `fill`. */
static void make(struct one *one, uint64_t x, uint64_t y, unsigned char fill)
{
    *one = (struct one){.pointers = {{0, 0, 0}, {1, 0, 1}}};
    memcpy(one->args, &x, 8);
    memcpy(one->args + 8, &y, 8);
    memset(one->x, fill, sizeof one->x);
    memset(one->y, fill + 1, sizeof one->y);
    memset(one->constant, fill + 2, sizeof one->constant);
    one->regions[0] = (struct capture_region){.address = x - 16,
                                              .size = 64,
                                              .allocation = x - 64,
                                              .allocation_size = 256,
                                              .data = one->x};
    one->regions[1] = (struct capture_region){
        .address = y, .size = 32, .allocation = y, .allocation_size = 32, .data = one->y};
    one->regions[2] = (struct capture_region){
        .kind = CAPTURE_GLOBAL, .address = fill, .size = 8, .name = "c", .data = one->constant};
    one->regions[3] = (struct capture_region){.kind = CAPTURE_NESTED,
                                              .address = 0x7f0000500000,
                                              .size = 16,
                                              .allocation = 0x7f0000500000,
                                              .allocation_size = 16,
                                              .data = one->node};
    one->capture = (struct kg_capture){.entry = "k",
                                       .launch = {{1, 1, 1}, {32, 1, 1}, 0},
                                       .param_count = 3,
                                       .params = params,
                                       .args = {one->args, 20},
                                       .pointer_count = 2,
                                       .pointers = one->pointers,
                                       .region_count = 3,
                                       .regions = one->regions};
}

static const uint64_t X = 0x7f0000100000, Y = 0x7f0000900000, OTHER = 0x7f0004000000;
enum { GRANULE = 2 << 20 };

static bool filled(const unsigned char *bytes, size_t size, unsigned char value)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

int main(void)
{
    static struct one own, others[6];
    struct kg_capture list[6];
    struct replay_memory memory;
    make(&own, X, Y, 1);
    make(&others[0], X, Y, 10);
    make(&others[1], OTHER, OTHER + 0x10000, 20); /* elsewhere */
    make(&others[2], X, Y, 30);
    others[2].regions[1].size = 31; /* another reach */
    make(&others[3], X, Y, 40);
    others[3].capture.kernel.bytes[0] = 1; /* another kernel */
    make(&others[4], X, Y, 50);
    others[4].regions[2].name[0] = 'd'; /* another variable */
    make(&others[5], X, Y, 60);
    others[5].regions[0].address += 8; /* another distance */
    for (unsigned i = 0; i < 6; i++)
        list[i] = others[i].capture;
    CHECK(memory_plan(&memory, &own.capture, GRANULE, 16 * GRANULE) == KG_OK);
    CHECK(memory_global(&memory, "c", 0x1234, 8) == KG_OK && memory_create(&memory) == KG_OK);
    CHECK(memory_others(&memory, list, 6) == KG_OK && memory.other_count == 2);
    size_t strays = 0;
    unsigned char *image = malloc(memory.total + 8);
    for (unsigned i = 0; i < memory.other_count; i++) {
        const unsigned char fill = i ? 20 : 10;
        size_t x, y, c;
        memory_other(&memory, i, image);
        if (!CHECK(memory_region(&memory, 0, &x) && memory_region(&memory, 1, &y) &&
                   memory_region(&memory, 2, &c)))
            break;
        CHECK(filled(memory.pristine + x, 64, 1) && filled(image + x, 64, fill));
        CHECK(filled(image + y, 32, fill + 1) && filled(image + c, 8, fill + 2));
        for (size_t at = 0; at < memory.total; at++)
            strays += memory.slack[at] && image[at] != memory.pristine[at];
    }
    CHECK(!strays);
    free(image);
    memory_free(&memory);

    /* with pointers in memory everything must be where it was */
    make(&own, X, Y, 1);
    own.capture.region_count = 4;
    own.place = (struct capture_place){.region = 0, .target = 3, .offset = 8};
    own.capture.places = &own.place;
    own.capture.place_count = 1;
    for (unsigned i = 0; i < 2; i++) {
        others[i].capture.region_count = 4;
        list[i] = others[i].capture;
    }
    CHECK(memory_plan(&memory, &own.capture, GRANULE, 16 * GRANULE) == KG_OK);
    CHECK(memory_create(&memory) == KG_OK);
    CHECK(memory_others(&memory, list, 2) == KG_OK && memory.other_count == 1 &&
          memory.others[0] == &list[0]);
    memory_free(&memory);
    return test_result();
}
