// sheaf report: writes an HTML page with a dataset's figures, plots, errors, labels and evaluation, from the
// store alone.
#include "consumer/command/commands.h"
#include "consumer/command/report_statistics.h"
#include "consumer/command/files/own_output.h"
#include "consumer/command/files/named_store.h"
#include "consumer/observe/page.h"
#include "consumer/evaluate/evaluation.h"
#include "store/report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { EXAMPLE_BYTES = 300, CLASSES_SHOWN_MAX = 24 };

struct report {
    struct store *store;
    struct text dataset;
    const char *statistics; // a file; NULL: none
    struct buffer out;
    int64_t n_rows; // rows of the current query so far
    // columns of a chart
    struct page_column columns[PAGE_COLUMNS_MAX], more[PAGE_COLUMNS_MAX];
    int n_columns;
    double unit; // of a histogram: stored values per unit shown, as 1e6 us per s
    // state of the table of errors, and of the bars of a property
    struct buffer name;
    int64_t total;
    struct {
        struct buffer labels[REPORT_LABELS];
        int64_t counts[REPORT_LABELS];
        int n;
    } bars;
    struct evaluation evaluation;
    enum status status; // of `evaluation`
    struct error error;
};

static double number_of(const struct value *field)
{
    return field->kind == VALUE_FLOAT     ? field->number
           : field->kind == VALUE_INTEGER ? (double)field->integer
                                          : 0;
}

static int64_t integer_of(const struct value *field)
{
    return field->kind == VALUE_INTEGER ? field->integer : 0;
}

static struct text text_of(const struct value *field)
{
    return field->kind == VALUE_STRING ? field->text : (struct text){0};
}

// ---- the head ----

static void add_count(struct buffer *out, const char *label, int64_t number)
{
    char text[32];
    page_add_tile(out, label, "%s", page_number(text, number));
}

// Adds the tokens by cost. Equal jobs are in the sums over jobs and are subtracted; equal rows of annotate
// are one job, so they are not in the sums.
static void add_tokens(struct buffer *out, const struct value *fields)
{
    int64_t duplicate_prompt = integer_of(&fields[15]), duplicate_completion = integer_of(&fields[16]),
            duplicates = duplicate_prompt + duplicate_completion + integer_of(&fields[17]),
            prompt = integer_of(&fields[6]) - duplicate_prompt,
            completion = integer_of(&fields[7]) - duplicate_completion, cached = integer_of(&fields[8]),
            all = prompt + completion + duplicates;
    page_begin_section(out, "Tokens");
    page_begin_bars(out, TEXT("By cost, each request's prompt once"));
    page_add_bar(out, TEXT("prompts, not from the prefix cache"), prompt - cached, all);
    page_add_bar(out, TEXT("prompts, from the prefix cache"), cached, all);
    page_add_bar(out, TEXT("answers, generated"), completion, all);
    page_add_bar(out, TEXT("prompts and answers, from duplicates"), duplicates, all);
    page_end_bars(out);
    page_end_section(out);
}

static void add_totals(void *context, const struct value *fields)
{
    struct report *report = context;
    struct buffer *out = &report->out;
    report->n_rows++;
    int64_t submitted = integer_of(&fields[2]), done = integer_of(&fields[3]),
            failed = integer_of(&fields[4]), cancelled = integer_of(&fields[5]);
    double seconds = number_of(&fields[11]);
    buffer_add_string(out, "<p>");
    page_add_text(out, text_of(&fields[0]));
    buffer_add_string(out, "</p><p class=\"soft\">");
    page_add_text(out, text_of(&fields[1]));
    if (text_of(&fields[9]).size) {
        buffer_add_string(out, "</p><p class=\"soft\">finished from ");
        page_add_text(out, text_of(&fields[9]));
        buffer_add_string(out, " to ");
        page_add_text(out, text_of(&fields[10]));
        buffer_add_string(out, " UTC");
    }
    buffer_add_string(out, "</p>\n");
    page_begin_section(out, "Jobs");
    page_begin_tiles(out);
    add_count(out, "submitted", submitted);
    add_count(out, "done", done);
    add_count(out, "failed", failed);
    add_count(out, "cancelled", cancelled);
    add_count(out, "remaining", submitted - done - failed - cancelled);
    add_count(out, "answered from duplicates", integer_of(&fields[14]));
    page_add_tile(out, "time, first start to last end", "%.1f s", seconds);
    page_add_tile(out, "jobs per second", "%.1f", seconds > 0 ? (double)(done + failed) / seconds : 0);
    page_add_tile(out, "jobs per second, last minute of work", "%.1f", number_of(&fields[18]));
    page_add_tile(out, "median time of a job", "%.3f s", number_of(&fields[12]));
    page_add_tile(out, "95 % of jobs within", "%.3f s", number_of(&fields[13]));
    page_end_tiles(out);
    page_end_section(out);
    add_tokens(out, fields);
}

// ---- charts ----

// `total_s`: the time of all columns, which decides the unit.
static void label_time(struct page_column *column, double seconds, double total_s)
{
    if (total_s < 600)
        snprintf(column->label, sizeof column->label, "%.6g s", seconds);
    else if (total_s < 36000)
        snprintf(column->label, sizeof column->label, "%.6g min", seconds / 60);
    else if (total_s < 4 * 86400)
        snprintf(column->label, sizeof column->label, "%.6g h", seconds / 3600);
    else
        snprintf(column->label, sizeof column->label, "%.6g days", seconds / 86400);
}

static void take_time(void *context, const struct value *fields)
{
    struct report *report = context;
    int64_t bucket = integer_of(&fields[0]), n = integer_of(&fields[1]);
    double width_s = number_of(&fields[2]);
    if (n < 1 || n > REPORT_BUCKETS || bucket < 0 || bucket >= n || width_s <= 0)
        return;
    if (report->n_rows++ == 0)
        for (int i = 0; i < n; i++) {
            report->columns[i] = report->more[i] = (struct page_column){0};
            label_time(&report->columns[i], i * width_s, (double)n * width_s);
            label_time(&report->more[i], i * width_s, (double)n * width_s);
        }
    report->n_columns = (int)n;
    report->columns[bucket].value = number_of(&fields[3]) / width_s;
}

static void take_step_time(void *context, const struct value *fields)
{
    struct report *report = context;
    int64_t bucket = integer_of(&fields[0]);
    take_time(context, fields);
    if (bucket >= 0 && bucket < report->n_columns)
        report->more[bucket].value = number_of(&fields[4]);
}

static void take_bar(void *context, const struct value *fields)
{
    struct report *report = context;
    int64_t bar = integer_of(&fields[0]), n = integer_of(&fields[1]);
    double width = (double)integer_of(&fields[2]) / report->unit;
    if (n < 1 || n > REPORT_BARS || bar < 0 || bar >= n)
        return;
    if (report->n_rows++ == 0)
        for (int i = 0; i < n; i++) {
            report->columns[i] = (struct page_column){0};
            snprintf(report->columns[i].label, sizeof report->columns[i].label, "%.6g", i * width);
        }
    report->n_columns = (int)n;
    report->columns[bar].value = (double)integer_of(&fields[3]);
}

static enum status read_rows(struct report *report, enum report_query query,
                             void (*receive)(void *context, const struct value *fields), struct error *error)
{
    report->n_rows = 0;
    report->n_columns = 0;
    return store_report(report->store, query, report->dataset, receive, report, error);
}

static enum status add_course(struct report *report, struct error *error)
{
    struct buffer *out = &report->out;
    page_begin_section(out, "Over time");
    page_begin_charts(out);
    enum status status = read_rows(report, REPORT_JOBS_BY_TIME, take_time, error);
    page_add_columns(out, "Jobs finished per second", "jobs/s", report->columns, report->n_columns);
    if (status == STATUS_OK)
        status = read_rows(report, REPORT_STEPS_BY_TIME, take_step_time, error);
    if (report->n_columns) {
        page_add_columns(out, "Tokens computed per second", "tokens/s", report->columns, report->n_columns);
        page_add_columns(out, "Batch: sequences in a step", "sequences", report->more, report->n_columns);
    }
    page_end_charts(out);
    page_end_section(out);
    return status;
}

static enum status add_histograms(struct report *report, struct error *error)
{
    static const struct {
        enum report_query query;
        const char *title;
        double unit;
    } histograms[] = {{REPORT_LATENCIES, "Seconds of a job: wait, prefill, decode", 1e6},
                      {REPORT_PROMPT_LENGTHS, "Tokens of a prompt", 1},
                      {REPORT_ANSWER_LENGTHS, "Tokens of an answer", 1}};
    struct buffer *out = &report->out;
    enum status status = STATUS_OK;
    page_begin_section(out, "Distributions of the done jobs");
    page_begin_charts(out);
    for (size_t i = 0; i < sizeof histograms / sizeof histograms[0] && status == STATUS_OK; i++) {
        report->unit = histograms[i].unit;
        status = read_rows(report, histograms[i].query, take_bar, error);
        page_add_columns(out, histograms[i].title, "jobs", report->columns, report->n_columns);
    }
    page_end_charts(out);
    page_end_section(out);
    return status;
}

// ---- errors ----

static void add_error(void *context, const struct value *fields)
{
    struct report *report = context;
    struct buffer *out = &report->out;
    char number[32];
    struct text code = text_of(&fields[0]);
    if (report->n_rows++ == 0) {
        page_begin_section(out, "Errors");
        page_begin_table(out, "error|jobs|<example|<message");
    }
    bool is_same = text_equal((struct text){report->name.data, report->name.size}, code);
    report->name.size = 0;
    buffer_add(&report->name, code.data, code.size);
    buffer_add_string(out, "<tr><td>");
    if (!is_same)
        page_add_text(out, code);
    buffer_add_string(out, "</td><td>");
    if (!is_same)
        buffer_add_string(out, page_number(number, integer_of(&fields[1])));
    buffer_add_string(out, "</td><td class=\"left\">");
    page_add_beginning(out, text_of(&fields[2]), EXAMPLE_BYTES);
    buffer_add_string(out, "</td><td class=\"left\">");
    page_add_beginning(out, text_of(&fields[3]), EXAMPLE_BYTES);
    buffer_add_string(out, "</td></tr>\n");
}

static enum status add_errors(struct report *report, struct error *error)
{
    report->name.size = 0;
    enum status status = read_rows(report, REPORT_ERRORS, add_error, error);
    if (report->n_rows) {
        page_end_table(&report->out);
        page_end_section(&report->out);
    }
    return status;
}

// ---- labels ----

static void end_property(struct report *report)
{
    if (report->bars.n == 0)
        return;
    page_begin_bars(&report->out, (struct text){report->name.data, report->name.size});
    for (int i = 0; i < report->bars.n; i++)
        page_add_bar(&report->out, (struct text){report->bars.labels[i].data, report->bars.labels[i].size},
                     report->bars.counts[i], report->total);
    page_end_bars(&report->out);
    report->bars.n = 0;
    report->total = 0;
}

static void take_label(void *context, const struct value *fields)
{
    struct report *report = context;
    struct text property = text_of(&fields[0]), label = text_of(&fields[1]);
    bool is_table = fields[3].kind != VALUE_NULL;
    if (report->n_rows++ == 0) {
        page_begin_section(&report->out, is_table ? "Answers: rows of the table" : "Answers");
        page_begin_charts(&report->out);
    }
    if (!text_equal((struct text){report->name.data, report->name.size}, property)) {
        end_property(report);
        report->name.size = 0;
        buffer_add(&report->name, property.data, property.size);
    }
    report->total += integer_of(&fields[2]);
    if (report->bars.n == REPORT_LABELS)
        return;
    struct buffer *to = &report->bars.labels[report->bars.n];
    to->size = 0;
    buffer_add(to, label.data, label.size);
    report->bars.counts[report->bars.n++] = integer_of(&fields[2]);
}

static enum status add_labels(struct report *report, struct error *error)
{
    report->name.size = 0;
    enum status status = read_rows(report, REPORT_LABELS_BY_PROPERTY, take_label, error);
    end_property(report);
    if (report->n_rows) {
        page_end_charts(&report->out);
        page_end_section(&report->out);
    }
    return status;
}

// ---- the evaluation ----

static void take_cell(void *context, const struct value *fields)
{
    struct report *report = context;
    report->n_rows++;
    for (int64_t i = integer_of(&fields[2]); i > 0 && report->status == STATUS_OK; i--)
        report->status =
            evaluation_add(&report->evaluation, text_of(&fields[0]), text_of(&fields[1]), &report->error);
}

static void add_interval(struct buffer *out, struct interval figure)
{
    buffer_add_format(out, "<td>%.4f</td><td>", figure.value);
    if (interval_is_known(figure))
        buffer_add_format(out, "%.4f\u2013%.4f", figure.low, figure.high);
    buffer_add_string(out, "</td>");
}

static void add_classes(struct report *report)
{
    const struct evaluation *evaluation = &report->evaluation;
    struct buffer *out = &report->out;
    page_begin_table(out, "label|precision|95 % interval|recall|95 % interval|F1|95 % interval|gold|answers");
    for (size_t i = 0; i < evaluation->n_classes; i++) {
        struct evaluation_class class = evaluation_of_class(evaluation, i);
        buffer_add_string(out, "<tr><td>");
        page_add_beginning(out, evaluation_class_name(evaluation, i), EXAMPLE_BYTES);
        buffer_add_string(out, "</td>");
        add_interval(out, class.precision);
        add_interval(out, class.recall);
        add_interval(out, class.f1);
        buffer_add_format(out, "<td>%" PRId64 "</td><td>%" PRId64 "</td></tr>\n", class.n_gold,
                          class.n_answers);
    }
    page_end_table(out);
}

static void add_matrix(struct report *report)
{
    const struct evaluation *evaluation = &report->evaluation;
    struct buffer *out = &report->out;
    buffer_add_string(out, "<h3>Confusion matrix: gold labels in rows, answers in columns</h3>\n"
                           "<div class=\"wide\"><table><tr><th></th>");
    for (size_t i = 0; i < evaluation->n_classes; i++) {
        buffer_add_string(out, "<th>");
        page_add_beginning(out, evaluation_class_name(evaluation, i), EXAMPLE_BYTES);
        buffer_add_string(out, "</th>");
    }
    buffer_add_string(out, "</tr>\n");
    for (size_t gold = 0; gold < evaluation->n_classes; gold++) {
        buffer_add_string(out, "<tr><th>");
        page_add_beginning(out, evaluation_class_name(evaluation, gold), EXAMPLE_BYTES);
        buffer_add_string(out, "</th>");
        for (size_t answer = 0; answer < evaluation->n_classes; answer++)
            buffer_add_format(out,
                              gold == answer ? "<td class=\"hit\">%" PRId64 "</td>" : "<td>%" PRId64 "</td>",
                              evaluation->counts[gold * EVALUATION_CLASSES_MAX + answer]);
        buffer_add_string(out, "</tr>\n");
    }
    page_end_table(out);
}

static void add_figure(struct buffer *out, const char *label, struct interval figure)
{
    char of_interval[64];
    if (isnan(figure.value))
        page_add_tile(out, label, EVALUATION_UNDEFINED);
    else
        page_add_tile(out, label, "%.4f", figure.value);
    snprintf(of_interval, sizeof of_interval, "95 %% interval of %s", label);
    if (interval_is_known(figure))
        page_add_tile(out, of_interval, "%.4f\u2013%.4f", figure.low, figure.high);
}

static enum status add_evaluation(struct report *report, struct error *error)
{
    enum status status = evaluation_open(&report->evaluation, error);
    if (status != STATUS_OK)
        return status;
    status = read_rows(report, REPORT_EVALUATION, take_cell, error);
    if (status == STATUS_OK && report->status != STATUS_OK) {
        *error = report->error;
        status = report->status;
    }
    if (status == STATUS_OK && report->n_rows) {
        page_begin_section(&report->out, "Evaluation");
        page_begin_tiles(&report->out);
        add_count(&report->out, "rows with a gold label", report->evaluation.n_rows);
        add_figure(&report->out, "accuracy", evaluation_accuracy(&report->evaluation));
        add_figure(&report->out, "Cohen's kappa", evaluation_kappa(&report->evaluation));
        add_figure(&report->out, "macro F1", evaluation_macro_f1(&report->evaluation));
        page_end_tiles(&report->out);
        add_classes(report);
        if (report->evaluation.n_classes <= CLASSES_SHOWN_MAX)
            add_matrix(report);
        page_end_section(&report->out);
    }
    evaluation_close(&report->evaluation);
    return status;
}

// ---- the command ----

static enum status write_page(struct report *report, struct error *error)
{
    page_begin(&report->out, report->dataset, 0);
    enum status status = read_rows(report, REPORT_TOTALS, add_totals, error);
    if (status == STATUS_OK && report->n_rows == 0)
        return error_set(error, STATUS_REFUSE, ERROR_STORE, "%s: there is no dataset %.*s; see sheaf status",
                         store_path(report->store), (int)report->dataset.size, report->dataset.data);
    if (status == STATUS_OK)
        status = add_evaluation(report, error);
    if (status == STATUS_OK && report->statistics)
        status = report_statistics_add(report->statistics, &report->out, error);
    if (status == STATUS_OK)
        status = add_labels(report, error);
    if (status == STATUS_OK)
        status = add_errors(report, error);
    if (status == STATUS_OK)
        status = add_course(report, error);
    if (status == STATUS_OK)
        status = add_histograms(report, error);
    page_end(&report->out);
    own_output_sign(&report->out, report->dataset);
    if (status == STATUS_OK && report->out.failed)
        status = error_memory(error, STATUS_REFUSE, "the report");
    return status;
}

static enum status write_file(const struct report *report, const char *path, struct error *error)
{
    struct output_file output = {0};
    enum status status = output_file_open(&output, path, error);
    if (status != STATUS_OK)
        return status;
    if (fwrite(report->out.data, 1, report->out.size, output.file) != report->out.size)
        status = error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: writing: %s", output.name, strerror(errno));
    if (status == STATUS_OK)
        status = output_file_complete(&output, error);
    output_file_close(&output);
    return status;
}

enum status command_report(const struct settings *settings, struct error *error)
{
    if (!settings->dataset || !settings->output.file)
        return options_refuse_missing(&settings->line, settings->dataset ? NULL : "--dataset NAME",
                                      settings->output.file ? NULL : "-o FILE.html", error);
    struct report report = {.dataset = text_from_string(settings->dataset),
                            .statistics = settings->annotate.evaluation.statistics};
    enum status status = named_store_open_to_read(&report.store, settings, error);
    if (status == STATUS_OK)
        status =
            own_output_check_signed(settings->output.file, report.dataset, settings->output.overwrite, error);
    if (status == STATUS_OK)
        status = write_page(&report, error);
    if (status == STATUS_OK)
        status = write_file(&report, settings->output.file, error);
    for (int i = 0; i < REPORT_LABELS; i++)
        buffer_finish(&report.bars.labels[i]);
    buffer_finish(&report.name);
    buffer_finish(&report.out);
    store_close(report.store);
    return status;
}
