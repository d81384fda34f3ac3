/* Roles as a whole: the pieces of the parameters with their class and reason, and the accesses.
 * What flows where is found in roles_back.c and roles_type.c, more of the
 * parameters' floats in roles_numbers.c. */
#include "roles_parts.h"

#include <stdio.h>

static const char *const role_texts[ROLE_COUNT] = {"pointer",   "index", "loop bound", "branch",
                                                   "selection", "shift", "value",      "unknown"};
const char *const element_texts[ELEMENT_COUNT] = {"unknown", "moved", "int", "f16",
                                                  "bf16",    "f32",   "f64"};

struct making {
    struct roles *out;
    struct kg_arena *arena;
    struct roles_back back;
    struct roles_types types;
    bool *cuts;           /* by byte of the parameters: a piece begins */
    bool *pointers;       /* by word: the address of some access of global memory, or it escapes */
    bool *read, *written; /* by word: such an access reads, writes */
    uint32_t access_room;
    bool failed;
};

/* ---- accesses ---------------------------------------------------------------------------------
 */

static void mark_words(struct making *making, const struct origin_access *access)
{
    const struct origins *origins = &making->out->origins;
    const struct origin_set set = origins_set(origins, access->set);
    bool write = access->use == ORIGIN_WRITE;
    bool anywhere = set.count ? set.items[set.count - 1] >= ORIGIN_LOADED : write;
    if (!access->other_space && anywhere && (write || access->use == ORIGIN_ESCAPE))
        making->out->unknown_writes = true;
    for (uint32_t i = 0; !access->other_space && i < set.count; i++) {
        const struct origin *origin =
            set.items[i] < ORIGIN_LOADED ? &origins->origins[set.items[i]] : NULL;
        if (!origin || origin->var)
            continue;
        making->pointers[origin->word] = true;
        making->read[origin->word] |= !write || access->use == ORIGIN_ESCAPE;
        making->written[origin->word] |= write || access->use == ORIGIN_ESCAPE;
    }
}

static void unite_uses(struct role_set *to, const struct role_set *from)
{
    for (unsigned i = 0; i < ROLE_COUNT; i++)
        if (from->roles >> i & 1 && !(to->roles >> i & 1))
            to->lines[i] = from->lines[i];
    to->roles |= from->roles;
}

/* Where data go that are read: with the registers they are loaded to; and, of what goes from memory
 * to memory (copies, atomics), as all that is in that memory. */
static void describe_data(struct making *making, struct roles_access *access)
{
    const struct origins *origins = &making->out->origins;
    const struct graph *graph = &origins->graphs[access->func];
    const struct origin_set set = origins_set(origins, access->set);
    for (uint32_t r = graph->write_first[access->instr]; r < graph->read_first[access->instr + 1];
         r++)
        unite_uses(&access->data,
                   &making->back.values[origins->bases[access->func] + graph->refs[r].value]);
    if (graph->wild)
        access->data.roles |= ROLE_UNKNOWN;
    if (!(ptx_effects(&graph->func->instrs[access->instr]) & PTX_WRITES))
        return;
    for (uint32_t i = 0; i < set.count && set.items[i] < ORIGIN_LOADED; i++)
        unite_uses(&access->data, &making->back.contents[set.items[i]]);
    unite_uses(&access->data, &making->back.anywhere);
    if (!set.count || set.items[set.count - 1] >= ORIGIN_LOADED)
        unite_uses(&access->data, &making->back.everything);
}

static void describe_access(struct making *making, struct roles_access *access)
{
    const struct origins *origins = &making->out->origins;
    const struct graph *graph = &origins->graphs[access->func];
    const struct ptx_instr *instr = &graph->func->instrs[access->instr];
    access->line = instr->place.line;
    access->bytes = ptx_moved_bytes(instr->form);
    access->spaces = (uint8_t)graph_spaces(graph, access->instr, access->operand);
    access->atomic = ptx_effects(instr) & PTX_ATOMIC;
    access->read |= access->atomic;
    if (access->read)
        describe_data(making, access);
    const struct origin_set set = origins_set(origins, access->set);
    uint32_t node = set.count ? roles_item_node(&making->types, set.items[0])
                              : making->types.unknown; /* all of them are united */
    access->element = (uint8_t)roles_element(&making->types, node, &access->element_declared);
}

/* Data of memory that a write of unknown address may change has no known type. */
static uint8_t doubted(const struct making *making, uint8_t element)
{
    return making->out->unknown_writes ? ELEMENT_UNKNOWN : element;
}

static void add_access(void *self, const struct origin_access *from)
{
    struct making *making = self;
    struct roles *out = making->out;
    mark_words(making, from);
    if (from->use == ORIGIN_ESCAPE)
        return;
    if (out->access_count == making->access_room) {
        uint32_t room = making->access_room ? 2 * making->access_room : 64;
        struct roles_access *grown = arena_alloc(making->arena, room * sizeof *grown);
        if (!grown) {
            making->failed = true;
            return;
        }
        if (out->access_count)
            memcpy(grown, out->accesses, out->access_count * sizeof *grown);
        out->accesses = grown;
        making->access_room = room;
    }
    struct roles_access *access = &out->accesses[out->access_count++];
    *access = (struct roles_access){.func = from->func,
                                    .instr = from->instr,
                                    .operand = from->operand,
                                    .set = from->set,
                                    .read = from->use != ORIGIN_WRITE,
                                    .written = from->use == ORIGIN_WRITE,
                                    .cached = from->use == ORIGIN_READ_CACHED};
    describe_access(making, access);
}

/* ---- pieces -----------------------------------------------------------------------------------
 */

static void cut(struct making *making, uint64_t byte)
{
    if (byte <= ORIGIN_PARAM_BYTES)
        making->cuts[byte] = true;
}

/* Where loads of the parameters begin and end, each element of a vector. */
static void cut_loads(struct making *making)
{
    const struct roles *out = making->out;
    const struct ptx_func *entry = out->entry;
    for (uint32_t i = 0; i < entry->instr_count; i++) {
        const struct ptx_form *form = entry->instrs[i].form;
        uint32_t offset, size, count = form->vector ? form->vector : 1;
        if (!origins_param_load(&out->origins, 0, &entry->instrs[i], &offset, &size))
            continue;
        for (uint32_t part = 0; part <= count; part++)
            cut(making, offset + (uint64_t)part * (size / count));
    }
}

static const struct {
    unsigned role;
    const char *does;
} reasons[] = {
    {ROLE_UNKNOWN, "goes where it cannot be followed"},
    {ROLE_BOUND, "decides whether a loop goes on"},
    {ROLE_BRANCH, "decides a branch or whether memory is accessed"},
    {ROLE_POINTER, "is added to an address"},
    {ROLE_INDEX, "moves an address"},
    {ROLE_SHIFT, "is the amount of a shift or a place in a word"},
    {ROLE_SELECT, "selects between values"},
};

static const char *why(struct making *making, const struct roles_piece *piece)
{
    const struct role_set *uses = &piece->uses;
    if (piece->pointer)
        return "it is an address";
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        if (!(uses->roles & reasons[i].role))
            continue;
        uint32_t line = uses->lines[__builtin_ctz(reasons[i].role)];
        const char *text =
            line ? arena_format(making->arena, "it %s (line %u)", reasons[i].does, line)
                 : reasons[i].does;
        making->failed |= !text;
        return text;
    }
    if (!uses->roles)
        return "it is not used";
    const char *text = arena_format(
        making->arena, "it is a number in arithmetic only, which ends in memory (line %u)",
        uses->lines[6]);
    making->failed |= !text;
    return text;
}

/* A word that is no address for anybody, but was added to one, is an offset. */
static void settle_pointer(struct making *making, struct roles_piece *piece)
{
    uint32_t first = piece->offset / 8, last = (piece->offset + piece->size - 1) / 8;
    bool wide = piece->size >= 8 || (piece->size == 4 && piece->uses.roles & ROLE_POINTER);
    for (uint32_t word = first; wide && word <= last && word < ORIGIN_PARAM_BYTES / 8; word++) {
        piece->pointer |= making->pointers[word];
        piece->read |= making->read[word];
        piece->written |= making->written[word];
    }
    if (piece->pointer) {
        piece->uses.lines[0] = piece->uses.roles & ROLE_POINTER ? piece->uses.lines[0] : 0;
        piece->uses.roles |= ROLE_POINTER;
    } else if (piece->uses.roles & ROLE_POINTER) {
        if (!(piece->uses.roles & ROLE_INDEX))
            piece->uses.lines[1] = piece->uses.lines[0];
        piece->uses.roles = (piece->uses.roles & ~(unsigned)ROLE_POINTER) | ROLE_INDEX;
        piece->uses.lines[0] = 0;
    }
}

/* Element type of what the words of a piece lead to. */
static void settle_data(struct making *making, struct roles_piece *piece)
{
    const struct origins *origins = &making->out->origins;
    bool any = false;
    for (uint32_t i = 0; i < origins->origin_count; i++) {
        const struct origin *origin = &origins->origins[i];
        if (origin->var || 8 * origin->word + 8 <= piece->offset ||
            8 * origin->word >= piece->offset + piece->size)
            continue;
        bool declared;
        uint8_t element = doubted(
            making, (uint8_t)roles_element(
                        &making->types, roles_item_node(&making->types, (uint16_t)i), &declared));
        piece->data = any && piece->data != element ? ELEMENT_UNKNOWN : element;
        piece->data_declared |= declared;
        any = true;
    }
}

static void finish_piece(struct making *making, struct roles_piece *piece)
{
    bool declared;
    for (uint32_t byte = 0; byte < piece->size; byte++)
        unite_uses(&piece->uses, &making->back.bytes[piece->offset + byte]);
    settle_pointer(making, piece);
    piece->element =
        (uint8_t)roles_element(&making->types, making->types.first_byte + piece->offset, &declared);
    piece->element_declared = declared;
    if (piece->pointer)
        settle_data(making, piece);
    piece->pinned = !piece->pointer && piece->uses.roles & ~(unsigned)ROLE_VALUE;
    piece->why = why(making, piece);
}

static kg_status make_pieces(struct making *making)
{
    struct roles *out = making->out;
    const struct ptx_func *entry = out->entry;
    for (uint32_t i = 0; i < entry->param_count; i++) {
        cut(making, entry->params[i]->offset);
        cut(making, entry->params[i]->offset + entry->params[i]->size);
    }
    cut_loads(making);
    uint32_t count = 0;
    for (uint32_t byte = 0; byte <= ORIGIN_PARAM_BYTES; byte++)
        count += making->cuts[byte];
    out->pieces = arena_alloc(making->arena, (count + 1) * sizeof *out->pieces);
    if (!out->pieces)
        return KG_NO_MEMORY;
    for (uint32_t i = 0; i < entry->param_count; i++) {
        const struct ptx_var *param = entry->params[i];
        uint32_t end = param->offset + (uint32_t)param->size;
        for (uint32_t at = param->offset, next; at < end; at = next) {
            for (next = at + 1; next < end && !making->cuts[next];)
                next++;
            out->pieces[out->piece_count] =
                (struct roles_piece){.param = i, .offset = at, .size = next - at};
            finish_piece(making, &out->pieces[out->piece_count++]);
        }
    }
    return making->failed ? KG_NO_MEMORY : KG_OK;
}

/* ---- the whole --------------------------------------------------------------------------------
 */

kg_status roles_make(const struct ptx_module *module, const struct ptx_func *entry,
                     struct kg_arena *arena, struct roles *out)
{
    *out = (struct roles){.module = module, .entry = entry};
    struct making making = {.out = out,
                            .arena = arena,
                            .back = {.roles = out, .arena = arena},
                            .types = {.roles = out, .arena = arena},
                            .cuts = arena_alloc(arena, ORIGIN_PARAM_BYTES + 1),
                            .pointers = arena_alloc(arena, ORIGIN_PARAM_BYTES / 8 + 1),
                            .read = arena_alloc(arena, ORIGIN_PARAM_BYTES / 8 + 1),
                            .written = arena_alloc(arena, ORIGIN_PARAM_BYTES / 8 + 1)};
    if (!making.cuts || !making.pointers || !making.read || !making.written)
        return KG_NO_MEMORY;
    if (entry->param_bytes > ORIGIN_PARAM_BYTES)
        return KG_LIMIT;
    kg_status status = needs_make(module, entry, arena, &out->needs);
    if (status == KG_OK)
        status = origins_make(&out->needs, entry, arena, &out->origins);
    if (status == KG_OK)
        status = roles_go_back(&making.back);
    if (status == KG_OK)
        status = roles_find_types(&making.types);
    if (status != KG_OK)
        return status;
    origins_uses(&out->origins, add_access, &making);
    for (uint32_t i = 0; i < out->access_count; i++)
        if (out->accesses[i].spaces & SPACE_GLOBAL)
            out->accesses[i].element = doubted(&making, out->accesses[i].element);
    status = making.failed ? KG_NO_MEMORY : make_pieces(&making);
    return status == KG_OK ? roles_find_numbers(out, arena) : status;
}

const struct roles_piece *roles_at(const struct roles *roles, uint32_t offset)
{
    for (uint32_t i = 0; i < roles->piece_count; i++)
        if (roles->pieces[i].offset <= offset &&
            offset - roles->pieces[i].offset < roles->pieces[i].size)
            return &roles->pieces[i];
    return NULL;
}

/* ---- for people -------------------------------------------------------------------------------
 */

static void word_text(const struct roles *roles, uint32_t word, char *text, size_t size)
{
    for (uint32_t i = 0; i < roles->entry->param_count; i++) {
        const struct ptx_var *param = roles->entry->params[i];
        if (8 * word + 8 <= param->offset || 8 * word >= param->offset + param->size)
            continue;
        uint32_t inside = 8 * word > param->offset ? 8 * word - param->offset : 0;
        if (inside)
            snprintf(text, size, "parameter %u at byte %u", i, inside);
        else
            snprintf(text, size, "parameter %u", i);
        return;
    }
    snprintf(text, size, "parameter byte %u", 8 * word);
}

char *roles_origin_text(const struct roles *roles, uint32_t number, char *text, size_t size)
{
    const struct origin_set set = origins_set(&roles->origins, number);
    size_t used = 0;
    snprintf(text, size, "unknown");
    for (uint32_t i = 0; i < set.count && used < size; i++) {
        char name[160] = "unknown";
        uint32_t at = set.items[i] & ~(uint32_t)ORIGIN_LOADED;
        bool loaded = set.items[i] & ORIGIN_LOADED && set.items[i] != ORIGIN_UNKNOWN;
        if (set.items[i] != ORIGIN_UNKNOWN && roles->origins.origins[at].var)
            snprintf(name, sizeof name, "%.120s", roles->origins.origins[at].var->name);
        else if (set.items[i] != ORIGIN_UNKNOWN)
            word_text(roles, roles->origins.origins[at].word, name, sizeof name);
        int length = snprintf(text + used, size - used, "%s%s%s", i ? " or " : "",
                              loaded ? "memory from " : "", name);
        used += length > 0 ? (size_t)length : 0;
    }
    return text;
}

char *roles_text(const struct role_set *uses, char *text, size_t size)
{
    size_t used = 0;
    snprintf(text, size, "unused");
    for (unsigned i = 0; i < ROLE_COUNT && used < size; i++) {
        if (!(uses->roles >> i & 1))
            continue;
        int length = snprintf(text + used, size - used, "%s%s", used ? ", " : "", role_texts[i]);
        used += length > 0 ? (size_t)length : 0;
        if (uses->lines[i] && used < size) {
            length = snprintf(text + used, size - used, " (line %u)", uses->lines[i]);
            used += length > 0 ? (size_t)length : 0;
        }
    }
    return text;
}
