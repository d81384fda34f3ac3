/* Containers as nvcc makes them, and selection among their entries: every compression, several
 * architectures, arch-specific code, wrappers, cubins, bare PTX; and damaged ones. */
#include "code_fixture.h"

static const char source[] =
    "__constant__ float coef[5];\n"
    "__global__ void blend(int n, float a, const float *x, float *y)\n"
    "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = a * x[i] + coef[i % 5]; }\n"
    "__global__ void big(float *y, const float *x) { float s = 0;\n"
    "#pragma unroll\n for (int i = 0; i < 40; i++) s = s * x[i] + x[i + threadIdx.x]; *y = "
    "s; }\n";

static struct kg_bytes build(const char *flags)
{
    CHECK(fixture_run(NVCC " -c %s a.cu -o a.o", flags));
    struct kg_bytes section = fixture_section("a.o", ".nv_fatbin");
    CHECK(section.size > 100);
    return section;
}

static char *reference(const char *arch)
{
    CHECK(fixture_run(NVCC " -ptx -arch=%s a.cu -o a.ptx", arch));
    struct kg_bytes text = fixture_read("a.ptx");
    return fixture_plain((char *)text.data);
}

/* Each way to pack sm_80 machine code and compute_80 PTX gives the same two. */
static void compressions(void)
{
    static const char *const flags[] = {"-compress-mode=none",
                                        "-compress-mode=speed",
                                        "-compress-mode=balance",
                                        "-compress-mode=size",
                                        "-Xfatbin -compress-all",
                                        "-no-compress",
                                        "-Xfatbin -compress-all -compress-mode=speed"};
    char all[64];
    char *expected = reference("compute_80");
    CHECK(fixture_run(NVCC " -cubin -arch=sm_80 a.cu -o a.cubin"));
    struct kg_bytes cubin = fixture_read("a.cubin");
    for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++) {
        snprintf(all, sizeof all, "-arch=sm_80 %s", flags[i]);
        struct kg_bytes fatbin = build(all);
        struct image_code code;
        CHECK(image_select(fatbin.data, fatbin.size, "sm_80", false, &code) == KG_OK);
        CHECK(code.machine_code && code.sm == 80);
        CHECK(code.selected.size == cubin.size);
        CHECK(code.ptx.data && !strcmp(fixture_plain((char *)code.ptx.data), expected));
        image_code_free(&code);
        CHECK(image_select(fatbin.data, fatbin.size, "sm_90", true, &code) == KG_OK);
        CHECK(!code.machine_code && code.sm == 80);
        CHECK(code.selected.size == strlen((char *)code.selected.data));
        CHECK(!strcmp((char *)code.selected.data, (char *)code.ptx.data));
        CHECK(!strcmp(fixture_plain((char *)code.selected.data), expected));
        image_code_free(&code);
        bytes_free(&fatbin);
    }
    bytes_free(&cubin);
    free(expected);
}

static void expect(const struct kg_bytes *image, const char *arch, bool ptx_only, kg_status status,
                   bool machine_code, unsigned sm)
{
    struct image_code code;
    CHECK(image_select(image->data, image->size, arch, ptx_only, &code) == status);
    if (status != KG_OK)
        return;
    CHECK(code.machine_code == machine_code);
    CHECK(code.sm == sm);
    CHECK(code.machine_code ? !memcmp(code.selected.data, "\177ELF", 4)
                            : strstr((char *)code.selected.data, ".version") != NULL);
    image_code_free(&code);
}

static void selection(void)
{
    struct kg_bytes image = build("-gencode arch=compute_80,code=sm_80 "
                                  "-gencode arch=compute_86,code=sm_86 "
                                  "-gencode arch=compute_80,code=compute_80 "
                                  "-gencode arch=compute_90,code=compute_90");
    expect(&image, "sm_80", false, KG_OK, true, 80);
    expect(&image, "sm_86", false, KG_OK, true, 86);
    expect(&image, "sm_89", false, KG_OK, true, 86);
    expect(&image, "sm_90", false, KG_OK, false, 90);
    expect(&image, "sm_100", false, KG_OK, false, 90);
    expect(&image, "sm_89", true, KG_OK, false, 80);
    expect(&image, "sm_75", false, KG_NOT_FOUND, false, 0);
    expect(&image, "gfx90a", false, KG_BAD_INPUT, false, 0);
    struct image_code code; /* raw material of sm_80's machine code is compute_80's */
    CHECK(image_select(image.data, image.size, "sm_89", false, &code) == KG_OK);
    CHECK(code.ptx.data && strstr((char *)code.ptx.data, ".target sm_80"));
    image_code_free(&code);
    bytes_free(&image);

    image = build("-gencode arch=compute_90a,code=[sm_90a,compute_90a] "
                  "-gencode arch=compute_80,code=compute_80");
    expect(&image, "sm_90", false, KG_OK, true, 90);
    expect(&image, "sm_90", true, KG_OK, false, 90);
    expect(&image, "sm_100", false, KG_OK, false, 80);
    expect(&image, "sm_120", true, KG_OK, false, 80);
    bytes_free(&image);

    image = build(""); /* nvcc's default architecture */
    expect(&image, "sm_90", false, KG_OK, false, 75);
    expect(&image, "sm_75", false, KG_OK, true, 75);
    bytes_free(&image);

    image = build("-gencode arch=compute_90,code=sm_90");
    expect(&image, "sm_90", false, KG_OK, true, 90);
    expect(&image, "sm_90", true, KG_NOT_FOUND, false, 0);
    bytes_free(&image);
}

static void options_record(void)
{
    struct image_code code;
    struct kg_bytes image = build("-arch=compute_80 -code=compute_80 -maxrregcount=32 -lineinfo");
    CHECK(image_select(image.data, image.size, "sm_90", false, &code) == KG_OK);
    CHECK(strstr(code.options, "maxrregcount"));
    image_code_free(&code);
    bytes_free(&image);
}

/* What the driver's interface gives: no length. */
static void lengths(void)
{
    enum image_kind kind;
    const void *start;
    size_t extent;
    struct image_code code;
    struct kg_bytes fatbin = build("-arch=sm_80");
    struct {
        uint32_t magic, version;
        const void *data, *parts;
    } wrapper = {0x466243B1, 1, fatbin.data, NULL};
    const void *parts[2] = {fatbin.data, NULL};
    CHECK(image_extent(&wrapper, 0, &kind, &start, &extent) == KG_OK);
    CHECK(kind == IMAGE_WRAPPER && start == fatbin.data && extent == fatbin.size);
    CHECK(image_select(&wrapper, 0, "sm_80", false, &code) == KG_OK && code.machine_code);
    image_code_free(&code);
    CHECK(image_extent(&wrapper, sizeof wrapper, &kind, &start, &extent) == KG_BAD_INPUT);
    wrapper.version = 2;
    CHECK(image_extent(&wrapper, 0, &kind, &start, &extent) == KG_OK);
    wrapper.parts = parts;
    CHECK(image_extent(&wrapper, 0, &kind, &start, &extent) == KG_UNSUPPORTED);
    CHECK(image_extent(fatbin.data, 0, &kind, &start, &extent) == KG_OK);
    CHECK(kind == IMAGE_FATBIN && extent == fatbin.size);

    /* Several in a row, as a linked program's section has them: all are seen where the size says
     * so. */
    struct kg_bytes second = build("-gencode arch=compute_90,code=sm_90");
    unsigned char *both = calloc(1, fatbin.size + second.size + 1);
    memcpy(both, fatbin.data, fatbin.size);
    memcpy(both + fatbin.size, second.data, second.size);
    struct kg_bytes joined = {both, fatbin.size + second.size};
    expect(&joined, "sm_90", false, KG_OK, true, 90);
    expect(&joined, "sm_80", false, KG_OK, true, 80);
    bytes_free(&joined);
    bytes_free(&second);
    bytes_free(&fatbin);

    CHECK(fixture_run(NVCC " -cubin -arch=sm_90 a.cu -o a.cubin"));
    struct kg_bytes cubin = fixture_read("a.cubin");
    CHECK(image_extent(cubin.data, 0, &kind, &start, &extent) == KG_OK);
    CHECK(kind == IMAGE_ELF && extent == cubin.size);
    expect(&cubin, "sm_90", false, KG_OK, true, 90);
    expect(&cubin, "sm_80", false, KG_NOT_FOUND, true, 0);
    expect(&cubin, "sm_90", true, KG_NOT_FOUND, true, 0);
    bytes_free(&cubin);

    free(reference("compute_80"));
    struct kg_bytes text = fixture_read("a.ptx");
    CHECK(image_extent(text.data, 0, &kind, &start, &extent) == KG_OK);
    CHECK(kind == IMAGE_PTX && extent == text.size);
    expect(&text, "sm_90", false, KG_OK, false, 80);
    expect(&text, "sm_75", false, KG_NOT_FOUND, false, 80);
    CHECK(image_extent("int main;", 0, &kind, &start, &extent) == KG_BAD_INPUT);
    CHECK(image_extent("", 0, &kind, &start, &extent) == KG_BAD_INPUT);
    bytes_free(&text);
}

/* Separately compiled: the section has no whole program, and nothing must go wrong. */
static void relocatable(void)
{
    struct image_code code;
    CHECK(fixture_run(NVCC " -c -rdc=true -arch=sm_80 a.cu -o r.o"));
    struct kg_bytes part = fixture_section("r.o", "__nv_relfatbin");
    CHECK(part.size > 100);
    CHECK(image_select(part.data, part.size, "sm_80", true, &code) == KG_OK);
    CHECK(strstr((char *)code.selected.data, ".entry"));
    image_code_free(&code);
    bytes_free(&part);
}

/* Code for one family of architectures, and code that only a linker can read. */
static void kinds(void)
{
    struct kg_bytes image = build("-gencode arch=compute_100f,code=[sm_100f,compute_100f]");
    expect(&image, "sm_100", false, KG_OK, true, 100);
    expect(&image, "sm_103", false, KG_OK, true, 100);
    expect(&image, "sm_103", true, KG_OK, false, 100);
    expect(&image, "sm_110", false, KG_NOT_FOUND, false, 0);
    expect(&image, "sm_120", true, KG_NOT_FOUND, false, 0);
    bytes_free(&image);
    CHECK(fixture_run(NVCC " -fatbin -rdc=true -gencode arch=compute_90,code=lto_90 a.cu -o l.fb"));
    image = fixture_read("l.fb");
    expect(&image, "sm_90", false, KG_NOT_FOUND, false, 0);
    bytes_free(&image);
    CHECK(fixture_run(NVCC " -fatbin -rdc=true -gencode arch=compute_90,code=lto_90 "
                           "-gencode arch=compute_80,code=compute_80 a.cu -o l.fb"));
    image = fixture_read("l.fb");
    expect(&image, "sm_90", false, KG_OK, false, 80);
    bytes_free(&image);
}

static const char caller[] = "extern __device__ float twice(float);\n"
                             "static __device__ __noinline__ float own(float x) { return x + 1; }\n"
                             "extern \"C\" __global__ void go(float *x)\n"
                             "{ x[threadIdx.x] = own(twice(x[threadIdx.x])); }\n";
static const char called[] = "static __device__ __noinline__ float own(float x) { return x * 2; }\n"
                             "__device__ float twice(float x) { return own(x); }\n";

/* What `go` of an image is. */
static void expect_linked(const struct kg_bytes *image, bool machine_code)
{
    struct image_code code;
    struct kernel_model model;
    CHECK(image_select(image->data, image->size, "sm_80", false, &code) == KG_OK);
    CHECK(code.machine_code == machine_code && code.ptx.size);
    CHECK(strstr((char *)code.ptx.data, "twice") && strstr((char *)code.ptx.data, "go("));
    CHECK(kernel_model_make(&code, "go", &model) == KG_OK);
    CHECK(!model.ineligible && model.pointer_count == 1 && model.param_count == 1);
    if (model.ineligible)
        fprintf(stderr, "%s\n", model.ineligible);
    kernel_model_free(&model);
    image_code_free(&code);
}

/* Cut and with bytes changed: a status, and what comes out can be selected from. */
static void damaged_parts(const struct kg_bytes *parts)
{
    struct kg_bytes image;
    for (size_t size = 16; size < parts->size; size += 1 + size / 8) {
        struct kg_bytes cut = {malloc(size), size};
        memcpy(cut.data, parts->data, size);
        (void)image_link(&cut, "sm_80", size % 2, &image);
        bytes_free(&image);
        bytes_free(&cut);
    }
    for (size_t at = 0; at < parts->size; at += 1 + at / 32) {
        parts->data[at] ^= 0x55;
        kg_status status = image_link(parts, "sm_80", at % 2, &image);
        CHECK((status == KG_OK) == (image.data != NULL));
        bytes_free(&image);
        parts->data[at] ^= 0x55;
    }
}

/* A program of two parts, as its wrapper shows it: one image, of the linked machine code and the
 * parts' PTX. */
static void linked(void)
{
    fixture_write("caller.cu", caller);
    fixture_write("called.cu", called);
    const char *arch = "-arch=sm_80 -rdc=true";
    CHECK(fixture_run(NVCC " -c %s caller.cu -o caller.o && " NVCC
                           " -c %s called.cu -o called.o && " NVCC
                           " -arch=sm_80 -dlink caller.o called.o -fatbin -o linked.fb",
                      arch, arch));
    struct kg_bytes one = fixture_section("caller.o", "__nv_relfatbin"), parts, image;
    struct kg_bytes two = fixture_section("called.o", "__nv_relfatbin");
    struct kg_bytes both = fixture_read("linked.fb");
    const void *list[] = {one.data, two.data, NULL};
    struct {
        uint32_t magic, version;
        const void *data, *parts;
    } wrapper = {0x466243B1, 2, both.data, list};
    CHECK(image_parts(&wrapper, 1 << 20, &parts) == KG_OK);
    CHECK(image_link(&parts, "sm_80", false, &image) == KG_OK);
    expect_linked(&image, true);
    bytes_free(&image);
    CHECK(image_link(&parts, "sm_80", true, &image) == KG_OK);
    expect_linked(&image, false);
    bytes_free(&image);
    CHECK(image_link(&parts, "sm_90", false, &image) == KG_UNSUPPORTED); /* by the driver, then */
    damaged_parts(&parts);
    bytes_free(&parts);
    CHECK(image_parts(&wrapper, both.size + 8, &parts) == KG_LIMIT);
    list[1] = NULL; /* a part that is not there: the caller is seen, and left alone */
    CHECK(image_parts(&wrapper, 1 << 20, &parts) == KG_OK);
    CHECK(image_link(&parts, "sm_80", true, &image) == KG_OK);
    struct image_code code;
    struct kernel_model model;
    CHECK(image_select(image.data, image.size, "sm_80", true, &code) == KG_OK);
    CHECK(kernel_model_make(&code, "go", &model) == KG_OK);
    CHECK(model.ineligible && strstr(model.ineligible, "does not define"));
    kernel_model_free(&model);
    image_code_free(&code);
    bytes_free(&image);
    bytes_free(&parts);
    wrapper.version = 1;
    CHECK(image_parts(&wrapper, 1 << 20, &parts) == KG_NOT_FOUND);
    CHECK(image_parts("", 1 << 20, &parts) == KG_NOT_FOUND);
    bytes_free(&one);
    bytes_free(&two);
    bytes_free(&both);
}

/* Cut at every place, and with single bytes changed: an answer, never a crash (the sanitizers look
 * on), and nothing that was cut is taken for whole. */
static void damage(void)
{
    struct kg_bytes image = build("-arch=sm_80 -Xfatbin -compress-all");
    unsigned whole = 0, refused = 0;
    for (size_t size = 1; size < image.size; size += 1 + size / 16) {
        struct image_code code;
        unsigned char *cut = malloc(size);
        memcpy(cut, image.data, size);
        whole += image_select(cut, size, "sm_80", false, &code) == KG_OK;
        image_code_free(&code);
        free(cut);
    }
    CHECK(!whole);
    for (size_t at = 0; at < image.size; at += 1 + at / 64) {
        struct image_code code;
        unsigned char kept = image.data[at];
        image.data[at] ^= 0x55;
        refused += image_select(image.data, image.size, "sm_80", false, &code) != KG_OK;
        image_code_free(&code);
        image.data[at] = kept;
    }
    CHECK(refused > 20);
    bytes_free(&image);
}

int main(void)
{
    fixture_begin();
    fixture_write("a.cu", source);
    compressions();
    selection();
    options_record();
    lengths();
    relocatable();
    kinds();
    linked();
    damage();
    fixture_end();
    return test_result();
}
