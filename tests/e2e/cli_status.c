/* status, list and show against flight recorders and a store made by hand: each state of a kernel
 * is explained, every refusal is shown with gate and reason, and hostile text stays text. */
#include "cli.h"

#include "capture.h"

#include <sys/file.h>

static const char *dir;
static char cache[300];

/* ---- what is there --------------------------------------------------------------------------- */

static void put_flight(const char *name, const char *text)
{
    char path[KG_PATH];
    snprintf(path, sizeof path, "%s/flight/%s.kgf", cache, name);
    CHECK(file_write(path, text, strlen(text), 0600) == KG_OK);
}

#define KERNEL(id, name, state, why, more)                                                         \
    "{\"id\":\"" id "\",\"name\":\"" name "\",\"state\":\"" state "\",\"why\":\"" why              \
    "\",\"launches\":5000,\"samples\":20," more "}"
#define ID(digit)                                                                                  \
    digit digit digit digit digit digit digit digit digit digit digit digit digit digit digit digit

static char kernel_one[KG_ID_TEXT], kernel_two[KG_ID_TEXT];

static void put_flights(void)
{
    char path[KG_PATH], text[8192];
    snprintf(path, sizeof path, "%s/flight", cache);
    CHECK(dir_make(path) == KG_OK);
    snprintf(
        text, sizeof text,
        "{\"version\":1,\"clean\":true,\"reading_snapshot\":\"\"      ,\"late\":[],"
        "\"pid\":101,\"program\":\"/opt/first\",\"start\":1700000000,\"mode\":\"tune\","
        "\"event\":\"end\",\"fault\":\"\",\"hot_share\":3,\"hardware\":{\"name\":\"NVIDIA H200\"},"
        "\"notes\":[\"a note: _ZN3app7softmaxILi4EEEvPf, "
        "_Z4polyPfi.\"],\"kernels\":[%s,%s%s%s,%s,%s%s%s,%s,%s]}    \n  ",
        KERNEL(ID("aaaa"), "_Z4coldPf", "cold", "", "\"share\":0.001"), "{\"id\":\"", kernel_one,
        "\",\"name\":\"_ZN3app7softmaxILi4EEEvPf\",\"state\":\"swapped\",\"why\":\"\","
        "\"launches\":5000,\"swapped\":4321,\"first_swapped_launch\":680,\"share\":0.9,"
        "\"before_ns\":3000,\"after_ns\":2000,\"samples\":64,\"refused\":{\"shape\":7,"
        "\"scalar\":0},\"variants\":[{\"id\":\"0123456789abcdef\",\"ratio\":1.5}]}",
        KERNEL(ID("bbbb"), "plain_c_name", "unfit", "it prints", "\"share\":0.02"), "{\"id\":\"",
        kernel_two,
        "\",\"name\":\"_Z4polyPfi\",\"state\":\"captured\",\"why\":\"\",\"launches\":99,"
        "\"share\":0.05}",
        KERNEL(ID("cccc"), "_Z6wantedv", "wanted", "", "\"share\":0.06"),
        KERNEL("", "_Z5freshv", "new", "",
               "\"share\":0") "," KERNEL(ID("ffff"), "_Z5blanev", "judged", "", "\"share\":0.25"));
    put_flight("101-1700000000", text);
    put_flight(
        "102-1700000100",
        "{\"version\":1,\"clean\":false,\"reading_snapshot\":\"\",\"late\":[\"" ID(
            "dddd") "\"],"
                    "\"pid\":102,\"program\":\"/opt/"
                    "evil\\u001b[31m\\u009b2J\",\"start\":1700000100,"
                    "\"mode\":\"tune\",\"event\":\"swap\",\"fault\":\"CUDA_ERROR_ILLEGAL_ADDRESS\","
                    "\"hardware\":{},\"notes\":[],\"kernels\":[]}");
    put_flight("103-1700000200", "{\"version\":1,\"clean\":fal"); /* torn */
    put_flight("104-1700000300", "[1,2,3]");
    put_flight("105-1700000400", "");
    put_flight("106-1700000050",
               "{\"version\":1,\"clean\":false,\"pid\":106,\"program\":\"/opt/live\","
               "\"start\":1700000050,\"kernels\":[7,{\"name\":3,\"refused\":[],\"share\":\"x\"},"
               "{\"name\":\"_Z4rarev\",\"state\":\"cold\",\"launches\":7,\"share\":0.5}],"
               "\"notes\":{},\"hardware\":4}"); /* fields of wrong types */
    snprintf(
        text, sizeof text,
        "{\"version\":1,\"clean\":true,\"pid\":107,\"program\":\"/opt/late\",\"start\":1700000060,"
        "\"mode\":\"tune\",\"hardware\":{\"name\":\"NVIDIA H200\"},\"kernels\":[{\"id\":\"%s\","
        "\"name\":\"_Z7wantingv\",\"state\":\"captured\",\"launches\":900,\"share\":1}]}",
        kernel_one);
    put_flight("107-1700000060", text);
    put_flight("109-1700000002",
               "{\"version\":1,\"clean\":true,\"pid\":109,\"program\":\"/opt/short\","
               "\"start\":1700000002,\"mode\":\"tune\",\"kernels\":[{\"name\":\"_Z5briefv\","
               "\"state\":\"new\",\"why\":\"\",\"launches\":3,\"share\":0}]}");
    put_flight("108-1700000001",
               "{\"version\":1,\"clean\":true,\"pid\":108,\"program\":\"/opt/watched\","
               "\"start\":1700000001,\"mode\":\"observe\",\"kernels\":[{\"name\":\"_Z4seenv\","
               "\"state\":\"observed\",\"why\":\"\",\"launches\":900,\"share\":1,"
               "\"before_ns\":2000}]}");
}

static void put_store(void)
{
    struct store *store;
    struct kg_hardware hardware = fixture_hardware();
    struct kg_variant good = fixture_variant("_ZN3app7softmaxILi4EEEvPf", 64, 1.5);
    struct kg_variant other = fixture_variant("_ZN3app7softmaxILi4EEEvPf", 64, 1.2);
    static const char evidence[] =
        "{\"gates\":[{\"name\":\"admission\",\"passed\":true},"
        "{\"name\":\"compare\",\"passed\":true}],\"repeats\":20,\"driver\":13010}";
    if (!CHECK(store_open(cache, false, &store) == KG_OK))
        return;
    CHECK(store_put_hardware(store, &hardware) == KG_OK);
    CHECK(store_put_blob(store, "fast source \033]0;x\007", 18, &good.source) == KG_OK);
    CHECK(store_put_blob(store, evidence, sizeof evidence - 1, &good.evidence) == KG_OK);
    variant_identify(&good);
    other.entry = "slower";
    other.maker = "rules";
    variant_identify(&other);
    CHECK(store_put_variant(store, &good, NULL) == KG_OK);
    CHECK(store_put_variant(store, &other, NULL) == KG_OK);
    struct kg_kernel_note kernel = {.hardware = good.hardware,
                                    .kernel = good.kernel,
                                    .name = "_ZN3app7softmaxILi4EEEvPf",
                                    .program = "/opt/first",
                                    .app_ns = 3000,
                                    .app_share = 0.9,
                                    .time = 1700000000};
    CHECK(store_put_kernel(store, &kernel) == KG_OK);
    struct kg_rejection rejection = {.hardware = good.hardware,
                                     .kernel = id_of("_Z4polyPfi"),
                                     .kernel_name = "_Z4polyPfi",
                                     .maker = "recorded",
                                     .gate = "memory",
                                     .reason = "byte 4096 of out was changed",
                                     .time = 1700000000};
    CHECK(store_put_blob(store, "bad source", 10, &rejection.candidate) == KG_OK);
    CHECK(store_put_rejection(store, &rejection) == KG_OK);
    struct kg_job_note job = {.hardware = good.hardware,
                              .kernel = rejection.kernel,
                              .kernel_name = "_Z4polyPfi",
                              .state = "failed",
                              .detail = "no maker had a faster variant",
                              .time = 1700000001};
    CHECK(store_put_job(store, &job) == KG_OK);
    store_close(store);
}

/* ---- what is said ---------------------------------------------------------------------------- */

static void status_text_form(void)
{
    CHECK(cli_run(dir, "$K status") == 0);
    CHECK(cli_says("/opt/first (process 101, ended, started"));
    CHECK(cli_says("app::softmax<4>") && cli_says("plain_c_name"));
    CHECK(cli_says("note: a note: app::softmax<4>, poly."));
    CHECK(cli_says("2.0% in 1 kernel left alone: it prints"));
    CHECK(cli_says("where the GPU time goes is not known: too short a run"));
    CHECK(cli_says("of the GPU time is in kernels that can be replaced"));
    CHECK(cli_says("4321 of 5000 launches ran a variant, the first of them launch 680"));
    CHECK(cli_says("3 us a launch before, 2 us after: 1.50 times as fast"));
    CHECK(cli_says("7 got the original: another grid, block or shared memory size"));
    CHECK(!strstr(cli.out, "another value of a scalar"));
    CHECK(cli_says("cannot be replaced: it prints"));
    CHECK(cli_says("left alone: hot is a kernel from 3% of the GPU time on (KGENRT_HOT_SHARE)"));
    CHECK(cli_says("left alone: hot is a kernel from 40 launches on (KGENRT_HOT_LAUNCHES)"));
    CHECK(cli_says("is in the cache: this run ended before it was swapped in, the next one gets"));
    CHECK(cli_says("mode observe: counted and timed, never captured or replaced"));
    CHECK(cli_says("a launch takes 2 us (median)"));
    CHECK(cli_says("hot (25.0% of the GPU time)") && cli_says("judged before: no faster variant"));
    CHECK(!strstr(cli.out, "no image"));
    CHECK(cli_says("the worker's job failed: no maker had a faster variant"));
    CHECK(cli_says("gate memory: byte 4096 of out was changed"));
    CHECK(cli_says("the next launch that can be is captured"));
    CHECK(cli_says("seen, not looked at yet") && cli_says("note: a note"));
    CHECK(cli_says("did not end cleanly; last word: swap, CUDA_ERROR_ILLEGAL_ADDRESS"));
    CHECK(cli_says("Jobs of the worker (none runs now):\n  poly: failed"));
    CHECK(
        cli_says("on NVIDIA H200: 1.50 times as fast, 95% interval [1.49, 1.51] (2 us to 1.33 us), "
                 "bitwise, by recorded\n    evidence: kgenrt show "));
    CHECK(cli_says("1 candidate was refused"));
    CHECK(!strchr(cli.out, '\033') && !strchr(cli.out, '\007') && !strstr(cli.out, "\302\233"));
}

static void status_json_form(void)
{
    CHECK(cli_run(dir, "$K status --json") == 0);
    json_t *root = cli_json(), *processes = json_object_get(root, "processes");
    CHECK(json_array_size(processes) == 6); /* torn and foreign files are passed over */
    json_t *latest = json_array_get(processes, 0), *oldest = json_array_get(processes, 5);
    CHECK(json_integer_value(json_object_get(latest, "pid")) == 102);
    CHECK(json_is_true(json_object_get(latest, "unclean")));
    CHECK(json_is_false(json_object_get(latest, "running")));
    CHECK(json_is_false(json_object_get(oldest, "unclean")));
    json_t *swapped = json_array_get(json_object_get(oldest, "kernels"), 1);
    CHECK(json_integer_value(json_object_get(swapped, "first_swapped_launch")) == 680);
    CHECK(json_is_string(json_object_get(swapped, "explanation")));
    CHECK(json_array_size(json_object_get(root, "variants")) == 1); /* the best */
    CHECK(json_array_size(json_object_get(root, "jobs")) == 1);
    CHECK(json_array_size(json_object_get(root, "rejections")) == 1);
    json_decref(root);
    CHECK(cli_run(dir, "$K status -n 1") == 0 && cli_says("process 102") &&
          !strstr(cli.out, "process 101"));
    CHECK(cli_run(dir, "$K status --latest 0") == 2);
}

/* A process that lives holds its file's lock. */
static void status_running(void)
{
    char path[KG_PATH];
    snprintf(path, sizeof path, "%s/flight/106-1700000050.kgf", cache);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0 && !flock(fd, LOCK_EX));
    CHECK(cli_run(dir, "$K status") == 0 && cli_says("/opt/live (process 106, running, started"));
    close(fd);
    CHECK(cli_run(dir, "$K doctor") <= 1 &&
          cli_says("did not end cleanly: CUDA_ERROR_ILLEGAL_ADDRESS; 1 variants may have run"));
}

static void list(void)
{
    CHECK(cli_run(dir, "$K list") == 0 && cli_says("recorded") && cli_says("rules") &&
          cli_says("app::softmax<4>"));
    CHECK(cli_run(dir, "$K list --maker rules") == 0 && !strstr(cli.out, "recorded"));
    CHECK(cli_run(dir, "$K list --kernel softmax --json") == 0);
    json_t *root = cli_json(), *variants = json_object_get(root, "variants");
    CHECK(json_array_size(variants) == 2);
    json_decref(root);
    CHECK(cli_run(dir, "$K list --kernel %.8s", kernel_one) == 0);
    CHECK(cli_run(dir, "$K list --kernel nosuch") == 3 && cli_says("No variants that match"));
    CHECK(cli_run(dir, "$K list --maker elves --json") == 3);
}

static void show(void)
{
    char id[KG_ID_TEXT];
    struct kg_variant good = fixture_variant("_ZN3app7softmaxILi4EEEvPf", 64, 1.5);
    variant_identify(&good);
    CHECK(cli_run(dir, "$K show %.10s", id_text(&good.id, id)) == 0);
    CHECK(cli_says("fast source") && cli_says("20 launches gave equal results") &&
          cli_says("vector loads"));
    CHECK(cli_says("grid 32 x 1 x 1, block 512 x 1 x 1, 128 bytes shared"));
    CHECK(cli_says("p2, byte 0, 4 bytes: 0x3e8, or more by at most 0x18\n") &&
          cli_says("p3, byte 0, 8 bytes: 0x400921fb54442d18\n") &&
          cli_says("p0, byte 0: a multiple of 256; reads bytes [0, 4096) from it") &&
          cli_says("p1, byte 0: a multiple of 16; reads and writes bytes [-16, 4096) from it") &&
          cli_says("1 pairs of pointers overlap as captured") && cli_says("driver for CUDA 13.1") &&
          cli_says("admission compare"));
    CHECK(!strchr(cli.out, '\033') && !strchr(cli.out, '\007'));
    CHECK(cli_run(dir, "$K show %s --json", id) == 0);
    json_t *root = cli_json();
    json_t *variant = json_array_get(json_object_get(root, "variants"), 0);
    CHECK(json_integer_value(json_object_get(json_object_get(variant, "evidence"), "repeats")) ==
          20);
    json_decref(root);
    CHECK(cli_run(dir, "$K show softmax") == 0 && cli_says("/opt/first") &&
          cli_says("(the best: programs get it)"));
    CHECK(cli_run(dir, "$K show poly") == 0);
    CHECK(cli_says("refused by gate 'memory': byte 4096 of out was changed"));
    CHECK(cli_says("| bad source") && cli_says("job: failed: no maker had a faster variant"));
    CHECK(cli_run(dir, "$K show %.6s --json", kernel_two) == 0);
    root = cli_json();
    json_t *rejection = json_array_get(json_object_get(root, "rejections"), 0);
    CHECK(!strcmp(json_string_value(json_object_get(rejection, "gate")), "memory"));
    json_decref(root);
}

static void show_capture(void)
{
    struct kg_param params[] = {{0, 8}, {8, 4}};
    unsigned char args[12] = {0, 1, 0, 0, 0, 0x7e, 0, 0, 42}, data[16] = {1};
    struct capture_pointer pointer = {0, 0, 0};
    struct capture_region region = {
        CAPTURE_POINTER, 0x7e0000000100, 16, 0x7e0000000000, 4096, "", data, NULL};
    struct kg_capture capture = {.hardware = fixture_hardware(),
                                 .program = "/opt/app",
                                 .pid = 5,
                                 .entry = "_Z4fillPfi",
                                 .launch = {{8, 1, 1}, {128, 1, 1}, 0},
                                 .param_count = 2,
                                 .params = params,
                                 .args = {args, sizeof args},
                                 .pointer_count = 1,
                                 .pointers = &pointer,
                                 .region_count = 1,
                                 .regions = &region,
                                 .image = (const unsigned char *)"no image",
                                 .image_size = 8};
    char path[KG_PATH];
    snprintf(path, sizeof path, "%s/fill.kgcap", dir);
    CHECK(capture_write(&capture, path) == KG_OK);
    CHECK(cli_run(dir, "$K show %s", path) == 0 && cli_says("fill (_Z4fillPfi)"));
    CHECK(cli_says("4 bytes: 2a000000") && cli_says("0x7e0000000100, 16 bytes"));
    CHECK(cli_run(dir, "$K show --json %s", path) == 0);
    json_t *root = cli_json();
    CHECK(json_is_object(root));
    json_decref(root);
    CHECK(cli_run(dir, "$K replay %s", path) == 1 && cli_errs("code cannot be read"));
    CHECK(!truncate(path, 100) && cli_run(dir, "$K show %s", path) == 1 && cli_errs("damaged"));
}

/* A store that is no store: an error with advice, in every command that reads it. */
static void broken_store(void)
{
    char path[KG_PATH];
    snprintf(path, sizeof path, "%s/store/data.mdb", cache);
    CHECK(file_write(path, "nonsense", 8, 0600) == KG_OK);
    CHECK(cli_run(dir, "$K list") == 1 && cli_errs("store"));
    CHECK(cli_run(dir, "$K show poly") == 1);
    CHECK(cli_run(dir, "$K show --analysis poly") == 1 && cli_errs("/store: ") &&
          !cli_errs("no kernel in"));
    CHECK(cli_run(dir, "$K status") == 0 && cli_says("cannot be used") &&
          cli_says("app::softmax<4>"));
    CHECK(cli_run(dir, "$K doctor") == 1 && cli_says("fail  store"));
}

int main(void)
{
    struct kg_id id = id_of("_ZN3app7softmaxILi4EEEvPf");
    dir = cli_start("cli_status");
    snprintf(cache, sizeof cache, "%s/cache", dir);
    id_text(&id, kernel_one);
    id = id_of("_Z4polyPfi");
    id_text(&id, kernel_two);
    put_flights();
    put_store();
    status_text_form();
    status_json_form();
    status_running();
    list();
    show();
    show_capture();
    broken_store();
    return test_result();
}
