#include "tests/support/fake_model.h"

#include "schemas/base/hash.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { LONG = 1 << 20 }; // a slot written by a sequence with long_context

struct fake_model {
    int32_t n_pages, page_positions;
    int32_t *slots;   // token at [page][position]
    uint64_t *states; // hash of a sequence's tokens so far, in each slot of recurrent states; NULL: none
    int32_t n_states;
    int64_t n_rows, n_copies, n_rows_ahead, n_steps, n_samplings, fail_step, fail_sampling;
    int32_t largest_batch;
    pthread_mutex_t gate; // each step passes it
    atomic_bool is_held;  // a step waits for it
    // Copies of the submitted steps, oldest first.
    struct fake_step {
        struct step step;
        const struct step *original;
        int32_t *tokens;
        struct sampling *samplings;
        uint32_t *masks; // of the samples
        bool samples;    // its sampling is submitted
    } under_way[2];
    int n_under_way;
    int32_t *drawn, n_drawn; // of the step that ran last
};

struct fake_model *fake_model_create(int32_t n_pages, int32_t page_positions)
{
    struct fake_model *model = calloc(1, sizeof *model);
    model->n_pages = n_pages;
    model->page_positions = page_positions;
    model->slots = malloc((size_t)n_pages * (size_t)page_positions * sizeof *model->slots);
    memset(model->slots, 0xFF, (size_t)n_pages * (size_t)page_positions * sizeof *model->slots);
    model->fail_step = model->fail_sampling = -1;
    pthread_mutex_init(&model->gate, NULL);
    return model;
}

static void drop_oldest(struct fake_model *model)
{
    struct fake_step *oldest = &model->under_way[0];
    for (int32_t i = 0; i < oldest->step.n_sequences; i++)
        free((void *)oldest->step.sequences[i].pages);
    free((void *)oldest->step.sequences);
    free(oldest->tokens);
    free((void *)oldest->step.positions);
    free((void *)oldest->step.copies);
    free((void *)oldest->step.output_rows);
    free((void *)oldest->step.samples);
    free(oldest->samplings);
    free(oldest->masks);
    model->under_way[0] = model->under_way[1];
    model->n_under_way--;
}

void fake_model_destroy(struct fake_model *model)
{
    while (model->n_under_way > 0)
        drop_oldest(model);
    free(model->drawn);
    pthread_mutex_destroy(&model->gate);
    free(model->slots);
    free(model->states);
    free(model);
}

static int32_t next_token(uint64_t hash, uint64_t seed, uint32_t choice, bool poisoned)
{
    if (poisoned)
        return -1;
    uint64_t key[3] = {hash, seed, choice};
    uint64_t draw = hash_bytes(key, sizeof key, 99);
    int32_t token = draw % 13 == 0 ? FAKE_EOS : 2 + (int32_t)(draw % (FAKE_VOCAB - 2));
    return token == FAKE_POISON ? FAKE_POISON + 1 : token;
}

static uint64_t extend(uint64_t hash, int32_t token)
{
    return hash_bytes(&token, sizeof token, hash);
}

static float logprob_of(uint64_t hash, int32_t target)
{
    return -(float)(hash_bytes(&target, sizeof target, hash) % 1024) / 64.0f;
}

double fake_model_score(const int32_t *prompt, int32_t n_prompt, const int32_t *targets, int32_t n_targets)
{
    uint64_t hash = 0;
    double sum = 0.0;
    for (int32_t i = 0; i < n_prompt; i++)
        hash = extend(hash, prompt[i]);
    for (int32_t i = 0; i < n_targets; i++) {
        sum += (double)logprob_of(hash, targets[i]);
        hash = extend(hash, targets[i]);
    }
    return sum;
}

static int32_t *page_slot(struct fake_model *model, const struct step_sequence *sequence, int32_t position)
{
    int32_t page = sequence->pages[position / model->page_positions];
    assert(page >= 0 && page < model->n_pages);
    return &model->slots[(size_t)page * (size_t)model->page_positions +
                         (size_t)(position % model->page_positions)];
}

void fake_model_keep_states(struct fake_model *model, int32_t n_slots)
{
    model->states = malloc((size_t)n_slots * sizeof *model->states);
    memset(model->states, 0xA5, (size_t)n_slots * sizeof *model->states);
    model->n_states = n_slots;
}

// Extends a sequence's state, which must be the one of the tokens that its pages hold.
static void advance_state(struct fake_model *model, const struct step *step, int32_t s)
{
    const struct step_sequence *sequence = &step->sequences[s];
    assert(sequence->state_out >= 0 && sequence->state_out < model->n_states);
    for (int32_t i = 0; i < step->n_sequences; i++) {
        const struct step_sequence *other = &step->sequences[i];
        assert(i == s || (other->state_out != sequence->state_out &&
                          (other->position == 0 || other->state_in != sequence->state_out)));
    }
    uint64_t hash = 0;
    for (int32_t p = 0; p < sequence->position; p++)
        hash = extend(hash, *page_slot(model, sequence, p) & ~LONG);
    assert(sequence->position == 0 || model->states[sequence->state_in] == hash);
    for (int32_t i = 0; i < sequence->n_tokens; i++)
        hash = extend(hash, step->tokens[sequence->first_row + i]);
    model->states[sequence->state_out] = hash;
}

static void draw_output(struct fake_model *model, const struct step *step,
                        const struct step_sequence *sequence, int32_t row, int32_t output,
                        struct sample_result *results)
{
    uint64_t hash = 0;
    bool poisoned = false;
    for (int32_t p = 0; p <= step->positions[row]; p++) {
        int32_t token = *page_slot(model, sequence, p);
        assert(((token & LONG) != 0) == sequence->long_context);
        token &= ~LONG;
        hash = extend(hash, token);
        poisoned = poisoned || token == FAKE_POISON;
    }
    const struct sample_request *request = &step->samples[output];
    if (request->scores) {
        int32_t target = request->sampling->logit_bias->token;
        results[output] =
            (struct sample_result){.token = poisoned ? -1 : target, .logprob = logprob_of(hash, target)};
        return;
    }
    // What penalties are computed from is what the pages hold. A step that was submitted runs when that memory
    // may be another's.
    int32_t n_known = model->n_under_way ? 0 : step->positions[row] + 1;
    assert(n_known == 0 || request->n_prompt + request->n_generated == n_known);
    assert(n_known == 0 || request->index == (uint32_t)request->n_generated);
    for (int32_t p = 0; p < n_known; p++) {
        int32_t token =
            p < request->n_prompt ? request->prompt[p] : request->generated[p - request->n_prompt];
        assert((*page_slot(model, sequence, p) & ~LONG) == token);
    }
    int32_t token = next_token(hash, request->sampling->seed, request->choice, poisoned);
    for (; request->allowed && !token_mask_has(request->allowed, token); token = (token + 1) % FAKE_VOCAB)
        continue;
    int32_t n_top = request->sampling->logprobs ? request->sampling->top_logprobs : 0;
    results[output] = (struct sample_result){.token = token, .n_top = n_top};
}

static void copy_page(struct fake_model *model, const struct page_copy *copy)
{
    size_t n = (size_t)model->page_positions;
    assert(copy->from >= 0 && copy->from < model->n_pages && copy->to >= 0 && copy->to < model->n_pages);
    memcpy(model->slots + (size_t)copy->to * n, model->slots + (size_t)copy->from * n,
           n * sizeof *model->slots);
}

static enum status fake_step(void *context, struct step *step, struct sample_result *results,
                             struct error *error)
{
    struct fake_model *model = context;
    atomic_store(&model->is_held, true);
    pthread_mutex_lock(&model->gate);
    atomic_store(&model->is_held, false);
    pthread_mutex_unlock(&model->gate);
    if (model->n_steps++ == model->fail_step)
        return error_set(error, STATUS_RESTART, ERROR_DEVICE, "the fake device was lost");
    model->n_rows += step->n_tokens;
    model->n_copies += step->n_copies;
    for (int32_t i = 0; i < step->n_copies; i++)
        copy_page(model, &step->copies[i]);
    if (step->n_sequences > model->largest_batch)
        model->largest_batch = step->n_sequences;
    if (step->await_masks)
        step->await_masks(step->masks_context);
    int32_t row = 0;
    for (int32_t s = 0; s < step->n_sequences; s++) {
        const struct step_sequence *sequence = &step->sequences[s];
        assert(sequence->first_row == row && sequence->n_tokens > 0);
        for (int32_t i = 0; i < sequence->n_tokens; i++, row++) {
            assert(step->positions[row] == sequence->position + i);
            *page_slot(model, sequence, step->positions[row]) =
                step->tokens[row] | (sequence->long_context ? LONG : 0);
        }
    }
    assert(row == step->n_tokens);
    for (int32_t s = 0; s < step->n_sequences && model->states; s++)
        advance_state(model, step, s);
    int32_t output = 0;
    for (int32_t s = 0; s < step->n_sequences; s++) {
        const struct step_sequence *sequence = &step->sequences[s];
        for (int32_t i = 0; i < sequence->n_tokens; i++)
            if (output < step->n_outputs && step->output_rows[output] == sequence->first_row + i)
                draw_output(model, step, sequence, sequence->first_row + i, output, results), output++;
    }
    assert(output == step->n_outputs);
    return STATUS_OK;
}

static void *copy_items(const void *items, size_t n, size_t size)
{
    void *copied = malloc(n * size + 1);
    return n ? memcpy(copied, items, n * size) : copied;
}

enum { MASK_WORDS = (FAKE_VOCAB + 31) / 32 };

// Copies them: they may change after the submission.
static void copy_masks(struct fake_step *copied)
{
    size_t n_outputs = (size_t)copied->step.n_outputs;
    struct sample_request *samples = (struct sample_request *)copied->step.samples;
    copied->masks = calloc(n_outputs + 1, MASK_WORDS * sizeof *copied->masks);
    copied->samples = true;
    for (size_t i = 0; i < n_outputs; i++) {
        const uint32_t *allowed = copied->original->samples[i].allowed;
        samples[i].allowed =
            allowed ? memcpy(copied->masks + i * MASK_WORDS, allowed, MASK_WORDS * sizeof *allowed) : NULL;
    }
}

static enum status fake_submit(void *context, struct step *step, struct error *error)
{
    struct fake_model *model = context;
    assert(model->n_under_way < 2);
    assert(model->n_under_way == 0 || model->under_way[0].samples);
    if (step->await_masks)
        step->await_masks(step->masks_context);
    size_t n_rows = (size_t)step->n_tokens, n_sequences = (size_t)step->n_sequences,
           n_outputs = (size_t)step->n_outputs;
    struct fake_step *copied = &model->under_way[model->n_under_way++];
    *copied = (struct fake_step){.step = *step,
                                 .original = step,
                                 .tokens = copy_items(step->tokens, n_rows, sizeof *step->tokens),
                                 .samplings = malloc((n_outputs + 1) * sizeof(struct sampling))};
    struct step_sequence *sequences = copy_items(step->sequences, n_sequences, sizeof *sequences);
    for (size_t i = 0; i < n_sequences; i++)
        sequences[i].pages = copy_items(
            sequences[i].pages,
            (size_t)((sequences[i].position + sequences[i].n_tokens - 1) / model->page_positions + 1),
            sizeof(int32_t));
    struct sample_request *samples = copy_items(step->samples, n_outputs, sizeof *samples);
    for (size_t i = 0; i < n_outputs; i++) {
        assert(samples[i].index == (uint32_t)(samples[i].n_generated + (samples[i].pending > 0)));
        copied->samplings[i] = *samples[i].sampling;
        samples[i].sampling = &copied->samplings[i];
    }
    copied->step.tokens = copied->tokens;
    copied->step.positions = copy_items(step->positions, n_rows, sizeof *step->positions);
    copied->step.sequences = sequences;
    copied->step.copies = copy_items(step->copies, (size_t)step->n_copies, sizeof *step->copies);
    copied->step.output_rows = copy_items(step->output_rows, n_outputs, sizeof *step->output_rows);
    copied->step.samples = samples;
    if (!step->samples_apart)
        copy_masks(copied);
    return STATUS_OK;
}

static enum status fake_submit_sampling(void *context, struct step *step, struct error *error)
{
    struct fake_model *model = context;
    assert(model->n_under_way == 1); // the step before is collected
    assert(model->under_way[0].original == step && !model->under_way[0].samples);
    if (model->n_samplings++ == model->fail_sampling)
        return error_set(error, STATUS_RESTART, ERROR_DEVICE, "the fake device was lost in sampling");
    copy_masks(&model->under_way[0]);
    return STATUS_OK;
}

static enum status fake_collect(void *context, struct step *step, struct sample_result *results,
                                struct error *error)
{
    struct fake_model *model = context;
    struct fake_step *oldest = &model->under_way[0];
    assert(model->n_under_way > 0 && oldest->original == step && oldest->samples);
    for (int32_t i = 0; i < oldest->step.n_tokens; i++)
        if (oldest->tokens[i] < 0) {
            int32_t output = -1 - oldest->tokens[i];
            assert(output < model->n_drawn);
            oldest->tokens[i] = model->drawn[output] < 0 ? 0 : model->drawn[output];
            model->n_rows_ahead++;
        }
    enum status status = fake_step(model, &oldest->step, results, error);
    model->n_drawn = oldest->step.n_outputs;
    model->drawn = realloc(model->drawn, ((size_t)model->n_drawn + 1) * sizeof *model->drawn);
    for (int32_t i = 0; i < model->n_drawn; i++)
        model->drawn[i] = results[i].token;
    drop_oldest(model);
    while (status != STATUS_OK && model->n_under_way > 0)
        drop_oldest(model);
    return status;
}

struct step_executor fake_model_executor(struct fake_model *model)
{
    return (struct step_executor){.context = model, .step = fake_step};
}

struct step_executor fake_model_executor_ahead(struct fake_model *model)
{
    return (struct step_executor){.context = model,
                                  .step = fake_step,
                                  .submit = fake_submit,
                                  .submit_sampling = fake_submit_sampling,
                                  .collect = fake_collect};
}

int64_t fake_model_rows_ahead(const struct fake_model *model)
{
    return model->n_rows_ahead;
}

int64_t fake_model_rows(const struct fake_model *model)
{
    return model->n_rows;
}

int64_t fake_model_copies(const struct fake_model *model)
{
    return model->n_copies;
}

int64_t fake_model_steps(const struct fake_model *model)
{
    return model->n_steps;
}

int32_t fake_model_largest_batch(const struct fake_model *model)
{
    return model->largest_batch;
}

void fake_model_hold(struct fake_model *model)
{
    pthread_mutex_lock(&model->gate);
}

bool fake_model_is_held(struct fake_model *model)
{
    return atomic_load(&model->is_held);
}

void fake_model_release(struct fake_model *model)
{
    pthread_mutex_unlock(&model->gate);
}

void fake_model_fail_at(struct fake_model *model, int64_t step)
{
    model->fail_step = step;
}

void fake_model_fail_sampling_at(struct fake_model *model, int64_t number)
{
    model->fail_sampling = number;
}

int32_t fake_model_answer(const int32_t *prompt, int32_t n_prompt, uint64_t seed, uint32_t choice,
                          int32_t max_tokens, bool ignore_eos, int32_t *answer)
{
    uint64_t hash = 0;
    for (int32_t i = 0; i < n_prompt; i++)
        hash = extend(hash, prompt[i]);
    for (int32_t n = 0; n < max_tokens; n++) {
        int32_t token = next_token(hash, seed, choice, false);
        if (token == FAKE_EOS && !ignore_eos)
            return n;
        answer[n] = token;
        hash = extend(hash, token);
    }
    return max_tokens;
}

void fake_model_text(const int32_t *tokens, int32_t n, char *text)
{
    for (int32_t i = 0; i < n; i++)
        text[i] = (char)('a' + tokens[i] % 26);
    text[n] = '\0';
}

// ---- the stand-ins for the tokenizer and the template ----

void token_array_add(struct token_array *array, int32_t id)
{
    if (array->n_ids == array->capacity && !array->failed) {
        size_t capacity = array->capacity ? 2 * array->capacity : 64;
        int32_t *ids = realloc(array->ids, capacity * sizeof *ids);
        array->failed = !ids;
        if (ids) {
            array->ids = ids;
            array->capacity = capacity;
        }
    }
    if (!array->failed)
        array->ids[array->n_ids++] = id;
}

void token_array_finish(struct token_array *array)
{
    free(array->ids);
    *array = (struct token_array){0};
}

// Letters have tokens that spell them; in exchange, the bytes that would have those have the letters'.
static int32_t fake_token(char byte)
{
    int32_t token = 2 + (unsigned char)byte % (FAKE_VOCAB - 2);
    return token >= 26 && token < 52 ? token + 73 : token >= 99 && token < 125 ? token - 73 : token;
}

static pthread_mutex_t held_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t held_changed = PTHREAD_COND_INITIALIZER;
static bool is_text_held;
static atomic_int n_texts[2];

void fake_tokenizer_hold(bool is_held)
{
    pthread_mutex_lock(&held_mutex);
    is_text_held = is_held;
    pthread_cond_broadcast(&held_changed);
    pthread_mutex_unlock(&held_mutex);
}

int fake_tokenizer_n_texts(bool held_ones)
{
    return n_texts[held_ones];
}

static void wait_while_held(struct text text)
{
    bool may_be_held = text.size > 0 && text.data[0] == FAKE_HELD;
    n_texts[may_be_held]++;
    pthread_mutex_lock(&held_mutex);
    while (may_be_held && is_text_held)
        pthread_cond_wait(&held_changed, &held_mutex);
    pthread_mutex_unlock(&held_mutex);
}

enum status tokenizer_encode(const struct tokenizer *tokenizer, struct text text, unsigned flags,
                             struct token_array *ids, struct error *error)
{
    wait_while_held(text);
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] != FAKE_UNSPELLED)
            token_array_add(ids, fake_token(text.data[i]));
    return STATUS_OK;
}

enum status tokenizer_encode_around(const struct tokenizer *tokenizer, struct text text,
                                    const struct text_spans *plain, unsigned flags, struct token_array *ids,
                                    struct error *error)
{
    return tokenizer_encode(tokenizer, text, flags, ids, error);
}

int64_t tokenizer_least_tokens(const struct tokenizer *tokenizer, struct text text)
{
    return 0;
}

void tokenizer_decode(const struct tokenizer *tokenizer, int32_t id, bool special, struct buffer *out)
{
    buffer_add_byte(out, (char)('a' + id % 26));
}

struct text tokenizer_token_text(const struct tokenizer *tokenizer, int32_t id)
{
    return (struct text){0};
}

bool tokenizer_is_control(const struct tokenizer *tokenizer, int32_t id)
{
    return false;
}

int32_t tokenizer_bos(const struct tokenizer *tokenizer)
{
    return -1;
}

int32_t tokenizer_eos(const struct tokenizer *tokenizer)
{
    return FAKE_EOS;
}

int32_t tokenizer_padding(const struct tokenizer *tokenizer)
{
    return -1;
}

int32_t tokenizer_unk_token(const struct tokenizer *tokenizer)
{
    return -1;
}

bool tokenizer_strips_first_space(const struct tokenizer *tokenizer)
{
    return false;
}

bool tokenizer_adds_bos(const struct tokenizer *tokenizer)
{
    return false;
}

const int32_t *tokenizer_suppressed(const struct tokenizer *tokenizer, size_t *n)
{
    *n = 0;
    return NULL;
}

bool tokenizer_ends_generation(const struct tokenizer *tokenizer, int32_t id)
{
    return id == FAKE_EOS;
}

bool template_names(const struct template *template, struct text word)
{
    return false;
}

enum status template_render(const struct template *template, const struct value *variables,
                            const struct template_environment *environment, struct buffer *out,
                            struct error *error)
{
    const struct value *messages = value_get(variables, "messages");
    if (!template)
        return error_set(error, STATUS_REJECT, ERROR_TEMPLATE, "line 1: the fake template refuses");
    buffer_add_text(out, value_get(&messages->array.items[0], "content")->text);
    return out->failed
               ? error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "the fake template: out of memory")
               : STATUS_OK;
}
