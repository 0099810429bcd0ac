// Templates, tokenizers and grammars: every single allocation fails, alone and with all after it. The result
// is an error that says so or the whole one, never a part of it. The linker redirects malloc, calloc and
// realloc to this file.
#include "engine/grammar/grammar.h"
#include "engine/json_schema/json_schema.h"
#include "engine/template/template.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocabulary.h"
#include "schemas/value.h"
#include "tests/support/cases.h"
#include "tests/support/failing_memory.h"

// The result of a task, on memory that never fails.
struct rendered_output {
    char bytes[8192];
    size_t size;
};

static void put_bytes(struct rendered_output *output, const void *bytes, size_t size)
{
    assert_true(output->size + size <= sizeof output->bytes);
    memcpy(output->bytes + output->size, bytes, size);
    output->size += size;
}

typedef enum status task_function(const char *source, struct rendered_output *output, struct error *error);

static void fail_each_allocation(task_function *task, const char *source, long n_least)
{
    static struct rendered_output whole, output;
    struct error error = {0};
    whole.size = 0;
    failing_memory_record(true);
    if (task(source, &whole, &error) != STATUS_OK)
        fail_msg("%s: %s", source, error.text);
    failing_memory_record(false);
    assert_true(whole.size > 0);
    for (int alone = 0; alone < 2; alone++) {
        long n_good = 0;
        failing_memory.fails_alone = alone;
        do {
            while (failing_memory_is_repeated(n_good))
                n_good++;
            output.size = 0;
            error = (struct error){0};
            failing_memory.has_failed = false;
            failing_memory.n_left = n_good++;
            enum status status = task(source, &output, &error);
            failing_memory.n_left = -1;
            if (status != STATUS_OK && (!failing_memory.has_failed || error.code != ERROR_OUT_OF_MEMORY))
                fail_msg("%s: allocation %ld: %s", source, n_good, error.text);
            if (status == STATUS_OK &&
                (output.size != whole.size || memcmp(output.bytes, whole.bytes, whole.size) != 0))
                fail_msg("%s: allocation %ld, %s: another result", source, n_good,
                         alone ? "alone" : "and all after it");
        } while (failing_memory.has_failed);
        assert_in_range(n_good, n_least, 1000000);
    }
}

// ---- templates ----

static struct value variables;

static enum status render(const char *source, struct rendered_output *output, struct error *error)
{
    static const struct template_environment environment = {.bos_token = TEXT("<s>"),
                                                            .eos_token = TEXT("</s>"),
                                                            .now_s = 1721952000};
    struct template *template = NULL;
    struct buffer out = {0};
    enum status status = template_parse(&template, text_from_string(source), error);
    if (status == STATUS_OK)
        status = template_render(template, &variables, &environment, &out, error);
    if (status == STATUS_OK)
        put_bytes(output, out.data, out.size);
    buffer_finish(&out);
    template_destroy(template);
    return status;
}

TEST(a_template_renders_whole_or_not_at_all)
{
    static const char *const sources[] = {
        "{% for m in messages %}{{ loop.index }}<|{{ m.role }}|>{{ m['content'] | trim }}{{ eos_token }}{% endfor %}",
        "{% set n = namespace(x=0) %}{% for m in messages if m.role == 'user' %}{% set n.x = n.x + 1 %}{% endfor %}"
        "{{ n.x }}{{ messages | tojson }}{{ messages | map(attribute='role') | join(', ') | upper }}",
        "{% macro f(a, b=2) %}[{{ a }}{{ b }}]{% endmacro %}{{ f(1) }}{{ f('x', [1, {'k': none}]) }}"
        "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k ~ v }}{% endfor %}{{ 'a,b,c'.split(',') | reverse | list }}",
        "{% set x %}{% for i in range(40) %}{{ 'abc' * i }}{% endfor %}{% endset %}{{ x | length }}{{ x[:40] | title }}"
        "{{ messages[0].content.replace('o', '00') }}{{ [3, 1, 2] | sort }}{{ ('%d' ~ 1) | string }}"};
    struct arena arena = {0};
    struct error error;
    assert_int_equal(
        json_decode(TEXT("{\"messages\": [{\"role\": \"user\", \"content\": \" Hello w\xC3\xB6rld \"},"
                         "{\"role\": \"assistant\", \"content\": \"ok\"},"
                         "{\"role\": \"user\", \"content\": \"\"}]}"),
                    &arena, &variables, &error),
        STATUS_OK);
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        fail_each_allocation(render, sources[i], 5);
    arena_finish(&arena);
}

// ---- tokenizers ----

static enum status tokenize(const char *source, struct rendered_output *output, struct error *error)
{
    struct vocabulary vocabulary = {0};
    struct tokenizer *tokenizer = NULL;
    struct token_array ids = {0};
    struct buffer text = {0};
    enum status status =
        vocabulary_parse_json(&vocabulary, &(struct vocabulary_json){.tokenizer = text_from_string(source)},
                              error);
    if (status == STATUS_OK)
        status = tokenizer_create(&tokenizer, &vocabulary, error);
    vocabulary_finish(&vocabulary);
    if (status == STATUS_OK)
        status = tokenizer_encode(tokenizer, TEXT("ab a\xC3\xA9 abab<s>b  11 ab."), TOKENIZER_PARSE_SPECIAL,
                                  &ids, error);
    if (status == STATUS_OK && ids.failed)
        status = error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "ids");
    for (size_t i = 0; i < ids.n_ids && status == STATUS_OK; i++)
        tokenizer_decode(tokenizer, ids.ids[i], true, &text);
    if (text.failed)
        status = error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "text");
    if (status == STATUS_OK) {
        put_bytes(output, ids.ids, ids.n_ids * sizeof *ids.ids);
        put_bytes(output, text.data, text.size);
    }
    buffer_finish(&text);
    token_array_finish(&ids);
    tokenizer_close(tokenizer);
    return status;
}

TEST(a_tokenizer_is_built_and_encodes_whole_or_not_at_all)
{
#define BYTES_MODEL                                                                                          \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"\xC4\xA0\":2,\"ab\":3,\"\xC4\xA0"              \
    "ab\":4,\"\xC3\x83\":5,\"\xC2\xA9\":6,\"\xC3\x83\xC2\xA9\":7,\"1\":8,\"11\":9,\"A\":10},"                \
    "\"merges\":[[\"a\",\"b\"],[\"\xC4\xA0\",\"ab\"],[\"\xC3\x83\",\"\xC2\xA9\"],[\"1\",\"1\"]]}"
    static const char *const sources[] = {
        "{\"added_tokens\":[{\"id\":11,\"content\":\"<s>\",\"special\":true}],\"normalizer\":{\"type\":\"NFC\"},"
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}," BYTES_MODEL "}",
        "{\"added_tokens\":[{\"id\":11,\"content\":\"<s>\",\"special\":true,\"rstrip\":true}],"
        "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"b\"},\"content\":\"ab\"},"
        "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":true},"
        "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}]}," BYTES_MODEL "}"};
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        fail_each_allocation(tokenize, sources[i], 10);
}

// ---- grammars ----

static enum status compile(const char *source, struct grammar **grammar, struct error *error)
{
    struct text text = text_from_string(source + 1);
    struct text choices[] = {text, TEXT("ab"), TEXT("abc")};
    if (*source == 'r')
        return grammar_compile_regex(grammar, text, NULL, error);
    if (*source == 'c')
        return grammar_compile_choice(grammar, choices, 3, NULL, error);
    if (*source == 'g')
        return grammar_compile_gbnf(grammar, text, NULL, error);
    if (*source == 'l')
        return grammar_compile_lark(grammar, text, NULL, error);
    struct schema_refusal refusal;
    uint32_t start;
    struct rules *rules = rules_create(NULL);
    if (!rules)
        return error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "rules");
    enum status status = json_schema_compile(text, NULL, rules, &start, &refusal, error);
    if (status == STATUS_OK)
        return grammar_create(grammar, rules, start, error);
    rules_destroy(rules);
    return status;
}

// Twenty tokens, each the first one allowed behind the one before it, with all that a matcher is asked.
static enum status match(struct recognizer *recognizer, uint32_t n_tokens, struct rendered_output *output,
                         struct error *error)
{
    struct matcher matcher = {0};
    struct buffer forced = {0};
    uint32_t bits[8], n_left = 0;
    enum status status = matcher_init(&matcher, recognizer, error);
    for (int i = 0; i < 20 && status == STATUS_OK; i++) {
        bool accepted = false, must_end = false;
        uint32_t token = 0;
        forced.size = 0;
        status = matcher_mask(&matcher, bits, error);
        if (status == STATUS_OK)
            status = matcher_tokens_to_end(&matcher, &n_left, error);
        if (status == STATUS_OK)
            status = matcher_forced_bytes(&matcher, 9, &forced, error);
        if (status == STATUS_OK)
            status = matcher_must_end(&matcher, &must_end, error);
        if (status != STATUS_OK)
            break;
        put_bytes(output, bits, sizeof *bits * grammar_mask_words(n_tokens));
        put_bytes(output, &n_left, sizeof n_left);
        put_bytes(output, forced.data ? forced.data : "", forced.size);
        put_bytes(output, &must_end, sizeof must_end);
        while (token < n_tokens && !(bits[token / 32] >> token % 32 & 1))
            token++;
        if (token == n_tokens || must_end)
            break;
        status = matcher_accept_token(&matcher, token, &accepted, error);
        assert_true(accepted || status != STATUS_OK);
    }
    buffer_finish(&forced);
    matcher_finish(&matcher);
    return status;
}

static enum status constrain(const char *source, struct rendered_output *output, struct error *error)
{
    static const char *const tokens[] = {"\"x", "{\"", "{", "}",    "ab",   "abc", "b", "a",
                                         "\"",  ":",   ",", "true", "1",    "2.5", "[", "]",
                                         "-",   "e",   " ", "\xC3", "\xA9", ""};
    enum { N = sizeof tokens / sizeof *tokens };
    struct text texts[N];
    for (int i = 0; i < N; i++)
        texts[i] = text_from_string(tokens[i]);
    struct grammar *grammar = NULL;
    struct grammar_vocabulary *vocabulary = NULL;
    struct recognizer *recognizer = NULL;
    enum status status = compile(source, &grammar, error);
    if (status == STATUS_OK)
        status = grammar_vocabulary_create(&vocabulary, texts, N, &(uint32_t){N - 1}, 1, error);
    if (status == STATUS_OK)
        status = recognizer_create(&recognizer, grammar, vocabulary, error);
    if (status == STATUS_OK)
        status = match(recognizer, N, output, error);
    if (status == STATUS_OK) // the automaton is there
        status = match(recognizer, N, output, error);
    if (recognizer)
        recognizer_destroy(recognizer);
    if (vocabulary)
        grammar_vocabulary_destroy(vocabulary);
    if (grammar)
        grammar_destroy(grammar);
    return status;
}

TEST(a_grammar_is_compiled_and_matched_whole_or_not_at_all)
{
    static const char *const sources[] = {
        "r(ab|a[bc]{2,5}|\xC3\xA9+)*b",
        "cabcab",
        "groot ::= \"ab\" item* \"b\"\nitem ::= [a-c] | \"\\\"\" item \"\\\"\"\n",
        "lstart: A (B | start)* \"b\"\nA: \"a\" \"b\"?\nB: /[bc]+/\n",
        "s{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"maxLength\":4},\"b\":{\"type\":\"integer\","
        "\"minimum\":-3,\"maximum\":250}},\"required\":[\"a\"],\"additionalProperties\":{\"type\":\"array\",\"items\":"
        "{\"enum\":[1,\"ab\",null,true]}}}",
        "s{\"$defs\":{\"t\":{\"anyOf\":[{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/t\"}},{\"pattern\":\"^a+b$\","
        "\"type\":\"string\"},{\"type\":\"number\",\"multipleOf\":0.75}]}},\"$ref\":\"#/$defs/t\"}",
        "s{\"$id\":\"http://a/b/c.json\",\"properties\":{\"ab\":{\"$ref\":\"#x\"},\"b\":{\"$ref\":\"d.json\"}},"
        "\"patternProperties\":{\"^a\":{\"format\":\"date\"}},\"required\":[\"b\"],\"additionalProperties\":false,\"$defs\":{"
        "\"x\":{\"$anchor\":\"x\",\"type\":\"string\",\"format\":\"time\"},\"y\":{\"$id\":\"d.json\",\"type\":\"boolean\"}}}",
        "s{\"properties\":{\"a\":{\"const\":1}},\"patternProperties\":{\"^b\":{\"type\":\"null\"}},"
        "\"unevaluatedProperties\":false,\"type\":\"object\"}",
        "s{\"type\":\"array\",\"uniqueItems\":true,\"maxItems\":2,\"items\":{\"enum\":[1,2,true]}}"};
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        fail_each_allocation(constrain, sources[i], 10);
}
