/* CUDA graphs. The app's graphs always hold what it put there: a launch into a stream that is being
 * captured goes on as it is, nodes made by hand too, so that whatever the app asks its graphs,
 * clones or nodes, it never meets a function of ours. Variants go into *executable* graphs alone:
 * within the app's own call that instantiates or updates one, in its thread, while nobody else may
 * touch either (graph objects are not thread-safe, and the app has to see to that). The driver lets
 * a kernel node of an executable take another function of the same context, and launches under way
 * keep what they were launched with. Whatever it refuses, the original stays.
 *
 * - Instantiated: each outermost kernel node whose guard holds gets the variant.
 * - One node updated: what the app puts there is matched anew.
 * - Updated by a whole graph: by a clone of the app's graph that has the variants; by the app's
 * own, all originals, where it does so every few launches.
 *
 * An executable keeps what it got until such a call: nothing is changed in a running one, since
 * only the nodes of the graph that it was made from could name the place, and these belong to the
 * app, which mostly has destroyed them by then. What of that is not as it would be today is
 * counted, and `kgenrt status` says it. Left alone: nodes of child graphs (their launches are
 * counted), bodies of conditional nodes, graphs for launches from the device, nodes that the device
 * may update.
 *
 * A launch of an executable costs one look-up and one atomic addition; the watcher works out what
 * its kernels have been launched. A node that the app disabled counts as if it were not.
 *
 * Lock order: records_lock, then `mutex`. */
#include "app/graphs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "app/graph_nodes.h"
#include "app/handles.h"
#include "app/inside.h"
#include "app/track.h"

enum { FEW = 8 }; /* launches from update to update */

enum change { INSTANTIATED, FOR_DEVICE, WHOLE_UPDATE };

/* Nodes of one executable that do the same. */
struct part {
    struct kernel *kernel; /* NULL: gone, or nobody's */
    CUfunction variant;    /* NULL: the original */
    bool offered;          /* there were variants when it was made */
    uint32_t nodes;
};

struct member {
    CUgraphNode node;
    uint32_t part;
    bool plain; /* as struct seen */
};

struct executable {
    atomic_uint_fast64_t launches;
    CUgraphExec handle;
    uint64_t counted; /* launches that its kernels were told of */
    struct part *parts;
    uint32_t part_count, member_count;
    struct member *members; /* outermost kernel nodes, by handle */
    bool alone;             /* may be launched from the device: never a variant */
    bool updated;           /* as a whole, when it had been launched so often: */
    uint64_t updated_at;
    bool refuses;        /* the driver would not have such an update with variants */
    uint64_t retired_ns; /* 0: in use */
    struct executable *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* over all that follows */
static struct handle_table table;
static struct executable *all;

static atomic_bool updates_fail; /* of executables with variants, in this driver */

struct graph_captures graph_captures;

/* ---- putting variants in -----------------------------------------------------------------------
 */

static CUresult exec_set(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    CUDA_KERNEL_NODE_PARAMS_v1 old;
    if (real.cuGraphExecKernelNodeSetParams_v2)
        return real.cuGraphExecKernelNodeSetParams_v2(exec, node, p);
    if (!real.cuGraphExecKernelNodeSetParams || !p->func)
        return CUDA_ERROR_NOT_SUPPORTED;
    memcpy(&old, p, sizeof old);
    return real.cuGraphExecKernelNodeSetParams(exec, node, &old);
}

/* No launch of it in there will be checked. */
static void unchecked(const struct seen *seen)
{
    if (seen->entry->track)
        atomic_fetch_add_explicit(&seen->entry->track->skipped[SKIP_GRAPH], 1,
                                  memory_order_relaxed);
}

/* Its entry is NULL afterwards if the driver would not have it. */
static bool exec_put(CUgraphExec exec, struct seen *seen)
{
    struct variant_params variant;
    if (node_params(seen, &variant) &&
        exec_set(exec, seen->node, &variant.params) == CUDA_SUCCESS) {
        unchecked(seen);
        return true;
    }
    atomic_fetch_add_explicit(&seen->kernel->refused[REFUSED_GRAPH], 1, memory_order_relaxed);
    seen->entry = NULL;
    return false;
}

/* ---- executables -------------------------------------------------------------------------------
 */

/* The part for such nodes, made at need; UINT32_MAX: no memory. */
static uint32_t part_of(struct executable *e, const struct seen *seen)
{
    CUfunction variant = seen->entry ? seen->entry->function : NULL;
    struct kernel *kernel = seen->kernel && !seen->kernel->forgotten ? seen->kernel : NULL;
    for (uint32_t i = e->part_count; i-- > 0;)
        if (e->parts[i].kernel == kernel && e->parts[i].variant == variant &&
            e->parts[i].offered == seen->offered)
            return i;
    struct part *grown = realloc(e->parts, (e->part_count + 1) * sizeof *grown);
    if (!grown)
        return UINT32_MAX;
    e->parts = grown;
    grown[e->part_count] =
        (struct part){.kernel = kernel, .variant = variant, .offered = seen->offered};
    return e->part_count++;
}

static int by_node(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const struct member *)a)->node;
    uintptr_t y = (uintptr_t)((const struct member *)b)->node;
    return (x > y) - (x < y);
}

/* Locked, as all below that take an executable. Tells the kernels of the launches since. */
static void settle(struct executable *e)
{
    uint64_t now = atomic_load_explicit(&e->launches, memory_order_relaxed);
    uint64_t more = now - e->counted;
    e->counted = now;
    for (uint32_t i = 0; more && i < e->part_count; i++) {
        const struct part *part = &e->parts[i];
        struct kernel *kernel = part->kernel;
        if (!kernel)
            continue;
        if (part->variant && part->nodes) {
            if (!atomic_load_explicit(&kernel->first_swapped, memory_order_relaxed))
                atomic_store_explicit(&kernel->first_swapped, kernel_launches(kernel) + 1,
                                      memory_order_relaxed);
            atomic_fetch_add_explicit(&kernel->swapped_in_graphs, more * part->nodes,
                                      memory_order_relaxed);
        }
        atomic_fetch_add_explicit(&kernel->in_graphs, more * part->nodes, memory_order_relaxed);
    }
}

static void parts_free(struct executable *e)
{
    free(e->parts);
    free(e->members);
    e->parts = NULL;
    e->members = NULL;
    e->part_count = e->member_count = 0;
}

/* The executable is what the scan says from now on; the names of its nodes, for as many as there
 * are, are the scan's or, updated as a whole, those that it had: which node of the new graph is
 * which of the first one only the driver knows. By their order, mostly; it is only for counting. */
static void members_set(struct executable *e, const struct scan *scan, bool updated)
{
    struct member *members = calloc(scan->count + 1, sizeof *members);
    uint32_t count = 0;
    e->part_count = 0;
    for (uint32_t i = 0; i < scan->count; i++) {
        uint32_t part = part_of(e, &scan->seen[i]);
        if (part == UINT32_MAX)
            continue;
        e->parts[part].nodes++;
        if (members && scan->seen[i].node && (!updated || count < e->member_count)) {
            CUgraphNode node = updated ? e->members[count].node : scan->seen[i].node;
            members[count++] = (struct member){node, part, !updated && scan->seen[i].plain};
        }
    }
    if (members)
        qsort(members, count, sizeof *members, by_node);
    free(e->members);
    e->members = members;
    e->member_count = count;
}

static void executable_set(CUgraphExec handle, const struct scan *scan, enum change change)
{
    pthread_mutex_lock(&mutex);
    struct executable *e = handles_find(&table, handle); /* or its end was not seen */
    if (!e && (e = calloc(1, sizeof *e))) {
        e->handle = handle;
        e->next = all;
        all = e;
        if (!handles_put(&table, handle, e))
            e->retired_ns = now_ns();
    }
    if (e) {
        settle(e);
        members_set(e, scan, change == WHOLE_UPDATE);
        if (change != WHOLE_UPDATE)
            e->updated = e->refuses = false;
        if (change != WHOLE_UPDATE)
            e->alone = change == FOR_DEVICE;
    }
    pthread_mutex_unlock(&mutex);
}

static void member_set(CUgraphExec handle, const struct seen *seen)
{
    pthread_mutex_lock(&mutex);
    struct executable *e = handles_find(&table, handle);
    struct member key = {.node = seen->node}, *member = NULL;
    if (e)
        member = bsearch(&key, e->members, e->member_count, sizeof key, by_node);
    uint32_t part = UINT32_MAX;
    if (member) {
        settle(e);
        part = part_of(e, seen);
    }
    if (part != UINT32_MAX) {
        e->parts[member->part].nodes--;
        e->parts[part].nodes++;
        member->part = part;
        member->plain |= seen->plain;
    }
    pthread_mutex_unlock(&mutex);
}

/* ---- hooks -------------------------------------------------------------------------------------
 */

void graph_captured(struct kernel *kernel)
{
    atomic_store_explicit(&kernel->in_capture, true, memory_order_relaxed);
}

void graph_instantiated(CUgraph graph, CUgraphExec exec, bool device_launch)
{
    struct scan scan = {.swaps = !device_launch && !atomic_load(&updates_fail)};
    bool was_inside = inside_kgenrt;
    inside_kgenrt = true;
    if (device_launch)
        app_note(
            "graphs that the device may launch are left alone, and launches from there are not "
            "counted");
    graph_scan(&scan, graph);
    for (uint32_t i = 0; i < scan.count; i++) {
        atomic_store_explicit(&scan.seen[i].kernel->in_capture, true, memory_order_relaxed);
        if (scan.seen[i].entry)
            (void)exec_put(exec, &scan.seen[i]);
    }
    executable_set(exec, &scan, device_launch ? FOR_DEVICE : INSTANTIATED);
    free(scan.seen);
    inside_kgenrt = was_inside;
}

/* Whether the executable's node may take variants at all; *plain: as far as is known. */
static bool member_open(CUgraphExec exec, CUgraphNode node, bool *plain)
{
    const struct member key = {.node = node}, *member = NULL;
    pthread_mutex_lock(&mutex);
    const struct executable *e = handles_find(&table, exec);
    if (e && !e->alone)
        member = bsearch(&key, e->members, e->member_count, sizeof key, by_node);
    *plain = member && member->plain;
    pthread_mutex_unlock(&mutex);
    return member != NULL;
}

bool graph_node_put(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    struct seen seen = {.node = node, .params = *params};
    bool was_inside = inside_kgenrt;
    inside_kgenrt = true;
    if (!atomic_load(&updates_fail) && (seen.kernel = node_kernel(params)) &&
        atomic_load_explicit(&seen.kernel->swap, memory_order_relaxed) &&
        member_open(exec, node, &seen.plain))
        node_choose(&seen, node);
    bool put = seen.entry && exec_put(exec, &seen);
    if (put)
        member_set(exec, &seen);
    inside_kgenrt = was_inside;
    return put;
}

void graph_node_set(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    struct seen seen = {.node = node, .kernel = node_kernel(params)};
    if (seen.kernel)
        seen.offered = atomic_load_explicit(&seen.kernel->swap, memory_order_acquire) != NULL;
    member_set(exec, &seen);
}

/* The clone's node for each that gets a variant; false: not all could be set. */
static bool clone_put(CUgraph clone, const struct scan *scan)
{
    for (uint32_t i = 0; i < scan->count; i++) {
        CUgraphNode node;
        struct variant_params variant;
        if (!scan->seen[i].entry)
            continue;
        if (real.cuGraphNodeFindInClone(&node, scan->seen[i].node, clone) != CUDA_SUCCESS ||
            !node_params(&scan->seen[i], &variant) ||
            real.cuGraphKernelNodeSetParams_v2(node, &variant.params) != CUDA_SUCCESS)
            return false;
    }
    return true;
}

static bool update_by_clone(CUgraphExec exec, CUgraph graph, const struct scan *scan)
{
    CUgraph clone;
    CUgraphExecUpdateResultInfo info;
    memset(&info, 0, sizeof info);
    if (!real.cuGraphClone || !real.cuGraphNodeFindInClone || !real.cuGraphKernelNodeSetParams_v2 ||
        !real.cuGraphExecUpdate_v2 || !real.cuGraphDestroy ||
        real.cuGraphClone(&clone, graph) != CUDA_SUCCESS)
        return false;
    bool done =
        clone_put(clone, scan) && real.cuGraphExecUpdate_v2(exec, clone, &info) == CUDA_SUCCESS;
    (void)real.cuGraphDestroy(clone);
    return done;
}

/* Whether variants are put in by a clone. Not where launches are few between updates: it would cost
 * more than they may gain. */
static bool clone_pays(CUgraphExec exec)
{
    bool pays = false, few = false;
    pthread_mutex_lock(&mutex);
    struct executable *e = handles_find(&table, exec);
    if (e) {
        uint64_t now = atomic_load_explicit(&e->launches, memory_order_relaxed);
        few = e->updated && now - e->updated_at < FEW;
        pays = !few && !e->alone && !e->refuses;
        e->updated = true;
        e->updated_at = now;
    }
    pthread_mutex_unlock(&mutex);
    if (few)
        app_note("graphs that are updated as a whole every few launches run originals");
    return pays;
}

static bool has_variants(const struct executable *e)
{
    for (uint32_t i = 0; e && i < e->part_count; i++)
        if (e->parts[i].variant && e->parts[i].nodes)
            return true;
    return false;
}

/* The app's own update. Where it fails for what only our variants can be to blame for, the app does
 * as it would at any such failure, and makes another executable: from now on without variants. */
static CUresult update_plainly(CUgraphExec exec, graph_run *run, void *self,
                               CUgraphExecUpdateResult *why)
{
    CUresult result = run(self, why);
    bool blame = false;
    pthread_mutex_lock(&mutex);
    struct executable *e = handles_find(&table, exec);
    if (e && result == CUDA_SUCCESS) {
        settle(e);
        for (uint32_t i = 0; i < e->part_count; i++)
            e->parts[i].variant = NULL; /* the same kernels as before, as a rule, but originals */
    }
    if (result == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE &&
        *why != CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED &&
        *why != CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED)
        blame = has_variants(e);
    pthread_mutex_unlock(&mutex);
    if (blame && !atomic_exchange(&updates_fail, true))
        app_note(
            "the driver refused to update a graph that has variants: graphs get none any more");
    return result;
}

static void clone_refused(CUgraphExec exec)
{
    pthread_mutex_lock(&mutex);
    struct executable *e = handles_find(&table, exec);
    if (e)
        e->refuses = true;
    pthread_mutex_unlock(&mutex);
}

CUresult graph_update(CUgraphExec exec, CUgraph graph, graph_run *run, void *self,
                      CUgraphExecUpdateResult *why, bool *done)
{
    struct scan scan = {.swaps = true};
    bool was_inside = inside_kgenrt;
    *done = false;
    if (!variants_any() || atomic_load(&updates_fail) || !clone_pays(exec))
        return update_plainly(exec, run, self, why);
    inside_kgenrt = true;
    graph_scan(&scan, graph);
    *done = scan.any && update_by_clone(exec, graph, &scan);
    inside_kgenrt = was_inside;
    CUresult result = *done ? CUDA_SUCCESS : update_plainly(exec, run, self, why);
    for (uint32_t i = 0; i < scan.count; i++)
        if (!*done)
            scan.seen[i].entry = NULL;
        else if (scan.seen[i].entry)
            unchecked(&scan.seen[i]);
    if (result == CUDA_SUCCESS)
        executable_set(exec, &scan, WHOLE_UPDATE);
    if (result == CUDA_SUCCESS && scan.any && !*done)
        clone_refused(exec);
    free(scan.seen);
    return result;
}

void graph_exec_dying(CUgraphExec exec)
{
    pthread_mutex_lock(&mutex);
    struct executable *e = handles_find(&table, exec);
    if (e) {
        settle(e);
        handles_remove(&table, exec);
        e->retired_ns = now_ns();
        parts_free(e); /* a launch that still stands here counts, and looks at nothing else */
    }
    pthread_mutex_unlock(&mutex);
}

void graph_launched(CUgraphExec exec, CUstream stream)
{
    struct executable *e = handles_find(&table, exec);
    if (e && !(graph_capturing() && !stream_quiet(stream)))
        atomic_fetch_add_explicit(&e->launches, 1, memory_order_relaxed);
}

/* ---- in the watcher ----------------------------------------------------------------------------
 */

static bool in_use(const struct kernel *kernel, CUfunction variant)
{
    const struct swap *swap = atomic_load_explicit(&kernel->swap, memory_order_acquire);
    for (uint32_t i = 0; swap && i < swap->count; i++)
        if (swap->entries[i].function == variant)
            return true;
    return false;
}

/* What an executable has and would not get today. */
static void compare(const struct executable *e)
{
    for (uint32_t i = 0; i < e->part_count; i++) {
        const struct part *part = &e->parts[i];
        if (!part->kernel || !part->nodes)
            continue;
        if (part->variant && !in_use(part->kernel, part->variant))
            part->kernel->graphs_stale++;
        if (!part->variant && !part->offered &&
            atomic_load_explicit(&part->kernel->swap, memory_order_relaxed))
            part->kernel->graphs_behind++;
    }
}

void graphs_tick(void)
{
    uint64_t now = now_ns();
    for (struct kernel *k = kernels_first(); k; k = k->next)
        k->graphs_stale = k->graphs_behind = 0;
    pthread_mutex_lock(&mutex);
    for (struct executable **link = &all, *e; (e = *link);) {
        if (e->retired_ns && now - e->retired_ns > QUIET_NS) {
            *link = e->next;
            parts_free(e);
            free(e);
            continue;
        }
        settle(e);
        if (!e->retired_ns)
            compare(e);
        link = &e->next;
    }
    pthread_mutex_unlock(&mutex);
}

void graphs_forget(struct kernel *kernel)
{
    pthread_mutex_lock(&mutex);
    kernel->forgotten = true;
    for (struct executable *e = all; e; e = e->next)
        for (uint32_t i = 0; i < e->part_count; i++)
            if (e->parts[i].kernel == kernel) {
                settle(e);
                e->parts[i].kernel = NULL;
            }
    pthread_mutex_unlock(&mutex);
}

void graphs_after_fork_child(void)
{
    pthread_mutex_init(&mutex, NULL); /* another thread of the parent may have held it */
    handles_forget(&table);
    all = NULL;
    atomic_store(&graph_captures.count, 0);
}
