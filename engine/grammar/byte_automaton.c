#include "engine/grammar/byte_automaton.h"
#include "schemas/base/hash.h"

#include <string.h>

enum {
    ROW_BYTES = 256 * sizeof(uint32_t),
};

static bool is_live(struct byte_automaton *automaton, uint32_t expression)
{
    return expression != EXPRESSION_NOTHING && !expression_is_empty_language(automaton->pool, expression);
}

// True if any of the code points first..last has a live derivative. All sets treat surrogates like their
// neighbors, so the caller must exclude surrogates.
static bool any_live(struct byte_automaton *automaton, uint32_t expression, uint32_t first, uint32_t last)
{
    if (first > last || !expression_derive(automaton->pool, expression))
        return false;
    struct expression_node node = *expression_node(automaton->pool, expression);
    for (uint32_t i = 0; i < node.n_derivative; i++) {
        struct expression_piece piece = automaton->pool->pieces.items[node.derivative + i];
        uint32_t end = CODE_POINT_MAX;
        if (i + 1 < node.n_derivative)
            end = automaton->pool->pieces.items[node.derivative + i + 1].first - 1;
        if (piece.first <= last && end >= first && is_live(automaton, piece.target))
            return true;
    }
    return false;
}

bool byte_state_equal(const struct byte_state *a, const struct byte_state *b)
{
    return a->expression == b->expression && a->value == b->value && a->low == b->low &&
           a->encoding == b->encoding && a->place == b->place && a->n == b->n && a->uniform == b->uniform;
}

static uint64_t hash_state(const struct byte_state *state)
{
    const uint32_t words[] = {state->expression, state->value, state->low,
                              (uint32_t)state->encoding | (uint32_t)state->place << 8 |
                                  (uint32_t)state->n << 16 | (uint32_t)state->uniform << 24};
    return hash_bytes(words, sizeof words, 0);
}

static uint32_t intern_state(struct byte_automaton *automaton, struct byte_state state)
{
    if (automaton->pool->status != STATUS_OK)
        return BYTE_STATE_DEAD;
    if (!hash_index_reserve(&automaton->index))
        return expressions_fail_memory(automaton->pool);
    const uint64_t hash = hash_state(&state);
    struct hash_slot *slot = hash_index_slot(&automaton->index, hash);
    for (; slot->number; slot = hash_index_next(&automaton->index, slot, hash))
        if (byte_state_equal(&BLOCK_ITEM(&automaton->states, slot->number), &state))
            return slot->number;
    const size_t n = automaton->states.n; // an earlier call may have grown another array before memory ran
                                          // out
    if ((automaton->rows.n == n && !BLOCKS_ADD(&automaton->rows, NULL)) ||
        (automaton->classes.n == n && !BLOCKS_ADD(&automaton->classes, (struct byte_set){0})) ||
        !BLOCKS_ADD(&automaton->states, state))
        return expressions_fail_memory(automaton->pool);
    automaton->n_bytes += sizeof state + sizeof(struct byte_set) + 4 * sizeof(void *);
    hash_index_fill(&automaton->index, slot, hash, (uint32_t)automaton->states.n - 1);
    return slot->number;
}

uint32_t byte_automaton_between(struct byte_automaton *automaton, uint32_t expression,
                                enum terminal_encoding encoding)
{
    if (!is_live(automaton, expression))
        return BYTE_STATE_DEAD;
    return intern_state(automaton, (struct byte_state){.expression = expression,
                                                       .encoding = (uint8_t)encoding,
                                                       .place = PLACE_BETWEEN});
}

static uint32_t state_between(struct byte_automaton *automaton, const struct byte_state *state,
                              uint32_t expression)
{
    return byte_automaton_between(automaton, expression, (enum terminal_encoding)state->encoding);
}

// Returns the state after a complete code point.
static uint32_t finish_code_point(struct byte_automaton *automaton, const struct byte_state *state,
                                  uint32_t code_point)
{
    return state_between(automaton, state,
                         state->uniform ? state->expression
                                        : expression_step(automaton->pool, state->expression, code_point));
}

// Returns a state inside a code point that will be one of first..last (none is a surrogate). If all of these
// have the same derivative, the bits read so far no longer matter, and `canonical` replaces them, so that
// such states coincide. With UINT32_MAX the bits are kept.
static uint32_t spell_range(struct byte_automaton *automaton, struct byte_state state, uint32_t first,
                            uint32_t last, uint32_t canonical)
{
    uint32_t target;
    if (state.uniform || first > last)
        return first > last ? BYTE_STATE_DEAD : intern_state(automaton, state);
    if (expression_step_range(automaton->pool, state.expression, first, last, &target)) {
        if (!is_live(automaton, target))
            return BYTE_STATE_DEAD;
        if (canonical != UINT32_MAX) {
            state.uniform = true;
            state.expression = target;
            state.value = canonical;
        }
        return intern_state(automaton, state);
    }
    return any_live(automaton, state.expression, first, last) ? intern_state(automaton, state)
                                                              : BYTE_STATE_DEAD;
}

// Computes the range of code points that the bits so far can become, without overlong forms and surrogates
// (RFC 3629, section 4).
void byte_state_utf8_range(const struct byte_state *state, uint32_t *first, uint32_t *last)
{
    uint32_t shift = 6u * state->n, least = state->low == 2 ? 0x80 : state->low == 3 ? 0x800 : 0x10000;
    *first = state->value << shift;
    *last = *first + (1u << shift) - 1;
    if (*first < least)
        *first = least;
    if (*last > CODE_POINT_MAX)
        *last = CODE_POINT_MAX;
    if (*first >= HIGH_FIRST && *last <= LOW_LAST)
        *first = *last + 1;
    else if (*first < HIGH_FIRST && *last >= HIGH_FIRST && *last <= LOW_LAST)
        *last = HIGH_FIRST - 1;
}

// Returns the state after a byte that does not complete a code point.
static uint32_t utf8_state(struct byte_automaton *automaton, struct byte_state state)
{
    uint32_t first, last, shift = 6u * state.n;
    if (state.uniform)
        return intern_state(automaton, state);
    byte_state_utf8_range(&state, &first, &last);
    bool complete = first == state.value << shift && last == first + (1u << shift) - 1;
    if (complete) { // any continuation byte is valid, so the bytes read no longer matter
        struct byte_state any = state;
        any.low = 4;
        uint32_t target;
        if (expression_step_range(automaton->pool, state.expression, first, last, &target))
            state = any;
    }
    return spell_range(automaton, state, first, last, complete ? 0 : UINT32_MAX);
}

static uint32_t step_lead(struct byte_automaton *automaton, const struct byte_state *from, unsigned char byte)
{
    struct byte_state state = *from;
    state.place = PLACE_UTF8;
    if (byte >= 0xC2 && byte <= 0xDF)
        state.n = 1;
    else if (byte >= 0xE0 && byte <= 0xEF)
        state.n = 2;
    else if (byte >= 0xF0 && byte <= 0xF4)
        state.n = 3;
    else
        return BYTE_STATE_DEAD;
    state.low = state.n + 1u;
    state.value = byte & (0x3Fu >> state.n);
    return utf8_state(automaton, state);
}

static uint32_t step_continuation(struct byte_automaton *automaton, struct byte_state state,
                                  unsigned char byte)
{
    if ((byte & 0xC0) != 0x80)
        return BYTE_STATE_DEAD;
    state.n--;
    if (!state.uniform)
        state.value = state.value << 6 | (byte & 0x3F);
    if (state.n)
        return utf8_state(automaton, state);
    uint32_t first, last;
    if (!state.uniform) {
        byte_state_utf8_range(&state, &first, &last);
        if (first > last)
            return BYTE_STATE_DEAD;
    }
    return finish_code_point(automaton, &state, state.value);
}

static int hex_value(unsigned char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

uint32_t surrogate_pair(uint32_t high, uint32_t low)
{
    return 0x10000 + ((high - HIGH_FIRST) << 10) + (low - LOW_FIRST);
}

static uint32_t after_high_surrogate(struct byte_automaton *automaton, struct byte_state state)
{
    state.place = PLACE_LOW;
    state.n = 0;
    state.low = 0;
    uint32_t first = surrogate_pair(state.value, LOW_FIRST);
    return spell_range(automaton, state, first, first + 0x3FF, HIGH_FIRST);
}

static uint32_t step_hex(struct byte_automaton *automaton, struct byte_state state, unsigned char byte)
{
    int digit = hex_value(byte);
    if (digit < 0)
        return BYTE_STATE_DEAD;
    state.n++;
    if (state.uniform)
        return state.n == 4 ? finish_code_point(automaton, &state, 0) : intern_state(automaton, state);
    state.value = state.value << 4 | (uint32_t)digit;
    uint32_t shift = 4u * (4 - state.n), first = state.value << shift, last = first + (1u << shift) - 1;
    if (state.n == 4 && first >= HIGH_FIRST && first < LOW_FIRST)
        return after_high_surrogate(automaton, state);
    if (first >= LOW_FIRST && last <= LOW_LAST)
        return BYTE_STATE_DEAD;
    if (state.n == 4)
        return finish_code_point(automaton, &state, state.value);
    if (last < HIGH_FIRST || first > LOW_LAST)
        return spell_range(automaton, state, first, last, 0);
    // The range includes surrogates, so it is spelled \ud...: the next digit of a high surrogate is 8 to b.
    uint32_t high_first = first > HIGH_FIRST ? first : HIGH_FIRST,
             high_last = last < LOW_FIRST - 1 ? last : LOW_FIRST - 1;
    bool live = (first < HIGH_FIRST && any_live(automaton, state.expression, first, HIGH_FIRST - 1)) ||
                (high_first <= high_last &&
                 any_live(automaton, state.expression, surrogate_pair(high_first, LOW_FIRST),
                          surrogate_pair(high_last, LOW_LAST)));
    return live ? intern_state(automaton, state) : BYTE_STATE_DEAD;
}

static uint32_t step_low(struct byte_automaton *automaton, struct byte_state state, unsigned char byte)
{
    int digit = hex_value(byte);
    state.n++;
    if (state.n <= 2)
        return byte == (state.n == 1 ? '\\' : 'u') ? intern_state(automaton, state) : BYTE_STATE_DEAD;
    if (digit < 0 || (state.n == 3 && digit != 0xD) || (state.n == 4 && digit < 0xC))
        return BYTE_STATE_DEAD;
    if (state.uniform)
        return state.n == 6 ? finish_code_point(automaton, &state, 0) : intern_state(automaton, state);
    state.low = state.low << 4 | (uint32_t)digit;
    if (state.n < 4)
        return intern_state(automaton, state);
    uint32_t shift = 4u * (6 - state.n), first = surrogate_pair(state.value, state.low << shift);
    if (state.n == 6)
        return finish_code_point(automaton, &state, first);
    return any_live(automaton, state.expression, first, first + (1u << shift) - 1)
               ? intern_state(automaton, state)
               : BYTE_STATE_DEAD;
}

static uint32_t step_escape(struct byte_automaton *automaton, struct byte_state state, unsigned char byte)
{
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (byte == 'u') {
        state.place = PLACE_HEX;
        state.n = 0;
        return intern_state(automaton, state);
    }
    const char *letter = byte ? strchr(letters, byte) : NULL;
    return letter ? finish_code_point(automaton, &state, (unsigned char)values[letter - letters])
                  : BYTE_STATE_DEAD;
}

// Returns the byte before and after a terminal of this encoding; -1: none.
static int quote_of(unsigned encoding)
{
    return encoding == TERMINAL_JSON_STRING ? '"' : encoding == TERMINAL_SPECIAL ? SPECIAL_QUOTE : -1;
}

static uint32_t closed_state(struct byte_automaton *automaton, unsigned encoding)
{
    return intern_state(automaton, (struct byte_state){.expression = EXPRESSION_EMPTY,
                                                       .encoding = (uint8_t)encoding,
                                                       .place = PLACE_CLOSED});
}

uint32_t byte_automaton_closed(struct byte_automaton *automaton)
{
    return closed_state(automaton, TERMINAL_JSON_STRING);
}

static uint32_t step_between(struct byte_automaton *automaton, struct byte_state state, unsigned char byte)
{
    bool is_json = state.encoding == TERMINAL_JSON_STRING || state.encoding == TERMINAL_JSON_CONTENT;
    if (byte == quote_of(state.encoding))
        return expression_is_nullable(automaton->pool, state.expression)
                   ? closed_state(automaton, state.encoding)
                   : BYTE_STATE_DEAD;
    if (is_json && byte == '"')
        return BYTE_STATE_DEAD;
    if (is_json && byte == '\\') {
        state.place = PLACE_ESCAPE;
        return any_live(automaton, state.expression, 0, CODE_POINT_MAX) ? intern_state(automaton, state)
                                                                        : BYTE_STATE_DEAD;
    }
    if (byte >= 0x80)
        return step_lead(automaton, &state, byte);
    return is_json && byte < 0x20 ? BYTE_STATE_DEAD : finish_code_point(automaton, &state, byte);
}

static uint32_t step_state(struct byte_automaton *automaton, struct byte_state state, unsigned char byte)
{
    switch ((enum byte_place)state.place) {
    case PLACE_BETWEEN:
        return step_between(automaton, state, byte);
    case PLACE_OPEN:
        return byte == quote_of(state.encoding) ? state_between(automaton, &state, state.expression)
                                                : BYTE_STATE_DEAD;
    case PLACE_CLOSED:
        return BYTE_STATE_DEAD;
    case PLACE_UTF8:
        return step_continuation(automaton, state, byte);
    case PLACE_ESCAPE:
        return step_escape(automaton, state, byte);
    case PLACE_HEX:
        return step_hex(automaton, state, byte);
    case PLACE_LOW:
        return step_low(automaton, state, byte);
    }
    return BYTE_STATE_DEAD;
}

// True if a byte between code points spells an ASCII character by itself.
static bool is_itself(const struct byte_state *state, unsigned char byte)
{
    bool is_json = state->encoding == TERMINAL_JSON_STRING || state->encoding == TERMINAL_JSON_CONTENT;
    return byte < 0x80 && !(is_json && (byte < 0x20 || byte == '"' || byte == '\\'));
}

// All ASCII characters in one piece of the derivative have the same next state, so this fills in all of them
// at once.
static void keep_piece(struct byte_automaton *automaton, const struct byte_state *state, unsigned char byte,
                       uint32_t target, uint32_t *row)
{
    uint32_t first, last;
    expression_piece_range(automaton->pool, state->expression, byte, &first, &last);
    for (uint32_t at = first; at <= last && at < 0x80; at++)
        if (is_itself(state, (unsigned char)at))
            row[at] = target;
}

uint32_t byte_automaton_step(struct byte_automaton *automaton, uint32_t id, unsigned char byte)
{
    uint32_t *row = BLOCK_ITEM(&automaton->rows, id);
    if (!row) {
        row = malloc(ROW_BYTES);
        if (!row)
            return expressions_fail_memory(automaton->pool);
        memset(row, 0xFF, ROW_BYTES);
        BLOCK_ITEM(&automaton->rows, id) = row;
        automaton->n_bytes += ROW_BYTES;
    }
    if (row[byte] == BYTE_STATE_UNKNOWN) {
        const struct byte_state state = BLOCK_ITEM(&automaton->states, id);
        uint32_t target = step_state(automaton, state, byte);
        if (automaton->pool->status != STATUS_OK)
            return BYTE_STATE_DEAD;
        row[byte] = target;
        if (state.place == PLACE_BETWEEN && is_itself(&state, byte))
            keep_piece(automaton, &state, byte, target, row);
    }
    return row[byte];
}

uint32_t byte_automaton_walk(struct byte_automaton *automaton, uint32_t state, struct text bytes)
{
    for (size_t at = 0; at < bytes.size && state != BYTE_STATE_DEAD; at++)
        state = byte_automaton_step(automaton, state, (unsigned char)bytes.data[at]);
    return state;
}

static void add_bytes(struct byte_set *set, unsigned first, unsigned last)
{
    for (unsigned byte = first; byte <= last; byte++)
        set->words[byte / 64] |= UINT64_C(1) << byte % 64;
}

// True if all of the code points have the same derivative.
static bool is_uniform(struct byte_automaton *automaton, uint32_t expression, uint32_t first, uint32_t last)
{
    uint32_t target;
    return expression_step_range(automaton->pool, expression, first, last, &target);
}

// Adds the bytes that can begin the UTF-8 of a code point.
static void add_lead_classes(struct byte_automaton *automaton, uint32_t expression, struct byte_set *starts)
{
    static const unsigned char bounds[] = {0x80, 0xC2, 0xE0, 0xE1, 0xED, 0xEE, 0xF0, 0xF1, 0xF4, 0xF5};
    for (size_t i = 0; i < sizeof bounds; i++)
        add_bytes(starts, bounds[i], bounds[i]);
    if (!is_uniform(automaton, expression, 0x80, 0x7FF))
        add_bytes(starts, 0xC2, 0xDF);
    if (!is_uniform(automaton, expression, 0x1000, 0xFFFF))
        add_bytes(starts, 0xE1, 0xEF);
    if (!is_uniform(automaton, expression, 0x40000, 0xFFFFF))
        add_bytes(starts, 0xF1, 0xF3);
}

// Makes each of the bytes a separate class.
static void add_single(struct byte_set *starts, const char *bytes)
{
    for (; *bytes; bytes++)
        add_bytes(starts, (unsigned char)*bytes, (unsigned char)*bytes + 1u);
}

// Adds the classes inside a code point and before the opening quote, where few bytes are live.
static void add_classes_within(const struct byte_state *state, struct byte_set *starts)
{
    add_bytes(starts, 0, 0);
    if (state->place == PLACE_UTF8)
        add_bytes(starts, 0x80, 0xC0);
    else if (state->place == PLACE_OPEN)
        add_single(starts, "\"");
    else if (state->place == PLACE_ESCAPE)
        add_single(starts, "\"\\/bfnrtu");
    else
        add_single(starts, "0123456789ABCDEFabcdef\\u");
}

static void find_classes(struct byte_automaton *automaton, const struct byte_state *state,
                         struct byte_set *starts)
{
    if (state->encoding == TERMINAL_SPECIAL) {
        add_bytes(starts, 0, 255);
        return;
    }
    if (state->place != PLACE_BETWEEN) {
        add_classes_within(state, starts);
        return;
    }
    if (!expression_derive(automaton->pool, state->expression))
        return;
    const struct expression_node *node = expression_node(automaton->pool, state->expression);
    const struct expression_piece *pieces = automaton->pool->pieces.items + node->derivative;
    for (uint32_t i = 0; i < node->n_derivative && pieces[i].first < 0x80; i++)
        add_bytes(starts, pieces[i].first, pieces[i].first);
    static const unsigned char special[] = {0, 0x20, '"', '"' + 1, '\\', '\\' + 1};
    for (size_t i = 0; i < sizeof special && state->encoding != TERMINAL_TEXT; i++)
        add_bytes(starts, special[i], special[i]);
    add_lead_classes(automaton, state->expression, starts);
}

void byte_automaton_classes(struct byte_automaton *automaton, uint32_t id, struct byte_set *starts)
{
    const struct byte_state state = BLOCK_ITEM(&automaton->states, id);
    if (state.place == PLACE_CLOSED)
        return;
    struct byte_set *classes = &BLOCK_ITEM(&automaton->classes, id);
    if (!(classes->words[0] & 1))
        find_classes(automaton, &state, classes);
    for (int i = 0; i < 4; i++)
        starts->words[i] |= classes->words[i];
}

unsigned byte_automaton_next(struct byte_automaton *automaton, uint32_t state, unsigned byte, uint32_t *next)
{
    struct byte_set starts = {{1}};
    byte_automaton_classes(automaton, state, &starts);
    for (; byte < 256 && automaton->pool->status == STATUS_OK; byte++) {
        *next = BYTE_STATE_DEAD;
        if (starts.words[byte / 64] >> byte % 64 & 1)
            *next = byte_automaton_step(automaton, state, (unsigned char)byte);
        if (*next != BYTE_STATE_DEAD)
            return byte;
    }
    *next = BYTE_STATE_DEAD;
    return 256;
}

uint32_t byte_automaton_start(struct byte_automaton *automaton, uint32_t expression,
                              enum terminal_encoding encoding)
{
    if (!is_live(automaton, expression))
        return BYTE_STATE_DEAD;
    return intern_state(automaton,
                        (struct byte_state){.expression = expression,
                                            .encoding = (uint8_t)encoding,
                                            .place = quote_of(encoding) >= 0 ? PLACE_OPEN : PLACE_BETWEEN});
}

bool byte_automaton_accepts(const struct byte_automaton *automaton, uint32_t id)
{
    const struct byte_state *state = &BLOCK_ITEM(&automaton->states, id);
    if (quote_of(state->encoding) >= 0)
        return state->place == PLACE_CLOSED;
    return state->place == PLACE_BETWEEN && expression_is_nullable(automaton->pool, state->expression);
}

bool byte_automaton_ends(const struct byte_automaton *automaton, uint32_t id)
{
    const struct byte_state *state = &BLOCK_ITEM(&automaton->states, id);
    return state->place == PLACE_CLOSED ||
           (state->place == PLACE_BETWEEN && state->expression == EXPRESSION_EMPTY &&
            quote_of(state->encoding) < 0);
}

bool byte_automaton_init(struct byte_automaton *automaton, struct expressions *pool)
{
    *automaton = (struct byte_automaton){.pool = pool};
    if (BLOCKS_ADD(&automaton->states, (struct byte_state){0}) && BLOCKS_ADD(&automaton->rows, NULL) &&
        BLOCKS_ADD(&automaton->classes, (struct byte_set){0}))
        return true;
    expressions_fail_memory(pool);
    return false;
}

void byte_automaton_finish(struct byte_automaton *automaton)
{
    for (size_t i = 0; i < automaton->rows.n; i++)
        free(BLOCK_ITEM(&automaton->rows, i));
    BLOCKS_FINISH(&automaton->rows);
    BLOCKS_FINISH(&automaton->classes);
    BLOCKS_FINISH(&automaton->states);
    hash_index_finish(&automaton->index);
    *automaton = (struct byte_automaton){0};
}
