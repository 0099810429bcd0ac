#include "consumer/command/files/input_lines.h"

#include "schemas/base/hash.h"

#include <stdlib.h>
#include <string.h>

enum status input_lines_open(struct input_lines *lines, struct input_source *source, struct error *error)
{
    *lines = (struct input_lines){.source = source,
                                  .bytes = malloc(INPUT_BUFFER_BYTES),
                                  .number = source->n_lines_skipped};
    if (!lines->bytes)
        return error_memory(error, STATUS_REFUSE, "%s: reading", source->name);
    return input_source_rewind(source, error);
}

enum status input_lines_rewind(struct input_lines *lines, struct error *error)
{
    lines->begin = lines->end = 0;
    lines->number = lines->source->n_lines_skipped;
    lines->hash = 0;
    return input_source_rewind(lines->source, error);
}

void input_lines_close(struct input_lines *lines)
{
    free(lines->bytes);
    buffer_finish(&lines->kept);
    buffer_finish(&lines->tail);
    *lines = (struct input_lines){0};
}

static void keep_tail(struct input_lines *lines, const char *bytes, size_t n)
{
    struct buffer *tail = &lines->tail;
    size_t added = n < INPUT_TAIL_BYTES ? n : INPUT_TAIL_BYTES;
    size_t stays = tail->size < INPUT_TAIL_BYTES - added ? tail->size : INPUT_TAIL_BYTES - added;
    if (stays)
        memmove(tail->data, tail->data + tail->size - stays, stays);
    tail->size = stays;
    buffer_add(tail, bytes + n - added, added);
}

static void keep_bytes(struct input_lines *lines, const char *bytes, size_t n)
{
    size_t room = INPUT_LINE_BYTES_MAX - lines->kept.size;
    buffer_add(&lines->kept, bytes, n < room ? n : room);
    lines->line_bytes += n;
    if (n > room)
        keep_tail(lines, bytes + room, n - room);
}

static enum status fill_buffer(struct input_lines *lines, struct error *error)
{
    lines->begin = lines->end = 0;
    return input_source_read(lines->source, lines->bytes, INPUT_BUFFER_BYTES, &lines->end, error);
}

// A byte order mark belongs to the file, not to its first line.
static enum status skip_mark(struct input_lines *lines, struct text *line, struct error *error)
{
    lines->has_mark = line->size >= 3 && memcmp(line->data, "\xEF\xBB\xBF", 3) == 0;
    if (lines->has_mark) {
        line->data += 3;
        line->size -= 3;
        lines->line_bytes -= 3;
    } else if (line->size >= 2 &&
               (memcmp(line->data, "\xFF\xFE", 2) == 0 || memcmp(line->data, "\xFE\xFF", 2) == 0)) {
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: expected UTF-8, got UTF-16",
                         lines->source->name);
    }
    return STATUS_OK;
}

static enum status finish_line(struct input_lines *lines, struct text *line, struct error *error)
{
    bool is_first = ++lines->number == lines->source->n_lines_skipped + 1;
    enum status status = is_first ? skip_mark(lines, line, error) : STATUS_OK;
    lines->hash = hash_bytes(line->data, line->size, lines->hash);
    if (line->size == INPUT_LINE_BYTES_MAX)
        lines->hash = hash_bytes(&lines->line_bytes, sizeof lines->line_bytes, lines->hash);
    return status;
}

enum status input_lines_next(struct input_lines *lines, struct text *line, struct error *error)
{
    buffer_clear(&lines->kept);
    buffer_clear(&lines->tail);
    lines->line_bytes = 0;
    *line = (struct text){0};
    for (;;) {
        enum status status = lines->begin == lines->end ? fill_buffer(lines, error) : STATUS_OK;
        if (status != STATUS_OK)
            return status;
        if (lines->end == 0 && lines->line_bytes == 0)
            return STATUS_OK;
        const char *bytes = lines->bytes + lines->begin;
        size_t n = lines->end - lines->begin;
        const char *feed = n ? memchr(bytes, '\n', n) : NULL;
        size_t taken = feed ? (size_t)(feed - bytes) : n;
        lines->begin += taken + (feed != NULL);
        bool whole = feed && lines->line_bytes == 0;
        lines->has_feed = feed != NULL;
        if (whole)
            lines->line_bytes = taken;
        else
            keep_bytes(lines, bytes, taken);
        if (lines->kept.failed || lines->tail.failed)
            return error_memory(error, STATUS_RETRY, "%s: line %lld", lines->source->name,
                                (long long)lines->number + 1);
        if (!feed && n)
            continue;
        *line = whole ? (struct text){bytes, taken} : (struct text){lines->kept.data, lines->kept.size};
        return finish_line(lines, line, error);
    }
}

bool input_line_is_blank(struct text line)
{
    for (size_t i = 0; i < line.size; i++)
        if (line.data[i] != ' ' && line.data[i] != '\t' && line.data[i] != '\r')
            return false;
    return true;
}
