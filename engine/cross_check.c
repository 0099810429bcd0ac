#include "engine/cross_check.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PAGES_AT_ONCE = 64 }; // pages read from the device in one call

struct checked_pages {
    int32_t n;          // number of pages of the checked backend
    int32_t *places;    // [n] page of the check for each page of the backend; -1: none
    int32_t *from, *to; // [limits.n_pages] pages of this step, in the backend and in the check
    int32_t *held;      // [limits.n_pages] 1: has earlier positions; later a list of these
    int32_t n_used;
};

struct cross_check {
    const struct model *model;
    struct backend *backend, *host;
    struct forward *forward; // a forward pass on the host
    struct forward_limits limits;
    struct checked_pages pages;
    struct step_sequence *sequences; // [n_sequences_max]
    int32_t *tables;                 // [n_tables] block tables of these sequences
    int64_t n_tables;
    float *keys, *values;          // [PAGES_AT_ONCE, page_positions, heads, dim]
    float *logits, *own;           // [n_outputs_max, n_vocab]
    struct sample_result *results; // [n_outputs_max]
};

static bool allocate_check(struct cross_check *check)
{
    const struct model_shape *shape = &check->model->shape;
    const struct forward_limits *limits = &check->limits;
    size_t n_logits = (size_t)limits->n_outputs_max * (size_t)shape->n_vocab;
    size_t n_rows =
        (size_t)PAGES_AT_ONCE * (size_t)limits->page_positions * (size_t)shape->attention.n_kv_heads;
    size_t n_places = (size_t)limits->n_pages;
    // All sequences may share the same pages, so the block tables together may have more entries than pages
    // exist.
    check->n_tables = (int64_t)limits->n_sequences_max *
                      ((shape->n_context + limits->page_positions - 1) / limits->page_positions);
    check->pages.places = malloc((size_t)check->pages.n * sizeof *check->pages.places);
    check->pages.from = malloc(n_places * sizeof *check->pages.from);
    check->pages.to = malloc(n_places * sizeof *check->pages.to);
    check->pages.held = malloc(n_places * sizeof *check->pages.held);
    check->sequences = calloc((size_t)limits->n_sequences_max, sizeof *check->sequences);
    check->tables = malloc((size_t)check->n_tables * sizeof *check->tables);
    check->keys = malloc(n_rows * (size_t)shape->attention.key_dim * sizeof *check->keys);
    check->values = malloc(n_rows * (size_t)shape->attention.value_dim * sizeof *check->values);
    check->logits = malloc(n_logits * sizeof *check->logits);
    check->own = malloc(n_logits * sizeof *check->own);
    check->results = calloc((size_t)limits->n_outputs_max, sizeof *check->results);
    return check->pages.places && check->pages.from && check->pages.to && check->pages.held &&
           check->sequences && check->tables && check->keys && check->values && check->logits && check->own &&
           check->results;
}

void cross_check_destroy(struct cross_check *check)
{
    if (!check)
        return;
    forward_destroy(check->forward);
    free(check->pages.places);
    free(check->pages.from);
    free(check->pages.to);
    free(check->pages.held);
    free(check->sequences);
    free(check->tables);
    free(check->keys);
    free(check->values);
    free(check->logits);
    free(check->own);
    free(check->results);
    free(check);
}

enum status cross_check_create(struct cross_check **out, const struct model *model, struct backend *backend,
                               int32_t n_pages, struct backend *host, const struct forward_limits *limits,
                               struct error *error)
{
    *out = NULL;
    if (!backend->device.kv_read || !host->device.kv_write)
        return error_set(error, STATUS_REFUSE, ERROR_DEVICE, "--check-cpu: the KV pages of %s can't be read",
                         backend->device.name);
    if (model->shape.recurrent.n_layers)
        return error_set(error, STATUS_REFUSE, ERROR_DEVICE,
                         "--check-cpu: family %s has recurrent states, which can't be read",
                         model_family_name(model));
    if (model->shape.index.n_selected)
        return error_set(error, STATUS_REFUSE, ERROR_DEVICE,
                         "--check-cpu: family %s has the keys of an indexer, which can't be read",
                         model_family_name(model));
    struct cross_check *check = calloc(1, sizeof *check);
    if (!check)
        return error_memory(error, STATUS_REFUSE, "checking steps");
    *check = (struct cross_check){
        .model = model, .backend = backend, .host = host, .limits = *limits, .pages.n = n_pages};
    enum status status = STATUS_OK;
    if (!allocate_check(check))
        status = error_memory(error, STATUS_REFUSE, "checking steps");
    if (status == STATUS_OK)
        status = forward_create(&check->forward, model, host, limits, NULL, NULL, error);
    if (status != STATUS_OK) {
        cross_check_destroy(check);
        return status;
    }
    for (int32_t i = 0; i < n_pages; i++)
        check->pages.places[i] = -1;
    *out = check;
    return STATUS_OK;
}

float *cross_check_logits(struct cross_check *check)
{
    return check->logits;
}

// ---- the step, mapped to the check's pages ----

// Returns false, and takes no page, if there are not enough pages.
static bool take_pages(struct cross_check *check, const struct step_sequence *sequence, int32_t *table)
{
    int32_t page_positions = check->limits.page_positions, n_used = check->pages.n_used;
    int32_t n = (sequence->position + sequence->n_tokens - 1) / page_positions + 1;
    int32_t n_held = (sequence->position + page_positions - 1) / page_positions;
    for (int32_t i = 0; i < n; i++) {
        int32_t page = sequence->pages[i];
        assert(page >= 0 && page < check->pages.n);
        if (check->pages.places[page] < 0 && check->pages.n_used == check->limits.n_pages) {
            while (check->pages.n_used > n_used)
                check->pages.places[check->pages.from[--check->pages.n_used]] = -1;
            return false;
        }
        if (check->pages.places[page] < 0) {
            check->pages.places[page] = check->pages.n_used;
            check->pages.from[check->pages.n_used] = page;
            check->pages.to[check->pages.n_used] = check->pages.n_used;
            check->pages.held[check->pages.n_used++] = 0;
        }
        table[i] = check->pages.places[page];
        check->pages.held[table[i]] |= i < n_held;
    }
    return true;
}

static void forget_pages(struct cross_check *check)
{
    while (check->pages.n_used > 0)
        check->pages.places[check->pages.from[--check->pages.n_used]] = -1;
}

// Maps the first sequences of the step to the check's pages, until no page is left.
static struct step own_step(struct cross_check *check, const struct step *step)
{
    struct step own = *step;
    int64_t n_tables = 0;
    own.sequences = check->sequences;
    own.n_copies = 0; // the pages are read after the device's step, which has made the copies
    own.n_sequences = own.n_tokens = own.n_outputs = 0;
    for (int32_t i = 0; i < step->n_sequences; i++) {
        const struct step_sequence *sequence = &step->sequences[i];
        int32_t n = (sequence->position + sequence->n_tokens - 1) / check->limits.page_positions + 1;
        if (n > check->n_tables - n_tables || !take_pages(check, sequence, check->tables + n_tables))
            break;
        check->sequences[i] = *sequence;
        check->sequences[i].pages = check->tables + n_tables;
        n_tables += n;
        own.n_sequences++;
        own.n_tokens += sequence->n_tokens;
    }
    while (own.n_outputs < step->n_outputs && step->output_rows[own.n_outputs] < own.n_tokens)
        own.n_outputs++;
    return own;
}

// Copies the pages that hold positions before the step.
static enum status copy_pages(struct cross_check *check, struct error *error)
{
    int32_t n_held = 0;
    for (int32_t i = 0; i < check->pages.n_used; i++)
        if (check->pages.held[i]) {
            check->pages.to[n_held] = i;
            check->pages.held[n_held++] = check->pages.from[i]; // converts it to a list of pages
        }
    for (int32_t layer = 0; layer < check->model->shape.attention.n_layers; layer++)
        for (int32_t first = 0; first < n_held; first += PAGES_AT_ONCE) {
            int32_t n = n_held - first < PAGES_AT_ONCE ? n_held - first : PAGES_AT_ONCE;
            enum status status =
                check->backend->device.kv_read(check->backend, layer, check->pages.held + first, n,
                                               check->keys, check->values, error);
            if (status != STATUS_OK)
                return status;
            check->host->device.kv_write(check->host, layer, check->pages.to + first, n, check->keys,
                                         check->values);
        }
    return STATUS_OK;
}

// ---- comparison ----

static void compare_outputs(const struct cross_check *check, const struct step *own,
                            const struct sample_result *results, struct cross_check_result *result)
{
    size_t n = (size_t)own->n_outputs * (size_t)check->model->shape.n_vocab;
    double apart = 0.0, all = 0.0;
    for (size_t i = 0; i < n; i++) {
        double theirs = (double)check->logits[i], ours = (double)check->own[i];
        bool same = theirs == ours || (isnan(theirs) && isnan(ours));
        double difference = same                           ? 0.0
                            : isnan(theirs) || isnan(ours) ? (double)INFINITY
                                                           : fabs(theirs - ours);
        apart += difference * difference;
        all += isnan(ours) ? 0.0 : ours * ours;
        if (difference <= result->difference)
            continue;
        result->difference = difference;
        result->magnitude = fabs(ours);
    }
    result->squared_error = apart > 0.0 ? apart / all : apart;
    for (int32_t i = 0; own->samples && results && i < own->n_outputs; i++) {
        result->n_draws++;
        result->n_draws_apart += results[i].token != check->results[i].token;
    }
}

enum status cross_check_step(struct cross_check *check, const struct step *step,
                             const struct sample_result *results, struct cross_check_result *result,
                             struct error *error)
{
    assert(step->n_outputs > 0);
    *result = (struct cross_check_result){0};
    struct step own = own_step(check, step);
    enum status status = STATUS_OK;
    if (own.n_outputs > 0) {
        status = copy_pages(check, error);
        if (status == STATUS_OK)
            status = forward_step(check->forward, &own, check->results, check->own, error);
        if (status == STATUS_OK) {
            result->n_sequences = own.n_sequences;
            result->n_outputs = own.n_outputs;
            compare_outputs(check, &own, results, result);
        }
    }
    forget_pages(check);
    return status;
}
