/* CUDA graphs: see graphs.c. For the hooks of interpose/hooks_graph.c, the hot path and the
 * watcher. */
#ifndef KG_APP_GRAPHS_H
#define KG_APP_GRAPHS_H

#include "app/app.h"

/* Stream captures of the process that may be under way; too many where the end of one was not seen.
 * While there are none, a launch need not ask for its stream. */
extern struct graph_captures { /* each launch reads it: a cache line that nothing else writes */
    _Alignas(64) atomic_int count;
} graph_captures;
static inline bool graph_capturing(void)
{
    return atomic_load_explicit(&graph_captures.count, memory_order_relaxed) > 0;
}
static inline void graph_capture_begins(void) /* before the real call, undone if that fails */
{
    atomic_fetch_add_explicit(&graph_captures.count, 1, memory_order_relaxed);
}
static inline void graph_capture_ended(void)
{
    int now = atomic_load_explicit(&graph_captures.count, memory_order_relaxed);
    while (now > 0 && !atomic_compare_exchange_weak(&graph_captures.count, &now, now - 1))
        ;
}

/* A launch of the kernel went into a capture. Any thread, on the launch path. */
void graph_captured(struct kernel *kernel);

/* All of these in the app's thread, within its own call on this executable, that on its behalf may
 * read the graph and change the executable.
 *
 * Just made: its nodes get variants. */
void graph_instantiated(CUgraph graph, CUgraphExec exec, bool device_launch);
/* Before the app's own update of a node. True: a variant was put there instead, and all is done. */
bool graph_node_put(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params);
/* After it: this is there. */
void graph_node_set(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params);
/* An update by a whole graph. run makes the app's own call, if that is needed: not where *done.
 * *why: what the driver said of it. */
typedef CUresult graph_run(void *self, CUgraphExecUpdateResult *why);
CUresult graph_update(CUgraphExec exec, CUgraph graph, graph_run *run, void *self,
                      CUgraphExecUpdateResult *why, bool *done);
void graph_exec_dying(CUgraphExec exec); /* before the real call */
/* It was launched. No lock. stream: explicit, as in struct launch. */
void graph_launched(CUgraphExec exec, CUstream stream);

void graphs_tick(void);                    /* watcher, locked */
void graphs_forget(struct kernel *kernel); /* locked: it is retired */
void graphs_after_fork_child(void);

#endif
