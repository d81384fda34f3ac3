/* PTX linking on the software GPU: cuLink* with several inputs, symbols that meet, that hide from
 * each other, that are missing or there twice. */
#include "softgpu/soft_test.h"

#define HEAD ".version 7.0\n.target sm_75\n.address_size 64\n"

/* Calls what the second text defines, and has a helper of its own by the same name as that one. */
static const char first[] = HEAD
    "// a comment with .visible .func in it;\n"
    ".extern .func (.param .b32 out) twice(.param .b32 in);\n"
    ".extern .global .align 4 .u32 base;\n"
    ".global .align 4 .u32 own = 1;\n"
    ".func (.param .b32 out) helper(.param .b32 in)\n{\n  .reg .b32 %r<3>;\n"
    "  ld.param.u32 %r1, [in];\n  add.u32 %r2, %r1, 100;\n  st.param.b32 [out], %r2;\n  ret;\n}\n"
    ".visible .entry go(.param .u64 result)\n{\n  .reg .b32 %r<9>;\n  .reg .b64 %rd<2>;\n"
    "  ld.param.u64 %rd1, [result];\n  ld.global.u32 %r1, [base];\n"
    "  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1;\n"
    "    call (b), twice, (a); ld.param.b32 %r2, [b]; }\n"
    "  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r2;\n"
    "    call (b), helper, (a); ld.param.b32 %r3, [b]; }\n"
    "  ld.global.u32 %r4, [own];\n  add.u32 %r5, %r3, %r4;\n"
    "  st.global.u32 [%rd1], %r5;\n  ret;\n}\n";

static const char second[] =
    HEAD ".visible .global .align 4 .u32 base = 20;\n"
         ".global .align 4 .u32 own = 7;\n"
         ".func (.param .b32 out) helper(.param .b32 in)\n{\n  .reg .b32 %r<4>;\n"
         "  ld.param.u32 %r1, [in];\n  ld.global.u32 %r2, [own];\n"
         "  mad.lo.u32 %r3, %r1, 2, %r2;\n  st.param.b32 [out], %r3;\n  ret;\n}\n"
         ".visible .func (.param .b32 out) twice(.param .b32 in)\n{\n  .reg .b32 %r<3>;\n"
         "  ld.param.u32 %r1, [in];\n"
         "  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1;\n"
         "    call (b), helper, (a); ld.param.b32 %r2, [b]; }\n"
         "  st.param.b32 [out], %r2;\n  ret;\n}\n";

static char log_text[200];

static CUlinkState link_new(void)
{
    CUlinkState link = NULL;
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log_text, (void *)sizeof log_text};
    OK(cu.cuLinkCreate_v2(2, options, values, &link));
    return link;
}

static CUresult add(CUlinkState link, const char *text)
{
    return cu.cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)text, strlen(text) + 1,
                               "text", 0, NULL, NULL);
}

/* What `go` of the linked texts gives. */
static unsigned result_of(CUlinkState link)
{
    void *image = NULL;
    size_t size = 0;
    OK(cu.cuLinkComplete(link, &image, &size));
    return word_of(image, "go");
}

static void orders(void)
{
    CUlinkState link = link_new();
    OK(add(link, first));
    OK(add(link, second));
    CHECK(result_of(link) == 148); /* (20 * 2 + 7) + 100 + 1 */
    OK(cu.cuLinkDestroy(link));
    if (!soft_hardware()) /* a dead handle: hardware's driver crashes */
        GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuLinkDestroy(link));
    link = link_new();
    OK(add(link, second));
    OK(add(link, first));
    CHECK(result_of(link) == 148);
    OK(cu.cuLinkDestroy(link));
}

static void files(void)
{
    char path[] = "/tmp/soft-link-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, second, sizeof second) == (ssize_t)sizeof second && !close(fd));
    CUlinkState link = link_new();
    OK(add(link, first));
    OK(cu.cuLinkAddFile_v2(link, CU_JIT_INPUT_PTX, path, 0, NULL, NULL));
    CHECK(result_of(link) == 148);
    GIVES(CUDA_ERROR_FILE_NOT_FOUND,
          cu.cuLinkAddFile_v2(link, CU_JIT_INPUT_PTX, "/nowhere", 0, NULL, NULL));
    OK(cu.cuLinkDestroy(link));
    CHECK(unlink(path) == 0);
}

/* A weak definition gives way; equal weak ones are one. */
static void weak(void)
{
    static const char soft[] = HEAD ".weak .global .align 4 .u32 base = 5;\n";
    CUlinkState link = link_new();
    OK(add(link, soft));
    OK(add(link, first));
    OK(add(link, soft));
    OK(add(link, second));
    CHECK(result_of(link) == 148);
    OK(cu.cuLinkDestroy(link));
}

static void mistakes(void)
{
    void *image;
    size_t size;
    CUlinkState link = link_new();
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuLinkComplete(link, &image, &size)); /* of nothing */
    GIVES(CUDA_ERROR_INVALID_PTX, add(link, HEAD ".visible .entry bad()\n{ add.u32 [; }\n"));
    CHECK(strstr(log_text, "5:")); /* the line */
    OK(add(link, first));
    GIVES(CUDA_ERROR_INVALID_IMAGE, cu.cuLinkComplete(link, &image, &size));
    CHECK(strstr(log_text, "Undefined reference to 'twice'"));
    OK(add(link, second));
    OK(cu.cuLinkComplete(link, &image, &size)); /* and now it is there */
    OK(add(link, second));
    GIVES(CUDA_ERROR_INVALID_IMAGE, cu.cuLinkComplete(link, &image, &size));
    CHECK(strstr(log_text, "Multiple definition of 'base'"));
    OK(cu.cuLinkDestroy(link));
}

/* One text comes through as it is. */
static void single(void)
{
    void *image;
    size_t size;
    CUmodule module;
    CUfunction vadd;
    struct vadd v;
    CUlinkState link = link_new();
    OK(add(link, vadd_ptx));
    OK(cu.cuLinkComplete(link, &image, &size));
    if (!soft_hardware()) /* machine code there */
        CHECK(size == strlen(image) + 1);
    OK(cu.cuModuleLoadData(&module, image));
    OK(cu.cuLinkDestroy(link)); /* the image goes, the module stays */
    OK(cu.cuModuleGetFunction(&vadd, module, "vadd"));
    vadd_make(&v, 100);
    OK(vadd_launch(vadd, &v, NULL));
    CHECK(vadd_wrong(&v) == 0);
    vadd_free(&v);
    OK(cu.cuModuleUnload(module));
}

int main(void)
{
    soft_begin();
    orders();
    files();
    weak();
    if (!soft_hardware()) /* which errors, and what may follow one, the manual does not say */
        mistakes();
    single();
    return test_result();
}
