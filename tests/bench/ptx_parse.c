/* How fast the PTX front end is: parse and print of one large module. Without arguments a module of
 * 5 MB is made up here, in the manner of nvcc's output; or name PTX files. The best of several runs
 * counts, since anything else on the machine only adds. Wanted: 5 MB parsed in less than 100 ms. */
#include "code/ptx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MODULE_BYTES = 5 << 20, RUNS = 9 };

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static const char head[] =
    ".version 9.0\n.target sm_90\n.address_size 64\n"
    ".extern .func  (.param .b32 func_retval0) vprintf\n(\n\t.param .b64 vprintf_param_0,\n"
    "\t.param .b64 vprintf_param_1\n)\n;\n.const .align 4 .b8 weights[32] = {0, 0, 128, 63};\n";

/* One step of an unrolled loop: K is the number of the kernel, N and M number registers. */
static const char step[] = "\tld.global.nc.f32 \t%%f%u, [%%rd%u+%u];\n"
                           "\tld.global.v4.f32 \t{%%f%u, %%f%u, %%f%u, %%f%u}, [%%rd%u+16];\n"
                           "\tfma.rn.f32 \t%%f%u, %%f%u, %%f%u, 0f3F800000;\n"
                           "\tmul.wide.s32 \t%%rd%u, %%r%u, 4;\n"
                           "\tadd.s64 \t%%rd%u, %%rd%u, %%rd%u;\n"
                           "\tsetp.lt.s32 \t%%p%u, %%r%u, 0x%x;\n"
                           "\t@%%p%u bra \t$L__BB%u_%u;\n"
                           "\tmad.lo.s32 \t%%r%u, %%r%u, %%ntid.x, %%r%u;\n"
                           "\tst.shared.f32 \t[weights_tile_%u+%u], %%f%u;\n"
                           "\tshfl.sync.bfly.b32 \t%%r%u|%%p%u, %%r%u, 16, 31, -1;\n"
                           "$L__BB%u_%u:\n"
                           "\tadd.s32 \t%%r%u, %%r%u, 1;\n";

static size_t add_step(char *at, size_t room, unsigned k, unsigned n)
{
    unsigned f = n * 6, r = n * 4, d = n * 3, p = n * 2;
    return (size_t)snprintf(at, room, step, f + 1, d, n * 4, f + 2, f + 3, f + 4, f + 5, d, f + 6,
                            f + 1, f + 2, d + 1, r, d + 2, d, d + 1, p, r, n * 77, p, k, n, r + 1,
                            r, r, k, n % 64 * 4, f + 6, r + 2, p + 1, r + 1, k, n, r + 3, r + 2);
}

static struct kg_bytes make_module(void)
{
    struct kg_bytes text = {malloc(MODULE_BYTES + 65536), sizeof head - 1};
    if (!text.data)
        exit(1);
    memcpy(text.data, head, sizeof head);
    for (unsigned k = 0; text.size < MODULE_BYTES; k++) {
        char *at = (char *)text.data;
        text.size += (size_t)sprintf(
            at + text.size,
            "\t// .globl\t_Z6kernel%uPKfPfi\n.visible .entry _Z6kernel%uPKfPfi(\n"
            "\t.param .u64 .ptr .align 1 _Z6kernel%uPKfPfi_param_0,\n"
            "\t.param .u32 _Z6kernel%uPKfPfi_param_1\n)\n.maxntid 256, 1, 1\n{\n"
            "\t.reg .pred \t%%p<512>;\n\t.reg .f32 \t%%f<2048>;\n\t.reg .b32 \t%%r<1024>;\n"
            "\t.reg .b64 \t%%rd<1024>;\n\t.shared .align 4 .b8 weights_tile_%u[256];\n\n"
            "\tld.param.u64 \t%%rd0, [_Z6kernel%uPKfPfi_param_0];\n"
            "\tld.param.u32 \t%%r0, [_Z6kernel%uPKfPfi_param_1];\n",
            k, k, k, k, k, k, k);
        for (unsigned n = 0; n < 60; n++)
            text.size += add_step(at + text.size, 4096, k, n);
        text.size += (size_t)sprintf(at + text.size, "\tbar.sync \t0;\n\tret;\n\n}\n");
    }
    return text;
}

static int measure(const char *name, const struct kg_bytes *text)
{
    double parse = 1e9, print = 1e9;
    size_t lines = 0, printed = 0, instructions = 0;
    for (size_t i = 0; i < text->size; i++)
        lines += text->data[i] == '\n';
    for (int run = 0; run < RUNS; run++) {
        struct ptx_module module;
        struct kg_bytes out = {0};
        char error[200] = "";
        double start = now_ms();
        kg_status status = ptx_parse((char *)text->data, text->size, &module, error, sizeof error);
        double parsed = now_ms();
        if (status != KG_OK || ptx_print(&module, &out) != KG_OK) {
            fprintf(stderr, "%s: %s\n", name, error);
            return 1;
        }
        double done = now_ms();
        parse = parsed - start < parse ? parsed - start : parse;
        print = done - parsed < print ? done - parsed : print;
        instructions = 0;
        for (uint32_t i = 0; i < module.func_count; i++)
            instructions += module.funcs[i]->instr_count;
        printed = out.size;
        bytes_free(&out);
        ptx_module_free(&module);
    }
    double mb = (double)text->size / (1 << 20);
    printf("%s: %.1f MB, %zu lines, %zu instructions: parse %.1f ms (%.0f MB/s), print %.1f ms "
           "(%.0f MB/s)\n",
           name, mb, lines, instructions, parse, mb / parse * 1e3, print,
           (double)printed / (1 << 20) / print * 1e3);
    return 0;
}

int main(int count, char **files)
{
    int failed = 0;
    for (int i = 1; i < count; i++) {
        struct kg_bytes text;
        if (file_read(files[i], 1 << 30, &text) != KG_OK) {
            fprintf(stderr, "%s cannot be read\n", files[i]);
            return 1;
        }
        failed |= measure(files[i], &text);
        bytes_free(&text);
    }
    if (count > 1)
        return failed;
    struct kg_bytes text = make_module();
    failed = measure("made up", &text);
    bytes_free(&text);
    return failed;
}
