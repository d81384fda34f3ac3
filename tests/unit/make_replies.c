/* The replies that are kept in the tree: each of samples/NAME/reply must be a
 * reply that is understood and compiles, so that what accepts or refuses it later is verification.
 */
#include <dirent.h>
#include <unistd.h>

#include "make_fixture.h"
#include "test.h"
#include "tune/makers.h"

enum { ARGS = 256 };

static const struct sample {
    const char *name, *entry;
    uint32_t param_count;
    struct kg_param params[5];
    struct kg_launch launch;
    int32_t values[5]; /* of parameters of 4 bytes */
    const char *global;
} samples[] = {
    {"polynomial",
     "_Z10polynomialPKfPf10Polynomiali",
     4,
     {{0, 8}, {8, 8}, {16, 132}, {148, 4}},
     {{64, 1, 1}, {256, 1, 1}, 0},
     {0, 0, 0, 16379},
     NULL},
    {"transpose",
     "_Z9transposePKfPfii",
     4,
     {{0, 8}, {8, 8}, {16, 4}, {20, 4}},
     {{10, 8, 1}, {16, 16, 1}, 0},
     {0, 0, 128, 160},
     NULL},
    {"softmax",
     "_Z7softmaxPKfPfi",
     3,
     {{0, 8}, {8, 8}, {16, 4}},
     {{64, 1, 1}, {256, 1, 1}, 0},
     {0, 0, 1000},
     NULL},
    {"stencil",
     "_Z7stencilPKfPfii",
     4,
     {{0, 8}, {8, 8}, {16, 4}, {20, 4}},
     {{4, 16, 1}, {32, 8, 1}, 0},
     {0, 0, 120, 100},
     "weight"},
};

static void job_make(struct job *job, const struct sample *sample, unsigned char args[ARGS])
{
    static struct kernel_pointer pointers[] = {{0, 0}, {1, 0}};
    static struct kernel_global global;
    memset(job, 0, sizeof *job);
    memset(args, 0, ARGS);
    for (uint32_t i = 0; i < sample->param_count; i++)
        if (sample->params[i].size == 4)
            memcpy(args + sample->params[i].offset, &sample->values[i], 4);
    global = (struct kernel_global){(char *)sample->global, 100, true};
    job->capture.args = (struct kg_bytes){args, ARGS};
    job->capture.launch = sample->launch;
    job->capture.hardware = (struct kg_hardware){.vendor = "nvidia", .arch = "sm_90"};
    job->model.entry = sample->entry;
    job->model.param_count = sample->param_count;
    job->model.params = (struct kg_param *)sample->params;
    job->model.pointer_count = 2;
    job->model.pointers = pointers;
    job->model.global_count = sample->global != NULL;
    job->model.globals = &global;
}

static unsigned files(const char *dir)
{
    unsigned count = 0;
    DIR *folder = opendir(dir);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        size_t length = strlen(entry->d_name);
        count += length > 3 && !strcmp(entry->d_name + length - 3, ".md");
    }
    if (folder)
        closedir(folder);
    return count;
}

/* Every reply of the folder; returns how many. */
static unsigned folder_check(const struct sample *sample, const char *dir)
{
    unsigned char args[ARGS];
    struct job job;
    struct candidate c;
    char message[2048];
    unsigned count = 0;
    job_make(&job, sample, args);
    for (;; count++) {
        kg_status status = recorded_make(&job, dir, count, 0, NULL, NULL, &c);
        if (status == KG_NO_CANDIDATE)
            break;
        if (!CHECK(status == KG_OK))
            continue;
        if (!CHECK(compile_candidate(&job, &c, message, sizeof message) == KG_OK))
            fprintf(stderr, "%s, reply %u: %s\n", dir, count, message);
        CHECK(c.code.size && c.launch.grid.x && c.launch.block.x * c.launch.block.y <= 1024);
        bytes_free(&c.code);
    }
    arena_free(&job.arena);
    CHECK(count == files(dir));
    return count;
}

static bool compiler_missing(void)
{
    struct job job;
    char message[256];
    struct candidate c = {.source = "extern \"C\" __global__ void f() {}", .entry = "f"};
    unsigned char args[ARGS];
    job_make(&job, &samples[0], args);
    kg_status status = compile_candidate(&job, &c, message, sizeof message);
    bytes_free(&c.code);
    arena_free(&job.arena);
    return status == KG_NO_LIBRARY;
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "child"))
        return compile_child(argc, argv);
    setenv("KGENRT_TEST_CLI", "/proc/self/exe", 1);
    if (compiler_missing())
        SKIP("no NVRTC on this machine");
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        char dir[KG_PATH];
        CHECK(path_make(dir, "%s/samples/%s/reply", SOURCE_DIR, samples[i].name) == KG_OK);
        CHECK(folder_check(&samples[i], dir) >= 1);
    }
    return test_result();
}
