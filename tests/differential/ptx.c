/* From rows to the text of a PTX module: an entry for each, which loads its operands, executes the
 * row and stores the results. */
#include "differential.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text {
    struct kg_bytes bytes;
    size_t room;
    unsigned line;
};

static void put(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0)
        abort();
    if (text->bytes.size + (size_t)length + 1 > text->room) {
        text->room = text->room * 2 + (size_t)length + 4096;
        text->bytes.data = realloc(text->bytes.data, text->room);
        if (!text->bytes.data)
            abort();
    }
    char *to = (char *)text->bytes.data + text->bytes.size;
    va_start(args, format);
    vsnprintf(to, (size_t)length + 1, format, args);
    va_end(args);
    for (int i = 0; i < length; i++)
        text->line += to[i] == '\n';
    text->bytes.size += (size_t)length;
}

static void declare(struct text *text, char letter, unsigned number, unsigned reg)
{
    if (reg == 1)
        put(text, ".reg .pred %%%c%u;\n", letter, number);
    else
        put(text, ".reg .b%u %%%c%u;\n", reg, letter, number);
}

static void load(struct text *text, const struct row *row, unsigned i)
{
    unsigned reg = row->inputs[i].kind->reg;
    unsigned at = i * 8;
    if (reg != 1) {
        put(text, "ld.global.b%u %%i%u, [%%in+%u];\n", reg, i, at);
        return;
    }
    put(text, "ld.global.u32 %%word, [%%in+%u];\nsetp.ne.u32 %%i%u, %%word, 0;\n", at, i);
}

static void clear(struct text *text, const struct row *row, unsigned i)
{
    unsigned reg = row->outputs[i]->reg;
    if (reg == 1)
        put(text, "setp.ne.u32 %%o%u, 0, 0;\n", i);
    else
        put(text, "mov.b%u %%o%u, 0;\n", reg, i);
}

/* Results are stored output after output. */
static void store(struct text *text, const struct row *row, unsigned i, unsigned before)
{
    unsigned bytes = output_bytes(row->outputs[i]), reg = row->outputs[i]->reg;
    put(text, "mad.lo.u32 %%word, %%n, %u, 0;\nmad.lo.u32 %%word, %%t, %u, %%word;\n", before,
        bytes);
    put(text, "cvt.u64.u32 %%at, %%word;\nadd.u64 %%at, %%at, %%out;\n");
    if (reg == 1)
        put(text, "selp.u32 %%word, 1, 0, %%o%u;\nst.global.u8 [%%at], %%word;\n", i);
    else
        put(text, "st.global.b%u [%%at], %%o%u;\n", reg, i);
}

static void entry(struct text *text, const struct row *row, unsigned number)
{
    put(text, ".visible .entry row%u(.param .u64 in, .param .u64 out, .param .u32 n)\n{\n", number);
    put(text, ".reg .b32 %%word, %%t, %%n, %%x, %%y, %%z, %%lane;\n.reg .b64 %%in, %%out, %%at, "
              "%%w, %%v;\n.reg .b16 %%h, %%g;\n.reg .pred %%p, %%q;\n");
    for (unsigned i = 0; i < row->input_count; i++)
        declare(text, 'i', i, row->inputs[i].kind->reg);
    for (unsigned i = 0; i < row->output_count; i++)
        declare(text, 'o', i, row->outputs[i]->reg);
    put(text, "mov.u32 %%x, %%ctaid.x;\nmov.u32 %%y, %%ntid.x;\nmov.u32 %%t, %%tid.x;\n"
              "mad.lo.u32 %%t, %%x, %%y, %%t;\nld.param.u32 %%n, [n];\n"
              "ld.param.u64 %%in, [in];\nld.param.u64 %%out, [out];\n");
    put(text, "mul.wide.u32 %%at, %%t, %u;\nadd.u64 %%in, %%in, %%at;\n", row->input_count * 8u);
    if (strstr(row->body, "%lane"))
        put(text, "mov.u32 %%lane, %%laneid;\n");
    for (unsigned i = 0; i < row->input_count; i++)
        load(text, row, i);
    for (unsigned i = 0; i < row->output_count; i++)
        clear(text, row, i);
    size_t length = strlen(row->body);
    bool closed = length > 3 && !strcmp(row->body + length - 3, "; }"); /* a scope of its own */
    put(text, "{\n%s%s\n}\n", row->body, closed ? "" : ";");
    unsigned before = 0;
    for (unsigned i = 0; i < row->output_count; i++) {
        store(text, row, i, before);
        before += output_bytes(row->outputs[i]);
    }
    put(text, "ret;\n}\n");
}

/* What rows may call. */
static const char functions[] =
    ".func (.reg .b32 %r) twice(.reg .b32 %a)\n{\nadd.u32 %r, %a, %a;\nret;\n}\n"
    ".func (.reg .b32 %r) minus(.reg .b32 %a)\n{\nneg.s32 %r, %a;\nret;\n}\n"
    ".global .align 8 .u64 functions[2] = {twice, minus};\n"
    ".func (.param .b64 back) sums(.param .align 8 .b8 in[16])\n{\n.reg .b64 %a, %b;\n"
    "ld.param.u32 %a, [in];\nld.param.b64 %b, [in+8];\nadd.u64 %a, %a, %b;\n"
    "st.param.b64 [back], %a;\nret;\n}\n"
    ".func (.param .b64 back) factorial(.param .b32 n)\n{\n.reg .b64 %f, %w;\n.reg .b32 %n;\n"
    ".reg .pred %p;\nld.param.b32 %n, [n];\nmov.b64 %f, 1;\nsetp.lt.u32 %p, %n, 2;\n"
    "@%p bra done;\n{\n.param .b32 m;\n.param .b64 r;\nsub.u32 %n, %n, 1;\n"
    "st.param.b32 [m], %n;\ncall (r), factorial, (m);\nld.param.b64 %w, [r];\n}\n"
    "add.u32 %n, %n, 1;\ncvt.u64.u32 %f, %n;\nmul.lo.u64 %f, %f, %w;\n"
    "done:\nst.param.b64 [back], %f;\nret;\n}\n";

char *module_text(const struct row *const *rows, unsigned count, unsigned *lines)
{
    struct text text = {.line = 1};
    put(&text, ".version 9.0\n.target sm_90\n.address_size 64\n%s", functions);
    for (unsigned i = 0; i < count; i++) {
        lines[i] = text.line;
        entry(&text, rows[i], i);
    }
    lines[count] = text.line;
    return (char *)text.bytes.data;
}
