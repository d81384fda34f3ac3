/* Other libraries in LD_PRELOAD and LD_AUDIT, before ours and behind it: a limiter that hooks dlsym
 * and the driver itself, allocators, a handler of faults, the address sanitizer's runtime, another
 * auditor, wrapper scripts that add a library, and programs with a dlsym of their own. The program
 * runs as it does without us, and every launch is seen by both, once. */
#include "entry/entry.h"

#include "../../interpose/audit/tunable.h"

static const char *program, *linked;

struct company {
    const char *what;
    const char *preload, *audit; /* lists; "@" stands for ours; NULL: not set */
    const char *more;            /* another variable, or NULL */
    const char *says;            /* in the output, or NULL */
};

/* The list with our library's path. */
static const char *with_ours(const char *variable, const char *list, const char *library)
{
    const char *at = strchr(list, '@');
    if (!at)
        return e2e_text("%s=%s", variable, list);
    return e2e_text("%s=%s%.*s%s/%s%s", variable, strcmp(variable, "LD_AUDIT") ? PRELOAD_FIRST : "",
                    (int)(at - list), list, E2E_BUILD, library, at + 1);
}

static void together(const struct company *company, const char *const command[])
{
    const char *variables[8] = {"KGENRT_MODE=observe", "KGENRT_WORKER=off"};
    int count = 2;
    if (company->preload)
        variables[count++] = with_ours("LD_PRELOAD", company->preload, "libkgenrt.so");
    if (company->audit)
        variables[count++] = with_ours("LD_AUDIT", company->audit, "libkgenrt_audit.so");
    if (company->more)
        variables[count++] = company->more;
    e2e_fresh_cache();
    int status = e2e_run(command, variables, 120);
    bool right = status == 0 && strstr(e2e_output, "right") &&
                 (!company->says || strstr(e2e_output, company->says));
    if (!CHECK(right))
        fprintf(stderr, "%s\n", e2e_output);
    struct entry_seen seen = entry_seen();
    fprintf(stderr, "%-40s exit status %d, %ld launches seen\n", company->what, status,
            seen.launches);
    CHECK(seen.launches == 60 && seen.processes == 1 && !seen.unclean);
    e2e_remove_cache();
}

#define RUN(command, name, ...)                                                                    \
    together(&(struct company){.what = (name), __VA_ARGS__}, (const char *const[]){command, NULL})

static void limiter(void)
{
    const char *path = entry_build("liblimiter.so", "other", "-DLIMITER -shared -fPIC -O0");
    const char *before = e2e_text("%s:@", path), *behind = e2e_text("@:%s", path);
    const char *counted = "limiter: 60 launches";
    RUN(program, "limiter before", .preload = before, .says = counted);
    RUN(program, "limiter behind", .preload = behind, .says = counted);
    RUN(program, "limiter before, audit", .preload = before, .audit = "@", .says = counted);
    RUN(program, "limiter behind, audit", .preload = behind, .audit = "@", .says = counted);
    RUN(program, "limiter, audit alone", .preload = path, .audit = "@", .says = counted);
    RUN(linked, "limiter before, linked", .preload = before, .says = counted);
}

/* A library that wraps a function of the driver for programs that are linked to it. */
static void wrapper(void)
{
    const char *path = entry_build("libwrapper.so", "other", "-DWRAPPER -shared -fPIC -O0");
    const char *before = e2e_text("%s:@", path), *behind = e2e_text("@:%s", path);
    const char *counted = "wrapper: 60 launches";
    RUN(linked, "wrapper before, linked", .preload = before, .says = counted);
    RUN(linked, "wrapper behind, linked", .preload = behind, .says = counted);
    RUN(linked, "wrapper before, linked, audit", .preload = before, .audit = "@", .says = counted);
    RUN(linked, "wrapper behind, linked, audit", .preload = behind, .audit = "@", .says = counted);
    /* dlsym of the driver itself goes past it, with us and without */
    RUN(program, "wrapper before", .preload = before);
    RUN(program, "wrapper behind", .preload = behind);
}

static void allocators(void)
{
    const char *path = entry_build("liballocator.so", "other", "-DALLOCATOR -shared -fPIC");
    if (*PRELOAD_FIRST) {
        fprintf(stderr, "a sanitizer's build: it has an allocator of its own\n");
        return;
    }
    RUN(program, "allocator before", .preload = e2e_text("%s:@", path));
    RUN(program, "allocator behind", .preload = e2e_text("@:%s", path));
    RUN(program, "allocator, audit", .preload = path, .audit = "@");
    const char *tunable = "GLIBC_TUNABLES=" AUDIT_TUNABLE; /* as kgenrt run sets it */
    static const char jemalloc[] = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
    if (access(jemalloc, R_OK)) {
        fprintf(stderr, "no jemalloc here\n");
        return;
    }
    RUN(program, "jemalloc before", .preload = e2e_text("%s:@", jemalloc));
    RUN(program, "jemalloc behind", .preload = e2e_text("@:%s", jemalloc));
    RUN(program, "jemalloc, audit", .preload = jemalloc, .audit = "@", .more = tunable);
}

static void handler(void)
{
    const char *path = entry_build("libhandler.so", "other", "-DHANDLER -shared -fPIC");
    RUN(program, "handler of faults before", .preload = e2e_text("%s:@", path));
    RUN(program, "handler of faults behind", .preload = e2e_text("@:%s", path));
}

/* The address sanitizer's runtime in a program that was not built with it. */
static void sanitizer(void)
{
    char path[512] = "";
    FILE *where = popen("gcc -print-file-name=libasan.so", "r");
    if (where && fgets(path, sizeof path, where))
        path[strcspn(path, "\n")] = 0;
    if (where)
        pclose(where);
    if (*PRELOAD_FIRST || *path != '/') {
        fprintf(stderr, "a sanitizer's build, or no libasan.so: it was not preloaded as another\n");
        return;
    }
    const char *calm = "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0";
    RUN(program, "address sanitizer before", .preload = e2e_text("%s:@", path), .more = calm);
    RUN(program, "address sanitizer behind", .preload = e2e_text("@:%s", path), .more = calm);
}

static void auditor(void)
{
    const char *path = entry_build("libauditor.so", "other", "-DAUDITOR -shared -fPIC");
    RUN(program, "another auditor before", .audit = e2e_text("%s:@", path));
    RUN(program, "another auditor behind", .preload = "@", .audit = e2e_text("@:%s", path));
}

/* A script that puts a library of its own before what is there. */
static void wrapper_script(void)
{
    const char *path = e2e_text("%s/wrapper", entry_folder);
    FILE *file = fopen(path, "w");
    if (!CHECK(file != NULL))
        return;
    fprintf(file, "#!/bin/sh\nLD_PRELOAD=libm.so.6${LD_PRELOAD:+:$LD_PRELOAD} exec '%s'\n",
            program);
    CHECK(fclose(file) == 0 && chmod(path, 0755) == 0);
    RUN(path, "wrapper script", .preload = "@");
    RUN(path, "wrapper script, audit", .preload = "@", .audit = "@");
}

static void own_dlsym(void)
{
    const char *path = entry_build("own", "job", "-DOWN_DLSYM -rdynamic -O0");
    RUN(path, "a dlsym of the program's own", .preload = "@");
    RUN(path, "a dlsym of the program's own, audit", .preload = "@", .audit = "@");
}

int main(int argc, char **argv)
{
    entry_begin(argc, argv);
    program = entry_build("job", "job", "");
    linked = entry_build_linked("linked", "job", "");
    if (*PRELOAD_FIRST)
        fprintf(stderr, "an instrumented build: its sanitizer's look-ups would not survive a dlsym "
                        "in C, with us or without\n");
    else
        limiter(), own_dlsym();
    wrapper();
    allocators();
    handler();
    sanitizer();
    auditor();
    wrapper_script();
    return entry_end();
}
