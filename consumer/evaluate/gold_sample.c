#include "consumer/evaluate/gold_sample.h"

#include <math.h>
#include <stdlib.h>

// Exceeded by one random sample of 1,000.
static const double DISTANCE_MAX = 1.95, DEVIATIONS_MAX = 3.29;

void gold_sample_close(struct gold_sample *sample)
{
    free(sample->places);
    *sample = (struct gold_sample){0};
}

enum status gold_sample_add(struct gold_sample *sample, bool is_gold, struct error *error)
{
    sample->n_rows++;
    if (!is_gold)
        return STATUS_OK;
    if (sample->n == sample->capacity) {
        size_t capacity = sample->capacity ? 2 * sample->capacity : 256;
        int64_t *grown = realloc(sample->places, capacity * sizeof *grown);
        if (!grown)
            return error_memory(error, STATUS_REFUSE, "the places of gold rows");
        sample->places = grown;
        sample->capacity = capacity;
    }
    sample->places[sample->n++] = sample->n_rows;
    return STATUS_OK;
}

double gold_sample_distance(const struct gold_sample *sample)
{
    double n = (double)sample->n, n_rows = (double)sample->n_rows, largest = 0;
    if (sample->n == 0 || n >= n_rows)
        return 0;
    for (size_t i = 0; i < sample->n; i++) {
        double place = (double)sample->places[i];
        largest = fmax(largest, (double)(i + 1) / n - place / n_rows);
        largest = fmax(largest, (place - 1) / n_rows - (double)i / n);
    }
    return largest * sqrt(n / (1 - n / n_rows));
}

// Standard errors between the share of a label in the answers of gold rows and in all answers.
static double label_deviation(const struct share_group *rows, size_t label)
{
    double all = (double)rows->cells[label].n_answers / (double)rows->n_rows, n = (double)rows->n_gold;
    double gold = (double)rows->cells[label].n_gold_answers / n;
    double free = 1 - n / (double)rows->n_rows;
    // a label of few rows: at least 1/n, a half of which corrects for steps
    double error = sqrt(fmax(all * (1 - all), 1 / n) / n * free);
    return error > 0 ? fmax(fabs(gold - all) - 0.5 / n, 0) / error : 0;
}

static void judge_labels(const struct share_table *shares, struct buffer *out)
{
    const struct share_group *rows = &shares->groups[0];
    size_t worst = 0;
    double deviation = 0;
    for (size_t i = 0; i < shares->n_labels && rows->n_gold; i++)
        if (label_deviation(rows, i) > deviation) {
            deviation = label_deviation(rows, i);
            worst = i;
        }
    // by the number of labels, any of which may deviate by chance
    double limit = DEVIATIONS_MAX + log((double)(shares->n_labels ? shares->n_labels : 1)) / DEVIATIONS_MAX;
    if (shares->is_dropped || deviation <= limit)
        return;
    buffer_add_string(out, "the gold rows were not drawn at random: their answer is \"");
    buffer_add_printable(out, shares->labels[worst], 0);
    buffer_add_format(out, "\" in %.1f %% of them, and in %.1f %% of all rows\n",
                      100 * (double)rows->cells[worst].n_gold_answers / (double)rows->n_gold,
                      100 * (double)rows->cells[worst].n_answers / (double)rows->n_rows);
}

static void judge_numbers(const struct number_pairs *numbers, struct buffer *out)
{
    const struct number_sums *all = &numbers->groups[0];
    double n = 0, sum = 0, squares = 0;
    for (size_t i = 0; i < numbers->n; i++) {
        double answer = numbers->pairs[i].answer;
        n += !isnan(answer);
        sum += isnan(answer) ? 0 : answer;
        squares += isnan(answer) ? 0 : answer * answer;
    }
    // gold labels that are no numbers: the other ones are no random sample
    if (n < GOLD_SAMPLE_TESTED || n >= (double)all->n_answers || all->n_other)
        return;
    double mean = sum / n, of_all = all->answers / (double)all->n_answers;
    double variance = fmax(squares - n * mean * mean, 0) / (n - 1);
    double error = sqrt(variance * (1 / n - 1 / (double)all->n_answers));
    if (fabs(mean - of_all) > DEVIATIONS_MAX * error && error > 0)
        buffer_add_format(
            out,
            "the gold rows were not drawn at random: the mean of their answers is %.4g, and of all "
            "answers %.4g\n",
            mean, of_all);
}

void gold_sample_judge(const struct gold_sample *sample, const struct share_table *shares,
                       const struct number_pairs *numbers, struct buffer *out)
{
    if (!sample->n || (int64_t)sample->n == sample->n_rows)
        return;
    if (sample->n < GOLD_SAMPLE_FEW)
        buffer_add_format(
            out, "there %s only %zu gold row%s: intervals are wide, and of means and kappa approximate\n",
            sample->n == 1 ? "is" : "are", sample->n, sample->n == 1 ? "" : "s");
    if (sample->n < GOLD_SAMPLE_TESTED)
        return;
    if (sample->places[sample->n - 1] == (int64_t)sample->n)
        buffer_add_format(out, "the gold rows are the first %zu rows, not a random sample of all\n",
                          sample->n);
    else if (gold_sample_distance(sample) > DISTANCE_MAX)
        buffer_add_format(
            out,
            "the gold rows are not spread over the table as a random sample is (half of them are in "
            "the first %lld of %lld rows)\n",
            (long long)sample->places[(sample->n - 1) / 2], (long long)sample->n_rows);
    if (shares)
        judge_labels(shares, out);
    if (numbers)
        judge_numbers(numbers, out);
}
