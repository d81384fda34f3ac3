/* The maker "openai" against a scripted server: what is sent, that repair turns carry the message,
 * that the key goes into one header and nowhere else, and that no answer of the server does harm.
 */
#include <jansson.h>
#include <sys/stat.h>

#include "http_server.h"
#include "make_fixture.h"
#include "test.h"
#include "tune/makers.h"

#define KEY "sk-very-secret-0123456789"
#define REPLY(entry)                                                                               \
    "```cuda\\nextern \\\"C\\\" __global__ void " entry                                            \
    "() {}\\n```\\n```json\\n{\\\"entry\\\": \\\"" entry                                           \
    "\\\", \\\"params\\\": [\\\"x\\\", \\\"y\\\", \\\"p\\\", \\\"n\\\", \\\"m\\\"], "              \
    "\\\"launch\\\": {\\\"grid\\\": [1, 1, 1], "                                                   \
    "\\\"block\\\": [32, 1, 1], \\\"shared\\\": 0}, \\\"guards\\\": [], \\\"globals\\\": [], "     \
    "\\\"note\\\": \\\"quick\\\"}\\n```"
#define ANSWER(text, finish)                                                                       \
    "{\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":\"" text                       \
    "\"},\"finish_reason\":\"" finish "\"}]}"

static struct job job;
static char folder[] = "/tmp/make_openai_XXXXXX", log_path[KG_PATH], key_path[KG_PATH];

/* One case: `act` runs in a process of its own, because options are read once. */
struct scene {
    const char *name;
    struct http_reply script[4];
    void (*act)(void);
    unsigned requests;
    const char *logged; /* must be in the log */
    const char *url;    /* instead of the server's */
    bool key_file, no_key, no_model;
};

static kg_status ask(struct candidate *c, unsigned turn, const struct candidate *previous,
                     const char *message)
{
    return openai_make(&job, "", 0, turn, previous, message, c);
}

static void act_conversation(void)
{
    struct candidate a, b, c, d;
    CHECK(ask(&a, 0, NULL, NULL) == KG_OK && !strcmp(a.entry, "first") &&
          !strcmp(a.maker, "openai") && !strcmp(a.note, "quick"));
    CHECK(ask(&b, 1, &a, "candidate.cu(3): error: \"nonsense\" \303 is undefined\n   here") ==
          KG_BAD_INPUT);
    CHECK(has(b.note, "no ```json"));
    CHECK(ask(&c, 2, &b,
              "no ```json, compare: wrong result at parameter 1 + 64: 0x3f8ccccd instead of "
              "0x40000000 (as float 1.1 instead of 2; block 7 if each thread has one)") == KG_OK &&
          !strcmp(c.entry, "third"));
    CHECK(ask(&d, 3, &c, "still wrong") == KG_NO_CANDIDATE);
    CHECK(ask(&d, 1, NULL, "wrong") == KG_NO_CANDIDATE && ask(&d, 1, &a, NULL) == KG_NO_CANDIDATE);
    CHECK(openai_make(&job, "", 1, 0, NULL, NULL, &d) == KG_NO_CANDIDATE);
}

static void act_good(void)
{
    struct candidate c;
    CHECK(ask(&c, 0, NULL, NULL) == KG_OK && !strcmp(c.entry, "first"));
}

#define ACT(name, status)                                                                          \
    static void name(void)                                                                         \
    {                                                                                              \
        struct candidate c;                                                                        \
        kg_status got = ask(&c, 0, NULL, NULL);                                                    \
        CHECK(got == status && !c.source);                                                         \
    }
ACT(act_io, KG_IO)
ACT(act_denied, KG_DENIED)
ACT(act_limit, KG_LIMIT)
ACT(act_none, KG_NO_CANDIDATE)

static void act_cut(void)
{
    struct candidate c;
    CHECK(ask(&c, 0, NULL, NULL) == KG_BAD_INPUT && has(c.note, "cut off by a length limit"));
}

static const struct scene scenes[] = {
    {"conversation",
     {{.code = 200, .body = ANSWER(REPLY("first"), "stop")},
      {.code = 200, .body = ANSWER("```cuda\\nint second;\\n```", "stop")},
      {.code = 200, .body = ANSWER(REPLY("third"), "stop")}},
     act_conversation,
     3,
     "malformed reply: no ```json",
     NULL,
     false,
     false,
     false},
    {"key file",
     {{.code = 200, .body = ANSWER(REPLY("first"), "stop")}},
     act_good,
     1,
     "can be used by others",
     NULL,
     true,
     false,
     false},
    {"no key",
     {{.code = 200, .body = ANSWER(REPLY("first"), "stop")}},
     act_good,
     1,
     NULL,
     NULL,
     false,
     true,
     false},
    {"busy, then good",
     {{.code = 429, .headers = "Retry-After: 1\r\n"},
      {.code = 503, .headers = "Retry-After: 1\r\n"},
      {.code = 200, .body = ANSWER(REPLY("first"), "stop")}},
     act_good,
     3,
     "asked again in 1 s",
     NULL,
     false,
     false,
     false},
    {"busy for good",
     {{.code = 429, .headers = "Retry-After: 1\r\n"},
      {.code = 429, .headers = "Retry-After: 1\r\n"},
      {.code = 429, .body = "{\"error\":{\"message\":\"slow down\"}}"}},
     act_io,
     3,
     "HTTP status 429: slow down",
     NULL,
     false,
     false,
     false},
    {"busy for long",
     {{.code = 429, .headers = "Retry-After: 999999\r\n"}},
     act_io,
     1,
     "asks to wait 86400 seconds",
     NULL,
     false,
     false,
     false},
    {"wrong key",
     {{.code = 401, .body = "{\"error\":{\"message\":\"bad key " KEY " given\\n\\u001b[31m\"}}"}},
     act_denied,
     1,
     "check the key: bad key * given",
     NULL,
     false,
     false,
     false},
    {"wrong path",
     {{.code = 404, .body = "<html>" KEY "</html>"}},
     act_io,
     1,
     "check the URL",
     NULL,
     false,
     false,
     false},
    {"server error", {{.code = 500}}, act_io, 1, "HTTP status 500", NULL, false, false, false},
    {"redirect",
     {{.code = 302, .headers = "Location: /elsewhere\r\n"}},
     act_io,
     1,
     "redirects are not followed",
     NULL,
     false,
     false,
     false},
    {"slow",
     {{.code = 200, .body = ANSWER(REPLY("first"), "stop"), .delay_ms = 4000}},
     act_io,
     1,
     "imed out",
     NULL,
     false,
     false,
     false},
    {"cut in transfer",
     {{.code = 200, .body = ANSWER(REPLY("first"), "stop"), .cut = 100}},
     act_io,
     1,
     "the request failed",
     NULL,
     false,
     false,
     false},
    {"huge",
     {{.code = 200, .body = "{", .fill = 3 << 20}},
     act_limit,
     1,
     "longer than 1048576",
     NULL,
     false,
     false,
     false},
    {"closed", {{.code = 0}}, act_io, 1, "the request failed", NULL, false, false, false},
    {"no JSON", {{.code = 200, .body = "hello"}}, act_io, 1, "no JSON", NULL, false, false, false},
    {"empty", {{.code = 200, .body = ""}}, act_io, 1, "no JSON", NULL, false, false, false},
    {"other JSON",
     {{.code = 200, .body = "{\"choices\":[{\"message\":{\"content\":null}}]}"}},
     act_io,
     1,
     "no choices[0]",
     NULL,
     false,
     false,
     false},
    {"an array",
     {{.code = 200, .body = "[1, 2]"}},
     act_io,
     1,
     "no choices[0]",
     NULL,
     false,
     false,
     false},
    {"cut by the model",
     {{.code = 200, .body = ANSWER("```cuda\\nint", "length")}},
     act_cut,
     1,
     "length limit",
     NULL,
     false,
     false,
     false},
    {"nobody there",
     {{0}},
     act_io,
     0,
     "the request failed",
     "http://127.0.0.1:1/v1",
     false,
     false,
     false},
    {"other scheme",
     {{0}},
     act_none,
     0,
     "KGENRT_OPENAI_URL",
     "file:///etc/passwd",
     false,
     false,
     false},
    {"no model", {{0}}, act_none, 0, "KGENRT_OPENAI_MODEL", NULL, false, false, true},
};

static void environment(const struct scene *scene, const char *url)
{
    setenv("KGENRT_OPENAI_URL", scene->url ? scene->url : url, 1);
    setenv("KGENRT_OPENAI_MODEL", scene->no_model ? "" : "some-model", 1);
    setenv("KGENRT_OPENAI_TIMEOUT", "2", 1);
    setenv("KGENRT_LOG", "debug", 1);
    setenv("KGENRT_LOG_FILE", log_path, 1);
    setenv("no_proxy", "*", 1);
    unsetenv("OPENAI_API_KEY");
    if (scene->key_file)
        setenv("KGENRT_OPENAI_KEY_FILE", key_path, 1);
    else if (!scene->no_key)
        setenv("OPENAI_API_KEY", KEY, 1);
}

static unsigned occurrences(const char *text, const char *part)
{
    unsigned count = 0;
    for (; (text = strstr(text, part)); text += strlen(part))
        count++;
    return count;
}

/* Every request: method, headers, model, and the key in its one place. */
static void request_check(const struct scene *scene, const struct http_record *record)
{
    CHECK(!strncmp(record->head, "POST /v1/chat/completions HTTP/1.1\r\n", 36) &&
          has(record->head, "Content-Type: application/json\r\n"));
    CHECK(occurrences(record->head, KEY) == !scene->no_key && !has(record->body, KEY));
    CHECK(has(record->head, "\r\nAuthorization: Bearer " KEY "\r\n") == !scene->no_key &&
          !has(record->head, "Expect"));
    json_t *body = json_loads(record->body, 0, NULL);
    const char *model = json_string_value(json_object_get(body, "model"));
    const json_t *first = json_array_get(json_object_get(body, "messages"), 0);
    const char *prompt = json_string_value(json_object_get(first, "content"));
    CHECK(model && !strcmp(model, "some-model") && json_is_false(json_object_get(body, "stream")));
    CHECK(prompt && has(prompt, "k_abababababababab") && has(prompt, "```ptx"));
    json_decref(body);
}

/* The message at `index` of a request: role and a part of its text. */
static bool message_is(const struct http_record *record, unsigned index, unsigned count,
                       const char *role, const char *part)
{
    json_t *body = json_loads(record->body, 0, NULL);
    const json_t *messages = json_object_get(body, "messages"),
                 *message = json_array_get(messages, index);
    const char *its = json_string_value(json_object_get(message, "role"));
    const char *text = json_string_value(json_object_get(message, "content"));
    bool good =
        json_array_size(messages) == count && its && !strcmp(its, role) && text && has(text, part);
    json_decref(body);
    return good;
}

static void conversation_check(const struct http_record *records)
{
    CHECK(message_is(&records[0], 0, 1, "user", "# Task"));
    CHECK(message_is(&records[1], 1, 3, "assistant", "void first()") &&
          message_is(&records[1], 1, 3, "assistant", "\"note\": \"quick\""));
    CHECK(message_is(&records[1], 2, 3, "user",
                     "candidate.cu(3): error: \"nonsense\" ? is undefined\n   here"));
    CHECK(message_is(&records[2], 1, 3, "assistant", "int second;") &&
          message_is(&records[2], 2, 3, "user", "no ```json"));
    /* what stood in memory is not told, only where */
    CHECK(message_is(&records[2], 2, 3, "user",
                     "wrong result at parameter 1 + 64; block 7 if each thread has one)"));
    CHECK(!has(records[2].body, "3f8ccccd") && !has(records[2].body, "instead of"));
}

static void play(const struct scene *scene)
{
    struct http_server server;
    fprintf(stderr, "scene: %s\n", scene->name);
    if (!CHECK(http_start(&server, scene->script, 4)))
        return;
    unlink(log_path);
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        environment(scene, server.url);
        test_failures = test_checks = 0;
        scene->act();
        arena_free(&job.arena);
        _exit(test_result());
    }
    int status = 0;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    http_stop(&server);
    CHECK(server.shared->count == scene->requests);
    for (unsigned i = 0; i < server.shared->count; i++)
        request_check(scene, &server.shared->records[i]);
    if (scene->act == act_conversation)
        conversation_check(server.shared->records);
    struct kg_bytes log = {0};
    kg_status read = file_read(log_path, 1 << 20, &log);
    CHECK(read == KG_OK || !scene->logged);
    const char *text = log.data ? (const char *)log.data : "";
    if (!CHECK(!has(text, "sk-very") && !has(text, "\033") &&
               (!scene->logged || has(text, scene->logged))))
        fprintf(stderr, "%s", text);
    bytes_free(&log);
    http_free(&server);
}

/* Keys that cannot be used. */
static void act_bad_key(void)
{
    struct candidate c;
    CHECK(ask(&c, 0, NULL, NULL) == KG_BAD_INPUT || ask(&c, 0, NULL, NULL) == KG_IO);
}

static void keys(void)
{
    static const char *const contents[] = {"", "sk-very\nInjected: header", "sk-very\x01",
                                           "sk-very secret"};
    const struct scene scene = {.name = "bad key", .act = act_bad_key, .key_file = true};
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
        CHECK(file_write(key_path, contents[i], strlen(contents[i]), 0600) == KG_OK);
        play(&scene);
    }
    unlink(key_path);
    play(&scene);
}

int main(void)
{
    fixture_job(&job);
    CHECK(mkdtemp(folder) != NULL);
    CHECK(path_make(log_path, "%s/log", folder) == KG_OK &&
          path_make(key_path, "%s/key", folder) == KG_OK);
    CHECK(file_write(key_path, KEY "\n", strlen(KEY) + 1, 0644) == KG_OK && !chmod(key_path, 0644));
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        play(&scenes[i]);
    keys();
    unlink(log_path);
    CHECK(!rmdir(folder));
    return test_result();
}
