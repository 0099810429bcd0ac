// Global functions, visible in every template.
#include "engine/template/container.h"
#include "engine/template/functions.h"
#include "engine/template/iterator.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"
#include "engine/unicode/codepoints.h"

#include <string.h>
#include <time.h>

enum { RANGE_ITEMS_MAX = 100000 }; // the limit of jinja's sandbox

static struct object make_range(struct rendering *rendering, const struct call *call)
{
    int64_t numbers[3] = {0, 0, 1};
    size_t n_given = 0;
    for (; n_given < 3 && call->items[n_given].kind != OBJECT_MISSING; n_given++) {
        const struct object *argument = &call->items[n_given];
        object_check_defined(rendering, argument);
        if (!object_is_integral(argument))
            rendering_fail(rendering, "'%s' object cannot be interpreted as an integer",
                           object_type_name(argument));
        numbers[n_given] = object_to_integer(argument);
    }
    if (n_given == 1) {
        numbers[1] = numbers[0];
        numbers[0] = 0;
    }
    int64_t start = numbers[0], stop = numbers[1], step = numbers[2];
    if (step == 0)
        rendering_fail(rendering, "range() arg 3 must not be zero");
    uint64_t distance = 0, stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    if (step > 0 ? stop > start : stop < start)
        distance = step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
    uint64_t n_items = distance ? (distance - 1) / stride + 1 : 0;
    if (n_items > RANGE_ITEMS_MAX)
        rendering_fail(rendering, "range too big: the sandbox blocks ranges larger than %d", RANGE_ITEMS_MAX);
    struct range *range = rendering_allocate(rendering, sizeof *range);
    *range = (struct range){start, stop, step, (int64_t)n_items};
    return (struct object){.kind = OBJECT_RANGE, .range = range};
}

// Adds the items of a dict, or of an iterable of (key, value) pairs.
static void add_items(struct rendering *rendering, struct dict *dict, const struct object *from)
{
    object_check_defined(rendering, from);
    if (from->kind == OBJECT_DICT) {
        for (uint32_t i = 0; i < from->dict->n_entries; i++)
            dict_set(rendering, dict, &from->dict->entries[i].key, &from->dict->entries[i].value);
        return;
    }
    const struct object_sequence *pairs = iterator_collect(rendering, from).sequence;
    for (size_t i = 0; i < pairs->n_items; i++) {
        const struct object_sequence *pair = iterator_collect(rendering, &pairs->items[i]).sequence;
        if (pair->n_items != 2)
            rendering_fail(rendering, "dictionary update sequence element #%zu has length %zu; 2 is required",
                           i, pair->n_items);
        dict_set(rendering, dict, &pair->items[0], &pair->items[1]);
    }
}

// dict() from another dict, pairs and keywords. The variant is the object kind to create.
static struct object make_dict(struct rendering *rendering, const struct call *call)
{
    struct dict *dict = dict_create(rendering, call->n_keywords);
    if (call->n_items > 1)
        rendering_fail(rendering, "dict expected at most 1 argument, got %zu", call->n_items);
    if (call->n_items)
        add_items(rendering, dict, &call->items[0]);
    for (size_t i = 0; i < call->n_keywords; i++)
        dict_set_text(rendering, dict, call->keywords[i].name, &call->keywords[i].value);
    return (struct object){.kind = (uint8_t)call->variant, .dict = dict};
}

static struct object raise_exception(struct rendering *rendering, const struct call *call)
{
    struct text message = represent_str(rendering, &call->items[0]).text;
    rendering_fail(rendering, "%.*s", codepoints_cut(message), message.data ? message.data : "");
}

// Formats one conversion at a time, so that strftime's output is bounded. The time is UTC without fractions;
// for such a time Python prints an empty zone.
static struct object strftime_now(struct rendering *rendering, const struct call *call)
{
    struct tm parts = {0};
    time_t now = (time_t)rendering->environment->now_s;
    if (rendering->environment->is_timeless)
        rendering_fail(rendering,
                       "strftime_now: a row has no time, so that it has one answer whenever it is asked:"
                       " write the date into the template");
    if (now == 0)
        rendering_fail(rendering,
                       "strftime_now: the time of submission is not known; the job needs a \"created\"");
    if (call->items[0].kind != OBJECT_STRING)
        rendering_fail(rendering, "strftime() argument 1 must be str, not %s",
                       object_type_name(&call->items[0]));
    struct text format = call->items[0].text;
    if (!gmtime_r(&now, &parts))
        rendering_fail(rendering, "strftime_now: a time beyond the calendar");
    size_t start = rendering->text.size;
    for (size_t i = 0; i < format.size; i++) {
        char conversion[8] = {0}, text[64];
        size_t size = 0;
        if (format.data[i] != '%' || i + 1 == format.size) {
            buffer_add_byte(&rendering->text, format.data[i]);
            continue;
        }
        conversion[size++] = '%';
        while (++i < format.size && size < 5 && strchr("-_0^#EO", format.data[i]) && format.data[i])
            conversion[size++] = format.data[i];
        char letter = i < format.size ? format.data[i] : '\0';
        if (letter == 'f')
            buffer_add_string(&rendering->text, "000000");
        else if (letter == '\0' || !strchr("aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyYzZ%+", letter))
            rendering_fail(rendering, "strftime_now: invalid format string");
        if (letter == 'f' || letter == 'z' || letter == 'Z')
            continue;
        conversion[size] = letter;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        buffer_add(&rendering->text, text, strftime(text, sizeof text, conversion, &parts));
#pragma GCC diagnostic pop
    }
    rendering_note_source(rendering, start, format);
    return rendering_take(rendering, start);
}

static struct object make_cycle(struct rendering *rendering, const struct call *call)
{
    struct cycle *cycle = rendering_allocate(rendering, sizeof *cycle);
    struct object *items = rendering_allocate_array(rendering, call->n_items + 1, sizeof *items);
    if (!call->n_items)
        rendering_fail(rendering, "at least one item has to be provided");
    if (call->n_keywords)
        rendering_fail(rendering, "cycler() takes no keyword arguments");
    memcpy(items, call->items, call->n_items * sizeof *items);
    *cycle = (struct cycle){items, call->n_items, 0};
    return (struct object){.kind = OBJECT_CYCLER, .cycle = cycle};
}

static struct object make_joiner(struct rendering *rendering, const struct call *call)
{
    struct cycle *cycle = rendering_allocate(rendering, sizeof *cycle);
    struct object *separator = rendering_allocate(rendering, sizeof *separator);
    *separator = call->items[0].kind == OBJECT_MISSING ? object_string(TEXT(", ")) : call->items[0];
    *cycle = (struct cycle){separator, 1, 0};
    return (struct object){.kind = OBJECT_JOINER, .cycle = cycle};
}

static struct object lipsum(struct rendering *rendering, const struct call *call)
{
    rendering_fail(rendering, "lipsum: text by chance is not supported in templates");
}

static struct object cycler_next(struct rendering *rendering, const struct call *call)
{
    struct cycle *cycle = call->items[0].cycle;
    struct object current = cycle->items[cycle->position];
    cycle->position = (cycle->position + 1) % cycle->n_items;
    return current;
}

static struct object cycler_reset(struct rendering *rendering, const struct call *call)
{
    call->items[0].cycle->position = 0;
    return OBJECT_NONE_VALUE;
}

static const struct function cycler_functions[] = {
    METHOD("next", cycler_next, 0, 1, "self"),
    METHOD("reset", cycler_reset, 0, 1, "self"),
};

const struct function_table methods_of_cyclers = FUNCTION_TABLE(cycler_functions);

static const struct function functions[] = {
    METHOD("range", make_range, 0, 1, "start", "stop", "step"),
    ANY_ARGUMENTS("dict", make_dict, OBJECT_DICT),
    ANY_ARGUMENTS("namespace", make_dict, OBJECT_NAMESPACE),
    ANY_ARGUMENTS("cycler", make_cycle, 0),
    FUNCTION("joiner", make_joiner, 0, 0, "sep"),
    ANY_ARGUMENTS("lipsum", lipsum, 0),
    FUNCTION("raise_exception", raise_exception, 0, 1, "message"),
    FUNCTION("strftime_now", strftime_now, 0, 1, "format"),
};

const struct function_table globals_table = FUNCTION_TABLE(functions);
