// Every single allocation of a prompt's preparation fails, alone and with all after it: template, tokenizer
// and warnings. It is the host's fault, never the job's.
#include "batching/sequence.h"
#include "tests/support/cases.h"
#include "tests/support/failing_memory.h"
#include "tests/support/job_records.h"
#include "tests/support/vocabulary_file.h"

// Uses up the job's memory, so that the first warning asks for more.
static void fill_arena(struct job *job)
{
    failing_memory.fails_alone = false;
    failing_memory.n_left = 0;
    while (arena_allocate(&job->arena, 1))
        continue;
    failing_memory.n_left = -1;
    failing_memory.has_failed = false;
}

static struct prompt *prepare_record(const struct prompt_environment *environment, const char *record,
                                     bool alone, long n_good)
{
    struct job *job = decode_good(record);
    struct prompt *prompt = prompt_create(job);
    assert_non_null(prompt);
    fill_arena(job);
    failing_memory.fails_alone = alone;
    failing_memory.n_left = n_good;
    (void)!prompt_prepare(prompt, environment);
    failing_memory.n_left = -1;
    return prompt;
}

static void finish_prompt(struct prompt *prompt)
{
    struct job *job = prompt->job;
    prompt_destroy(prompt);
    job_destroy(job);
}

static void assert_like(const struct prompt *prompt, const struct prompt *whole)
{
    assert_int_equal(prompt->tokens.n_ids, whole->tokens.n_ids);
    assert_memory_equal(prompt->tokens.ids, whole->tokens.ids,
                        whole->tokens.n_ids * sizeof *whole->tokens.ids);
    assert_int_equal(prompt->job->result.n_warnings, whole->job->result.n_warnings);
}

static void fail_each_allocation(const struct prompt_environment *environment, const char *record,
                                 int n_warnings, long n_least)
{
    struct prompt *whole = prepare_record(environment, record, false, -1);
    if (whole->error.status != STATUS_OK)
        fail_msg("%s: %s", record, whole->error.text);
    assert_int_equal(whole->job->result.n_warnings, n_warnings);
    for (int alone = 0; alone < 2; alone++) {
        long n_good = 0;
        bool failed;
        do {
            struct prompt *prompt = prepare_record(environment, record, alone, n_good++);
            failed = failing_memory.has_failed;
            if (prompt->error.status == STATUS_OK)
                assert_like(prompt, whole);
            else if (!failed || prompt->error.status == STATUS_REJECT ||
                     prompt->error.code != ERROR_OUT_OF_MEMORY)
                fail_msg("%s: allocation %ld: status %d: %s", record, n_good, prompt->error.status,
                         prompt->error.text);
            finish_prompt(prompt);
        } while (failed);
        assert_in_range(n_good, n_least, 100000);
    }
    finish_prompt(whole);
}

static struct tokenizer *open_tokenizer(void)
{
    struct vocabulary_file file = {0};
    struct error error;
    add_spm_start(&file);
    add_token(&file, "\xE2\x96\x81", 0, TYPE_NORMAL); // the blank
    struct tokenizer *tokenizer = vocabulary_file_open(&file, "llama", NULL, &error);
    assert_non_null(tokenizer);
    return tokenizer;
}

#define MESSAGE "'messages':[{'role':'user','content':'x'}]"
#define TOOL    "'tools':[{'type':'function','function':{'name':'f'}}]"

TEST(no_job_fails_because_memory_runs_out_while_it_is_prepared)
{
    static const struct {
        const char *record;
        int n_warnings;
        long n_least; // allocations
    } cases[] = {
        {"{'job_id':'a','prompt':'a text','min_tokens':2}", 0, 3},
        {"{'job_id':'a','prompt':'<s>x'}", 1, 4},
        {"{'job_id':'a'," MESSAGE "}", 0, 5},
        {"{'job_id':'a'," MESSAGE ",'add_special_tokens':true}", 1, 6},
        {"{'job_id':'a'," MESSAGE "," TOOL
         ",'tool_choice':'required','response_format':{'type':'json_object'}}",
         1, 6},
    };
    struct error error;
    struct template *template;
    struct tokenizer *tokenizer = open_tokenizer();
    static const char source[] = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}";
    assert_ok(template_parse(&template, text_from_string(source), &error), &error);
    struct prompt_environment environment = {
        .tokenizer = tokenizer,
        .chat_template = template,
        .tool_template = template,
        .tool_format = {.tools = tool_format_find("hermes")},
        .limits = {.n_context = 4096, .n_context_original = 4096, .n_positions_max = 4096, .n_vocab = 1000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        fail_each_allocation(&environment, cases[i].record, cases[i].n_warnings, cases[i].n_least);
    template_destroy(template);
    tokenizer_close(tokenizer);
}
