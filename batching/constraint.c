#include "batching/constraint.h"

#include "engine/answer/answer_grammar.h"
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

static uint64_t hash_rules(const struct answer_rules *rules)
{
    const struct constraint *constraint = &rules->constraint;
    const int32_t options[] = {constraint->kind, constraint->indent, constraint->any_order};
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
           a->format.thinking == b->format.thinking && a->thinking == b->thinking &&
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

// The functions again as they were decoded: their names and parameters are in the value.
static bool copy_tools(struct arena *arena, struct answer_rules *copy, const struct answer_rules *rules)
{
    struct buffer text = {0};
    struct error error;
    struct tools *tools = &copy->tools;
    json_encode(&rules->tools_value, &text);
    bool copied = !text.failed && json_decode((struct text){text.data, text.size}, arena, &copy->tools_value,
                                              &error) == STATUS_OK;
    buffer_finish(&text);
    *tools = rules->tools;
    tools->functions = arena_allocate_array(arena, (size_t)tools->n_functions + 1, sizeof *tools->functions);
    copied = copied && tools->functions && copy_text(arena, &tools->named, rules->tools.named);
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
    return copy_constraint(&entry->arena, &copy->constraint, &rules->constraint) &&
           (rules->tools.choice == TOOLS_NONE || copy_tools(&entry->arena, copy, rules));
}

static void destroy_entry(struct compiled_constraint *entry)
{
    recognizer_destroy(entry->recognizer);
    grammar_destroy(entry->grammar);
    arena_finish(&entry->arena);
    free(entry);
}

// ---- the vocabulary ----

static int compare_names(const void *a, const void *b)
{
    const struct text *x = a, *y = b;
    size_t n = x->size < y->size ? x->size : y->size;
    int order = n ? memcmp(x->data, y->data, n) : 0;
    return order ? order : (x->size > y->size) - (x->size < y->size);
}

static bool is_special(const void *context, struct text name)
{
    const struct constraint_cache *cache = context;
    return cache->n_specials &&
           bsearch(&name, cache->specials, cache->n_specials, sizeof *cache->specials, compare_names);
}

static bool collect_specials(struct constraint_cache *cache)
{
    size_t n = 0;
    for (int32_t id = 0; id < cache->n_vocab; id++)
        n += tokenizer_is_control(cache->tokenizer, id);
    cache->specials = calloc(n + 1, sizeof *cache->specials);
    for (int32_t id = 0; id < cache->n_vocab && cache->specials; id++)
        if (tokenizer_is_control(cache->tokenizer, id))
            cache->specials[cache->n_specials++] = tokenizer_token_text(cache->tokenizer, id);
    if (n && cache->specials)
        qsort(cache->specials, n, sizeof *cache->specials, compare_names);
    return cache->specials != NULL;
}

static enum status make_vocabulary(struct constraint_cache *cache, struct error *error)
{
    size_t n = (size_t)cache->n_vocab, n_ends = 0;
    struct text *tokens = calloc(n, sizeof *tokens);
    size_t *starts = calloc(n + 1, sizeof *starts);
    uint32_t *ends = calloc(n, sizeof *ends);
    struct buffer bytes = {0};
    for (size_t i = 0; i < n && starts && ends; i++) {
        if (tokenizer_is_control(cache->tokenizer, (int32_t)i))
            grammar_special_token(tokenizer_token_text(cache->tokenizer, (int32_t)i), &bytes);
        else
            tokenizer_decode(cache->tokenizer, (int32_t)i, false, &bytes);
        starts[i + 1] = bytes.size;
        if (tokenizer_ends_generation(cache->tokenizer, (int32_t)i))
            ends[n_ends++] = (uint32_t)i;
    }
    for (size_t i = 0; i < n && tokens && starts; i++)
        tokens[i] = (struct text){bytes.data + starts[i], starts[i + 1] - starts[i]};
    enum status status = tokens && starts && ends && !bytes.failed && collect_specials(cache)
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

static size_t entry_bytes(const struct compiled_constraint *entry)
{
    return entry->arena.total_bytes + (entry->grammar ? grammar_bytes(entry->grammar) : 0) +
           (entry->recognizer ? recognizer_bytes(entry->recognizer) : 0);
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
            n_bytes += entry_bytes(entry);
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
    free(cache->specials);
    cache->specials = NULL;
    cache->n_specials = 0;
    cache->vocabulary = NULL;
}

enum status constraint_cache_find(struct constraint_cache *cache, const struct answer_rules *rules,
                                  struct compiled_constraint **found, struct error *error)
{
    if (!cache->vocabulary) {
        enum status status = make_vocabulary(cache, error);
        if (status != STATUS_OK)
            return status;
    }
    uint64_t hash = hash_rules(rules);
    struct compiled_constraint *entry = cache->first;
    while (entry && !(entry->hash == hash && rules_equal(&entry->source, rules)))
        entry = entry->next;
    if (!entry) {
        entry = calloc(1, sizeof *entry);
        if (!entry || !copy_rules(entry, rules)) {
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

_Static_assert((int)JOB_JSON_INDENT_MAX == (int)JSON_SCHEMA_INDENT_MAX, "a job may ask for what there is");

static struct json_schema_options describe_json(const struct constraint *constraint)
{
    bool is_spaced = constraint->indent == JSON_INDENT_SPACED;
    return (struct json_schema_options){.spacing = is_spaced                ? JSON_SPACING_SPACED
                                                   : constraint->indent > 0 ? JSON_SPACING_INDENTED
                                                                            : JSON_SPACING_COMPACT,
                                        .indent = is_spaced ? 0 : (uint32_t)constraint->indent,
                                        .any_order = constraint->any_order};
}

// Compact JSON has the white space of each pattern that matches the empty text; of others none is known to be
// bounded.
static enum status check_white_space(struct compiled_constraint *entry)
{
    struct grammar *grammar = NULL;
    struct recognizer *recognizer = NULL;
    struct matcher matcher = {0};
    bool is_met = false;
    struct text pattern = entry->source.constraint.whitespace_pattern;
    enum status status = grammar_compile_regex(&grammar, pattern, NULL, &entry->error);
    if (status == STATUS_OK)
        status = recognizer_create(&recognizer, grammar, NULL, &entry->error);
    if (status == STATUS_OK)
        status = matcher_init(&matcher, recognizer, &entry->error);
    if (status == STATUS_OK)
        status = matcher_may_end(&matcher, &is_met, &entry->error);
    if (status == STATUS_OK && !is_met)
        status = error_set(&entry->error, STATUS_REJECT, ERROR_UNSUPPORTED_FIELD,
                           "whitespace_pattern: only patterns that match the empty text are supported: JSON "
                           "is written compactly");
    matcher_finish(&matcher);
    recognizer_destroy(recognizer);
    grammar_destroy(grammar);
    return status;
}

static enum status compile_json(struct compiled_constraint *entry, struct text schema)
{
    struct schema_refusal refusal = {0};
    const struct json_schema_options options = describe_json(&entry->source.constraint);
    uint32_t start = 0;
    if (check_white_space(entry) != STATUS_OK)
        return entry->error.status;
    struct rules *rules = rules_create(&grammar_limits_default);
    if (!rules)
        return error_set(&entry->error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "a schema: out of memory");
    enum status status = json_schema_compile(schema, &options, rules, &start, &refusal, &entry->error);
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
    const struct constraint *constraint = &entry->source.constraint;
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

// Whether the format asks for more than the content that was compiled.
static bool has_parts(const struct answer_rules *rules)
{
    return rules->format.thinking || rules->tools.choice != TOOLS_NONE;
}

// Puts thoughts and calls around the content.
static enum status add_parts(struct compiled_constraint *entry, const struct constraint_cache *cache)
{
    struct answer_task task = {.format = &entry->source.format,
                               .thinking = entry->source.thinking,
                               .tools = &entry->source.tools,
                               .has_content = entry->grammar != NULL,
                               .is_special = is_special,
                               .context = cache};
    struct rules *rules = entry->grammar ? grammar_release(entry->grammar, &task.content)
                                         : rules_create(&grammar_limits_default);
    uint32_t start;
    entry->grammar = NULL;
    if (!rules)
        return error_set(&entry->error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "a grammar: out of memory");
    enum status status = answer_grammar_build(&task, rules, &start, &entry->function, &entry->error);
    if (status == STATUS_OK)
        return grammar_create(&entry->grammar, rules, start, &entry->error);
    rules_destroy(rules);
    return status;
}

void constraint_compile(struct compiled_constraint *entry, const struct constraint_cache *cache)
{
    entry->is_compiled = true;
    entry->function = -1;
    enum status status = compile(entry);
    if (status == STATUS_OK && has_parts(&entry->source))
        status = add_parts(entry, cache);
    if (status == STATUS_OK)
        (void)!recognizer_create(&entry->recognizer, entry->grammar, cache->vocabulary, &entry->error);
}
