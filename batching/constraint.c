#include "batching/constraint.h"

#include "engine/grammar/json_schema.h"
#include "schemas/hash.h"

#include <stdlib.h>
#include <string.h>

// ---- the source ----

static uint64_t hash_text(struct text text, uint64_t seed)
{
    seed = hash_bytes(&text.size, sizeof text.size, seed);
    return hash_bytes(text.data, text.size, seed);
}

static uint64_t hash_constraint(const struct constraint *constraint)
{
    uint64_t hash = hash_text(constraint->source, (uint64_t)constraint->kind);
    for (int32_t i = 0; i < constraint->n_choices; i++)
        hash = hash_text(constraint->choices[i], hash);
    return hash;
}

static bool constraints_equal(const struct constraint *a, const struct constraint *b)
{
    bool equal = a->kind == b->kind && text_equal(a->source, b->source) && a->n_choices == b->n_choices;
    for (int32_t i = 0; i < a->n_choices && equal; i++)
        equal = text_equal(a->choices[i], b->choices[i]);
    return equal;
}

static bool copy_text(struct text *copy, struct text text)
{
    char *data = malloc(text.size + 1);
    if (data && text.size)
        memcpy(data, text.data, text.size);
    *copy = (struct text){data, text.size};
    return data != NULL;
}

static bool copy_constraint(struct constraint *copy, const struct constraint *constraint)
{
    *copy = (struct constraint){.kind = constraint->kind}; // each request names its own field
    copy->choices = calloc((size_t)constraint->n_choices + 1, sizeof *copy->choices);
    bool copied = copy->choices && copy_text(&copy->source, constraint->source);
    for (int32_t i = 0; i < constraint->n_choices && copied; i++) {
        copied = copy_text(&copy->choices[i], constraint->choices[i]);
        copy->n_choices = i + 1;
    }
    return copied;
}

static void destroy_entry(struct compiled_constraint *entry)
{
    recognizer_destroy(entry->recognizer);
    grammar_destroy(entry->grammar);
    for (int32_t i = 0; i < entry->source.n_choices; i++)
        free((char *)entry->source.choices[i].data);
    free(entry->source.choices);
    free((char *)entry->source.source.data);
    free(entry);
}

// ---- the vocabulary ----

static enum status make_vocabulary(struct constraint_cache *cache, struct error *error)
{
    size_t n = (size_t)cache->n_vocab, n_ends = 0;
    struct text *tokens = calloc(n, sizeof *tokens);
    size_t *starts = calloc(n + 1, sizeof *starts);
    uint32_t *ends = calloc(n, sizeof *ends);
    struct buffer bytes = {0};
    for (size_t i = 0; i < n && starts && ends; i++) {
        tokenizer_decode(cache->tokenizer, (int32_t)i, false, &bytes);
        starts[i + 1] = bytes.size;
        if (tokenizer_ends_generation(cache->tokenizer, (int32_t)i))
            ends[n_ends++] = (uint32_t)i;
    }
    for (size_t i = 0; i < n && tokens && starts; i++)
        tokens[i] = (struct text){bytes.data + starts[i], starts[i + 1] - starts[i]};
    enum status status = tokens && starts && ends && !bytes.failed
                             ? grammar_vocabulary_create(&cache->vocabulary, tokens, n, ends, n_ends, error)
                             : error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY,
                                         "the vocabulary of constraints: out of memory");
    buffer_finish(&bytes);
    free(ends);
    free(starts);
    free(tokens);
    return status;
}

// ---- the cache ----

static void remove_entry(struct constraint_cache *cache, struct compiled_constraint *entry)
{
    struct compiled_constraint **link = &cache->first;
    while (*link != entry)
        link = &(*link)->next;
    *link = entry->next;
    destroy_entry(entry);
}

// Drops entries without users, the one that was used longest ago first, until the limits hold.
static void evict(struct constraint_cache *cache)
{
    for (;;) {
        struct compiled_constraint *oldest = NULL;
        size_t n_bytes = 0;
        int32_t n_idle = 0;
        for (struct compiled_constraint *entry = cache->first; entry; entry = entry->next) {
            if (entry->n_users > 0)
                continue;
            n_idle++;
            n_bytes += entry->source.source.size + (entry->grammar ? grammar_bytes(entry->grammar) : 0);
            oldest = !oldest || entry->used < oldest->used ? entry : oldest;
        }
        if (n_idle <= CONSTRAINTS_MAX && n_bytes <= CONSTRAINT_BYTES_MAX)
            return;
        remove_entry(cache, oldest);
    }
}

void constraint_cache_finish(struct constraint_cache *cache)
{
    while (cache->first)
        remove_entry(cache, cache->first);
    grammar_vocabulary_destroy(cache->vocabulary);
    cache->vocabulary = NULL;
}

enum status constraint_cache_find(struct constraint_cache *cache, const struct constraint *constraint,
                                  struct compiled_constraint **found, struct error *error)
{
    if (!cache->vocabulary) {
        enum status status = make_vocabulary(cache, error);
        if (status != STATUS_OK)
            return status;
    }
    uint64_t hash = hash_constraint(constraint);
    struct compiled_constraint *entry = cache->first;
    while (entry && !(entry->hash == hash && constraints_equal(&entry->source, constraint)))
        entry = entry->next;
    if (!entry) {
        entry = calloc(1, sizeof *entry);
        if (!entry || !copy_constraint(&entry->source, constraint)) {
            if (entry)
                destroy_entry(entry);
            return error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "a constraint: out of memory");
        }
        entry->hash = hash;
        entry->next = cache->first;
        cache->first = entry;
    }
    entry->n_users++;
    entry->used = ++cache->clock;
    *found = entry;
    return STATUS_OK;
}

void constraint_cache_release(struct constraint_cache *cache, struct compiled_constraint *entry)
{
    if (!entry)
        return;
    // the next user tries again
    bool is_useless = --entry->n_users == 0 && entry->error.status == STATUS_RETRY;
    if (is_useless)
        remove_entry(cache, entry);
    evict(cache);
}

// ---- compiling ----

static enum status compile_json(struct compiled_constraint *entry, struct text schema)
{
    struct schema_refusal refusal = {0};
    uint32_t start = 0;
    struct rules *rules = rules_create(&grammar_limits_default);
    if (!rules)
        return error_set(&entry->error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "a schema: out of memory");
    enum status status = json_schema_compile(schema, NULL, rules, &start, &refusal, &entry->error);
    if (status == STATUS_OK)
        return grammar_create(&entry->grammar, rules, start, &entry->error);
    rules_destroy(rules);
    return status;
}

static enum status compile_grammar(struct compiled_constraint *entry, struct text source)
{
    bool is_gbnf = memmem(source.data, source.size, "::=", 3) != NULL;
    return is_gbnf ? grammar_compile_gbnf(&entry->grammar, source, NULL, &entry->error)
                   : grammar_compile_lark(&entry->grammar, source, NULL, &entry->error);
}

static enum status compile(struct compiled_constraint *entry)
{
    const struct constraint *constraint = &entry->source;
    switch (constraint->kind) {
    case CONSTRAINT_JSON_OBJECT:
        return compile_json(entry, text_from_string("{\"type\":\"object\"}"));
    case CONSTRAINT_JSON_SCHEMA:
        return compile_json(entry, constraint->source);
    case CONSTRAINT_REGEX:
        return grammar_compile_regex(&entry->grammar, constraint->source, NULL, &entry->error);
    case CONSTRAINT_CHOICE:
        return grammar_compile_choice(&entry->grammar, constraint->choices, (size_t)constraint->n_choices,
                                      NULL, &entry->error);
    case CONSTRAINT_GRAMMAR:
        return compile_grammar(entry, constraint->source);
    case CONSTRAINT_NONE:
        break;
    }
    return STATUS_OK;
}

void constraint_compile(struct compiled_constraint *entry, const struct grammar_vocabulary *vocabulary)
{
    entry->is_compiled = true;
    if (compile(entry) == STATUS_OK)
        (void)!recognizer_create(&entry->recognizer, entry->grammar, vocabulary, &entry->error);
}
