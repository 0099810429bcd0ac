#include "engine/answer/answer_settled.h"

#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static struct text rest_from(struct text text, size_t at)
{
    return (struct text){text.data + at, text.size - at};
}

static struct text trim_blanks(struct text text)
{
    while (text.size && is_blank(text.data[text.size - 1]))
        text.size--;
    while (text.size && is_blank(*text.data))
        text = rest_from(text, 1);
    return text;
}

static const char *find_mark(struct text text, const char *mark)
{
    return text.size ? memmem(text.data, text.size, mark, strlen(mark)) : NULL;
}

// The size of the longest end of the text that is a beginning of the mark, of at most size_max bytes.
static size_t begun_size(struct text text, struct text mark, size_t size_max)
{
    size_t n = size_max < text.size ? size_max : text.size;
    while (n > 0 && memcmp(text.data + text.size - n, mark.data, n) != 0)
        n--;
    return n;
}

enum mark_place { MARK_ABSENT, MARK_BEGUN, MARK_WHOLE };

// Whether the text begins with the mark, after blanks. MARK_BEGUN: more text decides it. MARK_WHOLE: *text
// becomes what follows.
static enum mark_place take_mark(struct text *text, const char *mark)
{
    struct text rest = *text;
    size_t size = strlen(mark);
    while (rest.size && is_blank(*rest.data))
        rest = rest_from(rest, 1);
    size_t n = rest.size < size ? rest.size : size;
    if (n && memcmp(rest.data, mark, n) != 0)
        return MARK_ABSENT;
    if (n < size)
        return MARK_BEGUN;
    *text = rest_from(rest, size);
    return MARK_WHOLE;
}

// Adds a thought without the sentence that ended it at its budget. is_open: without what may become that
// sentence or the end of the thought.
static void add_thought(const struct thinking_format *format, struct text thought, bool is_open,
                        struct buffer *reasoning)
{
    struct text farewell = trim_blanks(text_from_string(format->farewell ? format->farewell : ""));
    struct text end = text_from_string(format->end);
    size_t n_farewell = begun_size(thought, farewell, farewell.size);
    size_t n_end = is_open ? begun_size(thought, end, end.size - 1) : 0;
    thought.size -= n_end;
    struct text trimmed = trim_blanks(thought);
    if (farewell.size && begun_size(trimmed, farewell, farewell.size) == farewell.size)
        thought = (struct text){trimmed.data, trimmed.size - farewell.size};
    else if (is_open)
        thought.size -=
            n_farewell > n_end ? n_farewell - n_end : begun_size(thought, farewell, farewell.size);
    thought = trim_blanks(thought);
    if (thought.size && reasoning->size)
        buffer_add_byte(reasoning, '\n');
    buffer_add_text(reasoning, thought);
}

// Reads the thoughts at the beginning of *text. False: more text decides whether there are others.
static bool take_thoughts(const struct thinking_format *format, bool is_open, struct text *text,
                          struct buffer *reasoning, bool *has_any)
{
    for (;; is_open = false) {
        enum mark_place open = is_open ? MARK_WHOLE : take_mark(text, format->open);
        if (open != MARK_WHOLE)
            return open == MARK_ABSENT;
        const char *end = find_mark(*text, format->end);
        struct text thought = {text->data, end ? (size_t)(end - text->data) : text->size};
        add_thought(format, thought, !end, reasoning);
        *has_any = true;
        if (!end)
            return false;
        *text = rest_from(*text, thought.size);
        enum mark_place close = take_mark(text, format->close);
        if (close == MARK_BEGUN)
            return false;
        if (close == MARK_ABSENT)
            (void)take_mark(text, format->end);
    }
}

void answer_settle(const struct thinking_format *format, bool is_open, struct text text,
                   struct settled_answer *settled)
{
    bool has_any = false;
    settled->content = (struct text){0};
    if (!take_thoughts(format, is_open, &text, &settled->reasoning, &has_any))
        return;
    if (format->answer_open && take_mark(&text, format->answer_open) == MARK_BEGUN)
        return;
    struct text close = text_from_string(format->answer_close ? format->answer_close : "");
    const char *found = close.size ? find_mark(text, close.data) : NULL;
    if (found)
        text.size = (size_t)(found - text.data);
    else if (close.size)
        text.size -= begun_size(text, close, close.size - 1);
    while (has_any && text.size && (*text.data == '\n' || *text.data == '\r'))
        text = rest_from(text, 1);
    settled->content = text;
}
