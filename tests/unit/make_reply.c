/* Replies: the format asked for, and some forty ways to get it wrong, each with its own words. */
#include <stdlib.h>

#include "make_fixture.h"
#include "test.h"
#include "tune/makers.h"
#include "tune/reply.h"

#define CUDA "```cuda\nextern \"C\" __global__ void f() {}\n```\n"
#define JSON(entry, params, launch, guards, globals, note)                                         \
    "```json\n{\"entry\": " entry ", \"params\": " params ", \"launch\": " launch                  \
    ", \"guards\": " guards ", \"globals\": " globals ", \"note\": " note "}\n```\n"
#define NAMES "[\"x\", \"y\", \"p\", \"n\", \"m\"]"
#define LAUNCH                                                                                     \
    "{\"grid\": [\"ceil_div(n, 1024)\", \"gy\", 1], \"block\": [\"bx * 2\", 1, 1], \"shared\": "   \
    "\"shared + 4\"}"
#define GOOD JSON("\"f\"", NAMES, LAUNCH, "[\"n > 0\"]", "[]", "\"fine\"")
#define WITH(launch) CUDA JSON("\"f\"", NAMES, launch, "[]", "[]", "\"\"")
#define GUARDS(guards) CUDA JSON("\"f\"", NAMES, LAUNCH, guards, "[]", "\"\"")
#define PARAMS(params, globals) CUDA JSON("\"f\"", params, LAUNCH, "[]", globals, "\"\"")
#define ENTRY(entry) CUDA JSON(entry, NAMES, LAUNCH, "[]", "[]", "\"\"")

static struct job job;
static struct candidate c;
static char message[512];

static kg_status parse(const char *text)
{
    *message = 0;
    return reply_parse(&job, text, strlen(text), &c, message, sizeof message);
}

static void good(void)
{
    CHECK(parse("Sure!\n\n" CUDA "\nand\n" GOOD "bye") == KG_OK);
    CHECK(!strcmp(c.source, "extern \"C\" __global__ void f() {}\n") && !strcmp(c.entry, "f") &&
          !strcmp(c.note, "fine"));
    CHECK(c.launch.grid.x == 10 && c.launch.grid.y == 2 && c.launch.grid.z == 1);
    CHECK(c.launch.block.x == 256 && c.launch.shared == 100 && !c.global_count && !c.ptx);
    /* order, other blocks, CRLF, longer fences, a note with odd characters */
    CHECK(parse("```text\n```json is not it\n```\n" GOOD CUDA) == KG_OK);
    CHECK(parse("````cuda\n// ```\nint a;\n````\n" GOOD) == KG_OK &&
          !strcmp(c.source, "// ```\nint a;\n"));
    CHECK(parse("```cuda\r\nint a;\r\n```\r\n" GOOD) == KG_OK && !strcmp(c.source, "int a;\r\n"));
    CHECK(parse(CUDA JSON("\"a::f<4, 2>\"", NAMES, LAUNCH, "[]", "[]", "\"a\\nb\\u0007c\"")) ==
          KG_OK);
    CHECK(!strcmp(c.entry, "a::f<4, 2>") && !strcmp(c.note, "a b c"));
    /* globals: names after the original's parameters */
    CHECK(parse(PARAMS("[\"x\", \"y\", \"p\", \"n\", \"m\", \"s\", \"w\"]",
                       "[\"scale\", \"weight\"]")) == KG_OK);
    CHECK(c.global_count == 2 && !strcmp(c.globals[0], "scale") && !strcmp(c.globals[1], "weight"));
    /* … also under the name that another build of the program has for it */
    char *name = fixture_globals[1].name;
    fixture_globals[1].name = (char *)"_ZN14_GLOBAL__N_1_a5scaleE";
    CHECK(parse(PARAMS("[\"x\", \"y\", \"p\", \"n\", \"m\", \"s\"]",
                       "[\"_ZN14_GLOBAL__N_2_b5scaleE\"]")) == KG_OK);
    CHECK(c.global_count == 1 && !strcmp(c.globals[0], "_ZN14_GLOBAL__N_1_a5scaleE"));
    fixture_globals[1].name = name;
    /* 64-bit scalar */
    CHECK(parse(GUARDS("[\"m == 8589934592\", \"m / n > 1000\"]")) == KG_OK);
}

/* Text, and what the message must say. */
static const struct {
    const char *text, *why;
} bad[] = {
    {"", "no ```cuda"},
    {"I cannot help with that.", "no ```cuda"},
    {CUDA, "no ```json"},
    {GOOD, "no ```cuda"},
    {CUDA CUDA GOOD, "more than one ```cuda"},
    {CUDA GOOD GOOD, "more than one ```json"},
    {CUDA "```json\n{", "not closed"},
    {"```cuda\nint a;\n", "not closed"},
    {"```cuda\nint \001a;\n```\n" GOOD, "control character"},
    {CUDA "```json\n```\n", "json block, line"},
    {CUDA "```json\n[]\n```\n", "one object"},
    {CUDA "```json\n{\"entry\": \"f\"}\n```\n", "lacks \"globals\""},
    {CUDA "```json\n{\"entry\": \"f\", \"entry\": \"g\"}\n```\n", "duplicate"},
    {CUDA "```json\n{\"entry\": \"f\", \"flags\": \"-O0\"}\n```\n", "unknown field `flags`"},
    {ENTRY("\"\""), "\"entry\""},
    {ENTRY("7"), "\"entry\""},
    {ENTRY("\"f; rm\""), "\"entry\""},
    {ENTRY("\"f(\\\"x\\\")\""), "\"entry\""},
    {PARAMS("[\"x\"]", "[]"), "must list 5 names"},
    {PARAMS("{}", "[]"), "must list 5 names"},
    {PARAMS("[\"x\", \"y\", \"p\", \"n\", \"n\"]", "[]"), "used twice"},
    {PARAMS("[\"x\", \"y\", \"p\", \"n\", \"gx\"]", "[]"), "another meaning"},
    {PARAMS("[\"x\", \"y\", \"p\", \"n\", \"min\"]", "[]"), "another meaning"},
    {PARAMS("[\"x\", \"y\", \"p\", \"n\", 5]", "[]"), "C identifier"},
    {PARAMS("[\"x\", \"y\", \"p\", \"n\", \"a b\"]", "[]"), "C identifier"},
    {PARAMS("[\"x\", \"y\", \"p\", \"n\", \"m\"]", "[\"weight\"]"), "must list 6 names"},
    {PARAMS(NAMES, "[\"nothing\"]"), "no global variable `nothing`"},
    {PARAMS(NAMES, "[\"scale\", \"scale\"]"), "named twice"},
    {PARAMS(NAMES, "\"scale\""), "list of at most"},
    {WITH("[]"), "\"launch\""},
    {WITH("{\"grid\": [1, 1, 1], \"block\": [1, 1, 1]}"), "just \"grid\""},
    {WITH("{\"grid\": [1, 1], \"block\": [1, 1, 1], \"shared\": 0}"),
     "\"grid\" must be a list of three"},
    {WITH("{\"grid\": [1, 1, 1], \"block\": 4, \"shared\": 0}"),
     "\"block\" must be a list of three"},
    {WITH("{\"grid\": [0, 1, 1], \"block\": [1, 1, 1], \"shared\": 0}"), "grid[0] is 0"},
    {WITH("{\"grid\": [-1, 1, 1], \"block\": [1, 1, 1], \"shared\": 0}"), "grid[0] is -1"},
    {WITH("{\"grid\": [2147483648, 1, 1], \"block\": [1, 1, 1], \"shared\": 0}"),
     "grid[0] is 2147483648"},
    {WITH("{\"grid\": [1, 65536, 1], \"block\": [1, 1, 1], \"shared\": 0}"), "grid[1]"},
    {WITH("{\"grid\": [1.5, 1, 1], \"block\": [1, 1, 1], \"shared\": 0}"),
     "integer or an expression"},
    {WITH("{\"grid\": [\"n / 0\", 1, 1], \"block\": [1, 1, 1], \"shared\": 0}"),
     "division by zero"},
    {WITH("{\"grid\": [\"x\", 1, 1], \"block\": [1, 1, 1], \"shared\": 0}"),
     "pointer, not a number"},
    {WITH("{\"grid\": [\"p\", 1, 1], \"block\": [1, 1, 1], \"shared\": 0}"),
     "not an integer of 4 or 8"},
    {WITH("{\"grid\": [\"m * m\", 1, 1], \"block\": [1, 1, 1], \"shared\": 0}"), "overflow"},
    {WITH("{\"grid\": [1, 1, 1], \"block\": [1025, 1, 1], \"shared\": 0}"), "block[0] is 1025"},
    {WITH("{\"grid\": [1, 1, 1], \"block\": [1, 1, 65], \"shared\": 0}"), "block[2] is 65"},
    {WITH("{\"grid\": [1, 1, 1], \"block\": [512, 3, 1], \"shared\": 0}"), "1536 threads"},
    {WITH("{\"grid\": [1, 1, 1], \"block\": [1, 1, 1], \"shared\": 232449}"),
     "\"shared\" is 232449"},
    {WITH("{\"grid\": [1, 1, 1], \"block\": [1, 1, 1], \"shared\": -1}"), "\"shared\" is -1"},
    {WITH("{\"grid\": [1, 1, 1], \"block\": [1, 1, 1], \"shared\": 99999999999999999999}"),
     "json block, line"},
    {GUARDS("[\"n < 5\"]"), "guard does not hold for this launch: `n < 5`"},
    {GUARDS("[\"n <\"]"), "\"guards\": expression"},
    {GUARDS("[1]"), "not an expression"},
    {GUARDS("{}"), "list of at most"},
    {CUDA JSON("\"f\"", NAMES, LAUNCH, "[]", "[]", "null"), "\"note\""},
    {CUDA "```json\n{\"entry\": \"\xff\"}\n```\n", "json block, line"},
};

static void garbage(void)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        kg_status status = parse(bad[i].text);
        if (!CHECK(status == KG_BAD_INPUT && strstr(message, bad[i].why)))
            fprintf(stderr, "case %zu: %s: %s\n", i, status_text(status), message);
        for (const char *m = message; *m; m++)
            CHECK(*m >= 0x20 || (unsigned char)*m >= 0x80);
    }
}

/* Sizes at and above each limit. */
static void sizes(void)
{
    size_t room = REPLY_LIMIT + 1024;
    char *text = malloc(room);
    CHECK(text != NULL);
    if (!text)
        return;
    memset(text, ' ', room);
    CHECK(reply_parse(&job, text, REPLY_LIMIT + 1, &c, message, sizeof message) == KG_BAD_INPUT &&
          has(message, "the reply is longer"));
    snprintf(text, room, "```cuda\n%*s\n```\n%s", SOURCE_LIMIT, "", GOOD);
    CHECK(parse(text) == KG_BAD_INPUT && has(message, "the source is longer"));
    snprintf(text, room, "```cuda\n%*s\n```\n%s", SOURCE_LIMIT - 1, "", GOOD);
    CHECK(parse(text) == KG_OK && strlen(c.source) == SOURCE_LIMIT);
    snprintf(text, room, CUDA "```json\n{\"entry\": \"f\",%*s}\n```\n", JSON_LIMIT, "");
    CHECK(parse(text) == KG_BAD_INPUT && has(message, "the json block is longer"));
    snprintf(text, room, CUDA "```json\n%0*d\n```\n", 60000, 0);
    for (char *at = strstr(text, "json\n") + 5; *at == '0'; at++)
        *at = '[';
    CHECK(parse(text) == KG_BAD_INPUT && has(message, "json block, line"));
    char note[3000], entry[400];
    memset(note, 'x', sizeof note);
    note[sizeof note - 1] = 0;
    memset(entry, 'e', sizeof entry);
    entry[sizeof entry - 1] = 0;
    snprintf(text, room,
             CUDA "```json\n{\"entry\":\"f\",\"params\":" NAMES ",\"launch\":" LAUNCH
                  ",\"guards\":[],\"globals\":[],\"note\":\"%s\"}\n```\n",
             note);
    CHECK(parse(text) == KG_OK && strlen(c.note) == NOTE_LIMIT);
    snprintf(text, room,
             CUDA "```json\n{\"entry\":\"%s\",\"params\":" NAMES ",\"launch\":" LAUNCH
                  ",\"guards\":[],\"globals\":[],\"note\":\"\"}\n```\n",
             entry);
    CHECK(parse(text) == KG_BAD_INPUT && has(message, "\"entry\""));
    free(text);
    /* a NUL inside is text like any other, and refused */
    static const char nul[] = "```cuda\nint\0a;\n```\n" GOOD;
    CHECK(reply_parse(&job, nul, sizeof nul - 1, &c, message, sizeof message) == KG_BAD_INPUT &&
          has(message, "control character"));
}

static void makers_get_the_message(void)
{
    CHECK(maker_reply(&job, "recorded", "nonsense", 8, &c) == KG_BAD_INPUT);
    CHECK(has(c.note, "no ```cuda") && !strcmp(c.reply, "nonsense") &&
          !strcmp(c.maker, "recorded"));
    CHECK(maker_reply(&job, "openai", CUDA GOOD, strlen(CUDA GOOD), &c) == KG_OK);
    CHECK(!strcmp(c.reply, CUDA GOOD) && !strcmp(c.note, "fine") && !strcmp(c.maker, "openai"));
}

int main(void)
{
    fixture_job(&job);
    good();
    garbage();
    sizes();
    makers_get_the_message();
    arena_free(&job.arena);
    return test_result();
}
