/* Evidence and its re-running on the software GPU: `kgenrt show --evidence` has every gate, `kgenrt
 * verify` makes the verdict again and says 0, 1 or 2. What was tampered with (the kept capture, the
 * stored code) is refused in words, and a variant whose code was exchanged for a wrong one fails at
 * the gate that sees it, and goes out of use with --demote. */
#include "e2e.h"

#include "cache.h"

static bool says(const char *text)
{
    if (strstr(e2e_output, text))
        return true;
    fprintf(stderr, "not in the output: \"%s\"; it is:\n%s\n", text, e2e_output);
    return false;
}

static int verify(const char *option, const char *what, const char *variable)
{
    return e2e_run((const char *[]){e2e_cli(), "verify", option, what, NULL},
                   (const char *[]){variable, NULL}, 200);
}

/* ---- the store, by hand ------------------------------------------------------------------------
 */

static bool keep_first(void *self, const struct kg_variant *variant, bool best)
{
    struct kg_bytes *out = self;
    return !best || !CHECK(variant_pack(variant, out) == KG_OK);
}

/* The published variant, and a store to change it in. */
static struct store *open_store(struct kg_variant *out)
{
    struct store *store;
    struct kg_bytes record = {0};
    if (!CHECK(store_open(e2e_cache, false, &store) == KG_OK))
        exit(1);
    CHECK(store_each_variant(store, keep_first, &record) == KG_OK);
    if (!CHECK(record.data && variant_parse(record.data, record.size, out) == KG_OK))
        exit(1);
    bytes_free(&record);
    return store;
}

/* A variant like the published one with other code; returns its id as text. */
static char *exchanged(const char *from, const char *to)
{
    struct kg_variant variant;
    struct kg_bytes code;
    char id[KG_ID_TEXT];
    struct store *store = open_store(&variant);
    CHECK(store_get_blob(store, &variant.code, &code) == KG_OK);
    char *at = strstr((char *)code.data, from); /* PTX, on this device */
    if (CHECK(at && strlen(from) == strlen(to)))
        memcpy(at, to, strlen(to));
    CHECK(store_put_blob(store, code.data, code.size, &variant.code) == KG_OK);
    variant.ratio *= 2;
    variant_identify(&variant);
    CHECK(store_put_variant(store, &variant, NULL) == KG_OK);
    id_text(&variant.id, id);
    bytes_free(&code);
    variant_free(&variant);
    store_close(store);
    return e2e_text("%s", id);
}

/* … and one whose code is not in the store at all. */
static char *without_code(void)
{
    struct kg_variant variant;
    char id[KG_ID_TEXT];
    struct store *store = open_store(&variant);
    variant.code.bytes[0] ^= 1;
    variant_identify(&variant);
    CHECK(store_put_variant(store, &variant, NULL) == KG_OK);
    id_text(&variant.id, id);
    variant_free(&variant);
    store_close(store);
    return e2e_text("%s", id);
}

/* ---- cases -------------------------------------------------------------------------------------
 */

static void evidence_is_whole(void)
{
    json_t *shown = e2e_json("show", "poly", NULL), *gate, *variant, *evidence;
    size_t i;
    variant = json_array_get(json_object_get(shown, "variants"), 0);
    evidence = json_object_get(variant, "evidence");
    static const char *const texts[] = {"kgenrt",   "harness", "instrument", "device",
                                        "kernel",   "capture", "inputs",     "result",
                                        "accuracy", "chosen",  "signature"};
    for (i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!CHECK(json_string_length(json_object_get(evidence, texts[i])) > 0))
            fprintf(stderr, "  no %s\n", texts[i]);
    CHECK(json_array_size(json_object_get(evidence, "seeds")) == 4);
    const char *code = json_string_value(json_object_get(variant, "code"));
    CHECK(code && !strcmp(code, json_string_value(json_object_get(
                                    json_object_get(evidence, "variant"), "code"))));
    CHECK(e2e_run((const char *[]){e2e_cli(), "show", "--evidence", "poly", NULL}, NULL, 60) == 0);
    CHECK(json_array_size(json_object_get(evidence, "gates")) > 10);
    json_array_foreach(json_object_get(evidence, "gates"), i, gate)
    {
        const char *name = json_string_value(json_object_get(gate, "name"));
        CHECK(says(e2e_text("\n  %-14s passed", name)));
        CHECK(json_is_number(json_object_get(gate, "ms")));
    }
    CHECK(says("kgenrt verify --seeds") && says("(the verdict rests on it)") && says("seeds "));
    json_decref(shown);
}

static void repeated(void)
{
    CHECK(verify("--seeds", "poly", NULL) == 0);
    CHECK(says("1 reproduced, 0 not reproduced, 0 not possible") && says(", as then"));
    CHECK(verify("--all", NULL, NULL) == 0 && says("1 reproduced"));
    CHECK(verify("--json", "poly", NULL) == 0 && says("\"outcome\": \"reproduced\""));
    CHECK(verify("--json", "nosuch", NULL) == 3);
    CHECK(verify("--all", "poly", NULL) == 2 && says("give a variant"));
    CHECK(verify("--seeds", "poly", "SOFTGPU_DEVICE=a100") == 2);
    CHECK(says("no device here is a softgpu") && says("0 not reproduced, 1 not possible"));
}

static void tampered_capture(void)
{
    char *kept = e2e_text("%s/captures", e2e_cache), *sound = e2e_text("%s/sound", e2e_cache);
    CHECK(system(e2e_text("mv '%s' '%s' && cp -r '%s' '%s'", kept, sound, sound, kept)) == 0);
    CHECK(system(e2e_text("for f in '%s'/*; do printf x | dd of=\"$f\" bs=1 seek=9000 "
                          "conv=notrunc 2>/dev/null; done",
                          kept)) == 0);
    CHECK(verify("--demote", "poly", NULL) == 2 && says("the kept capture cannot be used"));
    CHECK(system(e2e_text("rm -r '%s'", kept)) == 0);
    CHECK(verify("--demote", "poly", NULL) == 2 && says("the capture is not kept"));
    CHECK(system(e2e_text("mv '%s' '%s'", sound, kept)) == 0);
    CHECK(verify("--all", NULL, NULL) == 0);
}

int main(int argc, char **argv)
{
    e2e_begin(argc, argv);
    if (e2e_gpu)
        SKIP("its words are of the software GPU");
    const char *capture = e2e_captured(e2e_sample("polynomial"), "--small");
    const char *const worker[] = {e2e_cli(), "worker", "--once", capture, NULL};
    char *replies = e2e_text("%s", e2e_replies("polynomial"));
    if (!capture)
        return test_result();
    CHECK(e2e_run(worker, (const char *[]){replies, "KGENRT_KEPT_MIB=0", NULL}, 300) == 0);
    CHECK(verify("--seeds", "poly", NULL) == 2 && says("the capture is not kept"));
    CHECK(system(e2e_text("rm -rf '%s/store' '%s/snapshots'", e2e_cache, e2e_cache)) == 0);
    CHECK(e2e_run(worker, (const char *[]){replies, NULL}, 300) == 0);
    evidence_is_whole();
    repeated();
    char *bare = without_code();
    CHECK(verify("--json", bare, NULL) == 1 && says("its code in the store cannot be used"));
    char *wrong = exchanged("fma.rn.f32", "fma.rz.f32");
    CHECK(verify("--seeds", wrong, NULL) == 1);
    CHECK(says("not reproduced: refused by gate compare: wrong result at parameter 1"));
    CHECK(verify("--demote", "poly", NULL) == 1); /* it was the best; nobody gets it now */
    CHECK(says("taken out of use") && verify("--seeds", "poly", NULL) == 0);
    tampered_capture();
    e2e_remove_cache();
    return test_result();
}
