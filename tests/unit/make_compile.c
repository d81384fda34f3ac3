/* Compilation through the real child: honest sources, wrong ones with useful words, and hostile
 * ones that must end in a message within the deadline, without a look at the user's files. The
 * program is its own command-line tool. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/nvrtc.h"
#include "make_fixture.h"
#include "test.h"
#include "tune/compile.h"

static struct job job;
static char message[4096];
static double seconds;

static kg_status compile_as(const char *source, const char *ptx, const char *entry,
                            struct candidate *out)
{
    *out = (struct candidate){.maker = "test", .source = source, .ptx = ptx, .entry = entry};
    uint64_t start = now_ns();
    kg_status status = compile_candidate(&job, out, message, sizeof message);
    seconds = (double)(now_ns() - start) * 1e-9;
    fprintf(stderr, "%.2f s, %s: %.300s\n", seconds, status_text(status), message);
    return status;
}

static void honest(void)
{
    struct candidate c;
    CHECK(compile_as("extern \"C\" __global__ void f(float *x, int n) { int i = threadIdx.x; if (i "
                     "< n) x[i] = sinf(x[i]); }",
                     NULL, "f", &c) == KG_OK);
    CHECK(c.code.size > 500 && !memcmp(c.code.data, "\177ELF", 4));
    CHECK(c.ptx && has(c.ptx, ".entry f(") && has(c.ptx, ".target sm_90"));
    CHECK(!strcmp(c.entry, "f") && c.compiler_version >= 12000);
    bytes_free(&c.code);

    /* the entry is mapped to its mangled name, templates included */
    CHECK(compile_as("namespace a { template <int N> __global__ void f(int *x) { *x = N; } }", NULL,
                     "a::f<7>", &c) == KG_OK);
    CHECK(c.entry && !strncmp(c.entry, "_ZN1a1fILi7", 11) && has(c.ptx, c.entry));
    const char *ptx = c.ptx, *entry = c.entry;
    bytes_free(&c.code);

    /* PTX alone */
    CHECK(compile_as(NULL, ptx, entry, &c) == KG_OK);
    CHECK(c.code.size > 500 && !memcmp(c.code.data, "\177ELF", 4));
    bytes_free(&c.code);

    /* PTX for just this architecture, as Triton's */
    CHECK(compile_as(NULL,
                     ".version 8.0\n.target sm_90a\n.address_size 64\n"
                     ".visible .entry f() { setmaxnreg.inc.sync.aligned.u32 240; ret; }\n",
                     "f", &c) == KG_OK);
    CHECK(c.code.size > 500 && !memcmp(c.code.data, "\177ELF", 4));
    bytes_free(&c.code);
    CHECK(compile_as(NULL,
                     ".version 8.7\n.target sm_100a\n.address_size 64\n"
                     ".visible .entry f() { ret; }\n",
                     "f", &c) == KG_COMPILE &&
          *message);

    /* on the software GPU the PTX is what runs */
    strcpy(job.capture.hardware.vendor, "softgpu");
    CHECK(compile_as("extern \"C\" __global__ void f() {}", NULL, "f", &c) == KG_OK);
    CHECK(c.code.size && c.ptx && !strcmp((char *)c.code.data, c.ptx));
    bytes_free(&c.code);
    strcpy(job.capture.hardware.vendor, "nvidia");
}

static void wrong(void)
{
    struct candidate c;
    CHECK(compile_as("extern \"C\" __global__ void f(float *x)\n{\n    int unused = 1;\n    x[0] = "
                     "undefined_name;\n}\n",
                     NULL, "f", &c) == KG_COMPILE);
    CHECK(has(message, "undefined_name") && has(message, "(4)") &&
          !has(message, "never referenced") && !c.code.data);
    CHECK(compile_as("extern \"C\" __global__ void f() {}", NULL, "g", &c) == KG_COMPILE &&
          has(message, "\"g\", which is not"));
    CHECK(compile_as("extern \"C\" __global__ void f() {} extern \"C\" __global__ void g() {}",
                     NULL, "f", &c) == KG_COMPILE &&
          has(message, "exactly one"));
    CHECK(compile_as("", NULL, "f", &c) == KG_COMPILE && *message);
    CHECK(compile_as("extern \"C\" __global__ void f() { asm(\"nonsense.u32 %r1;\"); }", NULL, "f",
                     &c) == KG_COMPILE &&
          has(message, "nonsense"));
    CHECK(compile_as(
              NULL,
              ".version 8.0\n.target sm_70\n.address_size 64\n.entry f() { add.q32 %r1, 1; }\n",
              "f", &c) == KG_COMPILE &&
          has(message, "line 4"));
    CHECK(compile_as(NULL, "not PTX at all", "f", &c) == KG_COMPILE && *message);
    CHECK(compile_as(NULL, NULL, "f", &c) == KG_COMPILE && *message);
}

/* A file that only this user can read must stay unread, whatever the source says. */
static void files(void)
{
    static const char *const sources[] = {
        "#include \"%s\"\n",
        "#include <%s>\n",
        "%%:include \"%s\"\n",
        "#\\\ninclude \"%s\"\n",
        "#/**/include \"%s\"\n",
        "#inc\\\nlude \"%s\"\n",
        "#inc\\ \nlude \"%s\"\n",
        "?\?=include \"%s\"\n",
        "#import \"%s\"\n",
        "#embed \"%s\"\n",
        "#define P \"%s\"\n#  include P\n",
        "#if __has_include(\"%s\")\n#error secret_word\n#endif\n",
        "int a[] = {\n#\tinclude_next \"%s\"\n};\n",
    };
    char path[] = "/tmp/make_compile_XXXXXX", source[1024];
    int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, "int secret_word = 17 oops;\n", 27) == 27);
    close(fd);
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        struct candidate c;
        snprintf(source, sizeof source, sources[i], path);
        CHECK(compile_as(source, NULL, "f", &c) == KG_COMPILE);
        CHECK(has(message, "refused") && !has(message, "secret_word"));
    }
    /* these name files without a directive that reads one */
    static const char *const names[] = {
        "#line 1 \"%s\"\nextern \"C\" __global__ void f(const char **p) { *p = __FILE__; }\nint x "
        "= \n",
        "# 1 \"%s\"\nint x = nothing;\n",
        "extern \"C\" __global__ void f() { asm(\".file 1 \\\"%s\\\"\\n.loc 1 1 1;\"); }\n",
        "#pragma include_alias(\"a\", \"%s\")\nextern \"C\" __global__ void f() { nothing; }\n",
        "__device__ const char x[] = {\n#pragma embed \"%s\"\n};\nextern \"C\" __global__ void f() "
        "{ nothing; }\n",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct candidate c;
        snprintf(source, sizeof source, names[i], path);
        kg_status status = compile_as(source, NULL, "f", &c);
        CHECK(status == KG_OK || status == KG_COMPILE);
        CHECK(!has(message, "secret_word") && (status != KG_OK || !has(c.ptx, "secret_word")));
        bytes_free(&c.code);
    }
    unlink(path);
}

/* Each ends within the deadline (3 s), with words. */
static void bombs(void)
{
    static const struct {
        const char *source;
        bool may_compile;
    } sources[] = {
        {"template <int N, long M> struct A { static const long v = A<N - 1, 2 * M>::v + "
         "A<N - 1, 2 * M + 1>::v; };\n"
         "template <long M> struct A<0, M> { static const long v = M; };\n"
         "extern \"C\" __global__ void f(long *x) { *x = A<40, 0>::v; }\n",
         false},
        {"template <class T> struct P { T a, b; }; template <int N> struct Q { typedef P<typename "
         "Q<N-1>::t> t; };\n"
         "template <> struct Q<0> { typedef int t; };\n"
         "extern \"C\" __global__ void f(unsigned long *x) { *x = sizeof(Q<58>::t); }\n",
         true},
        {"#define A x x x x x x x x x x\n#define B A A A A A A A A A A\n#define C B B B B B B B B "
         "B B\n#define D C C C C C C C C C C\n"
         "#define E D D D D D D D D D D\n#define F E E E E E E E E E E\n#define G F F F F F F F F "
         "F F\n#define H G G G G G G G G G G\n"
         "#define I H H H H H H H H H H\nint y = I I I I I I I I I I;\n",
         false},
        {"__device__ int big[1ull << 45] = {1};\nextern \"C\" __global__ void f(int *x) { *x = "
         "big[*x]; }\n",
         true},
        {"extern \"C\" __global__ void f(int *x) { int big[1 << 28]; for (int i = 0; i < 1 << 28; "
         "i++) big[i] = x[i]; *x = big[*x]; }\n",
         true},
        {"constexpr long g(long n) { long s = 0; for (long i = 0; i < n; i++) s += i ^ s; return "
         "s; }\n"
         "extern \"C\" __global__ void f(long *x) { constexpr long v = g(1l << 60); *x = v; }\n",
         false},
        {"extern \"C\" __global__ void f(float *x) {\n#pragma unroll\nfor (int i = 0; i < "
         "100000000; i++) x[i] = sinf(x[i + 1]); }\n",
         true},
        {"constexpr int g(int n) { return n ? g(n - 1) + g(n - 2) : 1; }\nextern \"C\" __global__ "
         "void f(int *x) { constexpr int v = g(1 << 30); *x = v; }\n",
         false},
    };
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        struct candidate c;
        kg_status status = compile_as(sources[i].source, NULL, "f", &c);
        CHECK(status == KG_COMPILE || (status == KG_OK && sources[i].may_compile));
        CHECK(status == KG_OK || *message);
        CHECK(seconds < 6);
        bytes_free(&c.code);
    }
    static char deep[200001];
    memset(deep, '(', sizeof deep - 1);
    struct candidate c;
    CHECK(compile_as(deep, NULL, "f", &c) == KG_COMPILE && *message && seconds < 6);
    memset(deep, '{', sizeof deep - 1);
    CHECK(compile_as(deep, NULL, "f", &c) == KG_COMPILE && *message && seconds < 6);
}

/* The second bolt: with the check of the source passed over, the kernel refuses. */
static void sandboxed(void)
{
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        struct nvrtc_output output;
        if (nvrtc_open() != KG_OK || !sandbox_files())
            _exit(77);
        bool blind =
            open("/etc/passwd", O_RDONLY) < 0 && errno == EACCES && open("/", O_RDONLY) < 0;
        kg_status status = nvrtc_compile("#include \"/etc/passwd\"\n", "f", 90, &output);
        bool good = blind && status == KG_COMPILE && !has((char *)output.log.data, "root");
        nvrtc_free(&output);
        _exit(!good);
    }
    int result = 0;
    CHECK(pid > 0 && waitpid(pid, &result, 0) == pid && WIFEXITED(result));
    if (WEXITSTATUS(result) == 77)
        fprintf(stderr, "no Landlock in this kernel: not tested\n");
    else
        CHECK(WEXITSTATUS(result) == 0);
}

static void texts(void)
{
    char text[256], entry[COMPILE_ENTRY];
    CHECK(source_admit("#define include 1\nint a = 1 # 2;", text, sizeof text) == KG_OK);
    CHECK(ptx_entries("// .entry a\n/* .entry b */ .visible .entry c ( ) { } .entryx \".entry d\"",
                      entry) == 1);
    CHECK(!strcmp(entry, "c"));
    CHECK(ptx_entries(".entry", entry) == 1 && !*entry);
    CHECK(ptx_entries("/* .entry x", entry) == 0);
    log_trim("a.cu(1): warning: w\n  code\na.cu(2): error: e\n  more\n\nRemark: x\n1 error "
             "detected in x\n",
             text, sizeof text);
    CHECK(!strcmp(text, "a.cu(2): error: e\n  more"));
    log_trim("__nv_name_map(2): error: e\n  more\n", text, sizeof text);
    CHECK(!*text);
    log_trim("only this", text, 6);
    CHECK(!strcmp(text, "only"));
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "child"))
        return compile_child(argc, argv);
    setenv("KGENRT_TEST_CLI", "/proc/self/exe", 1);
    setenv("KGENRT_DEADLINE", "3", 1);
    setenv("SECRET", "hidden", 1);
    fixture_job(&job);
    texts();
    struct candidate c;
    if (compile_as("extern \"C\" __global__ void f() {}", NULL, "f", &c) == KG_NO_LIBRARY)
        SKIP("no NVRTC on this machine");
    bytes_free(&c.code);
    honest();
    wrong();
    files();
    sandboxed();
    bombs();
    arena_free(&job.arena);
    return test_result();
}
