// Matchers: a recognizer state, plus the text from which the state is computed again after the recognizer
// restarts.
#include "engine/grammar/forced.h"
#include "engine/grammar/closing_costs.h"
#include "engine/grammar/recognizer.h"
#include "engine/grammar/terminal_ends.h"

#include <assert.h>
#include <string.h>

enum counted_work { WORK_OF_MASK, WORK_OF_CLOSING };

// A state whose mask or closing costs were counted: the size of the text in that state, and the state in the
// recognizer's generation.
struct counted_mask {
    size_t size;
    uint32_t state;
    enum counted_work of;
};

// Steps until a byte is not allowed. Each step is a separate visit.
static uint32_t step_bytes(struct recognizer *recognizer, uint32_t set, struct text bytes, size_t *n_accepted)
{
    for (*n_accepted = 0; *n_accepted < bytes.size; ++*n_accepted) {
        recognizer_begin_visit(recognizer, set);
        uint32_t next = SET_DEAD;
        if (recognizer_count_large(recognizer, set))
            next = recognizer_step(recognizer, set, (unsigned char)bytes.data[*n_accepted]);
        if (next == SET_DEAD)
            break;
        set = next;
    }
    return set;
}

static enum status start_over(struct matcher *matcher, struct error *error)
{
    struct recognizer *recognizer = matcher->recognizer;
    struct counted_mask *counted = (void *)matcher->counted.data;
    size_t n_counted = matcher->counted.size / sizeof *counted, n_accepted, at = 0;
    if (matcher->generation == recognizer->cache.generation)
        return STATUS_OK;
    matcher->state = recognizer->start;
    const char *bytes = matcher->bytes.data ? matcher->bytes.data : ""; // NULL + 0 is undefined
    for (size_t i = 0; i <= n_counted; i++) {
        size_t stop = i < n_counted ? counted[i].size : matcher->bytes.size;
        matcher->state =
            step_bytes(recognizer, matcher->state, (struct text){bytes + at, stop - at}, &n_accepted);
        at = stop;
        if (i < n_counted)
            counted[i].state = matcher->state;
    }
    matcher->generation = recognizer->cache.generation;
    return expressions_status(recognizer->pool, error);
}

// Called before each function: restarts a recognizer that failed or grew too large, then finds the matcher's
// state again.
static enum status prepare_set(struct matcher *matcher, struct error *error)
{
    struct recognizer *recognizer = matcher->recognizer;
    recognizer_forgive(recognizer);
    if (expressions_status(recognizer->pool, NULL) != STATUS_OK ||
        recognizer_bytes(recognizer) > RECOGNIZER_BYTES_MAX) {
        enum status status = recognizer_restart(recognizer, error);
        if (status != STATUS_OK)
            return status;
    }
    return start_over(matcher, error);
}

// Called after each function: true if it must be repeated once, because the pool is full of expressions that
// earlier calls derived.
static bool should_repeat(struct matcher *matcher, bool *repeated)
{
    const struct expressions *pool = matcher->recognizer->pool;
    bool full = pool->status == STATUS_REJECT && pool->limit == GRAMMAR_LIMIT_NODES && !*repeated;
    *repeated = true;
    return full;
}

enum status matcher_init(struct matcher *matcher, struct recognizer *recognizer, struct error *error)
{
    *matcher = (struct matcher){.recognizer = recognizer, .generation = UINT64_MAX};
    return prepare_set(matcher, error);
}

void matcher_finish(struct matcher *matcher)
{
    buffer_finish(&matcher->bytes);
    buffer_finish(&matcher->counted);
    *matcher = (struct matcher){0};
}

struct matcher_mark matcher_set_mark(const struct matcher *matcher)
{
    return (struct matcher_mark){.n_bytes = matcher->bytes.size,
                                 .n_counted = matcher->counted.size,
                                 .state = matcher->state,
                                 .generation = matcher->generation,
                                 .work = matcher->work};
}

// If the recognizer has restarted since the mark, prepare_set() finds the state again.
void matcher_rewind(struct matcher *matcher, const struct matcher_mark *mark)
{
    assert(mark->n_bytes <= matcher->bytes.size && mark->n_counted <= matcher->counted.size);
    matcher->bytes.size = mark->n_bytes;
    matcher->counted.size = mark->n_counted;
    matcher->bytes.failed = matcher->counted.failed = false;
    matcher->state = mark->state;
    matcher->generation = mark->generation;
    matcher->work = mark->work;
}

enum status matcher_accept_bytes(struct matcher *matcher, struct text bytes, size_t *n_accepted,
                                 struct error *error)
{
    struct recognizer *recognizer = matcher->recognizer;
    bool repeated = false;
    uint32_t set = SET_DEAD;
    do {
        *n_accepted = 0;
        enum status status = prepare_set(matcher, error);
        if (status != STATUS_OK)
            return status;
        set = step_bytes(recognizer, matcher->state, bytes, n_accepted);
    } while (should_repeat(matcher, &repeated));
    if (expressions_status(recognizer->pool, error) != STATUS_OK)
        return expressions_status(recognizer->pool, error);
    if (*n_accepted < bytes.size || bytes.size == 0)
        return STATUS_OK;
    if (!buffer_reserve(&matcher->bytes, bytes.size))
        return error_memory(error, STATUS_RETRY, "a grammar's text");
    buffer_add(&matcher->bytes, bytes.data, bytes.size);
    matcher->state = set;
    return STATUS_OK;
}

enum status matcher_accept_token(struct matcher *matcher, uint32_t token, bool *accepted, struct error *error)
{
    const struct grammar_vocabulary *vocabulary = matcher->recognizer->vocabulary;
    *accepted = false;
    for (size_t i = 0; i < vocabulary->n_ends; i++)
        if (vocabulary->ends[i] == token)
            return matcher_may_end(matcher, accepted, error);
    if (token >= vocabulary->n_tokens || vocabulary->tokens[token].size == 0)
        return STATUS_OK;
    size_t n_accepted;
    enum status status = matcher_accept_bytes(matcher, vocabulary->tokens[token], &n_accepted, error);
    *accepted = status == STATUS_OK && n_accepted == vocabulary->tokens[token].size;
    return status;
}

// Adds `work` to the work of the answer, when the answer reaches this state for the first time.
static enum status count_work(struct matcher *matcher, enum counted_work of, uint64_t work,
                              struct error *error)
{
    const struct recognizer *recognizer = matcher->recognizer;
    const struct grammar_limits *limits = &recognizer->pool->limits;
    const struct counted_mask *counted = (const void *)matcher->counted.data;
    if (work < MASK_WORK_COUNTED || matcher->state == recognizer->start)
        return STATUS_OK;
    for (size_t i = 0; i < matcher->counted.size / sizeof *counted; i++)
        if (counted[i].state == matcher->state && counted[i].of == of)
            return STATUS_OK;
    if (matcher->work + work > limits->values[GRAMMAR_LIMIT_ANSWER_WORK])
        return grammar_limit_reached(limits, GRAMMAR_LIMIT_ANSWER_WORK, error);
    const struct counted_mask mask = {matcher->bytes.size, matcher->state, of};
    buffer_add(&matcher->counted, &mask, sizeof mask);
    if (matcher->counted.failed)
        return error_memory(error, STATUS_RETRY, "a grammar's text");
    matcher->work += work;
    return STATUS_OK;
}

// Computes the mask. *mask belongs to the recognizer.
static enum status find_mask(struct matcher *matcher, const uint32_t **mask, struct error *error)
{
    struct recognizer *recognizer = matcher->recognizer;
    assert(recognizer->vocabulary);
    bool repeated = false;
    do {
        enum status status = prepare_set(matcher, error);
        if (status != STATUS_OK)
            return status;
        *mask = recognizer_mask(recognizer, matcher->state);
    } while (should_repeat(matcher, &repeated));
    if (!*mask)
        return expressions_status(recognizer->pool, error);
    return count_work(matcher, WORK_OF_MASK, BLOCK_ITEM(&recognizer->sets, matcher->state).mask_work, error);
}

enum status matcher_mask(struct matcher *matcher, uint32_t *bits, struct error *error)
{
    const uint32_t *mask = NULL;
    enum status status = find_mask(matcher, &mask, error);
    if (status == STATUS_OK)
        memcpy(bits, mask, grammar_mask_words(matcher->recognizer->vocabulary->n_tokens) * sizeof *bits);
    return status;
}

enum status matcher_prepare_mask(struct matcher *matcher, struct error *error)
{
    const uint32_t *mask;
    return find_mask(matcher, &mask, error);
}

enum status matcher_mask_within(struct matcher *matcher, uint32_t n_left, uint32_t *bits, struct error *error)
{
    struct recognizer *recognizer = matcher->recognizer;
    bool repeated = false;
    uint64_t work;
    do {
        enum status status = matcher_mask(matcher, bits, error);
        if (status != STATUS_OK)
            return status;
        work = closing_costs_filter(recognizer, matcher->state, n_left, bits);
    } while (should_repeat(matcher, &repeated));
    if (expressions_status(recognizer->pool, error) != STATUS_OK)
        return expressions_status(recognizer->pool, error);
    return count_work(matcher, WORK_OF_CLOSING, work, error);
}

enum status matcher_tokens_to_end(struct matcher *matcher, uint32_t *n_tokens, struct error *error)
{
    return matcher_tokens_after(matcher, (struct text){0}, n_tokens, error);
}

enum status matcher_tokens_after(struct matcher *matcher, struct text bytes, uint32_t *n_tokens,
                                 struct error *error)
{
    struct recognizer *recognizer = matcher->recognizer;
    bool repeated = false;
    do {
        enum status status = prepare_set(matcher, error);
        if (status != STATUS_OK)
            return status;
        size_t n_accepted;
        uint32_t set = step_bytes(recognizer, matcher->state, bytes, &n_accepted);
        *n_tokens = n_accepted == bytes.size ? closing_costs_of(recognizer, set) : CLOSING_NEVER;
    } while (should_repeat(matcher, &repeated));
    if (*n_tokens >= CLOSING_NEVER)
        *n_tokens = UINT32_MAX;
    return expressions_status(recognizer->pool, error);
}

enum status matcher_find_state(struct matcher *matcher, uint32_t *state, uint64_t *generation,
                               struct error *error)
{
    enum status status = prepare_set(matcher, error);
    *state = matcher->state;
    *generation = matcher->generation;
    return status;
}

enum status matcher_forced_bytes(struct matcher *matcher, size_t n_max, struct buffer *out,
                                 struct error *error)
{
    struct recognizer *recognizer = matcher->recognizer;
    bool repeated = false;
    size_t size = out->size;
    do {
        enum status status = prepare_set(matcher, error);
        if (status != STATUS_OK)
            return status;
        out->size = size;
        uint32_t set = matcher->state;
        for (size_t n = 0; n < n_max; n++) {
            uint16_t forced = recognizer_forced(recognizer, set);
            if (!(forced & FORCED_BYTE))
                break;
            buffer_add_byte(out, (char)forced);
            recognizer_begin_visit(recognizer, set);
            if (!recognizer_count_large(recognizer, set))
                break;
            set = recognizer_step(recognizer, set, (unsigned char)forced);
        }
    } while (should_repeat(matcher, &repeated));
    if (out->failed)
        return error_memory(error, STATUS_RETRY, "a grammar's text");
    return expressions_status(recognizer->pool, error);
}

enum status matcher_safe_size(struct matcher *matcher, struct text forced, size_t from, size_t *size,
                              struct error *error)
{
    struct recognizer *recognizer = matcher->recognizer;
    bool repeated = false;
    do {
        enum status status = prepare_set(matcher, error);
        if (status != STATUS_OK)
            return status;
        size_t n_accepted;
        uint32_t set = step_bytes(recognizer, matcher->state, forced, &n_accepted);
        for (*size = from; *size < forced.size; ++*size)
            if (recognizer_goes_on(recognizer, set, (struct text){forced.data + *size, forced.size - *size}))
                break;
    } while (should_repeat(matcher, &repeated));
    return expressions_status(recognizer->pool, error);
}

enum status matcher_must_end(struct matcher *matcher, bool *must_end, struct error *error)
{
    bool repeated = false;
    do {
        enum status status = prepare_set(matcher, error);
        if (status != STATUS_OK)
            return status;
        *must_end = matcher->recognizer->vocabulary->n_ends > 0 &&
                    recognizer_forced(matcher->recognizer, matcher->state) == FORCED_END;
    } while (should_repeat(matcher, &repeated));
    return expressions_status(matcher->recognizer->pool, error);
}

enum status matcher_may_end(struct matcher *matcher, bool *may_end, struct error *error)
{
    enum status status = prepare_set(matcher, error);
    *may_end = status == STATUS_OK && BLOCK_ITEM(&matcher->recognizer->sets, matcher->state).may_end;
    return status;
}
