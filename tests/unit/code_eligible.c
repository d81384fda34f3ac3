/* What rules a kernel out, by name, and what admission is told of a candidate: on kernels that nvcc
 * compiled, each beside an innocent one that must stay eligible. */
#include "code_fixture.h"

static const char source[] =
    "#include <cooperative_groups.h>\n#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
    "#include <cstdio>\n#include <cassert>\n#include <mma.h>\n"
    "namespace cg = cooperative_groups;\n"
    "__device__ int flag; __device__ int written[4]; __managed__ int shared_with_host;\n"
    "__device__ float (*pick)(float); __device__ const int table[4] = {3, 1, 4, 1};\n"
    "extern \"C\" {\n"
    "__global__ void fine(float *p, int n) { __shared__ float s[32]; s[threadIdx.x] = p[n];\n"
    "  __syncthreads(); for (int i = 0; i < n; i++) p[i] += s[i & 31] + __sinf(p[i]); }\n"
    "__global__ void search(const int *p, int x, int *out) { int i = 0; while (p[i] < x) i++; *out "
    "= "
    "i; }\n"
    "__global__ void list(int **p, int *out) { int n = 0; while (p) { p = (int **)*p; n++; } *out "
    "= n; "
    "}\n"
    "__global__ void cas_add(double *p, double v) { unsigned long long *a = (unsigned long long "
    "*)p, old = "
    "*a, was;\n"
    "  do { was = old; old = atomicCAS(a, was, __double_as_longlong(v + "
    "__longlong_as_double(was))); } "
    "while (was != old); }\n"
    "__global__ void last_block(unsigned *count, float *p, float *out) { __shared__ bool last;\n"
    "  p[blockIdx.x] = threadIdx.x; __threadfence();\n"
    "  if (!threadIdx.x) last = atomicInc(count, gridDim.x) == gridDim.x - 1; __syncthreads();\n"
    "  if (last) { float s = 0; for (unsigned i = 0; i < gridDim.x; i++) s += p[i]; *out = s; } }\n"
    "__global__ void settle(int *p) { __shared__ int again; do { __syncthreads(); again = 0; "
    "__syncthreads();\n"
    "  if (p[threadIdx.x] > 3) { p[threadIdx.x]--; again = 1; } __syncthreads(); } while (again); "
    "}\n"
    "__global__ void sine(float *p) { *p = sinf(*p); }\n"
    "__global__ void lookup(int *p) { *p = table[*p & 3]; }\n"
    "__global__ void halves(__half *p) { p[0] = p[1] * p[2]; }\n"
    "__global__ void bfloats(__nv_bfloat16 *p, float f) { p[0] = __float2bfloat16(f); }\n"
    "__global__ void moved(__half *p) { p[0] = p[1]; }\n"
    "__global__ void writes(int *p) { written[*p & 3] = 1; }\n"
    "__global__ void cached(const float *__restrict__ p, float *q) { *q = *p; }\n"
    "__global__ void vol(volatile int *p) { p[0] = p[1]; }\n"
    "__global__ void lock(int *p, int *q) { while (atomicCAS(p, 0, 1)) ; *q += 1; atomicExch(p, "
    "0); }\n"
    "__global__ void spin(int *p) { while (atomicAdd(p, 0) == 0) ; p[1] = 1; }\n"
    "__global__ void system_add(int *p) { atomicAdd_system(p, 1); }\n"
    "__global__ void system_fence(int *p) { p[0] = 1; __threadfence_system(); p[1] = 1; }\n"
    "__global__ void ordered(int *p, int *q) { int v; asm volatile(\"ld.acquire.gpu.u32 %0, "
    "[%1];\" : "
    "\"=r\"(v) : \"l\"(p)); *q = v; }\n"
    "__global__ void texture(cudaTextureObject_t t, float *p) { *p = tex2D<float>(t, 1, 2); }\n"
    "__global__ void surface(cudaSurfaceObject_t t, float *p) { *p = surf2Dread<float>(t, 4, 2); "
    "}\n"
    "__global__ void allocate(int **p) { *p = (int *)malloc(4); }\n"
    "__global__ void print(int *p) { printf(\"%d\", *p); }\n"
    "__global__ void check(int *p) { assert(*p); *p = 1; }\n"
    "__global__ void stop(int *p) { if (*p) __trap(); *p = 1; }\n"
    "__global__ void timer(long long *p) { *p = clock64(); }\n"
    "__global__ void place(int *p) { unsigned v; asm(\"mov.u32 %0, %%smid;\" : \"=r\"(v)); *p = v; "
    "}\n"
    "__global__ void indirect(float *p) { *p = pick(*p); }\n"
    "__global__ void managed(int *p) { *p = shared_with_host; }\n"
    "__global__ void grid(int *p) { p[0] = 1; cg::this_grid().sync(); p[1] = p[0]; }\n"
    "__global__ void launches(int *p) { cudaStream_t s;\n"
    "  cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking); *p = 1; }\n"
    "#if __CUDA_ARCH__ >= 900\n"
    "__global__ void dependent(int *p) { cudaGridDependencySynchronize(); *p = 1; }\n"
    "__global__ void reads_first(int *p) { int v = *p; cudaGridDependencySynchronize(); p[1] = v; "
    "}\n"
    "__global__ void triggers(int *p) { *p = 1; cudaTriggerProgrammaticLaunchCompletion(); }\n"
    "__global__ void __cluster_dims__(2) cluster(int *p) { *p = 1; }\n"
    "__global__ void barrier(int *p) { __shared__ long long b; asm "
    "volatile(\"mbarrier.init.shared.b64 "
    "[%0], 1;\" :: \"r\"((int)__cvta_generic_to_shared(&b))); *p = 1; }\n"
    "#endif\n"
    "}\n";

static char *ptx;

/* reason: NULL, or words of the text. */
static void expect(const char *entry, const char *reason)
{
    struct image_code code;
    struct kernel_model model;
    CHECK(image_select(ptx, 0, "sm_100", true, &code) == KG_OK);
    if (CHECK(kernel_model_make(&code, entry, &model) == KG_OK)) {
        bool good =
            reason ? model.ineligible && strstr(model.ineligible, reason) : !model.ineligible;
        if (!CHECK(good))
            fprintf(stderr, "%s: '%s'\n", entry, model.ineligible ? model.ineligible : "eligible");
        kernel_model_free(&model);
    }
    image_code_free(&code);
}

static void check_reasons(void)
{
    static const struct {
        const char *entry, *reason;
    } expected[] = {
        {"fine", NULL},
        {"search", NULL},
        {"list", NULL},
        {"cas_add", NULL},
        {"last_block", NULL},
        {"settle", NULL},
        {"sine", NULL},
        {"lookup", NULL},
        {"halves", NULL},
        {"writes", NULL},
        {"cached", NULL},
        {"vol", "volatile"},
        {"lock", "waits for memory"},
        {"spin", "waits for memory"},
        {"system_add", "system scope"},
        {"system_fence", "system scope"},
        {"ordered", "acquire"},
        {"texture", "textures"},
        {"surface", "textures"},
        {"allocate", "allocates"},
        {"print", "printf"},
        {"check", "assert"},
        {"stop", "trap"},
        {"timer", "clock"},
        {"place", "multiprocessor"},
        {"indirect", "function pointer"},
        {"managed", "managed"},
        {"grid", "whole grid"},
        {"dependent", NULL},
        {"reads_first", "programmatic dependent"},
        {"triggers", "programmatic dependent"},
        {"launches", "launches kernels"},
        {"cluster", "clusters"},
        {"barrier", "mbarriers"},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        expect(expected[i].entry, expected[i].reason);
}

static struct ptx_facts facts_of(const char *entry)
{
    struct ptx_facts facts;
    char error[256];
    CHECK(ptx_facts_of_entry(ptx, entry, &facts, error, sizeof error) == KG_OK);
    CHECK(facts.entries == 1 && !strcmp(facts.entry, entry));
    return facts;
}

static void check_facts(void)
{
    struct ptx_facts facts = facts_of("fine");
    CHECK(facts.param_count == 2 && facts.params[1].offset == 8 && facts.params[1].size == 4);
    CHECK(facts.static_shared == 128 && facts.local_bytes == 0 && !facts.detail[0]);
    CHECK(!facts.writable_globals && !facts.unresolved_externs && !facts.device_runtime &&
          !facts.allocates && !facts.prints && !facts.traps && !facts.clocks && !facts.half_math &&
          !facts.bf16_math && !facts.tf32_math && !facts.nc_loads && !facts.atomics &&
          !facts.volatile_access && !facts.spins);
    CHECK(!facts_of("sine").writable_globals && facts_of("sine").local_bytes > 0);
    CHECK(!facts_of("lookup").writable_globals);
    CHECK(facts_of("writes").writable_globals && strstr(facts_of("writes").detail, "written"));
    CHECK(facts_of("halves").half_math && !facts_of("halves").bf16_math);
    CHECK(facts_of("bfloats").bf16_math && !facts_of("bfloats").half_math);
    CHECK(!facts_of("moved").half_math);
    CHECK(facts_of("cached").nc_loads);
    CHECK(facts_of("cas_add").atomics && !facts_of("cas_add").spins);
    CHECK(facts_of("vol").volatile_access && facts_of("spin").spins && facts_of("stop").traps);
    CHECK(facts_of("check").traps && facts_of("allocate").allocates && facts_of("print").prints);
    CHECK(facts_of("cluster").clusters && !facts_of("fine").clusters);
    CHECK(facts_of("dependent").waits_for_previous && !facts_of("dependent").lets_next_start &&
          !facts_of("dependent").device_runtime);
    CHECK(facts_of("triggers").lets_next_start && facts_of("triggers").device_runtime &&
          facts_of("reads_first").device_runtime);
    CHECK(facts_of("timer").clocks && facts_of("place").clocks && facts_of("grid").device_runtime);
    CHECK(strstr(facts_of("stop").detail, "trap") && !strncmp(facts_of("stop").detail, "line ", 5));
    char error[256] = "";
    CHECK(ptx_facts_of(ptx, &facts, error, sizeof error) == KG_OK);
    CHECK(facts.entries > 20 && facts.half_math && facts.prints && facts.spins);
    CHECK(ptx_facts_of_entry(ptx, "nobody", &facts, error, sizeof error) == KG_NOT_FOUND && *error);
    CHECK(ptx_facts_of("#include <x>", &facts, error, sizeof error) == KG_BAD_INPUT && *error);
}

/* Bodies of a kernel that nvcc does not write. */
static const struct {
    const char *body, *reason;
} by_hand[] = {
    {"mov.u64 %rd1, 5;", NULL},
    {"launder.u64 %rd1, %rd2;", "not known"},
    {"ld.global.strange.u64 %rd1, [%rd2];", "not known"},
    {"call (%rd1), missing, (%rd2);", "does not define"},
    {"ld.global.u64 %rd1, [absent];", "does not define"},
    {"nanosleep.u32 20;", "waits"},
    {"ld.volatile.global.u64 %rd1, [%rd2];", "volatile"},
    {"ld.global.cv.u64 %rd1, [%rd2];", "volatile"},
    {"ld.mmio.relaxed.sys.global.u64 %rd1, [%rd2];", "volatile"},
    {"ld.relaxed.gpu.global.u64 %rd1, [%rd2];", "relaxed"},
    {"st.release.gpu.global.u64 [%rd2], %rd1;", "acquire, release"},
    {"atom.acquire.gpu.global.add.u64 %rd1, [%rd2], 1;", "acquire, release"},
    {"fence.sc.gpu;", "acquire, release"},
    {"fence.acq_rel.gpu;", NULL},
    {"st.release.sys.global.u64 [%rd2], %rd1;", "system scope"},
    {"membar.sys;", "system scope"},
    {"multimem.red.global.add.u64 [%rd2], %rd1;", "system scope"},
    {"mov.u64 %rd1, %globaltimer;", "clock"},
    {"mov.u32 %r1, %clock;", "clock"},
    {"mov.u32 %r1, %warpid;", "multiprocessor"},
    {"mov.u32 %r1, %nsmid;", "multiprocessor"},
    {"mov.u64 %rd1, %gridid;", "multiprocessor"},
    {"mov.u32 %r1, %envreg2;", "whole grid"},
    {"brkpt;", "trap or breakpoint"},
    {"mov.u32 %r1, %cluster_ctarank;", "clusters"},
    {"mapa.u64 %rd1, %rd2, 0;", "clusters"},
    {"ld.shared::cluster.u64 %rd1, [%rd2];", "clusters"},
    {".global .b32 hidden; st.global.u32 [hidden], 1;", "inside its body"},
    {"griddepcontrol.wait; ld.global.u64 %rd1, [%rd2];", NULL},
    {"griddepcontrol.launch_dependents; griddepcontrol.wait; ld.global.u64 %rd1, [%rd2];", NULL},
    {"@%p griddepcontrol.wait; ld.global.u64 %rd1, [%rd2];", "without waiting first"},
    {"@%p bra L; griddepcontrol.wait; L: ld.global.u64 %rd1, [%rd2];", "without waiting first"},
    {"ld.shared.u64 %rd1, [%rd2]; griddepcontrol.wait; ld.global.u64 %rd1, [%rd2];", NULL},
    {"ld.u64 %rd1, [%rd2]; griddepcontrol.wait;", "without waiting first"},
    {"griddepcontrol.launch_dependents;", "without waiting first"},
    /* the order of the text is not that of control */
    {"bra M; L: ld.global.u64 %rd1, [%rd2]; setp.eq.u64 %p, %rd1, 0; @!%p ret; M: bra L;",
     "waits for memory"},
    /* loops inside each other, and one entered in its middle */
    {"L: ld.global.u64 %rd1, [%rd2]; mov.u64 %rd3, 0; M: add.u64 %rd3, %rd3, 1; setp.lt.u64 "
     "%p, "
     "%rd3, 9; @%p bra M; setp.eq.u64 %p, %rd1, 0; @%p bra L;",
     "waits for memory"},
    {"@%p bra M; L: add.u64 %rd3, %rd2, 8; M: ld.global.u64 %rd1, [%rd2]; setp.eq.u64 %q, "
     "%rd1, "
     "0; @%q bra L;",
     "waits for memory"},
    /* a flag that is set on the way */
    {"mov.u64 %rd3, 0; L: ld.global.u64 %rd1, [%rd2]; setp.eq.u64 %p, %rd1, 0; @%p bra M; "
     "mov.u64 %rd3, 1; M: setp.eq.u64 %q, %rd3, 0; @%q bra L;",
     "waits for memory"},
    {"L: atom.global.cas.b64 %rd1, [%rd2], 0, 1; setp.ne.u64 %p, %rd1, 0; @%p bra L;",
     "waits for memory"},
    {"L: mov.u64 %rd3, %rd1; add.u64 %rd4, %rd3, 5; atom.global.cas.b64 %rd1, [%rd2], %rd3, "
     "%rd4; setp.ne.u64 %p, %rd1, %rd3; @%p bra L;",
     NULL},
    {"L: ld.shared.u64 %rd1, [%rd2]; setp.eq.u64 %p, %rd1, 0; @%p bra L;", "waits for memory"},
    {"L: ld.local.u64 %rd1, [%rd2]; setp.eq.u64 %p, %rd1, 0; @%p bra L;", NULL},
    {"L: ld.shared.u64 %rd1, [%rd2]; bar.sync 0; setp.eq.u64 %p, %rd1, 0; @%p bra L;", NULL},
    {"L: ld.global.u64 %rd2, [%rd2]; setp.ne.u64 %p, %rd2, 0; @%p bra L;", NULL},
    /* what a function reads for the loop; and one that gets something new each turn */
    {"L: call (%rd1), reader, (%rd2); setp.eq.u64 %p, %rd1, 0; @%p bra L;", "waits for memory"},
    {"L: { .param .b64 v; .param .b64 o; st.param.b64 [v], %rd2; call (o), fetch, (v); "
     "ld.param.b64 %rd1, [o]; } setp.eq.u64 %p, %rd1, 0; @%p bra L;",
     "waits for memory"},
    {"L: add.u64 %rd2, %rd2, 8; { .param .b64 v; .param .b64 o; st.param.b64 [v], %rd2; call "
     "(o), fetch, (v); ld.param.b64 %rd1, [o]; } setp.eq.u64 %p, %rd1, 0; @%p bra L;",
     NULL},
    {"L: ld.global.u64 %rd1, [%rd2]; setp.eq.u64 %p, %rd1, 0; @%p bra L;", "waits"},
    {"L: ld.global.u64 %rd1, [%rd2]; setp.ne.u64 %p, %rd1, 0; @%p bra M; bra L; M:", "waits"},
    {"L: ld.global.u64 %rd1, [%rd2]; add.u64 %rd3, %rd3, 1; setp.lt.u64 %p, %rd3, 9; @%p bra "
     "L;",
     NULL},
    {"tensormap.replace.tile.rank.global.b1024.b32 [%rd1], 1;", "mbarriers"},
};

static void check_by_hand(void)
{
    char text[2048];
    for (size_t i = 0; i < sizeof by_hand / sizeof *by_hand; i++) {
        snprintf(text, sizeof text,
                 ".version 8.3\n.target sm_90\n.address_size 64\n.extern .global .b64 absent;\n"
                 ".extern .func (.reg .b64 a) missing (.reg .b64 b);\n"
                 ".func (.reg .b64 o) reader (.reg .b64 a) { ld.global.b64 o, [a]; ret; }\n"
                 ".func (.param .b64 o) fetch (.param .b64 a) { .reg .b64 %%x<3>; ld.param.b64 "
                 "%%x1, [a]; ld.global.b64 %%x2, [%%x1]; st.param.b64 [o], %%x2; ret; }\n"
                 ".visible .entry k() { .reg .b64 %%rd<9>; .reg .b32 %%r<9>; .reg .pred %%p, %%q; "
                 "%s ret; }\n",
                 by_hand[i].body);
        ptx = text;
        expect("k", by_hand[i].reason);
    }
    /* Not PTX after all, beyond its first lines: seen, named, not replaced. */
    snprintf(text, sizeof text, ".version 8.0\n.target sm_80\n.entry k { ]");
    ptx = text;
    expect("k", "could not be parsed");
    size_t at = (size_t)snprintf(text, sizeof text, ".version 8.0\n.target sm_80\n.entry k(");
    for (int i = 0; i < 65; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s.param .u32 p%d", i ? "," : "", i);
    snprintf(text + at, sizeof text - at, ") { ret; }");
    expect("k", "more than 64 parameters");
}

int main(void)
{
    fixture_begin();
    fixture_write("a.cu", source);
    static const char *const archs[] = {"compute_90", "compute_100"};
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        CHECK(fixture_run(NVCC " -std=c++17 -ptx -rdc=true -arch=%s a.cu -o a.ptx", archs[i]));
        struct kg_bytes text = fixture_read("a.ptx");
        ptx = (char *)text.data;
        check_reasons();
        check_facts();
        bytes_free(&text);
    }
    check_by_hand();
    fixture_end();
    return test_result();
}
