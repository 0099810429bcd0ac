// The report of a cascade: rows by model, threshold, guarantee.
#include "consumer/cascade/cascade.h"

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

static void add_threshold(const struct cascade *cascade, struct buffer *out)
{
    if (cascade->n_kept)
        buffer_add_format(out, "threshold: %s's labels of a probability of at least %.4g\n",
                          cascade->small_name,
                          (double)cascade->rows[cascade->ranking.rows[cascade->n_kept - 1]].score);
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

static void add_estimate(const struct cascade *cascade, const struct cascade_counts *counts,
                         struct buffer *out)
{
    if (cascade->gold.is_found) {
        buffer_add_format(out, "estimate: accuracy %.4g, %lld of %lld gold labels differ\n",
                          cascade->gold.n_gold
                              ? 1 - (double)cascade->gold.n_wrong / (double)cascade->gold.n_gold
                              : 1.0,
                          (long long)cascade->gold.n_wrong, (long long)cascade->gold.n_gold);
        return;
    }
    int32_t n_drawn, n_wrong;
    threshold_search_count(&cascade->search, cascade->n_kept, &n_drawn, &n_wrong);
    if (!counts->n_small || !n_drawn)
        return;
    double n_different = (double)n_wrong / n_drawn * (double)counts->n_small;
    buffer_add_format(out, "estimate: accuracy %.4g, %d of %d drawn rows above the threshold differ\n",
                      1 - n_different / cascade->n_rows, n_wrong, n_drawn);
}

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
