#include "engine/template/text_operations.h"
#include "engine/unicode/character.h"
#include "engine/unicode/codepoints.h"
#include "engine/template/container.h"
#include "engine/template/rendering.h"

#include <string.h>

enum { CAPITAL_SIGMA = 0x3A3, SMALL_SIGMA = 0x3C3, FINAL_SIGMA = 0x3C2 };

void text_spend_search(struct rendering *rendering, struct text text, struct text part)
{
    rendering_spend(rendering, text.size / 64 * (1 + part.size / 8));
}

// True if a word starts after `before`, by the rule of Python's str.title or of Jinja's filter `title`.
static bool starts_word(uint32_t before, enum text_case to)
{
    bool is_mark = before && before < 128 && strchr("-({[<", (int)before);
    return to == CASE_TITLE ? !character_is_cased(before) : is_mark || codepoint_is_space(before);
}

// Returns the lower case of a capital sigma at [start, end) of `word`. It is a final sigma if a letter
// precedes it and none follows (Unicode 14, section 3.13, "Final_Sigma").
static uint32_t lower_sigma(struct text word, size_t start, size_t end)
{
    uint32_t codepoint = 0;
    bool is_cased = false;
    while (start > 0 && character_is_ignorable(codepoint = codepoints_previous(word, &start)))
        codepoint = 0;
    is_cased = codepoint && character_is_cased(codepoint);
    codepoint = 0;
    while (is_cased && end < word.size && character_is_ignorable(codepoint = codepoints_next(word, &end)))
        codepoint = 0;
    return is_cased && !(codepoint && character_is_cased(codepoint)) ? FINAL_SIGMA : SMALL_SIGMA;
}

// Returns the rest of the word that starts at `start`, after its first character. The filter `title` converts
// it to lower case separately.
static struct text rest_of_word(struct text text, size_t start)
{
    codepoints_next(text, &start);
    size_t end = start;
    for (size_t next = start; end < text.size; end = next)
        if (starts_word(codepoints_next(text, &next), CASE_TITLE_WORDS))
            break;
    return (struct text){text.data + start, end - start};
}

static size_t change_one(uint32_t codepoint, enum text_case to, bool is_start, uint32_t *mapped)
{
    bool to_upper = to == CASE_UPPER || (is_start && to == CASE_TITLE_WORDS) ||
                    (to == CASE_SWAP && character_is_lower(codepoint));
    mapped[0] = codepoint;
    if (to_upper)
        return character_upper(codepoint, mapped);
    if (is_start)
        return character_title(codepoint, mapped);
    if (to == CASE_FOLD)
        return character_fold(codepoint, mapped);
    return to == CASE_SWAP && !character_is_upper(codepoint) ? 1 : character_lower(codepoint, mapped);
}

struct object text_change_case(struct rendering *rendering, struct text text, enum text_case to)
{
    size_t first = rendering->text.size, word = 0;
    uint32_t before = ' ';
    bool is_title = to == CASE_TITLE || to == CASE_TITLE_WORDS;
    for (size_t i = 0; i < text.size;) {
        uint32_t mapped[CHARACTER_EXPANSION_MAX];
        bool is_start = is_title ? starts_word(before, to) : to == CASE_CAPITAL && i == 0;
        size_t start = i;
        uint32_t codepoint = codepoints_next(text, &i);
        word = is_start ? start : word;
        size_t n = change_one(codepoint, to, is_start, mapped);
        if (codepoint == CAPITAL_SIGMA && mapped[0] == SMALL_SIGMA && to == CASE_TITLE_WORDS) {
            struct text rest = rest_of_word(text, word);
            size_t offset = (size_t)(text.data + start - rest.data);
            mapped[0] = lower_sigma(rest, offset, offset + i - start);
            rendering_spend_bytes(rendering, rest.size * 8);
        } else if (codepoint == CAPITAL_SIGMA && mapped[0] == SMALL_SIGMA && to != CASE_FOLD) {
            mapped[0] = lower_sigma(text, start, i);
        }
        for (size_t k = 0; k < n; k++)
            codepoints_add(&rendering->text, mapped[k]);
        before = codepoint;
    }
    rendering_note_source(rendering, first, text);
    rendering_spend_bytes(rendering, text.size * 8);
    return rendering_take(rendering, first);
}

static bool is_stripped(uint32_t codepoint, struct text chars)
{
    if (!chars.data)
        return codepoint_is_space(codepoint);
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

// Replaces the empty `from`, which matches between all characters and at both ends.
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

struct object text_replace(struct rendering *rendering, struct text text, struct text from, struct text to,
                           int64_t count)
{
    size_t start = rendering->text.size;
    rendering_spend_bytes(rendering, text.size);
    if (from.size == 0) {
        replace_between(rendering, text, to, count);
        rendering_spend(rendering, text.size);
        return rendering_take(rendering, start);
    }
    size_t found = text_find(text, from, false);
    if (found == SIZE_MAX || count == 0)
        return object_string(text);
    for (; found != SIZE_MAX && count != 0 && !rendering->text.failed; count--) {
        rendering_spend(rendering, 1);
        rendering_add_text(rendering, (struct text){text.data, found});
        rendering_add_text(rendering, to);
        text = (struct text){text.data + found + from.size, text.size - found - from.size};
        found = text_find(text, from, false);
    }
    rendering_add_text(rendering, text);
    return rendering_take(rendering, start);
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

static void add_part(struct rendering *rendering, struct list_builder *list, struct text text, size_t start,
                     size_t stop)
{
    struct object part = object_string((struct text){text.data ? text.data + start : NULL, stop - start});
    list_add(rendering, list, &part);
}

struct object text_split_lines(struct rendering *rendering, struct text text, bool with_ends)
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
        add_part(rendering, &list, text, start, with_ends ? i : stop);
        start = i;
    }
    if (start < text.size)
        add_part(rendering, &list, text, start, text.size);
    rendering_spend_bytes(rendering, text.size * 4);
    return list_finish(rendering, &list);
}

struct object text_pick(struct rendering *rendering, struct text text, int64_t first, int64_t last,
                        int64_t step)
{
    size_t start = rendering->text.size;
    int64_t at = first;
    size_t offset = codepoints_offset(text, first < 0 ? 0 : (size_t)first);
    rendering_spend_bytes(rendering, text.size * 8);
    while (step > 0 ? at < last : at > last) {
        size_t end = offset;
        codepoints_next(text, &end);
        rendering_add_text(rendering, (struct text){text.data + offset, end - offset});
        at += step;
        if (step > 0 ? at >= last : at <= last)
            break;
        for (int64_t i = 0; i < step; i++)
            codepoints_next(text, &offset);
        for (int64_t i = 0; i > step; i--)
            codepoints_previous(text, &offset);
    }
    return rendering_take(rendering, start);
}

// The end of the run of spaces (or of non-spaces) that starts at `position`.
static size_t run_end(struct text text, size_t position, bool spaces)
{
    for (size_t next = position; position < text.size; position = next)
        if (codepoint_is_space(codepoints_next(text, &next)) != spaces)
            break;
    return position;
}

static void split_words(struct rendering *rendering, struct text text, int64_t max_splits,
                        struct list_builder *list)
{
    size_t start = run_end(text, 0, true);
    for (; start < text.size && max_splits != 0; max_splits--) {
        size_t stop = run_end(text, start, false);
        add_part(rendering, list, text, start, stop);
        start = run_end(text, stop, true);
    }
    if (start < text.size)
        add_part(rendering, list, text, start, text.size);
}

// The start of the run of spaces (or of non-spaces) that ends at `position`.
static size_t run_start(struct text text, size_t position, bool spaces)
{
    for (size_t before = position; position > 0; position = before)
        if (codepoint_is_space(codepoints_previous(text, &before)) != spaces)
            break;
    return position;
}

static void split_words_from_right(struct rendering *rendering, struct text text, int64_t max_splits,
                                   struct list_builder *list)
{
    size_t stop = run_start(text, text.size, true);
    for (; stop > 0 && max_splits != 0; max_splits--) {
        size_t start = run_start(text, stop, false);
        add_part(rendering, list, text, start, stop);
        stop = run_start(text, start, true);
    }
    if (stop > 0)
        add_part(rendering, list, text, 0, stop);
}

static void split_at(struct rendering *rendering, struct text text, struct text separator, int64_t max_splits,
                     bool from_right, struct list_builder *list)
{
    size_t start = 0, stop = text.size;
    for (; max_splits != 0; max_splits--) {
        struct text rest = {text.data ? text.data + start : NULL, stop - start};
        size_t found = text_find(rest, separator, from_right);
        if (found == SIZE_MAX)
            break;
        found += start;
        if (from_right) {
            add_part(rendering, list, text, found + separator.size, stop);
            stop = found;
        } else {
            add_part(rendering, list, text, start, found);
            start = found + separator.size;
        }
    }
    add_part(rendering, list, text, start, stop);
}

struct object text_split(struct rendering *rendering, struct text text, struct text separator,
                         int64_t max_splits, bool from_right)
{
    struct list_builder list = {0};
    if (separator.data && separator.size == 0)
        rendering_fail(rendering, "empty separator");
    if (from_right && separator.data)
        text_spend_search(rendering, text, separator);
    else
        rendering_spend_bytes(rendering, text.size * 4);
    if (separator.data)
        split_at(rendering, text, separator, max_splits, from_right, &list);
    else if (from_right)
        split_words_from_right(rendering, text, max_splits, &list);
    else
        split_words(rendering, text, max_splits, &list);
    for (size_t i = 0; from_right && i < list.n_items / 2; i++) {
        struct object swapped = list.items[i];
        list.items[i] = list.items[list.n_items - 1 - i];
        list.items[list.n_items - 1 - i] = swapped;
    }
    return list_finish(rendering, &list);
}
