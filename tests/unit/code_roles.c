/* Roles: of each piece of the parameters, of each access and of what it loads; by hand-written
 * kernels, one for each way that a value can take, and kernels that nvcc compiled. */
#include "code_fixture.h"

#include "code/roles.h"

struct fixture {
    struct ptx_module module;
    struct kg_arena arena;
    struct roles roles;
};

static bool open_text(struct fixture *f, const char *text, const char *entry)
{
    char error[200] = "";
    *f = (struct fixture){0};
    if (!CHECK(ptx_parse(text, strlen(text), &f->module, error, sizeof error) == KG_OK)) {
        fprintf(stderr, "%s\n%s\n", error, text);
        return false;
    }
    const struct ptx_func *func = ptx_find_func(&f->module, entry);
    return CHECK(func && roles_make(&f->module, func, &f->arena, &f->roles) == KG_OK);
}

/* Parameters: pointers a and b, integers n and m, floats x and y, a 64-bit integer w. */
static bool open_body(struct fixture *f, const char *before, const char *body)
{
    static char text[16384];
    snprintf(text, sizeof text,
             ".version 8.3\n.target sm_90\n.address_size 64\n.global .b32 gvar[64];\n"
             ".const .b32 cvar[64];\n.extern .func (.param .b32 r) outside (.param .b32 v);\n%s\n"
             ".visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n, .param .u32 m,\n"
             " .param .f32 x, .param .f32 y, .param .u64 w) {\n.reg .b64 %%rd<40>;\n"
             ".reg .b32 %%r<40>;\n.reg .f32 %%f<40>;\n.reg .b16 %%h<40>;\n.reg .pred %%p<9>;\n"
             ".shared .b32 svar[64];\n.local .b32 lvar[64];\n"
             "ld.param.u64 %%rd1, [a]; ld.param.u64 %%rd2, [b]; ld.param.u32 %%r1, [n];\n"
             "ld.param.u32 %%r2, [m]; ld.param.f32 %%f1, [x]; ld.param.f32 %%f2, [y];\n"
             "ld.param.u64 %%rd9, [w];\n"
             "cvta.to.global.u64 %%rd3, %%rd1; cvta.to.global.u64 %%rd4, %%rd2;\n"
             "mov.u32 %%r3, %%tid.x;\n%s\nret;\n}\n",
             before, body);
    return open_text(f, text, "k");
}

static void close_fixture(struct fixture *f)
{
    arena_free(&f->arena);
    ptx_module_free(&f->module);
}

enum { A = 0, B = 8, N = 16, M = 20, X = 24, Y = 28, W = 32 };

static unsigned roles_of(const struct fixture *f, uint32_t offset)
{
    const struct roles_piece *piece = roles_at(&f->roles, offset);
    return CHECK(piece) ? piece->uses.roles : 0;
}

/* The only access of this kind (number `skip` of them). */
static const struct roles_access *access_of(const struct fixture *f, bool written, unsigned spaces,
                                            unsigned skip)
{
    static const struct roles_access none;
    for (uint32_t i = 0; i < f->roles.access_count; i++) {
        const struct roles_access *access = &f->roles.accesses[i];
        if (access->written == written && access->spaces == spaces && !skip--)
            return access;
    }
    CHECK(!written && !spaces && skip); /* fails: there is none */
    return &none;
}

static bool comes_from(const struct fixture *f, const struct roles_access *access, const char *text)
{
    char found[200];
    if (!strcmp(roles_origin_text(&f->roles, access->set, found, sizeof found), text))
        return true;
    fprintf(stderr, "from %s, not %s\n", found, text);
    return false;
}

/* ---- parameters ---- */

static void check_each_role(void)
{
    static const struct {
        const char *body;
        unsigned n, m, x, y, w; /* roles */
    } cases[] = {
        {"", 0, 0, 0, 0, 0},
        {"add.u32 %r4, %r1, 1;", 0, 0, 0, 0, 0}, /* a dead end is no use */
        {"st.global.u32 [%rd3], %r1;", ROLE_VALUE, 0, 0, 0, 0},
        {"fma.rn.f32 %f3, %f1, %f2, %f1; st.global.f32 [%rd3], %f3;", 0, 0, ROLE_VALUE, ROLE_VALUE,
         0},
        {"mul.wide.u32 %rd5, %r1, 4; add.s64 %rd6, %rd3, %rd5; st.global.u32 [%rd6], %r2;",
         ROLE_INDEX, ROLE_VALUE, 0, 0, 0},
        {"add.s64 %rd6, %rd3, %rd9; st.global.u32 [%rd6], 1;", 0, 0, 0, 0, ROLE_INDEX},
        {"setp.ge.u32 %p1, %r3, %r1; @%p1 bra E; st.global.u32 [%rd3], 1; E:", ROLE_BRANCH, 0, 0, 0,
         0},
        {"mov.u32 %r4, 0; L: add.u32 %r4, %r4, 1; st.global.u32 [%rd3], 1; setp.lt.u32 %p1, %r4, "
         "%r1; @%p1 bra L;",
         ROLE_BOUND | ROLE_BRANCH, 0, 0, 0, 0},
        {"mov.u32 %r4, 0; L: st.global.u32 [%rd3], 1; setp.gt.u32 %p1, %r4, %r1; @%p1 ret; add.u32 "
         "%r4, %r4, %r2; bra L;",
         ROLE_BOUND | ROLE_BRANCH, ROLE_BOUND | ROLE_BRANCH, 0, 0, 0},
        {"shl.b32 %r4, %r1, %r2; st.global.u32 [%rd3], %r4;", ROLE_VALUE, ROLE_SHIFT | ROLE_VALUE,
         0, 0, 0},
        {"bfe.u32 %r4, %r3, %r1, %r2; st.global.u32 [%rd3], %r4;", ROLE_SHIFT | ROLE_VALUE,
         ROLE_SHIFT | ROLE_VALUE, 0, 0, 0},
        {"setp.gt.f32 %p1, %f1, %f2; selp.b32 %r4, %r1, %r2, %p1; st.global.u32 [%rd3], %r4;",
         ROLE_VALUE, ROLE_VALUE, ROLE_SELECT | ROLE_VALUE, ROLE_SELECT | ROLE_VALUE, 0},
        {"setp.gt.f32 %p1, %f1, 0f00000000; @%p1 st.global.u32 [%rd3], 1;", 0, 0, ROLE_BRANCH, 0,
         0},
        {"setp.eq.u32 %p1, %r1, 0; @%p1 mov.u32 %r2, 3; st.global.u32 [%rd3], %r2;",
         ROLE_SELECT | ROLE_VALUE, ROLE_VALUE, 0, 0, 0},
        /* a float that becomes an index */
        {"cvt.rzi.u32.f32 %r4, %f1; mul.wide.u32 %rd5, %r4, 4; add.s64 %rd6, %rd3, %rd5; "
         "st.global.f32 [%rd6], %f2;",
         0, 0, ROLE_INDEX, ROLE_VALUE, 0},
        {"shfl.sync.bfly.b32 %r4, %r1, %r2, 31, -1; st.global.u32 [%rd3], %r4;", ROLE_VALUE,
         ROLE_INDEX | ROLE_VALUE, 0, 0, 0},
        {"bar.sync %r1, %r2;", ROLE_BRANCH, ROLE_BRANCH, 0, 0, 0},
        /* through memory: what is stored is read as an index later */
        {"st.shared.u32 [svar], %r1; ld.shared.u32 %r4, [svar+4]; mul.wide.u32 %rd5, %r4, 4; "
         "add.s64 %rd6, %rd3, %rd5; st.global.u32 [%rd6], 1;",
         ROLE_INDEX | ROLE_VALUE, 0, 0, 0, 0},
        {"st.global.u32 [%rd3], %r1; ld.global.u32 %r4, [%rd3]; setp.eq.u32 %p1, %r4, 0; @%p1 bra "
         "E; st.global.u32 [%rd4], %r2; E:",
         ROLE_BRANCH | ROLE_VALUE, ROLE_VALUE, 0, 0, 0},
        /* through somebody else's memory: the address was loaded */
        {"ld.global.u64 %rd5, [%rd3]; st.global.u32 [%rd4], %r1; ld.global.u32 %r4, [%rd5]; "
         "setp.eq.u32 %p1, %r4, 0; @%p1 bra E; E:",
         ROLE_BRANCH | ROLE_VALUE, 0, 0, 0, 0},
        /* the carry */
        {"add.cc.u32 %r4, %r1, %r3; addc.u32 %r5, 0, 0; mul.wide.u32 %rd5, %r5, 4; add.s64 %rd6, "
         "%rd3, %rd5; st.global.u32 [%rd6], 1;",
         ROLE_INDEX, 0, 0, 0, 0},
        {"mystery.u32 %r4, %r1;", ROLE_VALUE | ROLE_INDEX | ROLE_UNKNOWN, 0, 0, 0, 0},
        {"TS: .branchtargets P, Q; brx.idx %r1, TS; P: st.global.u32 [%rd3], 1; Q:", ROLE_BRANCH, 0,
         0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture f;
        if (!open_body(&f, "", cases[i].body))
            continue;
        const unsigned expected[] = {cases[i].n, cases[i].m, cases[i].x, cases[i].y, cases[i].w};
        static const uint32_t offsets[] = {N, M, X, Y, W};
        for (unsigned j = 0; j < 5; j++) {
            char text[300];
            const struct roles_piece *piece = roles_at(&f.roles, offsets[j]);
            if (!CHECK(roles_of(&f, offsets[j]) == expected[j]))
                fprintf(stderr, "%s\nbyte %u: %s\n", cases[i].body, offsets[j],
                        roles_text(&piece->uses, text, sizeof text));
            CHECK(piece->pinned == ((expected[j] & ~(unsigned)ROLE_VALUE) != 0));
            CHECK(!piece->pointer && *piece->why);
        }
        close_fixture(&f);
    }
}

static void check_calls(void)
{
    struct fixture f;
    /* into a function and back, by memory and by register; out of sight */
    if (open_body(&f,
                  ".func (.param .b32 r) twice (.param .b32 v) { .reg .b32 %q<3>; ld.param.b32 "
                  "%q1, [v]; shl.b32 %q2, %q1, 1; st.param.b32 [r], %q2; ret; }\n"
                  ".func (.reg .b32 o) pass (.reg .b32 i) { mov.b32 o, i; ret; }",
                  "{ .param .b32 in; .param .b32 out; st.param.b32 [in], %r1; call (out), twice, "
                  "(in); ld.param.b32 %r4, [out]; }\nmul.wide.u32 %rd5, %r4, 4; add.s64 %rd6, "
                  "%rd3, %rd5; call (%r5), pass, (%r2); st.global.u32 [%rd6], %r5;")) {
        CHECK(roles_of(&f, N) == ROLE_INDEX && roles_of(&f, M) == ROLE_VALUE);
        close_fixture(&f);
    }
    if (open_body(&f, "",
                  "{ .param .b32 in; .param .b32 out; st.param.b32 [in], %r1; call (out), "
                  "outside, (in); ld.param.b32 %r4, [out]; st.global.b32 [%rd3], %r4; }")) {
        CHECK(roles_of(&f, N) == ROLE_UNKNOWN && roles_at(&f.roles, N)->pinned);
        CHECK(strstr(roles_at(&f.roles, N)->why, "cannot be followed"));
        close_fixture(&f);
    }
    /* an address handed on is the caller's */
    if (open_body(&f,
                  ".func put (.param .b64 p, .param .b32 v) { .reg .b64 %q; .reg .b32 %s; "
                  "ld.param.b64 %q, [p]; ld.param.b32 %s, [v]; st.u32 [%q], %s; ret; }",
                  "{ .param .b64 p; .param .b32 v; st.param.b64 [p], %rd1; st.param.b32 [v], %r1; "
                  "call put, (p, v); }")) {
        const struct roles_access *access = access_of(&f, true, SPACE_ANY, 0);
        CHECK(roles_at(&f.roles, A)->pointer && roles_at(&f.roles, A)->written &&
              !roles_at(&f.roles, A)->read && comes_from(&f, access, "parameter 0"));
        CHECK(roles_of(&f, N) == ROLE_VALUE && !f.roles.unknown_writes);
        close_fixture(&f);
    }
}

static void check_unknown(void)
{
    struct fixture f;
    /* nothing is known of a function with operands that nobody understands */
    if (!open_body(&f, "", "st.global.u32 [%rd3], %r1; mystery ? %r2;"))
        return;
    for (uint32_t i = 0; i < f.roles.piece_count; i++)
        CHECK(f.roles.pieces[i].uses.roles & ROLE_UNKNOWN &&
              (f.roles.pieces[i].pinned || f.roles.pieces[i].pointer));
    CHECK(f.roles.unknown_writes);
    CHECK(roles_at(&f.roles, A)->pointer && roles_at(&f.roles, W)->pointer);
    close_fixture(&f);
}

/* A struct by value: loaded by parts, as vectors, or with its address taken. */
static void check_structs(void)
{
    static const char head[] =
        ".version 8.3\n.target sm_90\n.address_size 64\n.entry k(.param "
        ".align 8 .b8 s[32]) {\n.reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .f32 "
        "%f<9>;\n";
    char text[2048];
    struct fixture f;
    snprintf(
        text, sizeof text,
        "%sld.param.u64 %%rd1, [s+8]; ld.param.v2.b32 {%%r1, %%r2}, [s+16];\n"
        "mul.wide.u32 %%rd2, %%r1, 4; add.s64 %%rd3, %%rd1, %%rd2; st.u32 [%%rd3], %%r2;\nret; "
        "}\n",
        head);
    if (open_text(&f, text, "k")) {
        CHECK(f.roles.piece_count == 5); /* unused, pointer, index, value, unused */
        CHECK(roles_of(&f, 0) == 0 && roles_at(&f.roles, 8)->pointer &&
              roles_of(&f, 16) == ROLE_INDEX && roles_of(&f, 20) == ROLE_VALUE &&
              roles_of(&f, 31) == 0);
        close_fixture(&f);
    }
    snprintf(text, sizeof text,
             "%smov.b64 %%rd1, s; ld.param.u64 %%rd5, [s]; cvt.u64.u32 %%rd2, %%r1; add.s64 %%rd3, "
             "%%rd1, %%rd2; ld.param.u64 %%rd4, [%%rd3]; st.u32 [%%rd4], 1; ret; }\n",
             head);
    if (open_text(&f, text, "k")) {
        CHECK(roles_at(&f.roles, 24)->pointer && roles_at(&f.roles, 8)->written);
        close_fixture(&f);
    }
}

static bool same_text(const char *what, const char *found, const char *expected)
{
    if (!strcmp(found, expected))
        return true;
    fprintf(stderr, "%s: '%s', not '%s'\n", what, found, expected);
    return false;
}

/* Bytes at which numbers begin that are in arithmetic only: "16 20 24d". */
static bool numbers_are(const char *text, const char *entry, const char *expected)
{
    struct fixture f;
    char found[256] = "";
    if (!open_text(&f, text, entry))
        return false;
    for (uint32_t at = 0; at < ORIGIN_PARAM_BYTES; at++)
        if (f.roles.numbers[at])
            snprintf(found + strlen(found), sizeof found - strlen(found), "%s%u%s",
                     *found ? " " : "", at, f.roles.numbers[at] == ELEMENT_F64 ? "d" : "");
    close_fixture(&f);
    return same_text(text, found, expected);
}

/* A struct with a count in front of an array that is indexed at run time, beside other floats. */
static void check_numbers(void)
{
    static const char *const cases[][2] = {
        {"", "4 8 12 16 20 24 32d"},
        {"ld.param.b32 %r4, [s+12]; st.global.u32 [%rd2], %r4;", "4 8 16 20 24 32d"},
        {"ld.param.f32 %f5, [s+12]; setp.gt.f32 %p1, %f5, 0f00000000; @%p1 bra OUT;",
         "4 8 16 20 24 32d"},
        {"ld.param.f64 %d3, [s+8]; st.global.f64 [%rd2], %d3;", "4 16 20 24 32d"},
        {"ld.param.f32 %f5, [%rd5]; cvt.rzi.s32.f32 %r5, %f5; mul.wide.s32 %rd8, %r5, 4;\n"
         "add.s64 %rd9, %rd2, %rd8; st.global.u32 [%rd9], 1;",
         "24 32d"},
        {"st.global.u64 [%rd2], %rd4;", "24 32d"}, /* the struct's address goes away */
        {"ld.param.f32 %f5, [x]; cvt.rzi.s32.f32 %r5, %f5; mul.wide.s32 %rd8, %r5, 4;\n"
         "add.s64 %rd9, %rd2, %rd8; st.global.u32 [%rd9], 1;",
         "4 8 12 16 20 32d"},
        {"ld.param.u32 %r4, [%rd4+8]; st.global.u32 [%rd2], %r4;", "4 12 16 20 24 32d"},
        {"ld.param.f32 %f5, [%rd4+8]; st.global.f32 [%rd2], %f5;", "4 8 12 16 20 24 32d"},
        {"add.s64 %rd8, %rd4, 8; ld.param.u32 %r4, [%rd8]; st.global.u32 [%rd2], %r4;", "24 32d"},
        {"mov.b64 %rd8, s+9223372036854775807; ld.param.u32 %r4, [%rd8+2147483647];", "24 32d"},
        {"@%p1 mov.b64 %rd4, 0; ld.param.u32 %r4, [%rd4+8]; st.global.u32 [%rd2], %r4;", "24 32d"},
    };
    char text[2048];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text,
                 ".version 8.3\n.target sm_90\n.address_size 64\n"
                 ".entry k(.param .align 8 .b8 s[24], .param .f32 x, .param .f64 y, .param .u64 p)"
                 "{\n.reg .b64 %%rd<19>; .reg .b32 %%r<9>; .reg .f32 %%f<9>; .reg .f64 %%d<9>;\n"
                 ".reg .pred %%p<3>;\nld.param.u64 %%rd1, [p]; cvta.to.global.u64 %%rd2, %%rd1;\n"
                 "ld.param.u32 %%r1, [s]; mov.u32 %%r2, %%tid.x; setp.ge.u32 %%p1, %%r2, %%r1;\n"
                 "@%%p1 bra OUT;\n"
                 "mov.b64 %%rd4, s; mul.wide.u32 %%rd3, %%r2, 4; add.s64 %%rd5, %%rd4, %%rd3;\n"
                 "ld.param.f32 %%f1, [%%rd5+4]; ld.param.f32 %%f2, [x]; ld.param.f64 %%d1, [y];\n"
                 "mul.f32 %%f3, %%f1, %%f2; cvt.f64.f32 %%d2, %%f3; add.f64 %%d2, %%d2, %%d1;\n"
                 "st.global.f64 [%%rd2], %%d2;\n%s\nOUT: ret;\n}\n",
                 cases[i][0]);
        CHECK(numbers_are(text, "k", cases[i][1]));
    }
}

/* ---- accesses ---- */

static void check_origins(void)
{
    struct fixture f;
    if (!open_body(
            &f, "",
            "mul.wide.u32 %rd5, %r3, 4; add.s64 %rd6, %rd3, %rd5; ld.global.nc.u32 %r4, "
            "[%rd6];\n" /* read 0 of global: a */
            "selp.b64 %rd7, %rd3, %rd4, %p1; ld.global.u64 %rd8, [%rd7];\n" /* 1 */
            "ld.global.u32 %r5, [%rd8];\n"                                  /* 2 */
            "mov.u64 %rd10, gvar; ld.global.u32 %r6, [%rd10+4];\n"          /* 3 */
            "atom.global.add.u32 %r7, [%rd4], 1;\n"
            "st.local.b64 [lvar], %rd4; ld.local.b64 %rd11, [lvar]; ld.global.u32 %r8, "
            "[%rd11];\n"                                               /* 4 */
            "add.s64 %rd12, %rd9, %rd4; ld.global.u32 %r9, [%rd12];\n" /* 5: w is an offset */
            "cp.async.ca.shared.global [svar], [%rd3], 4;\n"           /* 6 */
            "st.shared.u32 [svar+4], %r5;\n"))
        return;
    CHECK(comes_from(&f, access_of(&f, false, SPACE_GLOBAL, 0), "parameter 0"));
    CHECK(access_of(&f, false, SPACE_GLOBAL, 0)->cached &&
          access_of(&f, false, SPACE_GLOBAL, 0)->bytes == 4);
    CHECK(comes_from(&f, access_of(&f, false, SPACE_GLOBAL, 1), "parameter 0 or parameter 1"));
    CHECK(access_of(&f, false, SPACE_GLOBAL, 1)->data.roles == ROLE_POINTER);
    CHECK(comes_from(&f, access_of(&f, false, SPACE_GLOBAL, 2),
                     "memory from parameter 0 or memory from parameter 1"));
    CHECK(access_of(&f, false, SPACE_GLOBAL, 2)->data.roles & ROLE_VALUE);
    CHECK(comes_from(&f, access_of(&f, false, SPACE_GLOBAL, 3), "gvar"));
    CHECK(comes_from(&f, access_of(&f, false, SPACE_GLOBAL, 4), "parameter 1"));
    CHECK(comes_from(&f, access_of(&f, false, SPACE_GLOBAL, 5), "parameter 1"));
    CHECK(comes_from(&f, access_of(&f, false, SPACE_GLOBAL, 6), "parameter 0"));
    CHECK(comes_from(&f, access_of(&f, true, SPACE_SHARED, 0), "svar"));
    const struct roles_access *atomic = access_of(&f, true, SPACE_GLOBAL, 0);
    CHECK(atomic->atomic && atomic->read && comes_from(&f, atomic, "parameter 1"));
    CHECK(!roles_at(&f.roles, W)->pointer && roles_of(&f, W) == ROLE_INDEX &&
          roles_at(&f.roles, W)->pinned);
    CHECK(roles_at(&f.roles, B)->written && roles_at(&f.roles, B)->read &&
          !roles_at(&f.roles, A)->written && !f.roles.unknown_writes);
    close_fixture(&f);
}

/* From memory to memory, and from there to an address. */
static void check_copied(void)
{
    struct fixture f;
    if (open_body(&f, "",
                  "cp.async.ca.shared.global [svar], [%rd3], 4; cp.async.wait_all; ld.shared.u32 "
                  "%r4, [svar]; mul.wide.u32 %rd5, %r4, 4; add.s64 %rd6, %rd4, %rd5; "
                  "st.global.u32 [%rd6], 1;")) {
        CHECK(access_of(&f, false, SPACE_GLOBAL, 0)->data.roles & ROLE_INDEX);
        close_fixture(&f);
    }
    if (open_body(&f, "",
                  "red.global.add.u32 [%rd3], 1; ld.global.u32 %r4, [%rd3]; setp.eq.u32 %p1, %r4, "
                  "0; @%p1 st.global.u32 [%rd4], 1;")) {
        CHECK(access_of(&f, true, SPACE_GLOBAL, 0)->data.roles == (ROLE_VALUE | ROLE_BRANCH));
        close_fixture(&f);
    }
}

static void check_loaded(void)
{
    static const struct {
        const char *body;
        unsigned roles;
    } cases[] = {
        {"st.global.u32 [%rd4], %r4;", ROLE_VALUE},
        {"mul.wide.u32 %rd5, %r4, 4; add.s64 %rd6, %rd4, %rd5; st.global.u32 [%rd6], 1;",
         ROLE_INDEX},
        {"L: add.u32 %r5, %r5, 1; st.global.u32 [%rd4], 1; setp.lt.u32 %p1, %r5, %r4; @%p1 bra L;",
         ROLE_BOUND | ROLE_BRANCH},
        {"setp.lt.u32 %p1, %r5, %r4; @%p1 bra L; st.global.u32 [%rd4], 1; L:", ROLE_BRANCH},
        {"setp.lt.u32 %p1, %r5, %r4; selp.u32 %r6, 1, 2, %p1; st.global.u32 [%rd4], %r6;",
         ROLE_SELECT | ROLE_VALUE},
        {"", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[512];
        struct fixture f;
        snprintf(body, sizeof body, "ld.global.u32 %%r4, [%%rd3]; %s", cases[i].body);
        if (!open_body(&f, "", body))
            continue;
        if (!CHECK(access_of(&f, false, SPACE_GLOBAL, 0)->data.roles == cases[i].roles))
            fprintf(stderr, "%s\n", body);
        close_fixture(&f);
    }
}

/* ---- element types ---- */

static void check_elements(void)
{
    static const struct {
        const char *body;
        enum element element;
        bool declared;
    } cases[] = {
        {"ld.global.b32 %r4, [%rd3]; mov.b32 %f3, %r4; fma.rn.f32 %f4, %f3, %f3, %f3; "
         "st.global.f32 "
         "[%rd4], %f4;",
         ELEMENT_F32, false},
        {"ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd3]; mov.b32 %f3, %r6; mul.f32 %f4, %f3, %f3; "
         "st.global.f32 [%rd4], %f4;",
         ELEMENT_F32, false},
        /* two halves in a word */
        {"ld.global.b32 %r4, [%rd3]; add.rn.f16x2 %r5, %r4, %r4; st.global.b32 [%rd4], %r5;",
         ELEMENT_F16, false},
        {"ld.global.b32 %r4, [%rd3]; mov.b32 {%h1, %h2}, %r4; cvt.f32.bf16 %f3, %h2; st.global.f32 "
         "[%rd4], %f3;",
         ELEMENT_BF16, false},
        /* 64 bits that are two floats */
        {"ld.global.b64 %rd5, [%rd3]; mov.b64 {%r4, %r5}, %rd5; add.f32 %f3, %r5, 0f3F800000; "
         "st.global.f32 [%rd4], %f3;",
         ELEMENT_F32, false},
        /* by way of shared memory and a merge */
        {"ld.global.b32 %r4, [%rd3]; @%p1 bra J; ld.global.b32 %r4, [%rd3+4]; J: st.shared.b32 "
         "[svar], %r4; ld.shared.b32 %r5, [svar+8]; max.f32 %f3, %r5, %r5; st.global.f32 [%rd4], "
         "%f3;",
         ELEMENT_F32, false},
        {"atom.global.add.f64 %rd5, [%rd3], %rd6;", ELEMENT_F64, false},
        {"atom.global.exch.b32 %r5, [%rd3], %r6;", ELEMENT_MOVED, false},
        {"red.global.add.u32 [%rd3], 1;", ELEMENT_INT, false},
        {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f3,%f4,%f5,%f6}, {%r4,%r5,%r6,%r7}, "
         "{%r8,%r9}, {%f3,%f4,%f5,%f6}; st.global.b32 [%rd3], %r8; st.global.f32 [%rd4], %f3;",
         ELEMENT_F16, false},
        {"ld.global.f32 %f3, [%rd3]; st.global.f32 [%rd4], %f3;", ELEMENT_F32, true},
        {"ld.global.b32 %r4, [%rd3]; st.global.b32 [%rd4], %r4;", ELEMENT_MOVED, false},
        /* used as both: nobody knows */
        {"ld.global.b32 %r4, [%rd3]; and.b32 %r5, %r4, 127; add.f32 %f3, %r4, 0f3F800000; "
         "st.global.f32 [%rd4], %f3; st.global.b32 [%rd4+4], %r5;",
         ELEMENT_UNKNOWN, false},
        {"ld.global.f32 %f3, [%rd3]; ld.global.b32 %r4, [%rd3+4]; add.u32 %r5, %r4, 1; "
         "st.global.f32 [%rd4], %f3; st.global.u32 [%rd4], %r5;",
         ELEMENT_UNKNOWN, false},
        /* a write to who knows where may have changed it */
        {"ld.global.f32 %f3, [%rd3]; add.f32 %f4, %f3, %f3; ld.global.u64 %rd5, [%rd4]; "
         "st.global.f32 [%rd5], %f4;",
         ELEMENT_UNKNOWN, false},
        {"ld.global.b32 %r4, [%rd3]; mystery.f32 %r5, %r4;", ELEMENT_UNKNOWN, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture f;
        if (!open_body(&f, "", cases[i].body))
            continue;
        const struct roles_piece *piece = roles_at(&f.roles, A);
        if (!CHECK(piece->pointer && piece->data == cases[i].element &&
                   piece->data_declared == cases[i].declared))
            fprintf(stderr, "%s\n%s%s\n", cases[i].body, element_texts[piece->data],
                    piece->data_declared ? " declared" : "");
        close_fixture(&f);
    }
}

/* ---- what nvcc makes ---- */

static const char source[] =
    "#include <cuda_fp16.h>\nextern \"C\" {\n"
    "__global__ void saxpy(float *y, const float *x, float a, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = a * x[i] + y[i]; }\n"
    "__global__ void csr(float *y, const int *rows, const int *columns, const float *values,\n"
    "                    const float *x, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; float sum = 0;\n"
    "  for (int j = rows[i]; j < rows[i + 1]; j++) sum += values[j] * x[columns[j]]; y[i] = sum; "
    "}\n"
    "__global__ void scaled(float4 *y, const float4 *x, float a, float b, int stride) {\n"
    "  int i = threadIdx.x * stride; float4 v = x[i]; v.x *= a; v.y += b; y[i] = v; }\n"
    "__global__ void halves(__half2 *y, const __half2 *x) { y[threadIdx.x] = "
    "__hadd2(x[threadIdx.x], "
    "y[threadIdx.x]); }\n"
    "struct box { float scale; int n; double *out; };\n"
    "__global__ void by_struct(box b) { if (threadIdx.x < b.n) b.out[threadIdx.x] = b.scale; }\n"
    "}\n";

/* Text without comments of one line for each entry: "offset class data". */
static bool pieces_are(const char *ptx, const char *entry, const char *expected)
{
    struct fixture f;
    char found[512] = "";
    if (!open_text(&f, ptx, entry))
        return false;
    for (uint32_t i = 0; i < f.roles.piece_count; i++) {
        const struct roles_piece *piece = &f.roles.pieces[i];
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s%u:%s", i ? " " : "",
                 piece->offset,
                 piece->pointer      ? element_texts[piece->data]
                 : piece->pinned     ? "pinned"
                 : piece->uses.roles ? "free"
                                     : "unused");
    }
    close_fixture(&f);
    return same_text(entry, found, expected);
}

static void check_compiled(void)
{
    fixture_begin();
    fixture_write("a.cu", source);
    CHECK(fixture_run(NVCC " -ptx -arch=compute_90 a.cu -o a.ptx"));
    struct kg_bytes text = fixture_read("a.ptx");
    const char *ptx = (char *)text.data;
    CHECK(pieces_are(ptx, "saxpy", "0:f32 8:f32 16:free 20:pinned"));
    CHECK(pieces_are(ptx, "csr", "0:f32 8:int 16:int 24:f32 32:f32 40:pinned"));
    CHECK(pieces_are(ptx, "scaled", "0:f32 8:f32 16:free 20:free 24:pinned"));
    CHECK(pieces_are(ptx, "halves", "0:f16 8:f16"));
    CHECK(pieces_are(ptx, "by_struct", "0:free 4:pinned 8:f64"));
    struct fixture f;
    if (open_text(&f, ptx, "csr")) {
        unsigned bounds = 0, indices = 0, plain = 0;
        for (uint32_t i = 0; i < f.roles.access_count; i++) {
            const struct roles_access *access = &f.roles.accesses[i];
            if (!access->read || access->spaces != SPACE_GLOBAL)
                continue;
            bounds += (access->data.roles & ROLE_BOUND) != 0;
            indices += access->data.roles == ROLE_INDEX;
            plain += access->data.roles == ROLE_VALUE;
        }
        CHECK(bounds && indices && plain);
        close_fixture(&f);
    }
    bytes_free(&text);
    fixture_end();
}

int main(void)
{
    check_each_role();
    check_calls();
    check_unknown();
    check_structs();
    check_numbers();
    check_origins();
    check_loaded();
    check_copied();
    check_elements();
    if (!access(NVCC, X_OK))
        check_compiled();
    return test_result();
}
