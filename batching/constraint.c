#include "batching/constraint.h"

#include "batching/constraint_threads.h"
#include "schemas/base/hash.h"

#include <stdlib.h>
#include <string.h>

// ---- the source ----

static uint64_t hash_text(struct text text, uint64_t seed)
{
    seed = hash_bytes(&text.size, sizeof text.size, seed);
    return hash_bytes(text.data, text.size, seed);
}

static uint64_t hash_rules(const struct answer_rules *rules)
{
    const struct constraint *constraint = &rules->constraint;
    const int32_t options[] = {constraint->kind, constraint->indent, constraint->any_order, rules->closes};
    uint64_t hash = hash_text(constraint->source, hash_bytes(options, sizeof options, 0));
    hash = hash_text(constraint->whitespace_pattern, hash);
    for (int32_t i = 0; i < constraint->n_choices; i++)
        hash = hash_text(constraint->choices[i], hash);
    return value_hash(&rules->tools_value, hash_text(rules->tools.named, hash));
}

static bool constraints_equal(const struct constraint *a, const struct constraint *b)
{
    bool equal = a->kind == b->kind && text_equal(a->source, b->source) && a->n_choices == b->n_choices &&
                 a->indent == b->indent && a->any_order == b->any_order &&
                 text_equal(a->whitespace_pattern, b->whitespace_pattern);
    for (int32_t i = 0; i < a->n_choices && equal; i++)
        equal = text_equal(a->choices[i], b->choices[i]);
    return equal;
}

static bool rules_equal(const struct answer_rules *a, const struct answer_rules *b)
{
    return constraints_equal(&a->constraint, &b->constraint) && a->format.tools == b->format.tools &&
           a->format.thinking == b->format.thinking && a->thinking == b->thinking && a->closes == b->closes &&
           a->tools.choice == b->tools.choice && a->tools.is_single == b->tools.is_single &&
           text_equal(a->tools.named, b->tools.named) && value_equal(&a->tools_value, &b->tools_value);
}

static bool copy_text(struct arena *arena, struct text *copy, struct text text)
{
    copy->data = arena_copy(arena, text.data, text.size);
    copy->size = text.size;
    return copy->data != NULL;
}

static bool copy_constraint(struct arena *arena, struct constraint *copy, const struct constraint *constraint)
{
    *copy = (struct constraint){.kind = constraint->kind, // each request names its own field
                                .indent = constraint->indent,
                                .any_order = constraint->any_order};
    copy->choices = arena_allocate_array(arena, (size_t)constraint->n_choices + 1, sizeof *copy->choices);
    bool copied = copy->choices && copy_text(arena, &copy->source, constraint->source) &&
                  copy_text(arena, &copy->whitespace_pattern, constraint->whitespace_pattern);
    for (int32_t i = 0; i < constraint->n_choices && copied; i++) {
        copied = copy_text(arena, &copy->choices[i], constraint->choices[i]);
        copy->n_choices = i + 1;
    }
    return copied;
}

// Copies the functions; their names and parameters are in the value, so they are decoded from its copy.
static bool copy_tools(struct arena *arena, struct answer_rules *copy, const struct answer_rules *rules)
{
    struct tools *tools = &copy->tools;
    *tools = rules->tools;
    tools->functions = arena_allocate_array(arena, (size_t)tools->n_functions + 1, sizeof *tools->functions);
    bool copied = tools->functions && value_copy(&rules->tools_value, arena, &copy->tools_value) &&
                  copy_text(arena, &tools->named, rules->tools.named);
    for (int32_t i = 0; i < tools->n_functions && copied; i++) {
        const struct value *function = value_get(&copy->tools_value.array.items[i], "function");
        const struct value *parameters = value_get(function, "parameters");
        tools->functions[i].name = value_get(function, "name")->text;
        tools->functions[i].parameters = parameters ? *parameters : (struct value){.kind = VALUE_NULL};
    }
    return copied;
}

static bool copy_rules(struct compiled_constraint *entry, const struct answer_rules *rules)
{
    struct answer_rules *copy = &entry->source;
    copy->format = rules->format;
    copy->thinking = rules->thinking;
    copy->closes = rules->closes;
    return copy_constraint(&entry->arena, &copy->constraint, &rules->constraint) &&
           (rules->tools.choice == TOOLS_NONE || copy_tools(&entry->arena, copy, rules));
}

static void destroy_entry(struct compiled_constraint *entry)
{
    forced_runs_finish(&entry->forced);
    recognizer_destroy(entry->recognizer);
    grammar_destroy(entry->grammar);
    arena_finish(&entry->arena);
    free(entry);
}

// ---- the cache ----

static void remove_entry(struct constraint_cache *cache, struct compiled_constraint *entry)
{
    list_remove(&cache->entries, &entry->link);
    destroy_entry(entry);
}

static size_t entry_bytes(const struct compiled_constraint *entry)
{
    return entry->arena.total_bytes + (entry->grammar ? grammar_bytes(entry->grammar) : 0) +
           (entry->recognizer ? recognizer_bytes(entry->recognizer) : 0);
}

// Evicts entries without users, least recently used first, until the limits hold.
static void evict_entries(struct constraint_cache *cache)
{
    for (;;) {
        struct compiled_constraint *oldest = NULL;
        size_t n_bytes = 0;
        int32_t n_idle = 0;
        LIST_EACH (struct compiled_constraint, entry, &cache->entries, link) {
            if (entry->n_users > 0 || entry->state != CONSTRAINT_COMPILED)
                continue;
            n_idle++;
            n_bytes += entry_bytes(entry);
            oldest = !oldest || entry->used < oldest->used ? entry : oldest;
        }
        if (n_idle <= CONSTRAINTS_MAX && n_bytes <= CONSTRAINT_BYTES_MAX)
            return;
        remove_entry(cache, oldest);
    }
}

// ---- the threads ----

// Starts the vocabulary first, then the oldest entries, while the queue has room.
static enum status start_waiting(struct constraint_cache *cache, struct error *error)
{
    enum status status = STATUS_OK;
    if (cache->n_waiting && !cache->threads)
        status = constraint_threads_create(&cache->threads, cache, error);
    if (status == STATUS_OK && cache->n_waiting && cache->making.state == CONSTRAINT_WAITING) {
        cache->making.state = CONSTRAINT_COMPILING;
        cache->n_compiling++;
        constraint_threads_start(cache->threads, &cache->making);
    }
    if (cache->making.state != CONSTRAINT_COMPILED)
        return status; // entries need the vocabulary
    while (status == STATUS_OK && cache->n_waiting && cache->n_compiling < CONSTRAINTS_COMPILING_MAX) {
        struct compiled_constraint *oldest = NULL;
        LIST_EACH (struct compiled_constraint, entry, &cache->entries, link)
            if (entry->state == CONSTRAINT_WAITING)
                oldest = entry;
        oldest->state = CONSTRAINT_COMPILING;
        cache->n_waiting--;
        cache->n_compiling++;
        constraint_threads_start(cache->threads, oldest);
    }
    return status;
}

// True: the entry is a prompt's constraint, not the vocabulary.
static bool take_back(struct constraint_cache *cache, struct compiled_constraint *entry)
{
    entry->state = CONSTRAINT_COMPILED;
    cache->n_compiling--;
    return entry != &cache->making;
}

// If memory ran out while the vocabulary was built, the next call builds it again.
static enum status check_vocabulary(struct constraint_cache *cache, struct error *error)
{
    if (cache->making.state != CONSTRAINT_COMPILED || cache->vocabulary)
        return STATUS_OK;
    *error = cache->making.error;
    cache->making = (struct compiled_constraint){0};
    return error->status;
}

enum status constraint_cache_collect(struct constraint_cache *cache, int wait_ms, int32_t *n_compiled,
                                     struct error *error)
{
    *n_compiled = 0;
    if (cache->n_compiling && wait_ms)
        constraint_threads_wait(cache->threads, wait_ms);
    for (struct compiled_constraint *entry;
         cache->n_compiling && (entry = constraint_threads_take(cache->threads));)
        *n_compiled += take_back(cache, entry);
    if (*n_compiled)
        evict_entries(cache);
    enum status status = check_vocabulary(cache, error);
    return status == STATUS_OK ? start_waiting(cache, error) : status;
}

void constraint_cache_finish(struct constraint_cache *cache)
{
    constraint_threads_destroy(cache->threads);
    cache->threads = NULL;
    cache->n_waiting = cache->n_compiling = 0;
    LIST_EACH (struct compiled_constraint, entry, &cache->entries, link)
        remove_entry(cache, entry);
    constraint_vocabulary_finish(cache);
    cache->making = (struct compiled_constraint){0};
}

static struct compiled_constraint *find_entry(const struct constraint_cache *cache,
                                              const struct answer_rules *rules, uint64_t hash)
{
    LIST_EACH (struct compiled_constraint, entry, &cache->entries, link)
        if (entry->hash == hash && rules_equal(&entry->source, rules))
            return entry;
    return NULL;
}

enum status constraint_cache_find(struct constraint_cache *cache, const struct answer_rules *rules,
                                  struct compiled_constraint **found, struct error *error)
{
    uint64_t hash = hash_rules(rules);
    struct compiled_constraint *entry = find_entry(cache, rules, hash);
    if (!entry) {
        entry = calloc(1, sizeof *entry);
        if (!entry || !copy_rules(entry, rules)) {
            if (entry)
                destroy_entry(entry);
            return error_memory(error, STATUS_RETRY, "a constraint");
        }
        entry->hash = hash;
        list_insert(&cache->entries, NULL, &entry->link);
        cache->n_waiting++;
    }
    entry->n_users++;
    entry->used = ++cache->clock;
    *found = entry;
    return start_waiting(cache, error);
}

void constraint_cache_release(struct constraint_cache *cache, struct compiled_constraint *entry)
{
    if (!entry)
        return;
    bool is_unused = --entry->n_users == 0;
    if (is_unused && entry->state == CONSTRAINT_WAITING) {
        cache->n_waiting--;
        remove_entry(cache, entry);
    } else if (is_unused && entry->state == CONSTRAINT_COMPILED && entry->error.status == STATUS_RETRY) {
        remove_entry(cache, entry); // the next user tries again
    }
    evict_entries(cache);
}
