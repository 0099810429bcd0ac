// Prompts of a table's rows: which records they become, and what is refused before any row is read.
#include "consumer/annotate/row_prompt.h"
#include "tests/support/cases.h"

#include <unistd.h>

static struct text names[] = {TEXT("id"), TEXT("review"), TEXT("a.b"), TEXT("row"), TEXT("raw")};
static const struct table_columns columns = {.names = names, .n = 5};
enum { REVIEW = 1, ROW = 3, RAW = 4 };

// ---- files of a folder that the group owns ----

static char folder[] = "/tmp/unit_row_prompt_XXXXXX";

static const char *const file_names[] = {"p", "s", "m", "parameters", "schema"};
enum { N_FILES = sizeof file_names / sizeof *file_names };
static char paths[N_FILES][64];

static const char *write_file(const char *name, const char *content)
{
    size_t i = 0;
    while (strcmp(name, file_names[i]) != 0)
        i++;
    snprintf(paths[i], sizeof paths[i], "%s/%s", folder, name);
    FILE *file = fopen(paths[i], "w");
    assert_non_null(file);
    assert_int_equal(fwrite(content, 1, strlen(content), file), strlen(content));
    assert_int_equal(fclose(file), 0);
    return paths[i];
}

static int create_folder(void **state)
{
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    for (size_t i = 0; i < N_FILES; i++)
        unlink(paths[i]);
    return rmdir(folder);
}

// ---- records ----

static struct value fields[5];

static void open_prompt(struct row_prompt *prompt, const struct row_prompt_options *options)
{
    struct error error;
    assert_ok(row_prompt_open(prompt, options, &columns, &error), &error);
}

static void assert_record(struct row_prompt *prompt, int64_t seed, const char *expected)
{
    struct buffer record = {0};
    struct error error;
    const struct table_row row = {.fields = fields};
    assert_ok(row_prompt_render(prompt, &row, &record, &error), &error);
    row_prompt_end(prompt, seed, &record);
    buffer_add_byte(&record, '\0');
    assert_false(record.failed);
    assert_string_equal(record.data, expected);
    buffer_finish(&record);
}

// The record of the usual row.
static void assert_record_of(const struct row_prompt_options *options, const char *expected)
{
    struct row_prompt prompt;
    open_prompt(&prompt, options);
    assert_record(&prompt, 9, expected);
    row_prompt_close(&prompt);
}

static int fill_row(void **state)
{
    fields[0] = (struct value){.kind = VALUE_INTEGER, .integer = 7};
    fields[REVIEW] = value_string(TEXT("good \"one\""));
    fields[2] = value_string(TEXT("dot"));
    fields[ROW] = value_string(TEXT("r"));
    fields[RAW] = (struct value){.kind = VALUE_NULL};
    return 0;
}

#define USER(content) "{\"messages\":[{\"role\":\"user\",\"content\":\"" content "\"}]"

TEST_WITH(a_record_holds_the_rendered_messages, fill_row, NULL)
{
    const char *prompt = write_file("p", "{{ review }}: {{ row['a.b'] }}, {{ row.row }}\n");
    assert_record_of(&(struct row_prompt_options){.prompt = prompt},
                     USER("good \\\"one\\\": dot, r") ",\"temperature\":0}");
    assert_record_of(&(struct row_prompt_options){.prompt = prompt,
                                                  .system = write_file("s", "Number {{ id }}\n\n\n")},
                     "{\"messages\":[{\"role\":\"system\",\"content\":\"Number 7\\n\"},"
                     "{\"role\":\"user\",\"content\":\"good \\\"one\\\": dot, r\"}],\"temperature\":0}");
    assert_record_of(
        &(struct row_prompt_options){
            .messages = write_file("m", "{\"role\":\"system\",\"content\":\"s\"}\n"
                                        "{\"role\":\"user\",\"content\":\"{{ review }}\"}\n")},
        "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},"
        "{\"role\":\"user\",\"content\":\"good \\\"one\\\"\"}],\"temperature\":0}");
}

TEST_WITH(a_prompt_is_rendered_for_one_row_after_another, fill_row, NULL)
{
    struct row_prompt prompt;
    open_prompt(&prompt,
                &(struct row_prompt_options){
                    .messages = write_file("m", "{\"role\":\"user\",\"content\":\"{{ review }}\"}")});
    assert_record(&prompt, 0, USER("good \\\"one\\\"") ",\"temperature\":0}");
    fields[REVIEW] = value_string(TEXT("\"},{"));
    assert_record(&prompt, 0, USER("\\\"},{") ",\"temperature\":0}");
    row_prompt_close(&prompt);
}

// `row` as a whole lists its members in the order that the caller gives.
TEST_WITH(the_members_of_row_have_the_order_that_is_asked_for, fill_row, NULL)
{
    static const uint16_t order[] = {RAW, ROW, REVIEW, 0, 2};
    struct row_prompt prompt;
    open_prompt(&prompt, &(struct row_prompt_options){.prompt = write_file("p", "{{ row | join('-') }}")});
    assert_true(prompt.read.all && prompt.read.is_used[2]);
    assert_record(&prompt, 0, USER("id-review-a.b-row-raw") ",\"temperature\":0}");
    prompt.read.order = order;
    assert_record(&prompt, 0, USER("raw-row-review-id-a.b") ",\"temperature\":0}");
    row_prompt_close(&prompt);
}

TEST_WITH(columns_that_templates_name_are_noted_once_in_their_order, fill_row, NULL)
{
    struct row_prompt prompt;
    open_prompt(&prompt,
                &(struct row_prompt_options){.prompt = write_file("p", "{{ row.raw }}{{ review }}{{ raw }}"),
                                             .system = write_file("s", "{{ id }}{{ review }}")});
    const uint16_t expected[] = {RAW, REVIEW, 0};
    assert_int_equal(prompt.read.n_mentioned, 3);
    assert_memory_equal(prompt.read.mentioned, expected, sizeof expected);
    assert_false(prompt.read.all);
    assert_false(prompt.read.is_used[2]);
    assert_false(prompt.read.is_used[ROW]);
    assert_true(prompt.read.is_used[0] && prompt.read.is_used[REVIEW] && prompt.read.is_used[RAW]);
    row_prompt_close(&prompt);
}

// ---- fields that no prompt can hold ----

TEST_WITH(a_row_is_rejected_for_what_its_prompt_reads_alone, fill_row, NULL)
{
    static const struct {
        struct value value;
        const char *expected;
    } faults[] = {
        {{.kind = VALUE_BYTES, .text = TEXT("ab")}, "column \"raw\" holds bytes, which no prompt can read"},
        {{.kind = VALUE_STRING, .text = TEXT("a\xFF")}, "column \"raw\" holds text that is not UTF-8"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const struct table_row row = {.fields = fields};
        struct buffer record = {0};
        struct row_prompt prompt;
        struct error error;
        fields[RAW] = faults[i].value;
        open_prompt(&prompt, &(struct row_prompt_options){.prompt = write_file("p", "{{ raw }}")});
        assert_int_equal(row_prompt_render(&prompt, &row, &record, &error), STATUS_REJECT);
        assert_int_equal(error.code, ERROR_TEMPLATE);
        assert_string_equal(error.text, faults[i].expected);
        row_prompt_close(&prompt);
        const char *others = write_file("p", "{{ id }}");
        assert_record_of(&(struct row_prompt_options){.prompt = others}, USER("7") ",\"temperature\":0}");
        buffer_clear(&record);
        open_prompt(&prompt, &(struct row_prompt_options){.prompt = others, .needs_utf8 = true});
        assert_int_equal(row_prompt_render(&prompt, &row, &record, &error), STATUS_REJECT);
        row_prompt_close(&prompt);
        buffer_finish(&record);
    }
}

// ---- parameters and seeds ----

TEST_WITH(options_override_the_parameters_of_the_file, fill_row, NULL)
{
    const char *prompt = write_file("p", "x");
    const char *parameters =
        write_file("parameters", "{\"top_p\":0.5,\"temperature\":0.7,\"max_tokens\":5,\"stop\":[\"\\n\"]}");
    assert_record_of(&(struct row_prompt_options){.prompt = prompt,
                                                  .parameters = parameters,
                                                  .given = {{"max_tokens", "max-tokens", "8"},
                                                            {"top_k", "top-k", NULL},
                                                            {"temperature", "temperature", "0"}}},
                     USER("x") ",\"top_p\":0.5,\"stop\":[\"\\n\"],\"max_tokens\":8,\"temperature\":0}");
}

TEST_WITH(drawn_answers_have_a_seed_in_their_record, fill_row, NULL)
{
    const char *prompt = write_file("p", "x");
    struct row_prompt_options options = {.prompt = prompt, .given = {{"temperature", "temperature", "0.5"}}};
    assert_record_of(&options, USER("x") ",\"temperature\":0.5,\"seed\":9}");
    options.given[0].value = "0.0";
    assert_record_of(&options, USER("x") ",\"temperature\":0.0}");
    options.needs_seeds = true; // all draws of temperature 0 would be equal
    assert_record_of(&options, USER("x") ",\"temperature\":0.0}");
    options.given[0].value = NULL; // the model's own temperature
    assert_record_of(&options, USER("x") ",\"seed\":9}");
}

TEST_WITH(a_seed_is_an_option_s_or_the_file_s, fill_row, NULL)
{
    struct row_prompt prompt;
    struct row_prompt_options options = {.prompt = write_file("p", "x")};
    open_prompt(&prompt, &options);
    assert_false(prompt.seeding.is_given || prompt.seeding.is_added);
    row_prompt_close(&prompt);
    options.has_seed = true;
    options.seed = -3;
    open_prompt(&prompt, &options);
    assert_true(prompt.seeding.is_given);
    assert_int_equal(prompt.seeding.value, -3);
    row_prompt_close(&prompt);
    options.parameters = write_file("parameters", "{\"seed\":12}");
    options.has_seed = false;
    open_prompt(&prompt, &options);
    assert_true(prompt.seeding.is_given);
    assert_int_equal(prompt.seeding.value, 12);
    assert_record(&prompt, 9, USER("x") ",\"temperature\":0}");
    row_prompt_close(&prompt);
}

// ---- schemas and choices ----

#define FORMAT(schema)                                                                                       \
    USER("x")                                                                                                \
    ",\"temperature\":0,\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"answer\"," \
    "\"schema\":" schema "}}}"

TEST_WITH(a_schema_with_columns_is_an_object_of_these_alone, fill_row, NULL)
{
    static const char *const cases[][2] = {
        {"{\"properties\":{\"a\":true}}",
         "{\"properties\":{\"a\":true},\"type\":\"object\",\"additionalProperties\":false}"},
        {"{\"type\":\"object\",\"properties\":{\"a\":true}}",
         "{\"type\":\"object\",\"properties\":{\"a\":true},\"additionalProperties\":false}"},
        {"{\"type\":\"object\",\"properties\":{\"a\":true},\"additionalProperties\":true}",
         "{\"type\":\"object\",\"properties\":{\"a\":true},\"additionalProperties\":true}"},
        {"{\"type\":\"object\",\"allOf\":[{\"properties\":{\"a\":true}}]}",
         "{\"type\":\"object\",\"allOf\":[{\"properties\":{\"a\":true}}],\"unevaluatedProperties\":false}"},
        {"{\"type\":\"string\"}", "{\"type\":\"string\"}"},
        {"{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\",\"schema\":{\"type\":\"integer\"}}}",
         "{\"type\":\"integer\"}"},
    };
    const char *prompt = write_file("p", "x");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char expected[512];
        snprintf(expected, sizeof expected, FORMAT("%s"), cases[i][1]);
        assert_record_of(&(struct row_prompt_options){.prompt = prompt,
                                                      .schema = write_file("schema", cases[i][0])},
                         expected);
    }
}

TEST_WITH(choices_ask_for_the_scores_that_the_columns_need, fill_row, NULL)
{
    struct row_prompt_options options = {.prompt = write_file("p", "x"),
                                         .choices = (char *[]){"no", "\"a,b\"", NULL}};
    assert_record_of(&options,
                     USER("x") ",\"temperature\":0,\"structured_outputs\":{\"choice\":[\"no\",\"a,b\"]}}");
    options.scores_choices = true;
    assert_record_of(&options, USER("x") ",\"temperature\":0,\"structured_outputs\":{\"choice\":[\"no\",\"a,"
                                         "b\"]},\"choice_logprobs\":true,\"choice_logprobs_decide\":true}");
    options.choices = (char *[]){"no,no idea", NULL};
    options.needs_seeds = true;
    assert_record_of(
        &options, USER("x") ",\"structured_outputs\":{\"choice\":[\"no\",\"no idea\"]},\"choice_logprobs\":"
                            "true,\"choice_logprobs_include_end\":true,\"seed\":9}");
}

// ---- refusals ----

static void assert_refused(const struct row_prompt_options *options, const struct table_columns *of,
                           enum error_code code, const char *expected)
{
    struct row_prompt prompt;
    struct error error;
    assert_int_equal(row_prompt_open(&prompt, options, of, &error), STATUS_REFUSE);
    if (!strstr(error.text, expected))
        fail_msg("expected \"%s\" in: %s", expected, error.text);
    assert_int_equal(error.code, code);
}

TEST(names_that_are_no_columns_are_refused_with_a_hint)
{
    static struct text many[] = {TEXT("one"), TEXT("two"),   TEXT("three"), TEXT("four"), TEXT("five"),
                                 TEXT("six"), TEXT("seven"), TEXT("eight"), TEXT("nine"), TEXT("ten")};
    static struct text joined[] = {TEXT("id;review")};
    static const struct table_columns ten = {many, 10}, eight = {many, 8}, one = {joined, 1};
    const struct {
        const char *template;
        const struct table_columns *columns;
        const char *expected;
    } cases[] = {
        {"\n{{ reveiw }}", &columns, "/p: line 2: there is no column \"reveiw\"; the nearest is \"review\""},
        {"{% if review %}\n{{ review|shout }}{% endif %}", &columns, "/p: line 2: no filter named 'shout'"},
        {"{% if review %}\n{{ review.upper }}{% endif %}", &columns,
         "/p: line 2: \"upper\" is a method of texts: call it, with ()"},
        {"{{ row.review.title if id }}", &columns,
         "line 1: \"title\" is a method of texts: call it, with ()"},
        {"{{ row['review'].strip }}", &columns, "line 1: \"strip\" is a method of texts: call it, with ()"},
        {"{{ row.reviews }}", &columns, "there is no column \"reviews\"; the nearest is \"review\""},
        {"{{ a.b }}", &columns, "there is no column \"a\"; \"a.b\" is row['a.b']"},
        {"{{ review }}", &one, "; the table has one column, \"id;review\": is its delimiter another"},
        {"{{ title }}", &ten,
         "; the table has \"one\", \"two\", \"three\", \"four\", \"five\", \"six\", \"seven\", \"eight\" and 2 "
         "others"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(&(struct row_prompt_options){.prompt = write_file("p", cases[i].template)},
                       cases[i].columns, ERROR_TEMPLATE, cases[i].expected);
    struct row_prompt prompt;
    struct error error;
    const struct row_prompt_options options = {.prompt = write_file("p", "{{ title }}")};
    assert_int_equal(row_prompt_open(&prompt, &options, &eight, &error), STATUS_REFUSE);
    assert_null(strstr(error.text, "others"));
    static const struct table_columns empty = {0}; // an empty table has no rows that could lack one
    assert_ok(row_prompt_open(&prompt, &options, &empty, &error), &error);
    row_prompt_close(&prompt);
}

TEST(parameters_that_no_job_has_are_refused_before_any_row)
{
    static const struct {
        const char *parameters, *expected;
    } cases[] = {
        {"[]", "/parameters: expected a JSON object, got array"},
        {"{", "/parameters"},
        {"{\"n\":2}", "/parameters: \"n\" is no parameter of all rows"},
        {"{\"messages\":[]}", "\"messages\" is no parameter of all rows"},
        {"{\"created\":1}", "\"created\" is no parameter of all rows"},
        {"{\"seed\":1.5}", "/parameters: seed: expected an integer"},
        {"{\"top_p\":2}", "the parameters of all rows: top_p: expected a number"},
        {"{\"temprature\":1}", "--parameters: unknown field \"temprature\"; the nearest is temperature"},
    };
    const char *prompt = write_file("p", "x");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(&(struct row_prompt_options){.prompt = prompt,
                                                    .parameters =
                                                        write_file("parameters", cases[i].parameters)},
                       &columns, ERROR_USAGE, cases[i].expected);
    assert_refused(&(struct row_prompt_options){.prompt = prompt,
                                                .given = {{"temperature", "temperature", "\"1\""}}},
                   &columns, ERROR_USAGE, "--temperature: expected a number, got \"\"1\"\"");
    assert_refused(&(struct row_prompt_options){.prompt = prompt, .choices = (char *[]){"a,a", NULL}},
                   &columns, ERROR_USAGE, "\"a\" occurs twice");
}

// ---- questions ----

TEST(a_question_follows_the_prompt_after_an_empty_line)
{
    struct value_member members[] = {{TEXT("max_tokens"), {.kind = VALUE_INTEGER, .integer = 8}},
                                     {TEXT("top_p"), {.kind = VALUE_FLOAT, .number = 0.5}}};
    struct text labels[] = {TEXT("a"), TEXT("b")};
    struct question question = {.name = TEXT("tone"),
                                .prompt = TEXT("Of {{ id }}?\n"),
                                .source = "q.yaml: question \"tone\"",
                                .choices = {.items = labels, .n = 2},
                                .parameters = {.kind = VALUE_OBJECT}};
    question.parameters.object.members = members;
    question.parameters.object.n_members = 2;
    const struct row_prompt_options options = {.prompt = write_file("p", "{{ review }}\n"),
                                               .parameters = write_file("parameters",
                                                                        "{\"max_tokens\":5,\"min_p\":0.25}"),
                                               .question = &question,
                                               .given = {{"top_p", "top-p", "0.1"}}};
    assert_record_of(&options,
                     "{\"messages\":[{\"role\":\"user\",\"content\":\"good \\\"one\\\"\\n\\nOf 7?\"}],"
                     "\"min_p\":0.25,\"max_tokens\":8,\"top_p\":0.5,\"temperature\":0,"
                     "\"structured_outputs\":{\"choice\":[\"a\",\"b\"]}}");
    question.prompt = TEXT("{{ revew }}");
    assert_refused(
        &options, &columns, ERROR_TEMPLATE,
        "q.yaml: question \"tone\": line 1: there is no column \"revew\"; the nearest is \"review\"");
}

GROUP_FIXTURE(create_folder, remove_folder);
