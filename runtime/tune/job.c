/* A capture's way through the worker: one table of steps for the job, one for each candidate. What
 * comes of every candidate is stored with the gate and the reason, and the job's note says where it
 * stands, so that `kgenrt status` and `kgenrt show` need nothing but the store. */
#include "tune/job.h"

#include "tune/makers.h"
#include "tune/replay.h"
#include "suspects.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_ATTEMPTS = 16 };

/* A job with its current candidate. */
struct work {
    struct job job;
    const char *capture_path;
    bool opened;      /* the capture has been read */
    bool keyed;       /* the job's key is final */
    bool waits;       /* no replay could be made when it was tried last, and none has been since */
    const char *over; /* why there is nothing (more) to do; NULL: go on */
    bool has_variant; /* a verified one, already */
    bool unable;      /* a maker cannot work now */
    bool replayed;    /* the original, before a model is asked */
    kg_status failed; /* something but a verdict ended the job */
    unsigned published, refused;

    const struct maker *maker;
    const char *argument;
    unsigned attempt, turn;
    const struct candidate *previous;
    const char *message;
    struct candidate candidate;
    struct verdict verdict;
    struct replay_run run;
    struct kg_id blob; /* of the candidate, once it is stored */
    bool known;        /* refused before: not stored again */
};

/* ---- steps -------------------------------------------------------------------------------------
 */

/* Test hook: KGENRT_TEST_DIE=STEP kills the worker on entry to that step, as a crash or the
 * out-of-memory killer would; end:STEP tells it to end there, as `kgenrt run` does. */
static void die_if_asked(const char *step)
{
    const char *die = getenv("KGENRT_TEST_DIE");
    bool told = die && !strncmp(die, "end:", 4);
    if (!die || strcmp(die + (told ? 4 : 0), step))
        return;
    log_line(KG_WARN, "killed on entry to %s, as KGENRT_TEST_DIE asks", step);
    (void)raise(told ? SIGTERM : SIGKILL);
}

kg_status steps_run(const struct step *steps, unsigned count, void *self,
                    void (*entered)(void *self, const char *name), const char **failed)
{
    *failed = NULL;
    for (unsigned i = 0; i < count; i++) {
        entered(self, steps[i].name);
        kg_status status = steps[i].run(self);
        if (status == KG_OK)
            continue;
        *failed = steps[i].name;
        return status;
    }
    return KG_OK;
}

static void note(struct work *work, const char *state, const char *detail)
{
    struct job *job = &work->job;
    if (!work->opened)
        return;
    struct kg_job_note text = {.hardware = job->hardware,
                               .kernel = job->capture.kernel,
                               .signature = job->signature_key,
                               .time = (uint64_t)time(NULL)};
    snprintf(text.kernel_name, sizeof text.kernel_name, "%s", job->capture.entry);
    snprintf(text.state, sizeof text.state, "%s", state);
    snprintf(text.detail, sizeof text.detail, "%s", detail);
    (void)store_put_job(job->store, &text); /* says itself what failed; the job goes on */
}

/* Where it is now; of a capture that waits, its note goes on saying for what. */
static void note_step(struct work *work, const char *step, const char *detail)
{
    if (work->keyed && !work->waits)
        note(work, step, detail);
}

static void enter(void *self, const char *step)
{
    struct work *work = self;
    char detail[128] = "";
    if (work->maker)
        snprintf(detail, sizeof detail, "maker %s, candidate %u, turn %u", work->maker->name,
                 work->attempt, work->turn);
    note_step(work, step, detail);
    die_if_asked(step);
}

/* ---- the job's own steps -----------------------------------------------------------------------
 */

kg_status job_open(struct job *job, const char *capture_path)
{
    kg_status status = path_make(job->capture_path, "%s", capture_path);
    if (status == KG_OK)
        status = capture_read(job->capture_path, &job->capture);
    if (status == KG_OK)
        status = capture_signature(&job->capture, &job->signature);
    if (status != KG_OK)
        return status;
    hardware_key(&job->capture.hardware, &job->hardware);
    signature_id(&job->signature, &job->signature_key);
    return KG_OK;
}

kg_status job_model(struct job *job)
{
    bool soft = !strcmp(job->capture.hardware.vendor, "softgpu");
    kg_status status = image_select(job->capture.image, job->capture.image_size,
                                    job->capture.hardware.arch, soft, &job->image);
    if (status == KG_OK)
        status = kernel_model_make(&job->image, job->capture.entry, &job->model);
    if (status == KG_OK)
        status = signature_narrow(job);
    signature_id(&job->signature, &job->signature_key);
    return status;
}

void job_close(struct job *job)
{
    kernel_model_free(&job->model);
    image_code_free(&job->image);
    signature_free(&job->signature);
    capture_free(&job->capture);
    arena_free(&job->arena);
}

static kg_status open_capture(void *self)
{
    struct work *work = self;
    struct job *job = &work->job;
    kg_status status = job_open(job, work->capture_path);
    if (status != KG_OK)
        return status;
    work->opened = true;
    return store_put_hardware(job->store, &job->capture.hardware);
}

struct search {
    const struct work *work;
    const char *maker;        /* rejections: of this maker only */
    const struct kg_id *blob; /* of this candidate only; NULL: any */
    unsigned found;
    struct suspects suspects; /* variants: those that a process died with do not count … */
    bool suspended;           /* … this one was met */
    struct kg_id id;          /* of the variant that was met last */
};

static bool match_variant(void *self, const struct kg_variant *v, bool best)
{
    struct search *search = self;
    const struct job *job = &search->work->job;
    if (best && id_equal(&v->hardware, &job->hardware) && id_equal(&v->kernel, &job->model.id) &&
        v->driver_version == job->capture.hardware.driver_version) {
        bool same = signature_holds(&v->signature, &job->capture);
        search->suspended = same && suspects_variant(&search->suspects, &v->id, v->time);
        search->id = v->id;
        search->found += same && !search->suspended;
    }
    return !search->found && !search->suspended;
}

/* A candidate that was too slow under another driver gets another chance. */
static bool match_rejection(void *self, const struct kg_rejection *r)
{
    struct search *search = self;
    const struct job *job = &search->work->job;
    if (!strcmp(r->gate, GATE_DOUBT))
        return true;
    if (search->blob && !strcmp(r->gate, "time") &&
        r->driver_version != job->capture.hardware.driver_version)
        return true;
    search->found +=
        id_equal(&r->hardware, &job->hardware) && id_equal(&r->kernel, &job->model.id) &&
        id_equal(&r->signature, &job->signature_key) && !strcmp(r->maker, search->maker) &&
        (!search->blob || id_equal(&r->candidate, search->blob));
    return true;
}

static unsigned rejections(const struct work *work, const char *maker, const struct kg_id *blob)
{
    struct search search = {.work = work, .maker = maker, .blob = blob};
    if (store_each_rejection(work->job.store, match_rejection, &search) != KG_OK)
        return 0;
    return search.found;
}

static bool match_waiting(void *self, const struct kg_job_note *note)
{
    struct work *work = self;
    const struct job *job = &work->job;
    work->waits = id_equal(&note->hardware, &job->hardware) &&
                  id_equal(&note->kernel, &job->capture.kernel) &&
                  id_equal(&note->signature, &job->signature_key) &&
                  !strcmp(note->state, JOB_WAITING);
    return !work->waits;
}

static kg_status analyse(void *self)
{
    struct work *work = self;
    struct job *job = &work->job;
    struct search search = {.work = work};
    kg_status status = job_model(job);
    if (status != KG_OK)
        return status;
    work->keyed = true;
    (void)store_each_job(job->store, match_waiting, work); /* says itself what failed */
    if (!id_equal(&job->model.id, &job->capture.kernel))
        log_line(KG_INFO, "%s: the capture was made by another version of kgenrt",
                 job->capture.entry);
    if (job->model.ineligible)
        work->over = job->model.ineligible;
    status = job_put_kernel(job, work->over);
    if (status == KG_OK && !work->over)
        recheck_doubts(job);
    suspects_read(job->dir, &search.suspects, NULL, NULL);
    if (status == KG_OK && !work->over)
        status = store_each_variant(job->store, match_variant, &search);
    if (search.suspended)
        status = store_demote(job->store, &search.id, "a process that used it died");
    if (search.suspended && status == KG_OK)
        status = snapshot_make(job->store, job->dir, &job->hardware);
    if (status == KG_OK && !work->over)
        status = job_find_others(job);
    work->has_variant = search.found;
    if (search.found) {
        work->over = "has a verified variant already";
        recheck_later(job, &search.id);
    }
    return status;
}

static const struct step job_steps[] = {{"open", open_capture}, {"analyse", analyse}};

/* ---- a candidate's steps -----------------------------------------------------------------------
 */

/* What a candidate is, as text: the head says what its source does not. Equal candidates give equal
 * text, and so the same blob. */
static kg_status put_candidate(struct work *work)
{
    const struct candidate *c = &work->candidate;
    const struct kg_launch *l = &c->launch;
    const char *body = c->source ? c->source : c->ptx ? c->ptx : c->reply ? c->reply : "";
    char *globals = arena_copy(&work->job.arena, "", 0);
    for (uint32_t i = 0; globals && i < c->global_count; i++)
        globals = arena_format(&work->job.arena, "%s %s", globals, c->globals[i]);
    char *text = globals
                     ? arena_format(&work->job.arena,
                                    "// entry %s, grid %u %u %u, block %u %u %u, shared %u, "
                                    "variables:%s\n%s",
                                    c->entry ? c->entry : "-", l->grid.x, l->grid.y, l->grid.z,
                                    l->block.x, l->block.y, l->block.z, l->shared, globals, body)
                     : NULL;
    return text ? store_put_blob(work->job.store, text, strlen(text), &work->blob) : KG_NO_MEMORY;
}

/* Under whose name a refusal counts: those of a maker's variants for other launches are not the
 * maker's answers to this one. */
static const char *blamed(const struct work *work)
{
    return work->maker == &known_maker ? known_maker.name : work->candidate.maker;
}

static kg_status generate(void *self)
{
    struct work *work = self;
    struct candidate *c = &work->candidate;
    kg_status status = work->maker->make(&work->job, work->argument, work->attempt, work->turn,
                                         work->previous, work->message, c);
    if (!c->maker)
        c->maker = work->maker->name;
    if (status != KG_OK && status != KG_BAD_INPUT)
        return status;
    kg_status stored = put_candidate(work);
    if (status == KG_BAD_INPUT)
        verdict_set(&work->verdict, status, "reply", "%s", c->note ? c->note : "malformed reply");
    if (status != KG_OK || stored != KG_OK)
        return status != KG_OK ? status : stored;
    work->known = rejections(work, blamed(work), &work->blob);
    if (!work->known)
        return KG_OK;
    verdict_set(&work->verdict, KG_REFUSED, "reply", "this very candidate was refused before");
    return KG_REFUSED;
}

static kg_status compile(void *self)
{
    struct work *work = self;
    char message[sizeof work->verdict.reason] = "";
    if (work->candidate.code.data)
        return KG_OK; /* known code */
    kg_status status = compile_candidate(&work->job, &work->candidate, message, sizeof message);
    if (status != KG_OK)
        verdict_set(&work->verdict, status, "compile", "%s",
                    *message ? message : status_text(status));
    return status;
}

static kg_status admission(void *self)
{
    struct work *work = self;
    return admit(&work->job, &work->candidate, &work->verdict);
}

/* Starts the replay child and follows it through the gates; `timing` follows it to its end. */
static kg_status verify(void *self)
{
    struct work *work = self;
    bool ended;
    kg_status status = replay_begin(&work->job, &work->candidate, 0, &work->run);
    if (status != KG_OK) {
        verdict_set(&work->verdict, status, "replay", "%s",
                    *work->run.why ? work->run.why : "the replay could not be started");
        return status;
    }
    status = replay_wait(&work->run, "time", &work->verdict, &ended);
    work->waits &= status != KG_OK;
    if (status != KG_OK || !ended)
        return status;
    verdict_set(&work->verdict, KG_CHILD, "time", "the replay child ended before timing");
    return KG_CHILD;
}

static kg_status timing(void *self)
{
    struct work *work = self;
    bool ended;
    kg_status status = replay_wait(&work->run, NULL, &work->verdict, &ended);
    return status;
}

static kg_status publish(void *self)
{
    struct work *work = self;
    return publish_variant(&work->job, &work->candidate, &work->verdict);
}

static const struct step candidate_steps[] = {{"generate", generate}, {"compile", compile},
                                              {"admit", admission},   {"verify", verify},
                                              {"time", timing},       {"publish", publish}};

/* A verdict about the candidate: the maker may try again. Else the job or the maker cannot go on.
 */
static bool about_candidate(kg_status status)
{
    return status == KG_COMPILE || status == KG_REFUSED || status == KG_BAD_INPUT ||
           status == KG_SLOWER || status == KG_TIMEOUT;
}

static void put_rejection(struct work *work, const char *step)
{
    const struct job *job = &work->job;
    const struct verdict *verdict = &work->verdict;
    struct kg_rejection r = {.hardware = job->hardware,
                             .kernel = job->model.id,
                             .signature = job->signature_key,
                             .driver_version = job->capture.hardware.driver_version,
                             .time = (uint64_t)time(NULL)};
    if (about_candidate(verdict->status))
        r.candidate = work->blob; /* else it may be tried again */
    snprintf(r.kernel_name, sizeof r.kernel_name, "%s", job->capture.entry);
    snprintf(r.maker, sizeof r.maker, "%s", blamed(work));
    snprintf(r.gate, sizeof r.gate, "%s", *verdict->gate ? verdict->gate : step);
    snprintf(r.reason, sizeof r.reason, "%s", verdict->reason);
    if (!strcmp(r.gate, "time")) {
        r.ratio = verdict->ratio;
        r.low = verdict->low;
        r.high = verdict->high;
    }
    if (verdict->evidence && store_put_blob(job->store, verdict->evidence,
                                            strlen(verdict->evidence), &r.evidence) != KG_OK)
        r.evidence = (struct kg_id){{0}};
    log_line(KG_INFO, "%s: %s's candidate refused by gate %s: %s", r.kernel_name, r.maker, r.gate,
             r.reason);
    (void)store_put_rejection(job->store, &r); /* says itself what failed; the job goes on */
}

static void refuse_candidate(struct work *work, kg_status status, const char *failed)
{
    bool made = strcmp(failed, "generate") || about_candidate(status);
    if (made && !*work->verdict.reason)
        verdict_set(&work->verdict, status, failed, "%s", status_text(status));
    if (made && !work->known && status != KG_BUSY)
        put_rejection(work, failed);
    work->refused += made;
    if (made && status == KG_NOT_ELIGIBLE)
        work->over = arena_format(&work->job.arena, "%s", work->verdict.reason);
    else if (made && !about_candidate(status))
        work->failed = status;
}

/* One candidate through its steps, and the book-keeping of what came of it. */
static kg_status try_candidate(struct work *work)
{
    const char *failed;
    work->candidate = (struct candidate){0};
    work->verdict = (struct verdict){0};
    work->blob = (struct kg_id){0};
    work->known = false;
    work->run = (struct replay_run){.fd = -1};
    kg_status status = steps_run(candidate_steps, sizeof candidate_steps / sizeof *candidate_steps,
                                 work, enter, &failed);
    replay_end(&work->run);
    bytes_free(&work->candidate.code);
    work->published += status == KG_OK;
    if (status != KG_OK)
        refuse_candidate(work, status, failed);
    free(work->verdict.evidence);
    work->verdict.evidence = NULL;
    return status;
}

/* A candidate and its repairs. */
static kg_status try_turns(struct work *work)
{
    unsigned turns = work->maker->turns;
    if (turns > (unsigned)options()->repair_turns)
        turns = (unsigned)options()->repair_turns;
    work->previous = NULL;
    work->message = NULL;
    for (work->turn = 0;; work->turn++) {
        kg_status status = try_candidate(work);
        if (work->turn >= turns || !about_candidate(status))
            return status;
        struct candidate *kept = arena_alloc(&work->job.arena, sizeof *kept);
        if (!kept)
            return KG_NO_MEMORY;
        *kept = work->candidate;
        work->previous = kept;
        work->message =
            arena_format(&work->job.arena, "%s: %s", work->verdict.gate, work->verdict.reason);
    }
}

/* Each answer of a model costs: the original is replayed before the first is asked. */
static kg_status replays(struct work *work)
{
    note_step(work, "replay", "of the original");
    kg_status status = replay_original(&work->job, 1, &work->verdict);
    free(work->verdict.evidence);
    work->verdict.evidence = NULL;
    work->replayed = status == KG_OK;
    work->waits &= !work->replayed;
    if (status == KG_NOT_ELIGIBLE)
        work->over = arena_format(&work->job.arena, "%s", work->verdict.reason);
    else
        work->failed = status;
    return status;
}

static bool ask_maker(void *self, const struct maker *maker, const char *argument)
{
    struct work *work = self;
    work->maker = maker;
    work->argument = argument;
    if (maker->turns && rejections(work, maker->name, NULL) > (unsigned)options()->repair_turns) {
        log_line(KG_INFO, "%s: %s was asked before, in vain", work->job.capture.entry, maker->name);
        return true; /* each answer of a model costs */
    }
    if (maker->turns && !work->replayed && replays(work) != KG_OK)
        return false;
    for (work->attempt = 0; work->attempt < MOST_ATTEMPTS; work->attempt++) {
        kg_status status = try_turns(work);
        if (work->over || work->failed)
            return false;
        if (status == KG_OK || about_candidate(status))
            continue;
        if (status == KG_NO_CANDIDATE)
            return true;
        log_line(KG_WARN, "maker %s cannot work: %s", maker->name, status_text(status));
        work->unable = true;
        return true;
    }
    return true;
}

/* What serves other launches of this kernel may serve this one, too; then nobody else is asked. */
static void ask_known(struct work *work)
{
    (void)ask_maker(work, &known_maker, "");
    if (work->published)
        work->over = "a variant that was known serves this launch, too";
}

/* ---- the job -----------------------------------------------------------------------------------
 */

/* Tells apps that there is nothing to be had for this kernel, once every maker had its say; or that
 * there is. What happens to the file is said by who writes it: the job is done anyway. */
static void judge(struct work *work)
{
    struct job *job = &work->job;
    const char *others;
    if (work->published || work->has_variant || known_launches(job, &others))
        judged_remove(job->dir, &job->hardware, &job->model.id);
    else if (!work->unable)
        (void)judged_put(job->dir, &job->hardware, &job->model.id,
                         job->capture.hardware.driver_version);
}

static void finish(struct work *work, kg_status status, const char *failed)
{
    char detail[512];
    work->maker = NULL;
    if (status == KG_OK)
        snprintf(detail, sizeof detail, "%u published, %u refused%s%.400s", work->published,
                 work->refused, work->over ? "; " : "", work->over ? work->over : "");
    else
        snprintf(detail, sizeof detail, "%s: %.300s", failed,
                 *work->verdict.reason ? work->verdict.reason : status_text(status));
    note(work, status == KG_OK ? "done" : status == KG_BUSY ? JOB_WAITING : "failed", detail);
    log_line(status == KG_OK ? KG_INFO : KG_WARN, "%s: %s",
             work->opened ? work->job.capture.entry : work->capture_path, detail);
}

kg_status job_run(struct store *store, const char *dir, const char *capture_path, bool keep)
{
    struct work *work = calloc(1, sizeof *work);
    const char *failed = "open";
    if (!work)
        return KG_NO_MEMORY;
    struct job *job = &work->job;
    job->store = store;
    job->dir = dir;
    work->capture_path = capture_path;
    kg_status status =
        steps_run(job_steps, sizeof job_steps / sizeof *job_steps, work, enter, &failed);
    if (status == KG_OK && !work->over) {
        ask_known(work);
        if (!work->over && !work->failed)
            makers_each(ask_maker, work);
        status = work->failed;
        failed = work->verdict.gate;
    }
    if (status == KG_OK)
        judge(work);
    finish(work, status, failed);
    if (status == KG_OK && !keep && unlink(capture_path) && errno != ENOENT)
        log_line(KG_WARN, "%s: cannot be removed: %s", capture_path, strerror(errno));
    if (status == KG_OK && !keep)
        job_remove_others(job);
    job_close(job);
    free(work);
    return status;
}
