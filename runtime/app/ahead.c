/* Kernels that an earlier process of this user found hot when it launched them within graphs only:
 * too late for a capture, which takes a launch outside. Their ids stand as names of empty files in
 * the cache folder (`ahead/`), and the next process captures such a kernel from its first launches
 * on, the warm-up before its graphs, hot yet or not. Capped in number; a file goes when its kernel
 * was captured, or after a month. Never read or written on a launch path. */
#include "app/inside.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 64, MONTH = 30 * 24 * 3600 };

static struct kg_id known[MOST]; /* constant after the start, but for what is forgotten */
static unsigned known_count;

static bool path_of(char path[static KG_PATH], const struct kg_id *kernel)
{
    char id[KG_ID_TEXT];
    return *app_dir() && path_make(path, "%s/ahead/%s", app_dir(), id_text(kernel, id)) == KG_OK;
}

void ahead_start(void)
{
    char folder[KG_PATH], path[KG_PATH];
    struct stat info;
    if (!*app_dir() || app_mode() != KG_MODE_TUNE ||
        path_make(folder, "%s/ahead", app_dir()) != KG_OK)
        return;
    DIR *list = opendir(folder);
    for (struct dirent *e; list && known_count < MOST && (e = readdir(list));) {
        struct kg_id *id = &known[known_count];
        if (id_parse(e->d_name, id) != KG_OK || !path_of(path, id) || stat(path, &info))
            continue;
        if (info.st_mtime + MONTH > time(NULL))
            known_count++;
        else
            (void)unlink(path); /* another start may have done it at this moment */
    }
    if (list)
        closedir(list);
}

bool ahead_any(void)
{
    return known_count != 0;
}

bool ahead_knows(const struct kg_id *kernel)
{
    for (unsigned i = 0; i < known_count; i++)
        if (id_equal(&known[i], kernel))
            return true;
    return false;
}

void ahead_keep(const struct kg_id *kernel)
{
    char path[KG_PATH];
    if (known_count < MOST && path_of(path, kernel))
        (void)file_write(path, "", 0, 0600); /* else the next process finds out by itself */
}

void ahead_forget(const struct kg_id *kernel)
{
    char path[KG_PATH];
    for (unsigned i = 0; i < known_count; i++)
        if (id_equal(&known[i], kernel)) {
            known[i] = known[--known_count];
            break;
        }
    if (path_of(path, kernel))
        (void)unlink(path); /* mostly there is none */
}
