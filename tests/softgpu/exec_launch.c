/* A launch: blocks in the order that the seed gives, spread over host threads. A block that keeps
 * spinning is parked, so that the block it waits for gets a turn. */
#include "exec_core.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORKERS = 64, PARKED = 64, SMALL = 2048 };

bool lane_fault(struct lane *lane, enum exec_fault fault, const char *format, ...)
{
    const struct block *block = lane->block;
    struct launch *launch = block->worker->launch;
    pthread_mutex_lock(&launch->lock);
    if (launch->result->fault == EXEC_OK) {
        const struct ptx_instr *instr = lane->pc ? lane->pc->instr : NULL;
        char what[320], column[16] = "";
        va_list args;
        if (instr && fault == EXEC_UNSUPPORTED)
            snprintf(column, sizeof column, ":%u", instr->place.column);
        va_start(args, format);
        vsnprintf(what, sizeof what, format, args);
        va_end(args);
        launch->result->fault = fault;
        snprintf(launch->result->text, sizeof launch->result->text,
                 "kernel %.80s, PTX line %u%s, block (%u,%u,%u), thread (%u,%u,%u): %s",
                 launch->kernel->info.name, instr ? instr->place.line : 0, column, block->ctaid[0],
                 block->ctaid[1], block->ctaid[2], lane->tid[0], lane->tid[1], lane->tid[2], what);
    }
    __atomic_store_n(&launch->stop, true, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&launch->lock);
    return false;
}

static void block_free(struct block *block)
{
    if (!block)
        return;
    for (uint32_t i = 0; block->lanes && i < block->worker->launch->lane_count; i++)
        free(block->lanes[i].frames);
    for (uint32_t i = 0; block->warps && i < block->warp_count; i++)
        free(block->warps[i].stack);
    free(block->lanes);
    free(block->warps);
    free(block->slots);
    free(block->ready);
    free(block->shared);
    free(block->local);
    free(block);
}

static struct block *block_create(struct worker *worker)
{
    const struct launch *launch = worker->launch;
    size_t lanes = launch->lane_count, warps = (lanes + WARP - 1) / WARP;
    size_t frame = (size_t)launch->kernel->func->slot_count * WARP;
    struct block *block = calloc(1, sizeof *block);
    if (!block)
        return NULL;
    block->worker = worker;
    block->warp_count = (uint32_t)warps;
    block->lanes = calloc(lanes, sizeof *block->lanes);
    block->warps = calloc(warps, sizeof *block->warps);
    block->slots = aligned_alloc(64, warps * frame * sizeof *block->slots);
    block->shared = malloc(launch->shared_bytes + 16u);
    block->local = malloc(lanes * launch->local_bytes + 16u);
    block->ready_slots = worker->model ? launch->kernel->func->slot_count : 0;
    block->ready = malloc((warps * block->ready_slots + 1) * sizeof *block->ready);
    if (!block->lanes || !block->warps || !block->slots || !block->shared || !block->local ||
        !block->ready) {
        block_free(block);
        return NULL;
    }
    memset(block->slots, 0, warps * frame * sizeof *block->slots);
    for (uint32_t i = 0; i < warps; i++) {
        uint32_t count = (uint32_t)(lanes - i * WARP < WARP ? lanes - i * WARP : WARP);
        block->warps[i] = (struct warp){.block = block,
                                        .lanes = block->lanes + i * WARP,
                                        .count = count,
                                        .all = UINT32_MAX >> (WARP - count),
                                        .base = block->slots + i * frame,
                                        .ready = block->ready + (size_t)i * block->ready_slots};
    }
    return block;
}

static void out_of_memory(struct launch *launch)
{
    pthread_mutex_lock(&launch->lock);
    if (launch->result->fault == EXEC_OK) {
        launch->result->fault = EXEC_UNSUPPORTED;
        snprintf(launch->result->text, sizeof launch->result->text,
                 "kernel %.80s: out of host memory for a block of %u threads",
                 launch->kernel->info.name, launch->lane_count);
    }
    __atomic_store_n(&launch->stop, true, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&launch->lock);
}

/* A new block if there is one left, else one that was parked, else NULL. */
static struct block *next_block(struct worker *worker)
{
    struct launch *launch = worker->launch;
    struct block *block = NULL, **last = &worker->parked;
    /* blocks of a cooperative launch may all wait for the last one */
    if (worker->parked_count < PARKED || launch->config->cooperative) {
        uint64_t turn = __atomic_fetch_add(&launch->next_block, 1, __ATOMIC_RELAXED);
        if (turn < launch->block_count) {
            block = worker->idle ? worker->idle : block_create(worker);
            if (!block) {
                out_of_memory(launch);
                return NULL;
            }
            worker->idle = block == worker->idle ? block->next : worker->idle;
            uint64_t number =
                (uint64_t)(((unsigned __int128)turn * launch->order_step + launch->order_start) %
                           launch->block_count);
            block_begin(block, number);
            return block;
        }
    }
    while (*last && (*last)->next) /* the one parked longest ago */
        last = &(*last)->next;
    block = *last;
    if (block) {
        *last = NULL;
        worker->parked_count--;
    }
    return block;
}

static void *work(void *self)
{
    struct worker *worker = self;
    struct block *block;
    while (!__atomic_load_n(&worker->launch->stop, __ATOMIC_ACQUIRE) &&
           (block = next_block(worker))) {
        enum block_end end = block_run(block);
        if (end == BLOCK_DONE && worker->model)
            model_block_end(block);
        struct block **list = end == BLOCK_YIELDS ? &worker->parked : &worker->idle;
        worker->parked_count += end == BLOCK_YIELDS;
        block->next = *list;
        *list = block;
    }
    struct block *lists[] = {worker->parked, worker->idle};
    for (int i = 0; i < 2; i++) {
        while (lists[i]) {
            block = lists[i];
            lists[i] = block->next;
            block_free(block);
        }
    }
    return NULL;
}

/* Block order: an affine walk over all blocks; ascending for seed 0. */
static void order_blocks(struct launch *launch, uint64_t seed)
{
    launch->order_step = 1;
    launch->order_start = 0;
    if (!seed)
        return;
    uint64_t mixed = (seed ^ seed >> 31) * UINT64_C(0x9E3779B97F4A7C15);
    mixed = (mixed ^ mixed >> 29) * UINT64_C(0xBF58476D1CE4E5B9);
    launch->order_start = mixed % launch->block_count;
    for (uint64_t step = (mixed >> 20) % launch->block_count;; step++) {
        uint64_t a = launch->block_count, b = step % launch->block_count;
        launch->order_step = b;
        while (b) {
            uint64_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1)
            return;
    }
}

static void run_workers(struct launch *launch, unsigned count)
{
    struct worker *workers = calloc(count, sizeof *workers);
    pthread_t threads[WORKERS];
    unsigned started = 0;
    if (!workers) {
        out_of_memory(launch);
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        workers[i].launch = launch;
        workers[i].model = launch->config->device ? model_create(launch) : NULL;
        if (launch->config->device && !workers[i].model)
            out_of_memory(launch);
        if (launch->config->strict & EXEC_STRICT_RACES && !(workers[i].race = race_create(launch)))
            out_of_memory(launch);
    }
    while (started + 1 < count &&
           !pthread_create(&threads[started], NULL, work, &workers[started + 1]))
        started++;
    work(&workers[0]);
    for (unsigned i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < count; i++)
        launch->result->instructions += workers[i].instructions;
    for (unsigned i = 1; i < count; i++)
        model_end(workers[i].model, workers[0].model);
    if (workers[0].model)
        model_result(workers[0].model, &launch->result->counts);
    model_end(workers[0].model, NULL);
    for (unsigned i = 0; i < count; i++)
        race_end(workers[i].race);
    free(workers);
}

static bool launch_check(struct launch *launch)
{
    const struct kg_launch *config = &launch->config->launch;
    uint64_t threads = (uint64_t)config->block.x * config->block.y * config->block.z;
    unsigned __int128 blocks = (unsigned __int128)config->grid.x * config->grid.y * config->grid.z;
    const struct exec_info *info = &launch->kernel->info;
    if (config->block.x <= MAX_THREADS && config->block.y <= MAX_THREADS && threads &&
        threads <= info->max_threads && blocks && blocks < (uint64_t)1 << 62 &&
        config->shared <= 1u << 28) {
        launch->lane_count = (uint32_t)threads;
        launch->block_count = (uint64_t)blocks;
        return true;
    }
    launch->result->fault = EXEC_UNSUPPORTED;
    snprintf(launch->result->text, sizeof launch->result->text,
             "kernel %.80s: launch of (%u,%u,%u) blocks of (%u,%u,%u) threads, %u bytes shared",
             info->name, config->grid.x, config->grid.y, config->grid.z, config->block.x,
             config->block.y, config->block.z, config->shared);
    return false;
}

void exec_launch(const struct exec_kernel *kernel, const struct exec_config *config,
                 const void *params, struct exec_result *out)
{
    /* small and large numbers, NaN: by turns, so that what depends on them varies */
    static const unsigned char dirt[] = {0xA5, 0x7F, 0xFF};
    static atomic_uint launches;
    struct launch launch = {.kernel = kernel, .config = config, .result = out};
    launch.dirt = dirt[atomic_fetch_add_explicit(&launches, 1, memory_order_relaxed) % 3];
    const struct exec_module *module = kernel->func->module;
    *out = (struct exec_result){.fault = EXEC_OK};
    if (!launch_check(&launch))
        return;
    unsigned char *copy = calloc(1, kernel->info.param_bytes + 8u); /* read eight bytes at a time */
    if (!copy) {
        out->fault = EXEC_UNSUPPORTED;
        snprintf(out->text, sizeof out->text, "out of host memory");
        return;
    }
    if (kernel->info.param_bytes)
        memcpy(copy, params, kernel->info.param_bytes);
    launch.params = copy;
    launch.local_bytes = (kernel->func->stack_bytes + 15) & ~15u;
    launch.shared_bytes = kernel->func->shared_bytes;
    launch.gap = launch.dynamic = launch.shared_bytes;
    if (config->launch.shared) {
        launch.dynamic = module->dynamic_offset;
        launch.shared_bytes = launch.dynamic + config->launch.shared;
    }
    if (config->device)
        launch.resident = model_resident(config->device, launch.lane_count, kernel->info.registers,
                                         launch.shared_bytes);
    launch.careful = config->record != NULL || config->strict;
    order_blocks(&launch, config->seed);
    pthread_mutex_init(&launch.lock, NULL);
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned count = config->threads ? config->threads : processors > 0 ? (unsigned)processors : 1;
    count = count > WORKERS ? WORKERS : count;
    if (count > launch.block_count)
        count = (unsigned)launch.block_count;
    if (!config->threads && launch.block_count * launch.lane_count < SMALL)
        count = 1;
    if (config->strict & EXEC_STRICT_RACES)
        count = 1;
    run_workers(&launch, count);
    pthread_mutex_destroy(&launch.lock);
    free(copy);
}
