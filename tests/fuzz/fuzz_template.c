// A chat template, then perhaps a NUL byte and JSON of its variables. Whatever they are: the same text or the
// same error every time, text in UTF-8, errors of one line that name what is at fault.
#include "engine/template/template.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static const struct template_environment environment = {.bos_token = TEXT("<s>"),
                                                        .eos_token = TEXT("</s>"),
                                                        .now_s = 1721952000};

static const char default_variables[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\" Be brief. "
    "\"},{\"role\":\"user\",\"content\":\"Hi\\n\\u00e9\"},"
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"type\":\"function\",\"function\":{\"name\":"
    "\"f\","
    "\"arguments\":{\"a\":[1,2.5,true]}}}]}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\","
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\"}}}}}],\"s\":\"Hello "
    "World\","
    "\"l\":[3,1,2],\"d\":{\"x\":1,\"y\":[1,{\"z\":\"q\"}]},\"n\":null,\"i\":7,\"f\":2.5}";

static void check_error(const struct error *error, enum status status)
{
    fuzz_check(error->status == status && error->code > ERROR_NONE && error->code < ERROR_CODE_COUNT);
    fuzz_check(error->text[0] && utf8_valid(error->text, strlen(error->text)) && !strchr(error->text, '\n'));
}

static enum status render(const struct template *template, const struct value *variables, struct buffer *out,
                          struct error *error)
{
    enum status status = template_render(template, variables, &environment, out, error);
    if (status == STATUS_OK) {
        fuzz_check(out->size <= TEMPLATE_OUTPUT_BYTES_MAX && utf8_valid(out->data, out->size));
    } else {
        fuzz_check(status == STATUS_REJECT && out->size == 0);
        check_error(error, status);
    }
    return status;
}

static void render_twice(const struct template *template, const struct value *variables)
{
    struct buffer first = {0}, second = {0};
    struct error first_error = {0}, second_error = {0};
    enum status status = render(template, variables, &first, &first_error);
    fuzz_check(render(template, variables, &second, &second_error) == status);
    if (status == STATUS_OK)
        fuzz_check(first.size == second.size &&
                   (!first.size || memcmp(first.data, second.data, first.size) == 0));
    else
        fuzz_check(strcmp(first_error.text, second_error.text) == 0);
    buffer_finish(&first);
    buffer_finish(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    struct text source = {(const char *)data, end ? (size_t)(end - data) : size};
    struct arena arena = {0};
    struct value variables;
    struct template *template;
    struct error error;
    struct text json = {(const char *)data + source.size + 1, end ? size - source.size - 1 : 0};
    bool decoded =
        end && json_decode(json, &arena, &variables, &error) == STATUS_OK && variables.kind == VALUE_OBJECT;
    if (!decoded && json_decode(text_from_string(default_variables), &arena, &variables, &error) != STATUS_OK)
        abort();
    if (template_parse(&template, source, &error) == STATUS_OK)
        render_twice(template, &variables);
    else
        check_error(&error, STATUS_REFUSE);
    template_destroy(template);
    arena_finish(&arena);
    return 0;
}
