#include "engine/template/arguments.h"
#include "engine/template/rendering.h"

bool argument_integer(struct rendering *rendering, const struct object *argument, int64_t missing,
                      int64_t *integer)
{
    *integer = missing;
    if (!argument_is_given(argument))
        return true;
    if (argument->kind == OBJECT_UNDEFINED)
        return object_fail_undefined(rendering, argument);
    if (!object_is_integral(argument))
        return rendering_fail(rendering, "'%s' object cannot be interpreted as an integer",
                              object_type_name(argument));
    *integer = object_to_integer(argument);
    return true;
}

bool argument_text(struct rendering *rendering, const struct object *argument, struct text missing,
                   struct text *text)
{
    *text = missing;
    if (!argument_is_given(argument))
        return true;
    if (argument->kind != OBJECT_STRING)
        return rendering_fail(rendering, "must be str, not %s", object_type_name(argument));
    *text = argument->text.data ? argument->text : TEXT(""); // given, if empty
    return true;
}
