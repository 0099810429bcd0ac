#include "consumer/command/files/input_ids.h"

#include "schemas/base/hash.h"
#include "schemas/json_token.h"

#include <stdio.h>
#include <stdlib.h>

// ---- finding an id ----

// Reads an id, a string or a number. Empty: another value, or one above JOB_ID_BYTES_MAX.
static struct text read_id(struct json_cursor *cursor)
{
    struct text id;
    bool is_integer;
    json_skip_space(cursor);
    bool is_read =
        json_peek(cursor) == '"' ? json_take_string(cursor, &id) : json_take_number(cursor, &id, &is_integer);
    return is_read && id.size <= JOB_ID_BYTES_MAX ? id : (struct text){0};
}

// Reads the members of the outermost object up to its custom_id. False: the line is not JSON up to there.
static bool read_members(struct json_cursor *cursor, struct text *custom_id, struct text *job_id)
{
    json_skip_space(cursor);
    if (!json_take_byte(cursor, '{'))
        return false;
    json_skip_space(cursor);
    if (json_take_byte(cursor, '}'))
        return true;
    do {
        struct text key;
        if (!json_take_key(cursor, &key))
            return false;
        struct json_cursor value = *cursor;
        if (text_equals_string(key, "custom_id")) {
            *custom_id = read_id(cursor);
            return true;
        }
        if (text_equals_string(key, "job_id") && (*job_id = read_id(&value)).size)
            *cursor = value;
        else if (!json_skip_value(cursor, VALUE_DEPTH_MAX))
            return false;
        json_skip_space(cursor);
    } while (json_take_byte(cursor, ','));
    return json_take_close(cursor, '}');
}

// Returns the value of the first "custom_id" anywhere in a line that is not JSON. Empty: none, or not an id.
static struct text search_member(struct text line, struct arena *arena)
{
    static const char name[] = "\"custom_id\"";
    char *strings = arena_allocate(arena, line.size + 1);
    struct json_cursor cursor = json_cursor(line, strings);
    while (strings && cursor.at < cursor.end) {
        const char *hit = memmem(cursor.at, (size_t)(cursor.end - cursor.at), name, sizeof name - 1);
        if (!hit)
            break;
        cursor.at = hit + sizeof name - 1;
        if (json_take_colon(&cursor))
            return read_id(&cursor);
    }
    return (struct text){0};
}

// Whether only further members of the outermost object and its closing brace follow.
static bool ends_object(struct json_cursor *cursor)
{
    struct text key;
    json_skip_space(cursor);
    while (json_take_byte(cursor, ',')) {
        if (!json_take_key(cursor, &key) || !json_skip_value(cursor, VALUE_DEPTH_MAX))
            return false;
        json_skip_space(cursor);
    }
    if (!json_take_byte(cursor, '}'))
        return false;
    json_skip_space(cursor);
    return cursor->at == cursor->end;
}

bool input_ids_find_after(struct text tail, struct arena *arena, struct text *id)
{
    static const char name[] = "\"custom_id\"";
    char *strings = tail.size ? arena_allocate(arena, tail.size + 1) : NULL;
    struct json_cursor cursor = json_cursor(tail, strings);
    while (strings && cursor.at < cursor.end) {
        const char *hit = memmem(cursor.at, (size_t)(cursor.end - cursor.at), name, sizeof name - 1);
        if (!hit)
            break;
        cursor.at = hit + sizeof name - 1;
        struct json_cursor value = cursor;
        if (json_take_colon(&value) && (*id = read_id(&value)).size && ends_object(&value))
            return true;
    }
    return false;
}

bool input_ids_find(struct text line, struct arena *arena, struct text *id)
{
    struct text custom_id = {0}, job_id = {0};
    char *strings = arena_allocate(arena, line.size + 1);
    struct json_cursor cursor = json_cursor(line, strings);
    if (!strings)
        return false;
    if (!read_members(&cursor, &custom_id, &job_id))
        custom_id = search_member(line, arena);
    *id = custom_id.size ? custom_id : job_id;
    return id->size > 0;
}

// ---- unique ids ----

struct entry {
    uint64_t hash;
    int64_t line;
};

struct id_table {
    struct entry *entries;
    size_t n, capacity, limit; // at `limit` entries, duplicates are searched for
    uint64_t part, n_parts;    // hashes whose low bits are `part` are kept; n_parts is a power of two
};

static int by_hash(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return x->hash != y->hash ? (x->hash > y->hash) - (x->hash < y->hash)
                              : (x->line > y->line) - (x->line < y->line);
}

// Finds the first line after `after` with the same hash as an earlier line.
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
    table->n_parts *= 2;
    for (size_t i = 0; i < table->n; i++)
        if (table->entries[i].hash % table->n_parts == table->part)
            table->entries[n++] = table->entries[i];
    table->n = n;
}

static bool add_id(struct id_table *table, uint64_t hash, int64_t line)
{
    if (hash % table->n_parts != table->part)
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

// Finds the id of a line; it points into the line, the arena or `name`. False: the line is blank.
static bool id_of(const struct input_lines *lines, struct text line, struct text dataset, struct arena *arena,
                  char name[JOB_DATASET_BYTES_MAX + 32], struct text *id)
{
    if (input_line_is_blank(line))
        return false;
    struct text tail = {lines->tail.data, lines->tail.size};
    if (!input_ids_find_after(tail, arena, id) && !input_ids_find(line, arena, id)) {
        int length = snprintf(name, JOB_DATASET_BYTES_MAX + 32, "%.*s-%lld", (int)dataset.size, dataset.data,
                              (long long)lines->number);
        *id = (struct text){name, (size_t)length};
    }
    return true;
}

static enum status out_of_memory(const struct input_lines *lines, struct error *error)
{
    return error_memory(error, STATUS_REFUSE, "%s: comparing custom_ids", lines->source->name);
}

// `is_made`, `first_is_made`: the second or first line has no id, and is named by its number.
static enum status refuse_second(const struct input_lines *lines, int64_t second, struct text id,
                                 bool is_made, bool first_is_made, struct error *error)
{
    long long first = (long long)lines->number;
    if (is_made == first_is_made)
        return error_set(error, STATUS_REFUSE, ERROR_FILE,
                         "%s: lines %lld and %lld have the same custom_id \"%.*s\"", lines->source->name,
                         first, (long long)second, (int)id.size, id.data);
    long long nameless = is_made ? (long long)second : first, named = is_made ? first : (long long)second;
    return error_set(
        error, STATUS_REFUSE, ERROR_FILE,
        "%s: line %lld has no custom_id and is named \"%.*s\", which is the custom_id of line %lld: "
        "give line %lld one, or the dataset another name",
        lines->source->name, nameless, (int)id.size, id.data, named, nameless);
}

// Compares the id of line `second` with the ids of all earlier lines, because hashes may collide.
static enum status check_second(struct input_lines *lines, struct text dataset, int64_t second,
                                struct error *error)
{
    char name[JOB_DATASET_BYTES_MAX + 32], id[JOB_ID_BYTES_MAX + 1];
    struct text line = TEXT(""), other, wanted = {0};
    bool is_made = false; // the second line's id is made from its number
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
                    status = refuse_second(lines, second, wanted, is_made, other.data == name, error);
                is_made = pass == 0 ? other.data == name : is_made;
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

// Refuses duplicates in a full table, else makes room in it. The first part is split into smaller parts;
// later parts are about as large, and the limit is doubled if one exceeds it.
static enum status make_room(struct input_lines *lines, struct text dataset, struct id_table *table,
                             struct error *error)
{
    int64_t number = lines->number;
    struct text line = TEXT("");
    enum status status = check_table(lines, dataset, table, error);
    if (status == STATUS_OK && lines->number != number) { // only hashes were equal: return to the position
        status = input_lines_rewind(lines, error);
        while (status == STATUS_OK && line.data && lines->number < number)
            status = input_lines_next(lines, &line, error);
    }
    if (status != STATUS_OK)
        return status;
    if (table->part == 0)
        split_table(table);
    if (table->n >= table->limit)
        table->limit *= 2;
    return STATUS_OK;
}

static enum status check_part(struct input_lines *lines, struct text dataset, uint64_t mask,
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
    struct id_table table = {.limit = limits->n_max, .n_parts = 1};
    enum status status = STATUS_OK;
    for (; status == STATUS_OK && table.part < table.n_parts; table.part++)
        status = check_part(lines, dataset, mask, &table, error);
    free(table.entries);
    return status;
}
