// Methods of strings that change or ask for letter case and classes of characters.
#include "engine/template/character.h"
#include "engine/template/codepoints.h"
#include "engine/template/functions.h"
#include "engine/template/rendering.h"
#include "engine/template/text_operations.h"

#define CASE_METHOD(method, to)                                                                              \
    static bool run_##method(struct rendering *rendering, const struct call *call, struct object *result)    \
    {                                                                                                        \
        return text_change_case(rendering, call->items[0].text, to, result);                                 \
    }

CASE_METHOD(upper, CASE_UPPER)
CASE_METHOD(lower, CASE_LOWER)
CASE_METHOD(title, CASE_TITLE)
CASE_METHOD(capitalize, CASE_CAPITAL)
CASE_METHOD(swapcase, CASE_SWAP)
CASE_METHOD(casefold, CASE_FOLD)

typedef bool character_test(uint32_t codepoint);

static bool all(struct rendering *rendering, const struct call *call, character_test *test, bool when_empty,
                struct object *result)
{
    struct text text = call->items[0].text;
    bool holds = text.size || when_empty;
    for (size_t i = 0; i < text.size && holds;)
        holds = test(codepoints_next(text, &i));
    *result = object_bool(holds);
    return rendering_spend_bytes(rendering, text.size * 8);
}

#define ALL_METHOD(method, when_empty, condition)                                                            \
    static bool test_##method(uint32_t codepoint)                                                            \
    {                                                                                                        \
        return condition;                                                                                    \
    }                                                                                                        \
    static bool run_##method(struct rendering *rendering, const struct call *call, struct object *result)    \
    {                                                                                                        \
        return all(rendering, call, test_##method, when_empty, result);                                      \
    }

ALL_METHOD(isalpha, false, character_classes(codepoint) & CHARACTER_ALPHA)
ALL_METHOD(isalnum, false, character_classes(codepoint) & (CHARACTER_ALPHA | CHARACTER_NUMERIC))
ALL_METHOD(isdecimal, false, character_number_level(codepoint) == 3)
ALL_METHOD(isdigit, false, character_number_level(codepoint) >= 2)
ALL_METHOD(isnumeric, false, character_number_level(codepoint) >= 1)
ALL_METHOD(isspace, false, character_is_space(codepoint))
ALL_METHOD(isascii, true, codepoint < 128)
ALL_METHOD(isprintable, true, character_classes(codepoint) & CHARACTER_PRINTABLE)

static bool run_isidentifier(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct text text = call->items[0].text;
    bool holds = text.size;
    for (size_t i = 0; i < text.size && holds;) {
        uint32_t wanted = i ? CHARACTER_IDENTIFIER : CHARACTER_IDENTIFIER_START;
        holds = character_classes(codepoints_next(text, &i)) & wanted;
    }
    *result = object_bool(holds);
    return rendering_spend_bytes(rendering, text.size * 8);
}

static bool run_islower(struct rendering *rendering, const struct call *call, struct object *result)
{
    return text_has_case(rendering, call->items[0].text, CHARACTER_LOWER, result);
}

static bool run_isupper(struct rendering *rendering, const struct call *call, struct object *result)
{
    return text_has_case(rendering, call->items[0].text, CHARACTER_UPPER, result);
}

// Capitals start words only, and every word's other letters are small.
static bool run_istitle(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct text text = call->items[0].text;
    bool found = false, holds = true, inside = false;
    for (size_t i = 0; i < text.size && holds;) {
        uint32_t classes = character_classes(codepoints_next(text, &i));
        bool capital = classes & (CHARACTER_UPPER | CHARACTER_TITLE), small = classes & CHARACTER_LOWER;
        holds = capital ? !inside : !small || inside;
        inside = capital || small;
        found = found || inside;
    }
    *result = object_bool(found && holds);
    return rendering_spend_bytes(rendering, text.size * 8);
}

#define METHOD(method)                                                                                       \
    {                                                                                                        \
        .name = #method, .run = run_##method, .n_required = 1, .parameters = {"self"},                       \
        .positional_only = true                                                                              \
    }

static const struct function functions[] = {
    METHOD(upper),     METHOD(lower),   METHOD(title),   METHOD(capitalize),  METHOD(swapcase),
    METHOD(casefold),  METHOD(isalpha), METHOD(isalnum), METHOD(isdecimal),   METHOD(isdigit),
    METHOD(isnumeric), METHOD(isspace), METHOD(isascii), METHOD(isprintable), METHOD(isidentifier),
    METHOD(islower),   METHOD(isupper), METHOD(istitle),
};

const struct function_table methods_of_string_case = {functions, sizeof functions / sizeof functions[0]};
