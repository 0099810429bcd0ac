// Limits of job records, and what is refused, unknown or without effect.
#include "schemas/base/hash.h"
#include "tests/golden/golden.h"
#include "tests/support/cases.h"
#include "tests/support/job_records.h"

static const struct {
    const char *field, *text;
} unbuilt_fields[] = {
    {"'stream':true", "stream: only false is supported, got true"},
    {"'stream':'no'", "stream: only false is supported, got 'no'"},
    {"'stream_options':{'include_usage':true}", "stream_options: not supported, got {'include_usage':true}"},
    {"'structured_outputs':{'structural_tag':{}}", "structured_outputs.structural_tag: not supported"},
    {"'structured_outputs':{'structural_tag':' '}", "structured_outputs.structural_tag: not supported"},
    {"'suffix':'s'", "suffix: not supported, got 's'"},
    {"'functions':[{'name':'f'}]", "functions: not supported, got [{'name':'f'}]"},
    {"'function_call':'auto'", "function_call: only 'none' is supported, got 'auto'"},
    {"'verbosity':'low'", "verbosity: only 'medium' is supported, got 'low'"},
    {"'modalities':['text','audio']", "modalities: only ['text'] is supported, got ['text','audio']"},
    {"'audio':{}", "audio: not supported, got {}"},
    {"'prediction':{}", "prediction: not supported, got {}"},
    {"'chat_template':'{{x}}'", "chat_template: not supported, got '{{x}}'"},
    {"'typical_p':0.9", "typical_p: only 1 is supported, got 0.9"},
    {"'mirostat':2", "mirostat: only 0 is supported, got 2"},
    {"'dry_multiplier':0.8", "dry_multiplier: only 0 is supported, got 0.8"},
    {"'xtc_probability':0.5", "xtc_probability: only 0 is supported, got 0.5"},
    {"'no_repeat_ngram_size':3", "no_repeat_ngram_size: only 0 is supported, got 3"},
    {"'do_sample':false", "do_sample: only true is supported, got false"},
    {"'num_beams':4", "num_beams: only 1 is supported, got 4"},
    {"'repeat_last_n':64", "repeat_last_n: only -1 is supported, got 64"},
    {"'penalty_last_n':64", "penalty_last_n: only -1 is supported, got 64"},
    {"'top_a':0.2", "top_a: only 0 is supported, got 0.2"},
    {"'min_length':3", "min_length: only 0 is supported, got 3"},
    {"'guidance_scale':1.5", "guidance_scale: only 1 is supported, got 1.5"},
    {"'encoder_repetition_penalty':1.1", "encoder_repetition_penalty: only 1 is supported, got 1.1"},
    {"'samplers':['top_k']", "samplers: not supported, got ['top_k']"},
    {"'prompt_embeds':'x'", "prompt_embeds: not supported, got 'x'"},
    {"'vllm_xargs':{'a':1}", "vllm_xargs: not supported, got {'a':1}"},
    {"'repetition_detection':{}", "repetition_detection: not supported, got {}"},
    {"'regex':'a'", "regex: not supported, got 'a'"},
    {"'ebnf':'a'", "ebnf: not supported, got 'a'"},
    {"'lora_path':'a'", "lora_path: not supported, got 'a'"},
    {"'custom_logit_processor':'a'", "custom_logit_processor: not supported, got 'a'"},
    {"'no_stop_trim':true", "no_stop_trim: only false is supported, got true"},
    {"'lora':[{'id':0,'scale':1}]", "lora: not supported, got [{'id':0,'scale':1}]"},
    {"'n_indent':2", "n_indent: only 0 is supported, got 2"},
    {"'t_max_predict_ms':9", "t_max_predict_ms: only 0 is supported, got 9"},
    {"'thinking_budget_tokens':9", "thinking_budget_tokens: only -1 is supported, got 9"},
    {"'smoothing_factor':0.3", "smoothing_factor: only 0 is supported, got 0.3"},
    {"'max_output_tokens':9", "max_output_tokens: not supported, got 9"},
    {"'reasoning':{'effort':'low'}", "reasoning: not supported, got {'effort':'low'}"},
    {"'thinking':{'type':'disabled'}", "thinking: not supported, got {'type':'disabled'}"},
    {"'extra_body':{'top_k':1}", "extra_body: not supported, got {'top_k':1}"},
    {"'structural_tag':'x'", "structural_tag: not supported, got 'x'"},
    {"'stop_regex':'a'", "stop_regex: not supported, got 'a'"},
    {"'separate_reasoning':false", "separate_reasoning: only true is supported, got false"},
    {"'num_beam_groups':2", "num_beam_groups: only 1 is supported, got 2"},
    {"'diversity_penalty':0.5", "diversity_penalty: only 0 is supported, got 0.5"},
    {"'suppress_tokens':[1]", "suppress_tokens: not supported, got [1]"},
    {"'begin_suppress_tokens':[1]", "begin_suppress_tokens: not supported, got [1]"},
    {"'forced_bos_token_id':1", "forced_bos_token_id: not supported, got 1"},
    {"'forced_eos_token_id':1", "forced_eos_token_id: not supported, got 1"},
    {"'eos_token_id':1", "eos_token_id: not supported, got 1"},
    {"'exponential_decay_length_penalty':[1,1.5]",
     "exponential_decay_length_penalty: not supported, got [1,1.5]"},
    {"'max_length':20", "max_length: not supported, got 20"},
    {"'max_time':1.5", "max_time: not supported, got 1.5"},
    {"'watermarking_config':{}", "watermarking_config: not supported, got {}"},
    {"'adaptive_target':0.5", "adaptive_target: only -1 is supported, got 0.5"},
    {"'post_sampling_probs':true", "post_sampling_probs: only false is supported, got true"},
    {"'reasoning_format':'none'", "reasoning_format: only 'auto' is supported, got 'none'"},
    {"'truncate':9", "truncate: not supported, got 9"},
    {"'watermark':true", "watermark: only false is supported, got true"},
    {"'return_full_text':true", "return_full_text: only false is supported, got true"},
    {"'stop_sequences':['a']", "stop_sequences: not supported, got ['a']"},
};

TEST(what_is_not_built_is_refused_by_name)
{
    for (size_t i = 0; i < sizeof unbuilt_fields / sizeof *unbuilt_fields; i++) {
        char record[256];
        snprintf(record, sizeof record, PROMPT_JOB(",%s"), unbuilt_fields[i].field);
        assert_refused(record, ERROR_UNSUPPORTED_FIELD, unbuilt_fields[i].text);
    }
    assert_refused("{'job_id':'a','prompt':['p','q']}", ERROR_UNSUPPORTED_FIELD,
                   "prompt: a list of prompts is not supported, submit one job for each");
    assert_refused("{'job_id':'a','prompt':[[1],[2]]}", ERROR_UNSUPPORTED_FIELD,
                   "prompt: a list of prompts is not supported, submit one job for each");
}

TEST(a_list_of_one_prompt_is_that_prompt)
{
    assert_recodes("{'job_id':'a','prompt':['p']}", PROMPT_JOB(""));
    assert_recodes("{'job_id':'a','prompt':['']}", "{'job_id':'a','prompt':''}");
    assert_recodes("{'job_id':'a','prompt':[[1,2,3]]}", "{'job_id':'a','tokens':[1,2,3]}");
    assert_recodes("{'job_id':'a','prompt':[[]]}", "{'job_id':'a','tokens':[]}");
    assert_refused("{'job_id':'a','prompt':[[1,'x']]}", ERROR_INVALID_FIELD,
                   "prompt[0][1]: expected an integer from 0 to 2147483647, got 'x'");
    assert_refused("{'job_id':'a','prompt':[[[1]]]}", ERROR_INVALID_FIELD,
                   "prompt[0][0]: expected an integer from 0 to 2147483647, got [1]");
    assert_refused("{'job_id':'a','prompt':[null]}", ERROR_INVALID_FIELD,
                   "prompt[0]: expected an integer from 0 to 2147483647, got null");
}

TEST(unsupported_fields_may_ask_for_what_happens_anyway)
{
    assert_recodes(
        PROMPT_JOB(",'verbosity':'medium','suffix':'','functions':[],'function_call':'none','vllm_xargs':{},"
                   "'extra_body':{},'stop_sequences':[],'lora':[],'guided_choice':['y'],"
                   "'structured_outputs':{'disable_any_whitespace':false,'disable_fallback':false,"
                   "'disable_additional_properties':false}"),
        PROMPT_JOB(",'structured_outputs':{'choice':['y']}"));
    assert_refused(PROMPT_JOB(",'structured_outputs':{'disable_any_whitespace':true}"),
                   ERROR_UNSUPPORTED_FIELD, "structured_outputs.disable_any_whitespace: not supported");
    assert_recodes(PROMPT_JOB(
                       ",'stream':false,'response_format':{'type':'text'},'best_of':1,'echo':false,"
                       "'parallel_tool_calls':true,'modalities':['text'],'min_tokens':0,'stop_token_ids':[],"
                       "'bad_words':[],'include_stop_str_in_output':false,'skip_special_tokens':true,"
                       "'length_penalty':1.0,'separate_reasoning':true,'reasoning_format':'auto',"
                       "'adaptive_target':-1.0,'num_beam_groups':1"),
                   PROMPT_JOB(""));
}

TEST(metadata_has_a_limit_of_bytes)
{
    for (int more = 0; more < 2; more++) {
        struct buffer record = {0};
        struct error error;
        buffer_add_string(&record, "{\"prompt\":\"p\",\"metadata\":{\"k\":\"");
        for (int i = 0; i < JOB_METADATA_BYTES_MAX - (int)strlen("{\"k\":\"\"}") + more; i++)
            buffer_add_byte(&record, 'x');
        buffer_add_string(&record, "\"}}");
        struct job *job = job_create();
        enum status status = job_decode(job, (struct text){record.data, record.size}, ENCODING_JSON, &error);
        assert_int_equal(status, more ? STATUS_REJECT : STATUS_OK);
        if (more)
            assert_int_equal(error.code, ERROR_LIMIT_EXCEEDED);
        job_destroy(job);
        buffer_finish(&record);
    }
}

TEST(unknown_fields_and_fields_without_effect_become_warnings)
{
    assert_recodes(PROMPT_JOB(",'temprature':0.5,'user':'u','store':true,'cache_salt':3,'':1"),
                   PROMPT_JOB(
                       ",'warnings':['unknown field \\'temprature\\' ignored; the nearest is temperature',"
                       "'field \\'user\\' has no effect','field \\'store\\' has no effect',"
                       "'field \\'cache_salt\\' has no effect','unknown field \\'\\' ignored']"));
    assert_recodes(PROMPT_JOB(",'truncat':5"), // truncate is refused: no field to name
                   "{'job_id':'a','prompt':'p','warnings':['unknown field \\'truncat\\' ignored']}");
    // They travel with the job, and are not counted again.
    assert_recodes(PROMPT_JOB(",'warnings':['w\\nx','y']"), PROMPT_JOB(",'warnings':['w x','y']"));
}

TEST(warnings_are_kept_to_the_limit_and_then_said_to_be_more)
{
    for (int n_unknown = JOB_WARNINGS_MAX - 1; n_unknown <= JOB_WARNINGS_MAX + 5; n_unknown++) {
        struct buffer record = {0};
        buffer_add_string(&record, "{'prompt':'p'");
        for (int i = 0; i < n_unknown; i++)
            buffer_add_format(&record, ",'unknown_%d':1", i);
        buffer_add_byte(&record, '}');
        struct job *job = decode_good(record.data);
        bool cut = n_unknown >= JOB_WARNINGS_MAX;
        assert_int_equal(job->result.n_warnings, cut ? JOB_WARNINGS_MAX : n_unknown);
        if (cut)
            assert_true(text_equals_string(job->result.warnings[JOB_WARNINGS_MAX - 1],
                                           "more warnings were left out"));
        // The encoded record is within the limit of the decoder.
        struct buffer out = {0};
        job_encode(job, ENCODING_MSGPACK, &out);
        struct decoded_job again = decode_bytes((struct text){out.data, out.size}, ENCODING_MSGPACK);
        assert_int_equal(again.status, STATUS_OK);
        assert_int_equal(again.job->result.n_warnings, job->result.n_warnings);
        job_destroy(again.job);
        job_destroy(job);
        buffer_finish(&out);
        buffer_finish(&record);
    }
    struct buffer many = {0};
    buffer_add_string(&many, "{'prompt':'p','warnings':['w'");
    for (int i = 0; i < JOB_WARNINGS_MAX; i++)
        buffer_add_string(&many, ",'w'");
    buffer_add_string(&many, "]}");
    assert_refused(many.data, ERROR_LIMIT_EXCEEDED, "warnings: expected at most 32 strings, got 33");
    buffer_finish(&many);
}

// `unit` repeated `n` times inside `format`.
static struct decoded_job decode_repeated(const char *head, const char *unit, size_t n, const char *separator,
                                          const char *tail)
{
    struct buffer record = {0};
    buffer_add_string(&record, head);
    for (size_t i = 0; i < n; i++) {
        if (i)
            buffer_add_string(&record, separator);
        buffer_add_string(&record, unit);
    }
    buffer_add_string(&record, tail);
    struct decoded_job decoded = decode("%s", record.data);
    buffer_finish(&record);
    return decoded;
}

TEST(every_limit_is_reached_and_not_passed)
{
    static const struct {
        const char *head, *unit, *separator, *tail;
        size_t limit;
        const char *text;
    } cases[] = {
        {"{'prompt':'p','job_id':'", "x", "", "'}", JOB_ID_BYTES_MAX,
         "job_id: expected at most 256 bytes, got 257"},
        {"{'prompt':'p','custom_id':'", "x", "", "'}", JOB_ID_BYTES_MAX,
         "custom_id: expected at most 256 bytes, got 257"},
        {"{'prompt':'p','dataset':'", "x", "", "'}", JOB_DATASET_BYTES_MAX,
         "dataset: expected at most 128 bytes, got 129"},
        {"{'prompt':'p','model':'", "x", "", "'}", JOB_MODEL_BYTES_MAX,
         "model: expected at most 256 bytes, got 257"},
        {"{'messages':[", "{'role':'u','content':''}", ",", "]}", JOB_MESSAGES_MAX,
         "messages: expected at most 4096 messages, got 4097"},
        {"{'tokens':[", "1", ",", "]}", JOB_TOKENS_MAX,
         "tokens: expected at most 524288 token ids, got 524289"},
        {"{'prompt':[", "1", ",", "]}", JOB_TOKENS_MAX,
         "prompt: expected at most 524288 token ids, got 524289"},
        {"{'prompt':'p','guided_choice':[", "'x'", ",", "]}", JOB_CHOICES_MAX,
         "guided_choice: expected at most 10000 strings, got 10001"},
        {"{'prompt':'p','stop_token_ids':[", "1", ",", "]}", JOB_STOP_TOKENS_MAX,
         "stop_token_ids: expected at most 128 tokens, got 129"},
        {"{'prompt':'p','allowed_token_ids':[", "1", ",", "]}", JOB_ALLOWED_TOKENS_MAX,
         "allowed_token_ids: expected at most 65536 tokens, got 65537"},
        {"{'prompt':'p','stop':[", "'x'", ",", "]}", JOB_STOP_MAX,
         "stop: expected at most 16 strings, got 17"},
        {"{'prompt':'p','stop':'", "x", "", "'}", JOB_STOP_BYTES_MAX,
         "stop: expected at most 1024 bytes, got 1025"},
        {"{'prompt':'p','stop':['", "x", "", "']}", JOB_STOP_BYTES_MAX,
         "stop[0]: expected at most 1024 bytes, got 1025"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct decoded_job good =
            decode_repeated(cases[i].head, cases[i].unit, cases[i].limit, cases[i].separator, cases[i].tail);
        if (good.status != STATUS_OK)
            fail_msg("%s", good.error.text);
        struct decoded_job bad = decode_repeated(cases[i].head, cases[i].unit, cases[i].limit + 1,
                                                 cases[i].separator, cases[i].tail);
        assert_int_equal(bad.status, STATUS_REJECT);
        assert_string_equal(bad.error.text, cases[i].text);
        assert_int_equal(bad.error.code, ERROR_LIMIT_EXCEEDED);
        job_destroy(good.job);
        job_destroy(bad.job);
    }
}

TEST(every_number_with_a_named_limit_reaches_it)
{
    static const struct {
        const char *name;
        int limit;
    } cases[] = {{"n", JOB_N_MAX},
                 {"max_tokens", JOB_MAX_TOKENS_MAX},
                 {"max_completion_tokens", JOB_MAX_TOKENS_MAX},
                 {"min_tokens", JOB_MAX_TOKENS_MAX},
                 {"thinking_token_budget", JOB_MAX_TOKENS_MAX},
                 {"top_k", JOB_TOP_K_MAX},
                 {"priority", JOB_PRIORITY_MAX},
                 {"top_logprobs", JOB_TOP_LOGPROBS_MAX},
                 {"logprobs", JOB_TOP_LOGPROBS_MAX}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *beside = strcmp(cases[i].name, "top_logprobs") == 0 ? ",'logprobs':true" : "";
        struct decoded_job good = decode("{'prompt':'p','%s':%d%s}", cases[i].name, cases[i].limit, beside);
        struct decoded_job bad =
            decode("{'prompt':'p','%s':%d%s}", cases[i].name, cases[i].limit + 1, beside);
        if (good.status != STATUS_OK)
            fail_msg("%s", good.error.text);
        assert_int_equal(bad.status, STATUS_REJECT);
        assert_int_equal(bad.error.code, ERROR_LIMIT_EXCEEDED);
        assert_non_null(strstr(bad.error.text, cases[i].name));
        job_destroy(good.job);
        job_destroy(bad.job);
    }
}

TEST(logit_bias_is_read_to_its_limit)
{
    for (int n_biases = JOB_LOGIT_BIAS_MAX; n_biases <= JOB_LOGIT_BIAS_MAX + 1; n_biases++) {
        struct buffer record = {0};
        buffer_add_string(&record, "{'prompt':'p','logit_bias':{");
        for (int i = 0; i < n_biases; i++)
            buffer_add_format(&record, "%s'%d':1", i ? "," : "", i);
        buffer_add_string(&record, "}}");
        struct decoded_job decoded = decode("%s", record.data);
        if (n_biases == JOB_LOGIT_BIAS_MAX) {
            assert_int_equal(decoded.status, STATUS_OK);
            assert_int_equal(decoded.job->request.sampling.n_logit_bias, JOB_LOGIT_BIAS_MAX);
        } else {
            assert_int_equal(decoded.error.code, ERROR_LIMIT_EXCEEDED);
            assert_string_equal(decoded.error.text, "logit_bias: expected at most 1024 tokens, got 1025");
        }
        job_destroy(decoded.job);
        buffer_finish(&record);
    }
}

TEST(a_record_is_read_to_its_size_limit)
{
    for (size_t size = JOB_RECORD_BYTES_MAX; size <= JOB_RECORD_BYTES_MAX + 1; size++) {
        char *record = malloc(size);
        assert_non_null(record);
        memset(record, 'x', size);
        memcpy(record, "{\"prompt\":\"", 11);
        memcpy(record + size - 2, "\"}", 2);
        struct decoded_job decoded = decode_bytes((struct text){record, size}, ENCODING_JSON);
        if (size == JOB_RECORD_BYTES_MAX) {
            assert_int_equal(decoded.status, STATUS_OK);
        } else {
            assert_int_equal(decoded.error.code, ERROR_LIMIT_EXCEEDED);
            assert_string_equal(decoded.error.text,
                                "record: expected at most 16777216 bytes, got 16777217 or more");
        }
        job_destroy(decoded.job);
        free(record);
    }
}
