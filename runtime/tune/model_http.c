/* Maker "openai": one prompt to a chat-completions endpoint, and at most two repair turns with the
 * compiler's or the verifier's message. libcurl is opened at need, in the worker only. The server
 * is not trusted: reply size, time, waits and text are bounded, redirects are not followed, TLS is
 * always checked. The key is sent in one header and appears nowhere else. */
#include "tune/makers.h"
#include "tune/reply.h"

#include "gpu/lib.h"

#define CURL_DISABLE_DEPRECATION 1
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    KEY_LIMIT = 4096,
    BODY_LIMIT = 1 << 20, /* of the server's answer */
    TURNS = 2,
    TRIES = 3,      /* requests when the server is busy */
    WAIT_MOST = 60, /* seconds between them */
    CONNECT_SECONDS = 20,
    WORDS = 240 /* of the server's own words in a message */
};

static struct {
    CURLcode (*global_init)(long flags);
    CURL *(*init)(void);
    CURLcode (*setopt)(CURL *, CURLoption, ...);
    CURLcode (*perform)(CURL *);
    CURLcode (*getinfo)(CURL *, CURLINFO, ...);
    void (*cleanup)(CURL *);
    struct curl_slist *(*append)(struct curl_slist *, const char *);
    void (*free_all)(struct curl_slist *);
    const char *(*error)(CURLcode);
} curl;

static kg_status curl_open(void)
{
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.so", NULL};
    static const struct lib_row rows[] = {
        {"curl_global_init", (void **)&curl.global_init, false},
        {"curl_easy_init", (void **)&curl.init, false},
        {"curl_easy_setopt", (void **)&curl.setopt, false},
        {"curl_easy_perform", (void **)&curl.perform, false},
        {"curl_easy_getinfo", (void **)&curl.getinfo, false},
        {"curl_easy_cleanup", (void **)&curl.cleanup, false},
        {"curl_slist_append", (void **)&curl.append, false},
        {"curl_slist_free_all", (void **)&curl.free_all, false},
        {"curl_easy_strerror", (void **)&curl.error, false},
        {0},
    };
    static bool opened;
    if (opened)
        return KG_OK;
    kg_status status = lib_open("libcurl", "", names, rows,
                                "install libcurl (libcurl4), or leave the maker openai out");
    if (status != KG_OK)
        return status;
    if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        log_line(KG_WARN, "openai: libcurl does not start");
        return KG_NO_LIBRARY;
    }
    opened = true;
    return KG_OK;
}

/* ---- the key ----------------------------------------------------------------------------------
 */

static kg_status key_from_file(const char *path, char out[static KEY_LIMIT])
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) || !S_ISREG(info.st_mode)) {
        log_line(KG_WARN, "openai: KGENRT_OPENAI_KEY_FILE: %s: %s", path,
                 fd < 0 ? strerror(errno) : "not a regular file");
        if (fd >= 0)
            close(fd);
        return KG_IO;
    }
    if ((info.st_mode & 077) && !atomic_flag_test_and_set(&warned))
        log_line(KG_WARN, "openai: %s can be used by others (mode %03o); run chmod 600 on it", path,
                 (unsigned)info.st_mode & 0777);
    ssize_t got = read(fd, out, KEY_LIMIT - 1);
    close(fd);
    out[got > 0 ? got : 0] = 0;
    if (got > 0 && got < KEY_LIMIT - 1)
        return KG_OK;
    log_line(KG_WARN, "openai: %s holds no key", path);
    return KG_IO;
}

/* Empty if there is none: endpoints on this machine mostly want none. */
static kg_status key_get(char out[static KEY_LIMIT])
{
    const char *path = options()->openai_key_file, *variable = getenv("OPENAI_API_KEY");
    kg_status status = KG_OK;
    *out = 0;
    if (*path)
        status = key_from_file(path, out);
    else if (variable && (size_t)snprintf(out, KEY_LIMIT, "%s", variable) >= KEY_LIMIT)
        status = KG_LIMIT;
    size_t length = strlen(out);
    while (length && strchr(" \t\r\n", out[length - 1]))
        out[--length] = 0;
    for (size_t i = 0; i < length && status == KG_OK; i++)
        if (out[i] < 0x21 || out[i] > 0x7e)
            status = KG_BAD_INPUT;
    if (status == KG_LIMIT || status == KG_BAD_INPUT)
        log_line(KG_WARN, "openai: the key is too long or holds characters that no key has");
    return status;
}

/* ---- one request ------------------------------------------------------------------------------
 */

struct exchange {
    const char *key;
    char body[BODY_LIMIT + 1];
    size_t size;
    bool too_long;
    long code, wait; /* HTTP status; seconds the server asks for, 0 none */
    char error[CURL_ERROR_SIZE];
};

static size_t body_take(char *data, size_t one, size_t count, void *self)
{
    struct exchange *x = self;
    size_t size = one * count;
    if (size > BODY_LIMIT - x->size) {
        x->too_long = true;
        return 0;
    }
    memcpy(x->body + x->size, data, size);
    x->size += size;
    x->body[x->size] = 0;
    return size;
}

/* Somebody else's words in a log line: printable, short, and never with the key in them. */
static const char *quote(const struct exchange *x, const char *words, char out[static WORDS + 1])
{
    size_t key = strlen(x->key), used = 0;
    while (*words && used < WORDS) {
        if (key && !strncmp(words, x->key, key)) {
            words += key;
            out[used++] = '*';
            continue;
        }
        out[used++] = *words < 0x20 || *words > 0x7e ? ' ' : *words;
        words++;
    }
    out[used] = 0;
    return out;
}

static bool request_options(CURL *handle, const char *url, struct curl_slist *headers,
                            const char *body, struct exchange *x)
{
    bool good = true;
#define SET(option, value) good &= curl.setopt(handle, option, value) == CURLE_OK
    SET(CURLOPT_URL, url);
    SET(CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_SSL_VERIFYPEER, 1L);
    SET(CURLOPT_SSL_VERIFYHOST, 2L);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    SET(CURLOPT_TIMEOUT, options()->openai_timeout > 0 ? options()->openai_timeout : 1L);
    SET(CURLOPT_HTTPHEADER, headers);
    SET(CURLOPT_USERAGENT, "kgenrt/" KG_VERSION);
    SET(CURLOPT_POSTFIELDSIZE, (long)strlen(body));
    SET(CURLOPT_POSTFIELDS, body);
    SET(CURLOPT_WRITEFUNCTION, body_take);
    SET(CURLOPT_WRITEDATA, (void *)x);
    SET(CURLOPT_ERRORBUFFER, x->error);
#undef SET
    return good;
}

static bool header_add(struct curl_slist **list, const char *header)
{
    struct curl_slist *longer = curl.append(*list, header);
    if (longer)
        *list = longer;
    return longer != NULL;
}

static struct curl_slist *headers_make(const char *key)
{
    char line[KEY_LIMIT + 32];
    struct curl_slist *list = NULL;
    bool good = header_add(&list, "Content-Type: application/json") &&
                header_add(&list, "Accept: application/json") && header_add(&list, "Expect:");
    if (good && *key) {
        snprintf(line, sizeof line, "Authorization: Bearer %s", key);
        good = header_add(&list, line);
        explicit_bzero(line, sizeof line);
    }
    if (good)
        return list;
    curl.free_all(list);
    return NULL;
}

static kg_status transfer_fail(const struct exchange *x, CURLcode code)
{
    char words[WORDS + 1];
    if (x->too_long) {
        log_line(KG_WARN, "openai: the server's answer is longer than %d bytes", BODY_LIMIT);
        return KG_LIMIT;
    }
    log_line(KG_WARN, "openai: the request failed: %s (KGENRT_OPENAI_URL, KGENRT_OPENAI_TIMEOUT)",
             quote(x, *x->error ? x->error : curl.error(code), words));
    return KG_IO; /* also on a timeout: KG_TIMEOUT is a verdict about a candidate */
}

static kg_status post(const char *url, const char *body, struct exchange *x)
{
    x->size = 0;
    x->code = x->wait = 0;
    *x->error = *x->body = 0;
    CURL *handle = curl.init();
    struct curl_slist *headers = headers_make(x->key);
    kg_status status = KG_NO_MEMORY;
    if (handle && headers && request_options(handle, url, headers, body, x)) {
        CURLcode code = curl.perform(handle);
        curl_off_t wait = 0;
        status = code == CURLE_OK ? KG_OK : transfer_fail(x, code);
        if (curl.getinfo(handle, CURLINFO_RESPONSE_CODE, &x->code) != CURLE_OK)
            x->code = 0;
        if (curl.getinfo(handle, CURLINFO_RETRY_AFTER, &wait) == CURLE_OK && wait > 0)
            x->wait = wait > 86400 ? 86400 : (long)wait;
    } else {
        log_line(KG_WARN, "openai: libcurl refuses the request: is KGENRT_OPENAI_URL a URL?");
    }
    if (headers)
        curl.free_all(headers);
    if (handle)
        curl.cleanup(handle);
    return status;
}

/* What an HTTP error says, in one line. */
static kg_status code_fail(const struct exchange *x)
{
    char words[WORDS + 1];
    json_t *answer = json_loadb(x->body, x->size, 0, NULL);
    const char *said =
        json_string_value(json_object_get(json_object_get(answer, "error"), "message"));
    const char *advice = x->code == 401 || x->code == 403  ? "; check the key"
                         : x->code == 404                  ? "; check the URL and the model's name"
                         : x->code >= 300 && x->code < 400 ? "; redirects are not followed"
                                                           : "";
    log_line(KG_WARN, "openai: HTTP status %ld%s: %s", x->code, advice,
             quote(x, said ? said : x->body, words));
    json_decref(answer);
    return x->code == 401 || x->code == 403 ? KG_DENIED : KG_IO;
}

/* A busy server is asked again a few times, no longer than it is reasonable to wait. */
static kg_status post_patiently(const char *url, const char *body, struct exchange *x)
{
    for (int turn = 1;; turn++) {
        kg_status status = post(url, body, x);
        if (status != KG_OK)
            return status;
        if (x->code == 200)
            return KG_OK;
        if ((x->code != 429 && x->code != 503) || turn == TRIES)
            return code_fail(x);
        long seconds = x->wait ? x->wait : 1 << turn;
        if (seconds > WAIT_MOST) {
            log_line(KG_WARN, "openai: the server asks to wait %ld seconds; at most %d are waited",
                     seconds, WAIT_MOST);
            return code_fail(x);
        }
        log_line(KG_INFO, "openai: HTTP status %ld; asked again in %ld s", x->code, seconds);
        struct timespec rest = {.tv_sec = seconds};
        while (nanosleep(&rest, &rest) && errno == EINTR)
            ;
    }
}

/* ---- messages ---------------------------------------------------------------------------------
 */

static bool say(json_t *messages, const char *role, const char *text)
{
    return !json_array_append_new(messages, json_pack("{s:s, s:s}", "role", role, "content", text));
}

/* Cuts out the values of a wrong result, as difference_text writes them: ": 0x… instead of 0x… (as
 * float …; block N …)". What stood in the program's memory stays on this machine; where it stood,
 * and the block, may go. */
static void hide_values(char *text)
{
    for (char *from; (from = strstr(text, ": 0x")); text = from) {
        char *to = from + 2 + strcspn(from + 2, " ,\n");
        if (!strncmp(to, " instead of ", 12)) {
            char *block = strstr(to, "; block ");
            to += strcspn(to, ")\n");
            to = block && block < to ? block : to + (*to == ')');
        }
        memmove(from, to, strlen(to) + 1);
    }
}

/* The compiler's words as part of a JSON text: a cut character is no UTF-8. */
static char *plain(struct job *job, const char *message)
{
    char *copy =
        arena_format(&job->arena,
                     "Your kernel was refused:\n\n%s\n\nReply again in the same form, with "
                     "the whole corrected kernel and JSON.",
                     message);
    for (char *c = copy; c && *c; c++)
        if ((unsigned char)*c > 0x7e || ((unsigned char)*c < 0x20 && *c != '\n' && *c != '\t'))
            *c = '?';
    if (copy)
        hide_values(copy);
    return copy;
}

/* The request's body, malloc'd; NULL when memory is out. */
static char *body_make(struct job *job, const char *prompt, const struct candidate *previous,
                       const char *message)
{
    json_t *root =
        json_pack("{s:s, s:b, s:[]}", "model", options()->openai_model, "stream", 0, "messages");
    json_t *messages = json_object_get(root, "messages");
    bool good = root && say(messages, "user", prompt);
    if (good && message) {
        const char *words = plain(job, message);
        good = words && say(messages, "assistant", previous->reply) && say(messages, "user", words);
    }
    char *body = good ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    return body;
}

/* The reply's text out of the server's answer; lives as long as *answer. */
static const char *content(const struct exchange *x, json_t **answer, bool *cut)
{
    json_error_t error;
    *answer = json_loadb(x->body, x->size, 0, &error);
    if (!*answer) {
        log_line(KG_WARN, "openai: the server's answer is no JSON: line %d: %.80s", error.line,
                 error.text);
        return NULL;
    }
    const json_t *choice = json_array_get(json_object_get(*answer, "choices"), 0);
    const char *text =
        json_string_value(json_object_get(json_object_get(choice, "message"), "content"));
    const char *why = json_string_value(json_object_get(choice, "finish_reason"));
    *cut = why && !strcmp(why, "length");
    if (!text)
        log_line(KG_WARN, "openai: the server's answer has no choices[0].message.content");
    return text;
}

static kg_status reply_take(struct job *job, const struct exchange *x, struct candidate *out)
{
    json_t *answer = NULL;
    bool cut = false;
    const char *text = content(x, &answer, &cut);
    kg_status status = text ? maker_reply(job, "openai", text, strlen(text), out) : KG_IO;
    json_decref(answer);
    if (status == KG_BAD_INPUT && cut) {
        out->note =
            arena_format(&job->arena, "the reply was cut off by a length limit: %s", out->note);
        status = out->note ? status : KG_NO_MEMORY;
    }
    if (status == KG_BAD_INPUT)
        log_line(KG_INFO, "openai: malformed reply: %s", out->note);
    return status;
}

/* A key over an unencrypted connection to another machine can be read on the way. */
static void plain_text_warn(const char *url, const char *key)
{
    static const char *const fine[] = {"https://", "http://127.", "http://localhost",
                                       "http://[::1]"};
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++)
        if (!strncmp(url, fine[i], strlen(fine[i])))
            return;
    if (*key && !atomic_flag_test_and_set(&warned))
        log_line(KG_WARN, "openai: the key is sent unencrypted: use an https:// endpoint");
}

static kg_status converse(struct job *job, const char *body, struct candidate *out)
{
    char url[KG_PATH], key[KEY_LIMIT];
    const char *base = options()->openai_url;
    size_t length = strlen(base);
    while (length && base[length - 1] == '/')
        length--;
    kg_status status = path_make(url, "%.*s/chat/completions", (int)length, base);
    if (status == KG_OK)
        status = key_get(key);
    struct exchange *x = status == KG_OK ? calloc(1, sizeof *x) : NULL;
    if (status == KG_OK && !x)
        status = KG_NO_MEMORY;
    if (status == KG_OK) {
        x->key = key;
        plain_text_warn(url, key);
        status = post_patiently(url, body, x);
    }
    if (status == KG_OK)
        status = reply_take(job, x, out);
    free(x);
    explicit_bzero(key, sizeof key);
    return status;
}

static bool configured(void)
{
    const char *url = options()->openai_url;
    if (strncmp(url, "https://", 8) && strncmp(url, "http://", 7))
        log_line(KG_WARN, "openai: set KGENRT_OPENAI_URL to an http:// or https:// endpoint");
    else if (!*options()->openai_model)
        log_line(KG_WARN, "openai: set KGENRT_OPENAI_MODEL to the model's name");
    else
        return true;
    return false;
}

kg_status openai_make(struct job *job, const char *argument, unsigned attempt, unsigned turn,
                      const struct candidate *previous, const char *message, struct candidate *out)
{
    (void)argument;
    *out = (struct candidate){.maker = "openai"};
    if (attempt || turn > TURNS || (long)turn > options()->repair_turns)
        return KG_NO_CANDIDATE;
    if (turn && (!previous || !previous->reply || !message))
        return KG_NO_CANDIDATE;
    if (!configured())
        return KG_NO_CANDIDATE;
    struct kg_bytes prompt;
    kg_status status = curl_open();
    if (status == KG_OK)
        status = prompt_make(job, &prompt);
    if (status != KG_OK)
        return status;
    char *body = body_make(job, (const char *)prompt.data, previous, turn ? message : NULL);
    bytes_free(&prompt);
    status = body ? converse(job, body, out) : KG_NO_MEMORY;
    free(body);
    return status;
}
