// sheaf grammar: compiles a constraint given as in a job, and prints which texts it accepts. With --cases:
// schemas with instances, one JSON line each.
#include "consumer/command/commands.h"
#include "consumer/command/grammar_check.h"
#include "consumer/command/grammar_text.h"
#include "consumer/options/choice_list.h"
#include "engine/json_schema/json_schema.h"
#include "schemas/base/clock.h"
#include "schemas/base/file.h"
#include "schemas/value.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHOICES_MAX = 10000, GRAMMAR_FILE_BYTES_MAX = 16 << 20 };

struct shown_constraint {
    struct grammar *grammar;
    struct recognizer *recognizer;
    struct schema_refusal refusal;
    double compile_us;
};

static void constraint_finish(struct shown_constraint *constraint)
{
    recognizer_destroy(constraint->recognizer);
    grammar_destroy(constraint->grammar);
}

static enum status compile_schema(struct shown_constraint *constraint, struct text schema, bool spaces,
                                  struct error *error)
{
    struct json_schema_options options = {.spacing = spaces ? JSON_SPACING_SPACED : JSON_SPACING_COMPACT,
                                          .has_zero_fractions = true};
    return grammar_compile_json_schema(&constraint->grammar, schema, &options, &constraint->refusal, error);
}

static enum status compile_choice(struct shown_constraint *constraint, char *const *texts,
                                  struct error *error)
{
    struct arena arena = {0};
    struct choice_list list;
    enum status status = choice_list_read(&list, texts, &arena, error);
    if (status == STATUS_OK && list.n > CHOICES_MAX)
        status = error_set(error, STATUS_REFUSE, ERROR_USAGE, "--choice: more than %d choices", CHOICES_MAX);
    if (status == STATUS_OK)
        status = grammar_compile_choice(&constraint->grammar, list.items, list.n, NULL, error);
    arena_finish(&arena);
    return status;
}

// GBNF rules are defined with "::=", Lark rules with ":".
static enum status compile_source(struct shown_constraint *constraint, struct text source,
                                  struct error *error)
{
    if (source.size && memmem(source.data, source.size, "::=", 3))
        return grammar_compile_gbnf(&constraint->grammar, source, NULL, error);
    return grammar_compile_lark(&constraint->grammar, source, NULL, error);
}

static enum status compile_named(struct shown_constraint *constraint, const struct grammar_options *options,
                                 struct error *error)
{
    struct buffer content = {0};
    if (options->regex)
        return grammar_compile_regex(&constraint->grammar, text_from_string(options->regex), NULL, error);
    if (options->choices)
        return compile_choice(constraint, options->choices, error);
    const char *path = options->grammar ? options->grammar : options->json_schema;
    enum status status = file_read(path, GRAMMAR_FILE_BYTES_MAX, &content, error);
    if (status == STATUS_OK && options->grammar)
        status = compile_source(constraint, (struct text){content.data, content.size}, error);
    else if (status == STATUS_OK)
        status =
            compile_schema(constraint, (struct text){content.data, content.size}, options->spaces, error);
    buffer_finish(&content);
    return status;
}

// ---- texts, a line each ----

static void print_verdict(const struct grammar_verdict *verdict, bool json)
{
    if (json)
        printf("{\"valid\": %s, \"byte\": %zu, \"tokens\": %zu, \"forced_tokens\": %zu}\n",
               verdict->valid ? "true" : "false", verdict->byte, verdict->n_tokens, verdict->n_forced);
    else if (verdict->valid)
        printf("accepted, %zu tokens, %zu of them forced\n", verdict->n_tokens, verdict->n_forced);
    else
        printf("refused at byte %zu, after %zu tokens, %zu of them forced\n", verdict->byte,
               verdict->n_tokens, verdict->n_forced);
}

static enum status check_lines(const struct grammar_vocabulary_of *of,
                               const struct shown_constraint *constraint, FILE *input, bool json,
                               struct error *error)
{
    char *line = NULL;
    size_t capacity = 0;
    struct mask_times times = {0};
    enum status status = STATUS_OK;
    for (ssize_t size; status == STATUS_OK && (size = getline(&line, &capacity, input)) >= 0; times.n = 0) {
        struct grammar_verdict verdict;
        struct text text = {line, (size_t)size};
        text.size -= size > 0 && line[size - 1] == '\n';
        status = grammar_check(of, constraint->recognizer, text, &times, &verdict, error);
        if (status == STATUS_OK)
            print_verdict(&verdict, json);
    }
    free(times.us);
    free(line);
    return status;
}

static enum status check_texts(const struct grammar_vocabulary_of *of, const struct settings *settings,
                               FILE *input, struct error *error)
{
    struct shown_constraint constraint = {0};
    int64_t from = clock_thread_ns();
    enum status status = compile_named(&constraint, &settings->grammar, error);
    constraint.compile_us = (double)(clock_thread_ns() - from) / 1000;
    if (status == STATUS_OK)
        status = recognizer_create(&constraint.recognizer, constraint.grammar, of->vocabulary, error);
    if (status == STATUS_OK) {
        const char *format = settings->output.json ? "{\"compile_us\": %.1f, \"bytes\": %zu}\n"
                                                   : "compiled in %.1f us, %zu bytes\n";
        printf(format, constraint.compile_us, grammar_bytes(constraint.grammar));
        status = check_lines(of, &constraint, input, settings->output.json, error);
    }
    constraint_finish(&constraint);
    return status;
}

// ---- cases ----

struct case_result {
    struct buffer verdicts; // the JSON objects of "tests"
    double first_mask_us;
    struct mask_times times;
    size_t n_tokens, n_forced;
};

static enum status first_mask(const struct grammar_vocabulary_of *of, struct shown_constraint *constraint,
                              struct error *error)
{
    struct matcher matcher = {0};
    enum status status =
        recognizer_create(&constraint->recognizer, constraint->grammar, of->vocabulary, error);
    if (status == STATUS_OK)
        status = matcher_init(&matcher, constraint->recognizer, error);
    if (status == STATUS_OK)
        status = matcher_mask(&matcher, of->mask, error);
    matcher_finish(&matcher);
    return status;
}

static enum status check_instances(const struct grammar_vocabulary_of *of,
                                   struct shown_constraint *constraint, const struct json_node *tests,
                                   struct grammar_text_style style, struct case_result *result,
                                   struct error *error)
{
    enum status status = STATUS_OK;
    for (const struct json_node *test = tests ? tests->first : NULL; test && status == STATUS_OK;
         test = test->next) {
        const struct json_node *data = json_member_named(test, "data");
        struct buffer text = {0};
        struct grammar_verdict verdict;
        if (!data)
            return error_set(error, STATUS_REJECT, ERROR_MISSING_FIELD, "a test without \"data\"");
        grammar_text_write(data, style, &text);
        status = grammar_check(of, constraint->recognizer, (struct text){text.data, text.size},
                               &result->times, &verdict, error);
        buffer_finish(&text);
        buffer_add_format(&result->verdicts, "%s{\"valid\": %s}", test->index ? ", " : "",
                          verdict.valid ? "true" : "false");
        result->n_tokens += verdict.n_tokens;
        result->n_forced += verdict.n_forced;
    }
    return status;
}

static int compare_times(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

// Prints a histogram of sorted times. Count k is the number of masks that took more than 2^((k - 1) / 8) us
// and at most 2^(k / 8) us; count 0 has no lower bound. Histograms of several cases can be added up,
// percentiles cannot.
static void print_histogram(const struct mask_times *times)
{
    const double step = 1.0905077326652577; // 2^(1 / 8)
    double bound = 1;
    size_t at = 0;
    printf(", \"histogram\": [");
    for (bool first = true; at < times->n; first = false, bound *= step) {
        size_t from = at;
        while (at < times->n && times->us[at] <= bound)
            at++;
        printf("%s%zu", first ? "" : ", ", at - from);
    }
    putchar(']');
}

static void print_times(struct mask_times *times)
{
    double sum = 0;
    size_t n = times->n;
    if (n)
        qsort(times->us, n, sizeof *times->us, compare_times);
    for (size_t i = 0; i < n; i++)
        sum += times->us[i];
    printf("\"mask_us\": {\"count\": %zu, \"avg\": %.2f, \"p50\": %.2f, \"p99\": %.2f, \"max\": %.2f", n,
           n ? sum / (double)n : 0, n ? times->us[n / 2] : 0, n ? times->us[n * 99 / 100] : 0,
           n ? times->us[n - 1] : 0);
    print_histogram(times);
    putchar('}');
}

static void print_string(const char *name, struct text text, bool is_null)
{
    struct buffer out = {0};
    json_encode_string(text, &out);
    printf("\"%s\": %s, ", name, is_null || out.failed ? "null" : out.data);
    buffer_finish(&out);
}

static void print_case(const struct json_node *name, enum status status,
                       const struct shown_constraint *constraint, struct case_result *result,
                       const struct error *error)
{
    const struct schema_refusal *refusal = &constraint->refusal;
    bool ok = status == STATUS_OK, named = !ok && refusal->keyword[0];
    bool refused = named && error->code == ERROR_UNSUPPORTED_FIELD;
    putchar('{');
    print_string("name", name ? name->text : (struct text){0}, !name || name->kind != JSON_STRING);
    printf("\"status\": \"%s\", ", ok ? "ok" : refused ? "refused" : "error");
    print_string("keyword", text_from_string(refusal->keyword), !named);
    print_string("pointer", text_from_string(refusal->pointer), !named);
    print_string("error", text_from_string(error->text), ok);
    printf("\"tests\": [%s], \"first_mask_us\": %.2f, ",
           ok && result->verdicts.data ? result->verdicts.data : "", result->first_mask_us);
    print_times(&result->times);
    printf(", \"tokens\": %zu, \"forced_tokens\": %zu}\n", result->n_tokens, result->n_forced);
}

// A refused schema is printed as a result of its case. An error is returned only if the command cannot
// continue.
static enum status check_case(const struct grammar_vocabulary_of *of, const struct json_node *node,
                              bool spaces, struct error *error)
{
    struct shown_constraint constraint = {0};
    struct case_result result = {0};
    struct buffer schema = {0};
    const struct json_node *given = json_member_named(node, "schema");
    if (!given)
        return error_set(error, STATUS_REFUSE, ERROR_MISSING_FIELD, "a case without \"schema\"");
    grammar_text_write(given, (struct grammar_text_style){0}, &schema);
    int64_t from = clock_thread_ns();
    enum status status = compile_schema(&constraint, (struct text){schema.data, schema.size}, spaces, error);
    if (status == STATUS_OK)
        status = first_mask(of, &constraint, error);
    result.first_mask_us = (double)(clock_thread_ns() - from) / 1000;
    if (status == STATUS_OK)
        status = check_instances(of, &constraint, json_member_named(node, "tests"),
                                 (struct grammar_text_style){spaces, grammar_text_numbers_of(given)}, &result,
                                 error);
    if (status == STATUS_OK || status == STATUS_REJECT) {
        print_case(json_member_named(node, "name"), status, &constraint, &result, error);
        status = STATUS_OK;
    }
    constraint_finish(&constraint);
    buffer_finish(&result.verdicts);
    buffer_finish(&schema);
    free(result.times.us);
    return status;
}

static enum status check_cases(const struct grammar_vocabulary_of *of, FILE *input, bool spaces,
                               struct error *error)
{
    struct grammar_limits limits = grammar_limits_default;
    limits.values[GRAMMAR_LIMIT_SOURCE_BYTES] = GRAMMAR_FILE_BYTES_MAX; // a line: schema and instances
    limits.values[GRAMMAR_LIMIT_DEPTH] *= 4;
    char *line = NULL;
    size_t capacity = 0;
    long long number = 0;
    enum status status = STATUS_OK;
    for (ssize_t size; status == STATUS_OK && (size = getline(&line, &capacity, input)) >= 0;) {
        struct arena arena = {0};
        struct json_document document;
        number++;
        status = json_document_read((struct text){line, (size_t)size}, &limits, &arena, &document, error);
        if (status == STATUS_OK)
            status = check_case(of, document.root, spaces, error);
        if (status != STATUS_OK)
            error_prefix(error, "cases: line %lld", number);
        arena_finish(&arena);
    }
    free(line);
    return status;
}

static enum status check_settings(const struct settings *settings, struct error *error)
{
    int n = !!settings->grammar.json_schema + !!settings->grammar.regex + !!settings->grammar.choices +
            !!settings->grammar.grammar + !!settings->grammar.cases;
    if (n != 1)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "expected one of --json-schema, --regex, --choice, --grammar and --cases, got %d",
                         n);
    if (settings->grammar.cases && settings->line.n_positionals > 1)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s: --cases holds its own texts",
                         settings->line.positionals[1]);
    if (settings->grammar.cases && !settings->output.json)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "--cases: its results are JSON lines: --json is needed");
    return STATUS_OK;
}

enum status command_grammar(const struct settings *settings, struct error *error)
{
    struct grammar_vocabulary_of of = {0};
    const char *path = settings->grammar.cases            ? settings->grammar.cases
                       : settings->line.n_positionals > 1 ? settings->line.positionals[1]
                                                          : "-";
    enum status status = check_settings(settings, error);
    if (status != STATUS_OK)
        return status;
    FILE *input = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
    if (!input)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: %s", path, strerror(errno));
    status = grammar_vocabulary_of_model(&of, settings->line.positionals[0], error);
    if (status == STATUS_OK)
        status = settings->grammar.cases ? check_cases(&of, input, settings->grammar.spaces, error)
                                         : check_texts(&of, settings, input, error);
    grammar_vocabulary_of_finish(&of);
    if (input != stdin)
        fclose(input);
    return status;
}
