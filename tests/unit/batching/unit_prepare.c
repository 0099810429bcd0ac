// From a job to a prompt's tokens: which template is rendered, what it sees, and where special tokens are
// added.
#include "batching/sequence.h"
#include "tests/support/cases.h"
#include "tests/support/job_records.h"
#include "tests/support/vocabulary_file.h"

static const char usual_source[] = "{{ messages[0].content }}";
static const char tools_source[] = "tools:{{ tools|length }} {{ messages[0].content }}";

struct prepare_fixture {
    struct tokenizer *tokenizer;
    struct template *usual, *tools;
    int32_t im_end; // the control token <|im_end|>
    struct prompt_environment environment;
};

static struct template *parse(const char *source)
{
    struct template *template;
    struct error error;
    assert_ok(template_parse(&template, text_from_string(source), &error), &error);
    return template;
}

// A SentencePiece vocabulary, which adds bos; <pad> and <|im_end|> beside it.
static struct prepare_fixture open_fixture(const char *usual, const char *tools)
{
    struct vocabulary_file file = {0};
    struct error error;
    add_spm_start(&file);
    add_token(&file, "\xE2\x96\x81", 0, TYPE_NORMAL); // the blank
    add_key_u32(&file, "tokenizer.ggml.padding_token_id",
                (uint32_t)add_token(&file, "<pad>", 0, TYPE_CONTROL));
    int32_t im_end = add_token(&file, "<|im_end|>", 0, TYPE_CONTROL);
    struct prepare_fixture fixture = {.tokenizer = vocabulary_file_open(&file, "llama", NULL, &error),
                                      .im_end = im_end};
    assert_non_null(fixture.tokenizer);
    fixture.usual = usual ? parse(usual) : NULL;
    fixture.tools = tools ? parse(tools) : NULL;
    fixture.environment = (struct prompt_environment){
        .tokenizer = fixture.tokenizer,
        .chat_template = fixture.usual,
        .tool_template = fixture.tools,
        .tool_format = {.tools = tool_format_find("hermes")},
        .limits = {.n_context = 4096, .n_context_original = 4096, .n_positions_max = 4096, .n_vocab = 1000}};
    return fixture;
}

static void close_fixture(struct prepare_fixture *fixture)
{
    template_destroy(fixture->usual);
    template_destroy(fixture->tools);
    tokenizer_close(fixture->tokenizer);
}

struct prepared_prompt {
    struct job *job;
    struct prompt *prompt;
    char text[512]; // of the tokens, special ones shown
};

static struct prepared_prompt prepare_record(const struct prepare_fixture *fixture, const char *record)
{
    struct prepared_prompt prepared = {.job = decode_good(record)};
    prepared.prompt = prompt_create(prepared.job);
    assert_non_null(prepared.prompt);
    (void)!prompt_prepare(prepared.prompt, &fixture->environment);
    struct buffer text = {0};
    for (size_t i = 0; i < prepared.prompt->tokens.n_ids; i++)
        tokenizer_decode(fixture->tokenizer, prepared.prompt->tokens.ids[i], true, &text);
    snprintf(prepared.text, sizeof prepared.text, "%.*s", (int)text.size, text.data ? text.data : "");
    buffer_finish(&text);
    return prepared;
}

static void finish_prompt(struct prepared_prompt *prepared)
{
    prompt_destroy(prepared->prompt);
    job_destroy(prepared->job);
}

static void assert_warns(const struct prepare_fixture *fixture, const char *record, const char *expected,
                         int32_t n_warnings)
{
    struct prepared_prompt prepared = prepare_record(fixture, record);
    if (prepared.prompt->error.status != STATUS_OK)
        fail_msg("%s: %s", record, prepared.prompt->error.text);
    if (strcmp(prepared.text, expected) != 0)
        fail_msg("%s: expected \"%s\", got \"%s\"", record, expected, prepared.text);
    assert_int_equal(prepared.job->result.n_warnings, n_warnings);
    finish_prompt(&prepared);
}

static void assert_prepares(const struct prepare_fixture *fixture, const char *record, const char *expected)
{
    assert_warns(fixture, record, expected, 0);
}

static void assert_rejects(const struct prepare_fixture *fixture, const char *record, const char *expected)
{
    struct prepared_prompt prepared = prepare_record(fixture, record);
    assert_int_equal(prepared.prompt->error.status, STATUS_REJECT);
    assert_string_equal(prepared.prompt->error.text, expected);
    finish_prompt(&prepared);
}

#define CHAT(more) "{'job_id':'a','messages':[{'role':'user','content':'x'}]" more "}"

// --- Templates ---

#define TOOL(name) "{'type':'function','function':{'name':'" name "'}}"

TEST(tools_choose_the_template_that_is_named_for_them)
{
    struct prepare_fixture fixture = open_fixture(usual_source, tools_source);
    assert_prepares(&fixture, CHAT(""), " x");
    assert_prepares(&fixture, CHAT(",'tools':[" TOOL("f") "," TOOL("g") "]"), " tools:2 x");
    assert_prepares(&fixture, CHAT(",'tools':[]"), " tools:0 x"); // as transformers: given is given
    assert_warns(&fixture, CHAT(",'tools':[" TOOL("f") "],'tool_choice':'none'"), " x", 1);
    fixture.environment.tool_format.tools = NULL;
    assert_rejects(
        &fixture, CHAT(",'tools':[" TOOL("f") "]"),
        "tools: the model's chat template takes none; --tool-format of the worker names a format of "
        "calls all the same");
    close_fixture(&fixture);
    fixture = open_fixture(NULL, tools_source);
    assert_prepares(&fixture, CHAT(",'tools':[" TOOL("f") "]"), " tools:1 x");
    assert_rejects(&fixture, CHAT(""),
                   "messages: the model has no chat template; send a prompt, or give the "
                   "worker one with --chat-template");
    close_fixture(&fixture);
    fixture = open_fixture(usual_source, NULL);
    assert_rejects(
        &fixture, CHAT(",'tools':[" TOOL("f") "]"),
        "messages: the model has no chat template for tools; send a prompt, or give the worker one with "
        "--chat-template");
    close_fixture(&fixture);
}

TEST(a_last_message_is_continued_where_its_text_ends)
{
    static const char source[] =
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}#\n{% endfor %}{% if add_generation_prompt "
        "%}[assistant]{% endif %}",
                      trims[] =
                          "{% for m in messages %}{{ m.content|trim }}#{{ messages|length }}{% endfor %}",
                      hides[] = "{% for m in messages %}{{ m.content|upper }}{% endfor %}";
#define LAST(text) "{'job_id':'a','messages':[{'role':'u','content':'A'},{'role':'a','content':'" text "'}]"
    struct prepare_fixture fixture = open_fixture(source, NULL);
    assert_prepares(&fixture, LAST("So ") "}", " [u]A#\n[a]So #\n[assistant]");
    assert_prepares(&fixture, LAST("So ") ",'add_generation_prompt':false}", " [u]A#\n[a]So #\n");
    assert_prepares(&fixture, LAST(" So  ") ",'continue_final_message':true}", " [u]A#\n[a] So  ");
    assert_prepares(&fixture, LAST("A") ",'continue_final_message':true,'add_generation_prompt':false}",
                    " [u]A#\n[a]A");
    close_fixture(&fixture);
    fixture = open_fixture(trims, NULL);
    assert_prepares(&fixture, LAST(" So  ") ",'continue_final_message':true}", " A#2So");
    close_fixture(&fixture);
    fixture = open_fixture(hides, NULL);
    assert_rejects(&fixture, LAST("So") ",'continue_final_message':true}",
                   "continue_final_message: the chat template does not write the last message's text");
    assert_rejects(&fixture, LAST("so and longer") ",'continue_final_message':true}",
                   "continue_final_message: the chat template does not write the last message's text");
    close_fixture(&fixture);
#undef LAST
}

TEST(templates_see_what_transformers_passes)
{
    struct prepare_fixture fixture = open_fixture(
        "{{ [bos_token, eos_token, unk_token, pad_token, tools, documents, messages[0].content] }}", NULL);
    assert_prepares(&fixture, CHAT(""), " ['<s> ', '</s> ', '<unk> ', '<pad> ', None, None, 'x']");
    close_fixture(&fixture);
    fixture = open_fixture("{{ messages[0].tool_calls[0].function.arguments|tojson }}", NULL);
    assert_prepares(
        &fixture,
        "{'job_id':'a','messages':[{'role':'assistant','tool_calls':[{'function':{'name':'f','arguments':"
        "'{\\'city\\': \\'Paris\\'}'}}]}]}",
        " {\"city\": \"Paris\"}");
    close_fixture(&fixture);
}

TEST(the_date_is_that_of_the_submission_and_else_of_the_record)
{
    struct prepare_fixture fixture = open_fixture("{{ strftime_now('%F') }}{{ messages[0].content }}", NULL);
    assert_prepares(&fixture, CHAT(",'created':1721952000"), " 2024-07-26x");
    assert_rejects(
        &fixture, CHAT(""),
        "messages: the chat template: line 1: strftime_now: the time of submission is not known; the job needs a \"created\"");
    struct job *job = decode_good(CHAT(""));
    job->source.written_s = 1721952000;
    struct prompt *prompt = prompt_create(job);
    assert_int_equal(prompt_prepare(prompt, &fixture.environment), STATUS_OK);
    prompt_destroy(prompt);
    job_destroy(job);
    close_fixture(&fixture);
}

// --- Special tokens ---

TEST(bos_is_added_to_a_prompt_and_left_to_the_template_of_a_chat)
{
    struct prepare_fixture fixture = open_fixture(usual_source, NULL);
    assert_prepares(&fixture, "{'job_id':'a','prompt':'x'}", "<s> x");
    assert_prepares(&fixture, "{'job_id':'a','prompt':'x','add_special_tokens':true}", "<s> x");
    assert_prepares(&fixture, "{'job_id':'a','prompt':'x','add_special_tokens':false}", " x");
    assert_prepares(&fixture, "{'job_id':'a','prompt':'<s>x','add_special_tokens':false}", "<s> x");
    assert_prepares(&fixture, "{'job_id':'a','prompt':[5],'add_special_tokens':true}", "\x02");
    assert_prepares(&fixture, CHAT(""), " x");
    assert_prepares(&fixture, CHAT(",'add_special_tokens':true"), "<s> x");
    close_fixture(&fixture);
    fixture = open_fixture("{{ bos_token }}{{ messages[0].content }}", NULL);
    assert_prepares(&fixture, CHAT(""), "<s> x");
    close_fixture(&fixture);
}

TEST(a_text_that_begins_with_bos_gets_no_second_one_and_a_warning)
{
    struct prepare_fixture fixture = open_fixture("{{ bos_token }}{{ messages[0].content }}", NULL);
    static const char *const records[] = {"{'job_id':'a','prompt':'<s>x'}",
                                          CHAT(",'add_special_tokens':true")};
    for (int i = 0; i < 2; i++) {
        struct prepared_prompt prepared = prepare_record(&fixture, records[i]);
        assert_int_equal(prepared.prompt->error.status, STATUS_OK);
        assert_string_equal(prepared.text, "<s> x");
        assert_int_equal(prepared.job->result.prompt_tokens, prepared.prompt->tokens.n_ids);
        assert_int_equal(prepared.job->result.n_warnings, 1);
        assert_true(text_equals_string(prepared.job->result.warnings[0],
                                       "the prompt begins with <s>: no second one is added"));
        finish_prompt(&prepared);
    }
    // A second one that the text itself has is the text's.
    struct prepared_prompt prepared = prepare_record(&fixture, "{'job_id':'a','prompt':'<s><s>'}");
    assert_string_equal(prepared.text, "<s><s>");
    finish_prompt(&prepared);
    assert_prepares(&fixture, "{'job_id':'a','prompt':''}", "<s>");
    close_fixture(&fixture);
}

static void assert_ends(const struct prepare_fixture *fixture, const char *record, int n_expected)
{
    struct prepared_prompt prepared = prepare_record(fixture, record);
    const struct token_array *tokens = &prepared.prompt->tokens;
    int n = 0;
    assert_int_equal(prepared.prompt->error.status, STATUS_OK);
    for (size_t i = 0; i < tokens->n_ids; i++)
        n += tokens->ids[i] == fixture->im_end;
    assert_int_equal(n, n_expected);
    assert_non_null(strstr(prepared.text, " a<|im_end|>")); // as text or as one token
    finish_prompt(&prepared);
}

TEST(a_control_token_in_a_message_is_text_unless_the_worker_reads_it_there)
{
    static const char source[] = "{% for m in messages %}{{ m.content }}{% endfor %}<|im_end|>",
                      chat[] = "{'job_id':'a','messages':[{'role':'user','content':'a<|im_end|>b'}]}",
                      prompt[] =
                          "{'job_id':'a','prompt':'a<|im_end|>b<|im_end|>','add_special_tokens':false}",
                      last[] =
                          "{'job_id':'a','messages':[{'role':'user','content':'a<|im_end|>b<|im_end|>'}],"
                          "'continue_final_message':true}";
    struct prepare_fixture fixture = open_fixture(source, NULL);
    for (int special = 0; special < 2; special++) {
        fixture.environment.special_in_content = special;
        assert_ends(&fixture, chat, special ? 2 : 1); // the template's own is one
        assert_ends(&fixture, last, special ? 2 : 0);
        assert_ends(&fixture, prompt, 2); // a prompt has no messages
    }
    close_fixture(&fixture);
}

// --- Length ---

// Of a text of n_bytes letters.
static void assert_refuses(const struct prepare_fixture *fixture, const char *before, size_t n_bytes,
                           const char *after, size_t n_tokens, const char *expected)
{
    struct buffer record = {0};
    buffer_add_string(&record, before);
    for (size_t i = 0; i < n_bytes; i++)
        buffer_add_byte(&record, 'x');
    buffer_add_string(&record, after);
    buffer_add_byte(&record, '\0');
    struct prepared_prompt prepared = prepare_record(fixture, record.data);
    assert_int_equal(prepared.prompt->error.status, STATUS_REJECT);
    assert_string_equal(prepared.prompt->error.text, expected);
    assert_int_equal(prepared.prompt->tokens.n_ids, n_tokens);
    finish_prompt(&prepared);
    buffer_finish(&record);
}

// The longest token is <|im_end|>, of ten bytes.
TEST(a_text_that_is_too_long_by_its_bytes_is_refused_before_it_is_tokenized)
{
    static const char text[] = "{'job_id':'a','prompt':'",
                      chat[] = "{'job_id':'a','messages':[{'role':'user','content':'", chat_end[] = "'}]}",
                      choices[] = "{'job_id':'a','prompt':'x','choice_logprobs':true,'guided_choice':['y','",
                      choices_end[] = "']}";
    struct prepare_fixture fixture = open_fixture(usual_source, NULL);
#define HOLDS "the model's context holds 4096 tokens: "
    assert_refuses(&fixture, text, 40960, "'}", 40962,
                   HOLDS "the prompt has 40962, which leaves no room for an answer");
    assert_refuses(&fixture, text, 40961, "'}", 0,
                   HOLDS "the prompt has at least 4097, which leaves no room for an answer");
    assert_refuses(&fixture, chat, 40961, chat_end, 0,
                   HOLDS "the prompt has at least 4097, which leaves no room for an answer");
    assert_refuses(&fixture, choices, 40930, choices_end, 3,
                   HOLDS "the prompt and its longest choice have 40932");
    assert_refuses(&fixture, choices, 40961, choices_end, 3,
                   HOLDS "the prompt and its longest choice have at least 4099");
    fixture.environment.limits.n_context = 1 << 20;
    assert_refuses(&fixture, text, 10 * (size_t)JOB_TOKENS_MAX + 1, "'}", 0,
                   "the prompt has at least 524289 tokens, more than the limit of 524288");
    close_fixture(&fixture);
}
