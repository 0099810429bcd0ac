#include "batching/property_scores.h"

#include "schemas/json_answer.h"

#include <stdlib.h>
#include <string.h>

void property_scores_wait(struct prompt *prompt)
{
    for (int32_t i = request_n_sequences(&prompt->job->request); i < prompt->sequences.n; i++)
        prompt->sequences.items[i].scoring.only_scores = true;
}

// ---- the place of a value in the answer ----

struct place {
    size_t begin, end; // bytes of the answer's text
};

static size_t skip_blanks(struct text text, size_t at)
{
    while (at < text.size && memchr(" \n\r\t", text.data[at], 4))
        at++;
    return at;
}

// at: offset of the opening quote. Returns the offset after the closing quote.
static size_t skip_string(struct text text, size_t at)
{
    for (at++; at < text.size && text.data[at] != '"'; at++)
        at += text.data[at] == '\\';
    return at + 1;
}

static size_t skip_value(struct text text, size_t at)
{
    int64_t depth = 0;
    do {
        char c = at < text.size ? text.data[at] : '\0';
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        if (c == '"')
            at = skip_string(text, at);
        else if (depth == 0 && c != '}' && c != ']')
            while (at < text.size && !memchr(",}] \n\r\t", text.data[at], 7))
                at++;
        else
            at++;
    } while (depth > 0 && at < text.size);
    return at;
}

// Reads JSON of the answer. STATUS_REJECT: invalid JSON.
static enum status read_json(struct prompt *prompt, struct text json, struct arena *arena,
                             struct value *value)
{
    struct error error;
    enum status status = json_decode_answer(json, arena, value, &error);
    return status == STATUS_OK || status == STATUS_REJECT
               ? status
               : error_memory(&prompt->error, STATUS_RESTART, "the values of properties");
}

// The value of a property in the object that begins at `at`; text: JSON from there on. Keys may be spelled with escapes.
// end 0: the object lacks the property.
static enum status find_member(struct prompt *prompt, struct text text, size_t at, struct text property,
                               struct place *place)
{
    at = skip_blanks(text, at + 1);
    while (at < text.size && text.data[at] == '"') {
        struct arena arena = {0};
        struct value key;
        size_t end = skip_string(text, at);
        enum status status = read_json(prompt, (struct text){text.data + at, end - at}, &arena, &key);
        bool is_found = status == STATUS_OK && text_equal(key.text, property);
        arena_finish(&arena);
        *place = (struct place){.begin = skip_blanks(text, skip_blanks(text, end) + 1)};
        place->end = skip_value(text, place->begin);
        if (status != STATUS_OK || is_found)
            return status;
        at = skip_blanks(text, place->end);
        if (at < text.size && text.data[at] == ',')
            at = skip_blanks(text, at + 1);
    }
    place->end = 0;
    return STATUS_OK;
}

// Finds where the answer's object begins: the rest of the text is JSON, and thoughts may come before it. STATUS_REJECT:
// the answer is incomplete.
static enum status find_object(struct prompt *prompt, struct text text, size_t *begin)
{
    enum status status = STATUS_REJECT;
    for (size_t at = 0; at < text.size && status == STATUS_REJECT; at++) {
        struct arena arena = {0};
        struct value value;
        if (text.data[at] != '{')
            continue;
        status = read_json(prompt, (struct text){text.data + at, text.size - at}, &arena, &value);
        *begin = at;
        arena_finish(&arena);
    }
    return status;
}

// ---- branches ----

struct spelled_answer {
    const struct sequence *sequence;
    struct text text;
    size_t object; // offset of the answer's object
    size_t *ends;  // [n_generated] end offset of each token's text
};

static bool spell_answer(struct spelled_answer *answer, const struct tokenizer *tokenizer)
{
    const struct sequence_answer *given = &answer->sequence->answer;
    struct buffer bytes = {0};
    answer->ends = calloc((size_t)given->n_generated + 1, sizeof *answer->ends);
    for (int32_t i = 0; answer->ends && i < given->n_generated; i++) {
        tokenizer_decode(tokenizer, given->generated[i], false, &bytes);
        answer->ends[i] = bytes.size;
    }
    bool is_spelled = answer->ends && !bytes.failed;
    buffer_finish(&bytes);
    return is_spelled;
}

static size_t start_of(const struct spelled_answer *answer, int32_t token)
{
    return token > 0 ? answer->ends[token - 1] : 0;
}

static bool is_within_character(struct text text, size_t at)
{
    return at < text.size && ((unsigned char)text.data[at] & 0xC0) == 0x80;
}

// The end of the token with the first byte after the value, or of the last whole character in it.
static size_t find_end(const struct spelled_answer *answer, struct place place)
{
    int32_t token = 0, n = answer->sequence->answer.n_generated;
    while (token < n - 1 && answer->ends[token] <= place.end)
        token++;
    size_t end = answer->ends[token] < answer->text.size ? answer->ends[token] : answer->text.size;
    end = end > place.end ? end : place.end + 1;
    return place.end + utf8_complete_prefix(answer->text.data + place.end, end - place.end);
}

static enum status build_branch(struct prompt *prompt, const struct prompt_environment *environment,
                                const struct spelled_answer *answer, struct place place, struct text value,
                                struct sequence *branch)
{
    struct token_array *tokens = &prompt->branch_tokens;
    size_t first = tokens->n_ids, end = find_end(answer, place);
    int32_t n_kept = 0;
    while (answer->ends[n_kept] <= place.begin)
        n_kept++;
    while (n_kept > 0 && is_within_character(answer->text, start_of(answer, n_kept)))
        n_kept--;
    for (int32_t i = 0; i < n_kept; i++)
        token_array_add(tokens, answer->sequence->answer.generated[i]);
    size_t start = start_of(answer, n_kept);
    struct buffer rest = {0};
    buffer_add(&rest, answer->text.data + start, place.begin - start);
    buffer_add_text(&rest, value);
    buffer_add(&rest, answer->text.data + place.end, end - place.end);
    enum status status = rest.failed
                             ? STATUS_RETRY
                             : tokenizer_encode(environment->tokenizer, (struct text){rest.data, rest.size},
                                                TOKENIZER_CONTINUES, tokens, &prompt->error);
    buffer_finish(&rest);
    if (status == STATUS_REJECT)
        return status;
    if (status != STATUS_OK || tokens->failed)
        return error_memory(&prompt->error, STATUS_RESTART, "tokenizing the values of properties");
    branch->scoring.n_targets = (int32_t)(tokens->n_ids - first);
    branch->scoring.n_submitted = branch->scoring.n_scored = n_kept; // these have no score
    return STATUS_OK;
}

// Whether the sequence fits in the context, with the answer's rope frequencies.
static bool fits(const struct prompt *prompt, const struct prompt_limits *limits,
                 const struct sequence *branch)
{
    int64_t n = (int64_t)prompt->tokens.n_ids + branch->scoring.n_targets;
    return n <= limits->n_context && n <= limits->n_positions_max &&
           (prompt->long_context || n <= limits->n_context_original);
}

// The branches of one property's values [first, end).
static enum status build_property(struct prompt *prompt, const struct prompt_environment *environment,
                                  const struct spelled_answer *answer, int32_t first, int32_t end)
{
    const struct request *request = &prompt->job->request;
    struct sequence *branches = prompt->sequences.items + request_n_sequences(request);
    struct place place = {0};
    enum status status =
        find_member(prompt, answer->text, answer->object, request->scores.values[first].property, &place);
    bool all_fit = true;
    for (int32_t i = first; place.end && status == STATUS_OK && i < end; i++) {
        status =
            build_branch(prompt, environment, answer, place, request->scores.values[i].json, &branches[i]);
        all_fit &= fits(prompt, &environment->limits, &branches[i]);
    }
    for (int32_t i = first; !all_fit && i < end; i++) {
        prompt->branch_tokens.n_ids -= (size_t)branches[i].scoring.n_targets;
        branches[i].scoring = (struct sequence_targets){.only_scores = true};
    }
    return status;
}

static enum status build_branches(struct prompt *prompt, const struct prompt_environment *environment,
                                  const struct spelled_answer *answer)
{
    const struct request_scores *scores = &prompt->job->request.scores;
    enum status status = STATUS_OK;
    for (int32_t first = 0, end = 0; first < scores->n_values && status == STATUS_OK; first = end) {
        while (end < scores->n_values &&
               text_equal(scores->values[end].property, scores->values[first].property))
            end++;
        status = build_property(prompt, environment, answer, first, end);
    }
    return status;
}

bool property_scores_begin(struct prompt *prompt, const struct prompt_environment *environment)
{
    int32_t n_answers = request_n_sequences(&prompt->job->request);
    const struct sequence *sequence = &prompt->sequences.items[0];
    struct spelled_answer answer = {
        sequence, {sequence->answer.text.data, sequence->answer.text.size}, 0, NULL};
    if (prompt->job->request.scores.n_values == 0 || prompt->branch_tokens.n_ids > 0 ||
        find_object(prompt, answer.text, &answer.object) != STATUS_OK)
        return false;
    enum status status = spell_answer(&answer, environment->tokenizer)
                             ? build_branches(prompt, environment, &answer)
                             : error_memory(&prompt->error, STATUS_RESTART, "the values of properties");
    free(answer.ends);
    const int32_t *targets = prompt->branch_tokens.ids; // final address
    for (int32_t i = n_answers; i < prompt->sequences.n; i++) {
        struct sequence_targets *scoring = &prompt->sequences.items[i].scoring;
        scoring->targets = targets;
        scoring->first_target = (int32_t)prompt->tokens.n_ids - 1;
        targets += scoring->n_targets;
    }
    return status == STATUS_OK && prompt->branch_tokens.n_ids > 0;
}
