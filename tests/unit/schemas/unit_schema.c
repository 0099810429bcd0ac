// The JSON Schemas agree with the codecs: the same fields, the same limits, and no record that the schema
// refuses is accepted.
#include "schemas/request.h"
#include "tests/golden/golden.h"
#include "tests/support/cases.h"
#include "tests/support/job_records.h"
#include "tests/unit/schemas/schema_validator.h"

static struct arena arena;
static struct value job_root, result_root, openai_root;

static void load(const char *name, struct value *root)
{
    char path[256];
    snprintf(path, sizeof path, "../../schemas/%s", name);
    struct buffer file = golden_read(path);
    struct error error;
    if (json_decode((struct text){file.data, file.size}, &arena, root, &error) != STATUS_OK)
        fail_msg("%s: %s", name, error.text);
    buffer_finish(&file);
}

static int load_schemas(void **state)
{
    load("job.schema.json", &job_root);
    load("result.schema.json", &result_root);
    load("openai.schema.json", &openai_root);
    return 0;
}

static int free_schemas(void **state)
{
    arena_finish(&arena);
    return 0;
}

static const struct value *definition(const struct value *root, const char *name)
{
    const struct value *rule = value_get(value_get(root, "$defs"), name);
    assert_non_null(rule);
    return rule;
}

static const struct value *property(const struct field *field)
{
    const struct value *rule = definition(&job_root, field->identity ? "identity" : "request");
    const struct value *found = value_get(value_get(rule, "properties"), field->name.data);
    if (!found)
        fail_msg("job.schema.json lacks %s", field->name.data);
    return found;
}

TEST(schema_and_codec_know_the_same_fields)
{
    size_t n_fields;
    const struct field *fields = request_fields(&n_fields);
    for (size_t i = 0; i < n_fields; i++) {
        property(&fields[i]);
        for (size_t j = 0; j < i; j++)
            assert_false(text_equal(fields[i].name, fields[j].name));
    }
    size_t n_properties = value_get(definition(&job_root, "identity"), "properties")->object.n_members +
                          value_get(definition(&job_root, "request"), "properties")->object.n_members;
    assert_int_equal(n_properties, n_fields); // with the above: none that the codec lacks
}

static void assert_number(const struct value *rule, const char *keyword, int64_t expected)
{
    const struct value *value = value_get(rule, keyword);
    if (!value || value->kind != VALUE_INTEGER || value->integer != expected)
        fail_msg("%s: expected %lld", keyword, (long long)expected);
}

TEST(limits_of_the_schema_are_the_codecs)
{
    size_t n_fields;
    const struct field *fields = request_fields(&n_fields);
    for (size_t i = 0; i < n_fields; i++) {
        const struct field *field = &fields[i];
        const struct value *rule = property(field);
        bool numeric =
            field->kind == FIELD_INTEGER32 || field->kind == FIELD_INTEGER64 || field->kind == FIELD_NUMBER;
        if (field->kind == FIELD_TEXT) {
            assert_number(rule, "minLength", field->minimum);
            assert_number(rule, "maxLength", field->maximum);
        }
        if (numeric) {
            assert_number(rule, field->above_minimum ? "exclusiveMinimum" : "minimum", field->minimum);
            assert_number(rule, "maximum", field->maximum);
        }
        if (numeric && value_get(rule, "default"))
            assert_number(rule, "default", field->fallback);
        if (field->kind == FIELD_NO_EFFECT)
            assert_int_equal(rule->object.n_members, 1); // its description: any value will do
    }
}

TEST(counts_of_the_schema_are_the_named_limits)
{
    const struct value *request = value_get(definition(&job_root, "request"), "properties");
    const struct value *stop = value_get(value_get(request, "stop"), "anyOf");
    const struct value *logprobs = value_get(value_get(request, "logprobs"), "anyOf");
    assert_number(value_get(request, "messages"), "maxItems", JOB_MESSAGES_MAX);
    assert_number(definition(&job_root, "tokens"), "maxItems", JOB_TOKENS_MAX);
    assert_number(value_get(definition(&job_root, "tokens"), "items"), "maximum", INT32_MAX);
    assert_number(&stop->array.items[1], "maxItems", JOB_STOP_MAX);
    assert_number(definition(&job_root, "constraint_choices"), "maxItems", JOB_CHOICES_MAX);
    assert_number(value_get(request, "tools"), "maxItems", JOB_TOOLS_MAX);
    assert_number(value_get(request, "stop_token_ids"), "maxItems", JOB_STOP_TOKENS_MAX);
    assert_number(value_get(request, "allowed_token_ids"), "maxItems", JOB_ALLOWED_TOKENS_MAX);
    assert_number(definition(&job_root, "stop_string"), "maxLength", JOB_STOP_BYTES_MAX);
    assert_number(value_get(request, "logit_bias"), "maxProperties", JOB_LOGIT_BIAS_MAX);
    assert_number(&logprobs->array.items[1], "maximum", JOB_TOP_LOGPROBS_MAX);
    assert_number(value_get(request, "max_tokens"), "maximum", JOB_MAX_TOKENS_MAX);
    assert_number(value_get(request, "max_completion_tokens"), "maximum", JOB_MAX_TOKENS_MAX);
    assert_number(value_get(request, "seed"), "minimum", INT64_MIN);
    assert_number(value_get(request, "seed"), "maximum", INT64_MAX);
    assert_number(value_get(value_get(definition(&job_root, "identity"), "properties"), "warnings"),
                  "maxItems", JOB_WARNINGS_MAX);
    const struct value *result = value_get(&result_root, "properties");
    assert_number(value_get(result, "job_id"), "maxLength", JOB_ID_BYTES_MAX);
    assert_number(value_get(result, "dataset"), "maxLength", JOB_DATASET_BYTES_MAX);
    assert_number(value_get(result, "custom_id"), "maxLength", JOB_ID_BYTES_MAX);
    assert_number(value_get(result, "model"), "maxLength", JOB_MODEL_BYTES_MAX);
    assert_number(value_get(result, "system_fingerprint"), "maxLength", JOB_FINGERPRINT_BYTES_MAX);
    assert_number(value_get(result, "choices"), "maxItems", JOB_N_MAX);
    assert_number(value_get(result, "choice_logprobs"), "maxItems", JOB_CHOICES_MAX);
    assert_number(value_get(result, "warnings"), "maxItems", JOB_WARNINGS_MAX);
    assert_number(definition(&result_root, "logprobs"), "maxItems", 3 * (1 + JOB_TOP_LOGPROBS_MAX));
    char sizes[128];
    struct text description = value_get(&job_root, "description")->text;
    snprintf(sizes, sizeof sizes, "at most %d bytes, %d levels and %d values", JOB_RECORD_BYTES_MAX,
             VALUE_DEPTH_MAX, VALUE_COUNT_MAX);
    assert_non_null(memmem(description.data, description.size, sizes, strlen(sizes)));
}

static bool schema_takes(const struct value *root, const struct value *value)
{
    const struct schema_validator schema = {root};
    return schema_accepts(&schema, root, value);
}

// Verdicts of the schema and of the codec on one record, given in double quotes.
struct verdict {
    bool schema, codec;
    struct error error;
};

static struct verdict judge_job(const char *json)
{
    struct arena memory = {0};
    struct value value;
    struct verdict verdict = {0};
    if (json_decode(text_from_string(json), &memory, &value, &verdict.error) != STATUS_OK)
        fail_msg("%s: %s", json, verdict.error.text);
    verdict.schema = schema_takes(&job_root, &value);
    struct decoded_job decoded = decode_bytes(text_from_string(json), ENCODING_JSON);
    verdict.codec = decoded.status == STATUS_OK;
    verdict.error = decoded.error;
    job_destroy(decoded.job);
    arena_finish(&memory);
    return verdict;
}

// Values of every kind, and both sides of every limit a number has.
static const char *const candidates[] = {
    "null",
    "true",
    "false",
    "\"\"",
    "\"x\"",
    "\"none\"",
    "\"auto\"",
    "\"text\"",
    "[]",
    "[1]",
    "[\"x\"]",
    "[\"\"]",
    "[null]",
    "[[]]",
    "[{}]",
    "[\"text\"]",
    "{}",
    "{\"type\":\"text\"}",
    "{\"type\":\"text\",\"x\":1}",
    "{\"type\":\"json_object\"}",
    "{\"type\":\"json_object\",\"schema\":{}}",
    "{\"type\":\"json_object\",\"schema\":true}",
    "{\"type\":\"json_object\",\"schema\":null}",
    "{\"type\":\"json_object\",\"schema\":3}",
    "{\"type\":\"json_object\",\"json_schema\":3,\"x\":1}",
    "{\"type\":\"text\",\"schema\":3}",
    "{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{}}}",
    "{\"type\":\"json_schema\",\"json_schema\":{\"schema\":3}}",
    "{\"type\":\"json_schema\",\"schema\":{}}",
    "{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{},\"x\":1},\"schema\":3}",
    "{\"7\":1}",
    "{\"7\":100}",
    "{\"7\":-100}",
    "{\"7\":101}",
    "{\"7\":-101}",
    "{\"07\":1}",
    "{\"x\":1}",
    "{\"messages\":[]}",
    "[{\"role\":\"user\"}]",
    "[{\"role\":\"user\",\"content\":\"x\"}]",
    "[{\"role\":\"\",\"content\":\"x\"}]",
    "[{\"role\":\"user\",\"content\":[]}]",
    "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"x\"}]}]",
    "[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"text\":\"x\"}]}]",
    "[{\"role\":\"user\",\"content\":7}]",
    "0",
    "1",
    "-1",
    "-2",
    "-3",
    "2",
    "3",
    "10",
    "11",
    "20",
    "21",
    "64",
    "65",
    "1048576",
    "1048577",
    "2147483647",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "0.0",
    "-0.0",
    "1.0",
    "0.5",
    "1.5",
    "2.0",
    "2.5",
    "-2.5",
    "10.5",
    "1e300",
    "-1e300",
    "1e-300",
    "[2147483647]",
    "[2147483648]",
    "[-1]",
    "[1.0]",
    "[1.5]",
    "\"none\"",
    "\"xhigh\"",
    "[\"x\"]",
    "[\"x\",\"y\"]",
    "[[1,2]]",
    "[[1],[2]]",
    "[[-1]]",
    "[[[1]]]",
};

enum { N_CANDIDATES = sizeof candidates / sizeof *candidates };

static bool is_prompt(struct text name)
{
    return text_equals_string(name, "messages") || text_equals_string(name, "prompt") ||
           text_equals_string(name, "tokens") || text_equals_string(name, "input");
}

static bool is_for_chats(struct text name)
{
    static const char *const names[] = {"tools",
                                        "tool_choice",
                                        "documents",
                                        "add_generation_prompt",
                                        "chat_template_kwargs",
                                        "enable_thinking",
                                        "reasoning_effort",
                                        "continue_final_message"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (text_equals_string(name, names[i]))
            return true;
    return false;
}

// The rules that the schema does not state.
static bool may_differ(const struct field *field, const char *candidate)
{
    if (field->kind == FIELD_NUMBER || field->kind == FIELD_ALIAS) // 1e-300 is 0 as a float32
        return strcmp(candidate, "1e-300") == 0;
    return false;
}

TEST(what_the_schema_refuses_the_codec_refuses)
{
    size_t n_fields, n_taken = 0, n_refused = 0;
    const struct field *fields = request_fields(&n_fields);
    for (size_t i = 0; i < n_fields; i++) {
        const char *beside = "\"prompt\":\"p\",";
        if (is_prompt(fields[i].name))
            beside = "";
        else if (is_for_chats(fields[i].name))
            beside = "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],";
        else if (text_equals_string(fields[i].name, "top_logprobs"))
            beside = "\"prompt\":\"p\",\"logprobs\":true,";
        else if (text_equals_string(fields[i].name, "truncation_side"))
            beside = "\"input\":\"p\",\"truncate_prompt_tokens\":1,";
        else if (text_equals_string(fields[i].name, "query"))
            beside = "\"documents\":[\"p\"],";
        else if (text_equals_string(fields[i].name, "text_1"))
            beside = "\"text_2\":\"p\",";
        else if (text_equals_string(fields[i].name, "text_2"))
            beside = "\"text_1\":\"p\",";
        else if (fields[i].tasks == 1u << TASK_RERANK)
            beside = "\"query\":\"p\",\"documents\":[\"p\"],";
        else if (fields[i].tasks && !(fields[i].tasks & 1u << TASK_GENERATE))
            beside = "\"input\":\"p\",";
        else if (text_equals_string(fields[i].name, "json_spacing") ||
                 text_equals_string(fields[i].name, "json_any_order") ||
                 text_equals_string(fields[i].name, "guided_whitespace_pattern"))
            beside = "\"prompt\":\"p\",\"guided_json\":{},";
        else if (text_equals_string(fields[i].name, "close_at_max_tokens"))
            beside = "\"prompt\":\"p\",\"guided_regex\":\"a\",";
        else if (text_equals_string(fields[i].name, "choice_logprobs"))
            beside = "\"prompt\":\"p\",\"guided_choice\":[\"a\"],";
        else if (text_equals_string(fields[i].name, "choice_logprobs_include_end") ||
                 text_equals_string(fields[i].name, "choice_logprobs_decide"))
            beside = "\"prompt\":\"p\",\"guided_choice\":[\"a\"],\"choice_logprobs\":true,";
        for (int j = 0; j < N_CANDIDATES; j++) {
            char record[512];
            snprintf(record, sizeof record, "{%s\"%s\":%s}", beside, fields[i].name.data, candidates[j]);
            struct verdict verdict = judge_job(record);
            if (verdict.codec && !verdict.schema)
                fail_msg("%s: taken by the codec, refused by the schema", record);
            if (!verdict.codec && verdict.schema && !may_differ(&fields[i], candidates[j]))
                fail_msg("%s: taken by the schema, refused by the codec: %s", record, verdict.error.text);
            n_taken += verdict.codec;
            n_refused += !verdict.codec;
        }
    }
    assert_true(n_taken > n_fields && n_refused > 20 * n_fields);
}

TEST(rules_between_fields_hold_in_the_schema_too)
{
    static const struct {
        const char *record;
        bool good;
    } cases[] = {
        {"{}", false},
        {"{\"job_id\":\"a\"}", false},
        {"{\"prompt\":\"p\",\"tokens\":[1]}", false},
        {"{\"prompt\":\"p\",\"tokens\":null}", true},
        {"{\"prompt\":\"p\",\"anything\":1}", true},
        {"{\"body\":{\"prompt\":\"p\"}}", true},
        {"{\"body\":{\"prompt\":\"p\"},\"method\":\"POST\",\"url\":\"/v1/completions\",\"custom_id\":\"c\"}",
         true},
        {"{\"body\":{\"prompt\":\"p\"},\"method\":\"PUT\"}", false},
        {"{\"body\":{\"prompt\":\"p\"},\"url\":\"/v1/responses\"}", false},
        {"{\"body\":{\"input\":\"p\"},\"url\":\"/v1/embeddings\"}", true},
        {"{\"input\":\"p\",\"prompt\":\"p\"}", false},
        {"{\"query\":\"p\"}", false},
        {"{\"query\":\"p\",\"documents\":[\"a\",{\"text\":\"b\"}]}", true},
        {"{\"query\":\"p\",\"documents\":[{\"title\":\"b\"}]}", false},
        {"{\"query\":\"p\",\"documents\":[]}", false},
        {"{\"text_1\":\"p\"}", false},
        {"{\"text_1\":\"p\",\"text_2\":[\"a\"]}", true},
        {"{\"task\":\"classify\",\"input\":\"p\"}", true},
        {"{\"body\":{\"input\":\"p\"},\"url\":\"/classify\"}", true},
        {"{\"body\":{\"query\":\"p\",\"documents\":[\"a\"]},\"url\":\"/v2/rerank\"}", true},
        {"{\"body\":{\"prompt\":\"p\"},\"custom_id\":\"\"}", false},
        {"{\"body\":{}}", false},
        {"{\"body\":null,\"prompt\":\"p\"}", false},
        {"{\"body\":{\"prompt\":\"p\",\"stream\":true}}", false},
        {"[]", false},
        {"\"x\"", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct verdict verdict = judge_job(cases[i].record);
        if (verdict.schema != cases[i].good || verdict.codec != cases[i].good)
            fail_msg("%s: schema %d, codec %d (%s)", cases[i].record, verdict.schema, verdict.codec,
                     verdict.error.text);
    }
}

static struct value decode_golden(const char *name)
{
    struct buffer file = golden_read(name);
    struct text bytes = {file.data, file.size};
    struct value value;
    struct error error;
    enum status status = strstr(name, ".json") ? json_decode(bytes, &arena, &value, &error)
                                               : msgpack_decode(bytes, &arena, &value, &error);
    if (status != STATUS_OK)
        fail_msg("%s: %s", name, error.text);
    buffer_finish(&file);
    return value;
}

TEST(the_golden_bytes_fit_the_schemas)
{
    static const char *const jobs[] = {"job.json", "job.msgpack"};
    static const char *const results[] = {"result.json",
                                          "result.msgpack",
                                          "result_failed.json",
                                          "result_completion.json",
                                          "result_embeddings.json",
                                          "result_rerank.json",
                                          "result_scores.json",
                                          "result_classifications.json"};
    for (size_t i = 0; i < 2; i++) {
        struct value value = decode_golden(jobs[i]);
        assert_true(schema_takes(&job_root, &value));
        assert_false(schema_takes(&result_root, &value));
    }
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        struct value value = decode_golden(results[i]);
        assert_true(schema_takes(&result_root, &value));
        assert_false(schema_takes(&job_root, &value));
    }
}

// An object with the members of both.
static struct value join(const struct value *first, const struct value *second)
{
    struct value joined;
    assert_true(value_object_create(&arena, first->object.n_members + second->object.n_members, &joined));
    for (size_t i = 0; i < first->object.n_members; i++)
        joined.object.members[joined.object.n_members++] = first->object.members[i];
    for (size_t i = 0; i < second->object.n_members; i++)
        joined.object.members[joined.object.n_members++] = second->object.members[i];
    return joined;
}

static bool is_written(const struct value *first, const struct value *second, struct text name)
{
    const struct value *const objects[] = {first, second};
    for (int i = 0; i < 2; i++)
        for (size_t j = 0; objects[i] && j < objects[i]->object.n_members; j++)
            if (text_equal(objects[i]->object.members[j].key, name))
                return true;
    return false;
}

// Every property is written by one of the objects, and each of their members is a property.
static void assert_same_members(const struct value *rule, const struct value *first,
                                const struct value *second)
{
    const struct value *properties = value_get(rule, "properties");
    for (size_t i = 0; i < properties->object.n_members; i++)
        if (!is_written(first, second, properties->object.members[i].key))
            fail_msg("%s is never written", properties->object.members[i].key.data);
    const struct value *const objects[] = {first, second};
    for (int i = 0; i < 2; i++)
        for (size_t j = 0; objects[i] && j < objects[i]->object.n_members; j++)
            if (!is_written(properties, NULL, objects[i]->object.members[j].key))
                fail_msg("%s is not in the schema", objects[i]->object.members[j].key.data);
}

TEST(the_result_schema_has_the_members_that_are_written)
{
    struct value done = decode_golden("result.json"), failed = decode_golden("result_failed.json"),
                 plain = decode_golden("result_completion.json"),
                 embeddings = decode_golden("result_embeddings.json"),
                 rerank = decode_golden("result_rerank.json");
    struct value vectors = join(&embeddings, &rerank), others = join(&failed, &vectors),
                 usages = join(value_get(&plain, "usage"), value_get(&embeddings, "usage"));
    const struct value *properties = value_get(&result_root, "properties");
    assert_same_members(&result_root, &done, &others);
    assert_same_members(value_get(properties, "usage"), value_get(&done, "usage"), &usages);
    assert_same_members(value_get(properties, "error"), value_get(&failed, "error"), NULL);
    assert_same_members(definition(&result_root, "choice"), &value_get(&done, "choices")->array.items[0],
                        &value_get(&plain, "choices")->array.items[0]);
    assert_same_members(
        definition(&result_root, "tool_call"),
        &value_get(&value_get(&done, "choices")->array.items[0], "tool_calls")->array.items[0], NULL);
    assert_same_members(definition(&result_root, "choice_logprob"),
                        &value_get(&done, "choice_logprobs")->array.items[0], NULL);
}

TEST(the_lines_for_openais_clients_fit_their_schema)
{
    struct buffer file = golden_read("openai.jsonl");
    struct error error;
    int n_lines = 0;
    for (char *line = file.data, *end; (end = memchr(line, '\n', (size_t)(file.data + file.size - line)));
         line = end + 1) {
        struct value value;
        assert_ok(json_decode((struct text){line, (size_t)(end - line)}, &arena, &value, &error), &error);
        if (!schema_takes(&openai_root, &value))
            fail_msg("%.*s: refused by the schema", (int)(end - line), line);
        n_lines++;
    }
    assert_int_equal(n_lines, 5);
    buffer_finish(&file);
}

TEST(the_result_schema_has_the_names_that_are_written)
{
    const struct value *properties = value_get(&result_root, "properties");
    const struct value *codes =
        value_get(value_get(value_get(value_get(properties, "error"), "properties"), "code"), "enum");
    assert_int_equal(codes->array.n_items, ERROR_CODE_COUNT - 1);
    for (int i = 1; i < ERROR_CODE_COUNT; i++)
        assert_true(text_equals_string(codes->array.items[i - 1].text, error_code_name((enum error_code)i)));
    const struct value *statuses = value_get(value_get(properties, "status"), "enum");
    for (int i = RESULT_DONE; i <= RESULT_CANCELLED; i++)
        assert_true(text_equals_string(statuses->array.items[i - RESULT_DONE].text,
                                       result_status_name((enum result_status)i)));
    const struct value *choice = value_get(definition(&result_root, "choice"), "properties");
    const struct value *reasons = value_get(value_get(choice, "finish_reason"), "enum");
    for (int i = FINISH_STOP; i <= FINISH_ERROR; i++)
        assert_true(text_equals_string(reasons->array.items[i - FINISH_STOP].text,
                                       finish_reason_name((enum finish_reason)i)));
}

// A result without one of its members, or with another value there.
TEST(results_that_the_schema_refuses_are_refused)
{
    static const struct {
        const char *member, *value; // NULL: left out
    } cases[] = {{"job_id", NULL},
                 {"dataset", NULL},
                 {"custom_id", NULL},
                 {"status", NULL},
                 {"object", NULL},
                 {"choices", NULL},
                 {"usage", NULL},
                 {"job_id", "7"},
                 {"dataset", "null"},
                 {"custom_id", "[]"},
                 {"index", "-1"},
                 {"status", "\"failed\""},
                 {"status", "\"unknown\""},
                 {"object", "\"x\""},
                 {"created", "\"x\""},
                 {"model", "5"},
                 {"system_fingerprint", "5"},
                 {"choices", "{}"},
                 {"choices", "[{}]"},
                 {"choices", "[5]"},
                 {"choice_logprobs", "{}"},
                 {"choice_logprobs", "[5]"},
                 {"choice_logprobs", "[{\"choice\":\"a\",\"logprob\":-1}]"},
                 {"usage", "[]"},
                 {"usage", "{}"},
                 {"warnings", "\"x\""},
                 {"warnings", "[5]"},
                 {"choices",
                  "[{\"text\":\"t\",\"finish_reason\":\"stop\",\"completion_tokens\":1,\"logprobs\":[[]]}]"},
                 {"choices", "[{\"text\":\"t\",\"finish_reason\":\"stop\",\"completion_tokens\":-1}]"},
                 {"choices", "[{\"text\":\"t\",\"finish_reason\":\"\",\"completion_tokens\":1}]"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct value result = decode_golden("result.json"), replacement;
        struct buffer record = {0};
        struct error error;
        size_t n_kept = 0;
        for (size_t j = 0; j < result.object.n_members; j++) {
            struct value_member *member = &result.object.members[j];
            if (text_equals_string(member->key, cases[i].member)) {
                if (!cases[i].value)
                    continue;
                assert_ok(json_decode(text_from_string(cases[i].value), &arena, &replacement, &error),
                          &error);
                member->value = replacement;
            }
            result.object.members[n_kept++] = *member;
        }
        result.object.n_members = n_kept;
        if (schema_takes(&result_root, &result))
            fail_msg("%s %s: taken by the schema", cases[i].member,
                     cases[i].value ? cases[i].value : "left out");
        json_encode(&result, &record);
        struct job *job = job_create();
        if (result_decode(job, (struct text){record.data, record.size}, ENCODING_JSON, &error) !=
            STATUS_REJECT)
            fail_msg("%s %s: taken by the codec", cases[i].member,
                     cases[i].value ? cases[i].value : "left out");
        job_destroy(job);
        buffer_finish(&record);
    }
}

GROUP_FIXTURE(load_schemas, free_schemas);
