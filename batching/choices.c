// Writes a job's result from its finished sequences: selects the choices to return, converts their texts to
// UTF-8 and splits the answers of chats into thoughts, content and calls.
#include "engine/answer/answer_parse.h"
#include "engine/answer/answer_settled.h"

#include "batching/scoring.h"

#include <string.h>

// Position of the scan over an answer's bytes.
struct answer_scan {
    struct text bytes;
    struct choice *choice;
    size_t position;      // index into the answer's bytes
    int32_t n_characters; // characters of the text so far
    int32_t n_tokens;     // tokens with text_offset converted to characters
};

// A stop string removed the text of some tokens: their offset becomes the text's length.
static void place_tokens(struct answer_scan *reading, size_t end)
{
    struct logprob_entry *entries = reading->choice->logprobs;
    int32_t n_entries = reading->choice->n_echoed + reading->choice->n_tokens;
    while (entries && reading->n_tokens < n_entries && (size_t)entries[reading->n_tokens].text_offset < end)
        entries[reading->n_tokens++].text_offset = reading->n_characters;
}

static void take_character(struct answer_scan *reading, size_t length)
{
    place_tokens(reading, reading->position + length);
    reading->position += length;
    reading->n_characters++;
}

// Writes one U+FFFD for each maximal subpart of invalid UTF-8. A final character that max_tokens cut short is
// removed instead.
static void put_bytes(struct answer_scan *reading, struct buffer *out)
{
    while (reading->position < reading->bytes.size) {
        const char *at = reading->bytes.data + reading->position;
        size_t left = reading->bytes.size - reading->position;
        uint32_t codepoint;
        size_t length = utf8_decode(at, left, &codepoint);
        bool unfinished = false;
        if (length) {
            buffer_add(out, at, length);
        } else {
            length = utf8_bad_length(at, left, &unfinished);
            if (unfinished && reading->choice->finish_reason == FINISH_LENGTH)
                break;
            buffer_add_string(out, "\xEF\xBF\xBD");
        }
        take_character(reading, length);
    }
    place_tokens(reading, SIZE_MAX);
}

static bool put_text(struct job *job, struct text bytes, struct choice *choice)
{
    if (!choice->logprobs && utf8_valid(bytes.data, bytes.size)) {
        char *copy = arena_copy(&job->arena, bytes.data, bytes.size);
        choice->text = (struct text){copy, bytes.size};
        return copy != NULL;
    }
    struct answer_scan reading = {.bytes = bytes, .choice = choice};
    struct buffer out = {0};
    put_bytes(&reading, &out);
    char *copy = out.failed ? NULL : arena_copy(&job->arena, out.data, out.size);
    choice->text = (struct text){copy, out.size};
    buffer_finish(&out);
    return copy != NULL;
}

static bool put_echoed_text(struct job *job, const struct sequence *sequence, struct choice *choice)
{
    struct buffer bytes = {0};
    buffer_add_text(&bytes, sequence->prompt->echo);
    buffer_add(&bytes, sequence->answer.text.data, sequence->answer.text.size);
    bool done = !bytes.failed && put_text(job, (struct text){bytes.data, bytes.size}, choice);
    buffer_finish(&bytes);
    return done;
}

// With an echo, the prompt's entries come first; their offsets are bytes of the echo until put_echoed_text
// converts them.
static bool put_logprobs(struct job *job, const struct sequence *sequence, struct choice *choice)
{
    const struct prompt *prompt = sequence->prompt;
    size_t n_echoed = job->request.echo ? prompt->tokens.n_ids : 0, n = (size_t)sequence->answer.n_generated;
    struct logprob_entry *entries = arena_allocate_array(&job->arena, n_echoed + n, sizeof *entries);
    if (!entries)
        return false;
    if (n_echoed)
        memcpy(entries, prompt->logprobs, n_echoed * sizeof *entries);
    logprob_entries_limit(entries, n_echoed, job->request.sampling.top_logprobs);
    if (n)
        memcpy(entries + n_echoed, sequence->answer.logprobs, n * sizeof *entries);
    for (size_t i = 0; i < n; i++)
        entries[n_echoed + i].text_offset += (int32_t)prompt->echo.size;
    choice->logprobs = entries;
    choice->n_echoed = (int32_t)n_echoed;
    return true;
}

// ---- parts of a chat's answer ----

// End of each token: in the undecoded run at first, in the written text once put_ends has moved it.
struct token_ends {
    size_t *items; // [n]; NULL: ends are not recorded
    int32_t n, n_put;
};

// Moves the ends at or before `at` in the run to `size`, the length of the written text. A token that ends
// inside a character counts as ending after the character.
static void put_ends(struct token_ends *ends, size_t at, size_t size)
{
    while (ends->n_put < ends->n && ends->items[ends->n_put] <= at)
        ends->items[ends->n_put++] = size;
}

static void add_end(struct token_ends *ends, size_t end)
{
    if (ends->items)
        ends->items[ends->n++] = end;
}

// Writes the bytes as UTF-8, with the replacements of put_bytes.
static void put_valid(struct text bytes, bool is_cut, struct buffer *out, struct token_ends *ends)
{
    for (size_t at = 0; at < bytes.size;) {
        put_ends(ends, at, out->size);
        uint32_t codepoint;
        bool unfinished = false;
        size_t left = bytes.size - at, length = utf8_decode(bytes.data + at, left, &codepoint);
        if (length) {
            buffer_add(out, bytes.data + at, length);
        } else {
            length = utf8_bad_length(bytes.data + at, left, &unfinished);
            if (unfinished && is_cut)
                break;
            buffer_add_string(out, "\xEF\xBF\xBD");
        }
        at += length;
    }
    put_ends(ends, SIZE_MAX, out->size);
}

// Writes the answer's text, with its special tokens, up to the cut of a stop string.
static bool put_raw(const struct sequence *sequence, const struct tokenizer *tokenizer, struct buffer *out,
                    struct token_ends *ends)
{
    struct buffer run = {0};
    size_t size = 0, size_max = sequence->answer.text.size;
    for (int32_t i = 0; i < sequence->answer.n_generated; i++) {
        int32_t token = sequence->answer.generated[i];
        if (tokenizer_is_control(tokenizer, token)) {
            put_valid((struct text){run.data, run.size}, false, out, ends);
            run.size = 0;
            grammar_special_token(tokenizer_token_text(tokenizer, token), out);
            add_end(ends, 0);
            put_ends(ends, 0, out->size);
            continue;
        }
        size_t before = run.size;
        tokenizer_decode(tokenizer, token, false, &run);
        size += run.size - before;
        if (size > size_max) {
            run.size -= size - size_max;
            break;
        }
        add_end(ends, run.size);
    }
    put_valid((struct text){run.data, run.size}, sequence->answer.finish_reason == FINISH_LENGTH, out, ends);
    out->failed |= run.failed;
    buffer_finish(&run);
    return !out->failed;
}

// A call's id is a function of the request and the call's position.
static bool put_calls(struct job *job, const struct sequence *sequence, const struct answer_parts *parts,
                      struct choice *choice)
{
    uint64_t seed = job_default_seed(job) + sequence->choice;
    choice->tool_calls = parts->calls;
    choice->n_tool_calls = parts->n_calls;
    for (int32_t i = 0; i < parts->n_calls; i++)
        if (!answer_call_id(sequence->prompt->rules.format.tools, seed, i, &choice->tool_calls[i],
                            &job->arena))
            return false;
    if (parts->n_calls) // complete calls, even if they used up max_tokens
        choice->finish_reason = FINISH_TOOL_CALLS;
    return true;
}

// Counts reasoning tokens as vLLM does: the tokens of the opening and closing marks do not count, nor do the
// tokens that a thinking budget forced.
static int32_t count_thoughts(const struct token_ends *ends, const struct text_spans *thoughts,
                              const struct token_array *closing)
{
    int32_t n = 0;
    size_t next = 0; // index into the closing tokens
    for (int32_t i = 0; i < ends->n; i++) {
        bool is_closing = next < closing->n_ids && closing->ids[next] == i;
        next += is_closing;
        n += !is_closing && text_spans_touch(thoughts, i ? ends->items[i - 1] : 0, ends->items[i]);
    }
    return n;
}

static bool put_parts(struct job *job, const struct sequence *sequence, const struct tokenizer *tokenizer,
                      struct choice *choice)
{
    const struct prompt *prompt = sequence->prompt;
    struct answer_parts parts = {0};
    struct buffer raw = {0};
    struct error error;
    struct token_ends ends = {0};
    size_t n_tokens = (size_t)sequence->answer.n_generated;
    if (prompt->rules.format.thinking &&
        !(ends.items = arena_allocate_array(&job->arena, n_tokens, sizeof *ends.items)))
        return false;
    bool whole = put_raw(sequence, tokenizer, &raw, &ends) &&
                 answer_parse(&prompt->rules.format, &job->request.tools, prompt->rules.thinking,
                              (struct text){raw.data, raw.size}, &job->arena, &parts, &error) == STATUS_OK;
    buffer_finish(&raw);
    choice->text = parts.content;
    choice->reasoning = parts.reasoning;
    job->result.reasoning_tokens += count_thoughts(&ends, &parts.thoughts, &sequence->thoughts.closing);
    text_spans_finish(&parts.thoughts);
    return whole && put_calls(job, sequence, &parts, choice);
}

static bool may_have_calls(const struct prompt *prompt)
{
    return prompt->rules.format.tools && prompt->job->request.tools.choice != TOOLS_NONE;
}

static bool has_parts(const struct prompt *prompt)
{
    return prompt->rules.format.thinking || may_have_calls(prompt);
}

// ---- a streamed answer ----

// Adds the text of a token to the report. False: its text is not settled yet.
static bool spell_token(struct sequence *sequence, const struct tokenizer *tokenizer, size_t settled)
{
    struct sequence_report *report = &sequence->report;
    int32_t token = sequence->answer.generated[report->n_tokens];
    struct text name = tokenizer_token_text(tokenizer, token);
    size_t before = report->spelled.size;
    if (tokenizer_is_control(tokenizer, token)) {
        if (report->n_text > settled)
            return false;
        report->is_over = utf8_complete_prefix(report->spelled.data, before) != before;
        if (!report->is_over && answer_format_knows(&sequence->prompt->rules.format, false, name))
            buffer_add_text(&report->spelled, name);
    } else {
        tokenizer_decode(tokenizer, token, false, &report->spelled);
        size_t n = report->spelled.size - before;
        if (!report->spelled.failed && report->n_text + n > settled) {
            report->spelled.size = before;
            return false;
        }
        report->n_text += n;
    }
    report->n_tokens++;
    report->is_over |= report->spelled.failed;
    return true;
}

void sequence_settle(struct sequence *sequence, const struct tokenizer *tokenizer, struct text *reasoning,
                     struct text *content)
{
    struct sequence_report *report = &sequence->report;
    const struct prompt *prompt = sequence->prompt;
    const size_t size = sequence_settled_size(sequence);
    *reasoning = *content = (struct text){0};
    if (!has_parts(prompt))
        *content = (struct text){sequence->answer.text.data, size};
    if (!has_parts(prompt) || may_have_calls(prompt) || report->is_over)
        return;
    while (report->n_tokens < sequence->answer.n_generated && !report->is_over &&
           spell_token(sequence, tokenizer, size))
        ;
    struct settled_answer settled = {.reasoning = report->reasoning};
    struct text spelled = {report->spelled.data, report->spelled.size};
    buffer_clear(&settled.reasoning);
    if (!report->is_over)
        answer_settle(prompt->rules.format.thinking, prompt->rules.thinking == THINKING_OPEN, spelled,
                      &settled);
    report->reasoning = settled.reasoning;
    report->is_over |= settled.reasoning.failed;
    if (report->is_over)
        return;
    *reasoning = (struct text){report->reasoning.data, report->reasoning.size};
    *content = settled.content;
}

// ---- all choices ----

static bool finish_choice(struct job *job, const struct sequence *sequence, const struct tokenizer *tokenizer,
                          struct choice *choice)
{
    const struct request *request = &job->request;
    choice->finish_reason = sequence->answer.finish_reason;
    choice->n_tokens = sequence->answer.n_generated;
    if (request->sampling.logprobs && !request->hides_logprobs && !put_logprobs(job, sequence, choice))
        return false;
    if (has_parts(sequence->prompt))
        return put_parts(job, sequence, tokenizer, choice);
    return request->echo
               ? put_echoed_text(job, sequence, choice)
               : put_text(job, (struct text){sequence->answer.text.data, sequence->answer.text.size}, choice);
}

static double mean_logprob(const struct sequence *sequence)
{
    double sum = 0.0;
    for (int32_t i = 0; i < sequence->answer.n_generated; i++)
        sum += (double)sequence->answer.logprobs[i].chosen.logprob;
    return sequence->answer.n_generated ? sum / sequence->answer.n_generated : 0.0;
}

// Without best_of: all sequences, in order of choice. With best_of: the n best by mean logprob, best first;
// ties are in order of choice.
static void rank_sequences(const struct prompt *prompt, const struct sequence **ranked)
{
    int32_t n = request_n_sequences(&prompt->job->request);
    for (int32_t i = 0; i < n; i++) {
        int32_t place = i;
        if (prompt->job->request.best_of)
            while (place > 0 && mean_logprob(ranked[place - 1]) < mean_logprob(&prompt->sequences.items[i]))
                place--;
        memmove(ranked + place + 1, ranked + place, (size_t)(i - place) * sizeof *ranked);
        ranked[place] = &prompt->sequences.items[i];
    }
}

static bool put_choices(struct prompt *prompt, const struct tokenizer *tokenizer)
{
    struct job *job = prompt->job;
    struct result *result = &job->result;
    const struct sequence *ranked[JOB_N_MAX];
    int32_t n_sequences = request_n_sequences(&job->request);
    result->n_choices = job->request.n > 0 ? job->request.n : 1;
    result->choices = arena_allocate_array(&job->arena, (size_t)result->n_choices, sizeof *result->choices);
    if (!result->choices)
        return false;
    rank_sequences(prompt, ranked);
    for (int32_t i = 0; i < n_sequences; i++)
        result->completion_tokens += ranked[i]->answer.n_generated + ranked[i]->answer.n_end_tokens;
    for (int32_t i = 0; i < result->n_choices; i++)
        if (!finish_choice(job, ranked[i], tokenizer, &result->choices[i]))
            return false;
    return true;
}

void prompt_finish_job(struct prompt *prompt, const struct tokenizer *tokenizer)
{
    struct result *result = &prompt->job->result;
    if (prompt->error.status != STATUS_OK) {
        job_fail(prompt->job, &prompt->error);
    } else if (put_choices(prompt, tokenizer) && scoring_finish(prompt)) {
        result->status = RESULT_DONE;
    } else {
        result->choices = NULL;
        result->n_choices = 0;
        result->completion_tokens = result->reasoning_tokens = 0;
        (void)error_memory(&prompt->error, STATUS_RESTART, "writing the result");
    }
}
