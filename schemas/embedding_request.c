// The fields of an embedding job (OpenAI's POST /v1/embeddings, with vLLM's and Cohere's additions):
//
//   input                    string, [token id], [string], [[token id]]
//   dimensions               the first items of each vector
//   encoding_format          "float", "base64": little-endian float32
//   input_type               "query", "document": the model's prompt before each text
//   prompt_name              the same by the prompt's name
//   truncate_prompt_tokens   a longer text is cut to so many tokens; -1: to the model's limit
//   truncation_side          "right", "left": the end that is cut
//   partial                  a bad input has its own error
#include "schemas/request.h"

#include <stdio.h>

enum { PATH_BYTES = 32 };

// "input[3]", or "input" of a single one.
static const char *input_path(char path[PATH_BYTES], bool is_list, size_t index)
{
    if (!is_list)
        return "input";
    snprintf(path, PATH_BYTES, "input[%zu]", index);
    return path;
}

static enum status decode_ids(struct decoding *decoding, const char *path, const struct value *value,
                              struct request_input *input)
{
    size_t n = value->array.n_items;
    if (n == 0)
        return error_set(decoding->error, STATUS_REJECT, ERROR_EMPTY_PROMPT,
                         "%s: expected at least one token id, got an empty list", path);
    if (n > JOB_TOKENS_MAX)
        return error_set(decoding->error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                         "%s: expected at most %d token ids, got %zu", path, JOB_TOKENS_MAX, n);
    int32_t *ids = arena_allocate_array(&decoding->job->arena, n, sizeof *ids);
    if (!ids)
        return decoding_out_of_memory(decoding);
    for (size_t i = 0; i < n; i++) {
        char item[PATH_BYTES + 32];
        int64_t id = 0;
        snprintf(item, sizeof item, "%s[%zu]", path, i);
        enum status status =
            decoding_integer(decoding, item, &value->array.items[i], 0, INT32_MAX, false, &id);
        if (status != STATUS_OK)
            return status;
        ids[i] = (int32_t)id;
    }
    *input = (struct request_input){.tokens = ids, .n_tokens = (int32_t)n};
    return STATUS_OK;
}

// `first`: kind of the list's first item, which the others must have.
static enum status decode_one(struct decoding *decoding, const char *path, const struct value *value,
                              enum value_kind first, struct request_input *input)
{
    bool is_ids = first == VALUE_ARRAY;
    if (value->kind != first)
        return decoding_expected(decoding, path, is_ids ? "a list of token ids" : "a string", value);
    if (is_ids)
        return decode_ids(decoding, path, value, input);
    *input = (struct request_input){.text = value->text};
    if (!input->text.data)
        input->text.data = "";
    return STATUS_OK;
}

enum status embedding_decode_input(struct decoding *decoding, struct value *value)
{
    struct request_embedding *embedding = &decoding->job->request.embedding;
    const struct value *first =
        value->kind == VALUE_ARRAY && value->array.n_items ? value->array.items : NULL;
    // [1, 2] is one input, given as token ids
    bool is_list = first && (first->kind == VALUE_STRING || first->kind == VALUE_ARRAY);
    bool is_ids = first && (first->kind == VALUE_INTEGER || first->kind == VALUE_FLOAT);
    if (value->kind != VALUE_STRING && !is_list && !is_ids)
        return decoding_expected(decoding, "input",
                                 "a string, token ids, or a list of strings or of token ids", value);
    size_t n = is_list ? value->array.n_items : 1;
    if (n > JOB_INPUTS_MAX)
        return error_set(decoding->error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                         "input: expected at most %d texts, got %zu", JOB_INPUTS_MAX, n);
    embedding->inputs = arena_allocate_array(&decoding->job->arena, n, sizeof *embedding->inputs);
    if (!embedding->inputs)
        return decoding_out_of_memory(decoding);
    embedding->n_inputs = (int32_t)n;
    embedding->is_list = is_list;
    enum value_kind kind = is_list ? first->kind : value->kind;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        char path[PATH_BYTES];
        status = decode_one(decoding, input_path(path, is_list, i), is_list ? &value->array.items[i] : value,
                            kind, &embedding->inputs[i]);
    }
    return status;
}

// *found: whether the value is the first of two texts, false for the second.
static enum status decode_either(struct decoding *decoding, const char *name, const char *expected,
                                 const struct value *value, const char *first, const char *second,
                                 bool *is_first)
{
    *is_first = value->kind == VALUE_STRING && text_equals_string(value->text, first);
    if (*is_first || (value->kind == VALUE_STRING && text_equals_string(value->text, second)))
        return STATUS_OK;
    return decoding_expected(decoding, name, expected, value);
}

enum status embedding_decode_encoding_format(struct decoding *decoding, struct value *value)
{
    return decode_either(decoding, "encoding_format", "\"float\" or \"base64\"", value, "base64", "float",
                         &decoding->job->request.embedding.is_base64);
}

enum status embedding_decode_input_type(struct decoding *decoding, struct value *value)
{
    bool is_query;
    enum status status = decode_either(decoding, "input_type", "\"query\" or \"document\"", value, "query",
                                       "document", &is_query);
    decoding->job->request.embedding.type = is_query ? INPUT_QUERY : INPUT_DOCUMENT;
    return status;
}

enum status embedding_decode_truncation_side(struct decoding *decoding, struct value *value)
{
    return decode_either(decoding, "truncation_side", "\"left\" or \"right\"", value, "left", "right",
                         &decoding->job->request.embedding.truncates_left);
}

enum status embedding_finish(struct decoding *decoding)
{
    const struct request_embedding *embedding = &decoding->job->request.embedding;
    decoding->job->request.prompt.kind = PROMPT_TEXT; // no chat
    if (embedding->type != INPUT_PLAIN && embedding->prompt_name.size)
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "prompt_name: given beside input_type; one of them is enough");
    if (decoding_given(decoding, "truncation_side") && !embedding->truncate_tokens)
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "truncation_side: needs truncate_prompt_tokens");
    if (decoding_given(decoding, "truncate_prompt_tokens") && !embedding->truncate_tokens)
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "truncate_prompt_tokens: expected -1, or 1 and more, got 0");
    return STATUS_OK;
}

static bool encode_one(const struct request_input *input, struct arena *arena, struct value *value)
{
    if (input->text.data) {
        *value = value_string(input->text);
        return true;
    }
    if (!value_array_create(arena, (size_t)input->n_tokens, value))
        return false;
    for (int32_t i = 0; i < input->n_tokens; i++)
        value->array.items[i] = value_integer(input->tokens[i]);
    return true;
}

bool embedding_encode_input(const struct job *job, struct arena *arena, struct value *value)
{
    const struct request_embedding *embedding = &job->request.embedding;
    if (embedding->n_inputs == 0)
        return true;
    if (!embedding->is_list)
        return encode_one(&embedding->inputs[0], arena, value);
    if (!value_array_create(arena, (size_t)embedding->n_inputs, value))
        return false;
    for (int32_t i = 0; i < embedding->n_inputs; i++)
        if (!encode_one(&embedding->inputs[i], arena, &value->array.items[i]))
            return false;
    return true;
}

bool embedding_encode_encoding_format(const struct job *job, struct arena *arena, struct value *value)
{
    if (job->request.embedding.is_base64)
        *value = value_string(TEXT("base64"));
    return true;
}

bool embedding_encode_input_type(const struct job *job, struct arena *arena, struct value *value)
{
    enum input_type type = job->request.embedding.type;
    if (type != INPUT_PLAIN)
        *value = value_string(type == INPUT_QUERY ? TEXT("query") : TEXT("document"));
    return true;
}

bool embedding_encode_truncation_side(const struct job *job, struct arena *arena, struct value *value)
{
    if (job->request.embedding.truncates_left)
        *value = value_string(TEXT("left"));
    return true;
}
