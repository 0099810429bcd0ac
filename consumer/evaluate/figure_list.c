#include "consumer/evaluate/figure_list.h"

#include "schemas/value.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const figure_columns[FIGURE_COLUMNS] = {"gold",  "answer", "group", "label", "figure",
                                                    "value", "low",    "high",  "rows",  "gold_rows"};

static const char WILSON[] = "Wilson", DELTA[] = "delta method, two rows added",
                  SHARE[] = "PPI++ (post-stratified), Wilson, MOVER", SAMPLE[] = "Wilson, finite population",
                  MEAN[] = "PPI++ (regression), HC3, Student", WELCH[] = "PPI++ (regression), HC3, Welch",
                  MEAN_OF_GOLD[] = "gold rows alone, Student", WELCH_OF_GOLD[] = "gold rows alone, Welch",
                  STUDENT[] = "Student", FISHER[] = "Fisher's z, jackknife", NONE[] = "";

struct figure_writer {
    const struct comparison *comparison;
    struct buffer *out;
    bool is_json;
    struct text group, label;
    int64_t n_rows, n_gold;
};

static void write_json_text(struct buffer *out, struct text text)
{
    json_encode_string(text, out);
}

static void write_csv_text(struct buffer *out, struct text text)
{
    bool is_quoted = false;
    for (size_t i = 0; i < text.size; i++)
        is_quoted |= memchr(",\"\r\n", text.data[i], 4) != NULL;
    if (!is_quoted) {
        buffer_add_text(out, text);
        return;
    }
    buffer_add_byte(out, '"');
    for (size_t i = 0; i < text.size; i++) {
        buffer_add_string(out, text.data[i] == '"' ? "\"" : "");
        buffer_add_byte(out, text.data[i]);
    }
    buffer_add_byte(out, '"');
}

static void begin_field(struct buffer *out, bool is_json, int column)
{
    buffer_add_string(out, column ? "," : is_json ? "{" : "");
    if (is_json)
        buffer_add_format(out, "\"%s\":", figure_columns[column]);
}

void figure_list_add_row(const struct figure_row *row, bool is_json, struct buffer *out)
{
    const struct text texts[] = {row->gold, row->answer, row->group, row->label, row->figure};
    const double numbers[] = {row->interval.value, row->interval.low, row->interval.high};
    const int64_t counts[] = {row->n_rows, row->n_gold};
    void (*write_text)(struct buffer * out, struct text text) = is_json ? write_json_text : write_csv_text;
    for (int i = 0; i < 5; i++) {
        begin_field(out, is_json, i);
        write_text(out, texts[i]);
    }
    for (int i = 0; i < 3; i++) {
        begin_field(out, is_json, 5 + i);
        if (is_json || !isnan(numbers[i]))
            json_encode_number(numbers[i], out); // JSON: null
    }
    for (int i = 0; i < 2; i++) {
        begin_field(out, is_json, 8 + i);
        buffer_add_format(out, "%lld", (long long)counts[i]);
    }
    buffer_add_string(out, is_json ? ",\"method\":" : ",");
    write_text(out, text_from_string(interval_is_known(row->interval) ? row->method : NONE));
    buffer_add_string(out, is_json ? "}\n" : "\n");
}

static void add_figure(struct figure_writer *writer, const char *figure, struct interval interval,
                       const char *method)
{
    const struct comparison *comparison = writer->comparison;
    const struct figure_row row = {comparison->gold, comparison->answer,       writer->group,
                                   writer->label,    text_from_string(figure), interval,
                                   writer->n_rows,   writer->n_gold,           method};
    figure_list_add_row(&row, writer->is_json, writer->out);
}

static struct interval without_interval(double value)
{
    return (struct interval){value, NAN, NAN};
}

// ---- agreement ----

static void add_class(struct figure_writer *writer, struct text label, const struct evaluation_class *class)
{
    writer->label = label;
    add_figure(writer, "precision", class->precision, WILSON);
    add_figure(writer, "recall", class->recall, WILSON);
    add_figure(writer, "f1", class->f1, WILSON);
    writer->label = (struct text){0};
}

static void add_agreement(struct figure_writer *writer)
{
    const struct comparison *comparison = writer->comparison;
    writer->n_rows = writer->n_gold = comparison->n_gold;
    add_figure(writer, "accuracy", interval_of_hits((double)comparison->n_equal, (double)comparison->n_gold),
               WILSON);
    if (comparison->kind == COMPARED_LABELS) {
        add_figure(writer, "kappa", evaluation_kappa(&comparison->evaluation), DELTA);
        add_figure(writer, "macro_f1", evaluation_macro_f1(&comparison->evaluation), DELTA);
        for (size_t i = 0; i < comparison->evaluation.n_classes; i++) {
            struct evaluation_class class = evaluation_of_class(&comparison->evaluation, i);
            add_class(writer, evaluation_class_name(&comparison->evaluation, i), &class);
        }
    }
    if (comparison->kind == COMPARED_LISTS) {
        add_figure(writer, "overlap", comparison_overlap(comparison), WILSON);
        for (size_t i = 0; i < comparison->shares.n_labels; i++) {
            struct evaluation_class class = comparison_of_label(comparison, i);
            add_class(writer, comparison->shares.labels[i], &class);
        }
    }
    if (!comparison->has_numbers)
        return;
    struct number_agreement agreement = number_pairs_agree(&comparison->numbers);
    writer->n_rows = writer->n_gold = agreement.n;
    add_figure(writer, "mean_absolute_error", agreement.absolute_error, STUDENT);
    add_figure(writer, "mean_error", agreement.error, STUDENT);
    add_figure(writer, "correlation", agreement.correlation, FISHER);
}

// ---- estimates ----

// "A - B", in `name`.
static void name_difference(const struct share_table *shares, size_t group, size_t reference,
                            struct buffer *name)
{
    buffer_clear(name);
    buffer_add_text(name, share_group_name(shares, group));
    buffer_add_string(name, " - ");
    buffer_add_text(name, share_group_name(shares, reference));
}

static void add_shares(struct figure_writer *writer, size_t group, size_t reference, struct buffer *name)
{
    const struct share_table *shares = &writer->comparison->shares;
    writer->n_rows = shares->groups[group].n_rows;
    writer->n_gold = shares->groups[group].n_gold;
    for (size_t i = 0; i < shares->n_labels; i++) {
        struct interval share = share_of_rows(shares, group, i);
        writer->label = shares->labels[i];
        writer->group = share_group_name(shares, group);
        add_figure(writer, "share", share, SHARE);
        add_figure(writer, "share_of_answers", without_interval(share_of_answers(shares, group, i)), NONE);
        add_figure(writer, "share_of_gold", share_of_gold(shares, group, i), SAMPLE);
        if (group && group != reference) {
            name_difference(shares, group, reference, name);
            writer->group = (struct text){name->data, name->size};
            add_figure(writer, "difference", interval_difference(share, share_of_rows(shares, reference, i)),
                       SHARE);
        }
    }
    writer->label = (struct text){0};
}

static enum status add_means(struct figure_writer *writer, size_t group, size_t reference,
                             struct buffer *name, struct error *error)
{
    const struct comparison *comparison = writer->comparison;
    struct mean_estimate mean, other;
    enum status status = number_pairs_mean(&comparison->numbers, group, &mean, error);
    if (status == STATUS_OK)
        status = number_pairs_mean(&comparison->numbers, reference, &other, error);
    if (status != STATUS_OK)
        return status;
    writer->group = share_group_name(&comparison->shares, group);
    writer->n_rows = mean.n_rows;
    writer->n_gold = mean.n_gold;
    add_figure(writer, "mean", mean.mean, mean.is_of_gold ? MEAN_OF_GOLD : MEAN);
    add_figure(writer, "mean_of_answers", without_interval(mean.of_answers), NONE);
    add_figure(writer, "mean_of_gold", without_interval(mean.of_gold), NONE);
    if (group && group != reference) {
        name_difference(&comparison->shares, group, reference, name);
        writer->group = (struct text){name->data, name->size};
        add_figure(writer, "mean_difference", mean_difference(&mean, &other),
                   mean.is_of_gold ? WELCH_OF_GOLD : WELCH);
    }
    return STATUS_OK;
}

static enum status add_estimates(struct figure_writer *writer, struct error *error)
{
    const struct comparison *comparison = writer->comparison;
    size_t reference = comparison_reference(comparison);
    struct buffer name = {0};
    enum status status = STATUS_OK;
    for (size_t i = 0; i < comparison->shares.n_groups && status == STATUS_OK; i++) {
        if (comparison->kind != COMPARED_NUMBERS && !comparison->shares.is_dropped)
            add_shares(writer, i, reference, &name);
        if (comparison->has_numbers)
            status = add_means(writer, i, reference, &name, error);
    }
    buffer_finish(&name);
    return status;
}

enum status figure_list_add(const struct comparison *comparison, bool is_json, struct buffer *out,
                            struct error *error)
{
    struct figure_writer writer = {.comparison = comparison, .out = out, .is_json = is_json};
    enum status status = STATUS_OK;
    add_agreement(&writer);
    if (comparison_has_estimates(comparison))
        status = add_estimates(&writer, error);
    return status == STATUS_OK && out->failed ? error_memory(error, STATUS_REFUSE, "the statistics") : status;
}

void figure_list_begin(struct buffer *out)
{
    for (int i = 0; i < FIGURE_COLUMNS; i++)
        buffer_add_format(out, "%s,", figure_columns[i]);
    buffer_add_string(out, "method\n");
}
