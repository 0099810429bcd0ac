#include "engine/tokenizer/charsmap.h"

#include "engine/tokenizer/special.h"
#include "engine/tokenizer/unicode_form.h"

#include <stdlib.h>
#include <string.h>

#define BLANK "\xE2\x96\x81" // U+2581

enum { UNIT_VALUE = 1 << 8, CLUSTER_BYTES_MAX = 5 };

static size_t n_units(const struct charsmap *charsmap)
{
    return charsmap->units.size / 4;
}

static uint32_t unit_at(const struct charsmap *charsmap, size_t index)
{
    uint32_t unit;
    memcpy(&unit, charsmap->units.data + 4 * index, sizeof unit);
    return unit;
}

static uint32_t label_of(uint32_t unit)
{
    return unit & (UINT32_C(1) << 31 | 0xFF);
}

static uint32_t value_of(uint32_t unit)
{
    return unit & ~(UINT32_C(1) << 31);
}

// Returns the offset that leads from a node to its children.
static size_t offset_of(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & (1 << 9)) >> 6);
}

// --- Open ---

enum { UNSEEN, ON_PATH, CHECKED };

// A walk over the nodes that a text can reach. Nodes may share children, but must not lead back to
// themselves.
struct trie_walk {
    const struct charsmap *charsmap;
    unsigned char *states; // [n_units]
    struct walked_node {
        uint32_t node;
        uint32_t byte; // the last one whose child was entered
    } * path;          // [n_units]
    size_t n_path;
};

static const char *enter_node(struct trie_walk *walk, size_t node)
{
    const struct charsmap *charsmap = walk->charsmap;
    uint32_t unit = unit_at(charsmap, node);
    size_t base = node ^ offset_of(unit);
    if (unit & UNIT_VALUE &&
        (base >= n_units(charsmap) || value_of(unit_at(charsmap, base)) >= charsmap->replacements.size))
        return "a rule of its trie is outside the map";
    walk->states[node] = ON_PATH;
    walk->path[walk->n_path++] = (struct walked_node){(uint32_t)node, 0};
    return NULL;
}

// NULL: every node is sound.
static const char *check_trie(struct trie_walk *walk)
{
    const char *fault = enter_node(walk, 0);
    while (walk->n_path && !fault) {
        struct walked_node *last = &walk->path[walk->n_path - 1];
        size_t child = last->node ^ offset_of(unit_at(walk->charsmap, last->node)) ^ ++last->byte;
        if (last->byte == 256) {
            walk->states[last->node] = CHECKED;
            walk->n_path--;
        } else if (child < n_units(walk->charsmap) &&
                   label_of(unit_at(walk->charsmap, child)) == last->byte) {
            if (walk->states[child] == ON_PATH)
                return "its trie has a loop";
            if (walk->states[child] == UNSEEN)
                fault = enter_node(walk, child);
        }
    }
    return fault;
}

static enum status refuse_map(struct error *error, const char *fault)
{
    return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "precompiled_charsmap: %s", fault);
}

enum status charsmap_open(struct charsmap *charsmap, struct text bytes, struct error *error)
{
    uint32_t size = 0;
    *charsmap = (struct charsmap){0};
    if (bytes.size == 0)
        return STATUS_OK;
    if (bytes.size > sizeof size)
        memcpy(&size, bytes.data, sizeof size);
    if (size == 0 || size % 4 || size > bytes.size - sizeof size)
        return refuse_map(error, "the size of its trie does not fit");
    charsmap->units = (struct text){bytes.data + sizeof size, size};
    charsmap->replacements = (struct text){bytes.data + sizeof size + size, bytes.size - sizeof size - size};
    struct trie_walk walk = {.charsmap = charsmap,
                             .states = calloc(n_units(charsmap), 1),
                             .path = calloc(n_units(charsmap), sizeof *walk.path)};
    bool has_memory = walk.states && walk.path;
    const char *fault = has_memory ? check_trie(&walk) : NULL;
    free(walk.states);
    free(walk.path);
    if (!has_memory)
        return error_memory(error, STATUS_REFUSE, "precompiled_charsmap");
    return fault ? refuse_map(error, fault) : STATUS_OK;
}

// --- Rules ---

size_t charsmap_find(const struct charsmap *charsmap, struct text text, bool longest,
                     struct text *replacement)
{
    size_t found = 0, start = 0, units = n_units(charsmap);
    if (!units)
        return 0;
    size_t node = offset_of(unit_at(charsmap, 0));
    for (size_t i = 0; i < text.size && text.data[i]; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        node ^= byte;
        if (node >= units)
            break;
        uint32_t unit = unit_at(charsmap, node);
        if (label_of(unit) != byte)
            break;
        node ^= offset_of(unit);
        if (!(unit & UNIT_VALUE))
            continue;
        found = i + 1;
        start = value_of(unit_at(charsmap, node));
        if (!longest)
            break;
    }
    const char *data = charsmap->replacements.data + start;
    *replacement = (struct text){data, found ? strnlen(data, charsmap->replacements.size - start) : 0};
    return found;
}

// The end of the extended grapheme cluster at `at` (UAX #29).
static size_t end_of_cluster(struct text text, size_t at)
{
    uint32_t before, after;
    int32_t state = 0;
    at += utf8_decode(text.data + at, text.size - at, &before);
    for (size_t size; at < text.size; at += size, before = after) {
        size = utf8_decode(text.data + at, text.size - at, &after);
        if (size == 0 || unicode_cluster_ends(before, after, &state))
            break;
    }
    return at;
}

static bool add_replaced(const struct charsmap *charsmap, struct text part, struct buffer *out)
{
    struct text replacement;
    if (!charsmap_find(charsmap, part, false, &replacement))
        return false;
    buffer_add_text(out, replacement);
    return true;
}

static bool is_ascii(char byte)
{
    return (unsigned char)byte < 0x80;
}

// Returns the end of an ASCII character that is a cluster by itself: another ASCII character follows, and the
// two are not CR LF.
static size_t plain_end(struct text text, size_t at, const bool changes[128])
{
    while (at < text.size && is_ascii(text.data[at]) && !changes[(unsigned char)text.data[at]] &&
           text.data[at] != '\r' && (at + 1 == text.size || is_ascii(text.data[at + 1])))
        at++;
    return at;
}

void charsmap_normalize(const struct charsmap *charsmap, struct text text, struct buffer *out)
{
    bool changes[128];
    struct text replacement;
    for (int i = 0; i < 128; i++)
        changes[i] = charsmap_find(charsmap, (struct text){(const char[]){(char)i}, 1}, false, &replacement);
    for (size_t at = 0, end; at < text.size; at = end) {
        end = plain_end(text, at, changes);
        if (end > at) {
            buffer_add(out, text.data + at, end - at);
            continue;
        }
        end = end_of_cluster(text, at);
        if (end == at) { // not UTF-8
            buffer_add_byte(out, text.data[at]);
            end = at + 1;
            continue;
        }
        struct text cluster = {text.data + at, end - at};
        if (cluster.size <= CLUSTER_BYTES_MAX && add_replaced(charsmap, cluster, out))
            continue;
        for (size_t size; at < end; at += size) {
            uint32_t codepoint;
            size = utf8_decode(text.data + at, end - at, &codepoint);
            if (!add_replaced(charsmap, (struct text){text.data + at, size}, out))
                buffer_add(out, text.data + at, size);
        }
    }
}

// --- SentencePiece ---

// Returns the replacement of the start of `text`; *size becomes the number of bytes it replaces.
static struct text normalized_prefix(const struct charsmap *charsmap, const struct special_matcher *kept,
                                     struct text text, size_t *size)
{
    struct special_match match;
    struct text replacement;
    uint32_t codepoint;
    if (kept && special_match_at(kept, text, 0, &match)) {
        *size = match.end;
        return (struct text){text.data, match.end};
    }
    if ((*size = charsmap_find(charsmap, text, true, &replacement)))
        return replacement;
    if ((*size = utf8_decode(text.data, text.size, &codepoint)))
        return (struct text){text.data, *size};
    *size = 1;
    return TEXT("\xEF\xBF\xBD");
}

static void add_blank(const struct sentencepiece_rules *rules, struct buffer *out)
{
    buffer_add_string(out, rules->keeps_blanks ? " " : BLANK);
}

void charsmap_normalize_sentence(const struct charsmap *charsmap, const struct sentencepiece_rules *rules,
                                 const struct special_matcher *kept, struct text text, struct buffer *out)
{
    struct text blank = rules->keeps_blanks ? TEXT(" ") : TEXT(BLANK), prefix;
    size_t at = 0, size;
    while (rules->removes_blanks && at < text.size) {
        prefix = normalized_prefix(charsmap, kept, (struct text){text.data + at, text.size - at}, &size);
        if (!text_equals_string(prefix, " "))
            break;
        at += size;
    }
    if (at == text.size)
        return;
    size_t start = out->size;
    if (rules->adds_blank && !rules->blank_is_last)
        add_blank(rules, out);
    for (bool after_blank = rules->removes_blanks; at < text.size; at += size) {
        prefix = normalized_prefix(charsmap, kept, (struct text){text.data + at, text.size - at}, &size);
        while (after_blank && prefix.size && prefix.data[0] == ' ')
            prefix = (struct text){prefix.data + 1, prefix.size - 1};
        for (size_t i = 0; i < prefix.size; i++)
            if (prefix.data[i] == ' ')
                add_blank(rules, out);
            else
                buffer_add_byte(out, prefix.data[i]);
        if (prefix.size && rules->removes_blanks)
            after_blank = prefix.data[prefix.size - 1] == ' ';
    }
    while (rules->removes_blanks && !out->failed && out->size - start >= blank.size &&
           !memcmp(out->data + out->size - blank.size, blank.data, blank.size))
        out->size -= blank.size;
    if (rules->adds_blank && rules->blank_is_last)
        add_blank(rules, out);
}
