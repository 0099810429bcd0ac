// --sample: computes some rows, prints their answers, and estimates the cost of all rows from them.
// --estimate: counts the tokens of all prompts without running the model.
#include "batching/sequence.h"
#include "consumer/annotate/annotate.h"
#include "consumer/annotate/sample_total.h"
#include "consumer/evaluate/interval.h"
#include "consumer/worker/classifier_runtime.h"
#include "consumer/worker/runtime.h"
#include "schemas/base/hash.h"
#include "store/step_cost.h"

#include <math.h>
#include <stdlib.h>

enum { SHOWN_BYTES = 60 };

// ---- the report ----

struct sampling_report {
    struct annotate *annotate;
    struct buffer out, record;
    struct occurrences draws, seen; // for the sampled rows
    int64_t n_missing;              // jobs without a result, of the whole table
    int64_t n_rows;                 // sampled rows with answers
    struct sample_total prompt_tokens, answer_tokens;
};

static void add_shown(struct buffer *out, struct text text)
{
    char shown[SHOWN_BYTES + 1];
    size_t size = utf8_complete_prefix(text.data, text.size < SHOWN_BYTES ? text.size : SHOWN_BYTES);
    memcpy(shown, text.data ? text.data : "", size);
    shown[size] = '\0';
    utf8_make_printable(shown);
    buffer_add_format(out, "%s%s", shown, size < text.size ? "..." : "");
}

static void add_answer(struct sampling_report *report, const struct row_answer *answer)
{
    struct text name = answer->options.name;
    buffer_add_string(&report->out, "\n    -> ");
    if (name.size && (answer->failed || !answer->properties.n)) {
        buffer_add_printable(&report->out, name, 0);
        buffer_add_string(&report->out, ": ");
    }
    for (size_t i = 0; i < answer->n_answers && !answer->failed; i++) {
        struct buffer json = {0};
        const struct value *field = &answer->fields[i];
        if (field->kind != VALUE_STRING)
            json_encode(field, &json);
        buffer_add_string(&report->out, i ? ", " : "");
        if (answer->properties.n) {
            buffer_add_printable(&report->out, answer->columns.names[i], 0);
            buffer_add_string(&report->out, ": ");
        }
        add_shown(&report->out,
                  field->kind == VALUE_STRING ? field->text : (struct text){json.data, json.size});
        buffer_finish(&json);
    }
    if (answer->failed) {
        buffer_add_string(&report->out, "no answer: ");
        add_shown(&report->out, answer->failure);
    }
}

static enum status add_figures(struct sampling_report *report, struct error *error)
{
    struct annotate *annotate = report->annotate;
    double prompt_tokens = 0, answer_tokens = 0;
    uint64_t hash, n_before;
    enum status status = annotate_hash_row(annotate, &report->draws, &hash, error);
    if (status != STATUS_OK)
        return status;
    if (!occurrences_count(&report->seen, hash, &n_before))
        return error_memory(error, STATUS_REFUSE, "counting equal rows");
    for (size_t i = 0; i < annotate->n_questions; i++) {
        prompt_tokens += (double)annotate->answers[i].figures[0];
        answer_tokens += (double)annotate->answers[i].figures[1];
    }
    report->n_rows++;
    if (n_before > 0)
        return STATUS_OK;
    uint64_t n_rows = occurrences_of(&annotate->count.requests, hash);
    sample_total_add(&report->prompt_tokens, prompt_tokens, n_rows ? n_rows : 1);
    sample_total_add(&report->answer_tokens, answer_tokens, n_rows ? n_rows : 1);
    report->n_missing -= (int64_t)occurrences_of(&annotate->count.missing, hash);
    return STATUS_OK;
}

static enum status show_row(struct sampling_report *report, struct table_row *row, struct error *error)
{
    struct annotate *annotate = report->annotate;
    bool is_left_out;
    enum status status = annotate_render(annotate, false, row, &is_left_out, error);
    if (status == STATUS_OK && !is_left_out) {
        struct text prompt = {annotate->prompts[0].text.data, annotate->prompts[0].text.size};
        buffer_add_format(&report->out, "row %lld: ", (long long)row->number);
        add_shown(&report->out, prompt);
        for (size_t i = 0; i < annotate->n_questions; i++)
            add_answer(report, &annotate->answers[i]);
        buffer_add_byte(&report->out, '\n');
        status = add_figures(report, error);
    }
    if (status == STATUS_OK)
        annotate_evaluate(annotate, row);
    return status;
}

static enum status add_row(struct sampling_report *report, struct table_row *row, struct error *error)
{
    bool is_left_out;
    enum status status = annotate_take_answers(report->annotate, &report->record, &is_left_out, error);
    if (status != STATUS_OK || is_left_out)
        return status;
    status = show_row(report, row, error);
    annotate_destroy_votes(report->annotate);
    return status;
}

static enum status add_rows(struct sampling_report *report, struct error *error)
{
    struct annotate *annotate = report->annotate;
    struct table_row row = {0};
    enum status status = annotate_rewind(annotate, error);
    if (status == STATUS_OK)
        status = row_map_rewind(&annotate->map, error);
    do {
        status = status == STATUS_OK ? annotate_next_row(annotate, false, &row, error) : status;
        if (status == STATUS_OK && row.fields && annotate_is_chosen(annotate, row.number))
            status = add_row(report, &row, error);
    } while (status == STATUS_OK && row.fields);
    return status;
}

// ---- the estimate ----

static void add_number(struct buffer *out, const char *what, const struct estimate *estimate, int n_digits)
{
    buffer_add_format(out, "  %-16s %14.*f", what, n_digits, estimate->value);
    if (estimate->high > estimate->low)
        buffer_add_format(out, "  (%.*f to %.*f)", n_digits, estimate->low, n_digits, estimate->high);
    buffer_add_byte(out, '\n');
}

static double price_of(const char *text)
{
    return text ? strtod(text, NULL) / 1e6 : 0;
}

static void add_money(struct buffer *out, const struct annotate_options *options,
                      const struct estimate *prompts, const struct estimate *answers)
{
    double in = price_of(options->estimate.price_in), of_answers = price_of(options->estimate.price_out);
    if (!options->estimate.price_in && !options->estimate.price_out)
        return;
    struct estimate money = {in * prompts->value + of_answers * answers->value,
                             in * prompts->low + of_answers * answers->low,
                             in * prompts->high + of_answers * answers->high};
    add_number(out, "price", &money, 6);
}

// Estimates the steps for `n_jobs` jobs like the sample's: the steps that their sequences need or that their
// tokens need, whichever is more. The last sequences run alone, for about the steps of one answer.
static double steps_for(const struct step_cost *cost, double n_jobs)
{
    double of_job = 1 / (double)cost->n_jobs, one = (double)cost->n_sequence_steps * of_job;
    double by_sequences = n_jobs * one / fmax(cost->n_sequences_full, 1);
    double by_tokens = n_jobs * (double)cost->n_tokens * of_job / (double)cost->n_tokens_max;
    return fmax(by_sequences, by_tokens) + one;
}

// The 95 % interval of the remaining time. It combines two independent errors: of the answers' lengths, which
// determine a share of the time; and of the step times, both of the `steps` to go and of the measured mean.
// There is no interval (low == high) if nothing remains, or if the sample is too small: a line through one or
// two steps fits them exactly.
static struct estimate time_of(const struct sampling_report *report, const struct step_cost *cost,
                               double seconds, double steps)
{
    struct estimate time = {seconds, seconds, seconds};
    struct estimate answers = sample_total_of(&report->answer_tokens, report->annotate->count.n_different);
    double share = (double)cost->generated_tokens / (double)(cost->n_tokens ? cost->n_tokens : 1);
    if (cost->n_steps <= 2 || report->n_rows < 2)
        return time;
    double of_answer = answers.value > 0 ? seconds * fmin(share, 1) / answers.value : 0;
    double of_steps = student_quantile((double)cost->n_steps - 2) * cost->noise_ms / 1000 *
                      sqrt(fmax(steps, 0) + steps * steps / (double)cost->n_steps);
    time.low = fmax(seconds - hypot(of_answer * (answers.value - answers.low), of_steps), 0);
    time.high = seconds + hypot(of_answer * (answers.high - answers.value), of_steps);
    return time;
}

static enum status add_time(struct sampling_report *report, struct error *error)
{
    struct annotate *annotate = report->annotate;
    struct step_cost cost;
    enum status status = store_step_cost(annotate->store, &cost, error);
    if (status != STATUS_OK || !cost.n_steps || !cost.n_jobs || !report->n_rows)
        return status;
    // assumes that the prefix cache and forced tokens save as much in the other rows as in the sample
    double n_jobs = (double)report->n_missing;
    double steps = n_jobs > 0 ? steps_for(&cost, n_jobs) : 0;
    double tokens = n_jobs * (double)cost.n_tokens / (double)cost.n_jobs;
    double seconds = (steps * cost.base_ms + tokens * cost.token_ms) / 1000;
    struct estimate time = time_of(report, &cost, seconds, steps);
    add_number(&report->out, "steps to go", &(struct estimate){steps, steps, steps}, 0);
    add_number(&report->out, "seconds to go", &time, 2);
    return STATUS_OK;
}

static enum status add_estimate(struct sampling_report *report, struct error *error)
{
    struct annotate *annotate = report->annotate;
    int64_t n = annotate->count.n_different, n_jobs = (int64_t)annotate->row.n_jobs;
    struct estimate prompts = sample_total_of(&report->prompt_tokens, n),
                    answers = sample_total_of(&report->answer_tokens, n);
    buffer_add_format(&report->out,
                      "\nall %lld row%s, %lld different request%s, estimated from %lld row%s%s\n",
                      (long long)annotate->rows.n, annotate->rows.n == 1 ? "" : "s", (long long)n * n_jobs,
                      n * n_jobs == 1 ? "" : "s", (long long)report->n_rows, report->n_rows == 1 ? "" : "s",
                      report->n_rows < 2 ? "" : " (95 % interval)");
    add_number(&report->out, "prompt tokens", &prompts, 0);
    add_number(&report->out, "answer tokens", &answers, 0);
    add_money(&report->out, &annotate->settings->annotate, &prompts, &answers);
    return add_time(report, error);
}

enum status annotate_report_sample(struct annotate *annotate, struct error *error)
{
    struct sampling_report report = {.annotate = annotate, .n_missing = annotate->count.n_missing};
    double n_all = (double)(annotate->rows.n ? annotate->rows.n : 1);
    report.prompt_tokens.share = report.answer_tokens.share = (double)annotate->chosen.n / n_all;
    enum status status = add_rows(&report, error);
    if (status == STATUS_OK && annotate->evaluation.n) {
        buffer_add_byte(&report.out, '\n');
        status = annotate_write_evaluation(annotate, &report.out, error);
    }
    if (status == STATUS_OK)
        status = add_estimate(&report, error);
    if (status == STATUS_OK)
        status = annotate_print(annotate, &report.out, error);
    if (status == STATUS_OK && annotate->evaluation.status != STATUS_OK) {
        *error = annotate->evaluation.fault;
        status = error->status;
    }
    buffer_finish(&report.out);
    buffer_finish(&report.record);
    occurrences_finish(&report.draws);
    occurrences_finish(&report.seen);
    return status;
}

// ---- counting alone ----

struct counting {
    struct annotate *annotate;
    struct runtime runtime;
    struct prompt_environment environment;
    struct classifier_runtime scores; // --rerank, --classify
    struct request_count count;
    int64_t n_tokens, n_tokens_different; // of prompts that are not refused
    int64_t n_tokens_computed; // of different ones, with the prefixes that questions about a row share
    int32_t *previous;         // [n_previous] tokens of the row's previous question
    size_t n_previous, previous_capacity;
    int64_t n_answer_tokens_max; // of different requests that are not refused
    bool is_unlimited;           // one of them has no max_tokens
    int64_t n_refused, n_refused_different;
};

struct request_tokens {
    int64_t prompt;     // -1: refused
    int64_t shared;     // of these, the prefix in common with the row's previous question
    int64_t answer_max; // max_tokens; -1: up to the context's end
};

// Counts the tokens that the prompt shares with the previous one, which it replaces. -1: out of memory.
static int64_t share_tokens(struct counting *counting, const int32_t *ids, size_t n)
{
    size_t n_shared = 0;
    while (n_shared < n && n_shared < counting->n_previous && ids[n_shared] == counting->previous[n_shared])
        n_shared++;
    if (n > counting->previous_capacity) {
        int32_t *grown = realloc(counting->previous, n * sizeof *grown);
        if (!grown)
            return -1;
        counting->previous = grown;
        counting->previous_capacity = n;
    }
    if (n)
        memcpy(counting->previous, ids, n * sizeof *ids);
    counting->n_previous = n;
    return (int64_t)(n_shared == n && n ? n - 1 : n_shared); // the last token is always computed
}

static enum status count_tokens(struct counting *counting, const struct buffer *record,
                                struct request_tokens *tokens, struct error *error)
{
    struct job *job = job_create();
    struct prompt *prompt = NULL;
    *tokens = (struct request_tokens){0};
    enum status status =
        job ? job_decode(job, (struct text){record->data, record->size}, ENCODING_JSON, error) : STATUS_RETRY;
    bool is_chat = status == STATUS_OK && job->request.task == TASK_GENERATE;
    if (is_chat && !(prompt = prompt_create(job)))
        status = STATUS_RETRY;
    if (status == STATUS_OK && !is_chat) {
        status = classifier_runtime_count(&counting->scores, job, &tokens->prompt, error);
    } else if (status == STATUS_OK) {
        status = prompt_prepare(prompt, &counting->environment);
        *error = prompt->error;
        *tokens = (struct request_tokens){.prompt = (int64_t)prompt->tokens.n_ids,
                                          .shared = share_tokens(counting, prompt->tokens.ids,
                                                                 prompt->tokens.n_ids),
                                          .answer_max = job->request.stop.max_tokens};
        if (status == STATUS_OK && tokens->shared < 0)
            status = error_memory(error, STATUS_RETRY, "counting tokens");
    } else if (status == STATUS_RETRY) {
        error_memory(error, STATUS_RETRY, "counting tokens");
    }
    prompt_destroy(prompt);
    job_destroy(job);
    if (status != STATUS_REJECT)
        return status;
    tokens->prompt = -1;
    return STATUS_OK;
}

static enum status count_question(struct counting *counting, size_t question, struct error *error)
{
    struct annotate *annotate = counting->annotate;
    const struct buffer *record = &annotate->row.records[question];
    struct request_tokens tokens = {0};
    uint64_t n_before;
    enum status status = annotate_count_request(annotate, question, &counting->count, &n_before, error);
    if (status == STATUS_OK && record->failed)
        return error_memory(error, STATUS_REFUSE, "counting tokens");
    if (status == STATUS_OK)
        status = count_tokens(counting, record, &tokens, error);
    if (status != STATUS_OK)
        return status;
    if (tokens.prompt < 0) {
        counting->n_refused++;
        counting->n_refused_different += n_before == 0;
        return STATUS_OK;
    }
    counting->n_tokens += tokens.prompt * annotate->n_votes;
    if (n_before)
        return STATUS_OK;
    counting->n_tokens_different += tokens.prompt * annotate->n_votes;
    counting->n_tokens_computed += tokens.prompt - tokens.shared + annotate->n_votes - 1;
    bool is_scored =
        annotate->settings->annotate.output.probabilities && annotate->prompts[question].choices.n;
    counting->is_unlimited |= !is_scored && tokens.answer_max < 0;
    counting->n_answer_tokens_max += is_scored ? 0 : tokens.answer_max * annotate->n_votes;
    return STATUS_OK;
}

static enum status count_row(struct counting *counting, struct table_row *row, struct error *error)
{
    struct annotate *annotate = counting->annotate;
    bool is_left_out;
    enum status status = annotate_render(annotate, true, row, &is_left_out, error);
    counting->n_previous = 0;
    for (size_t i = 0; status == STATUS_OK && !is_left_out && i < annotate->n_questions; i++)
        status = count_question(counting, i, error);
    return status;
}

// The length of answers is not known: --max-tokens bounds it, --sample estimates it. Scored choices
// (--probabilities) generate no tokens.
static void print_prices(const struct counting *counting, struct buffer *out)
{
    const struct settings *settings = counting->annotate->settings;
    double prompts = price_of(settings->annotate.estimate.price_in) * (double)counting->n_tokens_different;
    double answers = price_of(settings->annotate.estimate.price_out) * (double)counting->n_answer_tokens_max;
    if (settings->annotate.estimate.price_in)
        buffer_add_format(out, "price of prompts %14.6f\n", prompts);
    if (!settings->annotate.estimate.price_out)
        return;
    if (counting->is_unlimited)
        buffer_add_string(out, "price of answers: their length is not known; --max-tokens N bounds it, "
                               "--sample N estimates it\n");
    else if (counting->n_answer_tokens_max)
        buffer_add_format(out, "price of answers, at most %.6f\n", answers);
    else
        buffer_add_format(out, "price of answers %14.6f\n", 0.0);
}

static enum status print_counts(const struct counting *counting, struct error *error)
{
    struct buffer out = {0};
    buffer_add_format(&out, "rows             %14lld\n", (long long)counting->annotate->rows.n);
    buffer_add_format(&out, "different        %14lld\n",
                      (long long)counting->count.n_different * counting->annotate->n_votes);
    buffer_add_format(&out, "prompt tokens    %14lld\n", (long long)counting->n_tokens);
    buffer_add_format(&out, "  of different   %14lld\n", (long long)counting->n_tokens_different);
    if (counting->annotate->n_questions > 1)
        buffer_add_format(&out, "  rows read once %14lld\n", (long long)counting->n_tokens_computed);
    if (counting->n_refused)
        buffer_add_format(&out, "refused prompts  %14lld\n", (long long)counting->n_refused);
    print_prices(counting, &out);
    enum status status = annotate_print(counting->annotate, &out, error);
    buffer_finish(&out);
    return status;
}

static enum status open_scores(struct counting *counting, struct error *error)
{
    const struct settings *settings = counting->annotate->settings;
    enum task task = counting->annotate->scores.task;
    if (task == TASK_GENERATE)
        return STATUS_OK;
    enum status status = classifier_runtime_choose(&counting->scores, &counting->runtime, &settings->score,
                                                   task == TASK_RERANK, error);
    classifier_runtime_limit(&counting->scores, settings->embed.max_length);
    return status;
}

enum status annotate_estimate(struct annotate *annotate, struct error *error)
{
    struct counting counting = {.annotate = annotate};
    struct table_row row = {0};
    struct runtime *runtime = &counting.runtime;
    enum status status =
        runtime_open_model(runtime, annotate->settings, annotate->settings->model.path, error);
    if (status == STATUS_OK)
        counting.environment =
            (struct prompt_environment){.tokenizer = runtime->tokenizer,
                                        .chat_template = runtime->chat.template,
                                        .tool_template = runtime->tools.template,
                                        .special_in_content = annotate->settings->model.special_in_content,
                                        .limits = {.n_context = runtime->model->shape.n_context,
                                                   .n_vocab = runtime->model->shape.n_vocab,
                                                   .n_context_original =
                                                       runtime->model->shape.n_context_original,
                                                   .n_positions_max = INT32_MAX,
                                                   .page_bytes = 1,
                                                   .page_positions = 16}};
    if (status == STATUS_OK)
        status = open_scores(&counting, error);
    if (status == STATUS_OK)
        status = annotate_rewind(annotate, error);
    do {
        status = status == STATUS_OK ? annotate_next_row(annotate, true, &row, error) : status;
        if (status == STATUS_OK && row.fields)
            status = count_row(&counting, &row, error);
    } while (status == STATUS_OK && row.fields);
    if (status == STATUS_OK)
        status = print_counts(&counting, error);
    request_count_finish(&counting.count);
    free(counting.previous);
    classifier_runtime_close(&counting.scores);
    runtime_close(runtime);
    return status;
}
