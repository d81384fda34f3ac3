/* A program whose CUDA runtime is linked statically into a library of NVIDIA's, as in most
 * products: nvJPEG packs a picture on the GPU and unpacks it again, some hundred times; the digest
 * is of what came out.
 *
 *   jpeg LIBNVJPEG [TURNS] */
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    SIDE = 512,
    BYTES = 3 * SIDE * SIDE,
    RGB_INTERLEAVED = 5
}; /* the last: as input and as output */

struct image {
    unsigned char *channel[4];
    size_t pitch[4];
};

static void *library, *driver;

static void *get(void *from, const char *name)
{
    void *found = from ? dlsym(from, name) : NULL;
    if (!found) {
        fprintf(stderr, "%s: %s\n", name, dlerror());
        exit(1);
    }
    return found;
}

/* A function whose parameters are pointers and numbers, called; anything but 0 ends the program. */
#define CALL(from, name, types, ...)                                                               \
    do {                                                                                           \
        int(*call_) types;                                                                         \
        *(void **)&call_ = get(from, name);                                                        \
        int result_ = call_(__VA_ARGS__);                                                          \
        if (result_) {                                                                             \
            fprintf(stderr, "%s: %d\n", name, result_);                                            \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static unsigned char picture[BYTES], packed[2 * BYTES], back[BYTES];

static uint64_t mix(uint64_t digest, const unsigned char *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        digest = (digest ^ data[i]) * 0x100000001b3;
    return digest;
}

int main(int argc, char **argv)
{
    void *handle, *encoder, *parameters, *decoder, *none = NULL;
    CUdeviceptr in, out;
    uint64_t digest = 0xcbf29ce484222325;
    library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (!library) {
        fprintf(stderr, "%s\n", argc > 1 ? dlerror() : "usage: jpeg LIBNVJPEG [TURNS]");
        return 2;
    }
    for (int i = 0; i < BYTES; i++)
        picture[i] = (unsigned char)(i / 3 % SIDE / 2 + (i % 3) * (i / 3 / SIDE) / 4);
    CALL(library, "nvjpegCreateSimple", (void **), &handle); /* makes the primary context, too */
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    CALL(driver, "cuMemAlloc_v2", (CUdeviceptr *, size_t), &in, BYTES);
    CALL(driver, "cuMemAlloc_v2", (CUdeviceptr *, size_t), &out, BYTES);
    CALL(driver, "cuMemcpyHtoD_v2", (CUdeviceptr, const void *, size_t), in, picture, BYTES);
    CALL(library, "nvjpegEncoderStateCreate", (void *, void **, void *), handle, &encoder, none);
    CALL(library, "nvjpegEncoderParamsCreate", (void *, void **, void *), handle, &parameters,
         none);
    CALL(library, "nvjpegEncoderParamsSetQuality", (void *, int, void *), parameters, 90, none);
    CALL(library, "nvjpegEncoderParamsSetSamplingFactors", (void *, int, void *), parameters, 0,
         none);
    CALL(library, "nvjpegJpegStateCreate", (void *, void **), handle, &decoder);
    struct image source = {{(unsigned char *)in}, {3 * SIDE}},
                 target = {{(unsigned char *)out}, {3 * SIDE}};
    for (int turn = argc > 2 ? atoi(argv[2]) : 200; turn > 0; turn--) {
        size_t length = sizeof packed;
        CALL(library, "nvjpegEncodeImage",
             (void *, void *, void *, struct image *, int, int, int, void *), handle, encoder,
             parameters, &source, RGB_INTERLEAVED, SIDE, SIDE, none);
        CALL(library, "nvjpegEncodeRetrieveBitstream",
             (void *, void *, unsigned char *, size_t *, void *), handle, encoder, packed, &length,
             none);
        CALL(driver, "cuCtxSynchronize", (void), );
        CALL(library, "nvjpegDecode",
             (void *, void *, unsigned char *, size_t, int, struct image *, void *), handle,
             decoder, packed, length, RGB_INTERLEAVED, &target, none);
        CALL(driver, "cuCtxSynchronize", (void), );
        CALL(driver, "cuMemcpyDtoH_v2", (void *, CUdeviceptr, size_t), back, out, BYTES);
        digest = mix(mix(digest, packed, length), back, BYTES);
    }
    printf("digest %016lx of pictures\n", (unsigned long)digest);
    return 0;
}
