/* Graphs and stream capture, seen from inside the driver.
 *
 * A graph is a list of nodes in the order in which they were added, each with its dependencies. An
 * executable graph owns a clone, whose nodes remember the number of the node they were cloned from.
 * A launch of it is one operation of a stream, which runs the nodes one after another in an order
 * that the dependencies allow; the model clock counts the longest path.
 *
 * As in CUDA, calls on one graph are not to be made by two threads at a time: graphs have no lock.
 * The state of captures belongs to streams and is guarded by soft_lock. */
#ifndef SOFTGPU_GRAPH_H
#define SOFTGPU_GRAPH_H

#include "soft.h"

struct kernel_node {
    void *handle; /* CUfunction, or CUkernel in its clothes */
    struct context *context;
    struct launch_shape shape;
    CUlaunchAttribute attributes[4]; /* as set: kept to be given back */
    unsigned attribute_count, param_count, param_bytes;
    unsigned char *params; /* packed; owned */
    void **pointers;       /* into params, for who asks; owned */
};

struct node {
    struct graph *graph;
    CUgraphNodeType type;
    uint64_t number, origin; /* origin: number of the node that this one is a clone of; 0 none */
    bool disabled;           /* of an executable graph */
    struct node **after;     /* its dependencies; owned list */
    unsigned after_count, after_room;
    union {
        struct kernel_node kernel;
        struct {
            CUDA_MEMCPY3D asked;
            struct context *context;
        } copy;
        struct {
            struct fill fill;
            struct context *context;
        } fill;
        struct {
            CUhostFn function;
            void *data;
        } host;
        struct graph *child; /* owned */
        CUevent event;
    };
};

struct user_object {
    void *pointer;
    CUhostFn destroy;
    unsigned references;
};

struct graph_object {
    struct user_object *object;
    unsigned count;
};

struct graph {
    struct node **nodes; /* owned */
    unsigned count, room;
    struct node *owner; /* the child-graph node that owns it; NULL: a program does */
    bool executable;    /* belongs to an executable graph: its handles are not given out */
    uint64_t number;
    struct graph_object *objects; /* user objects that it keeps alive */
    unsigned object_count;
};

/* ---- graph.c ---- */

struct graph *graph_of(CUgraph handle);
struct node *node_of(CUgraphNode handle);
struct graph *graph_create(void);
void graph_destroy(struct graph *graph);
/* A deep copy; executable: no handles are made for it. NULL: memory is out. */
struct graph *graph_clone(const struct graph *graph, bool executable);
/* The clone's node that was made from this one, or NULL. */
struct node *graph_node_from(const struct graph *graph, const struct node *original);
/* A new node after those given, which must be the graph's; its payload is the caller's to fill in.
 */
CUresult node_add(struct graph *graph, CUgraphNodeType type, const CUgraphNode *after, size_t count,
                  struct node **out);
/* The order in which the nodes can run; NULL with *cycle set when there is none. The caller frees
 * it. */
struct node **graph_order(const struct graph *graph, bool *cycle);
/* Edges that start a kernel before its predecessor has ended are not there. */
bool edges_plain(const CUgraphEdgeData *data, size_t count);
/* Index of a node in its graph. */
unsigned node_index(const struct node *node);
CUresult user_object_keep(struct graph *graph, struct user_object *object, unsigned count);
void user_objects_drop(struct graph *graph);

/* ---- graph_node.c: what nodes do ---- */

/* New values for a node, as a call gives them: params is a CUDA_KERNEL_NODE_PARAMS_v2,
 * CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUDA_HOST_NODE_PARAMS, struct graph or CUevent, by type.
 */
struct payload {
    CUgraphNodeType type;
    const void *params;
    CUcontext context; /* of copies and fills; NULL: the current one */
};
#define PAYLOAD(type, params, context)                                                             \
    &(struct payload)                                                                              \
    {                                                                                              \
        CU_GRAPH_NODE_TYPE_##type, params, context                                                 \
    }

/* The first form of a kernel's as the second; false: there is none. */
bool kernel_widen(const CUDA_KERNEL_NODE_PARAMS_v1 *params, CUDA_KERNEL_NODE_PARAMS_v2 *out);

/* Checks and stores them in a node that has none. */
CUresult payload_fill(struct node *node, const struct payload *payload);
/* The same from the form that holds any type. */
CUresult payload_of(const CUgraphNodeParams *params, struct payload *out);
/* Moves what `from` holds into node, whose own goes. */
void payload_move(struct node *node, struct node *from);
/* Frees what the payload owns. */
void payload_free(struct node *node);
bool payload_clone(struct node *to, const struct node *from);
/* A launch as cuLaunchKernel takes it. */
CUresult kernel_store(struct node *node, void *handle, struct function *function,
                      const struct launch_shape *shape, void **params, void **extra);
/* Why an executable graph's node may not take these values; CUDA_SUCCESS: it may. */
CUresult payload_fits(const struct node *old, const struct node *fresh);

/* ---- graph_exec.c ---- */

struct graph_exec {
    struct graph *graph; /* a clone of what it was made from */
    struct node **order; /* its nodes as they run */
    cuuint64_t flags;
    struct op *last;     /* its last launch, which the next one waits for; referenced */
    unsigned references; /* the handle's, and one for each launch under way; guarded by the lock */
};

/* For calls on executable graphs: soft_enter, and CUDA_ERROR_INVALID_VALUE for what is none. */
CUresult exec_enter(CUgraphExec handle, struct graph_exec **out);

/* ---- capture.c ---- */

struct capture {
    uint64_t number;
    struct graph *graph;
    bool lent; /* the graph is the program's: cuStreamBeginCaptureToGraph */
    bool invalid;
    CUstreamCaptureMode mode;
    struct stream *origin;
    uint64_t thread; /* that began it */
    struct capture *next;
};

/* Where a captured stream stands: after these nodes; after these as well. Callers of these three
 * hold the lock. */
bool capture_set_nodes(struct stream *stream, struct node *const *nodes, unsigned count);
bool capture_add_nodes(struct stream *stream, struct node *const *nodes, unsigned count);
/* A capture of the context that the default stream, if this is it, would have to wait for. */
struct capture *capture_implied(const struct stream *stream);
CUresult capture_stream(CUstream handle, bool per_thread, struct stream **out);

/* Refuses what may not be called now: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (and the captures that
 * forbid it are void), by the capture modes of threads and captures. */
CUresult capture_unsafe(void);
/* The same for a call that asks or waits for this stream; that waits for the whole context. */
CUresult capture_blocks(struct stream *stream);
CUresult capture_forbids_context(struct context *context);
/* The capture that this stream is in, for a call that adds work to it: NULL, work is run. Fails
 * where the work may not be added. */
CUresult capture_of(struct stream *stream, struct capture **out);
/* For a call that cannot be captured: `error` where the stream is, and the capture is void. */
CUresult capture_refuses(struct stream *stream, CUresult error);
CUresult capture_kernel(struct stream *stream, void *handle, struct function *function,
                        const struct launch_shape *shape, void **params, void **extra);
CUresult capture_copy(struct stream *stream, const struct copy *copy);
CUresult capture_fill(struct stream *stream, const struct fill *fill);
CUresult capture_host(struct stream *stream, CUhostFn function, void *data);
/* Event calls. external: as a node of its own. */
CUresult capture_record(struct stream *stream, CUevent event, bool external);
CUresult capture_wait(struct stream *stream, CUevent event, bool external, bool *handled);
/* A stream goes. Caller holds the lock, and calls capture_sweep without it. */
void capture_forget(struct stream *stream);
void capture_sweep(void);

/* ---- event.c ---- */

/* What an event remembers of a capture: where it was recorded. Callers of these hold the lock, but
 * for event_captured. */
struct event_mark {
    uint64_t capture; /* number; 0: last recorded outside */
    struct node **nodes;
    unsigned count;
};
struct event_mark *event_mark(CUevent event); /* NULL: no event */
bool event_recorded(CUevent event);           /* outside of a capture */
bool event_captured(CUevent event);
/* An operation that the event waits for from now on and that op_finish ends; the caller's, too. */
CUresult event_promise(CUevent event, struct stream *stream, struct op **out);

/* ---- stream_calls.c ---- */

CUresult host_make(CUhostFn function, void *data, struct op **out);

#endif
