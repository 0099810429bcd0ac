// The filter wordwrap: wraps each line as Python's textwrap.wrap does with expand_tabs and replace_whitespace
// off.
#include "engine/template/functions.h"
#include "engine/template/rendering.h"
#include "engine/template/text_operations.h"
#include "engine/unicode/character.h"
#include "engine/unicode/codepoints.h"

#include <string.h>

enum { WRAP_WIDTH = 79 };

struct wrapping {
    int64_t width;
    bool breaks_words, breaks_hyphens;
    struct text separator;
    size_t n_lines; // written so far
};

static bool is_blank(char byte)
{
    return byte && strchr("\t\n\v\f\r ", byte);
}

static uint32_t character_at(struct text text, size_t at)
{
    return at < text.size ? codepoints_next(text, &at) : 0;
}

static uint32_t character_before(struct text text, size_t at)
{
    return at ? codepoints_previous(text, &at) : 0;
}

static bool is_letter(uint32_t codepoint) // [^\d\W]
{
    return character_is_of_word(codepoint) && !character_is_decimal(codepoint);
}

// Whether the dash at `at` matches textwrap's -(?:(?<=LL-)|(?<=L-L-))(?=L-?L), where L is [^\d\W].
static bool is_hyphen(struct text text, size_t at)
{
    size_t one = at, two;
    if (!at || !is_letter(codepoints_previous(text, &one)))
        return false;
    two = one;
    uint32_t before = two ? codepoints_previous(text, &two) : 0;
    if (!is_letter(before) && !(before == '-' && is_letter(character_before(text, two))))
        return false;
    size_t next = at + 1;
    if (next >= text.size || !is_letter(codepoints_next(text, &next)))
        return false;
    next += next < text.size && text.data[next] == '-';
    return is_letter(character_at(text, next));
}

// Returns the end of a run of two or more dashes between words ("a--b") that starts at `at`, or `at` if there
// is none.
static size_t dash_end(struct text text, size_t at)
{
    size_t end = at;
    uint32_t before = character_before(text, at);
    bool is_after_word =
        character_is_of_word(before) || (before && before < 128 && strchr("!\"'&.,?", (int)before));
    while (end < text.size && text.data[end] == '-')
        end++;
    return is_after_word && end - at >= 2 && character_is_of_word(character_at(text, end)) ? end : at;
}

// Returns the end of the chunk that starts at `start`. A chunk is broken only if it is longer than a line.
static size_t piece_end(const struct wrapping *wrapping, struct text text, size_t start)
{
    size_t end = start;
    if (is_blank(text.data[start])) {
        while (end < text.size && is_blank(text.data[end]))
            end++;
        return end;
    }
    if (wrapping->breaks_hyphens && dash_end(text, start) > start)
        return dash_end(text, start);
    codepoints_next(text, &end);
    for (; end < text.size && !is_blank(text.data[end]); codepoints_next(text, &end)) {
        if (!wrapping->breaks_hyphens || text.data[end] != '-')
            continue;
        if (is_hyphen(text, end))
            return end + 1;
        if (dash_end(text, end) > end)
            return end;
    }
    return end;
}

static void add_line(struct rendering *rendering, struct wrapping *wrapping, struct text line)
{
    if (wrapping->n_lines++)
        rendering_add_text(rendering, wrapping->separator);
    rendering_add_text(rendering, line);
    rendering_check_text(rendering);
}

// Returns how many bytes of a chunk that is longer than a line fit in the remaining `room`, in characters.
static size_t break_piece(const struct wrapping *wrapping, struct text piece, size_t room)
{
    size_t cut = codepoints_offset(piece, room);
    size_t dash = text_find((struct text){piece.data, cut}, TEXT("-"), true);
    bool is_after_text = false;
    for (size_t i = 0; dash != SIZE_MAX && i < dash && !is_after_text; i++)
        is_after_text = piece.data[i] != '-';
    return wrapping->breaks_hyphens && is_after_text ? dash + 1 : cut;
}

static bool is_all_blank(struct text text)
{
    return text_strip(text, (struct text){0}, true, false).size == 0;
}

// The chunks of a line are adjacent in the text, so the line is a range of it.
static void wrap_line(struct rendering *rendering, struct wrapping *wrapping, struct text text)
{
    size_t at = 0, end = 0, piece = 0, last = 0; // the line: [at, end); the next piece: [end, piece)
    int64_t length = 0;
    rendering_spend_bytes(rendering, text.size * 32);
    while (end < text.size) {
        at = end;
        length = 0;
        last = end;
        piece = piece > end ? piece : piece_end(wrapping, text, end);
        struct text next = {text.data + end, piece - end};
        if (wrapping->n_lines && is_all_blank(next)) {
            at = end = last = piece;
            if (end == text.size)
                break;
        }
        while (end < text.size) {
            piece = piece > end ? piece : piece_end(wrapping, text, end);
            next = (struct text){text.data + end, piece - end};
            int64_t n = (int64_t)codepoints_count(next);
            if (length + n > wrapping->width) {
                if (n > wrapping->width && (wrapping->breaks_words || length == 0)) {
                    size_t room = (size_t)(wrapping->width - length);
                    last = end;
                    end += wrapping->breaks_words ? break_piece(wrapping, next, room) : next.size;
                }
                break;
            }
            last = end;
            length += n;
            end = piece;
        }
        struct text tail = {text.data + last, end - last};
        size_t stop = is_all_blank(tail) ? last : end;
        if (stop > at)
            add_line(rendering, wrapping, (struct text){text.data + at, stop - at});
    }
}

static struct object wrap_words(struct rendering *rendering, const struct call *call)
{
    struct wrapping wrapping = {.width = argument_integer(rendering, &call->items[1], WRAP_WIDTH),
                                .breaks_words = argument_truth(&call->items[2], true),
                                .breaks_hyphens = argument_truth(&call->items[4], true),
                                .separator = argument_text(rendering, &call->items[3], TEXT("\n"))};
    object_check_defined(rendering, &call->items[0]);
    if (call->items[0].kind != OBJECT_STRING)
        rendering_fail(rendering, "expected str, not %s", object_type_name(&call->items[0]));
    size_t start = rendering->text.size;
    const struct object_sequence *lines = text_split_lines(rendering, call->items[0].text, false).sequence;
    for (size_t i = 0; i < lines->n_items; i++) {
        if (wrapping.width <= 0)
            rendering_fail(rendering, "invalid width %lld (must be > 0)", (long long)wrapping.width);
        if (i)
            rendering_add_text(rendering, wrapping.separator);
        wrapping.n_lines = 0;
        wrap_line(rendering, &wrapping, lines->items[i].text);
    }
    return rendering_take(rendering, start);
}

static const struct function functions[] = {
    FUNCTION("wordwrap", wrap_words, 0, 1, "s", "width", "break_long_words", "wrapstring",
             "break_on_hyphens"),
};

const struct function_table filters_of_wrapping = FUNCTION_TABLE(functions);
