#include "consumer/cascade/cascade.h"

#include "consumer/observe/log.h"

#include <math.h>
#include <stdlib.h>

static bool has_gold(const struct cascade *cascade)
{
    return cascade->gold_name != NULL;
}

static enum status rank_rows(struct cascade *cascade, struct error *error)
{
    float *scores = malloc((cascade->n ? (size_t)cascade->n : 1) * sizeof *scores);
    for (int32_t i = 0; scores && i < cascade->n; i++)
        scores[i] = cascade->rows[i].score;
    bool is_ranked = scores && score_ranking_open(&cascade->ranking, scores, cascade->n, cascade->n_rows);
    free(scores);
    const struct threshold_options options = {cascade->target, cascade->confidence,
                                              (uint64_t)cascade->annotate->settings->annotate.estimate.seed};
    if (is_ranked && !has_gold(cascade))
        is_ranked = threshold_search_open(&cascade->search, &cascade->ranking, &options);
    return is_ranked ? STATUS_OK : error_memory(error, STATUS_REFUSE, "--cascade");
}

// ---- gold labels ----

static enum status refuse_gold(const struct cascade *cascade, struct error *error)
{
    const struct gold_threshold *gold = &cascade->gold;
    int64_t n_least = gold_threshold_least(cascade->target, cascade->confidence);
    if (cascade->n_gold < n_least)
        return error_set(
            error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
            "--cascade: an accuracy of %g at a confidence of %g can't be shown with %d gold labels:"
            " at least %lld are needed",
            cascade->target, cascade->confidence, cascade->n_gold, (long long)n_least);
    if (gold->has_large)
        return error_set(
            error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
            "--cascade: an accuracy of %g at a confidence of %g is not shown even if %s labels all"
            " rows: %lld of %lld gold labels differ from its own. Give a lower --guarantee, more gold"
            " labels or a better model",
            cascade->target, cascade->confidence, cascade->large_name, (long long)gold->n_wrong,
            (long long)gold->n_gold);
    return error_set(
        error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
        "--cascade: an accuracy of %g at a confidence of %g is not shown for any labels of %s: of its"
        " most probable ones %lld of %lld differ from gold. Give a lower --guarantee, more gold labels"
        " or a better model",
        cascade->target, cascade->confidence, cascade->small_name, (long long)gold->n_wrong,
        (long long)gold->n_gold);
}

// The rank of each row; n_ranked: it has none. NULL: out of memory.
static int32_t *rank_of_rows(const struct cascade *cascade)
{
    int32_t *ranks = malloc((cascade->n ? (size_t)cascade->n : 1) * sizeof *ranks);
    for (int32_t i = 0; ranks && i < cascade->n; i++)
        ranks[i] = cascade->ranking.n_ranked;
    for (int32_t rank = 0; ranks && rank < cascade->ranking.n_ranked; rank++)
        ranks[cascade->ranking.rows[rank]] = rank;
    return ranks;
}

static enum status read_gold(struct cascade *cascade, const int32_t *ranks, struct gold_label *labels,
                             struct error *error)
{
    enum status status = STATUS_OK;
    for (int32_t i = 0, n = 0; status == STATUS_OK && i < cascade->n; i++) {
        const struct cascade_row *row = &cascade->rows[i];
        int16_t large = LABEL_NONE;
        if (row->gold == LABEL_NONE)
            continue;
        if (row->large)
            status = cascade_large_label(cascade, i, &large, error);
        labels[n++] = (struct gold_label){ranks[i], row->label == row->gold, large == row->gold};
    }
    return status;
}

static enum status choose_by_gold(struct cascade *cascade, struct error *error)
{
    int32_t *ranks = rank_of_rows(cascade);
    struct gold_label *labels = malloc((cascade->n_gold ? (size_t)cascade->n_gold : 1) * sizeof *labels);
    enum status status =
        ranks && labels ? STATUS_OK : error_memory(error, STATUS_RETRY, "--cascade: gold labels");
    if (status == STATUS_OK)
        status = read_gold(cascade, ranks, labels, error);
    if (status == STATUS_OK) {
        cascade->gold = (struct gold_threshold){.target = cascade->target,
                                                .confidence = cascade->confidence,
                                                .has_large = cascade->large_name != NULL};
        gold_threshold_find(&cascade->gold, &cascade->ranking, labels, cascade->n_gold);
        cascade->n_kept = cascade->gold.n_kept;
        if (!cascade->gold.is_found)
            status = refuse_gold(cascade, error);
    }
    free(ranks);
    free(labels);
    return status;
}

static enum status ask_gold(struct cascade *cascade, struct error *error)
{
    int32_t n = 0, *rows = malloc((cascade->n_gold ? (size_t)cascade->n_gold : 1) * sizeof *rows);
    if (!rows)
        return error_memory(error, STATUS_RETRY, "--cascade: gold labels");
    for (int32_t i = 0; i < cascade->n; i++)
        if (cascade->rows[i].gold != LABEL_NONE)
            rows[n++] = i;
    enum status status = cascade_ask(cascade, rows, n, error);
    free(rows);
    return status;
}

// ---- drawn rows ----

static enum status answer_drawn(struct cascade *cascade, struct error *error)
{
    enum status status = store_answers_begin(cascade->annotate->store, error);
    for (int32_t i = 0; status == STATUS_OK && i < cascade->n_drawn; i++) {
        int32_t row = cascade->ranking.rows[cascade->drawn[i]];
        int16_t label;
        status = cascade_large_label(cascade, row, &label, error);
        if (status == STATUS_OK)
            threshold_search_answer(&cascade->search, label != cascade->rows[row].label);
    }
    cascade->n_drawn = 0;
    return store_answers_end(cascade->annotate->store, status, error);
}

static enum status ask_drawn(struct cascade *cascade, struct error *error)
{
    size_t n = (size_t)cascade->n_drawn;
    int32_t *rows = malloc((n ? n : 1) * sizeof *rows);
    if (!rows)
        return error_memory(error, STATUS_RETRY, "--cascade");
    for (size_t i = 0; i < n; i++)
        rows[i] = cascade->ranking.rows[cascade->drawn[i]];
    enum status status = cascade_ask(cascade, rows, cascade->n_drawn, error);
    free(rows);
    return status;
}

// ---- the other rows ----

// Rows below the threshold or without a label of the small model.
static enum status ask_rest(struct cascade *cascade, struct error *error)
{
    size_t n = (size_t)cascade->n;
    int32_t n_rest = 0, *rest = malloc((n ? n : 1) * sizeof *rest);
    bool *is_kept = calloc(n ? n : 1, sizeof *is_kept);
    enum status status = rest && is_kept ? STATUS_OK : error_memory(error, STATUS_RETRY, "--cascade");
    for (int32_t rank = 0; status == STATUS_OK && rank < cascade->n_kept; rank++)
        is_kept[cascade->ranking.rows[rank]] = true;
    for (int32_t i = 0; status == STATUS_OK && i < cascade->n; i++) {
        struct cascade_row *row = &cascade->rows[i];
        if (!is_kept[i] && row->small)
            rest[n_rest++] = i;
        if (is_kept[i] && has_gold(cascade))
            row->large = 0; // asked for the comparison with gold alone
        if (!is_kept[i] && row->small && !cascade->large_name)
            row->large = CASCADE_OPEN;
    }
    if (status == STATUS_OK && cascade->large_name)
        status = cascade_ask(cascade, rest, n_rest, error);
    free(rest);
    free(is_kept);
    return status;
}

// ---- the steps ----

static enum status begin(struct cascade *cascade, struct error *error)
{
    if (has_gold(cascade))
        return cascade->large_name ? ask_gold(cascade, error) : STATUS_OK;
    cascade->drawn = threshold_search_next(&cascade->search, &cascade->n_drawn);
    return ask_drawn(cascade, error);
}

// All rows that were asked for are answered: asks for the next ones.
static enum status advance(struct cascade *cascade, struct error *error)
{
    enum status status = STATUS_OK;
    if (cascade->phase == CASCADE_REST) {
        cascade->phase = CASCADE_DONE;
        return STATUS_OK;
    }
    if (has_gold(cascade)) {
        status = choose_by_gold(cascade, error);
    } else {
        status = answer_drawn(cascade, error);
        if (status == STATUS_OK)
            cascade->drawn = threshold_search_next(&cascade->search, &cascade->n_drawn);
        if (status == STATUS_OK && cascade->n_drawn)
            return ask_drawn(cascade, error);
        cascade->n_kept = cascade->search.n_kept;
    }
    cascade->phase = CASCADE_REST;
    return status == STATUS_OK ? ask_rest(cascade, error) : status;
}

// Advances until something is to be computed, or nothing is left. *is_waiting: the first.
static enum status advance_to_work(struct cascade *cascade, bool *is_waiting, struct error *error)
{
    enum status status = STATUS_OK;
    for (*is_waiting = false; status == STATUS_OK && !*is_waiting && cascade->phase != CASCADE_DONE;) {
        int64_t n_finished;
        status = advance(cascade, error);
        if (status == STATUS_OK)
            status = store_count_rows(cascade->annotate->store, text_from_string(cascade->large_dataset),
                                      &cascade->large_jobs, &n_finished, error);
        *is_waiting = status == STATUS_OK && n_finished < cascade->large_jobs.n;
    }
    return status;
}

static bool refill(void *context)
{
    struct cascade *cascade = context;
    bool is_waiting;
    return cascade->fault.status == STATUS_OK &&
           advance_to_work(cascade, &is_waiting, &cascade->fault) == STATUS_OK && is_waiting;
}

// The model is loaded once, and also if all rows are answered: then its start checks that it is the model that answered.
static enum status run_large(struct cascade *cascade, struct error *error)
{
    const struct settings *settings = cascade->annotate->settings;
    enum status status = begin(cascade, error);
    int64_t n_finished = 0;
    bool is_waiting = false, may_change = settings->worker.retry_failed || settings->worker.force_new;
    if (status == STATUS_OK)
        status = store_count_rows(cascade->annotate->store, text_from_string(cascade->large_dataset),
                                  &cascade->large_jobs, &n_finished, error);
    if (status == STATUS_OK && n_finished == cascade->large_jobs.n && !may_change)
        status = advance_to_work(cascade, &is_waiting, error);
    if (status == STATUS_OK)
        status = cascade_work(cascade, refill, error);
    if (status == STATUS_OK && cascade->fault.status != STATUS_OK) {
        *error = cascade->fault;
        return error->status;
    }
    if (status == STATUS_OK)
        n_finished = cascade->large_jobs.n;
    is_waiting = false;
    if (status == STATUS_OK) // no worker ran because there is no job, or it was stopped between two rounds
        status = advance_to_work(cascade, &is_waiting, error);
    if (status == STATUS_OK && is_waiting)
        return error_set(
            error, STATUS_RETRY, ERROR_STORE,
            "stopped: %lld requests of %s are answered and kept in %s; the same command continues from"
            " here",
            (long long)n_finished, cascade->large_name, cascade->annotate->store_path);
    return status;
}

enum status cascade_run(struct cascade *cascade, struct error *error)
{
    enum status status = cascade_read_rows(cascade, error);
    if (status == STATUS_OK)
        status = rank_rows(cascade, error);
    if (status == STATUS_OK && !cascade->large_name) {
        status = choose_by_gold(cascade, error);
        if (status == STATUS_OK)
            status = ask_rest(cascade, error);
    } else if (status == STATUS_OK) {
        status = run_large(cascade, error);
    }
    if (status == STATUS_OK)
        status = cascade_map_rows(cascade, error);
    return status == STATUS_OK ? cascade_add_figures(cascade, error) : status;
}
