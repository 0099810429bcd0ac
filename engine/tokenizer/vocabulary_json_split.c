// The "pre_tokenizer" of tokenizer.json. Source: github.com/huggingface/tokenizers, tokenizers/src/pre_tokenizers.
#include "engine/tokenizer/split_stage.h"
#include "engine/tokenizer/vocabulary_json.h"

#include <string.h>

#define BLANK "\xE2\x96\x81" // U+2581

static struct text string_of(const struct value *object, const char *name)
{
    const struct value *value = value_get(object, name);
    return value && value->kind == VALUE_STRING ? value->text : (struct text){0};
}

static bool is_of_words(const struct json_source *source)
{
    return source->vocabulary->model != VOCABULARY_BPE;
}

struct stages {
    struct json_source *source;
    struct splitter_definition definition;
    struct splitter_definition before; // is_metaspace, WordPiece or Unigram: the stages before it
    bool is_metaspace;
    bool is_alone; // the pre-tokenizer is not a Sequence
};

static enum status add_stage(struct stages *stages, const struct split_definition *stage)
{
    if (stages->definition.n_stages == SPLIT_STAGES_MAX)
        return error_set(stages->source->error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                         "tokenizer.json: more than %d stages of splitting", SPLIT_STAGES_MAX);
    stages->definition.stages[stages->definition.n_stages++] = stage;
    return STATUS_OK;
}

struct split_pieces {
    enum split_behavior behavior;
    bool inverts;
};

// A hand-written stage isolates its matches; one that matches everything leaves nothing to remove.
static bool is_isolated(struct split_pieces pieces, const struct split_definition *known)
{
    return pieces.behavior == SPLIT_ISOLATED ||
           (pieces.behavior == SPLIT_REMOVED && pieces.inverts && split_matches_all(known));
}

static enum status add_expression(struct stages *stages, struct text expression, struct split_pieces pieces)
{
    const struct split_definition *known = split_of_expression(expression);
    if (stages->source->vocabulary->rules.byte_level &&
        !(known && split_is_ascii_digits(known) && is_isolated(pieces, known)))
        return json_refuse(stages->source, "pre-tokenizer", TEXT("Split after ByteLevel"));
    if (known && is_isolated(pieces, known))
        return add_stage(stages, known);
    // Oniguruma and PCRE2 differ here: && (class intersection) and \h (a hexadecimal digit in Oniguruma).
    if (memmem(expression.data, expression.size, "&&", 2) ||
        memmem(expression.data, expression.size, "\\h", 2) || memchr(expression.data, '\0', expression.size))
        return json_refuse(stages->source, "Split expression", expression);
    struct split_definition *made = arena_allocate(stages->source->arena, sizeof *made);
    if (!made || !(made->pattern = arena_copy(stages->source->arena, expression.data, expression.size)))
        return json_out_of_memory(stages->source);
    made->behavior = pieces.behavior;
    made->inverts = pieces.inverts;
    return add_stage(stages, made);
}

// Adds a literal string as an expression: quotes the metacharacters.
static enum status add_string(struct stages *stages, struct text string, struct split_pieces pieces)
{
    char *quoted = arena_allocate(stages->source->arena, 2 * string.size + 1);
    size_t size = 0;
    if (!quoted)
        return json_out_of_memory(stages->source);
    for (size_t i = 0; i < string.size; i++) {
        if (strchr("\\^$.|?*+()[]{}-#", string.data[i]))
            quoted[size++] = '\\';
        quoted[size++] = string.data[i];
    }
    return add_expression(stages, (struct text){quoted, size}, pieces);
}

static bool find_behavior(struct text name, enum split_behavior *behavior)
{
    static const char *const names[] = {[SPLIT_ISOLATED] = "Isolated",
                                        [SPLIT_REMOVED] = "Removed",
                                        [SPLIT_WITH_PREVIOUS] = "MergedWithPrevious",
                                        [SPLIT_WITH_NEXT] = "MergedWithNext",
                                        [SPLIT_CONTIGUOUS] = "Contiguous"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (text_equals_string(name, names[i])) {
            *behavior = (enum split_behavior)i;
            return true;
        }
    return false;
}

static enum status read_split(struct stages *stages, const struct value *split)
{
    const struct value *pattern = value_get(split, "pattern");
    struct text expression = pattern ? string_of(pattern, "Regex") : (struct text){0};
    struct text string = pattern ? string_of(pattern, "String") : (struct text){0},
                behavior = string_of(split, "behavior");
    struct split_pieces pieces = {.inverts = json_truth(split, "invert", false)};
    if (!find_behavior(behavior, &pieces.behavior))
        return json_refuse(stages->source, "Split behavior", behavior);
    // Gemma: the normalizer leaves no blank to match
    if (stages->source->replaces_blanks && text_equals_string(string, " ") && !pieces.inverts)
        return STATUS_OK;
    if (expression.size)
        return add_expression(stages, expression, pieces);
    if (string.size)
        return add_string(stages, string, pieces);
    return json_refuse(stages->source, "Split pattern", string);
}

static enum status read_metaspace(struct stages *stages, const struct value *metaspace)
{
    struct vocabulary *vocabulary = stages->source->vocabulary;
    struct text scheme = string_of(metaspace, "prepend_scheme"),
                replacement = string_of(metaspace, "replacement");
    if (replacement.size && !text_equals_string(replacement, BLANK))
        return json_refuse(stages->source, "Metaspace replacement", replacement);
    if (scheme.size == 0)
        scheme = json_truth(metaspace, "add_prefix_space", true) ? TEXT("always") : TEXT("never");
    if (stages->is_metaspace)
        return json_refuse(stages->source, "pre-tokenizer", TEXT("Metaspace after Metaspace"));
    if (is_of_words(stages->source)) {
        stages->before = stages->definition;
        stages->definition.n_stages = 0;
    }
    vocabulary->rules.space_first_only = text_equals_string(scheme, "first");
    if (!vocabulary->rules.space_first_only && !text_equals_string(scheme, "always") &&
        !text_equals_string(scheme, "never"))
        return json_refuse(stages->source, "Metaspace prepend_scheme", scheme);
    if (vocabulary->rules.adds_space) // also before a text that starts with a blank
        return json_refuse(stages->source, "pre-tokenizer", TEXT("Metaspace after the normalizer Prepend"));
    vocabulary->rules.adds_space = !text_equals_string(scheme, "never");
    vocabulary->rules.space_unless_there = true;
    vocabulary->rules.splits_blanks = json_truth(metaspace, "split", true);
    stages->is_metaspace = true;
    return STATUS_OK;
}

static enum status read_byte_level(struct stages *stages, const struct value *byte_level)
{
    struct vocabulary *vocabulary = stages->source->vocabulary;
    if (vocabulary->rules.byte_level)
        return json_refuse(stages->source, "pre-tokenizer", TEXT("ByteLevel after ByteLevel"));
    vocabulary->rules.byte_level = true;
    bool adds_space = json_truth(byte_level, "add_prefix_space", true);
    if (stages->is_alone) // as in transformers: tokenizer_config.json overrides it
        adds_space = json_truth(&stages->source->config, "add_prefix_space", adds_space);
    if (adds_space) {
        if (stages->definition.n_stages) // the blank would be inserted before each piece
            return json_refuse(stages->source, "pre-tokenizer",
                               TEXT("ByteLevel with add_prefix_space after another"));
        vocabulary->rules.adds_space = vocabulary->rules.space_unless_there = true;
    }
    if (!json_truth(byte_level, "use_regex", true))
        return STATUS_OK;
    return add_stage(
        stages, split_of_expression(TEXT(
                    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+")));
}

static enum status read_pre_tokenizer(struct stages *stages, const struct value *item)
{
    struct text type = json_type(item), behavior = string_of(item, "behavior");
    bool is_isolated = behavior.size == 0 || text_equals_string(behavior, "Isolated");
    bool is_contiguous = text_equals_string(behavior, "Contiguous");
    const struct split_definition *of_words = is_of_words(stages->source) && (is_isolated || is_contiguous)
                                                  ? split_of_type(type, is_contiguous)
                                                  : NULL;
    if (of_words)
        return add_stage(stages, of_words);
    if (text_equals_string(type, "ByteLevel"))
        return read_byte_level(stages, item);
    if (text_equals_string(type, "Metaspace"))
        return read_metaspace(stages, item);
    if (text_equals_string(type, "Split"))
        return read_split(stages, item);
    if (text_equals_string(type, "CharDelimiterSplit") && is_of_words(stages->source) &&
        string_of(item, "delimiter").size)
        return add_string(stages, string_of(item, "delimiter"),
                          (struct split_pieces){.behavior = SPLIT_REMOVED});
    bool individual = json_truth(item, "individual_digits", false);
    bool is_after_bytes = stages->source->vocabulary->rules.byte_level;
    if (text_equals_string(type, "Digits"))
        return add_stage(stages, is_after_bytes ? split_byte_digits(individual) : split_digits(individual));
    if (text_equals_string(type, "Punctuation") && is_after_bytes)
        return json_refuse(stages->source, "pre-tokenizer", TEXT("Punctuation after ByteLevel"));
    if (text_equals_string(type, "Punctuation") && !is_of_words(stages->source) &&
        (is_isolated || is_contiguous))
        return add_stage(stages, split_punctuation(is_contiguous));
    return json_refuse(stages->source, "pre-tokenizer", type);
}

// WordPiece, Unigram: the stages before Metaspace, and those after it. Without Metaspace all are in `definition`.
static enum status open_splitters(struct stages *stages)
{
    struct vocabulary *vocabulary = stages->source->vocabulary;
    struct splitter_definition *first = stages->is_metaspace ? &stages->before : &stages->definition;
    enum status status = STATUS_OK;
    vocabulary->rules.is_metaspace = stages->is_metaspace;
    if (vocabulary->rules.byte_level)
        return json_refuse(stages->source, "pre-tokenizer", TEXT("ByteLevel of a model that is not BPE"));
    if (first->n_stages)
        status = splitter_create(&vocabulary->splitter, first, "tokenizer.json", stages->source->error);
    if (status == STATUS_OK && stages->is_metaspace && stages->definition.n_stages)
        status = splitter_create(&vocabulary->splitter_after, &stages->definition, "tokenizer.json",
                                 stages->source->error);
    return status;
}

static enum status open_splitter(struct stages *stages, const char *pre)
{
    struct vocabulary *vocabulary = stages->source->vocabulary;
    if (pre)
        return splitter_open(&vocabulary->splitter, text_from_string(pre), stages->source->error);
    stages->definition.traits.ignores_merges = vocabulary->rules.ignores_merges;
    const char *name = splitter_name_of(&stages->definition);
    return splitter_create(&vocabulary->splitter, &stages->definition, name ? name : "tokenizer.json",
                           stages->source->error);
}

// With "fix_mistral_regex" in tokenizer_config.json transformers puts this expression first. A file saved
// with this setting already contains the expression; a file without it is refused.
static enum status check_fixed(struct json_source *source, const struct value *list)
{
    static const char fixed[] =
        "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"
        "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}| "
        "?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    bool has_items = list && list->kind == VALUE_ARRAY && list->array.n_items > 0;
    const struct value *pattern = has_items ? value_get(&list->array.items[0], "pattern") : NULL;
    if (!json_truth(&source->config, "fix_mistral_regex", false) ||
        (pattern && text_equals_string(string_of(pattern, "Regex"), fixed)))
        return STATUS_OK;
    return json_refuse(source, "pre-tokenizer", TEXT("fix_mistral_regex with another first expression"));
}

enum status json_read_pre_tokenizer(struct json_source *source, const struct value *pre_tokenizer,
                                    const char *pre)
{
    struct stages stages = {.source = source};
    struct text type = json_type(pre_tokenizer);
    const struct value *list = pre_tokenizer ? value_get(pre_tokenizer, "pretokenizers") : NULL;
    enum status status = check_fixed(source, list);
    if (status != STATUS_OK)
        return status;
    if (text_equals_string(type, "Sequence")) {
        for (size_t i = 0;
             list && list->kind == VALUE_ARRAY && i < list->array.n_items && status == STATUS_OK; i++)
            status = read_pre_tokenizer(&stages, &list->array.items[i]);
    } else if (pre_tokenizer && pre_tokenizer->kind != VALUE_NULL) {
        stages.is_alone = true;
        status = read_pre_tokenizer(&stages, pre_tokenizer);
    }
    if (status != STATUS_OK)
        return status;
    if (is_of_words(source))
        return open_splitters(&stages);
    if (source->vocabulary->rules.byte_level && source->vocabulary->rules.normalizes_blanks)
        return json_refuse(source, "normalizer", TEXT("U+2581 for blanks, before ByteLevel"));
    if (source->vocabulary->rules.byte_level && !stages.is_metaspace)
        return open_splitter(&stages, pre);
    if (stages.definition.n_stages || source->vocabulary->rules.byte_level)
        return json_refuse(source, "pre-tokenizer",
                           TEXT("stages of splitting without ByteLevel, or beside Metaspace"));
    source->vocabulary->rules.keeps_blanks = !source->replaces_blanks && !stages.is_metaspace;
    return STATUS_OK;
}
