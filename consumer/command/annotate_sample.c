// --sample: some rows with their answers, and from them an estimate for all. --estimate: the tokens of all
// prompts, without a step of the model.
#include "batching/sequence.h"
#include "consumer/command/annotate.h"
#include "consumer/runtime.h"
#include "schemas/hash.h"
#include "store/step_cost.h"

#include <math.h>
#include <stdlib.h>

enum { SHOWN_BYTES = 60 };

// ---- sums ----

// Of a figure of the sampled rows. Rows are drawn, but different requests are paid for, each once: so a row
// counts as one part of the rows that are equal to it.
struct sum {
    int64_t n, n_different;               // rows, different requests of them
    double of_different;                  // their figures
    double weights, total;                // sums of w and w x, w = 1 / rows equal to the row
    double weights_2, total_2, squares_2; // of w^2, w^2 x, w^2 x^2
};

static void sum_add(struct sum *sum, double x, double weight, bool is_new)
{
    double square = weight * weight;
    sum->n++;
    sum->n_different += is_new;
    sum->of_different += is_new ? x : 0;
    sum->weights += weight;
    sum->total += weight * x;
    sum->weights_2 += square;
    sum->total_2 += square * x;
    sum->squares_2 += square * x * x;
}

static double mean_of(const struct sum *sum)
{
    return sum->weights > 0 ? sum->total / sum->weights : 0;
}

// Of `n_all` different requests: those of the sample are known, the others are like the mean.
static double total_of(const struct sum *sum, int64_t n_all)
{
    return sum->of_different + fmax((double)(n_all - sum->n_different), 0) * mean_of(sum);
}

// Student's t of a 95 % interval. From 3 degrees of freedom on Fisher's expansion, within 1 % (Abramowitz and
// Stegun, "Handbook of Mathematical Functions", 26.7.5).
static double student_of(double degrees)
{
    const double z = 1.959964, z2 = z * z;
    if (degrees < 3)
        return degrees < 2 ? 12.706 : 4.303;
    double first = z * (z2 + 1) / 4, second = z * ((5 * z2 + 16) * z2 + 3) / 96,
           third = z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384;
    return z + (first + (second + third / degrees) / degrees) / degrees;
}

// Half of the 95 % interval of total_of: of a ratio of two sums over the sample (Cochran, "Sampling
// Techniques"), for a sample without repetition. 0: nothing is left to estimate, or one row alone says
// nothing of it.
static double margin_of(const struct sum *sum, int64_t n_all)
{
    if (sum->n < 2 || sum->n_different >= n_all)
        return 0;
    double n = (double)sum->n, all = (double)n_all, mean = mean_of(sum);
    double squares = sum->squares_2 - 2 * mean * sum->total_2 + mean * mean * sum->weights_2;
    double variance = n / (n - 1) * fmax(squares, 0) / (sum->weights * sum->weights);
    return student_of(n - 1) * sqrt(variance * all * (all - (double)sum->n_different));
}

// ---- the report ----

struct sampling_report {
    struct annotate *annotate;
    struct buffer out, record;
    struct occurrences draws, seen; // of the sample
    int64_t n_missing;              // jobs without a result, of the whole table
    struct sum prompt_tokens, answer_tokens;
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

static void add_answer(struct sampling_report *report)
{
    const struct row_answer *answer = &report->annotate->answer;
    buffer_add_string(&report->out, "\n    -> ");
    for (size_t i = 0; i < answer->n_answers && !answer->failed; i++) {
        struct buffer json = {0};
        const struct value *field = &answer->fields[i];
        if (field->kind != VALUE_STRING)
            json_encode(field, &json);
        buffer_add_string(&report->out, i ? ", " : "");
        if (answer->n_properties) {
            buffer_add_printable(&report->out, answer->columns.names[i], 0);
            buffer_add_string(&report->out, ": ");
        }
        add_shown(&report->out,
                  field->kind == VALUE_STRING ? field->text : (struct text){json.data, json.size});
        buffer_finish(&json);
    }
    if (answer->failed) {
        buffer_add_string(&report->out, "no answer: ");
        add_shown(&report->out, answer->fields[answer->columns.n - 1].text);
    }
    buffer_add_byte(&report->out, '\n');
}

static enum status add_figures(struct sampling_report *report, const struct buffer *request,
                               struct job *const *votes, struct error *error)
{
    struct annotate *annotate = report->annotate;
    double prompt_tokens = 0, answer_tokens = 0;
    int64_t seed;
    uint64_t hash, n_before;
    enum status status = annotate_hash_request(annotate, &report->draws, request, &seed, &hash, error);
    if (status != STATUS_OK)
        return status;
    if (!occurrences_count(&report->seen, hash, &n_before))
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "counting equal rows: out of memory");
    for (int32_t i = 0; i < annotate->n_votes; i++) {
        prompt_tokens += votes[i]->result.prompt_tokens;
        answer_tokens += votes[i]->result.completion_tokens;
    }
    uint64_t n_rows = occurrences_of(&annotate->count.requests, hash);
    double weight = 1 / (double)(n_rows ? n_rows : 1);
    sum_add(&report->prompt_tokens, prompt_tokens, weight, n_before == 0);
    sum_add(&report->answer_tokens, answer_tokens, weight, n_before == 0);
    if (n_before == 0)
        report->n_missing -= (int64_t)occurrences_of(&annotate->count.missing, hash);
    return STATUS_OK;
}

static enum status add_row(struct sampling_report *report, struct table_row *row, struct error *error)
{
    struct annotate *annotate = report->annotate;
    struct job *votes[ROW_VOTES_MAX];
    bool is_left_out;
    enum status status = annotate_read_votes(annotate, &report->record, votes, &is_left_out, error);
    if (status != STATUS_OK || is_left_out)
        return status;
    row_answer_take(&annotate->answer, votes);
    status = annotate_render(annotate, false, row, &report->record, &is_left_out, error);
    if (status == STATUS_OK && !is_left_out) {
        buffer_add_format(&report->out, "row %lld: ", (long long)row->number);
        add_shown(&report->out, (struct text){annotate->prompt.text.data, annotate->prompt.text.size});
        add_answer(report);
        status = add_figures(report, &report->record, votes, error);
    }
    if (status == STATUS_OK)
        status = annotate_evaluate(annotate, row, error);
    annotate_destroy_votes(annotate, votes);
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

static void add_line(struct buffer *out, const char *what, double value, double margin)
{
    buffer_add_format(out, "  %-16s %14.0f", what, value);
    if (margin > 0)
        buffer_add_format(out, "  (%.0f to %.0f)", fmax(value - margin, 0), value + margin);
    buffer_add_byte(out, '\n');
}

static double price_of(const char *text)
{
    return text ? strtod(text, NULL) / 1e6 : 0;
}

static void add_money(struct buffer *out, const struct settings *settings, double prompt_tokens,
                      double prompt_margin, double answer_tokens, double answer_margin)
{
    double in = price_of(settings->annotate.estimate.price_in),
           of_answers = price_of(settings->annotate.estimate.price_out);
    if (!settings->annotate.estimate.price_in && !settings->annotate.estimate.price_out)
        return;
    double money = in * prompt_tokens + of_answers * answer_tokens;
    double margin = in * prompt_margin + of_answers * answer_margin;
    buffer_add_format(out, "  %-16s %14.6f", "price", money);
    if (margin > 0)
        buffer_add_format(out, "  (%.6f to %.6f)", fmax(money - margin, 0), money + margin);
    buffer_add_byte(out, '\n');
}

// Estimated steps of `n_jobs` jobs like the sample's. The last sequences run alone for about an answer; a
// step with more tokens than the worker's limit is several.
static double steps_for(const struct step_cost *cost, double n_jobs)
{
    double of_job = 1 / (double)cost->n_jobs, one = (double)cost->n_sequence_steps * of_job;
    double by_sequences = n_jobs * one / fmax(cost->n_sequences_full, 1);
    double by_tokens = n_jobs * (double)cost->n_tokens * of_job / (double)cost->n_tokens_max;
    return fmax(by_sequences, by_tokens) + one;
}

// Half of the 95 % interval: of the answers' lengths, to which a share of the time is proportional, and of
// the steps' times, that of `steps` to go as well as the mean's of those seen. 0: nothing is to go, or the
// sample is too small for an interval: a line through one or two steps fits them exactly.
static double time_margin(const struct sampling_report *report, const struct step_cost *cost, double seconds,
                          double steps)
{
    int64_t n = report->annotate->count.n_different;
    double answers = total_of(&report->answer_tokens, n);
    double share = (double)cost->generated_tokens / (double)(cost->n_tokens ? cost->n_tokens : 1);
    if (cost->n_steps <= 2 || report->answer_tokens.n < 2)
        return 0;
    double of_answers =
        answers > 0 ? seconds * fmin(share, 1) * margin_of(&report->answer_tokens, n) / answers : 0;
    double of_steps = student_of((double)cost->n_steps - 2) * cost->noise_ms / 1000 *
                      sqrt(fmax(steps, 0) + steps * steps / (double)cost->n_steps);
    return sqrt(of_answers * of_answers + of_steps * of_steps);
}

static enum status add_time(struct sampling_report *report, struct error *error)
{
    struct annotate *annotate = report->annotate;
    struct step_cost cost;
    enum status status = store_step_cost(annotate->store, &cost, error);
    if (status != STATUS_OK || !cost.n_steps || !cost.n_jobs || !report->prompt_tokens.n)
        return status;
    // what the prefix tree saved in the sample, and what a constraint forced, it does in the rest
    double n_jobs = (double)report->n_missing;
    double steps = n_jobs > 0 ? steps_for(&cost, n_jobs) : 0;
    double tokens = n_jobs * (double)cost.n_tokens / (double)cost.n_jobs;
    double seconds = (steps * cost.base_ms + tokens * cost.token_ms) / 1000;
    add_line(&report->out, "steps to go", steps, 0);
    buffer_add_format(&report->out, "  %-16s %14.2f", "seconds to go", seconds);
    double margin = time_margin(report, &cost, seconds, steps);
    if (margin > 0)
        buffer_add_format(&report->out, "  (%.2f to %.2f)", fmax(seconds - margin, 0), seconds + margin);
    buffer_add_byte(&report->out, '\n');
    return STATUS_OK;
}

static enum status add_estimate(struct sampling_report *report, struct error *error)
{
    struct annotate *annotate = report->annotate;
    int64_t n = annotate->count.n_different;
    double prompts = total_of(&report->prompt_tokens, n), answers = total_of(&report->answer_tokens, n);
    double prompts_margin = margin_of(&report->prompt_tokens, n);
    double answers_margin = margin_of(&report->answer_tokens, n);
    buffer_add_format(&report->out,
                      "\nall %lld rows, %lld different requests, estimated from %lld rows (95 %% interval)\n",
                      (long long)annotate->rows.n, (long long)n * annotate->n_votes,
                      (long long)report->prompt_tokens.n);
    add_line(&report->out, "prompt tokens", prompts, prompts_margin);
    add_line(&report->out, "answer tokens", answers, answers_margin);
    add_money(&report->out, annotate->settings, prompts, prompts_margin, answers, answers_margin);
    return add_time(report, error);
}

enum status annotate_report_sample(struct annotate *annotate, struct error *error)
{
    struct sampling_report report = {.annotate = annotate, .n_missing = annotate->count.n_missing};
    enum status status = add_rows(&report, error);
    if (status == STATUS_OK && annotate->settings->annotate.evaluate) {
        buffer_add_byte(&report.out, '\n');
        annotate_write_evaluation(annotate, &report.out);
    }
    if (status == STATUS_OK)
        status = add_estimate(&report, error);
    if (status == STATUS_OK)
        annotate_print(annotate, &report.out);
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
    struct request_count count;
    struct buffer record;
    int64_t n_tokens, n_tokens_different, n_refused;
};

static enum status count_tokens(struct counting *counting, int64_t *n_tokens, struct error *error)
{
    struct job *job = job_create();
    struct prompt *prompt = NULL;
    *n_tokens = 0;
    enum status status = job ? job_decode(job, (struct text){counting->record.data, counting->record.size},
                                          ENCODING_JSON, error)
                             : STATUS_RETRY;
    if (status == STATUS_OK && !(prompt = prompt_create(job)))
        status = STATUS_RETRY;
    if (status == STATUS_OK) {
        status = prompt_prepare(prompt, &counting->environment);
        *error = prompt->error;
        *n_tokens = (int64_t)prompt->tokens.n_ids;
    } else if (status == STATUS_RETRY) {
        error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "counting tokens: out of memory");
    }
    prompt_destroy(prompt);
    job_destroy(job);
    counting->n_refused += status == STATUS_REJECT;
    return status == STATUS_REJECT ? STATUS_OK : status;
}

static enum status count_row(struct counting *counting, struct table_row *row, struct error *error)
{
    struct annotate *annotate = counting->annotate;
    int64_t n_tokens;
    uint64_t n_before;
    bool is_left_out;
    enum status status = annotate_render(annotate, true, row, &counting->record, &is_left_out, error);
    if (status != STATUS_OK || is_left_out)
        return status;
    status = annotate_count_request(annotate, &counting->count, &counting->record, false, &n_before, error);
    if (status == STATUS_OK && counting->record.failed)
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "counting tokens: out of memory");
    if (status == STATUS_OK)
        status = count_tokens(counting, &n_tokens, error);
    if (status != STATUS_OK)
        return status;
    n_tokens *= annotate->n_votes;
    counting->n_tokens += n_tokens;
    counting->n_tokens_different += n_before == 0 ? n_tokens : 0;
    return STATUS_OK;
}

// Answers have no length yet: --max-tokens bounds it, a sample estimates it. Scored choices generate nothing.
static void print_prices(const struct counting *counting, struct buffer *out)
{
    const struct settings *settings = counting->annotate->settings;
    double prompts = price_of(settings->annotate.estimate.price_in) * (double)counting->n_tokens_different;
    double tokens = (double)settings->model.max_tokens_default * (double)counting->annotate->n_votes;
    if (settings->annotate.estimate.price_in)
        buffer_add_format(out, "price of prompts %14.6f\n", prompts);
    if (!settings->annotate.estimate.price_out)
        return;
    if (settings->annotate.output.probabilities)
        buffer_add_format(out, "price of answers %14.6f\n", 0.0);
    else if (settings->model.max_tokens_default)
        buffer_add_format(out, "price of answers, at most %.6f\n",
                          price_of(settings->annotate.estimate.price_out) * tokens *
                              (double)counting->count.n_different);
    else
        buffer_add_string(out, "price of answers: their length is not known; --max-tokens N bounds it, "
                               "--sample N estimates it\n");
}

static void print_counts(const struct counting *counting)
{
    struct buffer out = {0};
    buffer_add_format(&out, "rows             %14lld\n", (long long)counting->annotate->rows.n);
    buffer_add_format(&out, "different        %14lld\n", (long long)counting->count.n_different);
    buffer_add_format(&out, "prompt tokens    %14lld\n", (long long)counting->n_tokens);
    buffer_add_format(&out, "  of different   %14lld\n", (long long)counting->n_tokens_different);
    if (counting->n_refused)
        buffer_add_format(&out, "refused prompts  %14lld\n", (long long)counting->n_refused);
    print_prices(counting, &out);
    annotate_print(counting->annotate, &out);
    buffer_finish(&out);
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
        status = annotate_rewind(annotate, error);
    do {
        status = status == STATUS_OK ? annotate_next_row(annotate, true, &row, error) : status;
        if (status == STATUS_OK && row.fields)
            status = count_row(&counting, &row, error);
    } while (status == STATUS_OK && row.fields);
    if (status == STATUS_OK)
        print_counts(&counting);
    request_count_finish(&counting.count);
    buffer_finish(&counting.record);
    runtime_close(runtime);
    return status;
}
