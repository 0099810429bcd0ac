#include "engine/answer/thought_scan.h"

#include <string.h>

enum { KEPT_BYTES = 1024, CUT_AT_BYTES = 8192 }; // bytes of a thought that are kept: more than any mark has

static void drop_front(struct thought_scan *scan, size_t n)
{
    memmove(scan->text.data, scan->text.data + n, scan->text.size - n);
    scan->text.size -= n;
}

// Compares the text with a mark. *is_begun becomes true if the text ends within the mark.
static bool starts_with(struct text text, const char *mark, bool *is_begun)
{
    size_t size = strlen(mark), n = text.size < size ? text.size : size;
    bool is_same = n == 0 || memcmp(text.data, mark, n) == 0;
    *is_begun = is_same && n < size;
    return is_same && n == size;
}

static struct text scan_text(const struct thought_scan *scan)
{
    return (struct text){scan->text.data, scan->text.size};
}

// Leaves THOUGHT_BEFORE if the text decides it. False: the text so far decides nothing more.
static bool leave_before(struct thought_scan *scan, const struct thinking_format *format)
{
    bool is_begun;
    struct text text = scan_text(scan);
    while (text.size && strchr(" \n\r\t", *text.data)) {
        text.data++;
        text.size--;
    }
    bool opens = starts_with(text, format->open, &is_begun);
    if (is_begun)
        return false;
    scan->place = opens ? THOUGHT_OPEN : THOUGHT_AFTER;
    if (opens)
        drop_front(scan, scan->text.size - text.size + strlen(format->open));
    return opens;
}

// Subtracts the tokens before the newest one that lie within the mark at n_thought.
static void uncount_mark(struct thought_scan *scan, size_t n_thought, size_t n_before)
{
    for (int i = 0; i < THOUGHT_SIZES && scan->sizes[i] && n_before >= n_thought + scan->sizes[i]; i++) {
        n_before -= scan->sizes[i];
        scan->n_tokens--;
    }
}

// n_new is the number of bytes that the token adds to the thought.
static bool leave_thought(struct thought_scan *scan, const struct thinking_format *format, size_t n_new)
{
    size_t size = strlen(format->end), n_before = scan->text.size - n_new;
    size_t from = n_before > size ? n_before - size : 0;
    const char *end =
        n_new ? memmem(scan->text.data + from, scan->text.size - from, format->end, size) : NULL;
    if (end) {
        size_t n_thought = (size_t)(end - scan->text.data);
        scan->n_tokens += n_thought > n_before;
        uncount_mark(scan, n_thought, n_before);
        memset(scan->sizes, 0, sizeof scan->sizes);
        drop_front(scan, n_thought);
        scan->place = THOUGHT_CLOSING;
        return true;
    }
    if (n_new > 0) {
        scan->n_tokens++;
        memmove(scan->sizes + 1, scan->sizes, sizeof scan->sizes - 1);
        scan->sizes[0] = n_new < 255 ? (unsigned char)n_new : 255;
    }
    if (scan->text.size > CUT_AT_BYTES)
        drop_front(scan, scan->text.size - KEPT_BYTES);
    return false;
}

static bool leave_closing(struct thought_scan *scan, const struct thinking_format *format)
{
    bool is_begun;
    bool is_whole = starts_with(scan_text(scan), format->close, &is_begun);
    if (is_begun)
        return false;
    drop_front(scan, strlen(is_whole ? format->close : format->end));
    scan->place = THOUGHT_BEFORE;
    return true;
}

void thought_scan_token(struct thought_scan *scan, const struct thinking_format *format, struct text token)
{
    if (scan->place == THOUGHT_AFTER || token.size == 0)
        return;
    buffer_add_text(&scan->text, token);
    if (scan->text.failed)
        return;
    for (bool moves = true; moves;) {
        size_t n_new = scan->text.size < token.size ? scan->text.size : token.size;
        moves = scan->place == THOUGHT_BEFORE    ? leave_before(scan, format)
                : scan->place == THOUGHT_OPEN    ? leave_thought(scan, format, n_new)
                : scan->place == THOUGHT_CLOSING ? leave_closing(scan, format)
                                                 : false;
    }
}

bool thought_scan_may_close(const struct thought_scan *scan)
{
    struct text text = scan_text(scan);
    return scan->place == THOUGHT_OPEN && utf8_complete_prefix(text.data, text.size) == text.size;
}

size_t thought_scan_written(const struct thought_scan *scan, struct text closing, size_t size_max)
{
    size_t n = scan->text.size < size_max ? scan->text.size : size_max;
    while (n && memcmp(scan->text.data + scan->text.size - n, closing.data, n) != 0)
        n--;
    return n;
}
