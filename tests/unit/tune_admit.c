/* Admission: each forbidden construct is refused with its reason, what the original has itself is
 * inherited, parameters and launch must fit; and with the gate off, all of it would pass. */
#include "test.h"
#include "tune/job.h"
#include "tune/replay.h"

#include <string.h>

#define HEAD ".version 8.0\n.target sm_90\n.address_size 64\n"
#define ORIGINAL_PTX(body)                                                                         \
    HEAD ".visible .entry k(\n\t.param .u64 k_0,\n\t.param .u32 k_1\n)\n{\n\t.reg .b64 %rd<9>;\n"  \
         "\t.reg .b32 %r<9>;\n\t.reg .f32 %f<9>;\n\t.reg .b16 %h<9>;\n\t.reg .pred %p<4>;\n" body  \
         "\tret;\n}\n"

static struct kg_param params[2] = {{0, 8}, {8, 4}};
static struct capture_region global = {.kind = CAPTURE_GLOBAL, .size = 4, .name = "table"};

struct test {
    const char *ptx, *original, *words; /* words NULL: admitted */
    struct kg_launch launch;
    const char *entry, *global;
    uint32_t overlaps;
};

static void expect(struct test test)
{
    const char *original = test.original ? test.original : ORIGINAL_PTX("");
    struct job job = {.capture.entry = "k",
                      .capture.region_count = 1,
                      .capture.regions = &global,
                      .image.ptx = {(unsigned char *)(uintptr_t)original, strlen(original)},
                      .model = {.param_count = 2, .params = params},
                      .signature.overlap_count = test.overlaps};
    struct kg_launch standard = {{4, 1, 1}, {128, 1, 1}, 0};
    struct candidate candidate = {.ptx = test.ptx,
                                  .entry = test.entry ? test.entry : "k",
                                  .launch = test.launch.block.x ? test.launch : standard,
                                  .global_count = test.global != NULL,
                                  .globals = {test.global},
                                  .code = {(unsigned char *)(uintptr_t)test.ptx, 1}};
    struct verdict verdict = {0};
    kg_status status = admit(&job, &candidate, &verdict);
    bool good = test.words ? CHECK(status == KG_REFUSED) && CHECK(verdict.status == KG_REFUSED) &&
                                 CHECK(!strcmp(verdict.gate, "admission")) &&
                                 CHECK(strstr(verdict.reason, test.words))
                           : CHECK(status == KG_OK);
    if (!good)
        fprintf(stderr, "  wanted \"%s\", got %s: %s\n", test.words ? test.words : "admitted",
                status_text(status), verdict.reason);
    verify_gates_off = "admission";
    CHECK(admit(&job, &candidate, &verdict) == KG_OK);
    verify_gates_off = NULL;
}

static void constructs(void)
{
    static const struct {
        const char *ptx, *words;
    } never[] = {
        {ORIGINAL_PTX("\ttrap;\n"), "traps or asserts"},
        {ORIGINAL_PTX("\tmov.u32 %r1, %clock;\n"), "reads clocks"},
        {ORIGINAL_PTX("\tmov.u32 %r1, %smid;\n"), "reads clocks"},
        {HEAD ".global .align 4 .b32 counter;\n.visible .entry k(\n\t.param .u64 a,\n\t.param .u32 "
              "b\n)\n{\n\t.reg .b32 %r<3>;\n\tatom.global.add.u32 %r1, [counter], 1;\n\tret;\n}\n",
         "module variables that it can write"},
        {HEAD ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n.visible "
              ".entry k(\n\t.param .u64 a,\n\t.param .u32 b\n)\n{\n\t.reg .b64 %rd<3>;\n\t{\n"
              "\t.param .b64 p0;\n\t.param .b64 p1;\n\t.param .b32 r0;\n\tst.param.b64 [p0], "
              "%rd1;\n\tst.param.b64 [p1], %rd2;\n\tcall.uni (r0), vprintf, (p0, p1);\n\t}\n"
              "\tret;\n}\n",
         "prints"},
        {HEAD ".visible .entry k(\n\t.param .u64 a,\n\t.param .u32 b\n)\n{\n\tret;\n}\n.visible "
              ".entry l()\n{\n\tret;\n}\n",
         "one entry"},
        {"nonsense", "cannot be read"},
        {ORIGINAL_PTX("\tmov.u32 %r1, %cluster_ctarank;\n"), "thread block clusters"},
        {ORIGINAL_PTX("\tgriddepcontrol.launch_dependents;\n"), "not waiting first"},
    };
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        expect((struct test){.ptx = never[i].ptx, .words = never[i].words});
    const char *half = ORIGINAL_PTX("\tadd.f16 %h1, %h2, %h3;\n");
    expect((struct test){.ptx = half, .words = "half precision"});
    expect((struct test){.ptx = half, .original = half});
    const char *brain = ORIGINAL_PTX("\tfma.rn.bf16 %h1, %h2, %h3, %h4;\n");
    expect((struct test){.ptx = brain, .original = half, .words = "bfloat16"});
    const char *adds = ORIGINAL_PTX("\tred.global.add.f32 [%rd1], %f1;\n");
    expect((struct test){.ptx = adds, .words = "no fixed order"});
    expect((struct test){.ptx = adds, .original = adds});
    expect((struct test){.ptx = ORIGINAL_PTX("\tred.global.add.u32 [%rd1], %r1;\n"),
                         .original = adds});
    const char *cached =
        ORIGINAL_PTX("\tld.param.u64 %rd1, [k_0];\n\tld.global.nc.f32 %f1, [%rd1];\n");
    expect((struct test){.ptx = cached});
    expect((struct test){.ptx = cached, .overlaps = 1, .words = "ld.global.nc"});
    expect((struct test){.ptx = ORIGINAL_PTX("\tld.global.nc.f32 %f1, [%rd1];\n"),
                         .words = "come from no parameter"});
    const char *waits = ORIGINAL_PTX("\tgriddepcontrol.wait;\n");
    const char *triggers =
        ORIGINAL_PTX("\tgriddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;\n");
    expect((struct test){.ptx = waits});
    expect((struct test){.ptx = waits, .original = triggers});
    expect((struct test){.ptx = triggers, .original = waits, .words = "start early"});
    expect((struct test){.ptx = ORIGINAL_PTX(""), .original = waits, .words = "does not wait"});
}

static void shapes(void)
{
    const char *plain = ORIGINAL_PTX("");
    expect((struct test){.ptx = plain});
    expect((struct test){.ptx = plain, .entry = "other", .words = "one entry other"});
    expect((struct test){.ptx = plain, .global = "table", .words = "has 2 parameters"});
    expect((struct test){.ptx = plain, .global = "missing", .words = "does not use"});
    const char *three = HEAD ".visible .entry k(\n\t.param .u64 a,\n\t.param .u32 b,\n\t.param "
                             ".u64 c\n)\n{\n\tret;\n}\n";
    expect((struct test){.ptx = three, .global = "table"});
    expect((struct test){.ptx = three, .words = "has 3 parameters"});
    expect((struct test){.ptx = HEAD ".visible .entry k(\n\t.param .u32 a,\n\t.param .u64 b\n)\n{\n"
                                     "\tret;\n}\n",
                         .words = "parameter 0 stands at byte 0 with 4 bytes, not at 0 with 8"});
    const struct kg_launch bad[] = {{{4, 1, 1}, {2048, 1, 1}, 0},
                                    {{4, 1, 1}, {64, 32, 1}, 0},
                                    {{0, 1, 1}, {64, 1, 1}, 0},
                                    {{1, 65536, 1}, {64, 1, 1}, 0}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect((struct test){.ptx = plain, .launch = bad[i], .words = " x "});
}

/* What another kernel of the original's module does is not the original's own. */
static void neighbours(void)
{
    const char *module =
        HEAD ".visible .entry other(\n\t.param .u64 a\n)\n{\n\t.reg .b16 %h<4>;\n\t.reg .b64 "
             "%rd<3>;\n\t.reg .b32 %r<3>;\n\tadd.f16 %h1, %h2, %h3;\n"
             "\tld.volatile.global.u32 %r1, [%rd1];\n\tret;\n}\n"
             ".visible .entry k(\n\t.param .u64 k_0,\n\t.param .u32 k_1\n)\n{\n\tret;\n}\n";
    const char *half = ORIGINAL_PTX("\tadd.f16 %h1, %h2, %h3;\n");
    const char *watched = ORIGINAL_PTX("\tld.volatile.global.u32 %r1, [%rd1];\n");
    expect((struct test){.ptx = half, .original = module, .words = "half precision"});
    expect((struct test){.ptx = watched, .original = module, .words = "volatile"});
    expect((struct test){.ptx = watched, .original = watched});
    expect((struct test){.ptx = ORIGINAL_PTX(""), .original = module});
}

#define LOAD_A "\tld.param.u64 %rd1, [k_0];\n\tcvta.to.global.u64 %rd2, %rd1;\n"
#define STORE_A "\tst.global.f32 [%rd2+4], %f1;\n"
#define WITH_TABLE(body)                                                                           \
    HEAD ".visible .entry k(\n\t.param .u64 k_0,\n\t.param .u32 k_1,\n\t.param .u64 k_2\n)\n{\n"   \
         "\t.reg .b64 %rd<9>;\n\t.reg .f32 %f<9>;\n\t.reg .b32 %r<9>;\n" body "\tret;\n}\n"

/* Where a variant writes: only where the original does, and to each variable that it writes. */
static void writes(void)
{
    const char *reader = ORIGINAL_PTX(LOAD_A "\tld.global.f32 %f1, [%rd2];\n"),
               *writer = ORIGINAL_PTX(LOAD_A STORE_A);
    expect((struct test){.ptx = reader, .original = reader});
    expect((struct test){.ptx = writer, .original = writer});
    expect((struct test){.ptx = writer, .original = reader, .words = "only reads"});
    expect((struct test){.ptx = ORIGINAL_PTX(LOAD_A "\tdiscard.global.L2 [%rd2], 128;\n"),
                         .original = reader,
                         .words = "only reads"});
    expect((struct test){.ptx = ORIGINAL_PTX(LOAD_A "\tld.global.nc.f32 %f1, [%rd2];\n" STORE_A),
                         .original = writer,
                         .words = "what it writes itself"});
    expect((struct test){.ptx = ORIGINAL_PTX("\tmov.u64 %rd1, 4096;\n\tst.f32 [%rd1], %f1;\n"),
                         .original = writer,
                         .words = "come from no parameter"});
    expect((struct test){.ptx = ORIGINAL_PTX("\t.shared .align 16 .b8 s[64];\n\tmov.u64 %rd1, s;\n"
                                             "\tcvta.shared.u64 %rd2, %rd1;\n"
                                             "\tst.f32 [%rd2], %f1;\n"
                                             "\tst.shared.f32 [%rd1], %f1;\n"),
                         .original = reader});
    expect((struct test){.ptx = ORIGINAL_PTX(LOAD_A "\t.shared .align 16 .b8 s[64];\n"
                                                    "\tmov.u32 %r1, s;\n\tcp.async.ca.shared."
                                                    "global [%r1], [%rd2], 16;\n"),
                         .original = reader});
    const char *table = HEAD ".visible .global .align 4 .b32 table;\n.visible .entry k(\n\t.param "
                             ".u64 k_0,\n\t.param .u32 k_1\n)\n{\n\tst.global.u32 [table], 1;\n"
                             "\tret;\n}\n";
    const char *table_read = HEAD ".visible .global .align 4 .b32 table;\n.visible .entry k(\n"
                                  "\t.param .u64 k_0,\n\t.param .u32 k_1\n)\n{\n\t.reg .b32 "
                                  "%r<3>;\n\tld.global.u32 %r1, [table];\n\tret;\n}\n";
    const char *added = WITH_TABLE("\tld.param.u64 %rd1, [k_2];\n\tst.u32 [%rd1], %r1;\n");
    expect((struct test){.ptx = reader, .original = table, .words = "writes its variable table"});
    expect((struct test){.ptx = WITH_TABLE(""),
                         .original = table,
                         .global = "table",
                         .words = "writes its variable table"});
    expect((struct test){.ptx = added, .original = table, .global = "table"});
    expect((struct test){
        .ptx = added, .original = table_read, .global = "table", .words = "only reads"});
}

int main(void)
{
    writes();
    constructs();
    neighbours();
    shapes();
    return test_result();
}
