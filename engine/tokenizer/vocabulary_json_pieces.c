// WordPiece and Unigram of tokenizer.json. Source: github.com/huggingface/tokenizers, tokenizers/src/models.
#include "engine/tokenizer/vocabulary_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static enum status refuse_model(struct json_source *source, const char *what)
{
    return error_set(source->error, STATUS_REFUSE, ERROR_MODEL_FILE, "tokenizer.json: model.%s", what);
}

static struct text string_of(const struct value *object, const char *name)
{
    const struct value *value = value_get(object, name);
    return value && value->kind == VALUE_STRING ? value->text : (struct text){0};
}

static enum status read_word_piece(struct json_source *source, const struct value *model)
{
    struct vocabulary *vocabulary = source->vocabulary;
    const struct value *most = value_get(model, "max_input_chars_per_word");
    const struct value *prefix = value_get(model, "continuing_subword_prefix");
    struct text unknown = string_of(model, "unk_token");
    vocabulary->ids.unknown = json_id_of(vocabulary, unknown.size ? unknown : TEXT("[UNK]"));
    if (vocabulary->ids.unknown < 0 || !(vocabulary->flags[vocabulary->ids.unknown] & TOKEN_OF_MODEL))
        return refuse_model(source, "unk_token is not in model.vocab");
    vocabulary->pieces.characters_max = 100;
    if (most && (most->kind != VALUE_INTEGER || most->integer < 0))
        return refuse_model(source, "max_input_chars_per_word is no whole number");
    if (most)
        vocabulary->pieces.characters_max = (size_t)most->integer;
    vocabulary->pieces.prefix = prefix ? string_of(model, "continuing_subword_prefix") : TEXT("##");
    return STATUS_OK;
}

// A number as the library reads it: as many digits as fit in 64 bits, times or divided by a power of ten, which
// may be a bit off the nearest double (f64_from_parts of github.com/serde-rs/json, src/de.rs). Equal sums of
// scores need equal scores.
static double number_of_digits(const char *digits, double nearest)
{
    bool is_negative = *digits == '-', is_fraction = false, is_full = false;
    uint64_t significand = 0;
    int exponent = 0;
    for (digits += is_negative; (*digits >= '0' && *digits <= '9') || *digits == '.'; digits++) {
        if (*digits == '.') {
            is_fraction = true;
            continue;
        }
        uint64_t tenfold, next;
        is_full |= __builtin_mul_overflow(significand, 10u, &tenfold) ||
                   __builtin_add_overflow(tenfold, (uint64_t)(*digits - '0'), &next);
        if (is_full && !is_fraction)
            return nearest;
        if (is_full)
            continue;
        significand = next;
        exponent -= is_fraction;
    }
    if (*digits == 'e' || *digits == 'E') {
        long power = strtol(digits + 1, NULL, 10);
        if (power < -300 || power > 300)
            return nearest;
        exponent += (int)power;
    }
    if (exponent < -308 || exponent > 308)
        return nearest;
    char power[16];
    snprintf(power, sizeof power, "1e%d", exponent < 0 ? -exponent : exponent);
    double scale = strtod(power, NULL), number = (double)significand;
    number = exponent < 0 ? number / scale : number * scale;
    return is_negative ? -number : number;
}

static double score_of(const struct value *score)
{
    if (score->kind == VALUE_INTEGER)
        return (double)score->integer;
    if (score->kind != VALUE_FLOAT)
        return NAN;
    return score->digits ? number_of_digits(score->digits, score->number) : score->number;
}

static enum status read_unigram(struct json_source *source, const struct value *model)
{
    struct vocabulary *vocabulary = source->vocabulary;
    const struct value *vocab = value_get(model, "vocab"), *unknown = value_get(model, "unk_id");
    if (!unknown || unknown->kind != VALUE_INTEGER || unknown->integer < 0 ||
        (size_t)unknown->integer >= vocab->array.n_items)
        return refuse_model(source, "unk_id is missing or not in model.vocab");
    vocabulary->ids.unknown = (int32_t)unknown->integer;
    vocabulary->rules.no_byte_tokens = !json_truth(model, "byte_fallback", false);
    vocabulary->pieces.scores =
        arena_allocate_array(source->arena, vocabulary->n_tokens, sizeof *vocabulary->pieces.scores);
    if (!vocabulary->pieces.scores)
        return json_out_of_memory(source);
    for (size_t i = 0; i < vocab->array.n_items; i++) {
        double number = score_of(&vocab->array.items[i].array.items[1]);
        if (!isfinite(number))
            return error_set(source->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                             "tokenizer.json: model.vocab: the score of item %zu is no finite number", i);
        vocabulary->pieces.scores[i] = number;
    }
    return STATUS_OK;
}

enum status json_read_pieces(struct json_source *source, const struct value *model)
{
    return (source->vocabulary->model == VOCABULARY_UNIGRAM ? read_unigram : read_word_piece)(source, model);
}
