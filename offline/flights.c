/* Reads the flight recorders, DIR/flight/<pid>-<start>.kgf: JSON text that a process keeps of
 * itself, written by runtime/app/flight.c and locked as long as the process lives. */
#include "cli.h"

#include <dirent.h>
#include <stdlib.h>

enum { MOST_FLIGHT = 8 << 20 };

static json_t *read_one(const char *path)
{
    struct kg_bytes file;
    json_error_t error;
    bool alive = file_locked(path);
    if (file_read(path, MOST_FLIGHT, &file) != KG_OK)
        return NULL;
    json_t *flight = json_loadb((const char *)file.data, file.size, JSON_DISABLE_EOF_CHECK, &error);
    bytes_free(&file);
    if (!json_is_object(flight)) { /* of a process that just starts, or torn */
        json_decref(flight);
        return NULL;
    }
    bool clean = json_is_true(json_object_get(flight, "clean"));
    json_object_set_new(flight, "running", json_boolean(alive));
    json_object_set_new(flight, "unclean", json_boolean(!alive && !clean));
    json_object_set_new(flight, "file", json_text(path));
    return flight;
}

static int later_first(const void *a, const void *b)
{
    double x = member_number(*(json_t *const *)a, "start"),
           y = member_number(*(json_t *const *)b, "start");
    return (x < y) - (x > y);
}

json_t *flights_read(const char *dir)
{
    char path[KG_PATH];
    struct dirent *entry;
    json_t *flights = json_array();
    if (path_make(path, "%s/flight", dir) != KG_OK)
        return flights;
    DIR *folder = opendir(path);
    while (folder && (entry = readdir(folder))) {
        if (!text_ends(entry->d_name, ".kgf") ||
            path_make(path, "%s/flight/%s", dir, entry->d_name) != KG_OK)
            continue;
        json_t *flight = read_one(path);
        if (flight)
            json_array_append_new(flights, flight);
    }
    if (folder)
        closedir(folder);
    return json_sorted(flights, later_first);
}
