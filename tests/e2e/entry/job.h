/* A small job on the GPU for the programs of this folder: launches that each add one to 256 values,
 * and a look whether the sum is right. Reaches the driver by dlopen and dlsym or, with -DLINKED, by
 * the linker. Built by the tests, with the C compiler alone. */
#ifndef JOB_H
#define JOB_H

#include <cuda.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOB_VALUES = 256 };

#ifdef LINKED
#define JOB_CALL(function) function
#else
static void *job_driver;
#define JOB_TEXT_(x) #x
#define JOB_TEXT(x) JOB_TEXT_(x)
#define JOB_CALL(function) ((__typeof__(&(function)))dlsym(job_driver, JOB_TEXT(function)))
#endif

static const char job_ptx[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry add_one(.param .u64 values, .param .u32 count)\n{\n"
    ".reg .pred %p<2>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<5>;\n"
    "ld.param.u64 %rd1, [values];\nld.param.u32 %r2, [count];\n"
    "mov.u32 %r3, %ctaid.x;\nmov.u32 %r4, %ntid.x;\nmov.u32 %r5, %tid.x;\n"
    "mad.lo.s32 %r1, %r3, %r4, %r5;\nsetp.ge.s32 %p1, %r1, %r2;\n@%p1 bra DONE;\n"
    "cvta.to.global.u64 %rd2, %rd1;\nmul.wide.s32 %rd3, %r1, 4;\nadd.s64 %rd4, %rd2, %rd3;\n"
    "ld.global.u32 %r6, [%rd4];\nadd.s32 %r7, %r6, 1;\nst.global.u32 [%rd4], %r7;\n"
    "DONE:\nret;\n}\n";

struct job {
    CUcontext context;
    CUfunction add;
    CUdeviceptr values;
    int launches; /* that succeeded */
};

/* Each returns 0, or the line that failed. */
#define JOB_NEED(call)                                                                             \
    do {                                                                                           \
        CUresult result_ = (call);                                                                 \
        if (result_ != CUDA_SUCCESS) {                                                             \
            fprintf(stderr, "line %d: error %d\n", __LINE__, (int)result_);                        \
            return __LINE__;                                                                       \
        }                                                                                          \
    } while (0)

static inline int job_begin(struct job *job)
{
    CUdevice device;
    CUmodule module;
#ifndef LINKED
    const char *name = getenv("JOB_DRIVER");
    job_driver = dlopen(name ? name : "libcuda.so.1", RTLD_NOW);
    if (!job_driver)
        return __LINE__;
#endif
#ifndef LINKED
    /* by the book: an error is what dlerror tells, not a NULL */
    (void)dlerror();
    CUresult (*init)(unsigned) = JOB_CALL(cuInit);
    if (dlerror() || !init)
        return __LINE__;
#endif
    JOB_NEED(JOB_CALL(cuInit)(0));
    JOB_NEED(JOB_CALL(cuDeviceGet)(&device, 0));
    JOB_NEED(JOB_CALL(cuDevicePrimaryCtxRetain)(&job->context, device));
    JOB_NEED(JOB_CALL(cuCtxSetCurrent)(job->context));
    JOB_NEED(JOB_CALL(cuModuleLoadData)(&module, job_ptx));
    JOB_NEED(JOB_CALL(cuModuleGetFunction)(&job->add, module, "add_one"));
    JOB_NEED(JOB_CALL(cuMemAlloc)(&job->values, JOB_VALUES * sizeof(int)));
    JOB_NEED(JOB_CALL(cuMemsetD32)(job->values, 0, JOB_VALUES));
    return 0;
}

static inline int job_launch(struct job *job, int times)
{
    int count = JOB_VALUES;
    void *params[] = {&job->values, &count};
    for (int i = 0; i < times; i++) {
        JOB_NEED(JOB_CALL(cuLaunchKernel)(job->add, 2, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
        job->launches++;
    }
    return 0;
}

/* Whether every launch that succeeded has left its trace, once. */
static inline int job_right(struct job *job)
{
    int values[JOB_VALUES];
    JOB_NEED(JOB_CALL(cuCtxSynchronize)());
    JOB_NEED(JOB_CALL(cuMemcpyDtoH)(values, job->values, sizeof values));
    for (int i = 0; i < JOB_VALUES; i++)
        if (values[i] != job->launches)
            return __LINE__;
    return 0;
}

#endif
