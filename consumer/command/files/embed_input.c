#include "consumer/command/files/embed_input.h"

#include "schemas/value.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static enum embed_lines kind_of_line(struct text line)
{
    struct arena arena = {0};
    struct error error;
    struct value value;
    enum embed_lines kind = EMBED_LINES_TEXT;
    struct text trimmed = text_trim(line);
    if (!trimmed.size)
        return EMBED_LINES_UNKNOWN;
    if (trimmed.data[0] == '{')
        kind = EMBED_LINES_OBJECTS; // an invalid object is an error of its line
    else if (trimmed.data[0] == '"' && json_decode(trimmed, &arena, &value, &error) == STATUS_OK)
        kind = EMBED_LINES_STRINGS;
    arena_finish(&arena);
    return kind;
}

// ---- tables ----

static bool is_table(const char *name)
{
    static const char *const endings[] = {".csv", ".tsv", ".parquet", ".csv.gz", ".tsv.gz"};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t n = strlen(endings[i]);
        if (length >= n && strcasecmp(name + length - n, endings[i]) == 0)
            return true;
    }
    return false;
}

// The name of the file that standard input was opened from is known where /proc is.
static enum status refuse_table(struct error *error)
{
    char path[4096] = "";
    ssize_t n = readlink("/proc/self/fd/0", path, sizeof path - 1);
    const char *slash = n > 0 ? strrchr(path, '/') : NULL; // of a pipe: "pipe:[4711]"
    if (!slash || !is_table(slash + 1))
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_FILE,
                     "standard input is \"%s\", a table: expected lines of text or JSON; give the column's "
                     "texts, or --plain-text to take whole lines as texts",
                     slash + 1);
}

// ---- lines ----

// After a first JSON string every later line must be a string or an object, else all lines are text.
static void add_kind(struct embed_input *input, struct text line)
{
    if (input->kind == EMBED_LINES_TEXT || input->kind == EMBED_LINES_OBJECTS)
        return;
    enum embed_lines one = kind_of_line(line);
    if (one != EMBED_LINES_UNKNOWN && !(input->kind == EMBED_LINES_STRINGS && one == EMBED_LINES_OBJECTS))
        input->kind = one;
}

static enum status refuse_line(struct embed_input *input, int64_t number, bool has_nul, struct error *error)
{
    const char *fits;
    enum status status = input_source_guess(&input->source, &fits, error);
    if (status != STATUS_OK)
        return status;
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: line %lld: expected text in UTF-8, got %s%s%s",
                     input->source.name, (long long)number, has_nul ? "a byte 0" : "other bytes",
                     fits ? ": give --encoding " : ", which is no text", fits ? fits : "");
}

// Reads all lines; of JSON lines of objects only the first, since their faults are of each line.
static enum status scan(struct embed_input *input, struct error *error)
{
    struct text line;
    int64_t n_bad = 0; // first line that is no text
    bool has_nul = false;
    enum status status;
    while ((status = embed_input_next(input, &line, error)) == STATUS_OK && line.data) {
        add_kind(input, line);
        if (input->kind == EMBED_LINES_OBJECTS)
            break;
        bool nul = memchr(line.data, 0, line.size) != NULL;
        if (!n_bad && line.size <= JOB_RECORD_BYTES_MAX && (nul || !utf8_valid(line.data, line.size))) {
            n_bad = input->lines.number;
            has_nul = nul;
        }
        if (n_bad && input->kind == EMBED_LINES_TEXT)
            return refuse_line(input, n_bad, has_nul, error);
    }
    if (input->kind == EMBED_LINES_UNKNOWN)
        input->kind = EMBED_LINES_TEXT;
    return status == STATUS_OK ? input_lines_rewind(&input->lines, error) : status;
}

enum status embed_input_open(struct embed_input *input, bool plain_text, const struct input_text *text,
                             struct error *error)
{
    *input = (struct embed_input){.kind = plain_text ? EMBED_LINES_TEXT : EMBED_LINES_UNKNOWN};
    enum status status = plain_text ? STATUS_OK : refuse_table(error);
    if (status == STATUS_OK)
        status = input_source_open(&input->source, "-", error);
    if (status == STATUS_OK)
        status = input_source_decode(&input->source, text, error);
    if (status == STATUS_OK)
        status = input_lines_open(&input->lines, &input->source, error);
    return status == STATUS_OK ? scan(input, error) : status;
}

void embed_input_close(struct embed_input *input)
{
    input_lines_close(&input->lines);
    if (input->source.name)
        input_source_close(&input->source);
    *input = (struct embed_input){0};
}

enum status embed_input_next(struct embed_input *input, struct text *line, struct error *error)
{
    enum status status = input_lines_next(&input->lines, line, error);
    while (status == STATUS_OK && line->size > 0 && line->data[line->size - 1] == '\r')
        line->size--;
    return status;
}
