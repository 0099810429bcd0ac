#include "consumer/command/files/embed_input.h"

#include "consumer/command/files/embed_line.h"
#include "schemas/value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

struct text embed_input_without_mark(struct text line)
{
    static const char mark[] = "\xEF\xBB\xBF";
    bool has_mark = line.size >= 3 && memcmp(line.data, mark, 3) == 0;
    return has_mark ? (struct text){line.data + 3, line.size - 3} : line;
}

enum embed_lines embed_input_of_line(struct text line)
{
    struct arena arena = {0};
    struct error error;
    struct value value;
    enum embed_lines lines = EMBED_LINES_TEXT;
    struct text trimmed = text_trim(line);
    if (!trimmed.size)
        return EMBED_LINES_UNKNOWN;
    if (trimmed.data[0] == '{')
        lines = EMBED_LINES_OBJECTS; // an invalid object is an error of its line
    else if (trimmed.data[0] == '"' && json_decode(trimmed, &arena, &value, &error) == STATUS_OK)
        lines = EMBED_LINES_STRINGS;
    arena_finish(&arena);
    return lines;
}

// The name of the file that standard input was opened from; NULL: unknown.
static const char *find_name(FILE *file, char *path, size_t size)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fileno(file));
    ssize_t n = readlink(link, path, size - 1);
    if (n <= 0)
        return NULL;
    path[n] = '\0';
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_table(const char *name)
{
    static const char *const endings[] = {".csv", ".tsv", ".parquet"};
    const char *dot = name ? strrchr(name, '.') : NULL;
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
        if (strcasecmp(dot, endings[i]) == 0)
            return true;
    return false;
}

static bool is_parquet(FILE *file)
{
    char magic[4] = "";
    size_t n = fread(magic, 1, sizeof magic, file);
    return n == sizeof magic && memcmp(magic, "PAR1", 4) == 0;
}

// Scans until the format is known. After a first JSON string every later line must be a string or an object,
// else all lines are text; any other first line decides at once.
static enum embed_lines scan(FILE *file)
{
    enum embed_lines lines = EMBED_LINES_UNKNOWN;
    char *buffer = NULL;
    size_t capacity = 0;
    bool is_first = true;
    for (ssize_t size; (lines == EMBED_LINES_UNKNOWN || lines == EMBED_LINES_STRINGS) &&
                       (size = getline(&buffer, &capacity, file)) >= 0;
         is_first = false) {
        struct text line = {buffer, (size_t)size};
        enum embed_lines one = embed_input_of_line(is_first ? embed_input_without_mark(line) : line);
        if (one == EMBED_LINES_UNKNOWN || (lines == EMBED_LINES_STRINGS && one == EMBED_LINES_OBJECTS))
            continue;
        lines = one;
    }
    free(buffer);
    return lines;
}

enum status embed_input_find(FILE *file, bool plain_text, enum embed_lines *lines, struct error *error)
{
    char path[4096];
    struct stat information;
    *lines = plain_text ? EMBED_LINES_TEXT : EMBED_LINES_UNKNOWN;
    if (fstat(fileno(file), &information) != 0 || !S_ISREG(information.st_mode))
        return STATUS_OK;
    const char *name = find_name(file, path, sizeof path);
    off_t start = ftello(file);
    bool is_binary = is_parquet(file);
    if (is_binary || (is_table(name) && !plain_text))
        return error_set(error, STATUS_REFUSE, ERROR_FILE,
                         "standard input is \"%s\", a table: expected lines of text or JSON; %s",
                         name ? name : "a file",
                         is_binary ? "convert the column to lines of {\"text\": ...}"
                                   : "give the column's texts, or --plain-text to take whole lines as texts");
    if (fseeko(file, start, SEEK_SET) == 0 && !plain_text)
        *lines = scan(file);
    if (fseeko(file, start, SEEK_SET) != 0)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "standard input: seeking: %s", strerror(errno));
    return STATUS_OK;
}
