#include "schemas/ranking_result.h"

#include <stdlib.h>

// ---- from scores to items ----

// {"index", "error": {"code", "message"}}
static bool build_error(struct arena *arena, int32_t index, const struct embedding *row, struct value *item)
{
    struct value error;
    if (!value_object_create(arena, 2, item) || !value_object_create(arena, 2, &error))
        return false;
    value_put(&error, "code", value_string(text_from_string(error_code_name(row->code))));
    value_put(&error, "message", value_string(row->message));
    value_put(item, "index", value_integer(index));
    value_put(item, "error", error);
    return true;
}

static bool build_class(struct arena *arena, int32_t index, const struct embedding *row,
                        const struct ranking_labels *labels, struct value *item)
{
    struct value scores;
    int32_t best = 0;
    if (!value_object_create(arena, 4, item) || !value_array_create(arena, (size_t)labels->n_labels, &scores))
        return false;
    for (int32_t i = 0; i < labels->n_labels; i++) {
        scores.array.items[i] = value_single(row->items[i]);
        best = row->items[i] > row->items[best] ? i : best;
    }
    value_put(item, "index", value_integer(index));
    value_put(item, "label", value_string(labels->names[best]));
    value_put(item, labels->is_raw ? "logits" : "probs", scores);
    value_put(item, "num_classes", value_integer(labels->n_labels));
    return true;
}

static bool build_score(struct arena *arena, int32_t index, float score, struct value *item)
{
    if (!value_object_create(arena, 3, item))
        return false;
    value_put(item, "index", value_integer(index));
    value_put(item, "object", value_string(TEXT("score")));
    value_put(item, "score", value_single(score));
    return true;
}

static bool build_data(struct job *job, const struct embedding *rows, const struct ranking_labels *labels)
{
    int32_t n = job->request.embedding.n_inputs;
    struct value *data = &job->result.rankings.items;
    bool is_built = value_array_create(&job->arena, (size_t)n, data);
    for (int32_t i = 0; i < n && is_built; i++) {
        struct value *item = &data->array.items[i];
        if (!rows[i].items)
            is_built = build_error(&job->arena, i, &rows[i], item);
        else if (job->request.task == TASK_CLASSIFY)
            is_built = build_class(&job->arena, i, &rows[i], labels, item);
        else
            is_built = build_score(&job->arena, i, rows[i].items[labels->relevant], item);
    }
    return is_built;
}

struct ranked_document {
    int32_t index;
    float score;
};

static int compare_documents(const void *a, const void *b)
{
    const struct ranked_document *left = a, *right = b;
    if (left->score != right->score)
        return left->score < right->score ? 1 : -1;
    return left->index < right->index ? -1 : 1;
}

static bool build_document(struct job *job, const struct ranked_document *ranked, struct value *item)
{
    const struct request_input *input = &job->request.embedding.inputs[ranked->index];
    struct value document;
    if (!value_object_create(&job->arena, 3, item))
        return false;
    value_put(item, "index", value_integer(ranked->index));
    value_put(item, "relevance_score", value_single(ranked->score));
    if (!job->request.ranking.returns_documents)
        return true;
    if (!value_object_create(&job->arena, 1, &document))
        return false;
    value_put(&document, "text", value_string(input->text));
    value_put(item, "document", document);
    return true;
}

static bool build_errors(struct job *job, const struct embedding *rows, int32_t n_errors)
{
    struct value *errors = &job->result.rankings.errors;
    if (n_errors == 0)
        return true;
    bool is_built = value_array_create(&job->arena, (size_t)n_errors, errors);
    for (int32_t i = 0, n = 0; is_built && n < n_errors; i++)
        if (!rows[i].items)
            is_built = build_error(&job->arena, i, &rows[i], &errors->array.items[n++]);
    return is_built;
}

static bool build_ranking(struct job *job, const struct embedding *rows, int32_t relevant)
{
    int32_t n_inputs = job->request.embedding.n_inputs, n = 0, top_n = job->request.ranking.top_n;
    struct ranked_document *ranked = arena_allocate_array(&job->arena, (size_t)n_inputs, sizeof *ranked);
    if (!ranked)
        return false;
    for (int32_t i = 0; i < n_inputs; i++)
        if (rows[i].items)
            ranked[n++] = (struct ranked_document){i, rows[i].items[relevant]};
    qsort(ranked, (size_t)n, sizeof *ranked, compare_documents);
    int32_t n_results = top_n && top_n < n ? top_n : n;
    struct value *results = &job->result.rankings.items;
    bool is_built = value_array_create(&job->arena, (size_t)n_results, results);
    for (int32_t i = 0; i < n_results && is_built; i++)
        is_built = build_document(job, &ranked[i], &results->array.items[i]);
    return is_built && build_errors(job, rows, n_inputs - n);
}

bool rankings_fill(struct job *job, const struct embedding *rows, const struct ranking_labels *labels)
{
    job->result.rankings = (struct rankings){0};
    return job->request.task == TASK_RERANK && !job->request.ranking.scores
               ? build_ranking(job, rows, labels->relevant)
               : build_data(job, rows, labels);
}

// ---- the result map ----

static void measure(const struct value *value, size_t *n_values, uint64_t *n_bytes)
{
    ++*n_values;
    *n_bytes +=
        value->kind == VALUE_STRING ? value->text.size + 8 : 24; // a number's digits, a brace, a comma
    for (size_t i = 0; value->kind == VALUE_ARRAY && i < value->array.n_items; i++)
        measure(&value->array.items[i], n_values, n_bytes);
    for (size_t i = 0; value->kind == VALUE_OBJECT && i < value->object.n_members; i++) {
        ++*n_values;
        *n_bytes += value->object.members[i].key.size + 8;
        measure(&value->object.members[i].value, n_values, n_bytes);
    }
}

void rankings_measure(const struct result *result, size_t *n_values, uint64_t *n_bytes)
{
    measure(&result->rankings.items, n_values, n_bytes);
    measure(&result->rankings.errors, n_values, n_bytes);
}

static bool is_ranking(const struct job *job)
{
    return job->request.task == TASK_RERANK && !job->request.ranking.scores;
}

void rankings_build(const struct job *job, struct value *object)
{
    const struct rankings *rankings = &job->result.rankings;
    value_put(object, is_ranking(job) ? "results" : "data", rankings->items);
    if (rankings->errors.kind == VALUE_ARRAY)
        value_put(object, "errors", rankings->errors);
}

static bool is_list(const struct value *list)
{
    if (list->kind != VALUE_ARRAY || list->array.n_items > JOB_INPUTS_MAX || value_has_bytes(list))
        return false;
    for (size_t i = 0; i < list->array.n_items; i++) {
        const struct value *index = value_get(&list->array.items[i], "index");
        if (!index || index->kind != VALUE_INTEGER)
            return false;
    }
    return true;
}

enum status rankings_read(struct job *job, const struct value *root, struct error *error)
{
    const char *name = is_ranking(job) ? "results" : "data";
    const struct value *items = value_get(root, name), *errors = value_get(root, "errors");
    if (!items || !is_list(items) || (errors && !is_list(errors)))
        return error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "result: %s: expected a list of objects with an index",
                         items && is_list(items) ? "errors" : name);
    job->result.rankings.items = *items;
    if (errors)
        job->result.rankings.errors = *errors;
    return STATUS_OK;
}

// ---- the bodies ----

static void add_member(struct buffer *out, const char *name, const struct value *value)
{
    buffer_add_format(out, ",\"%s\":", name);
    json_encode(value, out);
}

void rankings_encode_openai(const struct job *job, struct buffer *out)
{
    const struct rankings *rankings = &job->result.rankings;
    struct text model = job->result.model.size ? job->result.model : job->request.model;
    const struct value name = value_string(model);
    if (!is_ranking(job))
        buffer_add_format(out, ",\"object\":\"list\",\"created\":%lld", (long long)job_submitted_s(job));
    add_member(out, "model", &name);
    add_member(out, is_ranking(job) ? "results" : "data", &rankings->items);
    if (rankings->errors.kind == VALUE_ARRAY)
        add_member(out, "errors", &rankings->errors);
}
