#include "consumer/command/input_ids.h"

#include "schemas/hash.h"

#include <stdio.h>
#include <stdlib.h>

// ---- finding an id ----

static size_t skip_space(struct text line, size_t at)
{
    while (at < line.size && (line.data[at] == ' ' || line.data[at] == '\t' || line.data[at] == '\r'))
        at++;
    return at;
}

// From a string's opening quotation mark to behind its closing one. False: it has none.
static bool skip_string(struct text line, size_t *at)
{
    for (size_t i = *at + 1; i < line.size; i++) {
        if (line.data[i] == '\\') {
            i++;
        } else if (line.data[i] == '"') {
            *at = i + 1;
            return true;
        }
    }
    return false;
}

// The string or number at `at`.
static bool read_id(struct text line, size_t at, struct arena *arena, struct text *id)
{
    size_t end = at;
    struct value value;
    struct error error;
    if (at < line.size && line.data[at] == '"') {
        if (!skip_string(line, &end))
            return false;
        *id = (struct text){line.data + at + 1, end - at - 2};
        if (memchr(id->data, '\\', id->size)) {
            if (json_decode((struct text){line.data + at, end - at}, arena, &value, &error) != STATUS_OK)
                return false;
            *id = value.text;
        }
    } else {
        while (end < line.size &&
               (strchr("+-.eE", line.data[end]) ? line.data[end] != '\0'
                                                : line.data[end] >= '0' && line.data[end] <= '9'))
            end++;
        *id = (struct text){line.data + at, end - at};
    }
    return id->size > 0 && id->size <= JOB_ID_BYTES_MAX && utf8_valid(id->data, id->size);
}

static bool is_member(struct text line, size_t begin, size_t end, const char *name)
{
    return text_equals_string((struct text){line.data + begin + 1, end - begin - 2}, name);
}

struct found_members {
    size_t custom_id, job_id; // where the value begins; 0: not seen
};

// The members of the outermost object. False: the line is no JSON object.
static bool scan_members(struct text line, struct found_members *found)
{
    size_t at = skip_space(line, 0);
    int depth = 0;
    if (at == line.size || line.data[at] != '{')
        return false;
    for (bool is_key = false; at < line.size;) {
        char c = line.data[at];
        if (c != '"') {
            depth += (c == '{' || c == '[') - (c == '}' || c == ']');
            is_key = depth == 1 && (c == '{' || c == ',' || (is_key && (c == ' ' || c == '\t' || c == '\r')));
            at++;
            if (depth == 0)
                return true;
            continue;
        }
        size_t begin = at;
        if (!skip_string(line, &at))
            return false;
        size_t colon = skip_space(line, at);
        if (!is_key || colon == line.size || line.data[colon] != ':')
            continue;
        if (is_member(line, begin, at, "custom_id")) {
            found->custom_id = skip_space(line, colon + 1);
            return true;
        }
        if (is_member(line, begin, at, "job_id"))
            found->job_id = skip_space(line, colon + 1);
    }
    return false;
}

// The first "custom_id": in any place.
static size_t search_member(struct text line)
{
    static const char name[] = "\"custom_id\"";
    for (size_t at = 0; at < line.size;) {
        const char *hit = memmem(line.data + at, line.size - at, name, sizeof name - 1);
        if (!hit)
            return 0;
        at = skip_space(line, (size_t)(hit - line.data) + sizeof name - 1);
        if (at < line.size && line.data[at] == ':')
            return skip_space(line, at + 1);
    }
    return 0;
}

bool input_ids_find(struct text line, struct arena *arena, struct text *id)
{
    struct found_members found = {0};
    if (!scan_members(line, &found) && !found.custom_id)
        found.custom_id = search_member(line);
    return (found.custom_id && read_id(line, found.custom_id, arena, id)) ||
           (found.job_id && read_id(line, found.job_id, arena, id));
}

// ---- no two alike ----

struct entry {
    uint64_t hash;
    int64_t line;
};

struct id_table {
    struct entry *entries;
    size_t n, capacity, limit; // at the limit, duplicates are searched
    uint64_t share, n_shares;  // hashes whose low bits are `share` are kept; n_shares is a power of two
};

static int by_hash(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return x->hash != y->hash ? (x->hash > y->hash) - (x->hash < y->hash)
                              : (x->line > y->line) - (x->line < y->line);
}

// The first line beyond `after` with the hash of an earlier line.
static bool find_second(struct id_table *table, int64_t after, int64_t *second)
{
    bool found = false;
    if (table->n > 0)
        qsort(table->entries, table->n, sizeof *table->entries, by_hash);
    for (size_t i = 1; i < table->n; i++) {
        const struct entry *entry = &table->entries[i];
        if (table->entries[i - 1].hash != entry->hash || entry->line <= after ||
            (found && entry->line >= *second))
            continue;
        *second = entry->line;
        found = true;
    }
    return found;
}

static void split_table(struct id_table *table)
{
    size_t n = 0;
    table->n_shares *= 2;
    for (size_t i = 0; i < table->n; i++)
        if (table->entries[i].hash % table->n_shares == table->share)
            table->entries[n++] = table->entries[i];
    table->n = n;
}

static bool add_id(struct id_table *table, uint64_t hash, int64_t line)
{
    if (hash % table->n_shares != table->share)
        return true;
    if (table->n == table->capacity) {
        size_t capacity = table->capacity ? 2 * table->capacity : 1024;
        struct entry *entries = realloc(table->entries, capacity * sizeof *entries);
        if (!entries)
            return false;
        table->entries = entries;
        table->capacity = capacity;
    }
    table->entries[table->n++] = (struct entry){hash, line};
    return true;
}

// The id of a line, in the line, the arena or `name`. False: the line is blank.
static bool id_of(const struct input_lines *lines, struct text line, struct text dataset, struct arena *arena,
                  char name[JOB_DATASET_BYTES_MAX + 32], struct text *id)
{
    if (input_line_is_blank(line))
        return false;
    if (!input_ids_find(line, arena, id)) {
        int length = snprintf(name, JOB_DATASET_BYTES_MAX + 32, "%.*s-%lld", (int)dataset.size, dataset.data,
                              (long long)lines->number);
        *id = (struct text){name, (size_t)length};
    }
    return true;
}

static enum status out_of_memory(const struct input_lines *lines, struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "%s: comparing custom_ids: out of memory",
                     lines->source->name);
}

// Compares the id of one line with those before it: hashes may collide.
static enum status check_second(struct input_lines *lines, struct text dataset, int64_t second,
                                struct error *error)
{
    char name[JOB_DATASET_BYTES_MAX + 32], id[JOB_ID_BYTES_MAX + 1];
    struct text line = TEXT(""), other, wanted = {0};
    enum status status = STATUS_OK;
    for (int pass = 0; status == STATUS_OK && pass < 2; pass++) {
        status = input_lines_rewind(lines, error);
        while (status == STATUS_OK && line.data && lines->number < second) {
            struct arena arena = {0};
            status = input_lines_next(lines, &line, error);
            bool compared = lines->number == second ? pass == 0 : pass == 1;
            if (status == STATUS_OK && line.data && compared &&
                id_of(lines, line, dataset, &arena, name, &other)) {
                if (pass == 0)
                    wanted = (struct text){memcpy(id, other.data, other.size), other.size};
                else if (text_equal(wanted, other))
                    status = error_set(error, STATUS_REFUSE, ERROR_FILE,
                                       "%s: lines %lld and %lld have the same custom_id \"%.*s\"",
                                       lines->source->name, (long long)lines->number, (long long)second,
                                       (int)wanted.size, wanted.data);
            }
            arena_finish(&arena);
        }
    }
    return status;
}

static enum status check_table(struct input_lines *lines, struct text dataset, struct id_table *table,
                               struct error *error)
{
    enum status status = STATUS_OK;
    for (int64_t second = 0; status == STATUS_OK && find_second(table, second, &second);)
        status = check_second(lines, dataset, second, error);
    return status;
}

// A full table without two alike: of the first share, smaller shares; later ones are about as large, and may
// pass the limit.
static enum status make_room(struct input_lines *lines, struct text dataset, struct id_table *table,
                             struct error *error)
{
    int64_t number = lines->number;
    struct text line = TEXT("");
    enum status status = check_table(lines, dataset, table, error);
    if (status == STATUS_OK && lines->number != number) { // only the hashes were equal: continue
        status = input_lines_rewind(lines, error);
        while (status == STATUS_OK && line.data && lines->number < number)
            status = input_lines_next(lines, &line, error);
    }
    if (status != STATUS_OK)
        return status;
    if (table->share == 0)
        split_table(table);
    if (table->n >= table->limit)
        table->limit *= 2;
    return STATUS_OK;
}

static enum status check_share(struct input_lines *lines, struct text dataset, uint64_t mask,
                               struct id_table *table, struct error *error)
{
    char name[JOB_DATASET_BYTES_MAX + 32];
    struct text line = TEXT(""), id;
    enum status status = input_lines_rewind(lines, error);
    table->n = 0;
    while (status == STATUS_OK && line.data) {
        if (table->n >= table->limit)
            status = make_room(lines, dataset, table, error);
        if (status == STATUS_OK)
            status = input_lines_next(lines, &line, error);
        if (status != STATUS_OK || !line.data)
            break;
        struct arena arena = {0};
        if (id_of(lines, line, dataset, &arena, name, &id) &&
            !add_id(table, hash_bytes(id.data, id.size, 0) & mask, lines->number))
            status = out_of_memory(lines, error);
        arena_finish(&arena);
    }
    return status == STATUS_OK ? check_table(lines, dataset, table, error) : status;
}

enum status input_ids_check(struct input_lines *lines, struct text dataset,
                            const struct input_ids_limits *limits, struct error *error)
{
    uint64_t mask = limits->n_bits < 64 ? (UINT64_C(1) << limits->n_bits) - 1 : UINT64_MAX;
    struct id_table table = {.limit = limits->n_max, .n_shares = 1};
    enum status status = STATUS_OK;
    for (; status == STATUS_OK && table.share < table.n_shares; table.share++)
        status = check_share(lines, dataset, mask, &table, error);
    free(table.entries);
    return status;
}
