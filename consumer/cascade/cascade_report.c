// The report of a cascade: rows by model, threshold, guarantee; as text, and as rows of the file of --statistics.
#include "consumer/cascade/cascade.h"
#include "consumer/evaluate/figure_list.h"

#include <math.h>

struct cascade_counts {
    int64_t n_small, n_large, n_open;
};

static struct cascade_counts count_rows(const struct cascade *cascade)
{
    struct cascade_counts counts = {0};
    for (int32_t i = 0; i < cascade->n; i++) {
        const struct cascade_row *row = &cascade->rows[i];
        counts.n_small += row->small && row->large == 0;
        counts.n_large += row->large > 0;
        counts.n_open += row->large == CASCADE_OPEN;
    }
    return counts;
}

static void add_counts(const struct cascade *cascade, const struct cascade_counts *counts, struct buffer *out)
{
    buffer_add_format(out, "cascade: %d rows, %lld labelled by %s", cascade->n_rows,
                      (long long)counts->n_small, cascade->small_name);
    if (cascade->large_name)
        buffer_add_format(out, ", %lld by %s", (long long)counts->n_large, cascade->large_name);
    else
        buffer_add_format(out, ", %lld open", (long long)counts->n_open);
    if (cascade->search.ranking)
        buffer_add_format(out, ", %d of these drawn at random", cascade->search.n_drawn);
    buffer_add_byte(out, '\n');
}

// The least probability of a label that is kept; NAN: none is.
static double threshold_of(const struct cascade *cascade)
{
    return cascade->n_kept ? (double)cascade->rows[cascade->ranking.rows[cascade->n_kept - 1]].score : NAN;
}

static void add_threshold(const struct cascade *cascade, struct buffer *out)
{
    if (cascade->n_kept)
        buffer_add_format(out, "threshold: %s's labels of a probability of at least %.4g\n",
                          cascade->small_name, threshold_of(cascade));
    else
        buffer_add_format(out, "threshold: none of %s's labels are kept\n", cascade->small_name);
}

static void add_guarantee(const struct cascade *cascade, struct buffer *out)
{
    const char *sample = "of the rows that were drawn";
    if (cascade->gold.is_found)
        sample = "of the rows with a gold label, if these are a random sample of the table";
    buffer_add_format(out, "guarantee: with probability %g over the choice %s, at least %g %% of the ",
                      cascade->confidence, sample, 100 * cascade->target);
    if (!cascade->gold.is_found)
        buffer_add_format(out, "table's labels equal those of %s, whose own count as equal\n",
                          cascade->large_name);
    else
        buffer_add_format(out, "%s equal the gold labels\n",
                          cascade->large_name ? "table's labels" : "labels given");
}

struct cascade_estimate {
    double accuracy;    // NAN: nothing was compared
    int64_t n, n_wrong; // compared labels
};

static struct cascade_estimate estimate(const struct cascade *cascade, const struct cascade_counts *counts)
{
    const struct gold_threshold *gold = &cascade->gold;
    if (gold->is_found)
        return (struct cascade_estimate){gold->n_gold ? 1 - (double)gold->n_wrong / (double)gold->n_gold
                                                      : 1.0,
                                         gold->n_gold, gold->n_wrong};
    int32_t n_drawn, n_wrong;
    threshold_search_count(&cascade->search, cascade->n_kept, &n_drawn, &n_wrong);
    if (!counts->n_small || !n_drawn)
        return (struct cascade_estimate){NAN, n_drawn, n_wrong};
    double n_different = (double)n_wrong / n_drawn * (double)counts->n_small;
    return (struct cascade_estimate){1 - n_different / cascade->n_rows, n_drawn, n_wrong};
}

static void add_estimate(const struct cascade *cascade, const struct cascade_counts *counts,
                         struct buffer *out)
{
    struct cascade_estimate found = estimate(cascade, counts);
    if (!isnan(found.accuracy))
        buffer_add_format(out, "estimate: accuracy %.4g, %lld of %lld %s differ\n", found.accuracy,
                          (long long)found.n_wrong, (long long)found.n,
                          cascade->gold.is_found ? "gold labels" : "drawn rows above the threshold");
}

// ---- the file of --statistics ----

static void add_figure(const struct cascade *cascade, const char *figure, const char *label, double value,
                       int64_t n_compared, struct buffer *out)
{
    const char *path = cascade->annotate->settings->annotate.evaluation.statistics;
    const struct figure_row row = {.gold = text_from_string(cascade->gold_name ? cascade->gold_name
                                                                               : cascade->large_name),
                                   .answer = TEXT("label"),
                                   .label = text_from_string(label),
                                   .figure = text_from_string(figure),
                                   .interval = {value, NAN, NAN},
                                   .n_rows = cascade->n_rows,
                                   .n_gold = n_compared};
    figure_list_add_row(&row, table_format_of(path) == TABLE_JSONL, out);
}

enum status cascade_add_figures(struct cascade *cascade, struct error *error)
{
    struct buffer *out = &cascade->figures;
    const struct cascade_counts counts = count_rows(cascade);
    struct cascade_estimate found = estimate(cascade, &counts);
    double n = cascade->n_rows ? cascade->n_rows : NAN;
    buffer_clear(out);
    if (!cascade->annotate->settings->annotate.evaluation.statistics)
        return STATUS_OK;
    add_figure(cascade, "cascade_share", cascade->small_name, (double)counts.n_small / n, 0, out);
    if (cascade->large_name)
        add_figure(cascade, "cascade_share", cascade->large_name, (double)counts.n_large / n, 0, out);
    else
        add_figure(cascade, "cascade_share_open", NULL, (double)counts.n_open / n, 0, out);
    add_figure(cascade, "cascade_threshold", cascade->small_name, threshold_of(cascade), 0, out);
    add_figure(cascade, "cascade_guarantee", NULL, cascade->target, 0, out);
    add_figure(cascade, "cascade_confidence", NULL, cascade->confidence, 0, out);
    add_figure(cascade, "cascade_accuracy", NULL, found.accuracy, found.n, out);
    if (out->failed)
        return error_memory(error, STATUS_RETRY, "--statistics");
    cascade->annotate->evaluation.more_figures = (struct text){out->data, out->size};
    return STATUS_OK;
}

// ---- the report ----

enum status cascade_report(const struct cascade *cascade, struct error *error)
{
    struct buffer out = {0};
    const struct cascade_counts counts = count_rows(cascade);
    add_counts(cascade, &counts, &out);
    add_threshold(cascade, &out);
    add_guarantee(cascade, &out);
    add_estimate(cascade, &counts, &out);
    enum status status = out.failed ? error_memory(error, STATUS_RETRY, "--cascade")
                                    : annotate_print(cascade->annotate, &out, error);
    buffer_finish(&out);
    return status;
}
