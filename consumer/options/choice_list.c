#include "consumer/options/choice_list.h"

#include <string.h>

enum { SHOWN_BYTES_MAX = 60 };

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t");
}

// Quotes the given text, shortened to SHOWN_BYTES_MAX.
static enum status refuse_list(struct error *error, const char *what, const char *given)
{
    size_t size = strlen(given),
           n = size <= SHOWN_BYTES_MAX ? size : utf8_complete_prefix(given, SHOWN_BYTES_MAX);
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--choice: %s, got '%.*s%s'", what, (int)n, given,
                     n < size ? "..." : "");
}

// *at: on entry after the opening quote, on return after the closing one. `out` has room for the rest of the
// text.
static enum status read_quoted(const char **at, const char *given, char *out, struct text *label,
                               struct error *error)
{
    size_t n = 0;
    for (; **at && (**at != '"' || (*at)[1] == '"'); ++*at) {
        *at += **at == '"';
        out[n++] = **at;
    }
    if (!**at)
        return refuse_list(error,
                           "a quote is not closed (a label that begins with a quote is put in quotes, with "
                           "that quote doubled)",
                           given);
    *at = skip_blanks(*at + 1);
    *label = (struct text){out, n};
    return !**at || **at == ',' ? STATUS_OK
                                : refuse_list(error,
                                              "expected a comma behind a label in quotes, whose own quotes "
                                              "are doubled",
                                              given);
}

static void read_plain(const char **at, struct text *label)
{
    size_t n = strcspn(*at, ",");
    *label = (struct text){*at, n};
    *at += n;
    while (label->size && strchr(" \t", label->data[label->size - 1]))
        label->size--;
}

// source: what the label is from, for errors.
static enum status add_label(struct choice_list *list, struct text label, const char *source,
                             struct error *error)
{
    if (!utf8_valid(label.data, label.size))
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s: label %zu is not UTF-8", source,
                         list->n + 1);
    for (size_t i = 0; i < list->n; i++) {
        struct text other = list->items[i];
        size_t size = other.size < label.size ? other.size : label.size;
        bool begins = memcmp(other.data, label.data, size) == 0;
        if (begins && other.size == label.size)
            return error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s: \"%.*s\" occurs twice", source,
                             (int)label.size, label.data);
        list->nests |= begins;
    }
    list->items[list->n++] = label;
    return STATUS_OK;
}

static enum status add_labels(struct choice_list *list, const char *text, struct arena *arena,
                              struct error *error)
{
    size_t size = strlen(text);
    char *copy = arena_copy(arena, text, size), *unquoted = arena_allocate(arena, size + 1);
    if (!copy || !unquoted)
        return error_memory(error, STATUS_REFUSE, "--choice");
    enum status status = STATUS_OK;
    const char *at = copy;
    for (bool is_first = true; status == STATUS_OK && (is_first || *at); is_first = false) {
        struct text label = {0};
        at = skip_blanks(at + !is_first); // after the comma
        if (*at == '"') {
            at++;
            status = read_quoted(&at, text, unquoted + (at - copy), &label, error);
        } else {
            read_plain(&at, &label);
        }
        if (status == STATUS_OK && !label.size)
            status = refuse_list(error, "a label is empty", text);
        if (status == STATUS_OK)
            status = add_label(list, label, "--choice", error);
    }
    return status;
}

static size_t count_commas(const char *text)
{
    size_t n = 0;
    for (const char *comma = text; (comma = strchr(comma, ',')); comma++)
        n++;
    return n;
}

enum status choice_list_read(struct choice_list *list, char *const *texts, struct arena *arena,
                             struct error *error)
{
    size_t n_max = 0;
    for (size_t i = 0; texts[i]; i++)
        n_max += 1 + count_commas(texts[i]);
    *list = (struct choice_list){.items = arena_allocate_array(arena, n_max, sizeof *list->items)};
    if (!list->items)
        return error_memory(error, STATUS_REFUSE, "--choice");
    enum status status = STATUS_OK;
    for (size_t i = 0; texts[i] && status == STATUS_OK; i++)
        status = add_labels(list, texts[i], arena, error);
    return status;
}

enum status choice_list_of(struct choice_list *list, const struct text *labels, size_t n, const char *source,
                           struct arena *arena, struct error *error)
{
    *list = (struct choice_list){.items = arena_allocate_array(arena, n ? n : 1, sizeof *list->items)};
    if (!list->items)
        return error_memory(error, STATUS_REFUSE, "%s", source);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < n && status == STATUS_OK; i++)
        status = labels[i].size
                     ? add_label(list, labels[i], source, error)
                     : error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s: label %zu is empty", source, i + 1);
    return status;
}
