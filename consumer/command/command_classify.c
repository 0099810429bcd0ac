// sheaf classify and sheaf rerank: read texts or queries with documents from standard input and write a JSON line with
// the scores of each. Many inputs are computed together.
#include "consumer/command/commands.h"
#include "consumer/command/files/line_part.h"
#include "consumer/command/files/score_line.h"
#include "consumer/command/scorer.h"
#include "consumer/observe/log.h"
#include "schemas/base/clock.h"
#include "schemas/base/file.h"
#include "schemas/value.h"

#include <stdlib.h>
#include <string.h>

enum { GROUP_LINES_MAX = 4096 };

struct scored_line {
    int64_t index;                // from 0
    size_t first_input, n_inputs; // of the scorer's group
    size_t first_name, n_names;   // bytes of `names`: the line's ids
    bool is_single;               // of rerank: one score
    int64_t top_n;                // of rerank; 0: all
    struct error error;           // of a line without scores: STATUS_REJECT
};

struct command_scores {
    struct runtime *runtime;
    struct scorer scorer;
    bool ranks, plain_text;
    int64_t top_n;
    struct line_part part;
    struct scored_line *lines; // [GROUP_LINES_MAX]
    size_t n_lines;
    struct buffer names, out, made_by;
    int64_t n_inputs, n_tokens; // computed
};

// ---- input ----

static enum status decode(const struct command_scores *scores, struct text line, struct arena *arena,
                          struct score_line *decoded, struct buffer *names, struct error *error)
{
    const struct embed_input *input = &scores->part.input;
    if (line.size > JOB_RECORD_BYTES_MAX)
        return error_set(error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                         "the line has %llu bytes: expected at most %d",
                         (unsigned long long)input->lines.line_bytes, JOB_RECORD_BYTES_MAX);
    if (scores->ranks)
        return score_line_decode_query(line, arena, decoded, names, error);
    if (input->kind != EMBED_LINES_TEXT)
        return score_line_decode_text(line, arena, decoded, names, error);
    *decoded = (struct score_line){.text = line};
    return STATUS_OK;
}

static enum status add_inputs(struct command_scores *scores, struct scored_line *scored,
                              const struct score_line *decoded, struct error *error)
{
    enum status status = STATUS_OK;
    if (!scores->ranks) {
        const struct text texts[2] = {decoded->text, decoded->pair};
        status = scorer_add(&scores->scorer, texts, decoded->pair.data ? 2 : 1, error);
    }
    for (size_t i = 0; i < decoded->n_documents && status == STATUS_OK; i++)
        status =
            scorer_add(&scores->scorer, (struct text[2]){decoded->query, decoded->documents[i]}, 2, error);
    scored->n_inputs = scores->scorer.n_inputs - scored->first_input;
    return status;
}

// A line that cannot be computed gets an error in the output; any other error ends the command.
static enum status add_line(struct command_scores *scores, struct text line, struct error *error)
{
    struct arena arena = {0};
    struct score_line decoded = {0};
    struct scored_line *scored = &scores->lines[scores->n_lines++];
    *scored = (struct scored_line){.index = scores->part.done.n_lines - 1,
                                   .first_input = scores->scorer.n_inputs,
                                   .first_name = scores->names.size};
    enum status status = decode(scores, line, &arena, &decoded, &scores->names, &scored->error);
    scored->n_names = scores->names.size - scored->first_name;
    scored->is_single = decoded.is_single;
    scored->top_n = decoded.top_n ? decoded.top_n : scores->top_n;
    if (status == STATUS_OK)
        status = add_inputs(scores, scored, &decoded, &scored->error);
    arena_finish(&arena);
    if (status == STATUS_OK || status == STATUS_REJECT)
        return STATUS_OK;
    *error = scored->error;
    return error_prefix(error, "standard input: line %lld", (long long)scored->index + 1);
}

// ---- output ----

static void write_fault(struct command_scores *scores, const struct error *fault)
{
    buffer_add_format(&scores->out, "\"error\":{\"code\":\"%s\",\"message\":", error_code_name(fault->code));
    json_encode_string(text_from_string(fault->text), &scores->out);
    buffer_add_byte(&scores->out, '}');
}

static void write_number(struct command_scores *scores, float number)
{
    struct value item = value_single(number);
    json_encode(&item, &scores->out);
}

static void write_usage(struct command_scores *scores, size_t n_tokens)
{
    buffer_add_format(&scores->out, "\"usage\":{\"prompt_tokens\":%zu,\"total_tokens\":%zu}", n_tokens,
                      n_tokens);
    scores->n_tokens += (int64_t)n_tokens;
}

static void write_start(struct command_scores *scores, const struct scored_line *line, const char *object)
{
    if (object)
        buffer_add_format(&scores->out, "{\"object\":\"%s\",\"index\":%lld,", object, (long long)line->index);
    else
        buffer_add_format(&scores->out, "{\"index\":%lld,", (long long)line->index);
    if (line->n_names)
        buffer_add(&scores->out, scores->names.data + line->first_name, line->n_names);
}

static void write_failed(struct command_scores *scores, const struct scored_line *line,
                         const struct error *fault)
{
    write_start(scores, line, NULL);
    write_fault(scores, fault);
    buffer_add_string(&scores->out, "}\n");
    scores->part.done.n_failed++;
}

static void write_class(struct command_scores *scores, const struct scored_line *line)
{
    struct scorer *scorer = &scores->scorer;
    const float *probabilities = scorer_scores(scorer, line->first_input);
    const struct scored_input *input = &scorer->inputs[line->first_input];
    int32_t best = 0, n = scorer->model.facts.n_labels;
    char made[CLASSIFIER_LABEL_BYTES];
    if (!probabilities) {
        write_failed(scores, line, &input->error);
        return;
    }
    for (int32_t i = 1; i < n; i++)
        best = probabilities[i] > probabilities[best] ? i : best;
    write_start(scores, line, "classification");
    buffer_add_string(&scores->out, "\"label\":");
    json_encode_string(classifier_label(&scorer->model.facts, scores->runtime->model, best, made),
                       &scores->out);
    buffer_add_format(&scores->out, ",\"%s\":[", scorer->model.function == SCORE_RAW ? "logits" : "probs");
    for (int32_t i = 0; i < n; i++) {
        buffer_add_string(&scores->out, i ? "," : "");
        write_number(scores, probabilities[i]);
    }
    buffer_add_format(&scores->out, "],\"num_classes\":%d,", n);
    write_usage(scores, input->n_ids);
    buffer_add_string(&scores->out, "}\n");
    scores->n_inputs++;
}

static void write_score(struct command_scores *scores, const struct scored_line *line)
{
    struct scorer *scorer = &scores->scorer;
    const float *score = scorer_scores(scorer, line->first_input);
    const struct scored_input *input = &scorer->inputs[line->first_input];
    if (!score) {
        write_failed(scores, line, &input->error);
        return;
    }
    write_start(scores, line, "score");
    buffer_add_string(&scores->out, "\"score\":");
    write_number(scores, score[scorer->model.facts.relevant]);
    buffer_add_byte(&scores->out, ',');
    write_usage(scores, input->n_ids);
    buffer_add_string(&scores->out, "}\n");
    scores->n_inputs++;
}

struct ranked_document {
    size_t index; // in the line
    float score;
};

// The more relevant one first, of equally relevant ones the earlier.
static int compare_documents(const void *a, const void *b)
{
    const struct ranked_document *left = a, *right = b;
    if (left->score != right->score)
        return left->score < right->score ? 1 : -1;
    return left->index < right->index ? -1 : 1;
}

// Writes the documents at fault. Returns whether there are any.
static bool write_faults(struct command_scores *scores, const struct scored_line *line)
{
    size_t n = 0;
    for (size_t i = 0; i < line->n_inputs; i++) {
        if (scorer_scores(&scores->scorer, line->first_input + i))
            continue;
        buffer_add_format(&scores->out, "%s{\"index\":%zu,", n++ ? "," : "\"errors\":[", i);
        write_fault(scores, &scores->scorer.inputs[line->first_input + i].error);
        buffer_add_byte(&scores->out, '}');
    }
    buffer_add_string(&scores->out, n ? "]," : "");
    return n > 0;
}

static enum status write_ranking(struct command_scores *scores, const struct scored_line *line,
                                 struct error *error)
{
    struct scorer *scorer = &scores->scorer;
    struct ranked_document *ranked = calloc(line->n_inputs, sizeof *ranked);
    size_t n = 0, n_tokens = 0;
    if (!ranked)
        return error_memory(error, STATUS_REFUSE, "the documents of a line");
    for (size_t i = 0; i < line->n_inputs; i++) {
        const float *score = scorer_scores(scorer, line->first_input + i);
        if (!score)
            continue;
        ranked[n++] = (struct ranked_document){i, score[scorer->model.facts.relevant]};
        n_tokens += scorer->inputs[line->first_input + i].n_ids;
    }
    qsort(ranked, n, sizeof *ranked, compare_documents);
    scores->n_inputs += (int64_t)n;
    write_start(scores, line, "rerank");
    buffer_add_string(&scores->out, "\"results\":[");
    for (size_t i = 0; i < n && (!line->top_n || (int64_t)i < line->top_n); i++) {
        buffer_add_format(&scores->out, "%s{\"index\":%zu,\"relevance_score\":", i ? "," : "",
                          ranked[i].index);
        write_number(scores, ranked[i].score);
        buffer_add_byte(&scores->out, '}');
    }
    buffer_add_string(&scores->out, "],");
    scores->part.done.n_failed += write_faults(scores, line);
    write_usage(scores, n_tokens);
    buffer_add_string(&scores->out, "}\n");
    free(ranked);
    return STATUS_OK;
}

static enum status complete_group(struct command_scores *scores, struct error *error)
{
    enum status status = scorer_compute(&scores->scorer, error);
    for (size_t i = 0; i < scores->n_lines && status == STATUS_OK; i++) {
        const struct scored_line *line = &scores->lines[i];
        if (line->error.status != STATUS_OK)
            write_failed(scores, line, &line->error);
        else if (!scores->ranks)
            write_class(scores, line);
        else if (line->is_single)
            write_score(scores, line);
        else
            status = write_ranking(scores, line, error);
    }
    if (status == STATUS_OK && (scores->out.failed || scores->names.failed))
        status = error_memory(error, STATUS_REFUSE, "the scores of texts");
    if (status == STATUS_OK)
        status = line_part_keep(&scores->part, &scores->out, error);
    scores->n_lines = 0;
    scorer_clear(&scores->scorer);
    buffer_clear(&scores->names);
    buffer_clear(&scores->out);
    return status;
}

static enum status score_lines(struct command_scores *scores, struct error *error)
{
    struct text line;
    enum status status;
    while ((status = line_part_next(&scores->part, &line, error)) == STATUS_OK && line.data) {
        status = add_line(scores, line, error);
        if (status == STATUS_OK && (scores->n_lines == GROUP_LINES_MAX || scorer_is_full(&scores->scorer)))
            status = complete_group(scores, error);
        if (status != STATUS_OK)
            return status;
    }
    return status == STATUS_OK && scores->n_lines > 0 ? complete_group(scores, error) : status;
}

// ---- the commands ----

static enum status open_lines(struct command_scores *scores, const struct settings *settings,
                              struct error *error)
{
    const struct file_use uses[] = {{"the model", settings->line.positionals[0], .is_model = true},
                                    {"-o", settings->output.file, true}};
    enum status status = file_check_uses(uses, sizeof uses / sizeof uses[0], error);
    if (status != STATUS_OK)
        return status;
    return line_part_open(&scores->part, settings->output.file ? settings->output.file : "-",
                          scores->plain_text, &(struct input_text){0}, error);
}

static enum status run(struct command_scores *scores, const struct settings *settings, struct error *error)
{
    const char *what = scores->ranks ? "these rankings" : "these classes";
    double start_s = clock_s();
    scores->lines = calloc(GROUP_LINES_MAX, sizeof *scores->lines);
    enum status status =
        scores->lines ? STATUS_OK : error_memory(error, STATUS_REFUSE, "the lines of a group");
    if (status == STATUS_OK && scores->part.output.state_path)
        status = scorer_name_making(&scores->scorer, settings, &scores->made_by, error);
    if (status == STATUS_OK)
        status = line_part_take_up(&scores->part, scores->made_by.data ? scores->made_by.data : "", error);
    if (status == STATUS_OK && scores->part.output.state.n_lines)
        log_write(LOG_INFO, "resuming: %lld lines were written before",
                  (long long)scores->part.output.state.n_lines);
    if (status == STATUS_OK)
        status = score_lines(scores, error);
    if (status == STATUS_OK)
        status = line_part_complete(&scores->part, what, settings->output.overwrite, error);
    if (status != STATUS_OK)
        return status;
    double took_s = clock_s() - start_s;
    log_write(LOG_INFO, "%lld %s, %lld tokens, %.1f tokens/s", (long long)scores->n_inputs,
              scores->ranks ? "pairs" : "texts", (long long)scores->n_tokens,
              (double)scores->n_tokens / (took_s > 0 ? took_s : 1));
    if (scores->scorer.n_cut)
        log_write(LOG_WARNING, "%lld texts were cut after %zu tokens (--max-length)",
                  (long long)scores->scorer.n_cut, scores->scorer.model.reader.n_tokens_max);
    const struct output_part_state *done = &scores->part.done;
    return done->n_failed
               ? error_set(error, STATUS_REFUSE, ERROR_JOBS_FAILED, "%lld of %lld lines have an error",
                           (long long)done->n_failed, (long long)done->n_lines)
               : STATUS_OK;
}

static enum status score(const struct settings *settings, bool ranks, struct error *error)
{
    struct runtime runtime = {0};
    struct command_scores scores = {.runtime = &runtime,
                                    .ranks = ranks,
                                    .plain_text = settings->tool.plain_text,
                                    .top_n = settings->score.top_n};
    enum status status = open_lines(&scores, settings, error);
    if (status == STATUS_OK)
        status = runtime_open_model(&runtime, settings, settings->line.positionals[0], error);
    if (status == STATUS_OK)
        status = scorer_open(&scores.scorer, &runtime, settings, ranks, error);
    if (status == STATUS_OK)
        status = run(&scores, settings, error);
    line_part_close(&scores.part);
    scorer_close(&scores.scorer);
    buffer_finish(&scores.names);
    buffer_finish(&scores.out);
    buffer_finish(&scores.made_by);
    free(scores.lines);
    runtime_close(&runtime);
    return status;
}

enum status command_classify(const struct settings *settings, struct error *error)
{
    return score(settings, false, error);
}

enum status command_rerank(const struct settings *settings, struct error *error)
{
    return score(settings, true, error);
}
