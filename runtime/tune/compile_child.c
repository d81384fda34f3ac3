/* The compile child: the only process in which a compiler meets a candidate. It opens the
 * compilers, gives up files, network, memory and time beyond what they need, and only then reads
 * what it is to compile. It writes nothing but its answer on standard output. */
#include "tune/compile.h"

#include "gpu/nvjitlink.h"
#include "gpu/nvrtc.h"
#include "tune/tune.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct answer {
    struct compile_answer head;
    char message[COMPILE_MESSAGE];
    struct kg_bytes ptx, code;
};

static bool input_read(void *out, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = read(0, (char *)out + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

static kg_status answer_fail(struct answer *answer, kg_status status, const struct kg_bytes *log,
                             const char *words)
{
    if (log && log->data)
        log_trim((const char *)log->data, answer->message, sizeof answer->message);
    if (!*answer->message)
        snprintf(answer->message, sizeof answer->message, "%s", words);
    return status;
}

static void source_fail(const struct compile_question *question, const struct nvrtc_output *output,
                        kg_status status, struct answer *answer)
{
    const char *log = output->log.data ? (const char *)output->log.data : "";
    if (status == KG_UNSUPPORTED) {
        answer_fail(answer, status, NULL, "NVRTC knows no architecture as old as this GPU's");
        return;
    }
    log_trim(log, answer->message, sizeof answer->message);
    if (!*answer->message && strstr(log, LOG_NAME_MAP))
        snprintf(answer->message, sizeof answer->message,
                 "\"entry\" is \"%s\", which is not one function of the cuda block",
                 question->entry);
    answer_fail(answer, status, NULL, "NVRTC failed without a word");
}

static kg_status to_ptx(const struct compile_question *question, const char *text,
                        struct answer *answer)
{
    unsigned sm = (unsigned)strtoul(question->arch + 3, NULL, 10);
    struct nvrtc_output output;
    kg_status status = nvrtc_compile(text, question->entry, sm, &output);
    if (status != KG_OK) {
        source_fail(question, &output, status, answer);
        nvrtc_free(&output);
        return status;
    }
    answer->ptx = output.ptx;
    output.ptx = (struct kg_bytes){0};
    snprintf(answer->head.entry, sizeof answer->head.entry, "%s", output.entry);
    nvrtc_free(&output);
    char first[COMPILE_ENTRY];
    unsigned count = ptx_entries((const char *)answer->ptx.data, first);
    if (count == 1 && !strcmp(first, answer->head.entry))
        return KG_OK;
    snprintf(answer->message, sizeof answer->message,
             "the source has %u __global__ functions; exactly one is asked for, \"%s\"", count,
             question->entry);
    return KG_COMPILE;
}

/* The GPU's architecture, with the letter of a PTX that was written for just this one (sm_90a, as
 * Triton's): it compiles for no other name. */
static void arch_of(const struct compile_question *question, const char *ptx,
                    char arch[static sizeof question->arch])
{
    const char *target = strstr(ptx, ".target");
    size_t length = strlen(question->arch);
    memcpy(arch, question->arch, length + 1);
    if (!target || length + 2 > sizeof question->arch)
        return;
    target += strlen(".target");
    target += strspn(target, " \t");
    if (!strncmp(target, question->arch, length) &&
        (target[length] == 'a' || target[length] == 'f'))
        memcpy(arch + length, (const char[]){target[length], 0}, 2);
}

static kg_status to_code(const struct compile_question *question, struct answer *answer)
{
    struct kg_bytes log;
    char arch[sizeof question->arch];
    const char *ptx = (const char *)answer->ptx.data;
    arch_of(question, ptx, arch);
    kg_status status = nvjitlink_compile(ptx, arch, &answer->code, &log);
    if (status != KG_OK)
        answer_fail(answer, status, &log,
                    status == KG_UNSUPPORTED ? "nvJitLink does not know this GPU's architecture"
                                             : "nvJitLink failed without a word");
    bytes_free(&log);
    return status;
}

static kg_status copy(const struct kg_bytes *from, struct kg_bytes *to)
{
    to->data = malloc(from->size + 1);
    if (!to->data)
        return KG_NO_MEMORY;
    memcpy(to->data, from->data, from->size);
    to->data[from->size] = 0;
    to->size = from->size;
    return KG_OK;
}

static kg_status compile(const struct compile_question *question, struct kg_bytes *text,
                         struct answer *answer)
{
    kg_status status = KG_OK;
    answer->head.version = (uint32_t)(question->source ? nvrtc_version() : nvjitlink_version());
    if (question->source) {
        status = to_ptx(question, (const char *)text->data, answer);
    } else {
        status = copy(text, &answer->ptx);
        snprintf(answer->head.entry, sizeof answer->head.entry, "%s", question->entry);
    }
    if (status == KG_OK)
        status = question->machine ? to_code(question, answer) : copy(&answer->ptx, &answer->code);
    return status;
}

/* Only what will be used is opened. */
static kg_status libraries_open(const struct compile_question *question, struct answer *answer)
{
    kg_status status = question->source ? nvrtc_open() : KG_OK;
    if (status != KG_OK)
        return answer_fail(answer, status, NULL,
                           "libnvrtc is missing: install the CUDA toolkit's NVRTC, or give its "
                           "path in KGENRT_NVRTC");
    status = question->machine ? nvjitlink_open() : KG_OK;
    if (status != KG_OK)
        return answer_fail(answer, status, NULL,
                           "libnvJitLink is missing: install the CUDA toolkit's nvJitLink, or "
                           "give its path in KGENRT_NVJITLINK");
    return KG_OK;
}

static bool question_good(const struct compile_question *question)
{
    return question->magic == COMPILE_MAGIC && question->size <= COMPILE_PTX_LIMIT &&
           memchr(question->arch, 0, sizeof question->arch) && !strncmp(question->arch, "sm_", 3) &&
           isdigit((unsigned char)question->arch[3]) &&
           memchr(question->entry, 0, sizeof question->entry);
}

static kg_status work(struct answer *answer)
{
    struct compile_question question;
    long seconds = options()->deadline;
    sandbox_limits(seconds < 2 ? 2 : (unsigned)seconds);
    if (!input_read(&question, sizeof question) || !question_good(&question))
        return answer_fail(answer, KG_BAD_INPUT, NULL, "the compile child was asked nonsense");
    kg_status status = libraries_open(&question, answer);
    if (status != KG_OK)
        return status;
    if (!sandbox_files())
        log_line(KG_INFO, "compile: this kernel has no Landlock; files are protected by the "
                          "check of the source alone");
    struct kg_bytes text = {.data = malloc((size_t)question.size + 1), .size = question.size};
    if (!text.data)
        return KG_NO_MEMORY;
    status = KG_IO;
    if (input_read(text.data, text.size + 1) && strlen((char *)text.data) == text.size)
        status = compile(&question, &text, answer);
    bytes_free(&text);
    return status;
}

int compile_child(int argc, char **argv)
{
    (void)argc, (void)argv;
    static struct answer answer;
    kg_status status = work(&answer);
    if (answer.ptx.size > COMPILE_PTX_LIMIT || answer.code.size > COMPILE_CODE_LIMIT)
        status = answer_fail(&answer, KG_LIMIT, NULL, "the compiled code is too long");
    bool good = status == KG_OK;
    answer.head.magic = COMPILE_MAGIC;
    answer.head.status = (uint32_t)status;
    answer.head.message = (uint32_t)strlen(answer.message);
    answer.head.ptx = good ? (uint32_t)answer.ptx.size : 0;
    answer.head.code = good ? (uint32_t)answer.code.size : 0;
    good = write_all(STDOUT_FILENO, &answer.head, sizeof answer.head) &&
           write_all(STDOUT_FILENO, answer.message, answer.head.message) &&
           write_all(STDOUT_FILENO, answer.ptx.data, answer.head.ptx) &&
           write_all(STDOUT_FILENO, answer.code.data, answer.head.code);
    /* the libraries' exit handlers have nothing left to do, and may miss what was given up */
    _exit(!good);
}
