/* Queues and the threads that serve them. Each stream is a queue of operations that run in order;
 * an operation also names others, of other streams, that must be done first (events, the default
 * stream). Threads are made when an operation is ready and none is idle, and never hold a lock
 * while they run it. At process exit kernels are cancelled and the threads are joined, with a bound
 * on the wait, so that nothing hangs. */
#include "graph.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum { WORKERS_MOST = 64 };

volatile bool soft_cancel;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER; /* an operation is ready */
static pthread_cond_t done = PTHREAD_COND_INITIALIZER; /* an operation is done */
static pthread_t workers[WORKERS_MOST];
static unsigned worker_count, idle;
static struct stream *streams; /* of all contexts */

void soft_lock(void)
{
    pthread_mutex_lock(&mutex);
}

void soft_unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

/* ---- operations ---- */

static void call_worker(void);

void *op_create(size_t size)
{
    struct op *op = calloc(1, size);
    if (op)
        op->references = 1;
    return op;
}

void op_release(struct op *op)
{
    if (!op || --op->references)
        return;
    free(op->after);
    free(op);
}

void op_finish(struct op *op, uint64_t end)
{
    soft_lock();
    if (!op->done) {
        op->end = end;
        op->done = true;
        pthread_cond_broadcast(&done);
        call_worker(); /* for what waited for it */
    }
    soft_unlock();
}

void op_discard(struct op *op)
{
    if (op->drop)
        op->drop(op);
    free(op->after);
    free(op);
}

void op_after(struct op *op, struct op *earlier)
{
    if (!earlier || earlier->done)
        return;
    if (op->after_count == op->after_room) {
        unsigned room = op->after_room ? 2 * op->after_room : 4;
        struct op **grown = realloc(op->after, room * sizeof *grown);
        if (!grown) { /* no memory to remember it: wait here instead */
            earlier->references++;
            while (!earlier->done && !soft_cancel)
                pthread_cond_wait(&done, &mutex);
            op_release(earlier);
            return;
        }
        op->after = grown;
        op->after_room = room;
    }
    earlier->references++;
    op->after[op->after_count++] = earlier;
}

static bool op_ready(const struct op *op)
{
    for (unsigned i = 0; i < op->after_count; i++)
        if (!op->after[i]->done)
            return false;
    return true;
}

static bool serveable(const struct stream *stream)
{
    return stream->first && !stream->running && op_ready(stream->first);
}

/* Of those that are ready one of the highest priority, which is the lowest number. */
static struct stream *stream_ready(void)
{
    struct stream *best = NULL;
    for (struct stream *stream = streams; stream; stream = stream->next)
        if (serveable(stream) && (!best || stream->priority < best->priority))
            best = stream;
    return best;
}

static void *worker(void *unused);

/* A thread for the next ready operation, if there is one. */
static void call_worker(void)
{
    if (!stream_ready())
        return;
    if (idle) {
        pthread_cond_signal(&work);
        return;
    }
    if (worker_count == WORKERS_MOST || soft_cancel)
        return;
    sigset_t all, before; /* signals are the application's: its threads take them */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    if (pthread_create(&workers[worker_count], NULL, worker, NULL) == 0)
        worker_count++;
    else if (!worker_count)
        soft_say("cannot start a thread: work will not run");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void stream_free(struct stream *stream)
{
    struct stream **link = &streams;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    link = &stream->context->streams;
    while (*link != stream)
        link = &(*link)->next_of_context;
    *link = stream->next_of_context;
    op_release(stream->tail);
    free(stream);
}

/* Model time at which op starts. */
static uint64_t op_start(const struct op *op, const struct stream *stream)
{
    uint64_t start = op->issued > stream->end ? op->issued : stream->end;
    for (unsigned i = 0; i < op->after_count; i++)
        if (op->after[i]->end > start)
            start = op->after[i]->end;
    return start;
}

/* Runs the stream's first operation. Entered and left with the lock held. */
static void serve(struct stream *stream)
{
    struct op *op = stream->first;
    struct context *context = stream->context;
    uint64_t start = op_start(op, stream);
    op->began = start;
    bool run = op->run && (context->fault == CUDA_SUCCESS || op->even_faulty) && !soft_cancel;
    stream->running = true;
    pthread_mutex_unlock(&mutex);
    CUresult result = run ? op->run(op) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS) { /* before drop, which ends what others wait for */
        pthread_mutex_lock(&mutex);
        if (context->fault == CUDA_SUCCESS)
            context->fault = result;
        pthread_mutex_unlock(&mutex);
    }
    if (op->drop)
        op->drop(op);
    pthread_mutex_lock(&mutex);
    for (unsigned i = 0; i < op->after_count; i++)
        op_release(op->after[i]);
    op->after_count = 0;
    op->end = start + (run ? op->cost : 0);
    op->done = true;
    stream->end = op->end;
    stream->first = op->next;
    if (!stream->first)
        stream->last = NULL;
    stream->running = false;
    op_release(op);
    if (stream->destroyed && !stream->first)
        stream_free(stream);
    pthread_cond_broadcast(&done);
}

static void *worker(void *unused)
{
    pthread_mutex_lock(&mutex);
    while (!soft_cancel) {
        struct stream *stream = stream_ready();
        if (stream) {
            stream->running = true; /* ours, before another thread is called */
            call_worker();
            serve(stream);
            continue;
        }
        idle++;
        pthread_cond_wait(&work, &mutex);
        idle--;
    }
    pthread_mutex_unlock(&mutex);
    return unused;
}

/* The default stream waits for all blocking streams of its context, and they wait for it. */
static void order_default(struct stream *stream, struct op *op)
{
    struct context *context = stream->context;
    if (stream->flags & CU_STREAM_NON_BLOCKING)
        return;
    if (stream != context->legacy) {
        op_after(op, context->legacy->tail);
        return;
    }
    for (struct stream *other = context->streams; other; other = other->next_of_context)
        if (other != stream && !(other->flags & CU_STREAM_NON_BLOCKING))
            op_after(op, other->tail);
}

static void queue(struct stream *stream, struct op *op)
{
    op->stream = stream;
    op->issued = clock_host();
    order_default(stream, op);
    if (stream->last)
        stream->last->next = op;
    else
        stream->first = op;
    stream->last = op;
    op_release(stream->tail);
    stream->tail = op;
    op->references++; /* the queue's and the tail's */
}

/* Who waits runs what it waits for, where no other thread does: a wake-up less on the way. Only
 * what stands before op in its own stream, which has to end first in any case. */
CUresult op_wait(struct op *op, struct context *context)
{
    op->references++;
    while (!op->done && !soft_cancel) {
        if (serveable(op->stream)) {
            op->stream->running = true;
            serve(op->stream);
            call_worker(); /* for what became ready in other streams */
        } else {
            pthread_cond_wait(&done, &mutex);
        }
    }
    if (op->done)
        clock_host_saw(op->end);
    CUresult result = op->done ? context->fault : CUDA_ERROR_DEINITIALIZED;
    op_release(op);
    return result;
}

CUresult op_submit(struct stream *stream, struct op *op, bool wait)
{
    soft_lock();
    CUresult result = CUDA_SUCCESS;
    queue(stream, op);
    if (!wait || !serveable(stream))
        call_worker();
    if (wait)
        result = op_wait(op, stream->context);
    soft_unlock();
    return result;
}

CUresult context_drain(struct context *context)
{
    soft_lock();
    for (struct stream *stream = context->streams; stream;) {
        if (stream->first && !soft_cancel) {
            pthread_cond_wait(&done, &mutex);
            stream = context->streams; /* the list may have changed */
            continue;
        }
        clock_host_saw(stream->end);
        stream = stream->next_of_context;
    }
    CUresult result = soft_cancel ? CUDA_ERROR_DEINITIALIZED : context->fault;
    soft_unlock();
    return result;
}

/* ---- streams ---- */

uint64_t thread_number(void)
{
    static atomic_uint_fast64_t last;
    static _Thread_local uint64_t number;
    if (!number)
        number = atomic_fetch_add(&last, 1) + 1;
    return number;
}

CUresult stream_create(struct context *context, unsigned flags, int priority, struct stream **out)
{
    static uint64_t last_id;
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream || !handle_add(stream, HANDLE_STREAM)) {
        free(stream);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    stream->context = context;
    stream->flags = flags;
    stream->priority = priority;
    stream->id = ++last_id;
    stream->next = streams;
    streams = stream;
    stream->next_of_context = context->streams;
    context->streams = stream;
    *out = stream;
    return CUDA_SUCCESS;
}

static CUresult own_stream(struct context *context, struct stream **out)
{
    CUresult result = CUDA_SUCCESS;
    soft_lock();
    struct stream *stream = context->streams;
    while (stream && stream->owner != thread_number())
        stream = stream->next_of_context;
    if (!stream)
        result = stream_create(context, CU_STREAM_DEFAULT, 0, &stream);
    if (result == CUDA_SUCCESS) {
        stream->owner = thread_number();
        *out = stream;
    }
    soft_unlock();
    return result;
}

CUresult stream_of(struct context *context, CUstream handle, bool per_thread, struct stream **out)
{
    if (handle == CU_STREAM_PER_THREAD || (!handle && per_thread))
        return own_stream(context, out);
    if (!handle || handle == CU_STREAM_LEGACY) {
        *out = context->legacy;
        return CUDA_SUCCESS;
    }
    if (handle_kind_of(handle) != HANDLE_STREAM)
        return CUDA_ERROR_INVALID_HANDLE;
    *out = (struct stream *)handle;
    return (*out)->context->fault;
}

/* The handle is dead already; the queue is served to its end. */
static void stream_forget(struct stream *stream)
{
    capture_forget(stream);
    handle_remove(stream);
    stream->destroyed = true;
    if (!stream->first)
        stream_free(stream);
}

void stream_forget_all(struct context *context)
{
    for (struct stream *stream = context->streams, *next; stream; stream = next) {
        next = stream->next_of_context;
        stream_forget(stream);
    }
    context->legacy = NULL;
}

CUresult cuStreamDestroy_v2(CUstream hStream)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    if (handle_kind_of(hStream) != HANDLE_STREAM)
        return CUDA_ERROR_INVALID_HANDLE;
    struct stream *stream = (struct stream *)hStream;
    soft_lock();
    bool ours = stream == stream->context->legacy || stream->owner;
    if (!ours)
        stream_forget(stream);
    soft_unlock();
    capture_sweep();
    return ours ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream hStream)
{
    return cuStreamDestroy_v2(hStream);
}

/* ---- the end ---- */

/* A callback of the application may never return: it is not waited for beyond two seconds. */
void streams_finish(void)
{
    if (soft_enter() != CUDA_SUCCESS)
        return; /* it was started in a parent of this process */
    pthread_mutex_lock(&mutex);
    __atomic_store_n(&soft_cancel, true, __ATOMIC_RELAXED); /* kernels look without the lock */
    unsigned count = worker_count;
    pthread_cond_broadcast(&work);
    pthread_cond_broadcast(&done);
    pthread_mutex_unlock(&mutex);
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 2;
    for (unsigned i = 0; i < count; i++)
        (void)pthread_timedjoin_np(workers[i], NULL, &limit); /* late ones end with the process */
}
