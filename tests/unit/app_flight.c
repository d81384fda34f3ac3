/* The flight recorder: what it writes parses whatever the app's kernels are called, it keeps off
 * the app's descriptors, and the next start learns from a process that died. */
#include "app_fixture.h"

#include "app/flight.c"

#include <dirent.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <utime.h>

#include <jansson.h>

static const char *cache;
static struct kg_id first, second, third;

static struct kg_id id_of_text(const char *text)
{
    struct kg_hash hash;
    struct kg_id id;
    hash_begin(&hash);
    hash_text(&hash, text);
    hash_end(&hash, &id);
    return id;
}

/* One process's life in the recorder, up to its death or good end. */
enum life { DIES, DIES_READING, FAULTS, ENDS, STAYS };

static pid_t live(enum life life, const struct kg_id *variant, int release)
{
    pid_t pid = fork();
    if (pid)
        return pid;
    fixture_open();
    atomic_store(&mode, KG_MODE_TUNE);
    if (!folders_make() || !flight_late(variant))
        _exit(1);
    atomic_store(&phase, PHASE_ON);
    app_context_created(FIXTURE_CONTEXT);
    records_lock();
    flight_write("start");
    if (life == DIES_READING)
        flight_reading(&third);
    fixture.query = life == FAULTS ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
    if (life == FAULTS || life == ENDS) {
        app_context_dying(NULL); /* as when a program met an error, says so, and ends */
        flight_finish(true);
    }
    char byte;
    if (life == STAYS && read(release, &byte, 1) < 0)
        _exit(1);
    _exit(0);
}

static void lived(enum life life, const struct kg_id *variant)
{
    int status;
    pid_t pid = live(life, variant, -1);
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status));
}

/* In a fresh process, as each start is one: bits of what it is told. */
static int learnt(void)
{
    pid_t pid = fork();
    if (!pid) {
        fixture_open();
        if (!folders_make())
            _exit(128);
        uint64_t now = (uint64_t)time(NULL);
        _exit(flight_suspended(&first, now - 1000) | flight_suspended(&second, now - 1000) << 1 |
              flight_suspended(&first, now + 1000) << 2 | flight_snapshot_bad(&third) << 3 |
              flight_suspended(&third, 0) << 4);
    }
    int status = -1;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void forget(void)
{
    char command[600];
    snprintf(command, sizeof command, "rm -f '%s'/flight/*.kgf", cache);
    CHECK(!system(command));
}

static void deaths(void)
{
    int release[2];
    CHECK(learnt() == 0);
    lived(ENDS, &first);
    CHECK(learnt() == 0);
    lived(DIES, &first);
    CHECK(learnt() == 1); /* a newer verification is believed: bit 2 is not set */
    lived(DIES_READING, &second);
    CHECK(learnt() == (1 | 2 | 8));
    forget();
    lived(FAULTS, &second); /* it ended in good order, but its kernel had faulted */
    CHECK(learnt() == 2);
    forget();
    CHECK(!pipe(release));
    pid_t pid = live(STAYS, &first, release[0]);
    usleep(200000);
    CHECK(learnt() == 0); /* it lives: its file is locked */
    CHECK(write(release[1], "x", 1) == 1 && waitpid(pid, NULL, 0) == pid);
    CHECK(learnt() == 1);
    forget();
}

static void hostile_files(void)
{
    static const char *const texts[] = {
        "",
        "{",
        "{\"version\":1,\"clean\":false",
        "{\"version\":1,\"clean\":false,\"reading_snapshot\":",
        "{\"version\":1,\"clean\":false,\"reading_snapshot\":\"zz\",\"late\":[\"",
        "\xff\xfe"};
    char path[KG_PATH];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        CHECK(path_make(path, "%s/flight/%zu-1.kgf", cache, i) == KG_OK);
        CHECK(file_write(path, texts[i], strlen(texts[i]), 0600) == KG_OK);
    }
    CHECK(learnt() == 0);
    forget();
}

static unsigned files(void)
{
    char path[KG_PATH];
    unsigned count = 0;
    snprintf(path, sizeof path, "%s/flight", cache);
    DIR *list = opendir(path);
    for (struct dirent *e; list && (e = readdir(list));)
        count += strstr(e->d_name, ".kgf") != NULL;
    if (list)
        closedir(list);
    return count;
}

static void kept(void)
{
    struct utimbuf old = {1000000, 1000000};
    char path[KG_PATH];
    for (int i = 0; i < 30; i++) {
        CHECK(path_make(path, "%s/flight/%d-2.kgf", cache, i) == KG_OK);
        CHECK(file_write(path, "{\"version\":1,\"clean\":true ", 26, 0600) == KG_OK);
        CHECK(!utime(path, &old));
    }
    CHECK(files() == 30 && learnt() == 0 && files() == 21);
    forget();
}

/* ---- this process's own file --------------------------------------------------------------------
 */

static json_t *parsed(void)
{
    json_error_t error;
    json_t *root = json_load_file(flight.path, 0, &error);
    if (!CHECK(root != NULL))
        fprintf(stderr, "%s:%d:%d\n", error.text, error.line, error.column);
    return root;
}

static const char *text_of(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "(none)";
}

static json_t *kernel_named(json_t *root, const char *name)
{
    size_t i;
    json_t *kernel;
    json_array_foreach(json_object_get(root, "kernels"), i, kernel)
    {
        if (!strcmp(text_of(kernel, "name"), name))
            return kernel;
    }
    return NULL;
}

static void write_locked(const char *event)
{
    records_lock();
    flight_write(event);
    records_unlock();
}

static void content(void)
{
    struct kernel *kernel = fixture_kernel("plain", 0x100);
    atomic_store(&kernel->launches, 1234);
    atomic_store(&kernel->swapped, 1000);
    atomic_store(&kernel->first_swapped, 7);
    atomic_store(&kernel->refused[REFUSED_OVERLAP], 3);
    atomic_store(&kernel->state, KERNEL_SWAPPED);
    kernel->before_ns = 5000.5;
    kernel->first_seen_ns = 1000000000;
    kernel->swapped_ns = 3500000000;
    app_note("a \"note\"");
    write_locked("test");
    json_t *root = parsed();
    CHECK(!strcmp(text_of(root, "event"), "test") && !strcmp(text_of(root, "mode"), "tune"));
    CHECK(json_integer_value(json_object_get(root, "pid")) == getpid());
    CHECK(json_is_false(json_object_get(root, "clean")) && !*text_of(root, "reading_snapshot"));
    CHECK(!strcmp(text_of(json_object_get(root, "hardware"), "vendor"), "softgpu"));
    CHECK(!strcmp(json_string_value(json_array_get(json_object_get(root, "notes"), 0)),
                  "a \"note\""));
    json_t *k = kernel_named(root, "plain");
    CHECK(json_integer_value(json_object_get(k, "launches")) == 1234);
    CHECK(json_integer_value(json_object_get(k, "first_swapped_launch")) == 7);
    CHECK(json_real_value(json_object_get(k, "before_ns")) == 5000.5);
    CHECK(json_real_value(json_object_get(k, "seconds_to_swap")) == 2.5);
    CHECK(json_integer_value(json_object_get(json_object_get(k, "refused"), "overlap")) == 3);
    CHECK(!strcmp(text_of(k, "state"), "swapped") && strlen(text_of(k, "id")) == 64);
    json_decref(root);
    flight_reading(&third);
    root = parsed();
    char id[KG_ID_TEXT];
    CHECK(!strcmp(text_of(root, "reading_snapshot"), id_text(&third, id)));
    json_decref(root);
    flight_reading(NULL);
}

static void odd_names(void)
{
    static const char *const names[] = {
        "q\"\\/",           "\x01\x1f\t\n", "\xff\xc3",     "\xed\xa0\x80",
        "\xf4\x90\x80\x80", "\xc0\x80",     "\xe2\x82\xac", "\x7f"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        atomic_store(&fixture_kernel(names[i], 0x1000 + 16 * i)->launches, 1);
    write_locked("odd");
    json_t *root = parsed();
    CHECK(kernel_named(root, "q\"\\/") && kernel_named(root, "\x01\x1f\t\n"));
    CHECK(kernel_named(root, "\xe2\x82\xac") && kernel_named(root, "\xef\xbf\xbd\xef\xbf\xbd"));
    json_decref(root);
}

/* More than fits: those that matter stay, the rest is counted. */
static void too_many(void)
{
    char name[300];
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "many_%d_%0200d", i, 0);
        atomic_store(&fixture_kernel(name, 0x100000 + 16 * (uintptr_t)i)->launches, 1);
    }
    write_locked("many");
    json_t *root = parsed();
    CHECK(kernel_named(root, "plain") != NULL);
    size_t in = json_array_size(json_object_get(root, "kernels"));
    json_int_t out = json_integer_value(json_object_get(root, "left_out"));
    CHECK(in > 100 && out > 100 && in + (size_t)out == 3009);
    json_decref(root);
    for (struct kernel *k = kernels_first(); k; k = k->next)
        if (strcmp(k->name, "plain"))
            atomic_store(&k->launches, 0);
    write_locked("few"); /* a shorter text leaves nothing of the longer one behind */
    root = parsed();
    CHECK(json_array_size(json_object_get(root, "kernels")) == 1);
    json_decref(root);
}

/* The app closes all descriptors and opens its own file with our number. */
static void descriptors(void)
{
    int number = flight.fd;
    char path[KG_PATH];
    struct stat info;
    CHECK(number >= 500 && (fcntl(number, F_GETFD) & FD_CLOEXEC));
    CHECK(!close(number));
    CHECK(path_make(path, "%s/of_the_app", cache) == KG_OK);
    int own = open(path, O_RDWR | O_CREAT, 0600);
    CHECK(dup2(own, number) == number);
    write_locked("reopened");
    CHECK(!fstat(own, &info) && info.st_size == 0 && flight.fd != number);
    json_t *root = parsed();
    CHECK(!strcmp(text_of(root, "event"), "reopened"));
    json_decref(root);
    close(own), close(number);
}

static void in_time(void)
{
    struct stat before, after_change;
    struct kernel *kernel = kernel_find((void *)0x100);
    records_lock();
    flight_tick();
    stat(flight.path, &before);
    atomic_store(&kernel->launches, 99999);
    flight_tick(); /* within the same second: nothing */
    stat(flight.path, &after_change);
    CHECK(before.st_mtim.tv_nsec == after_change.st_mtim.tv_nsec);
    records_unlock();
    usleep(1100000);
    records_lock();
    flight_tick();
    records_unlock();
    json_t *root = parsed();
    CHECK(json_integer_value(json_object_get(kernel_named(root, "plain"), "launches")) == 99999);
    json_decref(root);
}

int main(void)
{
    first = id_of_text("first"), second = id_of_text("second"), third = id_of_text("third");
    cache = fixture_cache("app_flight");
    deaths();
    hostile_files();
    kept();
    fixture_begin("app_flight", KG_MODE_TUNE);
    app_context_created(FIXTURE_CONTEXT);
    content();
    odd_names();
    too_many();
    descriptors();
    in_time();
    flight_finish(false);
    json_t *root = parsed();
    CHECK(json_is_true(json_object_get(root, "clean")));
    json_decref(root);
    return test_result();
}
