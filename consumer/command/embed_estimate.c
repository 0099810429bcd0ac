#include "consumer/command/embed_estimate.h"

#include "consumer/annotate/sample_rows.h"
#include "consumer/command/files/output_file.h"
#include "schemas/base/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_BYTES = 60 };

struct embed_counts {
    int64_t n_rows, n_without, n_different; // n_without: rows without a text
    int64_t n_refused, n_cut;               // different texts that are too long
    int64_t n_tokens, n_longest;            // of different texts
};

struct sampled_row {
    int64_t number; // from 1
    struct text shown;
    size_t n_tokens;
    struct error error;
};

struct embed_sample {
    struct embed_group *group;
    struct sampled_row *rows; // [n]
    float *vectors;           // [n, n_dimensions]; NaN: none
    int64_t n, n_taken, n_done;
    struct arena arena;
    double seconds;
};

// ---- counting ----

static enum status count_text(const struct embed_group *group, struct text text, struct token_array *ids,
                              struct embed_counts *counts, struct error *error)
{
    const struct embedding_rules *rules = &group->embedding.rules;
    size_t n_cut;
    ids->n_ids = 0;
    counts->n_different++;
    enum status status = embedding_input_encode(rules, rules->prompt, text, &group->cut, ids, &n_cut, error);
    if (status == STATUS_REJECT) {
        counts->n_refused++;
        return STATUS_OK;
    }
    int64_t n = (int64_t)ids->n_ids;
    counts->n_cut += n_cut > 0;
    counts->n_tokens += n;
    counts->n_longest = n > counts->n_longest ? n : counts->n_longest;
    return status;
}

static enum status count_row(struct embed_source *source, const struct embed_group *group,
                             const struct table_row *row, struct text_rows *texts, struct token_array *ids,
                             struct embed_counts *counts, struct error *error)
{
    int64_t first;
    struct text text;
    enum status status = embed_source_text(source, row, &text, error);
    counts->n_rows++;
    if (status == STATUS_REJECT) {
        counts->n_without++;
        return STATUS_OK;
    }
    if (status == STATUS_OK && !text_rows_add(texts, text, counts->n_rows, &first))
        return error_memory(error, STATUS_REFUSE, "texts of the table");
    return status == STATUS_OK && first < 0 ? count_text(group, text, ids, counts, error) : status;
}

static enum status count_rows(struct embed_source *source, const struct embed_group *group,
                              struct embed_counts *counts, struct error *error)
{
    struct text_rows texts = {0};
    struct token_array ids = {0};
    struct table_row row;
    enum status status;
    while ((status = embed_source_next(source, &row, error)) == STATUS_OK && row.fields) {
        status = count_row(source, group, &row, &texts, &ids, counts, error);
        if (status != STATUS_OK)
            break;
    }
    text_rows_finish(&texts);
    token_array_finish(&ids);
    return status;
}

static void add_count(struct buffer *out, const char *what, int64_t n)
{
    buffer_add_format(out, "%-16s %14lld\n", what, (long long)n);
}

static void add_counts(struct buffer *out, const struct embed_counts *counts, const char *price)
{
    add_count(out, "rows", counts->n_rows);
    add_count(out, "different texts", counts->n_different);
    add_count(out, "tokens of these", counts->n_tokens);
    add_count(out, "longest", counts->n_longest);
    if (counts->n_without)
        add_count(out, "without a text", counts->n_without);
    if (counts->n_refused)
        add_count(out, "refused texts", counts->n_refused);
    if (counts->n_cut)
        add_count(out, "cut texts", counts->n_cut);
    if (price)
        buffer_add_format(out, "%-16s %14.6f\n", "price",
                          strtod(price, NULL) / 1e6 * (double)counts->n_tokens);
}

// ---- the sample ----

static enum status complete_group(struct embed_sample *sample, struct error *error)
{
    struct embed_group *group = sample->group;
    size_t n = (size_t)group->embedding.n_dimensions;
    double start_s = clock_s();
    enum status status = embed_group_compute(group, error);
    sample->seconds += clock_s() - start_s;
    for (int32_t i = 0; i < group->n && status == STATUS_OK; i++, sample->n_done++) {
        const float *vector = embed_group_vector(group, i);
        struct sampled_row *row = &sample->rows[sample->n_done];
        row->n_tokens = group->items[i].n_ids;
        row->error = group->items[i].error;
        for (size_t j = 0; j < n; j++)
            sample->vectors[(size_t)sample->n_done * n + j] = vector ? vector[j] : NAN;
    }
    embed_group_clear(group);
    return status;
}

static enum status add_row(struct embed_sample *sample, struct embed_source *source,
                           const struct table_row *row, struct error *error)
{
    struct sampled_row *taken = &sample->rows[sample->n_taken++];
    struct text text;
    struct error fault;
    enum status status = embed_source_text(source, row, &text, &fault);
    if (status == STATUS_REJECT) {
        embed_group_add_fault(sample->group, &fault);
    } else if (status == STATUS_OK) {
        size_t size = utf8_complete_prefix(text.data, text.size < SHOWN_BYTES ? text.size : SHOWN_BYTES);
        taken->shown = (struct text){arena_copy(&sample->arena, text.data, size), size};
        status = taken->shown.data ? embed_group_add(sample->group, text, &fault)
                                   : error_memory(&fault, STATUS_REFUSE, "the sample");
    }
    if (status != STATUS_OK && status != STATUS_REJECT) {
        *error = fault;
        return status;
    }
    return embed_group_is_full(sample->group) ? complete_group(sample, error) : STATUS_OK;
}

static enum status compute_sample(struct embed_sample *sample, struct embed_source *source,
                                  struct error *error)
{
    struct table_row row;
    enum status status = table_reader_rewind(source->reader, error);
    for (int64_t number = 1; status == STATUS_OK && sample->n_taken < sample->n; number++) {
        status = embed_source_next(source, &row, error);
        if (status == STATUS_OK && !row.fields)
            break;
        if (status == STATUS_OK && number == sample->rows[sample->n_taken].number)
            status = add_row(sample, source, &row, error);
    }
    return status == STATUS_OK && sample->group->n ? complete_group(sample, error) : status;
}

static double cosine(const float *left, const float *right, size_t n)
{
    double product = 0, lefts = 0, rights = 0;
    for (size_t i = 0; i < n; i++) {
        product += (double)left[i] * right[i];
        lefts += (double)left[i] * left[i];
        rights += (double)right[i] * right[i];
    }
    return product / sqrt(lefts * rights);
}

static void add_nearest(const struct embed_sample *sample, int64_t i, struct buffer *out)
{
    size_t n = (size_t)sample->group->embedding.n_dimensions;
    int64_t nearest = -1;
    double most = -INFINITY;
    for (int64_t j = 0; j < sample->n_done; j++) {
        double near =
            j == i ? NAN : cosine(sample->vectors + (size_t)i * n, sample->vectors + (size_t)j * n, n);
        if (near > most) {
            most = near;
            nearest = j;
        }
    }
    if (nearest >= 0)
        buffer_add_format(out, ", cosine %.4f to row %lld", most, (long long)sample->rows[nearest].number);
}

static void add_sample(const struct embed_sample *sample, const struct embed_counts *counts,
                       struct buffer *out)
{
    int64_t n_tokens = 0;
    for (int64_t i = 0; i < sample->n_done; i++) {
        const struct sampled_row *row = &sample->rows[i];
        buffer_add_format(out, "row %lld: ", (long long)row->number);
        buffer_add_printable(out, row->shown, 0);
        buffer_add_string(out, "\n    -> ");
        if (row->error.status != STATUS_OK) {
            buffer_add_format(out, "no vector: %s\n", row->error.text);
            continue;
        }
        buffer_add_format(out, "%zu tokens", row->n_tokens);
        add_nearest(sample, i, out);
        buffer_add_byte(out, '\n');
        n_tokens += (int64_t)row->n_tokens;
    }
    if (n_tokens == 0 || sample->seconds <= 0)
        return;
    double tokens_per_s = (double)n_tokens / sample->seconds;
    buffer_add_format(out, "\n%-16s %14.1f\n", "tokens/s", tokens_per_s);
    buffer_add_format(out, "%-16s %14.1f\n\n", "seconds for all", (double)counts->n_tokens / tokens_per_s);
}

static enum status take_sample(struct embed_source *source, struct embed_group *group,
                               const struct embed_counts *counts, const struct settings *settings,
                               struct buffer *out, struct error *error)
{
    int64_t n = settings->annotate.estimate.n_rows;
    struct embed_sample sample = {.group = group, .n = n < counts->n_rows ? n : counts->n_rows};
    size_t n_rows = (size_t)sample.n + 1;
    enum status status = embed_group_open(group, error);
    sample.rows = calloc(n_rows, sizeof *sample.rows);
    sample.vectors = calloc(n_rows * (size_t)group->embedding.n_dimensions, sizeof *sample.vectors);
    if (status == STATUS_OK && (!sample.rows || !sample.vectors))
        status = error_memory(error, STATUS_REFUSE, "the sample");
    for (int64_t i = 0; status == STATUS_OK && i < sample.n; i++)
        sample.rows[i].number = sample_row(i, sample.n, counts->n_rows, settings->annotate.estimate.seed);
    if (status == STATUS_OK)
        status = compute_sample(&sample, source, error);
    if (status == STATUS_OK)
        add_sample(&sample, counts, out);
    arena_finish(&sample.arena);
    free(sample.rows);
    free(sample.vectors);
    return status;
}

// ---- the report ----

static enum status check_price(const char *price, struct error *error)
{
    char *end = NULL;
    double value = price ? strtod(price, &end) : 0;
    if (!price || (end > price && !*end && isfinite(value) && value >= 0))
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                     "sheaf embed: --price-in: expected a number, not below 0, got \"%s\"", price);
}

enum status embed_estimate(struct embed_source *source, struct runtime *runtime,
                           const struct settings *settings, struct error *error)
{
    struct embed_group group = {0};
    struct embed_counts counts = {0};
    struct buffer out = {0};
    const char *price = settings->annotate.estimate.price_in;
    int64_t n_sampled = settings->annotate.estimate.n_rows;
    enum status status = check_price(price, error);
    if (status == STATUS_OK && n_sampled > EMBED_SAMPLE_ROWS_MAX)
        status = error_set(error, STATUS_REFUSE, ERROR_USAGE,
                           "sheaf embed: --sample: expected at most %d rows, got %lld", EMBED_SAMPLE_ROWS_MAX,
                           (long long)n_sampled);
    if (status == STATUS_OK)
        status = embed_group_plan(&group, runtime, settings, error);
    if (status == STATUS_OK)
        status = count_rows(source, &group, &counts, error);
    if (status == STATUS_OK && n_sampled)
        status = take_sample(source, &group, &counts, settings, &out, error);
    add_counts(&out, &counts, price);
    if (status == STATUS_OK && out.failed)
        status = error_memory(error, STATUS_REFUSE, "the estimate");
    if (status == STATUS_OK)
        status = output_file_print(out.data, out.size, error);
    buffer_finish(&out);
    embed_group_close(&group);
    return status;
}
