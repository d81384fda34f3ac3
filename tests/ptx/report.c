/* ptx_report [FILE...]: what the PTX library makes of each file, one line a file and a sum: size,
 * time to parse, entries, instructions, unknown operations, whether print and parse give the same
 * tree; how many entries are eligible, by reason; and of how many the reach of all pointers is
 * known, for 64 blocks of 256 threads and any integers of four bytes from 1 to 4096.
 * Without files: the corpus of this folder, and its kernels must run as corpus.def says. Exit 0:
 * all of it holds. */
#include "code/reach.h"
#include "ptx/corpus.h"
#include "ptx/same.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REASONS = 64, PARAM_BYTES = 1 << 16 };
static struct {
    unsigned files, entries, unknown, failures, eligible, reach_once, reach_known, reach_tried;
    uint64_t bytes, instructions;
    double ms, model_ms, reach_ms;
    unsigned counts[REASONS]; /* entries that are not eligible, by … */
    char reasons[REASONS][160];
} sum;

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static bool round_trip(const struct ptx_module *module)
{
    struct kg_bytes printed = {0};
    struct ptx_module again = {0};
    char error[200] = "cannot be printed";
    bool same = ptx_print(module, &printed) == KG_OK &&
                ptx_parse((char *)printed.data, printed.size, &again, error, sizeof error) == KG_OK;
    if (!same)
        printf("  printed text: %s\n", error);
    same = same && ptx_same(module, &again);
    ptx_module_free(&again);
    bytes_free(&printed);
    return same;
}

static void say_unknown(const struct ptx_module *module)
{
    for (uint32_t i = 0; i < module->form_count; i++)
        if (module->forms[i]->op == PTX_OP_unknown)
            printf("  unknown operation: %s\n", module->forms[i]->text);
    for (uint32_t i = 0; i < module->mod_text_count; i++)
        printf("  unknown suffix: %s\n", module->mod_texts[i]);
}

static void count_reason(const char *reason)
{
    for (unsigned i = 0; i < REASONS; i++) {
        if (sum.counts[i] && strcmp(sum.reasons[i], reason))
            continue;
        snprintf(sum.reasons[i], sizeof sum.reasons[i], "%s", reason);
        sum.counts[i]++;
        return;
    }
}

static void count_eligible(const struct kg_bytes *text, const struct ptx_func *func, unsigned sm)
{
    struct image_code code = {.selected = *text, .ptx = *text, .sm = sm};
    struct kernel_model model;
    double start = now_ms();
    kg_status status = kernel_model_make(&code, func->name, &model);
    sum.model_ms += now_ms() - start;
    if (status != KG_OK) {
        printf("  %s: no model: %s\n", func->name, status_text(status));
        sum.failures++;
        return;
    }
    if (model.ineligible)
        count_reason(model.ineligible);
    else
        sum.eligible++;
    kernel_model_free(&model);
}

/* Of one launch with each integer 1000, and of all with integers from 1 to 4096. */
static void count_reach(const struct ptx_module *module, const struct ptx_func *func)
{
    static unsigned char params[PARAM_BYTES];
    struct kg_launch launch = {{64, 1, 1}, {256, 1, 1}, 4096};
    struct reach_scalar scalars[64];
    struct reach_launch asked = {
        .launch = &launch, .params = params, .param_bytes = func->param_bytes, .scalars = scalars};
    struct reach reach;
    uint32_t count = 0, number = 1000;
    if (func->param_bytes > PARAM_BYTES)
        return;
    memset(params, 0, sizeof params);
    for (uint32_t i = 0; i + 4 <= func->param_bytes; i += 4)
        memcpy(params + i, &number, 4);
    for (uint32_t i = 0; i < func->param_count; i++) {
        const struct ptx_var *param = func->params[i];
        if (param->size == 8) /* a size, or an address that is nobody's value */
            memset(params + param->offset + 4, 0, 4);
        if (param->size == 4 && ptx_types[param->type].class != PTX_FLOAT && count < 64)
            scalars[count++] = (struct reach_scalar){param->offset, 4, 1, 4096};
    }
    double start = now_ms();
    kg_status status = reach_of(module, func, &asked, &reach);
    sum.reach_once += status == KG_OK && reach.complete;
    reach_free(&reach);
    asked.scalar_count = count;
    status = reach_of(module, func, &asked, &reach);
    sum.reach_known += status == KG_OK && reach.complete;
    reach_free(&reach);
    sum.reach_ms += now_ms() - start;
    sum.reach_tried++;
}

static void report(const char *path)
{
    struct kg_bytes text = {0};
    struct ptx_module module = {0};
    char error[300] = "cannot be read";
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    double start = now_ms();
    bool good = file_read(path, 1 << 28, &text) == KG_OK;
    if (good) {
        start = now_ms();
        good = ptx_parse((char *)text.data, text.size, &module, error, sizeof error) == KG_OK;
    }
    double ms = now_ms() - start;
    if (!good) {
        printf("%-40s %s\n", name, error);
        sum.failures++;
        bytes_free(&text);
        return;
    }
    unsigned entries = 0, instructions = 0;
    for (uint32_t i = 0; i < module.func_count; i++) {
        const struct ptx_func *func = module.funcs[i];
        instructions += func->instr_count;
        if (!func->entry || !func->defined)
            continue;
        entries++;
        count_eligible(&text, func, module.sm);
        count_reach(&module, func);
    }
    bool same = round_trip(&module);
    printf("%-40s %8zu bytes %7.2f ms %4u entries %7u instructions %3u unknown, round trip %s\n",
           name, text.size, ms, entries, instructions, module.unknown_count,
           same ? "equal" : "DIFFERS");
    say_unknown(&module);
    sum.files++;
    sum.entries += entries;
    sum.instructions += instructions;
    sum.unknown += module.unknown_count;
    sum.failures += !same;
    sum.bytes += text.size;
    sum.ms += ms;
    ptx_module_free(&module);
    bytes_free(&text);
}

/* A row that says it does not run and does is to be corrected, so it fails too. */
static bool as_said(const struct corpus_entry *entry, struct exec_result *result)
{
    if (entry->traits & CORPUS_UNRUN) {
        if (result->fault == EXEC_OK)
            snprintf(result->text, sizeof result->text, "it runs: CORPUS_UNRUN is out of date");
        return result->fault == EXEC_UNSUPPORTED;
    }
    if (entry->traits & CORPUS_FAULTS)
        return result->fault == EXEC_TRAP || result->fault == EXEC_ASSERT;
    return result->fault == EXEC_OK;
}

/* Whether the launch ends as the row says; twice with the same bytes, unless order or clock may
 * show. */
static bool run_entry(const struct corpus_entry *entry)
{
    struct corpus_case c;
    struct exec_result result;
    uint64_t hashes[2];
    bool good = true;
    if (!corpus_open(entry, &c)) {
        printf("%-40s not compiled here\n", entry->entry);
        return true;
    }
    for (int i = 0; good && i < 2; i++) {
        struct exec_config config = {.seed = (unsigned)i};
        corpus_fill(&c, 1);
        corpus_run(&c, NULL, &config, &result);
        hashes[i] = corpus_hash(&c);
        good = as_said(entry, &result);
    }
    bool varies = entry->traits & (CORPUS_ORDER | CORPUS_CLOCK);
    if (good && hashes[0] != hashes[1] && !varies) {
        snprintf(result.text, sizeof result.text, "another result in another order of blocks");
        good = false;
    }
    printf("%-40s %12llu instructions  %016llx  %s\n", entry->entry,
           (unsigned long long)result.instructions, (unsigned long long)hashes[0],
           result.fault || !good ? result.text : "ok");
    corpus_close(&c);
    return good;
}

int main(int count, char **files)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < count; i++)
        report(files[i]);
    const char *path;
    for (unsigned i = 0; count == 1 && (path = corpus_path(i)); i++)
        report(path);
    for (unsigned i = 0; count == 1 && i < corpus_count; i++)
        sum.failures += !run_entry(&corpus[i]);
    printf("%u files, %llu bytes in %.1f ms, %u entries, %llu instructions, %u unknown\n",
           sum.files, (unsigned long long)sum.bytes, sum.ms, sum.entries,
           (unsigned long long)sum.instructions, sum.unknown);
    printf("%u entries eligible (models: %.0f ms)\n", sum.eligible, sum.model_ms);
    for (unsigned i = 0; i < REASONS && sum.counts[i]; i++)
        printf("%5u not: %s\n", sum.counts[i], sum.reasons[i]);
    printf(
        "reach of all pointers known: of %u of %u entries for one launch, of %u for all integers "
        "from 1 to 4096 (%.0f ms)\n%u failures\n",
        sum.reach_once, sum.reach_tried, sum.reach_known, sum.reach_ms, sum.failures);
    return sum.failures || !sum.files;
}
