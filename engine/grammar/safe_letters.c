#include "engine/grammar/safe_letters.h"
#include "engine/grammar/string_tokens.h"

#include <assert.h>
#include <string.h>

enum {
    FOUND_BITS = 16,    // of a stamp, for the index
    FOUND_MAX = 256,    // in all passes
    REACHED_MAX = 32,   // in one pass
    PASSES_MAX = 64,    // each pass removes letters
    WORK_MAX = 1 << 15, // of the derivatives
    LEVELS = 20,        // letters of lookahead
};

uint32_t safe_letters_place(const struct safe_letters *safe, uint32_t expression)
{
    uint64_t place = expression < safe->places.n ? safe->places.items[expression] : 0;
    uint32_t at = place & ((1u << FOUND_BITS) - 1);
    return place >> FOUND_BITS == safe->search && at < safe->found.n &&
                   safe->found.items[at].pass == safe->pass
               ? at
               : SAFE_LETTERS_NONE;
}

bool safe_letters_have(const struct safe_letters *safe, uint32_t place, const struct letter_summary *summary)
{
    return letters_within(&summary->letters, &safe->letters) &&
           (safe->closed || summary->n_letters <= LEVELS - safe->found.items[place].n_before);
}

// Index of an expression, found or added; SAFE_LETTERS_NONE: too many, or no memory.
static uint32_t add_found(struct safe_letters *safe, uint32_t expression)
{
    if (!VECTOR_RESERVE(&safe->places, (size_t)expression + 1))
        return SAFE_LETTERS_NONE;
    if (expression >= safe->places.n) {
        memset(safe->places.items + safe->places.n, 0,
               (safe->places.capacity - safe->places.n) * sizeof *safe->places.items);
        safe->places.n = safe->places.capacity;
    }
    uint64_t *place = &safe->places.items[expression];
    if (*place >> FOUND_BITS == safe->search)
        return *place & ((1u << FOUND_BITS) - 1);
    if (safe->found.n == FOUND_MAX ||
        !VECTOR_ADD(&safe->found, ((struct safe_state){.expression = expression})))
        return SAFE_LETTERS_NONE;
    *place = safe->search << FOUND_BITS | (safe->found.n - 1);
    return (uint32_t)safe->found.n - 1;
}

// Upper bound of the tokens that contain a letter of the set.
static uint32_t count_tokens(const struct string_tokens *tokens, const struct letter_set *set)
{
    uint32_t n = 0;
    for (int word = 0; word < LETTERS / 64; word++)
        for (uint64_t rest = set->words[word]; rest; rest &= rest - 1)
            n += tokens->n_with_letter[word * 64 + __builtin_ctzll(rest)];
    return n;
}

static struct letter_set common_letters(const struct letter_set *a, const struct letter_set *b)
{
    return (struct letter_set){
        {a->words[0] & b->words[0], a->words[1] & b->words[1], a->words[2] & b->words[2]}};
}

static bool has_letters(const struct letter_set *set)
{
    return set->words[0] | set->words[1] | set->words[2];
}

static void remove_letters(struct letter_set *from, const struct letter_set *letters)
{
    for (int word = 0; word < LETTERS / 64; word++)
        from->words[word] &= ~letters->words[word];
}

// The step from the state to `to`, found or added.
static struct safe_step *step_to(struct safe_letters *safe, uint32_t first_step, uint32_t to)
{
    for (size_t i = first_step; i < safe->steps.n; i++)
        if (safe->steps.items[i].to == to)
            return &safe->steps.items[i];
    return VECTOR_ADD(&safe->steps, (struct safe_step){.to = to}) ? &safe->steps.items[safe->steps.n - 1]
                                                                  : NULL;
}

// False: too many states, or no memory.
static bool expand(struct safe_letters *safe, struct expressions *pool, uint32_t place)
{
    uint32_t expression = safe->found.items[place].expression, first_step = (uint32_t)safe->steps.n;
    if (!expression_count(pool, expression))
        return false;
    const struct expression_node node = *expression_node(pool, expression);
    for (uint32_t i = 0; i < node.n_derivative; i++) {
        const struct expression_piece piece = pool->pieces.items[node.derivative + i];
        uint32_t last = CODE_POINT_MAX, to = SAFE_LETTERS_NONE;
        if (i + 1 < node.n_derivative)
            last = pool->pieces.items[node.derivative + i + 1].first - 1;
        bool is_dead = piece.target == EXPRESSION_NOTHING || expression_is_empty_language(pool, piece.target);
        if (!is_dead && (to = add_found(safe, piece.target)) == SAFE_LETTERS_NONE)
            return false;
        struct safe_step *step = step_to(safe, first_step, to);
        if (!step)
            return false;
        letters_add_touched(&step->letters, piece.first, last);
    }
    struct safe_state *state = &safe->found.items[place];
    state->first_step = first_step;
    state->n_steps = (uint32_t)safe->steps.n - first_step;
    state->is_expanded = true;
    return pool->status == STATUS_OK;
}

// Removes the letters that lead from the state to a dead end, or the letters that lead to the state: the ones
// that fewer tokens contain.
static void avoid_dead_end(struct safe_letters *safe, const struct string_tokens *tokens, uint32_t place,
                           const struct letter_set *dying)
{
    const struct safe_state *state = &safe->found.items[place];
    bool is_entry = place > 0 && state->n_tokens < count_tokens(tokens, dying);
    remove_letters(&safe->letters, is_entry ? &state->entry : dying);
}

// Too many states: removes the letters that lead to one of them, the ones that the fewest tokens contain.
static void reach_fewer(struct safe_letters *safe)
{
    const struct safe_state *fewest = &safe->found.items[safe->queue.items[1]];
    for (size_t i = 2; i < safe->queue.n; i++) {
        const struct safe_state *state = &safe->found.items[safe->queue.items[i]];
        if (state->n_tokens < fewest->n_tokens)
            fewest = state;
    }
    remove_letters(&safe->letters, &fewest->entry);
}

static bool reach(struct safe_letters *safe, const struct string_tokens *tokens, uint32_t place,
                  uint32_t n_before, const struct letter_set *entry)
{
    struct safe_state *state = &safe->found.items[place];
    if (state->pass == safe->pass)
        return true;
    state->pass = safe->pass;
    state->n_before = n_before;
    state->entry = *entry;
    state->n_tokens = count_tokens(tokens, entry);
    safe->closed &= n_before < LEVELS;
    return VECTOR_ADD(&safe->queue, place);
}

enum pass_end { PASS_WHOLE, PASS_AGAIN, PASS_FAILED };

// Follows the steps of one state by the remaining letters.
static enum pass_end follow_steps(struct safe_letters *safe, const struct string_tokens *tokens,
                                  uint32_t place)
{
    const struct safe_state state = safe->found.items[place];
    for (uint32_t i = 0; i < state.n_steps; i++) {
        const struct safe_step step = safe->steps.items[state.first_step + i];
        struct letter_set letters = common_letters(&step.letters, &safe->letters);
        if (!has_letters(&letters))
            continue;
        if (step.to == SAFE_LETTERS_NONE) {
            avoid_dead_end(safe, tokens, place, &letters);
            return PASS_AGAIN;
        }
        if (!reach(safe, tokens, step.to, state.n_before + 1, &letters))
            return PASS_FAILED;
        if (safe->queue.n > REACHED_MAX) {
            reach_fewer(safe);
            return PASS_AGAIN;
        }
    }
    return PASS_WHOLE;
}

static enum pass_end reach_all(struct safe_letters *safe, struct expressions *pool,
                               const struct string_tokens *tokens, uint64_t *work)
{
    safe->pass++;
    safe->queue.n = 0;
    safe->closed = true;
    if (!reach(safe, tokens, 0, 0, &safe->letters))
        return PASS_FAILED;
    for (size_t at = 0; at < safe->queue.n; at++) {
        uint32_t place = safe->queue.items[at];
        if (safe->found.items[place].n_before == LEVELS)
            break;
        if (!safe->found.items[place].is_expanded) {
            if (*work > WORK_MAX || !expand(safe, pool, place))
                return PASS_FAILED;
            *work += expression_derived_work(pool, safe->found.items[place].expression);
        }
        enum pass_end end = follow_steps(safe, tokens, place);
        if (end != PASS_WHOLE)
            return end;
    }
    return PASS_WHOLE;
}

void safe_letters_find(struct safe_letters *safe, struct expressions *pool, uint32_t expression,
                       const struct string_tokens *tokens)
{
    enum pass_end end = PASS_AGAIN;
    uint64_t work = 0;
    safe->search++;
    safe->found.n = safe->steps.n = 0;
    safe->letters = (struct letter_set){0};
    letters_add(&safe->letters, 0, CODE_POINT_MAX);
    if (add_found(safe, expression) == SAFE_LETTERS_NONE)
        end = PASS_FAILED;
    for (int pass = 0; pass < PASSES_MAX && end == PASS_AGAIN; pass++)
        end = reach_all(safe, pool, tokens, &work);
    safe->known = end == PASS_WHOLE && has_letters(&safe->letters);
    if (pool->status == STATUS_REJECT && pool->limit != GRAMMAR_LIMIT_NODES)
        pool->status = STATUS_OK;
}

bool safe_letters_tokens(const struct safe_letters *safe, const struct string_tokens *tokens, size_t n_words,
                         size_t n_max, uint32_t *bits)
{
    static_assert(STRING_TOKENS_MASKS - 1 <= LEVELS, "tokens of fewer letters have a mask");
    const uint32_t *few = tokens->masks + (STRING_TOKENS_MASKS - 1) * n_words;
    for (unsigned letter = 0; letter < LETTERS; letter++)
        if (!(safe->letters.words[letter / 64] >> letter % 64 & 1) && tokens->n_with_letter[letter] > n_max)
            return false;
    for (size_t i = 0; i < n_words; i++)
        bits[i] = safe->closed ? 0 : tokens->all[i] & ~few[i];
    for (unsigned letter = 0; letter < LETTERS; letter++) {
        const uint32_t *mask = tokens->with_letter + letter * n_words;
        if (safe->letters.words[letter / 64] >> letter % 64 & 1 || !tokens->n_with_letter[letter])
            continue;
        for (size_t i = 0; i < n_words; i++)
            bits[i] |= mask[i];
    }
    return true;
}

void safe_letters_finish(struct safe_letters *safe)
{
    VECTOR_FINISH(&safe->found);
    VECTOR_FINISH(&safe->steps);
    VECTOR_FINISH(&safe->queue);
    VECTOR_FINISH(&safe->places);
}
