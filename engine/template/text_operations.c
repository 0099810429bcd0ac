#include "engine/template/text_operations.h"
#include "engine/template/character.h"
#include "engine/template/codepoints.h"
#include "engine/template/container.h"
#include "engine/template/rendering.h"

#include <ctype.h>
#include <string.h>

enum { CAPITAL_SIGMA = 0x3A3 }; // its lower case depends on the letters around it

bool text_spend_search(struct rendering *rendering, struct text text, struct text part)
{
    return rendering_spend(rendering, text.size / 64 * (1 + part.size / 8));
}

static bool starts_word(uint32_t before, enum text_case to)
{
    if (to == CASE_TITLE)
        return !isalpha((int)before);
    return to == CASE_TITLE_WORDS && (isspace((int)before) || strchr("-({[<", (int)before));
}

bool text_change_case(struct rendering *rendering, struct text text, enum text_case to, struct object *result)
{
    size_t first = rendering->text.size;
    uint32_t before = ' ';
    for (size_t i = 0; i < text.size;) {
        uint32_t mapped[CHARACTER_EXPANSION_MAX];
        bool is_first = i == 0, is_title = to == CASE_TITLE || to == CASE_TITLE_WORDS;
        uint32_t codepoint = codepoints_next(text, &i);
        size_t n = 0; // characters that it maps to; 0: not known
        if (to == CASE_UPPER)
            n = character_upper(codepoint, mapped);
        else if (is_title ? codepoint < 128 && starts_word(before, to) : to == CASE_CAPITAL && is_first)
            n = character_title(codepoint, mapped);
        else if (codepoint != CAPITAL_SIGMA && !(is_title && codepoint >= 128))
            n = character_lower(codepoint, mapped);
        if (!n)
            return rendering_fail(rendering, "changing the case of U+%04X is not supported", codepoint);
        for (size_t k = 0; k < n; k++)
            codepoints_add(&rendering->text, mapped[k]);
        before = codepoint;
    }
    rendering_note_source(rendering, first, text);
    return rendering_spend_bytes(rendering, text.size * 8) && rendering_take(rendering, first, result);
}

static bool is_stripped(uint32_t codepoint, struct text chars)
{
    if (!chars.data)
        return character_is_space(codepoint);
    for (size_t i = 0; i < chars.size;)
        if (codepoints_next(chars, &i) == codepoint)
            return true;
    return false;
}

struct text text_strip(struct text text, struct text chars, bool left, bool right)
{
    size_t start = 0, stop = text.size;
    while (left && start < stop) {
        size_t next = start;
        if (!is_stripped(codepoints_next(text, &next), chars))
            break;
        start = next;
    }
    while (right && stop > start) {
        size_t before = stop;
        if (!is_stripped(codepoints_previous(text, &before), chars))
            break;
        stop = before;
    }
    return (struct text){text.data + start, stop - start};
}

// An empty `from` stands between all characters, and at both ends.
static void replace_between(struct rendering *rendering, struct text text, struct text to, int64_t count)
{
    size_t i = 0;
    for (; count != 0 && !rendering->text.failed; count--) {
        rendering_add_text(rendering, to);
        if (i == text.size)
            return;
        size_t start = i;
        codepoints_next(text, &i);
        rendering_add_text(rendering, (struct text){text.data + start, i - start});
    }
    rendering_add_text(rendering, (struct text){text.data + i, text.size - i});
}

bool text_replace(struct rendering *rendering, struct text text, struct text from, struct text to,
                  int64_t count, struct object *result)
{
    struct buffer *buffer = &rendering->text;
    size_t start = buffer->size;
    if (!rendering_spend_bytes(rendering, text.size))
        return false;
    if (from.size == 0) {
        replace_between(rendering, text, to, count);
        return rendering_spend(rendering, text.size) && rendering_take(rendering, start, result);
    }
    size_t found = text_find(text, from, false);
    if (found == SIZE_MAX || count == 0) {
        *result = object_string(text);
        return true;
    }
    while (found != SIZE_MAX && count != 0 && !buffer->failed) {
        if (!rendering_spend(rendering, 1))
            return false;
        rendering_add_text(rendering, (struct text){text.data, found});
        rendering_add_text(rendering, to);
        text = (struct text){text.data + found + from.size, text.size - found - from.size};
        found = text_find(text, from, false);
        count--;
    }
    rendering_add_text(rendering, text);
    return rendering_take(rendering, start, result);
}

size_t text_find(struct text text, struct text part, bool last)
{
    if (part.size > text.size)
        return SIZE_MAX;
    if (part.size == 0)
        return last ? text.size : 0;
    if (!last) {
        const char *found = memmem(text.data, text.size, part.data, part.size);
        return found ? (size_t)(found - text.data) : SIZE_MAX;
    }
    for (size_t i = text.size - part.size + 1; i-- > 0;)
        if (text.data[i] == part.data[0] && memcmp(text.data + i, part.data, part.size) == 0)
            return i;
    return SIZE_MAX;
}

static bool add_part(struct rendering *rendering, struct list_builder *list, struct text text, size_t start,
                     size_t stop)
{
    struct object part = object_string((struct text){text.data ? text.data + start : NULL, stop - start});
    return list_add(rendering, list, &part);
}

bool text_split_lines(struct rendering *rendering, struct text text, bool keep_ends, struct object *lines)
{
    struct list_builder list = {0};
    size_t start = 0;
    for (size_t i = 0; i < text.size;) {
        size_t stop = i;
        uint32_t codepoint = codepoints_next(text, &i);
        if (!character_is_line_break(codepoint))
            continue;
        if (codepoint == '\r' && i < text.size && text.data[i] == '\n')
            i++;
        if (!add_part(rendering, &list, text, start, keep_ends ? i : stop))
            return false;
        start = i;
    }
    if (start < text.size && !add_part(rendering, &list, text, start, text.size))
        return false;
    return rendering_spend_bytes(rendering, text.size * 4) &&
           list_finish(rendering, &list, OBJECT_LIST, lines);
}

// The next run of non-space characters from `position` on; false when there is none.
static bool next_word(struct text text, size_t position, size_t *start, size_t *stop)
{
    bool in_word = false;
    while (position < text.size) {
        size_t at = position;
        bool space = character_is_space(codepoints_next(text, &position));
        if (!in_word && !space) {
            *start = at;
            in_word = true;
        } else if (in_word && space) {
            *stop = at;
            return true;
        }
    }
    *stop = text.size;
    return in_word;
}

static bool split_words(struct rendering *rendering, struct text text, int64_t max_splits,
                        struct list_builder *list)
{
    size_t start = 0, stop = 0;
    while (next_word(text, stop, &start, &stop)) {
        bool rest = max_splits-- == 0;
        if (rest)
            stop = text.size;
        if (!add_part(rendering, list, text, start, stop))
            return false;
        if (rest)
            break;
    }
    return true;
}

static bool split_at(struct rendering *rendering, struct text text, struct text separator, int64_t max_splits,
                     bool from_right, struct list_builder *list)
{
    size_t start = 0, stop = text.size;
    for (; max_splits != 0; max_splits--) {
        struct text rest = {text.data ? text.data + start : NULL, stop - start};
        size_t found = text_find(rest, separator, from_right);
        if (found == SIZE_MAX)
            break;
        found += start;
        if (from_right ? !add_part(rendering, list, text, found + separator.size, stop)
                       : !add_part(rendering, list, text, start, found))
            return false;
        if (from_right)
            stop = found;
        else
            start = found + separator.size;
    }
    return add_part(rendering, list, text, start, stop);
}

bool text_split(struct rendering *rendering, struct text text, struct text separator, int64_t max_splits,
                bool from_right, struct object *parts)
{
    struct list_builder list = {0};
    if (separator.data && separator.size == 0)
        return rendering_fail(rendering, "empty separator");
    if (!separator.data && from_right && max_splits >= 0)
        return rendering_fail(rendering, "rsplit: a limit without a separator is not supported");
    if (!(from_right ? text_spend_search(rendering, text, separator)
                     : rendering_spend_bytes(rendering, text.size * 4)))
        return false;
    if (separator.data ? !split_at(rendering, text, separator, max_splits, from_right, &list)
                       : !split_words(rendering, text, max_splits, &list))
        return false;
    for (size_t i = 0; from_right && separator.data && i < list.n_items / 2; i++) {
        struct object swapped = list.items[i];
        list.items[i] = list.items[list.n_items - 1 - i];
        list.items[list.n_items - 1 - i] = swapped;
    }
    return list_finish(rendering, &list, OBJECT_LIST, parts);
}
