// The figures of a comparison as text.
#include "consumer/evaluate/comparison.h"

#include <math.h>
#include <stdio.h>

enum { LABELS_SHOWN_MAX = 40, GROUPS_SHOWN_MAX = 20 };

// ---- agreement ----

static void write_line(struct buffer *out, const char *name, struct interval figure)
{
    buffer_add_format(out, "%s: ", name);
    evaluation_add_interval(out, figure);
    buffer_add_byte(out, '\n');
}

static void write_numbers(const struct comparison *comparison, struct buffer *out)
{
    struct number_agreement agreement = number_pairs_agree(&comparison->numbers);
    if (!agreement.n)
        return;
    write_line(out, "mean absolute error", agreement.absolute_error);
    write_line(out, "mean error (answer - gold)", agreement.error);
    write_line(out, "correlation (Pearson)", agreement.correlation);
}

static void write_list_labels(const struct comparison *comparison, struct buffer *out)
{
    size_t n = comparison->shares.n_labels;
    buffer_add_format(out, "\n%-*s %10s %10s %10s %10s %10s\n", EVALUATION_NAME_WIDTH, "label", "precision",
                      "recall", "F1", "gold", "answers");
    for (size_t i = 0; i < n && i < LABELS_SHOWN_MAX; i++) {
        struct evaluation_class figures = comparison_of_label(comparison, i);
        evaluation_add_name(out, comparison->shares.labels[i], EVALUATION_NAME_WIDTH);
        const double values[] = {figures.precision.value, figures.recall.value, figures.f1.value};
        for (int j = 0; j < 3; j++)
            buffer_add_format(out, " %10.4f", isnan(values[j]) ? 0 : values[j]);
        buffer_add_format(out, " %10lld %10lld\n", (long long)figures.n_gold, (long long)figures.n_answers);
    }
    buffer_add_format(out, "\n%-*s %15s %15s %15s\n", EVALUATION_NAME_WIDTH, "95 % intervals", "precision",
                      "recall", "F1");
    for (size_t i = 0; i < n && i < LABELS_SHOWN_MAX; i++) {
        struct evaluation_class figures = comparison_of_label(comparison, i);
        evaluation_add_name(out, comparison->shares.labels[i], EVALUATION_NAME_WIDTH);
        evaluation_add_range(out, figures.precision);
        evaluation_add_range(out, figures.recall);
        evaluation_add_range(out, figures.f1);
        buffer_add_byte(out, '\n');
    }
}

static void write_agreement(const struct comparison *comparison, struct buffer *out)
{
    if (comparison->kind == COMPARED_LABELS) {
        evaluation_write(&comparison->evaluation, out);
        if (comparison->has_numbers && comparison->n_gold)
            buffer_add_byte(out, '\n');
    } else {
        buffer_add_format(out, "rows with a gold label: %lld\n", (long long)comparison->n_gold);
        write_line(out, "accuracy",
                   interval_of_hits((double)comparison->n_equal, (double)comparison->n_gold));
    }
    if (comparison->kind == COMPARED_LISTS && comparison->n_gold) {
        write_line(out, "overlap (mean Jaccard index)", comparison_overlap(comparison));
        if (!comparison->shares.is_dropped)
            write_list_labels(comparison, out);
    }
    if (comparison->has_numbers)
        write_numbers(comparison, out);
}

// ---- estimates ----

enum { SHARE_DECIMALS = 4, DECIMALS_MAX = 9, DIGITS_MAX = 9, NUMBER_BYTES = 64 };

// Decimals for four digits of the largest number, and more if the interval is narrower: of 2019.53, from 2019.1 to 2019.9, two.
static int decimals_of(struct interval interval)
{
    double size = fabs(interval.value), width = interval.high - interval.low;
    if (interval_is_known(interval))
        size = fmax(size, fmax(fabs(interval.low), fabs(interval.high)));
    if (width > 0)
        size = fmin(size, 100 * width);
    return size > 0 ? (int)fmin(fmax(3 - floor(log10(size)), 0), DECIMALS_MAX) : 1;
}

static const char *format_number(double number, int decimals, char text[NUMBER_BYTES])
{
    bool is_short = fabs(number) < pow(10, DIGITS_MAX);
    snprintf(text, NUMBER_BYTES, is_short ? "%.*f" : "%.*g", is_short ? decimals : DIGITS_MAX,
             number + 0); // -0 becomes 0
    return isnan(number) ? "-" : text;
}

static void write_value(struct buffer *out, double value, int decimals)
{
    char text[NUMBER_BYTES];
    buffer_add_format(out, " %10s", format_number(value, decimals, text));
}

static void write_interval(struct buffer *out, struct interval interval, int decimals)
{
    char low[NUMBER_BYTES], high[NUMBER_BYTES], text[2 * NUMBER_BYTES + 8] = "-";
    write_value(out, interval.value, decimals);
    if (interval_is_known(interval))
        snprintf(text, sizeof text, "%s to %s", format_number(interval.low, decimals, low),
                 format_number(interval.high, decimals, high));
    buffer_add_format(out, "  %-18s", text);
}

static void end_line(struct buffer *out)
{
    while (out->size && out->data[out->size - 1] == ' ')
        out->size--;
    buffer_add_byte(out, '\n');
}

static void write_heading(const struct comparison *comparison, const char *what, struct buffer *out)
{
    long long n_rows = (long long)comparison->sample.n_rows, n = (long long)comparison->sample.n;
    if (n == n_rows)
        buffer_add_format(out, "\n%s of all %lld rows, which all have gold labels\n", what, n_rows);
    else
        buffer_add_format(
            out,
            "\n%s of all %lld rows, from their answers and %lld gold rows, with 95 %% intervals\n"
            "(assumed: the gold rows are a simple random sample of these rows)\n",
            what, n_rows, n);
}

static void write_shares(const struct comparison *comparison, struct buffer *out)
{
    const struct share_table *shares = &comparison->shares;
    write_heading(comparison, "shares", out);
    buffer_add_format(out, "%-*s %10s %10s %10s  %s\n", EVALUATION_NAME_WIDTH, "label", "answers",
                      "gold rows", "estimate", "95 % interval");
    for (size_t i = 0; i < shares->n_labels && i < LABELS_SHOWN_MAX; i++) {
        evaluation_add_name(out, shares->labels[i], EVALUATION_NAME_WIDTH);
        write_value(out, share_of_answers(shares, 0, i), SHARE_DECIMALS);
        write_value(out, share_of_gold(shares, 0, i).value, SHARE_DECIMALS);
        write_interval(out, share_of_rows(shares, 0, i), SHARE_DECIMALS);
        end_line(out);
    }
    if (shares->n_labels > LABELS_SHOWN_MAX)
        buffer_add_format(out, "and %zu other labels (--statistics FILE has all)\n",
                          shares->n_labels - LABELS_SHOWN_MAX);
}

static void begin_groups(const struct comparison *comparison, size_t reference, bool has_labels,
                         struct buffer *out)
{
    buffer_add_string(out, "\nby \"");
    buffer_add_printable(out, comparison->group, 0);
    buffer_add_string(out, "\"; differences are from \"");
    buffer_add_printable(out, share_group_name(&comparison->shares, reference), 0);
    buffer_add_format(out, "\"\n%-*s %s%8s %8s %10s  %-18s %10s  %s\n", EVALUATION_NAME_WIDTH, "group",
                      has_labels ? "label            " : "", "rows", "gold", "estimate", "95 % interval",
                      "difference", "95 % interval");
}

static void begin_group(const struct comparison *comparison, size_t group, int64_t n_rows, int64_t n_gold,
                        const struct text *label, struct buffer *out)
{
    evaluation_add_name(out, share_group_name(&comparison->shares, group), EVALUATION_NAME_WIDTH);
    if (label) {
        buffer_add_byte(out, ' ');
        evaluation_add_name(out, *label, EVALUATION_NAME_WIDTH);
    }
    buffer_add_format(out, " %8lld %8lld", (long long)n_rows, (long long)n_gold);
}

static void write_group_shares(const struct comparison *comparison, struct buffer *out)
{
    const struct share_table *shares = &comparison->shares;
    size_t reference = comparison_reference(comparison);
    begin_groups(comparison, reference, true, out);
    for (size_t label = 0; label < shares->n_labels && label < LABELS_SHOWN_MAX; label++)
        for (size_t i = 1; i < shares->n_groups && i <= GROUPS_SHOWN_MAX; i++) {
            struct interval share = share_of_rows(shares, i, label);
            begin_group(comparison, i, shares->groups[i].n_rows, shares->groups[i].n_gold,
                        &shares->labels[label], out);
            write_interval(out, share, SHARE_DECIMALS);
            if (i != reference)
                write_interval(out, interval_difference(share, share_of_rows(shares, reference, label)),
                               SHARE_DECIMALS);
            end_line(out);
        }
}

static enum status write_group_means(const struct comparison *comparison, struct buffer *out,
                                     struct error *error)
{
    size_t reference = comparison_reference(comparison);
    struct mean_estimate of_reference, mean;
    enum status status = number_pairs_mean(&comparison->numbers, reference, &of_reference, error);
    begin_groups(comparison, reference, false, out);
    for (size_t i = 1; status == STATUS_OK && i < comparison->shares.n_groups && i <= GROUPS_SHOWN_MAX; i++) {
        status = number_pairs_mean(&comparison->numbers, i, &mean, error);
        if (status != STATUS_OK)
            return status;
        begin_group(comparison, i, mean.n_rows, mean.n_gold, NULL, out);
        write_interval(out, mean.mean, decimals_of(mean.mean));
        struct interval difference = mean_difference(&mean, &of_reference);
        if (i != reference)
            write_interval(out, difference, decimals_of(difference));
        end_line(out);
    }
    return status;
}

static enum status write_means(const struct comparison *comparison, struct buffer *out, struct error *error)
{
    struct mean_estimate mean;
    enum status status = number_pairs_mean(&comparison->numbers, 0, &mean, error);
    if (status != STATUS_OK)
        return status;
    if (mean.is_of_gold)
        buffer_add_format(
            out,
            "\nmean of the rows whose gold label is a number, from %lld gold rows alone, with 95 %% "
            "intervals\n(assumed: the gold rows are a simple random sample of all rows)\n",
            (long long)mean.n_gold);
    else
        write_heading(comparison, "mean", out);
    buffer_add_format(out, "%-*s %10s %10s %10s  %s\n", EVALUATION_NAME_WIDTH, "", "answers", "gold rows",
                      "estimate", "95 % interval");
    evaluation_add_name(out, TEXT("mean"), EVALUATION_NAME_WIDTH);
    int decimals = decimals_of(mean.mean);
    write_value(out, mean.of_answers, decimals);
    write_value(out, mean.of_gold, decimals);
    write_interval(out, mean.mean, decimals);
    end_line(out);
    return comparison->shares.n_groups > 1 ? write_group_means(comparison, out, error) : STATUS_OK;
}

static enum status write_estimates(const struct comparison *comparison, struct buffer *out,
                                   struct error *error)
{
    bool has_shares = comparison->kind != COMPARED_NUMBERS && !comparison->shares.is_dropped;
    enum status status = STATUS_OK;
    if (comparison->kind != COMPARED_NUMBERS && comparison->shares.is_dropped)
        buffer_add_format(out, "\nno shares: the answers have more than %d different labels\n",
                          SHARE_LABELS_MAX);
    if (has_shares)
        write_shares(comparison, out);
    if (has_shares && comparison->shares.n_groups > 1)
        write_group_shares(comparison, out);
    if (comparison->has_numbers)
        status = write_means(comparison, out, error);
    if (comparison->shares.n_groups > GROUPS_SHOWN_MAX + 1)
        buffer_add_format(out, "and %zu other groups (--statistics FILE has all)\n",
                          comparison->shares.n_groups - GROUPS_SHOWN_MAX - 1);
    return status;
}

enum status comparison_write(const struct comparison *comparison, struct buffer *out, struct error *error)
{
    write_agreement(comparison, out);
    return comparison_has_estimates(comparison) ? write_estimates(comparison, out, error) : STATUS_OK;
}
