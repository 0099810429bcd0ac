// A chat's messages on their way into the prompt: each text and call arrives, or refuses the job, or is a
// warning in its result. With small templates, and with real ones where the shared data is there.
#include "batching/chat.h"
#include "tests/support/cases.h"
#include "tests/support/job_records.h"
#include "tests/support/shared_data.h"

#include <dirent.h>

struct rendered_chat {
    struct job *job;
    struct buffer text;
    struct error error;
    enum status status;
};

static struct template *parse(struct text source)
{
    struct template *template;
    struct error error;
    assert_ok(template_parse(&template, source, &error), &error);
    return template;
}

// `spans` may be NULL: control tokens in content are not asked for.
static struct rendered_chat render_with(struct text source, const char *record, struct text_spans *spans)
{
    struct rendered_chat rendered = {.job = decode_good(record)};
    struct template *template = parse(source);
    struct answer_format format = {0};
    const struct template_environment environment = {
        .bos_token = TEXT("<s>"), .eos_token = TEXT("</s>"), .now_s = 1721952000, .content = spans};
    answer_format_detect(&format, source);
    rendered.status =
        chat_render(rendered.job, template, &environment, &format, &rendered.text, &rendered.error);
    buffer_add_byte(&rendered.text, '\0');
    template_destroy(template);
    return rendered;
}

static struct rendered_chat render(const char *source, const char *record)
{
    struct text_spans spans = {0};
    struct rendered_chat rendered = render_with(text_from_string(source), record, &spans);
    text_spans_finish(&spans);
    return rendered;
}

static void finish_chat(struct rendered_chat *rendered)
{
    buffer_finish(&rendered->text);
    job_destroy(rendered->job);
}

// `warnings`: joined by line feeds.
static void assert_renders(const char *source, const char *record, const char *expected, const char *warnings)
{
    struct rendered_chat rendered = render(source, record);
    if (rendered.status != STATUS_OK)
        fail_msg("%s\n%s\n%s", source, record, rendered.error.text);
    assert_int_equal(rendered.error.status, STATUS_OK); // the prompt's: it would fail the job
    assert_string_equal(rendered.text.data, expected);
    struct buffer joined = {0};
    for (int32_t i = 0; i < rendered.job->result.n_warnings; i++) {
        buffer_add_string(&joined, i ? "\n" : "");
        buffer_add_text(&joined, rendered.job->result.warnings[i]);
    }
    buffer_add_byte(&joined, '\0');
    assert_string_equal(joined.data, warnings);
    buffer_finish(&joined);
    finish_chat(&rendered);
}

static void assert_refuses(const char *source, const char *record, const char *expected)
{
    struct rendered_chat rendered = render(source, record);
    assert_int_equal(rendered.status, STATUS_REJECT);
    assert_string_equal(rendered.error.text, expected);
    assert_int_equal(rendered.error.code, ERROR_TEMPLATE);
    assert_string_equal(rendered.text.data, ""); // an error leaves the text as it was
    finish_chat(&rendered);
}

#define MESSAGE(role, text) "{'role':'" role "','content':'" text "'}"
#define CHAT(messages)      "{'job_id':'a','messages':[" messages "]}"
#define WITH(more)          "{'job_id':'a','messages':[" MESSAGE("user", "x") "]," more "}"

static const char any_role[] = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}",
                  known_roles[] = "{% for m in messages %}{% if m.role in ['system', 'user', 'assistant'] %}"
                                  "[{{ m.role }}]{{ m.content }}{% endif %}{% endfor %}",
                  first_system[] =
                      "{% for m in messages %}{% if m.role == 'user' or loop.first %}{{ m.content }};"
                      "{% endif %}{% endfor %}",
                  with_calls[] = "{% for m in messages %}{% if m.tool_calls %}"
                                 "{{ m.tool_calls[0].function.arguments | tojson }}{% else %}{{ m.content }}"
                                 "{% endif %}{% endfor %}";

// ---- roles ----

TEST(a_developer_is_the_system_where_the_template_does_not_name_it)
{
#define RENAMED(index)                                                                                       \
    "messages[" index "].role: the chat template does not name \"developer\": the message is rendered as "   \
    "\"system\""
    assert_renders(known_roles, CHAT(MESSAGE("developer", "d") "," MESSAGE("user", "u")), "[system]d[user]u",
                   RENAMED("0"));
    assert_renders(any_role,
                   CHAT(MESSAGE("user", "u") "," MESSAGE("developer", "d") "," MESSAGE("developer", "e")),
                   "[user]u[system]d[system]e", RENAMED("1"));
    assert_renders("{% for m in messages %}{% if m['role'] == 'developer' %}D{% endif %}{{ m.content }}"
                   "{% endfor %}",
                   CHAT(MESSAGE("developer", "d")), "Dd", "");
    // Text that is printed, a comment and another word do not name it.
    assert_renders("developer{# 'developer' #}<{{ 'developer_start' }}>{% for m in messages %}{{ m.role }}"
                   "{% endfor %}{{ messages[0].content }}",
                   CHAT(MESSAGE("developer", "d")), "developer<developer_start>systemd", RENAMED("0"));
}

TEST(a_message_that_vanishes_refuses_the_job_with_its_index_and_role)
{
#define LOST(index, role)                                                                                    \
    "messages[" index "].content: nothing of this text arrives in the prompt: the chat template leaves out " \
    "this message of role \"" role "\""
    assert_refuses(known_roles, CHAT(MESSAGE("user", "u") "," MESSAGE("human", "h")), LOST("1", "human"));
    assert_refuses(known_roles, CHAT(MESSAGE("function", "f") "," MESSAGE("user", "u")),
                   LOST("0", "function"));
    assert_refuses(first_system,
                   CHAT(MESSAGE("system", "a") "," MESSAGE("system", "b") "," MESSAGE("user", "u")),
                   LOST("1", "system"));
    assert_refuses("{{ messages[1].content }}", CHAT(MESSAGE("developer", "d") "," MESSAGE("user", "u")),
                   LOST("0", "developer"));
    assert_renders(known_roles, CHAT(MESSAGE("human", " \\n ") "," MESSAGE("user", "u")), "[user]u", "");
    assert_renders(any_role, CHAT(MESSAGE("human", "h")), "[human]h", "");
    // The same text is there, but it is another message's.
    assert_refuses(known_roles, CHAT(MESSAGE("human", "same") "," MESSAGE("user", "same")),
                   LOST("0", "human"));
}

TEST(a_text_arrives_however_it_is_transformed)
{
    const char *const record = CHAT(MESSAGE("system", "ab") "," MESSAGE("user", "cd"));
    assert_renders("{{ messages | tojson }}", record,
                   "[{\"role\": \"system\", \"content\": \"ab\"}, {\"role\": \"user\", \"content\": \"cd\"}]",
                   "");
    assert_renders("{% for m in messages %}{{ m.content | upper }}{% endfor %}", record, "ABCD", "");
    assert_renders("{% macro say(m) %}<{{ m.content }}>{% endmacro %}{% for m in messages %}{{ say(m) }}"
                   "{% endfor %}",
                   record, "<ab><cd>", "");
    assert_renders("{% set all = namespace(text='') %}{% for m in messages %}"
                   "{% set all.text = all.text ~ m.content ~ ';' %}{% endfor %}{{ all.text | upper }}",
                   record, "AB;CD;", "");
    assert_renders("{% set both %}{{ messages[0].content }}{{ messages[1].content }}{% endset %}"
                   "{{ both[1:3] }}",
                   record, "bc", "");
    assert_renders("{{ messages | map(attribute='content') | join('') }}", record, "abcd", "");
    // A text that the template only tests, or concatenates without printing, has not arrived.
    assert_refuses("{% if messages[0].content == 'ab' %}yes{% endif %}{{ messages[1].content }}", record,
                   LOST("0", "system"));
    assert_refuses("{% set both %}{{ messages[0].content }}{{ messages[1].content }}{% endset %}"
                   "{{ both[2:] }}",
                   record, LOST("0", "system"));
    assert_refuses("{% set all = namespace(text='') %}{% for m in messages %}"
                   "{% set all.text = all.text ~ m.content %}{% endfor %}{{ all.text[:2] }}",
                   record, LOST("1", "user"));
}

// Pages of provenance have one source, or a number for each of their bytes.
TEST(each_of_many_messages_is_known_by_its_own_bytes)
{
    struct buffer record = {0};
    buffer_add_string(&record, "{'job_id':'a','messages':[");
    for (int i = 0; i < 600; i++)
        buffer_add_format(&record, "%s{'role':'user','content':'%d %0*d'}", i ? "," : "", i,
                          i % 50 == 0 ? 9000 : 1, 0);
    buffer_add_string(&record, "]}");
    for (int left_out = 0; left_out < 600; left_out += 37) {
        char source[200], expected[200];
        snprintf(
            source, sizeof source,
            "{%% set out %%}{%% for m in messages %%}{%% if loop.index0 != %d %%}{{ m.content }}{%% endif %%}"
            "{%% endfor %%}{%% endset %%}{{ out }}",
            left_out);
        snprintf(expected, sizeof expected,
                 "messages[%d].content: nothing of this text arrives in the prompt: the chat template leaves "
                 "out this message of role \"user\"",
                 left_out);
        assert_refuses(source, record.data, expected);
    }
    buffer_finish(&record);
}

TEST(what_the_template_refuses_names_the_message_and_its_role)
{
    static const char no_system[] =
        "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
        "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('roles must alternate') }}{% endif %}{{ m.content }}{% endfor %}";
    assert_refuses(no_system, CHAT(MESSAGE("system", "s") "," MESSAGE("user", "u")),
                   "messages[0]: role \"system\": the chat template: line 1: System role not supported");
    assert_refuses(no_system, CHAT(MESSAGE("developer", "s") "," MESSAGE("user", "u")),
                   "messages[0]: role \"developer\": the chat template: line 1: System role not supported");
    assert_refuses(no_system,
                   CHAT(MESSAGE("user", "1") "," MESSAGE("assistant", "2") "," MESSAGE(
                       "user", "3") "," MESSAGE("user", "4") "," MESSAGE("assistant", "5")),
                   "messages[3]: role \"user\": the chat template: line 1: roles must alternate");
    struct rendered_chat rendered =
        render("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
               CHAT(MESSAGE("user", "1")));
    assert_int_equal(rendered.error.code, ERROR_LIMIT_EXCEEDED);
    assert_non_null(strstr(rendered.error.text, "messages: the chat template: line 1: "));
    finish_chat(&rendered);
}

TEST(switches_and_thoughts_may_be_taken_away)
{
    static const char takes[] =
        "{{ messages[0].content | replace('/no_think', '') }}{% for m in messages[1:] %}"
        "{{ m.content.split('</think>')[-1] }}{% endfor %}";
    assert_renders(takes, CHAT(MESSAGE("system", "/no_think") "," MESSAGE("user", "u")), "u", "");
    assert_renders(takes,
                   CHAT(MESSAGE("user", "u") "," MESSAGE("assistant",
                                                         "<think>t</think>\\n") "," MESSAGE("user", "v")),
                   "u\nv", "");
    assert_refuses(takes, CHAT(MESSAGE("user", "u") "," MESSAGE("user", "t</think>")), LOST("1", "user"));
    assert_refuses("{{ messages[1].content }}", CHAT(MESSAGE("user", "content") "," MESSAGE("user", "v")),
                   LOST("0", "user"));
    assert_refuses(takes, CHAT(MESSAGE("user", "u") "," MESSAGE("assistant", "a <think>t</think>")),
                   LOST("1", "assistant")); // an answer before its thoughts is no text of thoughts alone
}

TEST(a_text_of_white_space_of_any_kind_may_vanish)
{
    static const char trims[] = "{% for m in messages %}{{ m.content | trim }}{% endfor %}";
    assert_renders(trims,
                   CHAT(MESSAGE("user", "u") "," MESSAGE("assistant",
                                                         "\\u00a0\\u3000 \\u001f") "," MESSAGE("user", "v")),
                   "uv", "");
    assert_refuses("{{ messages[0].content }}", CHAT(MESSAGE("user", "u") "," MESSAGE("user", "\\u00a0x")),
                   LOST("1", "user"));
}

// ---- calls ----

#define CALL(text)                                                                                           \
    "{'role':'assistant'," text "'tool_calls':[{'id':'c','type':'function','function':{'name':'f',"          \
    "'arguments':'{\\'a\\':\\'b\\'}'}}]}"

TEST(a_call_that_vanishes_refuses_the_job)
{
#define LOST_CALL                                                                                            \
    "messages[1].tool_calls[0]: nothing of the call of \"f\" arrives in the prompt: the chat template "      \
    "leaves out this call of role \"assistant\""
    const char *const adds = "{% for m in messages %}{{ m.role + m.content }}{% endfor %}";
    assert_refuses(known_roles, CHAT(MESSAGE("user", "u") "," CALL("'content':'',")), LOST_CALL);
    assert_refuses(known_roles, CHAT(MESSAGE("user", "u") "," CALL("'content':null,")), LOST_CALL);
    assert_refuses(adds, CHAT(MESSAGE("user", "u") "," CALL("'content':null,")), LOST_CALL);
    assert_renders(with_calls, CHAT(MESSAGE("user", "u") "," CALL("'content':null,")), "u{\"a\": \"b\"}", "");
    assert_refuses(known_roles, CHAT(MESSAGE("user", "u") "," MESSAGE("tool", "t")), LOST("1", "tool"));
}

TEST(a_second_call_that_vanishes_refuses_the_job)
{
    const char *const two =
        CHAT(MESSAGE("user", "u") ",{'role':'assistant','tool_calls':[{'function':{'name':'f','arguments':'{"
                                  "\\'a\\':\\'b\\'}'}},{'function':{'name':'g','arguments':'{}'}}]}");
    assert_refuses(with_calls, two,
                   "messages[1].tool_calls[1]: nothing of the call of \"g\" arrives in the prompt: the chat "
                   "template leaves out this call of role \"assistant\"");
}

TEST(a_text_beside_calls_that_is_left_out_is_a_warning)
{
    assert_renders(
        with_calls, CHAT(MESSAGE("user", "u") "," CALL("'content':'text',")), "u{\"a\": \"b\"}",
        "messages[1].content: nothing of it arrives in the prompt: the chat template leaves out the "
        "text beside tool_calls");
}

// Like transformers, which omits null members.
TEST(a_null_beside_calls_is_a_missing_content_and_the_template_s_line_is_named)
{
    assert_renders("{% for m in messages %}{% if m.content is defined %}{{ m.content }}{% else %}"
                   "{{ m.tool_calls[0].function.name }}{% endif %}{% endfor %}",
                   CHAT(MESSAGE("user", "u") "," CALL("'content':null,")), "uf", "");
    assert_refuses(
        "{% for m in messages %}{{ 1 + m.content }}{{ m.tool_calls }}{% endfor %}",
        CHAT(CALL("'content':null,") "," MESSAGE("user", "u")),
        "messages[0]: role \"assistant\": the chat template: line 1: unsupported operand type(s) for "
        "+: 'int' and 'str'");
}

// OpenAI's refusal message, sent back as the conversation's next message.
TEST(a_refusal_is_the_text_of_an_assistant_without_content)
{
    assert_renders(any_role, CHAT(MESSAGE("user", "u") ",{'role':'assistant','content':null,'refusal':'no'}"),
                   "[user]u[assistant]no", "");
    assert_renders(any_role,
                   CHAT(MESSAGE("user",
                                "u") ",{'role':'assistant','content':[{'type':'refusal','refusal':'no'}]}"),
                   "[user]u[assistant]no", "");
    assert_renders(any_role,
                   CHAT(MESSAGE("user", "u") ",{'role':'assistant','content':'yes','refusal':'no'}"),
                   "[user]u[assistant]yes", "unknown field \"messages[1].refusal\" ignored");
    assert_renders(any_role,
                   CHAT(MESSAGE("user", "u") ",{'role':'assistant','content':'yes','refusal':null}"),
                   "[user]u[assistant]yes", "");
}

// Qwen3's and others read the content of each message without a look.
TEST(a_null_beside_calls_is_an_empty_text_to_templates_that_need_one)
{
    static const char needs_text[] =
        "{% for m in messages[::-1] %}{% if m.content.startswith('z') %}z{% endif %}{% endfor %}"
        "{% for m in messages %}{{ 'x' + m.content }}"
        "{% for c in m.tool_calls %}{{ c.id }}{% endfor %}{% endfor %}";
    assert_renders(needs_text, CHAT(MESSAGE("user", "u") "," CALL("'content':null,")), "xuxc", "");
    assert_renders(needs_text, CHAT(MESSAGE("user", "u") "," CALL("") "," MESSAGE("tool", "t")), "xuxcxt",
                   "");
    assert_refuses(
        "{{ messages[0].content }}{{ messages[1].content.strip() }}{{ messages[1].tool_calls[0].id }}"
        "{% if messages[2].role == 'human' %}{{ raise_exception('no humans') }}{% endif %}",
        CHAT(MESSAGE("user", "u") "," CALL("") "," MESSAGE("human", "h")),
        "messages[2]: role \"human\": the chat template: line 1: no humans");
}

// ---- texts that are cut ----

TEST(a_text_that_is_cut_after_it_was_transformed_has_vanished)
{
    const char *const record = CHAT(MESSAGE("system", "first text") "," MESSAGE("user", "second text"));
#define BOTH "{% set both = messages[0].content ~ '|' ~ messages[1].content %}"
    assert_renders(BOTH "{{ both | upper }}", record, "FIRST TEXT|SECOND TEXT", "");
    assert_refuses(BOTH "{{ (both | upper)[:8] }}", record, LOST("1", "user"));
    assert_refuses(BOTH "{{ (both | upper)[-8:] }}", record, LOST("0", "system"));
    assert_refuses(BOTH "{{ (both | tojson)[:8] }}", record, LOST("1", "user"));
    assert_refuses(BOTH "{{ both | upper | truncate(9, true, '', 0) }}", record, LOST("1", "user"));
}

TEST(a_text_after_the_continued_message_has_vanished)
{
    const char *const record = "{'job_id':'a','continue_final_message':true,'messages':[" MESSAGE(
        "user", "before") "," MESSAGE("assistant", "goes on") "]}";
    assert_renders("{{ messages[0].content }};{{ messages[1].content }};end", record, "before;goes on", "");
    assert_refuses("{{ messages[1].content }};{{ messages[0].content }}", record, LOST("0", "user"));
}

// ---- members and variables ----

TEST(a_name_that_no_template_reads_is_one_warning_a_request)
{
    assert_renders(
        any_role,
        CHAT("{'role':'user','content':'x','name':'Ann'},{'role':'user','content':'y','name':'Bob'}"),
        "[user]x[user]y", "field \"messages[0].name\" has no effect: the chat template does not read it");
}

TEST(a_template_that_names_the_name_of_tools_alone_has_no_effect_for_a_message_s)
{
    static const char of_tools[] = "{% for t in tools or [] %}{{ t.function.name }}{% endfor %}"
                                   "{% for m in messages %}{{ m.content }}{% endfor %}",
                      warning[] =
                          "field \"messages[1].name\" has no effect: the prompt is the same without it";
    static const char record[] =
        CHAT("{'role':'user','content':'x'},{'role':'user','content':'y','name':'Bob'}");
    assert_renders(of_tools, record, "xy", warning);
    assert_renders("{% for m in messages %}{{ m.content }}{{ m.name if m.role == 'tool' }}{% endfor %}",
                   record, "xy", warning);
    assert_renders("{% for m in messages %}{{ m.content }}{{ ':' if m.name }}{% endfor %}", record,
                   "xy:", "");
    assert_renders("{% for m in messages %}{{ m.content }}{{ m['na' ~ 'me'] ~ 'name' }}{% endfor %}", record,
                   "xnameyBobname", "");
    assert_renders("{{ raise_exception('name') if not messages[1].name }}{{ messages[0].content }}{{ "
                   "messages[1].content }}",
                   record, "xy", "");
}

TEST(members_beyond_the_last_warning_are_not_looked_up)
{
    struct buffer record = {0}, source = {0};
    buffer_add_string(&record, "{'job_id':'a','messages':[{'role':'user','content':'x'");
    buffer_add_string(&source, "{{ messages[0].content }}");
    for (int i = 0; i < 100000; i++)
        buffer_add_format(&record, ",'u%d':0", i);
    for (int i = 0; i < 20000; i++)
        buffer_add_format(&source, "{{ w%d }}", i);
    buffer_add_string(&record, "}]}");
    struct rendered_chat rendered = render(source.data, record.data); // 2 * 10^9 comparisons else
    assert_int_equal(rendered.status, STATUS_OK);
    assert_int_equal(rendered.job->result.n_warnings, JOB_WARNINGS_MAX);
    finish_chat(&rendered);
    buffer_finish(&record);
    buffer_finish(&source);
}

#define ONE_TOOL "'tools':[{'type':'function','function':{'name':'f'}}]"

TEST(tools_that_are_not_shown_are_a_warning)
{
    static const char source[] = "{{ tools is none }}{{ messages[0].content }}";
    assert_renders(
        source, WITH(ONE_TOOL ",'tool_choice':'none'"), "Truex",
        "field \"tools\" has no effect: with tool_choice \"none\" the chat template does not get them");
    assert_renders(source, WITH("'tools':[],'tool_choice':'none'"), "Truex", "");
    assert_renders(source, WITH("'tool_choice':'none'"), "Truex", "");
}

TEST(a_member_that_nothing_reads_is_a_warning)
{
#define USER(more) CHAT("{'role':'user','content':'x'," more "}")
    assert_renders(any_role, USER("'contents':'y'"), "[user]x",
                   "unknown field \"messages[0].contents\" ignored; the nearest is content");
    assert_renders(any_role, USER("'weight':0"), "[user]x", "unknown field \"messages[0].weight\" ignored");
    assert_renders(any_role, USER("'name':'Ann'"), "[user]x",
                   "field \"messages[0].name\" has no effect: the chat template does not read it");
    assert_renders(any_role, USER("'tool_calls':[{'function':{'name':'f'}}]"), "[user]x",
                   "field \"messages[0].tool_calls\" has no effect: only an assistant's are read");
    assert_renders(
        any_role,
        USER("'tool_call_id':'c','refusal':null,'annotations':[],'reasoning_content':'t','name':null"),
        "[user]x", "");
    assert_renders("{{ messages[0].content }}{{ messages[0].tool_plan }}{{ messages[0]['name'] }}",
                   USER("'tool_plan':'p','name':'n'"), "xpn", "");
}

TEST(a_variable_that_the_template_does_not_read_is_a_warning)
{
#define NO_EFFECT(name) "field \"" name "\" has no effect: the chat template does not read it"
    static const char reads[] = "{{ messages[0].content }}{{ enable_thinking }}";
    assert_renders(any_role, WITH("'reasoning_effort':'low'"), "[user]x", NO_EFFECT("reasoning_effort"));
    assert_renders(reads, WITH("'reasoning_effort':'none'"), "xFalse", "");
    assert_renders("{{ messages[0].content }}{{ reasoning_effort }}", WITH("'reasoning_effort':'low'"),
                   "xlow", "");
    assert_renders(any_role, WITH("'enable_thinking':true"), "[user]x", NO_EFFECT("enable_thinking"));
    assert_renders(any_role, WITH("'documents':[{'title':'t'}]"), "[user]x", NO_EFFECT("documents"));
    assert_renders(any_role, WITH("'chat_template_kwargs':{'thinking':true}"), "[user]x",
                   NO_EFFECT("chat_template_kwargs.thinking"));
    assert_renders(reads, WITH("'chat_template_kwargs':{'enable_thinking':true}"), "xTrue", "");
    assert_renders(any_role, WITH("'add_generation_prompt':false"), "[user]x", "");
}

// ---- real templates ----

enum { SOURCE_BYTES_MAX = 1 << 18 };

// One sort of conversation, with a text in each message that no template has.
struct sort_of_chat {
    const char *name, *record;
    const char *texts[4];
    // of 55 templates: that render all of it, with or without a warning; the rest refuses
    int n_rendered_min;
};

#define TOOLS                                                                                                \
    ",'tools':[{'type':'function','function':{'name':'lookup','description':'d','parameters':{'type':"       \
    "'object','properties':{'q':{'type':'string','description':'e'}},'required':['q']}}}]"
#define ASKED MESSAGE("user", "Zasked")
#define LOOKUP(content)                                                                                      \
    "{'role':'assistant'," content "'tool_calls':[{'id':'call12345','type':'function','function':{'name':"   \
    "'lookup','arguments':'{\\'q\\':\\'Zargument\\'}'}}]}"

static const struct sort_of_chat sorts[] = {
    {"user", CHAT(ASKED), {"Zasked"}, 51}, // the others are for tools alone
    {"system", CHAT(MESSAGE("system", "Zruled") "," ASKED), {"Zruled", "Zasked"}, 50},
    {"developer", CHAT(MESSAGE("developer", "Zruled") "," ASKED), {"Zruled", "Zasked"}, 49},
    {"human", CHAT(MESSAGE("human", "Zasked")), {"Zasked"}, 18},
    {"function",
     CHAT(ASKED "," MESSAGE("assistant", "Zsaid") "," MESSAGE("function", "Zfound")),
     {"Zasked", "Zsaid", "Zfound"},
     18},
    {"second system",
     CHAT(MESSAGE("system", "Zruled") "," MESSAGE("system", "Zagain") "," ASKED),
     {"Zruled", "Zagain", "Zasked"},
     37},
    {"call",
     "{'job_id':'a','messages':[" ASKED "," LOOKUP("'content':'',") "," ASKED "]" TOOLS "}",
     {"Zargument", "Zasked"},
     36},
    {"call of null",
     "{'job_id':'a','messages':[" ASKED "," LOOKUP("'content':null,") "]" TOOLS "}",
     {"Zargument", "Zasked"},
     37},
    {"tool",
     "{'job_id':'a','messages':[" ASKED
     "," LOOKUP("'content':'Zsaid',") ",{'role':'tool','tool_call_id':"
                                      "'call12345','name':'lookup','content':'Zfound'}]" TOOLS "}",
     {"Zargument", "Zasked", "Zfound"},
     38},
};

static const char *missing_text(const struct sort_of_chat *sort, const char *rendered)
{
    for (size_t i = 0; i < 4 && sort->texts[i]; i++)
        if (!strstr(rendered, sort->texts[i]))
            return sort->texts[i];
    return NULL;
}

// True: it is rendered whole.
static bool check_template(const struct sort_of_chat *sort, const char *name, struct text source)
{
    struct text_spans spans = {0};
    struct rendered_chat rendered = render_with(source, sort->record, &spans);
    const char *missing = missing_text(sort, rendered.text.data);
    bool is_rendered = rendered.status == STATUS_OK;
    if (is_rendered && missing)
        fail_msg("%s, %s: %s is lost without a word: %s", name, sort->name, missing, rendered.text.data);
    bool names_message = strstr(rendered.error.text, "messages[") && strstr(rendered.error.text, "role \"");
    bool blames_template = strstr(rendered.error.text, "messages: the chat template: line ");
    if (!is_rendered && (rendered.status != STATUS_REJECT || (!names_message && !blames_template)))
        fail_msg("%s, %s: the refusal names no message: %s", name, sort->name, rendered.error.text);
    if (is_rendered && strstr(sort->record, "Zsaid") && !strstr(rendered.text.data, "Zsaid"))
        assert_true(rendered.job->result.n_warnings > 0);
    text_spans_finish(&spans);
    finish_chat(&rendered);
    return is_rendered;
}

TEST(of_real_templates_each_renders_every_text_or_says_why_not)
{
    char folder[512], path[1024];
    int n_rendered[sizeof sorts / sizeof *sorts] = {0}, n_templates = 0;
    if (!shared_path(folder, sizeof folder, "templates")) {
        print_message("no %s\n", folder);
        skip();
    }
    DIR *directory = opendir(folder);
    char *source = malloc(SOURCE_BYTES_MAX);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (!strstr(entry->d_name, ".jinja"))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        FILE *file = fopen(path, "r");
        size_t size = fread(source, 1, SOURCE_BYTES_MAX, file);
        fclose(file);
        n_templates++;
        for (size_t i = 0; i < sizeof sorts / sizeof *sorts; i++)
            n_rendered[i] += check_template(&sorts[i], entry->d_name, (struct text){source, size});
    }
    closedir(directory);
    free(source);
    assert_true(n_templates >= 55);
    for (size_t i = 0; i < sizeof sorts / sizeof *sorts; i++) {
        print_message("%s: %d of %d templates\n", sorts[i].name, n_rendered[i], n_templates);
        assert_true(n_rendered[i] >= sorts[i].n_rendered_min);
    }
}
