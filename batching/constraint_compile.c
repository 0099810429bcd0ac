// Compiling a constraint. Thread: one of constraint_threads.h.
#include "batching/constraint.h"

#include "engine/answer/answer_grammar.h"
#include "engine/json_schema/json_schema.h"

#include <stdlib.h>
#include <string.h>

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

// JSON is written compactly, which satisfies each white-space pattern that matches the empty text. Other
// patterns are refused: their length is not known to be bounded.
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
    if (check_white_space(entry) != STATUS_OK)
        return entry->error.status;
    return grammar_compile_json_schema(&entry->grammar, schema, &options, &refusal, &entry->error);
}

static enum status compile_grammar(struct compiled_constraint *entry, struct text source)
{
    bool is_gbnf = memmem(source.data, source.size, "::=", 3) != NULL;
    return is_gbnf ? grammar_compile_gbnf(&entry->grammar, source, NULL, &entry->error)
                   : grammar_compile_lark(&entry->grammar, source, NULL, &entry->error);
}

static enum status compile_entry(struct compiled_constraint *entry)
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

// True if the answer has thoughts or tool calls besides the content.
static bool has_parts(const struct answer_rules *rules)
{
    return rules->format.thinking || rules->tools.choice != TOOLS_NONE;
}

// Adds the rules of thoughts and tool calls around the content's rules.
static enum status add_parts(struct compiled_constraint *entry, const struct constraint_cache *cache)
{
    struct answer_task task = {.format = &entry->source.format,
                               .thinking = entry->source.thinking,
                               .tools = &entry->source.tools,
                               .has_content = entry->grammar != NULL,
                               .is_special = constraint_cache_is_special,
                               .context = cache};
    struct rules *rules = entry->grammar ? grammar_release(entry->grammar, &task.content)
                                         : rules_create(&grammar_limits_default);
    uint32_t start;
    entry->grammar = NULL;
    if (!rules)
        return error_memory(&entry->error, STATUS_RETRY, "a grammar");
    enum status status = answer_grammar_build(&task, rules, &start, &entry->function, &entry->error);
    if (status == STATUS_OK)
        return grammar_create(&entry->grammar, rules, start, &entry->error);
    rules_destroy(rules);
    return status;
}

// For answers that must close: finds the number of tokens of the shortest answer, and computes the first mask
// within a limit, so that its costs are cached.
static enum status prepare_closing(struct compiled_constraint *entry, struct matcher *matcher,
                                   size_t n_tokens)
{
    enum status status = matcher_tokens_to_end(matcher, &entry->n_tokens_min, &entry->error);
    if (status != STATUS_OK || entry->n_tokens_min == UINT32_MAX)
        return status;
    uint32_t *mask = malloc(grammar_mask_words(n_tokens) * sizeof *mask);
    if (!mask)
        return error_memory(&entry->error, STATUS_RETRY, "a grammar");
    status = matcher_mask_within(matcher, UINT32_MAX, mask, &entry->error);
    free(mask);
    return status;
}

// Computes the first mask in advance, so that no step waits for it.
static void prepare_answers(struct compiled_constraint *entry, size_t n_tokens)
{
    struct matcher matcher = {0};
    enum status status = matcher_init(&matcher, entry->recognizer, &entry->error);
    if (status == STATUS_OK)
        status = matcher_prepare_mask(&matcher, &entry->error);
    if (status == STATUS_OK && entry->source.closes)
        status = prepare_closing(entry, &matcher, n_tokens);
    matcher_finish(&matcher);
}

void constraint_compile(struct compiled_constraint *entry, struct constraint_cache *cache)
{
    if (entry == &cache->making) {
        constraint_vocabulary_make(cache);
        return;
    }
    entry->function = -1;
    enum status status = compile_entry(entry);
    if (status == STATUS_OK && has_parts(&entry->source))
        status = add_parts(entry, cache);
    if (status == STATUS_OK)
        status = recognizer_create(&entry->recognizer, entry->grammar, cache->vocabulary, &entry->error);
    if (status == STATUS_OK && cache->vocabulary)
        prepare_answers(entry, (size_t)cache->n_vocab);
}
