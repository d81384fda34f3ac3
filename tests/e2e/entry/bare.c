/* Prints what it was given to be preloaded, and ends with status 3. */
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    const char *preload = getenv("LD_PRELOAD");
    printf("preload: %s.\n", preload ? preload : "none");
    return 3;
}
