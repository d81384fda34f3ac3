/* Usage: deep LIBRARY [next]. Opens the library with RTLD_DEEPBIND, which hides a preload from it,
 * and runs its job; with next, in a second namespace, which nothing reaches. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    if (argc < 2)
        return 5;
    void *library = argc > 2 ? dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW)
                             : dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND);
    int (*run)(int, char **) = library ? (int (*)(int, char **))dlsym(library, "job_run") : NULL;
    if (!run)
        fprintf(stderr, "%s\n", dlerror());
    return run ? run(1, argv) : 6;
}
