// The "decoder" of tokenizer.json, and added tokens that are matched in normalized text. Source:
// github.com/huggingface/tokenizers, tokenizers/src/decoders and tokenizer/added_vocabulary.rs.
#include "engine/tokenizer/vocabulary_json.h"

#include <string.h>

#define BLANK "\xE2\x96\x81" // U+2581

// --- Decoder ---

struct decoder_source {
    struct json_source *source;
    bool is_fused; // a Fuse step has joined the tokens
    bool has_byte_level, has_bytes;
};

static struct text string_in(const struct value *object, const char *name)
{
    const struct value *value = value_get(object, name);
    return value && value->kind == VALUE_STRING ? value->text : (struct text){0};
}

static int64_t integer_in(const struct value *object, const char *name)
{
    const struct value *value = value_get(object, name);
    return value && value->kind == VALUE_INTEGER && value->integer >= 0 ? value->integer : 0;
}

static enum status add_step(struct decoder_source *source, struct decoder_step step)
{
    struct token_decoder *decoder = &source->source->vocabulary->decoder;
    if (decoder->n_steps == DECODER_STEPS_MAX)
        return error_set(source->source->error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                         "tokenizer.json: more than %d steps of decoding", DECODER_STEPS_MAX);
    decoder->steps[decoder->n_steps++] = step;
    return STATUS_OK;
}

static enum status read_replace(struct decoder_source *source, const struct value *decoder)
{
    const struct value *pattern = value_get(decoder, "pattern");
    struct text from = pattern ? string_in(pattern, "String") : (struct text){0};
    if (from.size == 0)
        return json_refuse(source->source, "decoder Replace with pattern",
                           pattern ? string_in(pattern, "Regex") : from);
    if (source->is_fused)
        return json_refuse(source->source, "decoder", TEXT("Replace after Fuse"));
    return add_step(source, (struct decoder_step){
                                .kind = DECODE_REPLACE, .from = from, .to = string_in(decoder, "content")});
}

static enum status read_strip(struct decoder_source *source, const struct value *decoder)
{
    struct text content = string_in(decoder, "content");
    int64_t n_first = integer_in(decoder, "start"), n_last = integer_in(decoder, "stop");
    if (n_first == 0 && n_last == 0)
        return STATUS_OK;
    if (content.size == 0)
        return json_refuse(source->source, "decoder Strip of", content);
    if (!source->is_fused)
        return add_step(source,
                        (struct decoder_step){
                            .kind = DECODE_STRIP, .from = content, .n_first = n_first, .n_last = n_last});
    if (n_first != 1 || n_last != 0 || !text_equals_string(content, " "))
        return json_refuse(source->source, "decoder",
                           TEXT("Strip after Fuse of other than one blank at the start"));
    source->source->vocabulary->decoder.strips_first = true;
    return STATUS_OK;
}

static enum status read_metaspace(struct decoder_source *source, const struct value *decoder)
{
    struct text from = string_in(decoder, "replacement"), scheme = string_in(decoder, "prepend_scheme");
    if (source->is_fused)
        return json_refuse(source->source, "decoder", TEXT("Metaspace after Fuse"));
    bool prepends =
        scheme.size ? !text_equals_string(scheme, "never") : json_truth(decoder, "add_prefix_space", true);
    source->source->vocabulary->decoder.strips_first |= prepends;
    return add_step(source, (struct decoder_step){.kind = DECODE_REPLACE,
                                                  .from = from.size ? from : TEXT(BLANK),
                                                  .to = TEXT(" ")});
}

static enum status read_word_piece(struct decoder_source *source, const struct value *decoder)
{
    source->source->vocabulary->decoder.strips_first = true;
    return add_step(source, (struct decoder_step){.kind = DECODE_WORD_PIECE,
                                                  .from = string_in(decoder, "prefix"),
                                                  .cleans = json_truth(decoder, "cleanup", true)});
}

static enum status read_decoder(struct decoder_source *source, const struct value *decoder)
{
    struct text type = json_type(decoder);
    if (text_equals_string(type, "Replace"))
        return read_replace(source, decoder);
    if (text_equals_string(type, "Strip"))
        return read_strip(source, decoder);
    if (text_equals_string(type, "Metaspace"))
        return read_metaspace(source, decoder);
    if (text_equals_string(type, "WordPiece"))
        return read_word_piece(source, decoder);
    if (text_equals_string(type, "Fuse"))
        source->is_fused = true;
    else if (text_equals_string(type, "ByteFallback"))
        source->has_bytes = true;
    else if (text_equals_string(type, "ByteLevel"))
        source->has_byte_level = true;
    else
        return json_refuse(source->source, "decoder", type);
    return STATUS_OK;
}

enum status json_read_decoder(struct json_source *source, const struct value *decoder)
{
    struct decoder_source of = {.source = source};
    struct token_decoder *made = &source->vocabulary->decoder;
    if (!decoder || decoder->kind == VALUE_NULL)
        return STATUS_OK;
    const struct value *list = value_get(decoder, "decoders");
    enum status status = STATUS_OK;
    if (!text_equals_string(json_type(decoder), "Sequence"))
        status = read_decoder(&of, decoder);
    else
        for (size_t i = 0;
             list && list->kind == VALUE_ARRAY && i < list->array.n_items && status == STATUS_OK; i++)
            status = read_decoder(&of, &list->array.items[i]);
    if (status != STATUS_OK)
        return status;
    bool is_plain = !made->n_steps && !made->strips_first && !of.has_bytes;
    if (source->vocabulary->rules.byte_level ? !of.has_byte_level || !is_plain : of.has_byte_level)
        return json_refuse(source, "decoder",
                           of.has_byte_level
                               ? TEXT("ByteLevel with tokens that are not of bytes, or others beside it")
                               : TEXT("other than ByteLevel, where the pre-tokenizer is ByteLevel"));
    made->is_given = true;
    made->shows_byte_tokens = !of.has_bytes;
    return STATUS_OK;
}

// --- Added tokens in normalized text ---

// Normalizes a text as encoding would; the result is in `buffers`, in `blanks` or `text` itself.
static enum status normalize(struct json_source *source, struct text text, struct buffer buffers[2],
                             struct buffer *blanks, struct text *normalized)
{
    const struct token_rules *rules = &source->vocabulary->rules;
    if (!normalizer_run(&source->vocabulary->normalizer, text, buffers, normalized))
        return json_out_of_memory(source);
    if (!rules->normalizes_blanks || !normalized->size)
        return STATUS_OK;
    buffer_clear(blanks);
    if (rules->adds_space)
        buffer_add_string(blanks, BLANK);
    for (size_t i = 0; i < normalized->size; i++)
        if (normalized->data[i] == ' ')
            buffer_add_string(blanks, BLANK);
        else
            buffer_add_byte(blanks, normalized->data[i]);
    *normalized = (struct text){blanks->data, blanks->size};
    return blanks->failed ? json_out_of_memory(source) : STATUS_OK;
}

static enum status set_normalized(struct json_source *source, int64_t id, struct text normalized)
{
    struct vocabulary *vocabulary = source->vocabulary;
    bool has_steps = vocabulary->normalizer.n_steps > 0;
    // a match could not be traced back to the template or to a message
    if (has_steps && vocabulary->flags[id] & TOKEN_CONTROL) {
        struct text text = vocabulary->texts[id];
        if (text_equal(normalized, text))
            return STATUS_OK;
        return error_set(source->error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
                         "tokenizer.json: special token \"%.*s\": it is found in normalized text, and the "
                         "normalizer changes it: not built",
                         text.size < 100 ? (int)text.size : 100, text.data);
    }
    vocabulary->normalized[id].data = arena_copy(source->arena, normalized.data, normalized.size);
    vocabulary->normalized[id].size = normalized.size;
    return vocabulary->normalized[id].data ? STATUS_OK : json_out_of_memory(source);
}

// Metaspace would insert its blank after such a token, in text that the normalizer has prepared.
static bool inserts_late(const struct token_rules *rules)
{
    return rules->normalizes_blanks && rules->adds_space && rules->space_unless_there;
}

enum status json_read_normalized(struct json_source *source, const struct value *added)
{
    struct vocabulary *vocabulary = source->vocabulary;
    struct buffer buffers[2] = {0}, blanks = {0};
    enum status status = STATUS_OK;
    size_t n_added = added && added->kind == VALUE_ARRAY ? added->array.n_items : 0;
    for (size_t i = 0; i < n_added && status == STATUS_OK; i++) {
        const struct value *token = &added->array.items[i];
        struct text normalized;
        int64_t id = value_get(token, "id")->integer;
        if (!json_truth(token, "normalized", false))
            continue;
        if (!vocabulary->normalized)
            vocabulary->normalized =
                arena_allocate_array(source->arena, vocabulary->n_tokens, sizeof *vocabulary->normalized);
        status = inserts_late(&vocabulary->rules)
                     ? json_refuse(source, "pre-tokenizer",
                                   TEXT("Metaspace after a normalizer of blanks and of added tokens"))
                 : vocabulary->normalized
                     ? normalize(source, vocabulary->texts[id], buffers, &blanks, &normalized)
                     : json_out_of_memory(source);
        if (status == STATUS_OK && normalized.size)
            status = set_normalized(source, id, normalized);
    }
    buffer_finish(&buffers[0]);
    buffer_finish(&buffers[1]);
    buffer_finish(&blanks);
    return status;
}
