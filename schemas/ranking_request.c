// The fields of jobs for a classification head:
//
//   query, documents     /v1/rerank (Jina, Cohere): each document is a string or {"text": string}
//   top_n                the most relevant documents of the result
//   return_documents     the texts of the documents are in the result
//   text_1, text_2       /v1/score (vLLM): two strings; a string and a list; two lists of one length
//   task                 "classify": `input`, or text_1 and text_2 as pairs, are for /v1/classify
//
// and input, truncate_prompt_tokens, truncation_side and partial (embedding_request.c).
#include "schemas/request.h"
#include "schemas/task.h"

#include <stdio.h>

static enum status refuse_number(struct decoding *decoding, const char *name, const char *what, size_t n)
{
    return error_set(decoding->error, STATUS_REJECT, n ? ERROR_LIMIT_EXCEEDED : ERROR_MISSING_FIELD,
                     "%s: expected 1 to %d %s, got %zu", name, JOB_INPUTS_MAX, what, n);
}

// The text of a document. False: it has none.
static bool read_document(const struct value *value, bool allows_object, struct text *text)
{
    const struct value *string =
        allows_object && value->kind == VALUE_OBJECT ? value_get(value, "text") : value;
    if (!string || string->kind != VALUE_STRING)
        return false;
    *text = (struct text){string->text.data ? string->text.data : "", string->text.size};
    return true;
}

enum status ranking_decode_task(struct decoding *decoding, struct value *value)
{
    (void)decoding, (void)value; // request.c has read it before the other fields
    return STATUS_OK;
}

enum status ranking_decode_query(struct decoding *decoding, struct value *value)
{
    struct request_ranking *ranking = &decoding->job->request.ranking;
    struct text text;
    if (!read_document(value, false, &text))
        return decoding_expected(decoding, "query", "a string", value);
    ranking->queries = arena_allocate_array(&decoding->job->arena, 1, sizeof *ranking->queries);
    if (!ranking->queries)
        return decoding_out_of_memory(decoding);
    ranking->queries[0] = text;
    ranking->n_queries = 1;
    return STATUS_OK;
}

static enum status decode_documents(struct decoding *decoding, const char *name, bool allows_object,
                                    const struct value *items, size_t n)
{
    struct request_embedding *embedding = &decoding->job->request.embedding;
    if (n == 0 || n > JOB_INPUTS_MAX)
        return refuse_number(decoding, name, allows_object ? "documents" : "texts", n);
    embedding->inputs = arena_allocate_array(&decoding->job->arena, n, sizeof *embedding->inputs);
    if (!embedding->inputs)
        return decoding_out_of_memory(decoding);
    embedding->n_inputs = (int32_t)n;
    for (size_t i = 0; i < n; i++) {
        char path[48];
        snprintf(path, sizeof path, embedding->is_list ? "%s[%zu]" : "%s", name, i);
        if (!read_document(&items[i], allows_object, &embedding->inputs[i].text))
            return decoding_expected(decoding, path,
                                     allows_object ? "a string or an object with a string \"text\""
                                                   : "a string",
                                     &items[i]);
    }
    return STATUS_OK;
}

enum status ranking_decode_documents(struct decoding *decoding, struct value *value)
{
    if (decoding->job->request.task != TASK_RERANK)
        return prompt_decode_documents(decoding, value);
    if (value->kind != VALUE_ARRAY)
        return decoding_expected(decoding, "documents", "a list of strings or of objects with \"text\"",
                                 value);
    decoding->job->request.embedding.is_list = true;
    return decode_documents(decoding, "documents", true, value->array.items, value->array.n_items);
}

enum status ranking_decode_text_1(struct decoding *decoding, struct value *value)
{
    struct request_ranking *ranking = &decoding->job->request.ranking;
    ranking->queries_are_list = value->kind == VALUE_ARRAY;
    size_t n = ranking->queries_are_list ? value->array.n_items : 1;
    const struct value *items = ranking->queries_are_list ? value->array.items : value;
    if (n == 0 || n > JOB_INPUTS_MAX)
        return refuse_number(decoding, "text_1", "texts", n);
    ranking->queries = arena_allocate_array(&decoding->job->arena, n, sizeof *ranking->queries);
    if (!ranking->queries)
        return decoding_out_of_memory(decoding);
    ranking->n_queries = (int32_t)n;
    for (size_t i = 0; i < n; i++) {
        char path[32] = "text_1";
        if (ranking->queries_are_list)
            snprintf(path, sizeof path, "text_1[%zu]", i);
        if (!read_document(&items[i], false, &ranking->queries[i]))
            return decoding_expected(decoding, path,
                                     ranking->queries_are_list ? "a string" : "a string or a list of strings",
                                     &items[i]);
    }
    return STATUS_OK;
}

enum status ranking_decode_text_2(struct decoding *decoding, struct value *value)
{
    struct request_embedding *embedding = &decoding->job->request.embedding;
    embedding->is_list = value->kind == VALUE_ARRAY;
    if (!embedding->is_list && value->kind != VALUE_STRING)
        return decoding_expected(decoding, "text_2", "a string or a list of strings", value);
    return embedding->is_list
               ? decode_documents(decoding, "text_2", false, value->array.items, value->array.n_items)
               : decode_documents(decoding, "text_2", false, value, 1);
}

static enum status refuse_missing(struct decoding *decoding, const char *name, const char *beside)
{
    return error_set(decoding->error, STATUS_REJECT, ERROR_MISSING_FIELD, "%s: missing; %s needs it", name,
                     beside);
}

enum status ranking_finish(struct decoding *decoding)
{
    struct request_ranking *ranking = &decoding->job->request.ranking;
    int32_t n_inputs = decoding->job->request.embedding.n_inputs;
    bool has_query = decoding_given(decoding, "query") != NULL, has_input = decoding_given(decoding, "input");
    bool has_pairs = decoding_given(decoding, "text_1") || decoding_given(decoding, "text_2");
    if (has_input && has_pairs)
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "input: given beside text_1 and text_2; a classification is of texts or of pairs");
    if (has_input)
        return STATUS_OK;
    ranking->scores = !has_query;
    const char *const alone[] = {has_query ? "text_1" : "top_n", has_query ? "text_2" : "return_documents",
                                 has_query ? NULL : "documents"};
    for (size_t i = 0; i < 3 && alone[i]; i++)
        if (decoding_given(decoding, alone[i]))
            return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                             "%s: given beside %s, which is for %s", alone[i],
                             has_query                            ? "query"
                             : decoding_given(decoding, "text_1") ? "text_1"
                                                                  : "text_2",
                             has_query ? "/v1/rerank" : "/v1/score");
    if (has_query && !n_inputs)
        return refuse_missing(decoding, "documents", "query");
    if (!has_query && !ranking->n_queries)
        return refuse_missing(decoding, "text_1", "text_2");
    if (!has_query && !n_inputs)
        return refuse_missing(decoding, "text_2", "text_1");
    if (ranking->n_queries != 1 && ranking->n_queries != n_inputs)
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "text_2: expected %d texts, as text_1 has, got %d", ranking->n_queries, n_inputs);
    return STATUS_OK;
}

// ---- encode ----

static bool encode_list(const struct text *texts, size_t n, struct arena *arena, struct value *value)
{
    if (!value_array_create(arena, n, value))
        return false;
    for (size_t i = 0; i < n; i++)
        value->array.items[i] = value_string(texts[i]);
    return true;
}

bool ranking_encode_task(const struct job *job, struct arena *arena, struct value *value)
{
    (void)arena;
    if (job->request.task == TASK_CLASSIFY) // the other fields name the other tasks
        *value = value_string(text_from_string(task_traits(TASK_CLASSIFY)->name));
    return true;
}

bool ranking_encode_input(const struct job *job, struct arena *arena, struct value *value)
{
    return job->request.ranking.scores || embedding_encode_input(job, arena, value);
}

bool ranking_encode_query(const struct job *job, struct arena *arena, struct value *value)
{
    (void)arena;
    if (!job->request.ranking.scores && job->request.ranking.n_queries)
        *value = value_string(job->request.ranking.queries[0]);
    return true;
}

bool ranking_encode_documents(const struct job *job, struct arena *arena, struct value *value)
{
    if (job->request.task != TASK_RERANK)
        return prompt_encode_documents(job, arena, value);
    return job->request.ranking.scores || embedding_encode_input(job, arena, value);
}

bool ranking_encode_text_1(const struct job *job, struct arena *arena, struct value *value)
{
    const struct request_ranking *ranking = &job->request.ranking;
    if (!ranking->scores)
        return true;
    if (ranking->queries_are_list)
        return encode_list(ranking->queries, (size_t)ranking->n_queries, arena, value);
    *value = value_string(ranking->queries[0]);
    return true;
}

bool ranking_encode_text_2(const struct job *job, struct arena *arena, struct value *value)
{
    return !job->request.ranking.scores || embedding_encode_input(job, arena, value);
}
