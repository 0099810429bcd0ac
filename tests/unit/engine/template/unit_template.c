// The chat-template interpreter: against golden texts of jinja2 (golden/template/), against the shared
// templates, and what the golden files can't hold: errors, limits, the environment.
#include "engine/template/template.h"
#include "tests/golden/golden.h"
#include "tests/support/cases.h"
#include "tests/support/shared_data.h"

#include <pthread.h>

static const struct template_environment environment = {.bos_token = TEXT("<s>"),
                                                        .eos_token = TEXT("</s>"),
                                                        .now_s = 1721952000}; // 2024-07-26

static struct value decode(struct text json, struct arena *arena)
{
    struct value value;
    struct error error;
    if (json_decode(json, arena, &value, &error) != STATUS_OK)
        fail_msg("test data: %s", error.text);
    return value;
}

static enum status render(struct text source, const struct value *variables, struct buffer *out,
                          struct error *error)
{
    struct template *template;
    enum status status = template_parse(&template, source, error);
    if (status == STATUS_OK)
        status = template_render(template, variables, &environment, out, error);
    if (status == STATUS_OK) { // asked for its content it is the same text
        struct text_spans content = {0};
        struct template_environment asking = environment;
        struct buffer again = {0};
        asking.content = &content;
        assert_ok(template_render(template, variables, &asking, &again, error), error);
        assert_int_equal(again.size, out->size);
        assert_memory_equal(again.data, out->data, again.size);
        assert_true(content.n_items == 0 || content.items[content.n_items - 1].end <= out->size);
        text_spans_finish(&content);
        buffer_finish(&again);
    }
    template_destroy(template);
    return status;
}

static void assert_renders(const char *source, const char *json, const char *expected)
{
    struct arena arena = {0};
    struct buffer out = {0};
    struct error error;
    struct value variables = decode(text_from_string(json), &arena);
    if (render(text_from_string(source), &variables, &out, &error) != STATUS_OK)
        fail_msg("%s: %s", source, error.text);
    buffer_add(&out, "", 0);
    assert_string_equal(out.data ? out.data : "", expected);
    buffer_finish(&out);
    arena_finish(&arena);
}

static void assert_fails(const char *source, enum status status, enum error_code code, const char *expected)
{
    struct buffer out = {0};
    struct error error = {0};
    assert_int_equal(render(text_from_string(source), NULL, &out, &error), status);
    assert_int_equal(error.code, code);
    assert_string_equal(error.text, expected);
    assert_int_equal(out.size, 0);
    buffer_finish(&out);
}

static bool is_same_text(struct text expected, const struct buffer *got)
{
    return text_equal(expected, (struct text){got->data, got->size});
}

// `expected`: the text, or null (in shared cases an object with `error`) where the reference refuses.
static bool renders_as(struct text source, const struct value *variables, const struct value *expected)
{
    struct buffer out = {0};
    struct error error = {0};
    enum status status = render(source, variables, &out, &error);
    bool refused = expected->kind != VALUE_STRING;
    bool agreed = refused ? status != STATUS_OK : status == STATUS_OK && is_same_text(expected->text, &out);
    if (!agreed)
        print_error("%.*s\n expected: %.*s\n got: %s\n", (int)source.size, source.data,
                    refused ? 7 : (int)expected->text.size, refused ? "refusal" : expected->text.data,
                    status == STATUS_OK ? (out.data ? out.data : "") : error.text);
    buffer_finish(&out);
    return agreed;
}

TEST(golden_cases_render_as_jinja_renders_them)
{
    struct arena arena = {0};
    struct buffer bytes = golden_read("template/cases.json");
    struct value file = decode((struct text){bytes.data, bytes.size}, &arena);
    const struct value *cases = value_get(&file, "cases");
    size_t n_wrong = 0;
    for (size_t i = 0; i < cases->object.n_members; i++) {
        const struct value_member *member = &cases->object.members[i];
        n_wrong += !renders_as(member->key, value_get(&file, "variables"), &member->value);
    }
    assert_int_equal(n_wrong, 0);
    assert_true(cases->object.n_members > 2000);
    buffer_finish(&bytes);
    arena_finish(&arena);
}

// jinja2 renders these; they are outside what templates for chats and tables use.
TEST(what_is_not_supported_is_refused_by_name)
{
    struct arena arena = {0};
    struct buffer bytes = golden_read("template/cases.json"),
                  refused_bytes = golden_read("template/refused.json");
    struct value file = decode((struct text){bytes.data, bytes.size}, &arena);
    struct value refused = decode((struct text){refused_bytes.data, refused_bytes.size}, &arena);
    for (size_t i = 0; i < refused.object.n_members; i++) {
        const struct value_member *member = &refused.object.members[i];
        struct buffer out = {0};
        struct error error = {0};
        assert_int_not_equal(render(member->key, value_get(&file, "variables"), &out, &error), STATUS_OK);
        if (!text_equals_string(member->value.text, error.text))
            fail_msg("%.*s: %s", (int)member->key.size, member->key.data, error.text);
        buffer_finish(&out);
    }
    assert_true(refused.object.n_members > 40);
    buffer_finish(&bytes);
    buffer_finish(&refused_bytes);
    arena_finish(&arena);
}

static struct buffer read_file(const char *path)
{
    struct buffer bytes = {0};
    char block[4096];
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s: cannot be read", path);
    for (size_t n; (n = fread(block, 1, sizeof block, file)) > 0;)
        buffer_add(&bytes, block, n);
    fclose(file);
    return bytes;
}

static size_t count_wrong(const struct value_member *template, const struct value *inputs)
{
    char path[4096], relative[512];
    snprintf(relative, sizeof relative, "templates/%.*s.jinja", (int)template->key.size, template->key.data);
    assert_true(shared_path(path, sizeof path, relative));
    struct buffer source = read_file(path);
    size_t n_wrong = 0;
    for (size_t i = 0; i < template->value.object.n_members; i++) {
        const struct value_member *member = &template->value.object.members[i];
        char input[64];
        snprintf(input, sizeof input, "%.*s", (int)member->key.size, member->key.data);
        const struct value *text = value_get(&member->value, "text");
        bool agreed = renders_as((struct text){source.data, source.size}, value_get(inputs, input),
                                 text ? text : &member->value);
        if (!agreed)
            print_error("template %s, input %s\n", relative, input);
        n_wrong += !agreed;
    }
    buffer_finish(&source);
    return n_wrong;
}

TEST(shared_templates_render_byte_for_byte_or_refuse)
{
    char path[4096];
    if (!shared_path(path, sizeof path, "templates/cases.json"))
        skip();
    struct arena arena = {0};
    struct buffer bytes = read_file(path);
    struct value file = decode((struct text){bytes.data, bytes.size}, &arena);
    const struct value *templates = value_get(&file, "templates");
    size_t n_wrong = 0;
    for (size_t i = 0; i < templates->object.n_members; i++)
        n_wrong += count_wrong(&templates->object.members[i], value_get(&file, "inputs"));
    assert_int_equal(n_wrong, 0);
    assert_true(templates->object.n_members >= 55);
    buffer_finish(&bytes);
    arena_finish(&arena);
}

TEST(a_failed_template_names_the_line)
{
    assert_fails("a\n{{ b }}\n{{ b.c }}", STATUS_REJECT, ERROR_TEMPLATE, "line 3: 'b' is undefined");
    assert_fails("{% set x = [\n1,\n  none + 1] %}", STATUS_REJECT, ERROR_TEMPLATE,
                 "line 3: unsupported operand type(s) for +: 'NoneType' and 'int'");
    assert_fails("\n\n{% for x in 5 %}{% endfor %}", STATUS_REJECT, ERROR_TEMPLATE,
                 "line 3: 'int' object is not iterable");
    assert_fails("{#\n\n#}\n{%- macro m() %}\n{{ 1 // 0 }}{% endmacro %}\n\n{{ m() }}", STATUS_REJECT,
                 ERROR_TEMPLATE, "line 5: division by zero");
}

TEST(a_malformed_template_is_refused_at_its_line)
{
    assert_fails("\n{% if x %}", STATUS_REFUSE, ERROR_TEMPLATE,
                 "line 2: unexpected end of template, looking for 'else'");
    assert_fails("\r\n\r{{ x }", STATUS_REFUSE, ERROR_TEMPLATE, "line 3: unexpected '}'");
    assert_fails("{% do x %}", STATUS_REFUSE, ERROR_TEMPLATE, "line 1: unknown tag 'do'");
    assert_fails("{{ x|nothing }}", STATUS_REFUSE, ERROR_TEMPLATE, "line 1: no filter named 'nothing'");
    assert_fails("{{ x is nothing }}", STATUS_REFUSE, ERROR_TEMPLATE, "line 1: no test named 'nothing'");
    assert_fails("{{ 99999999999999999999 }}", STATUS_REFUSE, ERROR_TEMPLATE,
                 "line 1: a number beyond 64 bits");
    assert_fails("\xFF", STATUS_REFUSE, ERROR_INVALID_ENCODING, "the chat template is not UTF-8");
    assert_fails("{{ '\\ud800' }}", STATUS_REFUSE, ERROR_TEMPLATE, "line 1: an escape that is no character");
}

static void assert_refusal(const char *source, const char *expected)
{
    struct template *template;
    struct error error;
    char text[256] = "";
    if (template_parse(&template, text_from_string(source), &error) != STATUS_OK)
        fail_msg("%s: %s", source, error.text);
    const struct template_refusal *refusal = template_find_refusal(template);
    if (refusal->text[0])
        snprintf(text, sizeof text, "line %u: %s", refusal->line, refusal->text);
    assert_string_equal(text, expected);
    template_destroy(template);
}

// Also in branches, where Jinja reports it only when they run.
TEST(what_fails_for_all_variables_is_known_before_they_are_there)
{
    assert_refusal("{% if a %}\n{{ b|nothing }}{% endif %}", "line 2: no filter named 'nothing'");
    assert_refusal("{{ (a is nothing) if a }}", "line 1: no test named 'nothing'");
    assert_refusal("{{ a|map('nothing')|list }}", "line 1: no filter named 'nothing'");
    assert_refusal("{{ a|selectattr('x', 'nothing')|list }}", "line 1: no test named 'nothing'");
    assert_refusal("{{ a|truncate(1, 2, 3, 4, 5) }}", "line 1: truncate() takes at most 4 arguments, got 5");
    assert_refusal("{{ a|truncate(size=5) }}",
                   "line 1: truncate() got an unexpected keyword argument 'size'");
    assert_refusal("{{ a|groupby }}", "line 1: groupby() misses the argument 'attribute'");
    assert_refusal("{{ '%q' % a }}", "line 1: unsupported format character in '%q'");
    assert_refusal("{{ '{:q}'.format(a) }}", "line 1: invalid format specifier in '{:q}'");
    assert_refusal("{{ '{'.format(a) }}", "line 1: Single '{' or '}' encountered in format string in '{'");
    assert_refusal("{{ a.encode() }}", "line 1: 'encode' is not supported in templates");
    assert_refusal("{{ a.zfill() }}", "line 1: zfill() misses the argument 'width'");
    assert_refusal("{% if a %}{{ '%s %a' % (a, b) }}{% endif %}",
                   "line 1: %a is not supported in templates in '%s %a'");
    assert_refusal("{{ '%a'|format(a) if a }}", "line 1: %a is not supported in templates in '%a'");
    assert_refusal("{{ '{!a}'.format(a) if a }}", "line 1: !a is not supported in templates in '{!a}'");
    assert_refusal("{% if a %}\n{{ a + 2**99 }}{% endif %}", "line 2: an integer beyond 64 bits");
    assert_refusal("{{ 1 // (3 - 3) if a }}", "line 1: division by zero");
    assert_refusal("{% if a %}{{ '' if b else 'a'.upper }}{% endif %}",
                   "line 1: printing the method 'upper' is not supported in templates: call it");
    assert_refusal("{{ lipsum() }}", "line 1: lipsum: text by chance is not supported in templates");
    assert_refusal(
        "{{ lipsum is defined }}{{ a|groupby(attribute='b') }}{{ a.get('x') }}{{ a.count(1) }}"
        "{{ '%s %%' % a }}{{ '{:>{w}}{{}}'.format(a, w=3) }}{{ a|map('upper')|map(attribute='b') }}"
        "{{ a|truncate(*b) }}{{ a.name() }}{{ '%%a' % a }}{{ 2**62 }}{{ -2**63 }}{{ 2**a }}{{ a.upper }}",
        "");
}

TEST(raise_exception_passes_its_text_on)
{
    assert_fails("\n{{ raise_exception('Roles must alternate: ' ~ 1) }}", STATUS_REJECT, ERROR_TEMPLATE,
                 "line 2: Roles must alternate: 1");
    assert_fails("{{ raise_exception('two\nlines \xC3\xA9') }}", STATUS_REJECT, ERROR_TEMPLATE,
                 "line 1: two lines \xC3\xA9");
}

TEST(nothing_outside_the_sandbox_can_be_reached)
{
    assert_fails("{{ [].append(1) }}", STATUS_REJECT, ERROR_TEMPLATE,
                 "line 1: access to attribute 'append' of 'list object' is unsafe");
    assert_fails("{{ ''.__class__.mro() }}", STATUS_REJECT, ERROR_TEMPLATE,
                 "line 1: access to attribute '__class__' of 'str object' is unsafe");
    assert_fails("{% include '/etc/passwd' %}", STATUS_REFUSE, ERROR_TEMPLATE,
                 "line 1: the tag 'include' is not supported in templates");
    assert_fails("{{ [1]|random }}", STATUS_REFUSE, ERROR_TEMPLATE, "line 1: no filter named 'random'");
}

TEST(an_error_leaves_what_was_in_the_output)
{
    struct template *template;
    struct buffer out = {0};
    struct error error;
    buffer_add_string(&out, "before");
    assert_ok(template_parse(&template, TEXT("text {{ x.y }}"), &error), &error);
    assert_int_equal(template_render(template, NULL, &environment, &out, &error), STATUS_REJECT);
    assert_string_equal(out.data, "before");
    template_destroy(template);
    assert_ok(template_parse(&template, TEXT(" and {{ bos_token }}"), &error), &error);
    assert_ok(template_render(template, NULL, &environment, &out, &error), &error);
    assert_string_equal(out.data, "before and <s>");
    template_destroy(template);
    buffer_finish(&out);
}

TEST(variables_come_before_the_environment)
{
    static const char source[] =
        "{{ bos_token }}{{ eos_token }}{{ add_generation_prompt }}{{ x is defined }}";
    assert_renders(source, "{}", "<s></s>TrueFalse");
    assert_renders(source, "{\"bos_token\": \"B\", \"add_generation_prompt\": false, \"x\": null}",
                   "B</s>FalseTrue");
    assert_renders("{{ range is defined }}{{ strftime_now('%d %b %Y') }}", "{\"range\": 1}",
                   "True26 Jul 2024");
}

// Like Python's identifiers: letters of all scripts, after the first also marks and digits.
TEST(names_are_of_letters_of_all_scripts)
{
    static const char json[] = "{\"größe\": 1, \"名前\": {\"été\": 2}, \"e\xCC\x81\": 3, \"a\xD9\xA3\": 4,"
                               " \"Ⅷ\": 5, \"\xF0\x90\x90\x80\": 6}";
    assert_renders("{{ größe }}{{ 名前.été }}{{ e\xCC\x81 }}{{ a\xD9\xA3 }}{{ Ⅷ }}{{ \xF0\x90\x90\x80 }}",
                   json, "123456");
    assert_renders("{% set ä, _ß = 7, 8 %}{{ ä}}{{_ß }}{{ größe+ä }}", json, "788");
    assert_fails("{{ \xCC\x81 }}", STATUS_REFUSE, ERROR_TEMPLATE, "line 1: unexpected character '\xCC\x81'");
    assert_fails("{{ \xD9\xA3 }}", STATUS_REFUSE, ERROR_TEMPLATE, "line 1: unexpected character '\xD9\xA3'");
    assert_fails("\n{{ größe€ }}", STATUS_REFUSE, ERROR_TEMPLATE, "line 2: unexpected character '€'");
    assert_fails("{{ größer }}{{ größer.x }}", STATUS_REJECT, ERROR_TEMPLATE,
                 "line 1: 'größer' is undefined");
}

static enum status render_in(const struct template_environment *where, const char *source, struct buffer *out,
                             struct error *error)
{
    struct template *template;
    enum status status = template_parse(&template, text_from_string(source), error);
    if (status == STATUS_OK)
        status = template_render(template, NULL, where, out, error);
    template_destroy(template);
    return status;
}

TEST(special_tokens_are_defined_where_the_tokenizer_has_them)
{
    static const char source[] = "{{ bos_token is defined }} {{ eos_token }} {{ pad_token }} {{ unk_token }}";
    struct template_environment bare = {.now_s = 1};
    struct template_environment full = {TEXT("<s>"), TEXT("</s>"), TEXT("<pad>"), TEXT("<unk>"), 1};
    struct buffer out = {0};
    struct error error;
    assert_ok(render_in(&bare, source, &out, &error), &error);
    assert_string_equal(out.data, "False   ");
    buffer_clear(&out);
    assert_ok(render_in(&full, source, &out, &error), &error);
    assert_string_equal(out.data, "True </s> <pad> <unk>");
    buffer_finish(&out);
}

TEST(without_a_time_of_submission_strftime_now_fails_instead_of_saying_1970)
{
    struct template_environment timeless = {.now_s = 0};
    struct buffer out = {0};
    struct error error;
    assert_ok(render_in(&timeless, "{{ strftime_now is defined }}", &out, &error), &error);
    assert_string_equal(out.data, "True");
    assert_int_equal(render_in(&timeless, "x\n{{ strftime_now('%F') }}", &out, &error), STATUS_REJECT);
    assert_int_equal(error.code, ERROR_TEMPLATE);
    assert_string_equal(
        error.text, "line 2: strftime_now: the time of submission is not known; the job needs a \"created\"");
    buffer_finish(&out);
}

TEST(a_variable_that_holds_bytes_is_rejected_when_it_is_read)
{
    struct arena arena = {0};
    struct value variables;
    struct buffer out = {0};
    struct error error;
    assert_true(value_object_create(&arena, 1, &variables));
    value_put(&variables, "x", (struct value){.kind = VALUE_BYTES, .text = TEXT("\xFF")});
    assert_ok(render(TEXT("ok"), &variables, &out, &error), &error);
    assert_int_equal(render(TEXT("{{ x }}"), &variables, &out, &error), STATUS_REJECT);
    assert_string_equal(error.text, "a variable holds bytes; templates read text only");
    buffer_finish(&out);
    arena_finish(&arena);
}

// `n` times `open`, then `middle`, then `n` times `close`.
static enum status render_nested(size_t n, const char *open, const char *middle, const char *close,
                                 struct error *error)
{
    struct buffer source = {0}, out = {0};
    for (size_t i = 0; i < n; i++)
        buffer_add_string(&source, open);
    buffer_add_string(&source, middle);
    for (size_t i = 0; i < n; i++)
        buffer_add_string(&source, close);
    enum status status = render((struct text){source.data, source.size}, NULL, &out, error);
    buffer_finish(&source);
    buffer_finish(&out);
    return status;
}

static void assert_nesting_limit(size_t most, const char *open, const char *middle, const char *close)
{
    struct error error = {0};
    if (render_nested(most, open, middle, close, &error) != STATUS_OK)
        fail_msg("%s %zu times: %s", open, most, error.text);
    assert_int_equal(render_nested(most + 1, open, middle, close, &error), STATUS_REFUSE);
    assert_int_equal(error.code, ERROR_LIMIT_EXCEEDED);
}

TEST(source_nests_up_to_its_limit)
{
    assert_nesting_limit(TEMPLATE_NESTING_MAX, "{% if true %}", "x", "{% endif %}");
    assert_nesting_limit(TEMPLATE_NESTING_MAX, "{% for x in [1] %}", "x", "{% endfor %}");
    assert_nesting_limit(TEMPLATE_NESTING_MAX - 3, "{% if true %}", "{{ (1) }}", "{% endif %}");
    struct error error = {0};
    assert_int_equal(render_nested(100000, "{{ ((((((((((", "", "", &error), STATUS_REFUSE);
    assert_int_equal(render_nested(100000, "{{ [[[[[[[[[[", "", "", &error), STATUS_REFUSE);
    assert_int_equal(render_nested(100000, "{{ not not - - -", "", "", &error), STATUS_REFUSE);
    assert_ok(render_nested(1, "{{ 1 ", "+ 1", " }}", &error), &error);
}

TEST(a_chain_of_operators_is_as_long_as_its_limit)
{
    for (int over = 0; over <= 1; over++) {
        struct buffer source = {0}, out = {0};
        struct error error = {0};
        buffer_add_string(&source, "{{ 0");
        for (int i = 0; i < TEMPLATE_NESTING_MAX + over; i++)
            buffer_add_string(&source, " + 1");
        buffer_add_string(&source, " }}");
        assert_int_equal(render((struct text){source.data, source.size}, NULL, &out, &error),
                         over ? STATUS_REFUSE : STATUS_OK);
        if (!over)
            assert_string_equal(out.data, "200");
        buffer_finish(&source);
        buffer_finish(&out);
    }
}

TEST(source_is_as_large_as_its_limit)
{
    for (size_t over = 0; over <= 1; over++) {
        size_t size = TEMPLATE_SOURCE_BYTES_MAX + over;
        char *source = malloc(size);
        assert_non_null(source);
        memset(source, 'x', size);
        struct buffer out = {0};
        struct error error = {0};
        assert_int_equal(render((struct text){source, size}, NULL, &out, &error),
                         over ? STATUS_REFUSE : STATUS_OK);
        assert_int_equal(error.code, over ? ERROR_LIMIT_EXCEEDED : ERROR_NONE);
        assert_int_equal(out.size, over ? 0 : size);
        buffer_finish(&out);
        free(source);
    }
}

TEST(calls_nest_up_to_their_limit)
{
    static const char macro[] =
        "{% macro m(n) %}{% if n > 1 %}{{ m(n - 1) }}{% else %}end{% endif %}{% endmacro %}";
    char source[512];
    snprintf(source, sizeof source, "%s{{ m(%d) }}", macro, TEMPLATE_CALLS_MAX);
    assert_renders(source, "{}", "end");
    snprintf(source, sizeof source, "%s{{ m(%d) }}", macro, TEMPLATE_CALLS_MAX + 1);
    assert_fails(source, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                 "line 1: more than 200 calls inside one another");
}

TEST(values_nest_up_to_the_depth_limit)
{
    static const char source[] =
        "{%% set ns = namespace(v=[]) %%}{%% for i in range(%d) %%}{%% set ns.v = [ns.v] %%}"
        "{%% endfor %%}{{ ns.v|string|length }}";
    char text[256], expected[32];
    int most = TEMPLATE_DEPTH_MAX - 3; // the body, the filters and the innermost list
    snprintf(text, sizeof text, source, most - 1);
    snprintf(expected, sizeof expected, "%d", 2 * most);
    assert_renders(text, "{}", expected);
    snprintf(text, sizeof text, source, most);
    assert_fails(text, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                 "line 1: nested more than 2000 levels deep while rendering");
}

TEST(steps_are_bounded)
{
    assert_renders("{% for i in range(1000) %}{% for j in range(1000) %}{% endfor %}{% endfor %}ok", "{}",
                   "ok");
    assert_fails("{% for i in range(100000) %}{% for j in range(1000) %}{% endfor %}{% endfor %}",
                 STATUS_REJECT, ERROR_LIMIT_EXCEEDED, "line 1: the template takes more than 20000000 steps");
    assert_renders("{% set x = 'a' * 1000000 %}{{ x.find('b') }}", "{}", "-1");
    assert_fails("{% set x = 'a' * 1000000 %}{% set y = 'a' * 100000 ~ 'b' %}{{ x.find(y) }}", STATUS_REJECT,
                 ERROR_LIMIT_EXCEEDED, "line 1: the template takes more than 20000000 steps");
    assert_fails("{% set x = 'a' * 10000000 %}{% for i in range(100000) %}{% set y = x|length %}{% endfor %}",
                 STATUS_REJECT, ERROR_LIMIT_EXCEEDED, "line 1: the template takes more than 20000000 steps");
}

TEST(output_is_as_large_as_its_limit)
{
    char source[256];
    struct buffer out = {0};
    struct error error = {0};
    snprintf(source, sizeof source, "{%% for i in range(16) %%}{{ x }}{%% endfor %%}");
    struct arena arena = {0};
    struct value variables;
    size_t size = TEMPLATE_OUTPUT_BYTES_MAX / 16;
    char *x = arena_allocate(&arena, size);
    assert_non_null(x);
    memset(x, 'x', size);
    assert_true(value_object_create(&arena, 1, &variables));
    value_put(&variables, "x", value_string((struct text){x, size}));
    assert_ok(render(text_from_string(source), &variables, &out, &error), &error);
    assert_int_equal(out.size, TEMPLATE_OUTPUT_BYTES_MAX);
    buffer_finish(&out);
    snprintf(source, sizeof source, "{%% for i in range(16) %%}{{ x }}{%% endfor %%}y");
    assert_int_equal(render(text_from_string(source), &variables, &out, &error), STATUS_REJECT);
    assert_int_equal(error.code, ERROR_LIMIT_EXCEEDED);
    assert_int_equal(out.size, 0);
    arena_finish(&arena);
    assert_fails("{{ 'a' * 100000000 }}", STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                 "line 1: text longer than 16777216 bytes");
    assert_fails("{{ 'a'|indent(100000000) }}", STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                 "line 1: text longer than 16777216 bytes");
}

TEST(memory_is_bounded)
{
    assert_renders("{% set x = [0] * 1000000 %}{{ x|length }}", "{}", "1000000");
    assert_fails("{% set x = [0] * 100000000 %}", STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                 "line 1: the template needs more than 268435456 bytes of memory");
    assert_fails("{% set x = [0, 1] * 9223372036854775807 %}", STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                 "line 1: the template needs more than 268435456 bytes of memory");
}

TEST(text_grows_in_a_loop_at_the_cost_of_what_is_added)
{
    assert_renders(
        "{% set ns = namespace(t='') %}{% for i in range(100000) %}{% set ns.t = ns.t ~ '0123456789' %}"
        "{% endfor %}{{ ns.t|length }}",
        "{}", "1000000");
    assert_renders(
        "{% set ns = namespace(t='') %}{% for i in range(50000) %}{% set ns.t = ns.t + '0123456789' %}"
        "{% set x = ns.t[:20] ~ 'other' %}{% endfor %}{{ ns.t|length }}",
        "{}", "500000");
}

TEST(integers_beyond_64_bits_are_an_error)
{
    assert_renders("{{ 9223372036854775807 }}{{ -9223372036854775807 - 1 }}", "{}",
                   "9223372036854775807-9223372036854775808");
    assert_fails("{{ 9223372036854775807 + 1 }}", STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                 "line 1: an integer beyond 64 bits");
    assert_fails("{{ 4611686018427387904 * 2 }}", STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                 "line 1: an integer beyond 64 bits");
    assert_fails("{{ (-9223372036854775807 - 1) // -1 }}", STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                 "line 1: an integer beyond 64 bits");
    assert_renders("{{ (-9223372036854775807 - 1) % -1 }}", "{}", "0");
}

// Texts of table cells: a long one is no number, and one of many digits is refused.
TEST(a_long_text_is_an_integer_only_if_it_has_digits_alone)
{
    assert_renders("{{ ('word ' * 3000)|int }} {{ ('1 ' * 300)|int(-1) }} {{ ('12.5 ' * 90)|int }} "
                   "{{ ('9' * 500 ~ 'x')|int }} {{ ('w' * 500)|int(base=16) }} {{ (' ' * 500 ~ '7')|int }} "
                   "{{ (('9' * 500) ~ '-')|int }}",
                   "{}", "0 -1 0 0 0 7 0");
    assert_fails("{{ ('9' * 500)|int }}", STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                 "line 1: an integer beyond 64 bits");
    assert_fails("{{ ('-' ~ '1' * 500)|int }}", STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                 "line 1: an integer beyond 64 bits");
    assert_fails("{{ ('0x' ~ 'f' * 500)|int(base=16) }}", STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                 "line 1: an integer beyond 64 bits");
}

TEST(integers_are_divided_and_rounded_once)
{
    assert_renders("{{ 9007199254740992 / 2 }} {{ -9007199254740992 / 2 }} {{ 0 / 9007199254740992 }}"
                   " {{ 0 / -9007199254740992 }}",
                   "{}", "4503599627370496.0 -4503599627370496.0 0.0 -0.0");
    assert_renders("{{ 1 / 9007199254740993 }} {{ 1 / -9007199254740993 }} {{ 9223372036854775807 / 3 }}"
                   " {{ 9223372036854775807 / 9223372036854775805 }}",
                   "{}", "1.1102230246251564e-16 -1.1102230246251564e-16 3.0744573456182584e+18 1.0");
}

TEST(a_large_dict_finds_every_key)
{
    struct buffer source = {0};
    buffer_add_string(&source, "{% set d = {");
    for (int i = 0; i < 1500; i++)
        buffer_add_format(&source, "%d: %d, ", 2 * i, 2 * i + 1);
    buffer_add_string(
        &source,
        "} %}{% set ns = namespace(n=0) %}{% for k in d %}{% set ns.n = ns.n + d[k] - k %}{% endfor %}"
        "{{ ns.n }} {{ d[2998] }} {{ 2999 in d }}");
    assert_renders(source.data, "{}", "1500 2999 False");
    buffer_finish(&source);
}

struct rendering_thread {
    pthread_t thread;
    const struct template *template;
    bool same;
};

static void *render_often(void *argument)
{
    struct rendering_thread *thread = argument;
    struct arena arena = {0};
    struct value variables = decode(TEXT("{\"l\": [1, 2, 3]}"), &arena);
    thread->same = true;
    for (int i = 0; i < 200; i++) {
        struct buffer out = {0};
        struct error error;
        thread->same =
            template_render(thread->template, &variables, &environment, &out, &error) == STATUS_OK &&
            strcmp(out.data, "1:1 2:2 3:3 ") == 0 && thread->same;
        buffer_finish(&out);
    }
    arena_finish(&arena);
    return NULL;
}

TEST(threads_share_a_template)
{
    struct rendering_thread threads[4] = {0};
    struct template *template;
    struct error error;
    assert_ok(template_parse(&template,
                             TEXT("{% macro m(x) %}{{ x }} {% endmacro %}"
                                  "{% for x in l %}{{ loop.index }}:{{ m(x) }}{% endfor %}"),
                             &error),
              &error);
    for (size_t i = 0; i < 4; i++) {
        threads[i].template = template;
        assert_int_equal(pthread_create(&threads[i].thread, NULL, render_often, &threads[i]), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        pthread_join(threads[i].thread, NULL);
        assert_true(threads[i].same);
    }
    template_destroy(template);
}

static void note_mention(void *context, const struct template_mention *mention)
{
    buffer_add_format(context, "%u:%.*s", mention->line, (int)mention->name.size, mention->name.data);
    if (mention->member.data)
        buffer_add_format(context, ".%.*s", (int)mention->member.size, mention->member.data);
    buffer_add_string(context, mention->is_condition ? "?" : "");
    buffer_add_string(context, mention->reads_items ? "[]" : "");
    buffer_add_byte(context, ' ');
}

static void check_mentions(const char *source, const char *expected)
{
    struct template *template;
    struct error error;
    struct buffer found = {0};
    assert_ok(template_parse(&template, text_from_string(source), &error), &error);
    template_mentions(template, note_mention, &found);
    assert_string_equal(found.data, expected);
    buffer_finish(&found);
    template_destroy(template);
}

TEST(variables_that_are_read_from_outside_are_known_with_their_lines_and_members)
{
    static const char source[] = "{% set own = 1 %}{{ title }} {{ own }} {{ row.title }}\n"
                                 "{% for key, value in row.items() %}{{ key }}{{ loop.index }}{{ other }}"
                                 "{% endfor %}{{ row['a b'] }}{{ range(3) }}{{ x if y else none }}"
                                 "{% macro m(p) %}{{ p }}{{ z }}{% endmacro %}";
    check_mentions(source, "1:title 1:row.title 2:row 2:other 2:row.a b 2:x 2:y? 2:z ");
}

TEST(variables_that_are_conditions_or_whose_items_are_read_are_known)
{
    check_mentions("{% if a %}{% elif not b %}{% elif c and row.d or e == 1 %}{% endif %}",
                   "1:a? 1:b? 1:c? 1:row.d? 1:e ");
    check_mentions(
        "{% if a == true %}{% elif false != b %}{% elif c is true %}{% elif d is none %}{% elif e == 'true' %}{% endif %}",
        "1:a? 1:b? 1:c? 1:d 1:e ");
    check_mentions("{{ 1 if a else b }}{% for x in range(2) if c %}{% endfor %}", "1:a? 1:b 1:c? ");
    check_mentions("{% for x in a %}{{ x[0] }}{% endfor %}{% if 1 in b and c not in row['d'] %}{% endif %}",
                   "1:a[] 1:b[] 1:c 1:row.d[] ");
    check_mentions(
        "{{ a[0] }}{{ b[1:] }}{{ c|join(', ') }}{{ row.d|length }}{{ e|upper }}{{ f['g'] }}{{ h[i] }}",
        "1:a[] 1:b[] 1:c[] 1:row.d[] 1:e 1:f.g 1:h[] 1:i ");
}

TEST(destroying_nothing_is_fine)
{
    template_destroy(NULL);
}
