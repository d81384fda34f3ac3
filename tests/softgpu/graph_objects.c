/* User objects: something of the program's, with a count of references, that a graph and all that
 * is made of it keep alive; the last reference calls the program's destructor. */
#include "graph.h"

#include <stdlib.h>

/* Without the lock: the destructor is the program's. */
static void object_release(struct user_object *object, unsigned count)
{
    soft_lock();
    object->references -= count;
    bool last = !object->references;
    soft_unlock();
    if (!last)
        return;
    handle_remove(object);
    object->destroy(object->pointer);
    free(object);
}

static void object_retain(struct user_object *object, unsigned count)
{
    soft_lock();
    object->references += count;
    soft_unlock();
}

CUresult user_object_keep(struct graph *graph, struct user_object *object, unsigned count)
{
    for (unsigned i = 0; i < graph->object_count; i++)
        if (graph->objects[i].object == object) {
            object_retain(object, count);
            graph->objects[i].count += count;
            return CUDA_SUCCESS;
        }
    struct graph_object *grown =
        realloc(graph->objects, (graph->object_count + 1) * sizeof *graph->objects);
    if (!grown)
        return CUDA_ERROR_OUT_OF_MEMORY;
    object_retain(object, count);
    graph->objects = grown;
    graph->objects[graph->object_count++] = (struct graph_object){object, count};
    return CUDA_SUCCESS;
}

void user_objects_drop(struct graph *graph)
{
    for (unsigned i = 0; i < graph->object_count; i++)
        if (graph->objects[i].count)
            object_release(graph->objects[i].object, graph->objects[i].count);
    free(graph->objects);
}

static CUresult enter(CUuserObject handle, unsigned count, struct user_object **out)
{
    *out = (struct user_object *)handle;
    CUresult result = handle_enter(handle, HANDLE_USER_OBJECT, CUDA_ERROR_INVALID_VALUE);
    return result == CUDA_SUCCESS && !count ? CUDA_ERROR_INVALID_VALUE : result;
}

CUresult cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy,
                            unsigned int initialRefcount, unsigned int flags)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    if (!object_out || !destroy || !initialRefcount || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    struct user_object *object = malloc(sizeof *object);
    if (!object || !handle_add(object, HANDLE_USER_OBJECT)) {
        free(object);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *object = (struct user_object){ptr, destroy, initialRefcount};
    *object_out = (CUuserObject)object;
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject handle, unsigned int count)
{
    struct user_object *object;
    CUresult result = enter(handle, count, &object);
    if (result == CUDA_SUCCESS)
        object_retain(object, count);
    return result;
}

CUresult cuUserObjectRelease(CUuserObject handle, unsigned int count)
{
    struct user_object *object;
    CUresult result = enter(handle, count, &object);
    if (result == CUDA_SUCCESS && count > object->references)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        object_release(object, count);
    return result;
}

CUresult cuGraphRetainUserObject(CUgraph handle, CUuserObject object_handle, unsigned int count,
                                 unsigned int flags)
{
    struct user_object *object;
    CUresult result = enter(object_handle, count, &object);
    struct graph *graph = graph_of(handle);
    if (result == CUDA_SUCCESS && (!graph || flags > CU_GRAPH_USER_OBJECT_MOVE))
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = user_object_keep(graph, object, count);
    if (result == CUDA_SUCCESS && flags == CU_GRAPH_USER_OBJECT_MOVE)
        object_release(object, count); /* the graph's now, not the caller's */
    return result;
}

CUresult cuGraphReleaseUserObject(CUgraph handle, CUuserObject object_handle, unsigned int count)
{
    struct user_object *object;
    CUresult result = enter(object_handle, count, &object);
    struct graph *graph = graph_of(handle);
    if (result == CUDA_SUCCESS && !graph)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; result == CUDA_SUCCESS && i < graph->object_count; i++)
        if (graph->objects[i].object == object && graph->objects[i].count >= count) {
            graph->objects[i].count -= count;
            object_release(object, count);
            return CUDA_SUCCESS;
        }
    return result == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : result;
}
