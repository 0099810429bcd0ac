// Large and hostile sets of tools: the grammar of a call of any of them is built, or refused by a named
// limit. With --bench VOCABULARY.gguf the sets are timed instead, up to the first mask over that vocabulary,
// in processor time of one thread.
#include "engine/answer/answer_grammar.h"
#include "engine/file/gguf.h"
#include "engine/grammar/grammar.h"
#include "engine/tokenizer/tokenizer.h"
#include "schemas/base/clock.h"
#include "schemas/request.h"
#include "tests/support/cases.h"

enum { N_TOOLS = 500 };

// The parameters of tool `i`.
typedef void write_parameters(struct buffer *out, int i);

static void ordinary(struct buffer *out, int i)
{
    buffer_add_format(
        out,
        "{\"type\":\"object\",\"required\":[\"query_%d\"],\"additionalProperties\":false,\"properties\":{"
        "\"query_%d\":{\"type\":\"string\",\"maxLength\":200},\"limit\":{\"type\":\"integer\","
        "\"minimum\":1,\"maximum\":%d},\"order\":{\"enum\":[\"up\",\"down\",\"by_%d\"]},"
        "\"since\":{\"type\":\"string\",\"format\":\"date\"},\"fields\":{\"type\":\"array\",\"maxItems\":8,"
        "\"items\":{\"type\":\"string\"}},\"place\":{\"type\":\"object\","
        "\"properties\":{\"latitude\":{\"type\":\"number\"},\"longitude\":{\"type\":\"number\"}}}}}",
        i, i, 100 + i, i);
}

static void repeated(struct buffer *out, int i)
{
    buffer_add_format(out,
                      "{\"type\":\"object\",\"properties\":{\"p\":{\"type\":\"string\","
                      "\"pattern\":\"^(((a|b){%d}c){100}d){100}$\"}}}",
                      100 + i);
}

// Each below the limit of one expression.
static void many_repeated(struct buffer *out, int i)
{
    buffer_add_format(out,
                      "{\"type\":\"object\",\"properties\":{\"p\":{\"type\":\"string\","
                      "\"pattern\":\"^((a|b){%d}c){150}$\"}}}",
                      400 + i);
}

// Two patterns have no text together, which takes a search over all their states.
static void searched(struct buffer *out, int i)
{
    buffer_add_format(out,
                      "{\"type\":\"object\",\"properties\":{\"p\":{\"type\":\"string\","
                      "\"allOf\":[{\"pattern\":\"^(a|b)*a(a|b){%d}$\"},"
                      "{\"pattern\":\"^(a|b)*b(a|b){%d}$\"}]}},\"required\":[\"p\"]}",
                      9 + i % 4, 9 + i % 4);
}

// 2^n alternatives of objects.
static void doubled(struct buffer *out, int i)
{
    buffer_add_string(out, "{\"type\":\"object\",\"allOf\":[");
    for (int n = 0; n < 14; n++)
        buffer_add_format(out, "%s{\"anyOf\":[{\"required\":[\"a%d_%d\"]},{\"required\":[\"b%d\"]}]}",
                          n ? "," : "", n, i, n);
    buffer_add_string(out, "]}");
}

static void recursive(struct buffer *out, int i)
{
    buffer_add_format(out,
                      "{\"$ref\":\"#/$defs/n\",\"$defs\":{\"n\":{\"type\":\"object\","
                      "\"properties\":{\"l\":{\"$ref\":\"#/$defs/n\"},\"r\":{\"$ref\":\"#/$defs/n\"},"
                      "\"v%d\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/n\"}}}}}}",
                      i);
}

static void many_names(struct buffer *out, int i)
{
    buffer_add_string(out, "{\"type\":\"object\",\"properties\":{");
    for (int n = 0; n < 300; n++)
        buffer_add_format(out, "%s\"n%d_%d\":{\"type\":\"string\"}", n ? "," : "", n, i);
    buffer_add_string(out, "},\"minProperties\":250,\"additionalProperties\":false}");
}

enum { N_FORMATS = 4 };

static const char *const formats[N_FORMATS] = {"hermes", "llama3-json", "qwen3-coder", "llama3-pythonic"};

// In the first two formats the arguments are one JSON object, in the others each is written by itself; of
// these, qwen3-coder writes strings without quotes. NULL: the set is built.
static const struct tool_set {
    const char *name;
    write_parameters *write;
    const char *refused[N_FORMATS];
} sets[] = {
    {"ordinary", ordinary, {0}},
    {"nested repetitions", repeated, {[2] = "grammar_search: more than 20000"}},
    {"repetitions", many_repeated, {[2] = "grammar_search: more than 20000"}},
    {"patterns without a text",
     searched,
     {"the grammar matches no text", "the grammar matches no text", "the grammar matches no text",
      "the grammar matches no text"}},
    {"doubled alternatives",
     doubled,
     {"schema_alternatives: more than 4096", "schema_alternatives: more than 4096",
      "allOf at /allOf: not enforced", "allOf at /allOf: not enforced"}},
    {"recursion", recursive, {[2] = "$ref at /$ref: not enforced", [3] = "$ref at /$ref: not enforced"}},
    {"counted names",
     many_names,
     {"schema_states: more than 20000", "schema_states: more than 20000",
      "minProperties at /minProperties: not enforced", "minProperties at /minProperties: not enforced"}}};

static struct job *make_job(const struct tool_set *set)
{
    struct buffer record = {0};
    struct error error;
    struct job *job = job_create();
    buffer_add_string(&record,
                      "{\"job_id\":\"j\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[");
    for (int i = 0; i < N_TOOLS; i++) {
        buffer_add_format(
            &record, "%s{\"type\":\"function\",\"function\":{\"name\":\"call_number_%d\",\"parameters\":",
            i ? "," : "", i);
        set->write(&record, i);
        buffer_add_string(&record, "}}");
    }
    buffer_add_string(&record, "],\"tool_choice\":\"required\"}");
    if (job_decode(job, (struct text){record.data, record.size}, ENCODING_JSON, &error) != STATUS_OK)
        fail_msg("%s: %s", set->name, error.text);
    buffer_finish(&record);
    return job;
}

static bool no_specials(const void *context, struct text name)
{
    return false;
}

// The mask of the first token, where there is a vocabulary.
static enum status first_mask(struct grammar *grammar, const struct grammar_vocabulary *vocabulary,
                              uint32_t *mask, struct error *error)
{
    struct recognizer *recognizer = NULL;
    struct matcher matcher = {0};
    enum status status = recognizer_create(&recognizer, grammar, vocabulary, error);
    if (status == STATUS_OK)
        status = matcher_init(&matcher, recognizer, error);
    if (status == STATUS_OK && vocabulary)
        status = matcher_mask(&matcher, mask, error);
    matcher_finish(&matcher);
    recognizer_destroy(recognizer);
    return status;
}

static enum status compile(const struct job *job, const char *format_name,
                           const struct grammar_vocabulary *vocabulary, uint32_t *mask, struct error *error)
{
    struct answer_format format;
    struct grammar *grammar = NULL;
    answer_format_detect(&format, TEXT(""));
    format.tools = tool_format_find(format_name);
    struct answer_task task = {.format = &format, .tools = &job->request.tools, .is_special = no_specials};
    struct rules *rules = rules_create(NULL);
    uint32_t start;
    int32_t function;
    enum status status = answer_grammar_build(&task, rules, &start, &function, error);
    if (status != STATUS_OK) {
        rules_destroy(rules);
        return status;
    }
    status = grammar_create(&grammar, rules, start, error);
    if (status == STATUS_OK)
        status = first_mask(grammar, vocabulary, mask, error);
    grammar_destroy(grammar);
    return status;
}

TEST(large_sets_of_tools_are_built_or_refused_by_a_limit)
{
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        struct job *job = make_job(&sets[i]);
        for (size_t f = 0; f < N_FORMATS; f++) {
            const char *refused = sets[i].refused[f];
            struct error error = {0};
            enum status status = compile(job, formats[f], NULL, NULL, &error);
            if (status != (refused ? STATUS_REJECT : STATUS_OK) || (refused && !strstr(error.text, refused)))
                fail_msg("%s, %s: %s", sets[i].name, formats[f], status == STATUS_OK ? "built" : error.text);
        }
        job_destroy(job);
    }
}

static int run_bench(const char *path)
{
    struct error error;
    struct gguf *gguf = NULL;
    struct tokenizer *tokenizer = NULL;
    if (gguf_open(&gguf, path, &error) != STATUS_OK ||
        tokenizer_open(&tokenizer, gguf, NULL, &error) != STATUS_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    size_t n = (size_t)tokenizer_n_tokens(tokenizer);
    struct buffer *texts = calloc(n, sizeof *texts);
    struct text *tokens = calloc(n, sizeof *tokens);
    uint32_t *mask = calloc(grammar_mask_words(n), sizeof *mask);
    struct grammar_vocabulary *vocabulary = NULL;
    for (size_t id = 0; id < n; id++) {
        tokenizer_decode(tokenizer, (int32_t)id, false, &texts[id]);
        tokens[id] = (struct text){texts[id].data, texts[id].size};
    }
    int64_t from = clock_thread_ns();
    if (grammar_vocabulary_create(&vocabulary, tokens, n, NULL, 0, &error) != STATUS_OK)
        return 1;
    printf("vocabulary of %zu tokens: %.1f ms\n", n, 1e-6 * (double)(clock_thread_ns() - from));
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        struct job *job = make_job(&sets[i]);
        for (size_t f = 0; f < N_FORMATS; f++) {
            from = clock_thread_ns();
            enum status status = compile(job, formats[f], vocabulary, mask, &error);
            printf("%d tools, %s, %s: %.1f ms %s\n", N_TOOLS, sets[i].name, formats[f],
                   1e-6 * (double)(clock_thread_ns() - from), status == STATUS_OK ? "" : error.text);
        }
        job_destroy(job);
    }
    return 0;
}

int main(int n_arguments, char **arguments)
{
    if (n_arguments == 3 && strcmp(arguments[1], "--bench") == 0)
        return run_bench(arguments[2]);
    return cases_run();
}
