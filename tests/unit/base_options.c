/* Where the cache is: an absolute path, whatever the app does to its working folder later. */
#include "kgenrt.h"
#include "test.h"

#include <string.h>
#include <unistd.h>

int main(void)
{
    char here[KG_PATH], wanted[KG_PATH + 16];
    CHECK(getcwd(here, sizeof here) != NULL);
    snprintf(wanted, sizeof wanted, "%s/some/cache", here);
    setenv("KGENRT_CACHE", "some/cache/", 1);
    CHECK(!strcmp(cache_dir(), wanted));
    CHECK(chdir("/") == 0);
    CHECK(!strcmp(cache_dir(), wanted));
    return test_result();
}
