/* Records what a device makes of the corpus, or compares it with what another one made of it.
 *
 *   differential record FILE [TEXT]    rows that contain TEXT, else all
 *   differential compare FILE [TEXT]
 *   differential ptx FOLDER [TEXT]     the modules, for a compiler to judge
 *   differential list [TEXT]
 *   differential show FILE [TEXT]      the recorded inputs and results */
#include "differential.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 48, SHOWN = 400 };

struct tally {
    unsigned rows, same, refused, faults, different, missing;
    unsigned long long results;
};

static void keep_only(struct corpus *corpus, const char *text)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < corpus->count; i++)
        if (!text || strstr(corpus->rows[i].text, text))
            corpus->rows[kept++] = corpus->rows[i];
    corpus->count = kept;
}

static bool outcomes_make(const struct corpus *corpus, struct outcome **out)
{
    *out = calloc(corpus->count + 1, sizeof **out);
    for (unsigned i = 0; *out && i < corpus->count; i++) {
        const struct row *row = &corpus->rows[i];
        (*out)[i].data = calloc(row_threads(row), row_bytes(row) + 8u);
        if (!(*out)[i].data)
            return false;
    }
    return *out != NULL;
}

static void outcomes_free(const struct corpus *corpus, struct outcome *outcomes)
{
    for (unsigned i = 0; outcomes && i < corpus->count; i++)
        free(outcomes[i].data);
    free(outcomes);
}

static bool run_all(struct device *device, const struct corpus *corpus, struct outcome *outcomes)
{
    for (unsigned first = 0; first < corpus->count; first += BATCH) {
        const struct row *rows[BATCH];
        unsigned count = corpus->count - first < BATCH ? corpus->count - first : BATCH;
        for (unsigned i = 0; i < count; i++)
            rows[i] = &corpus->rows[first + i];
        if (!device_run(device, rows, count, outcomes + first))
            return false;
    }
    return true;
}

static int record(const char *path, struct corpus *corpus)
{
    struct outcome *outcomes = NULL;
    struct device *device = device_open();
    unsigned refused = 0, faults = 0;
    if (!device)
        return 77;
    bool good = outcomes_make(corpus, &outcomes) && run_all(device, corpus, outcomes);
    for (unsigned i = 0; good && i < corpus->count; i++) {
        refused += outcomes[i].status == ROW_REFUSED;
        faults += outcomes[i].status == ROW_FAULT;
        if (outcomes[i].status != ROW_OK)
            printf("%s: %.300s: %s\n", outcomes[i].status == ROW_FAULT ? "fault" : "refused",
                   corpus->rows[i].text, outcomes[i].message);
    }
    printf("%s: %u rows: %u refused, %u faults\n", device_name(device), corpus->count, refused,
           faults);
    good = good && store_write(path, device_name(device), corpus, outcomes);
    outcomes_free(corpus, outcomes);
    device_close(device);
    return !good;
}

/* One row's verdict. */
static void judge(const struct row *row, const struct outcome *outcome, const struct stored *stored,
                  struct tally *tally)
{
    char text[SHOWN] = "";
    tally->rows++;
    if (outcome->status != ROW_OK) {
        tally->faults++;
        printf("%s: %.300s\n", outcome->message, row->text);
        return;
    }
    unsigned different = row_compare(row, outcome, stored, text, sizeof text);
    tally->results += row_compared(row);
    tally->same += !different;
    tally->different += different != 0;
    if (different)
        printf("%u different: %.300s: %s\n", different, row->text, text);
}

static int compare(const char *path, struct corpus *corpus)
{
    struct tally tally = {0};
    struct store store;
    if (!store_read(path, &store))
        return 1;
    struct stored *stored = calloc(corpus->count + 1, sizeof *stored);
    struct device *device = device_open();
    struct outcome *outcomes = NULL;
    if (!stored || !device)
        return stored ? 77 : 1;
    unsigned kept = 0;
    for (unsigned i = 0; i < corpus->count; i++) {
        struct stored one = store_find(&store, &corpus->rows[i]);
        tally.refused += one.status == ROW_REFUSED;
        tally.missing += one.status == ROW_MISSING || one.status == ROW_FAULT;
        if (one.status == ROW_MISSING || one.status == ROW_FAULT)
            printf("not recorded: %.200s %s\n", corpus->rows[i].text, one.message);
        if (one.status != ROW_OK)
            continue;
        stored[kept] = one;
        corpus->rows[kept++] = corpus->rows[i];
    }
    corpus->count = kept;
    bool good = outcomes_make(corpus, &outcomes) && run_all(device, corpus, outcomes);
    for (unsigned i = 0; good && i < kept; i++)
        judge(&corpus->rows[i], &outcomes[i], &stored[i], &tally);
    printf("%s against %s: %u rows, results of %llu threads compared (of rows within a bound only "
           "the kept ones); %u same, %u different, %u failed; %u refused by the recorded device's "
           "compiler, %u not recorded\n",
           device_name(device), store.device, tally.rows, tally.results, tally.same,
           tally.different, tally.faults, tally.refused, tally.missing);
    outcomes_free(corpus, outcomes);
    device_close(device);
    bytes_free(&store.bytes);
    free(stored);
    return !good || !tally.rows || tally.different || tally.faults || tally.missing;
}

static int write_ptx(const char *folder, const struct corpus *corpus)
{
    for (unsigned i = 0; i < corpus->count; i++) {
        unsigned lines[2];
        const struct row *row = &corpus->rows[i];
        char path[KG_PATH], *text = module_text(&row, 1, lines);
        snprintf(path, sizeof path, "%s/row%04u.ptx", folder, i);
        bool good = file_write(path, text, strlen(text), 0644) == KG_OK;
        free(text);
        if (!good) {
            fprintf(stderr, "%s: cannot be written\n", path);
            return 1;
        }
    }
    return 0;
}

static int show(const char *path, const struct corpus *corpus)
{
    struct store store;
    if (!store_read(path, &store))
        return 1;
    for (unsigned i = 0; i < corpus->count; i++) {
        const struct row *row = &corpus->rows[i];
        struct stored one = store_find(&store, row);
        printf("%s %s\n", row->text, one.status == ROW_MISSING ? "not recorded" : one.message);
        for (unsigned t = 0; one.status == ROW_OK && t < row_raw(row); t++) {
            const unsigned char *at = one.raw;
            for (unsigned k = 0; k < row->input_count; k++)
                printf("%llx ", (unsigned long long)input_value(row, k, t));
            printf("->");
            for (unsigned k = 0; k < row->output_count; k++) {
                unsigned bytes = output_bytes(row->outputs[k]);
                uint64_t value = 0;
                memcpy(&value, at + (size_t)t * bytes, bytes);
                at += (size_t)row_raw(row) * bytes;
                printf(" %llx", (unsigned long long)value);
            }
            printf("\n");
        }
    }
    bytes_free(&store.bytes);
    return 0;
}

int main(int count, char **args)
{
    struct corpus corpus;
    const char *what = count > 1 ? args[1] : "";
    bool lists = !strcmp(what, "list");
    if (count < (lists ? 2 : 3) || !corpus_make(&corpus)) {
        fprintf(stderr,
                "differential record|compare|show FILE [TEXT], ptx FOLDER [TEXT], list [TEXT]\n");
        return 2;
    }
    const char *text = lists ? args[2] : args[3];
    keep_only(&corpus, text);
    int result = 2;
    if (lists) {
        for (unsigned i = 0; i < corpus.count; i++)
            printf("%4u %s\n", i, corpus.rows[i].text);
        result = 0;
    } else if (!strcmp(what, "record")) {
        result = record(args[2], &corpus);
    } else if (!strcmp(what, "compare")) {
        result = compare(args[2], &corpus);
    } else if (!strcmp(what, "show")) {
        result = show(args[2], &corpus);
    } else if (!strcmp(what, "ptx")) {
        result = write_ptx(args[2], &corpus);
    }
    corpus_free(&corpus);
    return result;
}
