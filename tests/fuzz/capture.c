/* Captures: no file crashes the reader; what it accepts can be used whole, down to the signature.
 */
#include "capture.h"

#include "seal.h"

static volatile unsigned char sink;

static void touch(const unsigned char *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        sink = data[i];
}

static void use(const struct kg_capture *capture)
{
    struct kg_signature signature;
    touch(capture->image, capture->image_size);
    touch(capture->args.data, capture->args.size);
    for (uint32_t i = 0; i < capture->region_count; i++) {
        touch(capture->regions[i].data, capture->regions[i].size);
        if (capture->regions[i].after)
            touch(capture->regions[i].after, capture->regions[i].size);
    }
    for (uint32_t i = 0; i < capture->pointer_count; i++)
        if (capture->pointers[i].region != CAPTURE_NO_REGION)
            sink = *capture->regions[capture->pointers[i].region].data;
    for (uint32_t i = 0; i < capture->place_count; i++) {
        const struct capture_place *place = &capture->places[i];
        touch(capture->regions[place->region].data + place->offset, 8);
        sink = *capture->regions[place->target].data;
    }
    if (capture_signature(capture, &signature) == KG_OK)
        signature_free(&signature);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned char head[SEAL_HEAD] = {'K', 'G', 'C', 'A', 'P', '1', 0, 0, 3};
    struct kg_capture capture;
    if (capture_parse(seal(head, data, size), &capture) == KG_OK) {
        use(&capture);
        capture_free(&capture);
    }
    return 0;
}
