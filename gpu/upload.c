#include "gpu/upload.h"

#include <assert.h>
#include <string.h>

static size_t take_bytes(size_t *total, size_t n_items, size_t item_bytes)
{
    size_t at = *total;
    *total = (at + n_items * item_bytes + 15) / 16 * 16;
    return at;
}

static int32_t n_pages_of(const struct step_sequence *sequence, int32_t page_positions)
{
    int32_t n_positions = sequence->n_text ? sequence->n_text : sequence->position + sequence->n_tokens;
    return page_positions ? (n_positions - 1) / page_positions + 1 : 0;
}

static bool has_penalties(const struct sampling *sampling)
{
    return sampling->repetition_penalty != 1.0f || sampling->presence_penalty != 0.0f ||
           sampling->frequency_penalty != 0.0f;
}

static size_t history_of(const struct sample_request *request)
{
    size_t n_generated = (size_t)request->n_generated + (request->pending > 0);
    return has_penalties(request->sampling) ? (size_t)request->n_prompt + n_generated : 0;
}

struct upload_layout upload_layout(const struct step *step, const struct upload_counts *counts,
                                   int32_t page_positions)
{
    struct upload_layout layout = {0};
    size_t total_bytes = 0, n_rows = (size_t)counts->n_rows;
    layout.tokens = take_bytes(&total_bytes, n_rows, sizeof(int32_t));
    layout.positions = take_bytes(&total_bytes, n_rows, sizeof(int32_t));
    layout.types = take_bytes(&total_bytes, step->types ? n_rows : 0, sizeof(int32_t));
    layout.row_sequences = take_bytes(&total_bytes, n_rows, sizeof(int32_t));
    layout.output_rows = take_bytes(&total_bytes, (size_t)counts->n_outputs, sizeof(int32_t));
    layout.sequences =
        take_bytes(&total_bytes, (size_t)counts->n_sequences, sizeof(struct attention_sequence));
    layout.settings = take_bytes(&total_bytes, step->samples ? (size_t)counts->n_outputs : 0,
                                 sizeof(struct sample_settings));
    for (int table = 0; table < 2; table++)
        layout.rope[table] =
            take_bytes(&total_bytes, step->rope[table] ? n_rows * (size_t)step->n_rope_dims[table] : 0,
                       sizeof(float));
    size_t n_tiles = (size_t)counts->n_shared_tiles;
    layout.shared.tiles = take_bytes(&total_bytes, n_tiles, sizeof(struct attention_shared_tile));
    layout.shared.members = take_bytes(&total_bytes, n_tiles ? n_rows : 0, sizeof(int32_t));
    size_t n_runs = (size_t)counts->n_runs;
    layout.runs = take_bytes(&total_bytes, n_runs ? n_runs + 1 : 0, sizeof(struct attention_run));
    layout.arrivals = take_bytes(&total_bytes, (size_t)counts->n_arrivals, sizeof(int32_t));
    size_t n_kept = (size_t)counts->n_kept;
    layout.kept.sequences = take_bytes(&total_bytes, n_kept, sizeof(struct attention_sequence));
    for (int table = 0; table < 2; table++)
        layout.kept.rope[table] =
            take_bytes(&total_bytes, step->rope[table] ? n_kept * (size_t)step->n_rope_dims[table] : 0,
                       sizeof(float));
    size_t n_pages = 0, n_biases = 0, n_history = 0, n_words = 0;
    for (int32_t i = 0; i < step->n_sequences; i++)
        n_pages += (size_t)n_pages_of(&step->sequences[i], page_positions);
    for (int32_t i = 0; step->samples && i < step->n_outputs; i++) {
        n_biases += (size_t)step->samples[i].sampling->n_logit_bias;
        n_history += history_of(&step->samples[i]);
        n_words += step->samples[i].allowed ? (size_t)step->samples[i].n_allowed_words : 0;
    }
    layout.pages = take_bytes(&total_bytes, n_pages, sizeof(int32_t));
    layout.biases = take_bytes(&total_bytes, n_biases, sizeof(struct sample_bias));
    layout.history = take_bytes(&total_bytes, n_history, sizeof(int32_t));
    layout.masks = take_bytes(&total_bytes, n_words, sizeof(uint32_t));
    layout.total_bytes = total_bytes;
    return layout;
}

static void fill_rows(unsigned char *bytes, const struct upload_layout *layout, const struct step *step,
                      const struct upload_counts *counts)
{
    size_t n = (size_t)step->n_tokens, padding = (size_t)(counts->n_rows - step->n_tokens);
    int32_t *row_sequences = (int32_t *)(void *)(bytes + layout->row_sequences);
    int32_t *output_rows = (int32_t *)(void *)(bytes + layout->output_rows);
    memcpy(bytes + layout->tokens, step->tokens, n * sizeof(int32_t));
    memset(bytes + layout->tokens + n * sizeof(int32_t), 0, padding * sizeof(int32_t));
    memcpy(bytes + layout->positions, step->positions, n * sizeof(int32_t));
    memset(bytes + layout->positions + n * sizeof(int32_t), 0, padding * sizeof(int32_t));
    if (step->types) {
        memcpy(bytes + layout->types, step->types, n * sizeof(int32_t));
        memset(bytes + layout->types + n * sizeof(int32_t), 0, padding * sizeof(int32_t));
    }
    int32_t row = 0;
    for (int32_t i = 0; i < step->n_sequences; i++)
        for (int32_t end = row + step->sequences[i].n_tokens; row < end; row++)
            row_sequences[row] = step->positions[row] < step->sequences[i].n_stored ? -1 : i;
    for (; row < counts->n_rows; row++)
        row_sequences[row] = -1;
    for (int32_t i = 0; i < counts->n_outputs; i++)
        output_rows[i] = i >= step->n_outputs ? -1 : step->output_rows ? step->output_rows[i] : i;
    for (int table = 0; table < 2; table++) {
        if (!step->rope[table])
            continue;
        size_t row_bytes = (size_t)step->n_rope_dims[table] * sizeof(float);
        memcpy(bytes + layout->rope[table], step->rope[table], n * row_bytes);
        memset(bytes + layout->rope[table] + n * row_bytes, 0, padding * row_bytes);
    }
}

static void fill_sequences(unsigned char *bytes, const struct upload_layout *layout, const struct step *step,
                           const struct upload_counts *counts, int32_t page_positions,
                           const struct shared_prefix *shared)
{
    struct attention_sequence *sequences = (struct attention_sequence *)(void *)(bytes + layout->sequences);
    int32_t *all = (int32_t *)(void *)bytes;
    int32_t at = (int32_t)(layout->pages / sizeof(int32_t));
    for (int32_t i = 0; i < counts->n_sequences; i++) {
        if (i >= step->n_sequences) {
            sequences[i] = (struct attention_sequence){0};
            continue;
        }
        const struct step_sequence *sequence = &step->sequences[i];
        int32_t n_pages = n_pages_of(sequence, page_positions);
        sequences[i] = (struct attention_sequence){.first_row = sequence->first_row,
                                                   .n_rows = sequence->n_tokens,
                                                   .position = sequence->position,
                                                   .first_page = at,
                                                   .first_part = shared->first_parts[i],
                                                   .n_shared = shared->n_shared[i],
                                                   .n_text = sequence->n_text,
                                                   .state_in = sequence->state_in,
                                                   .state_out = sequence->state_out};
        if (n_pages)
            memcpy(all + at, sequence->pages, (size_t)n_pages * sizeof *all);
        at += n_pages;
    }
}

// A kept row is a sequence of one row. Its partial results are where its number says (first_part).
static void fill_kept(unsigned char *bytes, const struct upload_layout *layout, const struct step *step,
                      const struct upload_counts *counts)
{
    const struct attention_sequence *sequences =
        (const struct attention_sequence *)(const void *)(bytes + layout->sequences);
    struct attention_sequence *kept = (struct attention_sequence *)(void *)(bytes + layout->kept.sequences);
    int32_t sequence = 0;
    for (int32_t i = 0; i < counts->n_kept; i++) {
        int32_t row = step->output_rows ? step->output_rows[i] : i;
        while (row >= step->sequences[sequence].first_row + step->sequences[sequence].n_tokens)
            sequence++;
        kept[i] = (struct attention_sequence){.first_row = i,
                                              .n_rows = 1,
                                              .position = step->positions[row],
                                              .first_page = sequences[sequence].first_page,
                                              .first_part = i,
                                              .n_text = sequences[sequence].n_text};
        for (int table = 0; table < 2; table++) {
            size_t n = (size_t)step->n_rope_dims[table];
            if (step->rope[table])
                memcpy(bytes + layout->kept.rope[table] + (size_t)i * n * sizeof(float),
                       step->rope[table] + (size_t)row * n, n * sizeof(float));
        }
    }
}

// Padding tiles have no queries.
static void fill_shared(unsigned char *bytes, const struct upload_layout *layout,
                        const struct upload_counts *counts, const struct shared_prefix *shared)
{
    const struct attention_sequence *sequences =
        (const struct attention_sequence *)(const void *)(bytes + layout->sequences);
    struct attention_shared_tile *tiles =
        (struct attention_shared_tile *)(void *)(bytes + layout->shared.tiles);
    if (counts->n_shared_tiles == 0)
        return;
    for (int32_t i = 0; i < counts->n_shared_tiles; i++) {
        tiles[i] = i < shared->n_tiles ? shared->tiles[i] : (struct attention_shared_tile){0};
        if (i < shared->n_tiles)
            tiles[i].first_page = sequences[shared->tiles[i].first_page].first_page;
    }
    memcpy(bytes + layout->shared.members, shared->members,
           (size_t)shared->n_part_rows * sizeof *shared->members);
}

static void fill_runs(unsigned char *bytes, const struct upload_layout *layout, const struct step *step,
                      const struct upload_counts *counts, const struct attention_assign_rules *assignment)
{
    if (counts->n_runs == 0)
        return;
    assert(assignment->n_runs == counts->n_runs);
    attention_assign((struct attention_sequence *)(void *)(bytes + layout->sequences), step->n_sequences,
                     assignment, (struct attention_run *)(void *)(bytes + layout->runs));
    memset(bytes + layout->arrivals, 0, (size_t)counts->n_arrivals * sizeof(int32_t));
}

static int32_t copy_tokens(int32_t *to, const int32_t *from, int32_t n, int32_t n_vocab)
{
    for (int32_t i = 0; i < n; i++) {
        assert(from[i] >= 0 && from[i] < n_vocab);
        to[i] = from[i];
    }
    return n;
}

static void fill_samples(unsigned char *bytes, const struct upload_layout *layout, const struct step *step,
                         const struct upload_counts *counts, int32_t n_vocab)
{
    struct sample_settings *all = (struct sample_settings *)(void *)(bytes + layout->settings);
    struct sample_bias *biases = (struct sample_bias *)(void *)bytes;
    int32_t *history = (int32_t *)(void *)bytes;
    int32_t bias = (int32_t)(layout->biases / sizeof *biases),
            token = (int32_t)(layout->history / sizeof *history);
    int32_t mask = (int32_t)(layout->masks / sizeof(uint32_t));
    for (int32_t i = 0; i < counts->n_outputs; i++) {
        all[i] = (struct sample_settings){0};
        if (i >= step->n_outputs)
            continue;
        const struct sample_request *request = &step->samples[i];
        const struct sampling *sampling = request->sampling;
        struct sample_settings *settings = &all[i];
        *settings =
            (struct sample_settings){.seed = sampling->seed,
                                     .index = request->index,
                                     .choice = request->choice,
                                     .temperature = sampling->temperature,
                                     .top_p = sampling->top_p,
                                     .min_p = sampling->min_p,
                                     .penalties.presence = sampling->presence_penalty,
                                     .penalties.frequency = sampling->frequency_penalty,
                                     .penalties.repetition = sampling->repetition_penalty,
                                     .top_k = sampling->top_k,
                                     .flags = SAMPLE_WANTED | (sampling->logprobs ? SAMPLE_LOGPROBS : 0),
                                     .first_bias = bias,
                                     .n_biases = sampling->n_logit_bias,
                                     .history.first_token = token};
        if (sampling->logprobs)
            settings->n_top =
                sampling->top_logprobs < JOB_TOP_LOGPROBS_MAX ? sampling->top_logprobs : JOB_TOP_LOGPROBS_MAX;
        for (int32_t j = 0; j < sampling->n_logit_bias; j++, bias++) {
            assert(sampling->logit_bias[j].token >= 0 && sampling->logit_bias[j].token < n_vocab);
            biases[bias] = (struct sample_bias){sampling->logit_bias[j].token, sampling->logit_bias[j].bias};
        }
        if (has_penalties(sampling)) {
            settings->history.n_prompt =
                copy_tokens(history + token, request->prompt, request->n_prompt, n_vocab);
            token += request->n_prompt;
            settings->history.n_generated =
                copy_tokens(history + token, request->generated, request->n_generated, n_vocab);
            if (request->pending > 0)
                history[token + settings->history.n_generated++] = -request->pending;
            token += settings->history.n_generated;
        }
        if (sampling->n_logit_bias > 0 || has_penalties(sampling))
            settings->flags |= SAMPLE_ADJUSTS;
        if (request->allowed) {
            settings->flags |= SAMPLE_MASKED;
            settings->first_mask = mask;
            mask += request->n_allowed_words;
        }
    }
}

void upload_fill_masks(unsigned char *bytes, const struct upload_layout *layout, const struct step *step)
{
    const struct sample_settings *settings =
        (const struct sample_settings *)(const void *)(bytes + layout->settings);
    for (int32_t i = 0; i < step->n_outputs; i++) {
        const struct sample_request *request = &step->samples[i];
        if (!(settings[i].flags & SAMPLE_MASKED))
            continue;
        unsigned char *mask = bytes + (size_t)settings[i].first_mask * sizeof(uint32_t);
        size_t size_bytes = (size_t)request->n_allowed_words * sizeof(uint32_t);
        if (request->allowed)
            memcpy(mask, request->allowed, size_bytes);
        else
            memset(mask, 0xff, size_bytes);
    }
}

void upload_fill(unsigned char *bytes, const struct upload_layout *layout, const struct step *step,
                 const struct upload_counts *counts, int32_t page_positions,
                 const struct shared_prefix *shared, const struct attention_assign_rules *assignment,
                 int32_t n_vocab)
{
    assert(counts->n_rows >= step->n_tokens && counts->n_sequences >= step->n_sequences &&
           counts->n_outputs >= step->n_outputs && counts->n_shared_tiles >= shared->n_tiles &&
           layout->total_bytes <= (size_t)INT32_MAX);
    fill_rows(bytes, layout, step, counts);
    fill_sequences(bytes, layout, step, counts, page_positions, shared);
    fill_kept(bytes, layout, step, counts);
    fill_shared(bytes, layout, counts, shared);
    fill_runs(bytes, layout, step, counts, assignment);
    if (step->samples)
        fill_samples(bytes, layout, step, counts, n_vocab);
    if (step->samples && !step->samples_apart)
        upload_fill_masks(bytes, layout, step);
}
