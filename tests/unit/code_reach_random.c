/* Reach against itself: random kernels of integer arithmetic, branches and loops. Each thread is
 * walked, by an interpreter that shares no arithmetic with the affine forms; none may touch a byte
 * that reach leaves out. Arguments: SEED, and COUNT of kernels. */
#include "code/reach.h"
#include "test.h"

#include <stdarg.h>
#include <string.h>

enum { REGS = 8, TEXT = 1 << 16, KERNELS = 700 };

static char text[TEXT];
static size_t used;
static unsigned labels;

static void put(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void put(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text + used, TEXT - used, format, args);
    va_end(args);
    if (length > 0 && used + (size_t)length < TEXT)
        used += (size_t)length;
}

static unsigned pick(unsigned count)
{
    return (unsigned)rand() % count;
}

/* A small number, a power of two, a mask, or one at an end of the range. */
static long long number(void)
{
    static const long long odd[] = {-1, 0x7fffffff, -0x80000000ll, 0xff, 0x80, -4, 1000, -16};
    switch (pick(4)) {
    case 0:
        return 1ll << pick(8);
    case 1:
        return odd[pick(sizeof odd / sizeof *odd)];
    default:
        return (long long)pick(40) - 8;
    }
}

static void compare(unsigned predicate)
{
    static const char *const relations[] = {"lt", "le", "gt", "ge", "eq", "ne"};
    const char *type = pick(3) ? "s32" : "u32";
    if (pick(3))
        put("setp.%s.%s %%p%u, %%r%u, %lld;\n", relations[pick(6)], type, predicate, pick(REGS),
            type[0] == 'u' ? number() & 0xffffffff : number());
    else
        put("setp.%s.%s %%p%u, %%r%u, %%r%u;\n", relations[pick(6)], type, predicate, pick(REGS),
            pick(REGS));
}

static void arithmetic(void)
{
    static const char *const plain[] = {"add.s32", "sub.s32", "mul.lo.s32", "min.s32", "max.s32",
                                        "min.u32", "max.u32", "and.b32",    "or.b32",  "xor.b32"};
    unsigned to = pick(REGS), from = pick(REGS);
    switch (pick(9)) {
    case 0:
        put("shl.b32 %%r%u, %%r%u, %u;\n", to, from, pick(6));
        return;
    case 1:
        put("shr.%s %%r%u, %%r%u, %u;\n", pick(2) ? "s32" : "u32", to, from, pick(8));
        return;
    case 2:
        put("%s.%s %%r%u, %%r%u, %u;\n", pick(2) ? "div" : "rem", pick(2) ? "s32" : "u32", to, from,
            1 + pick(40));
        return;
    case 3:
        put("mad.lo.s32 %%r%u, %%r%u, %lld, %%r%u;\n", to, from, number(), pick(REGS));
        return;
    case 4:
        compare(2);
        put("selp.b32 %%r%u, %%r%u, %%r%u, %%p2;\n", to, from, pick(REGS));
        return;
    case 5:
        put("%s %%r%u, %%r%u%s;\n", pick(2) ? "abs.s32" : "not.b32", to, from, "");
        return;
    case 6:
        compare(3);
        put("@%s%%p3 add.s32 %%r%u, %%r%u, %lld;\n", pick(2) ? "!" : "", to, from, number());
        return;
    case 7:
        put("%s %%r%u, %%r%u, %lld;\n", plain[pick(10)], to, from, number());
        return;
    default:
        put("%s %%r%u, %%r%u, %%r%u;\n", plain[pick(10)], to, from, pick(REGS));
    }
}

static void store(void)
{
    unsigned from = pick(REGS);
    put("mul.wide.%s %%rd2, %%r%u, %u;\nadd.s64 %%rd2, %%rd1, %%rd2;\n", pick(2) ? "s32" : "u32",
        from, 1u << pick(4));
    if (pick(4) == 0) {
        compare(4);
        put("@%%p4 ");
    }
    put("st.global.u32 [%%rd2+%d], %%r%u;\n", 4 * (int)pick(5) - 8, from);
}

static void body(unsigned depth, unsigned length);

static void branch(unsigned depth)
{
    unsigned label = labels++;
    compare(1);
    if (pick(6) == 0) {
        put("@%s%%p1 %s;\n", pick(2) ? "!" : "", pick(2) ? "ret" : "exit");
        return;
    }
    put("@%s%%p1 bra L%u;\n", pick(2) ? "!" : "", label);
    body(depth + 1, 1 + pick(4));
    if (pick(2)) {
        unsigned end = labels++;
        put("bra L%u;\nL%u:\n", end, label);
        body(depth + 1, 1 + pick(3));
        put("L%u:\n", end);
    } else {
        put("L%u:\n", label);
    }
}

/* A counter of its own, tested first or last, up or down, with what compilers make of it. */
static void loop(unsigned depth)
{
    unsigned label = labels++, end = labels++, counter = 10 + depth;
    int step = (int)pick(2) ? 1 + (int)pick(5) : -1 - (int)pick(5);
    bool first = pick(2), equal = pick(4) == 0;
    int turns = (int)pick(9), from = (int)pick(30) - 10;
    if (pick(2))
        put("mov.u32 %%r%u, %d;\n", counter, from);
    else
        put("add.s32 %%r%u, %%r%u, %d;\n", counter, pick(2), from);
    if (pick(3) == 0)
        put("mov.u32 %%r%u, %%r%u;\n", counter + 10, pick(REGS));
    else
        put("add.s32 %%r%u, %%r%u, %d;\n", counter + 10, counter, step * turns);
    put("L%u:\n", label);
    if (first)
        put("setp.%s.s32 %%p1, %%r%u, %%r%u;\n@%%p1 bra L%u;\n",
            equal      ? "eq"
            : step > 0 ? "ge"
                       : "le",
            counter, counter + 10, end);
    put("mov.u32 %%r%u, %%r%u;\n", pick(REGS), counter);
    body(depth + 1, 1 + pick(4));
    put("add.s32 %%r%u, %%r%u, %d;\n", counter, counter, step);
    if (first)
        put("bra L%u;\n", label);
    else
        put("setp.%s.s32 %%p1, %%r%u, %%r%u;\n@%%p1 bra L%u;\n",
            equal      ? "ne"
            : step > 0 ? "lt"
                       : "gt",
            counter, counter + 10, label);
    put("L%u:\n", end);
}

static void body(unsigned depth, unsigned length)
{
    for (unsigned i = 0; i < length; i++)
        switch (pick(depth < 3 ? 10 : 8)) {
        case 0:
        case 1:
            store();
            break;
        case 8:
            branch(depth);
            break;
        case 9:
            loop(depth);
            break;
        default:
            arithmetic();
        }
}

static void kernel(void)
{
    used = labels = 0;
    put(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p, .param "
        ".u32 n, .param .u32 m)\n{\n.reg .pred %%p<8>;\n.reg .b32 %%r<40>;\n.reg .b64 %%rd<4>;\n"
        "ld.param.u64 %%rd1, [p];\ncvta.to.global.u64 %%rd1, %%rd1;\nld.param.u32 %%r2, [n];\n"
        "ld.param.u32 %%r3, [m];\nmov.u32 %%r0, %%tid.x;\nmov.u32 %%r4, %%ctaid.x;\n"
        "mov.u32 %%r5, %%ntid.x;\nmad.lo.s32 %%r1, %%r4, %%r5, %%r0;\nmov.u32 %%r6, 0;\n"
        "mov.u32 %%r7, %%tid.y;\n");
    body(0, 4 + pick(8));
    store();
    put("ret;\n}\n");
}

static unsigned known, exact, total;

static void try(unsigned number_of)
{
    struct {
        uint64_t p;
        uint32_t n, m;
    } params = {0x7f0000000000ull, (uint32_t)number(), 1 + pick(100)};
    struct kg_launch launch = {{1 + pick(3), 1, 1}, {1 + pick(24), 1 + pick(2), 1}, 0};
    struct reach_launch how = {.launch = &launch,
                               .params = (unsigned char *)&params,
                               .param_bytes = sizeof params,
                               .exact = true,
                               .thorough = true};
    struct reach reach;
    kernel();
    if (!CHECK(reach_of_ptx(text, "k", &how, &reach) == KG_OK))
        return;
    if (!CHECK(!reach.contradicted))
        printf("kernel %u: a thread touches what is out of reach; n %u, m %u, grid %u, block %u x "
               "%u\n%s",
               number_of, params.n, params.m, launch.grid.x, launch.block.x, launch.block.y, text);
    total++;
    known += reach.complete;
    exact += reach.complete && reach.target_count && reach.targets[0].written.exact;
    reach_free(&reach);
}

int main(int count, char **arguments)
{
    unsigned kernels = count > 2 ? (unsigned)strtoul(arguments[2], NULL, 0) : KERNELS;
    srand(count > 1 ? (unsigned)strtoul(arguments[1], NULL, 0) : 1);
    for (unsigned i = 0; i < kernels && test_failures < 3; i++)
        try(i);
    printf("%u kernels, reach known in %u, exact in %u\n", total, known, exact);
    CHECK(known * 3 > total && exact * 4 > total);
    return test_result();
}
