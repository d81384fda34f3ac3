/* A program that closes what it opened. Built twice: as a library with -DPLUGIN, which opens the
 * driver, loads code from its own memory and launches it, and as the program, which closes the
 * library and the driver, opens the driver again, and launches what was loaded. Usage: closing
 * LIBRARY IMAGE-FILE; prints which code ran: 'o' the kernel, 'v' one that adds 100 more. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

enum { COUNT = 1024, BYTES = 4 * COUNT };

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define CALL(function) ((__typeof__(&(function)))dlsym(driver, TEXT(function)))
#define NEED(call)                                                                                 \
    do {                                                                                           \
        int result_ = (int)(call);                                                                 \
        if (result_) {                                                                             \
            fprintf(stderr, "line %d: error %d\n", __LINE__, result_);                             \
            exit(2);                                                                               \
        }                                                                                          \
    } while (0)

struct work {
    CUmodule module;
    CUfunction function;
    CUdeviceptr in, out;
};

/* Launches the kernel and says what ran. */
static inline void run(void *driver, const struct work *work)
{
    static float host[COUNT];
    float two = 2;
    unsigned count = COUNT;
    void *params[] = {(void *)&work->in, (void *)&work->out, &two, &count};
    NEED(CALL(cuMemsetD32)(work->out, 0, COUNT));
    for (int i = 0; i < 8; i++)
        NEED(CALL(cuLaunchKernel)(work->function, 4, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
    NEED(CALL(cuMemcpyDtoH)(host, work->out, BYTES));
    for (int i = 0; i < COUNT; i++)
        if (host[i] != host[0] + 2 * (float)i)
            exit(3);
    putchar(host[0] == 1 ? 'o' : host[0] == 101 ? 'v' : '?');
}

#ifdef PLUGIN
static char image[1 << 16];

int plugin(const char *path, struct work *work)
{
    static float host[COUNT];
    CUdevice device;
    CUcontext context;
    FILE *file = fopen(path, "r");
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver || !file || !fread(image, 1, sizeof image - 1, file))
        return 4;
    fclose(file);
    NEED(CALL(cuInit)(0));
    NEED(CALL(cuDeviceGet)(&device, 0));
    NEED(CALL(cuDevicePrimaryCtxRetain)(&context, device));
    NEED(CALL(cuCtxSetCurrent)(context));
    NEED(CALL(cuMemAlloc)(&work->in, BYTES));
    NEED(CALL(cuMemAlloc)(&work->out, BYTES));
    for (int i = 0; i < COUNT; i++)
        host[i] = (float)i;
    NEED(CALL(cuMemcpyHtoD)(work->in, host, BYTES));
    NEED(CALL(cuModuleLoadData)(&work->module, image));
    NEED(CALL(cuModuleGetFunction)(&work->function, work->module, "work"));
    run(driver, work);
    return dlclose(driver);
}
#else
int main(int argc, char **argv)
{
    struct work work;
    if (argc != 3)
        return 5;
    for (int round = 0; round < 3; round++) {
        void *library = dlopen(argv[1], RTLD_NOW);
        if (!library)
            return 6;
        int (*plugin)(const char *, struct work *) =
            (int (*)(const char *, struct work *))dlsym(library, "plugin");
        NEED(plugin(argv[2], &work));
        NEED(dlclose(library));
        void *driver = dlopen("libcuda.so.1", RTLD_NOW);
        if (!driver)
            return 7;
        run(driver, &work);
        NEED(CALL(cuModuleUnload)(work.module));
        NEED(CALL(cuDevicePrimaryCtxRelease)(0));
        NEED(dlclose(driver));
    }
    puts("");
    return 0;
}
#endif
