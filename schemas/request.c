#include "schemas/request.h"

#include "schemas/base/nearest.h"
#include "schemas/task.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static bool encode_dataset(const struct job *job, struct arena *arena, struct value *value)
{
    if (!text_equals_string(job->dataset, "default"))
        *value = value_string(job->dataset);
    return true;
}

static bool encode_custom_id(const struct job *job, struct arena *arena, struct value *value)
{
    if (job->naming == JOB_NAMED_BY_CUSTOM_ID || !text_equal(job->custom_id, job->job_id))
        *value = value_string(job->custom_id);
    return true;
}

static enum status decode_metadata(struct decoding *decoding, struct value *value)
{
    struct buffer json = {.size_max = JOB_METADATA_BYTES_MAX};
    if (value->kind != VALUE_OBJECT)
        return decoding_expected(decoding, "metadata", "an object", value);
    json_encode(value, &json);
    bool fits = !json.is_full, has_memory = !json.failed || json.is_full;
    buffer_finish(&json);
    if (!has_memory)
        return decoding_out_of_memory(decoding);
    if (!fits)
        return error_set(decoding->error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                         "metadata: expected at most %d bytes of JSON", JOB_METADATA_BYTES_MAX);
    decoding->job->metadata = *value;
    return STATUS_OK;
}

static bool encode_metadata(const struct job *job, struct arena *arena, struct value *value)
{
    (void)arena;
    *value = job->metadata;
    return true;
}

#define IDENTITY(member)  .identity = true, .offset = offsetof(struct job, member)
#define REQUEST(member)   .offset = offsetof(struct job, request.member)
#define SAMPLING(member)  .offset = offsetof(struct job, request.sampling.member)
#define RANGE(low, high)  .minimum = (low), .maximum = (high)
#define LIMIT(low, high)  RANGE(low, high), .limit = true
#define ABOVE(low, high)  RANGE(low, high), .above_minimum = true
#define ANY_TASK          .tasks = ~0u
#define EMBEDS            .tasks = 1u << TASK_EMBED
#define HAS_INPUT         .tasks = 1u << TASK_EMBED | 1u << TASK_CLASSIFY
#define RANKS             .tasks = 1u << TASK_RERANK
#define HAS_PAIRS         .tasks = 1u << TASK_CLASSIFY | 1u << TASK_RERANK
#define HAS_INPUTS        .tasks = 1u << TASK_EMBED | 1u << TASK_CLASSIFY | 1u << TASK_RERANK
#define OWN(folder, noun) .decode = folder##_decode_##noun, .encode = folder##_encode_##noun

static const struct field fields[] = {
    {TEXT("job_id"), FIELD_TEXT, IDENTITY(job_id), LIMIT(1, JOB_ID_BYTES_MAX)},
    {TEXT("dataset"), FIELD_TEXT, IDENTITY(dataset), LIMIT(1, JOB_DATASET_BYTES_MAX),
     .encode = encode_dataset},
    {TEXT("custom_id"), FIELD_TEXT, IDENTITY(custom_id), LIMIT(1, JOB_ID_BYTES_MAX),
     .encode = encode_custom_id},
    {TEXT("index"), FIELD_INTEGER64, IDENTITY(index), RANGE(0, INT64_MAX), .fallback = -1},
    {TEXT("created"), FIELD_INTEGER64, IDENTITY(created_s), RANGE(0, INT64_MAX)},
    {TEXT("model"), FIELD_TEXT, ANY_TASK, REQUEST(model), LIMIT(0, JOB_MODEL_BYTES_MAX)},

    {TEXT("messages"), FIELD_OTHER, OWN(prompt, messages)},
    {TEXT("prompt"), FIELD_OTHER, OWN(prompt, prompt)},
    {TEXT("tokens"), FIELD_OTHER, OWN(prompt, tokens)},
    {TEXT("tools"), FIELD_OTHER, .decode = tools_decode, .encode = tools_encode},
    {TEXT("tool_choice"), FIELD_OTHER, OWN(tools, choice)},
    {TEXT("parallel_tool_calls"), FIELD_OTHER, OWN(tools, parallel)},
    {TEXT("documents"), FIELD_OTHER, .tasks = 1u << TASK_GENERATE | 1u << TASK_RERANK,
     OWN(ranking, documents)},
    {TEXT("add_generation_prompt"), FIELD_OTHER, OWN(prompt, add_generation_prompt)},
    {TEXT("continue_final_message"), FIELD_BOOL, REQUEST(prompt.continues_message)},
    {TEXT("chat_template_kwargs"), FIELD_OTHER, OWN(prompt, kwargs)},
    {TEXT("enable_thinking"), FIELD_OTHER, .decode = prompt_decode_enable_thinking},
    {TEXT("reasoning_effort"), FIELD_OTHER, .decode = prompt_decode_reasoning_effort},
    {TEXT("add_special_tokens"), FIELD_OTHER, OWN(prompt, add_special_tokens)},

    {TEXT("task"), FIELD_OTHER, ANY_TASK, OWN(ranking, task)},
    {TEXT("input"), FIELD_OTHER, HAS_INPUT, .decode = embedding_decode_input, .encode = ranking_encode_input},
    {TEXT("query"), FIELD_OTHER, RANKS, OWN(ranking, query)},
    {TEXT("top_n"), FIELD_INTEGER32, RANKS, REQUEST(ranking.top_n), LIMIT(1, JOB_INPUTS_MAX)},
    {TEXT("return_documents"), FIELD_BOOL, RANKS, REQUEST(ranking.returns_documents)},
    {TEXT("text_1"), FIELD_OTHER, HAS_PAIRS, OWN(ranking, text_1)},
    {TEXT("text_2"), FIELD_OTHER, HAS_PAIRS, OWN(ranking, text_2)},
    {TEXT("dimensions"), FIELD_INTEGER32, EMBEDS, REQUEST(embedding.n_dimensions),
     LIMIT(1, JOB_DIMENSIONS_MAX)},
    {TEXT("encoding_format"), FIELD_OTHER, EMBEDS, OWN(embedding, encoding_format)},
    {TEXT("input_type"), FIELD_OTHER, EMBEDS, OWN(embedding, input_type)},
    {TEXT("prompt_name"), FIELD_TEXT, EMBEDS, REQUEST(embedding.prompt_name),
     LIMIT(1, JOB_PROMPT_NAME_BYTES_MAX)},
    {TEXT("truncate_prompt_tokens"), FIELD_INTEGER32, HAS_INPUTS, REQUEST(embedding.truncate_tokens),
     LIMIT(-1, JOB_TOKENS_MAX)},
    {TEXT("truncation_side"), FIELD_OTHER, HAS_INPUTS, OWN(embedding, truncation_side)},
    {TEXT("partial"), FIELD_BOOL, HAS_INPUTS, REQUEST(embedding.is_partial)},

    {TEXT("max_tokens"), FIELD_OTHER, OWN(parameters, max_tokens)},
    {TEXT("max_completion_tokens"), FIELD_OTHER, .decode = parameters_decode_max_completion_tokens},
    {TEXT("n"), FIELD_INTEGER32, REQUEST(n), LIMIT(1, JOB_N_MAX), .fallback = 1},
    {TEXT("best_of"), FIELD_INTEGER32, REQUEST(best_of), LIMIT(1, JOB_N_MAX)},
    {TEXT("temperature"), FIELD_NUMBER, SAMPLING(temperature), .given = SAMPLING_TEMPERATURE,
     RANGE(0, JOB_TEMPERATURE_MAX), .fallback = 1},
    {TEXT("top_p"), FIELD_NUMBER, SAMPLING(top_p), .given = SAMPLING_TOP_P, RANGE(0, 1), .fallback = 1},
    {TEXT("top_k"), FIELD_INTEGER32, SAMPLING(top_k), .given = SAMPLING_TOP_K, LIMIT(-1, JOB_TOP_K_MAX)},
    {TEXT("min_p"), FIELD_NUMBER, SAMPLING(min_p), .given = SAMPLING_MIN_P, RANGE(0, 1)},
    {TEXT("seed"), FIELD_OTHER, OWN(parameters, seed)},
    {TEXT("stop"), FIELD_OTHER, OWN(parameters, stop)},
    {TEXT("stop_token_ids"), FIELD_OTHER, OWN(parameters, stop_token_ids)},
    {TEXT("include_stop_str_in_output"), FIELD_BOOL, REQUEST(stop.is_included)},
    {TEXT("min_tokens"), FIELD_INTEGER32, REQUEST(stop.min_tokens), LIMIT(0, JOB_MAX_TOKENS_MAX)},
    {TEXT("allowed_token_ids"), FIELD_OTHER, OWN(parameters, allowed_token_ids)},
    {TEXT("bad_words"), FIELD_OTHER, OWN(parameters, bad_words)},
    {TEXT("ignore_eos"), FIELD_BOOL, REQUEST(stop.ignore_eos)},
    {TEXT("structured_outputs"), FIELD_OTHER, OWN(constraint, structured_outputs)},
    {TEXT("response_format"), FIELD_OTHER, .decode = constraint_decode_response_format},
    {TEXT("guided_json"), FIELD_OTHER, .decode = constraint_decode_guided_json},
    {TEXT("guided_regex"), FIELD_OTHER, .decode = constraint_decode_guided_regex},
    {TEXT("guided_choice"), FIELD_OTHER, .decode = constraint_decode_guided_choice},
    {TEXT("guided_grammar"), FIELD_OTHER, .decode = constraint_decode_guided_grammar},
    {TEXT("json_schema"), FIELD_OTHER, .decode = constraint_decode_json_schema},
    {TEXT("grammar"), FIELD_OTHER, .decode = constraint_decode_grammar},
    {TEXT("guided_whitespace_pattern"), FIELD_OTHER, .decode = constraint_decode_guided_whitespace_pattern},
    {TEXT("json_spacing"), FIELD_OTHER, OWN(constraint, json_spacing)},
    {TEXT("json_any_order"), FIELD_BOOL, REQUEST(constraint.any_order)},
    {TEXT("close_at_max_tokens"), FIELD_BOOL, REQUEST(constraint.closes)},
    {TEXT("choice_logprobs"), FIELD_BOOL, REQUEST(scores.wanted)},
    {TEXT("choice_logprobs_include_end"), FIELD_BOOL, REQUEST(scores.include_end)},
    {TEXT("choice_logprobs_decide"), FIELD_BOOL, REQUEST(scores.decide)},
    {TEXT("presence_penalty"), FIELD_NUMBER, SAMPLING(presence_penalty), .given = SAMPLING_PRESENCE_PENALTY,
     RANGE(-2, 2)},
    {TEXT("frequency_penalty"), FIELD_NUMBER, SAMPLING(frequency_penalty),
     .given = SAMPLING_FREQUENCY_PENALTY, RANGE(-2, 2)},
    {TEXT("repetition_penalty"), FIELD_NUMBER, SAMPLING(repetition_penalty),
     .given = SAMPLING_REPETITION_PENALTY, ABOVE(0, 10), .fallback = 1},
    {TEXT("thinking_token_budget"), FIELD_INTEGER32, SAMPLING(thinking_token_budget),
     .given = SAMPLING_THINKING_TOKEN_BUDGET, LIMIT(0, JOB_MAX_TOKENS_MAX), .fallback = -1},
    {TEXT("logit_bias"), FIELD_OTHER, OWN(parameters, logit_bias)},
    {TEXT("logprobs"), FIELD_OTHER, OWN(parameters, logprobs)},
    {TEXT("top_logprobs"), FIELD_INTEGER32, SAMPLING(top_logprobs), LIMIT(0, JOB_TOP_LOGPROBS_MAX)},
    {TEXT("prompt_logprobs"), FIELD_INTEGER32, REQUEST(prompt_logprobs), LIMIT(0, JOB_TOP_LOGPROBS_MAX),
     .fallback = -1},
    {TEXT("echo"), FIELD_BOOL, REQUEST(echo)},
    {TEXT("priority"), FIELD_INTEGER32, ANY_TASK, .offset = offsetof(struct job, priority),
     LIMIT(-JOB_PRIORITY_MAX, JOB_PRIORITY_MAX)},
    {TEXT("deadline"), FIELD_INTEGER64, ANY_TASK, .offset = offsetof(struct job, deadline_s),
     LIMIT(0, JOB_DEADLINE_S_MAX)},
    {TEXT("metadata"), FIELD_OTHER, ANY_TASK, .offset = offsetof(struct job, metadata),
     .decode = decode_metadata, .encode = encode_metadata},

    // Known fields that are refused unless they have the only supported value. OpenAI's fields:
    {TEXT("stream"), FIELD_ONLY, .only = "false"},
    {TEXT("stream_options"), FIELD_ONLY},
    {TEXT("suffix"), FIELD_ONLY, .only = "\"\""},
    {TEXT("functions"), FIELD_ONLY, .only = "[]"},
    {TEXT("function_call"), FIELD_ONLY, .only = "\"none\""},
    {TEXT("modalities"), FIELD_ONLY, .only = "[\"text\"]"},
    {TEXT("audio"), FIELD_ONLY},
    {TEXT("prediction"), FIELD_ONLY},
    {TEXT("verbosity"), FIELD_ONLY, .only = "\"medium\""},
    {TEXT("web_search_options"), FIELD_ONLY},
    {TEXT("max_output_tokens"), FIELD_ONLY},
    {TEXT("reasoning"), FIELD_ONLY, .only = "{}"},
    {TEXT("thinking"), FIELD_ONLY},
    {TEXT("extra_body"), FIELD_ONLY, .only = "{}"},
    // Fields of vLLM and other servers:
    {TEXT("length_penalty"), FIELD_ONLY, .only = "1"},
    {TEXT("use_beam_search"), FIELD_ONLY, .only = "false"},
    {TEXT("early_stopping"), FIELD_ONLY, .only = "false"},
    {TEXT("skip_special_tokens"), FIELD_ONLY, .only = "true"},
    {TEXT("spaces_between_special_tokens"), FIELD_ONLY, .only = "true"},
    {TEXT("chat_template"), FIELD_ONLY},
    {TEXT("logits_processors"), FIELD_ONLY, .only = "[]"},
    {TEXT("detokenize"), FIELD_ONLY, .only = "true"},
    {TEXT("include_reasoning"), FIELD_ONLY, .only = "true"},
    {TEXT("return_token_ids"), FIELD_ONLY, .only = "false"},
    {TEXT("return_tokens_as_token_ids"), FIELD_ONLY, .only = "false"},
    {TEXT("prompt_embeds"), FIELD_ONLY},
    {TEXT("vllm_xargs"), FIELD_ONLY, .only = "{}"},
    {TEXT("repetition_detection"), FIELD_ONLY},
    {TEXT("structural_tag"), FIELD_ONLY},
    // Fields of servers of rerankers and classifiers:
    {TEXT("use_activation"), FIELD_ONLY, .only = "true"},
    {TEXT("raw_scores"), FIELD_ONLY, .only = "false"},
    {TEXT("max_tokens_per_doc"), FIELD_ONLY},
    {TEXT("max_chunks_per_doc"), FIELD_ONLY},
    {TEXT("rank_fields"), FIELD_ONLY, .only = "[\"text\"]"},
    // Fields of SGLang:
    {TEXT("regex"), FIELD_ONLY},
    {TEXT("ebnf"), FIELD_ONLY},
    {TEXT("lora_path"), FIELD_ONLY},
    {TEXT("custom_logit_processor"), FIELD_ONLY},
    {TEXT("no_stop_trim"), FIELD_ONLY, .only = "false"},
    {TEXT("stop_regex"), FIELD_ONLY, .only = "[]"},
    {TEXT("separate_reasoning"), FIELD_ONLY, .only = "true"},
    // Fields of transformers:
    {TEXT("do_sample"), FIELD_ONLY, .only = "true"},
    {TEXT("num_beams"), FIELD_ONLY, .only = "1"},
    {TEXT("num_beam_groups"), FIELD_ONLY, .only = "1"},
    {TEXT("diversity_penalty"), FIELD_ONLY, .only = "0"},
    {TEXT("num_return_sequences"), FIELD_ALIAS, .only = "n"},
    {TEXT("max_new_tokens"), FIELD_ALIAS, .only = "max_tokens"},
    {TEXT("no_repeat_ngram_size"), FIELD_ONLY, .only = "0"},
    {TEXT("encoder_no_repeat_ngram_size"), FIELD_ONLY, .only = "0"},
    {TEXT("encoder_repetition_penalty"), FIELD_ONLY, .only = "1"},
    {TEXT("guidance_scale"), FIELD_ONLY, .only = "1"},
    {TEXT("min_length"), FIELD_ONLY, .only = "0"},
    {TEXT("min_new_tokens"), FIELD_ALIAS, .only = "min_tokens"},
    {TEXT("typical_p"), FIELD_ONLY, .only = "1"},
    {TEXT("epsilon_cutoff"), FIELD_ONLY, .only = "0"},
    {TEXT("eta_cutoff"), FIELD_ONLY, .only = "0"},
    {TEXT("penalty_alpha"), FIELD_ONLY, .only = "0"},
    {TEXT("bad_words_ids"), FIELD_ONLY, .only = "[]"},
    {TEXT("sequence_bias"), FIELD_ONLY, .only = "{}"},
    {TEXT("suppress_tokens"), FIELD_ONLY, .only = "[]"},
    {TEXT("begin_suppress_tokens"), FIELD_ONLY, .only = "[]"},
    {TEXT("forced_bos_token_id"), FIELD_ONLY},
    {TEXT("forced_eos_token_id"), FIELD_ONLY},
    {TEXT("eos_token_id"), FIELD_ONLY},
    {TEXT("exponential_decay_length_penalty"), FIELD_ONLY},
    {TEXT("max_length"), FIELD_ONLY},
    {TEXT("max_time"), FIELD_ONLY},
    {TEXT("watermarking_config"), FIELD_ONLY},
    {TEXT("stop_strings"), FIELD_ALIAS, .only = "stop"},
    // Fields of llama.cpp. The parameters of a method have no effect if its main field switches it off.
    {TEXT("n_predict"), FIELD_ALIAS, .only = "max_tokens"},
    {TEXT("repeat_penalty"), FIELD_ALIAS, .only = "repetition_penalty"},
    {TEXT("repeat_last_n"), FIELD_ONLY, .only = "-1"},
    {TEXT("penalty_last_n"), FIELD_ONLY, .only = "-1"},
    {TEXT("top_a"), FIELD_ONLY, .only = "0"},
    {TEXT("mirostat"), FIELD_ONLY, .only = "0"},
    {TEXT("dry_multiplier"), FIELD_ONLY, .only = "0"},
    {TEXT("xtc_probability"), FIELD_ONLY, .only = "0"},
    {TEXT("dynatemp_range"), FIELD_ONLY, .only = "0"},
    {TEXT("top_n_sigma"), FIELD_ONLY, .only = "-1"},
    {TEXT("tfs_z"), FIELD_ONLY, .only = "1"},
    {TEXT("samplers"), FIELD_ONLY},
    {TEXT("min_keep"), FIELD_ONLY, .only = "0"},
    {TEXT("n_probs"), FIELD_ONLY, .only = "0"},
    {TEXT("lora"), FIELD_ONLY, .only = "[]"},
    {TEXT("n_indent"), FIELD_ONLY, .only = "0"},
    {TEXT("t_max_predict_ms"), FIELD_ONLY, .only = "0"},
    {TEXT("thinking_budget_tokens"), FIELD_ONLY, .only = "-1"},
    {TEXT("smoothing_factor"), FIELD_ONLY, .only = "0"},
    {TEXT("adaptive_target"), FIELD_ONLY, .only = "-1"},
    {TEXT("post_sampling_probs"), FIELD_ONLY, .only = "false"},
    {TEXT("reasoning_format"), FIELD_ONLY, .only = "\"auto\""},
    // Fields of text-generation-inference:
    {TEXT("truncate"), FIELD_ONLY},
    {TEXT("watermark"), FIELD_ONLY, .only = "false"},
    {TEXT("return_full_text"), FIELD_ONLY, .only = "false"},
    {TEXT("stop_sequences"), FIELD_ONLY, .only = "[]"},
    {TEXT("mirostat_tau"), FIELD_NO_EFFECT},
    {TEXT("mirostat_eta"), FIELD_NO_EFFECT},
    {TEXT("dry_base"), FIELD_NO_EFFECT},
    {TEXT("dry_allowed_length"), FIELD_NO_EFFECT},
    {TEXT("dry_penalty_last_n"), FIELD_NO_EFFECT},
    {TEXT("dry_sequence_breakers"), FIELD_NO_EFFECT},
    {TEXT("xtc_threshold"), FIELD_NO_EFFECT},
    {TEXT("dynatemp_exponent"), FIELD_NO_EFFECT},
    {TEXT("cache_prompt"), FIELD_NO_EFFECT},
    {TEXT("id_slot"), FIELD_NO_EFFECT},

    {TEXT("user"), FIELD_NO_EFFECT},
    {TEXT("store"), FIELD_NO_EFFECT},
    {TEXT("service_tier"), FIELD_NO_EFFECT},
    {TEXT("safety_identifier"), FIELD_NO_EFFECT},
    {TEXT("prompt_cache_key"), FIELD_NO_EFFECT},
    {TEXT("prompt_cache_retention"), FIELD_NO_EFFECT},
    {TEXT("cache_salt"), FIELD_NO_EFFECT},

    {TEXT("warnings"), FIELD_OTHER, .identity = true, OWN(parameters, warnings)},
};

enum { N_FIELDS = sizeof fields / sizeof *fields };
_Static_assert((int)N_FIELDS <= (int)REQUEST_FIELDS_MAX, "decoding.values holds one of each");
_Static_assert(REQUEST_FIELDS_MAX % 64 == 0, "decoding.given has whole words");

struct decoding request_decoding(struct job *job, struct error *error)
{
    return (struct decoding){.job = job, .error = error, .fields = fields, .n_fields = N_FIELDS};
}

const struct field *request_fields(size_t *n_fields)
{
    *n_fields = N_FIELDS;
    return fields;
}

static bool has_field(enum task task, const struct field *field)
{
    unsigned tasks = field->tasks ? field->tasks : 1u << TASK_GENERATE;
    // FIELD_ONLY has a value that asks for nothing, which every task takes
    return field->identity || field->kind == FIELD_ONLY || field->kind == FIELD_NO_EFFECT ||
           (tasks & 1u << task);
}

static enum status decode_number(struct decoding *decoding, const struct field *field,
                                 const struct value *value, float *out)
{
    double number = value->kind == VALUE_INTEGER ? (double)value->integer : value->number;
    bool is_number = value->kind == VALUE_INTEGER || value->kind == VALUE_FLOAT;
    // The number must be in range as a float32 too: 1e-60 becomes 0, which may be out of range.
    if (is_number && number >= (double)field->minimum && number <= (double)field->maximum &&
        !(field->above_minimum && (float)number <= (float)field->minimum)) {
        *out = (float)number + 0.0f; // not -0
        return STATUS_OK;
    }
    char description[VALUE_DESCRIPTION_BYTES];
    value_describe(value, description);
    return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                     "%s: expected a number %s %lld %s %lld, got %s", field->name.data,
                     field->above_minimum ? "above" : "from", (long long)field->minimum,
                     field->above_minimum ? "and up to" : "to", (long long)field->maximum, description);
}

static enum status decode_text(struct decoding *decoding, const struct field *field,
                               const struct value *value, struct text *out)
{
    if (value->kind != VALUE_STRING)
        return decoding_expected(decoding, field->name.data, "a string", value);
    if (value->text.size < (size_t)field->minimum)
        return decoding_expected(decoding, field->name.data, "a string that is not empty", value);
    if (value->text.size > (size_t)field->maximum)
        return error_set(decoding->error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                         "%s: expected at most %lld bytes, got %zu", field->name.data,
                         (long long)field->maximum, value->text.size);
    if (value->text.size && memchr(value->text.data, 0, value->text.size))
        return decoding_expected(decoding, field->name.data, "a string without NUL", value);
    *out = value->text;
    return STATUS_OK;
}

static enum status compare_only(struct decoding *decoding, const struct field *field,
                                const struct value *value, bool *same)
{
    *same = false;
    if (!field->only)
        return STATUS_OK;
    int64_t integer;
    struct buffer json = {.size_max = 64}; // longer than any field's `only`
    if (value_whole_number(value, &integer))
        buffer_add_format(&json, "%lld", (long long)integer);
    else
        json_encode(value, &json);
    *same = !json.failed && strcmp(json.data, field->only) == 0;
    bool has_memory = !json.failed || json.is_full;
    buffer_finish(&json);
    return has_memory ? STATUS_OK : decoding_out_of_memory(decoding);
}

static enum status decode_only(struct decoding *decoding, const struct field *field,
                               const struct value *value)
{
    bool same;
    enum status status = compare_only(decoding, field, value, &same);
    if (status != STATUS_OK || same)
        return status;
    char description[VALUE_DESCRIPTION_BYTES];
    value_describe(value, description);
    bool takes_nothing = !field->only || text_equals_string(TEXT("[]"), field->only) ||
                         text_equals_string(TEXT("{}"), field->only) ||
                         text_equals_string(TEXT("\"\""), field->only);
    if (takes_nothing)
        return error_set(decoding->error, STATUS_REJECT, ERROR_UNSUPPORTED_FIELD, "%s: not supported, got %s",
                         field->name.data, description);
    return error_set(decoding->error, STATUS_REJECT, ERROR_UNSUPPORTED_FIELD,
                     "%s: only %s is supported, got %s", field->name.data, field->only, description);
}

static enum status decode_plain(struct decoding *decoding, const struct field *field, struct value *value)
{
    if (field->decode)
        return field->decode(decoding, value);
    char *target = (char *)decoding->job + field->offset;
    int64_t integer;
    enum status status = STATUS_OK;
    switch (field->kind) {
    case FIELD_TEXT:
        return decode_text(decoding, field, value, (struct text *)(void *)target);
    case FIELD_INTEGER32:
    case FIELD_INTEGER64:
        status = decoding_integer(decoding, field->name.data, value, field->minimum, field->maximum,
                                  field->limit, &integer);
        if (status == STATUS_OK && field->kind == FIELD_INTEGER32)
            *(int32_t *)(void *)target = (int32_t)integer;
        else if (status == STATUS_OK)
            *(int64_t *)(void *)target = integer;
        return status;
    case FIELD_NUMBER:
        return decode_number(decoding, field, value, (float *)(void *)target);
    case FIELD_BOOL:
        if (value->kind != VALUE_BOOL)
            return decoding_expected(decoding, field->name.data, "true or false", value);
        *(bool *)target = value->boolean;
        return STATUS_OK;
    case FIELD_ONLY:
        return decode_only(decoding, field, value);
    case FIELD_OTHER:
    case FIELD_NO_EFFECT:
    case FIELD_ALIAS:
        break;
    }
    return STATUS_OK;
}

static enum status decode_field(struct decoding *decoding, const struct field *field, struct value *value)
{
    enum status status = decode_plain(decoding, field, value);
    if (status == STATUS_OK)
        decoding->job->request.sampling.given |= field->given;
    return status;
}

enum status sampling_set(struct sampling *sampling, const char *name, double number, struct error *error)
{
    struct job job = {.request.sampling = *sampling};
    struct decoding decoding = request_decoding(&job, error);
    struct value value = value_float(number);
    int row = decoding_find(&decoding, text_from_string(name));
    assert(row >= 0 && fields[row].given);
    if (decode_field(&decoding, &fields[row], &value) != STATUS_OK)
        return error->status = STATUS_REFUSE;
    if (job.request.sampling.top_k < 0)
        job.request.sampling.top_k = 0;
    *sampling = job.request.sampling;
    return STATUS_OK;
}

void sampling_complete(struct sampling *sampling, const struct sampling *defaults)
{
    if (!(defaults->given & ~sampling->given))
        return;
    for (int i = 0; i < N_FIELDS; i++) {
        if (!(fields[i].given & defaults->given & ~sampling->given))
            continue;
        size_t offset = fields[i].offset - offsetof(struct job, request.sampling);
        size_t size = fields[i].kind == FIELD_NUMBER ? sizeof(float) : sizeof(int32_t);
        memcpy((char *)sampling + offset, (const char *)defaults + offset, size);
    }
}

// True if the name is a member of an OpenAI batch line, which openai.c decodes.
static bool is_line_field(struct text name)
{
    return text_equals_string(name, "method") || text_equals_string(name, "url") ||
           text_equals_string(name, "body");
}

// True if a message may recommend the field. A field that is refused or has no effect is not recommended.
static bool is_read(const struct field *field)
{
    return field->kind != FIELD_ONLY && field->kind != FIELD_NO_EFFECT;
}

static bool warn_of_unknown(struct job *job, struct text name, enum task task, enum collect collect)
{
    struct nearest nearest = nearest_begin(name);
    for (int i = 0; i < N_FIELDS && job->result.n_warnings < JOB_WARNINGS_MAX; i++)
        if ((collect != COLLECT_REQUEST || !fields[i].identity) && is_read(&fields[i]) &&
            has_field(task, &fields[i]))
            (void)nearest_try(&nearest, fields[i].name);
    return job_warn(job, "unknown field \"%.*s\" ignored%s%.*s", (int)(name.size < 128 ? name.size : 128),
                    name.data, nearest.found.data ? "; the nearest is " : "", (int)nearest.found.size,
                    nearest.found.data);
}

// The task of a request with these fields, which may be NULL; `input` may be for a classifier too.
static enum task task_of(const struct value *input, const struct value *query, const struct value *text)
{
    return query || text ? TASK_RERANK : input ? TASK_EMBED : TASK_GENERATE;
}

enum status request_collect(struct decoding *decoding, struct value *object, enum collect collect)
{
    struct job *job = decoding->job;
    enum task task =
        task_of(value_get(object, "input"), value_get(object, "query"), value_get(object, "text_1"));
    enum status status = STATUS_OK;
    for (size_t i = 0; i < object->object.n_members; i++) {
        struct value_member *member = &object->object.members[i];
        if (collect != COLLECT_REQUEST && is_line_field(member->key))
            continue; // it has no effect, even in a line without a body
        int row = decoding_find(decoding, member->key);
        bool stored = true;
        if (row < 0 || (collect == COLLECT_REQUEST && fields[row].identity))
            stored = warn_of_unknown(job, member->key, task, collect);
        else if (member->value.kind == VALUE_NULL)
            continue;
        else if (fields[row].kind == FIELD_NO_EFFECT)
            stored = job_warn(job, "field \"%s\" has no effect", fields[row].name.data);
        else if (collect == COLLECT_IDENTITY && !fields[row].identity)
            status = error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                               "%s: belongs into \"body\"", fields[row].name.data);
        else
            decoding_give(decoding, row, &member->value);
        if (!stored)
            return decoding_out_of_memory(decoding);
    }
    return status;
}

enum status request_decode_identity(struct decoding *decoding)
{
    struct job *job = decoding->job;
    struct error first = {0};
    for (int i = -1; (i = decoding_next(decoding, i)) >= 0;)
        if (fields[i].identity && decode_field(decoding, &fields[i], decoding->values[i]) != STATUS_OK &&
            first.status == STATUS_OK)
            first = *decoding->error;
    job->naming = job->custom_id.size ? JOB_NAMED_BY_CUSTOM_ID
                  : job->job_id.size  ? JOB_NAMED_BY_ID
                                      : JOB_NAMED_BY_PLACE;
    if (job->custom_id.size == 0)
        job->custom_id = job->job_id;
    if (first.status != STATUS_OK)
        *decoding->error = first;
    return first.status;
}

// Gives the value of an alias to its field. Refuses if both are given with different values.
static enum status resolve_alias(struct decoding *decoding, int row)
{
    const char *name = fields[row].only;
    int target = decoding_find(decoding, text_from_string(name));
    struct value *value = decoding->values[row], *other = decoding->values[target];
    if (!other || value_equal(other, value)) {
        decoding_give(decoding, target, value);
        return STATUS_OK;
    }
    char descriptions[2][VALUE_DESCRIPTION_BYTES];
    value_describe(value, descriptions[0]);
    value_describe(other, descriptions[1]);
    return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                     "%s: given as %s beside %s %s; one of them is enough", fields[row].name.data,
                     descriptions[0], name, descriptions[1]);
}

// Whether a request of this task may be for /v1/classify, which has an input as an embedding or pairs as a score.
static bool may_classify(const struct decoding *decoding, enum task task)
{
    return task == TASK_EMBED || (task == TASK_RERANK && !decoding_given(decoding, "query"));
}

// The field `task` must name the request's own task. It tells a classifier's texts from ones to embed or to score.
static enum status check_task(struct decoding *decoding, enum task *task)
{
    const struct value *value = decoding_given(decoding, "task");
    enum task named;
    if (!value)
        return STATUS_OK;
    if (value->kind != VALUE_STRING || !task_find(value->text, &named))
        return decoding_expected(decoding, "task", TASK_NAMES, value);
    if (named == TASK_CLASSIFY && decoding->path == PATH_NONE && may_classify(decoding, *task))
        *task = TASK_CLASSIFY;
    if (named == *task)
        return STATUS_OK;
    return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                     "task: %s is for %s, the request is one for %s", task_traits(named)->name,
                     task_traits(named)->paths, task_traits(*task)->paths);
}

static enum status refuse_field(struct decoding *decoding, const struct field *field, enum task task)
{
    enum task other = TASK_EMBED; // the first task that has the field
    const char *input = task_traits(task)->input;
    while (!(field->tasks & 1u << other) && other + 1 < TASK_COUNT)
        other++;
    if (task == TASK_GENERATE)
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "%s: needs %s, which is not given: it is a field of %s", field->name.data,
                         task_traits(other)->input, task_traits(other)->paths);
    if (task == TASK_RERANK && !decoding_given(decoding, input))
        input = decoding_given(decoding, "text_1") ? "text_1" : "text_2";
    return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                     "%s: given beside %s, but it is no field of %s", field->name.data, input,
                     task_traits(task)->paths);
}

// Sets the request's task by its input, and refuses fields of other tasks.
static enum status choose_task(struct decoding *decoding)
{
    const struct value *text = decoding_given(decoding, "text_1");
    enum task task = task_of(decoding_given(decoding, "input"), decoding_given(decoding, "query"),
                             text ? text : decoding_given(decoding, "text_2"));
    if (decoding->path == PATH_CLASSIFY && may_classify(decoding, task))
        task = TASK_CLASSIFY;
    enum status status = check_task(decoding, &task);
    decoding->job->request.task = task;
    for (int i = -1; status == STATUS_OK && (i = decoding_next(decoding, i)) >= 0;)
        if (!has_field(task, &fields[i]))
            status = refuse_field(decoding, &fields[i], task);
    return status;
}

enum status request_decode(struct decoding *decoding)
{
    enum status status = choose_task(decoding);
    for (int i = -1; status == STATUS_OK && (i = decoding_next(decoding, i)) >= 0;)
        if (fields[i].kind == FIELD_ALIAS)
            status = resolve_alias(decoding, i);
    for (int i = -1; status == STATUS_OK && (i = decoding_next(decoding, i)) >= 0;)
        if (!fields[i].identity)
            status = decode_field(decoding, &fields[i], decoding->values[i]);
    if (decoding->job->request.task != TASK_GENERATE) {
        if (status == STATUS_OK)
            status = embedding_finish(decoding);
        return status == STATUS_OK && decoding->job->request.task != TASK_EMBED ? ranking_finish(decoding)
                                                                                : status;
    }
    if (status == STATUS_OK)
        status = prompt_finish(decoding);
    if (status == STATUS_OK)
        status = parameters_finish(decoding);
    if (status == STATUS_OK)
        status = constraint_finish(decoding);
    return status;
}

static bool encode_field(const struct job *job, const struct field *field, struct arena *arena,
                         struct value *value)
{
    *value = (struct value){.kind = VALUE_NULL};
    if (field->encode)
        return field->encode(job, arena, value);
    const char *source = (const char *)job + field->offset;
    bool given = field->given & job->request.sampling.given;
    switch (field->kind) {
    case FIELD_TEXT:
        if (((const struct text *)(const void *)source)->size)
            *value = value_string(*(const struct text *)(const void *)source);
        break;
    case FIELD_INTEGER32:
        if (given || *(const int32_t *)(const void *)source != field->fallback)
            *value = value_integer(*(const int32_t *)(const void *)source);
        break;
    case FIELD_INTEGER64:
        if (*(const int64_t *)(const void *)source != field->fallback)
            *value = value_integer(*(const int64_t *)(const void *)source);
        break;
    case FIELD_NUMBER:
        if (given || *(const float *)(const void *)source != (float)field->fallback)
            *value = value_single(*(const float *)(const void *)source);
        break;
    case FIELD_BOOL:
        if (*(const bool *)source)
            *value = value_bool(true);
        break;
    case FIELD_OTHER:
    case FIELD_ONLY:
    case FIELD_NO_EFFECT:
    case FIELD_ALIAS:
        break;
    }
    return true;
}

// True if the answer does not depend on the field: identity, priority, deadline, metadata.
static bool is_of_job(const struct field *field)
{
    return field->identity || field->offset == offsetof(struct job, priority) ||
           field->offset == offsetof(struct job, deadline_s) ||
           field->offset == offsetof(struct job, metadata);
}

static bool encode_fields(const struct job *job, bool alone, struct arena *arena, struct value *object)
{
    if (!value_object_create(arena, N_FIELDS, object))
        return false;
    for (int i = 0; i < N_FIELDS; i++) {
        struct value value;
        if ((alone && is_of_job(&fields[i])) || !has_field(job->request.task, &fields[i]))
            continue;
        if (!encode_field(job, &fields[i], arena, &value))
            return false;
        if (value.kind != VALUE_NULL)
            value_put(object, fields[i].name.data, value);
    }
    return true;
}

bool request_encode(const struct job *job, struct arena *arena, struct value *object)
{
    return encode_fields(job, false, arena, object);
}

bool request_encode_alone(const struct job *job, struct arena *arena, struct value *object)
{
    return encode_fields(job, true, arena, object);
}
