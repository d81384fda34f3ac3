/* ptx_report [FILE...]: what the PTX library makes of each file, one line a file and a sum: size,
 * time to parse, entries, instructions, unknown operations, and whether print and parse give the
 * same tree. Without files: the corpus of this folder; then every runnable kernel must be there and
 * its launch must end as corpus.def says. Exit 0: all of it holds. */
#include "ptx/corpus.h"
#include "ptx/same.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct {
    unsigned files, entries, unknown, failures;
    uint64_t bytes, instructions;
    double ms;
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
        entries += module.funcs[i]->entry && module.funcs[i]->defined;
        instructions += module.funcs[i]->instr_count;
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
        bool faults = result.fault == EXEC_TRAP || result.fault == EXEC_ASSERT;
        good = entry->traits & CORPUS_FAULTS ? faults : result.fault == EXEC_OK;
        good |= entry->traits & CORPUS_UNRUN && result.fault == EXEC_UNSUPPORTED;
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
    printf(
        "%u files, %llu bytes in %.1f ms, %u entries, %llu instructions, %u unknown, %u failures\n",
        sum.files, (unsigned long long)sum.bytes, sum.ms, sum.entries,
        (unsigned long long)sum.instructions, sum.unknown, sum.failures);
    return sum.failures || !sum.files;
}
