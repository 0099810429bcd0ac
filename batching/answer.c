// Writes a job's result from its finished sequences: selects the choices to return and converts their texts
// to UTF-8.
#include "batching/sequence.h"

#include <string.h>

// Position of the scan over an answer's bytes.
struct reading {
    const struct sequence *sequence;
    struct choice *choice;
    size_t position;      // in the sequence's bytes
    int32_t n_characters; // of the text so far
    int32_t n_tokens;     // tokens with text_offset converted to characters
};

// Tokens removed by a stop string get the text's length as their offset.
static void place_tokens(struct reading *reading, size_t end)
{
    struct logprob_entry *entries = reading->choice->logprobs;
    while (entries && reading->n_tokens < reading->choice->n_tokens &&
           (size_t)entries[reading->n_tokens].text_offset < end)
        entries[reading->n_tokens++].text_offset = reading->n_characters;
}

static void take_character(struct reading *reading, size_t length)
{
    place_tokens(reading, reading->position + length);
    reading->position += length;
    reading->n_characters++;
}

// One U+FFFD replaces each maximal subpart of invalid UTF-8. A character that max_tokens truncated is removed
// instead.
static void put_bytes(struct reading *reading, struct buffer *out)
{
    const struct buffer *bytes = &reading->sequence->text;
    while (reading->position < bytes->size) {
        const char *at = bytes->data + reading->position;
        size_t left = bytes->size - reading->position;
        uint32_t codepoint;
        size_t length = utf8_decode(at, left, &codepoint);
        bool unfinished = false;
        if (length) {
            buffer_add(out, at, length);
        } else {
            length = utf8_bad_length(at, left, &unfinished);
            if (unfinished && reading->sequence->finish_reason == FINISH_LENGTH)
                break;
            buffer_add_string(out, "\xEF\xBF\xBD");
        }
        take_character(reading, length);
    }
    place_tokens(reading, SIZE_MAX);
}

static bool put_text(struct job *job, const struct sequence *sequence, struct choice *choice)
{
    const struct buffer *bytes = &sequence->text;
    if (!choice->logprobs && utf8_valid(bytes->data, bytes->size)) {
        char *copy = arena_copy(&job->arena, bytes->data, bytes->size);
        choice->text = (struct text){copy, bytes->size};
        return copy != NULL;
    }
    struct reading reading = {.sequence = sequence, .choice = choice};
    struct buffer out = {0};
    put_bytes(&reading, &out);
    char *copy = out.failed ? NULL : arena_copy(&job->arena, out.data, out.size);
    choice->text = (struct text){copy, out.size};
    buffer_finish(&out);
    return copy != NULL;
}

static bool finish_choice(struct job *job, const struct sequence *sequence, struct choice *choice)
{
    const struct request *request = &job->request;
    choice->finish_reason = sequence->finish_reason;
    choice->n_tokens = sequence->n_generated;
    if (request->sampling.logprobs && !request->hides_logprobs) {
        choice->logprobs =
            arena_allocate_array(&job->arena, (size_t)sequence->n_generated, sizeof *choice->logprobs);
        if (!choice->logprobs)
            return false;
        if (sequence->n_generated)
            memcpy(choice->logprobs, sequence->logprobs,
                   (size_t)sequence->n_generated * sizeof *choice->logprobs);
    }
    return put_text(job, sequence, choice);
}

static double mean_logprob(const struct sequence *sequence)
{
    double sum = 0.0;
    for (int32_t i = 0; i < sequence->n_generated; i++)
        sum += (double)sequence->logprobs[i].chosen.logprob;
    return sequence->n_generated ? sum / sequence->n_generated : 0.0;
}

// The n best of best_of sequences by mean logprob, best first, ties in order of choice. Without best_of: all
// of them, in order.
static void rank_sequences(const struct prompt *prompt, const struct sequence **ranked)
{
    int32_t n = request_n_sequences(&prompt->job->request);
    for (int32_t i = 0; i < n; i++) {
        int32_t place = i;
        if (prompt->job->request.best_of)
            while (place > 0 && mean_logprob(ranked[place - 1]) < mean_logprob(&prompt->sequences[i]))
                place--;
        memmove(ranked + place + 1, ranked + place, (size_t)(i - place) * sizeof *ranked);
        ranked[place] = &prompt->sequences[i];
    }
}

static bool put_choices(struct prompt *prompt)
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
        result->completion_tokens += ranked[i]->n_generated + ranked[i]->n_end_tokens;
    for (int32_t i = 0; i < result->n_choices; i++)
        if (!finish_choice(job, ranked[i], &result->choices[i]))
            return false;
    return true;
}

void prompt_finish_job(struct prompt *prompt)
{
    struct result *result = &prompt->job->result;
    if (prompt->error.status != STATUS_OK) {
        job_fail(prompt->job, &prompt->error);
    } else if (put_choices(prompt)) {
        result->status = RESULT_DONE;
    } else {
        result->choices = NULL;
        result->n_choices = 0;
        result->completion_tokens = 0;
        (void)error_set(&prompt->error, STATUS_RESTART, ERROR_OUT_OF_MEMORY,
                        "writing the result: out of memory");
    }
}
