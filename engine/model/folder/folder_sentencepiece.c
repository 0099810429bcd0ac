// SentencePiece's tokenizer.model, T5's spiece.model and DeBERTa V2's spm.model, for folders without tokenizer.json:
// converted to the keys tokenizer.ggml.*
// of a GGUF file, and keys tokenizer.huggingface.* for what those cannot express. Format: protobuf,
// sentencepiece_model.proto of github.com/google/sentencepiece:
//   ModelProto       1 pieces, 2 trainer_spec, 3 normalizer_spec
//   SentencePiece    1 piece, 2 score (float), 3 type
//   TrainerSpec      3 model_type, 24 treat_whitespace_as_suffix, 35 byte_fallback, 45 unk_piece,
//                    46 bos_piece, 47 eos_piece, 48 pad_piece
//   NormalizerSpec   1 name, 2 precompiled_charsmap, 3 add_dummy_prefix, 4 remove_extra_whitespaces,
//                    5 escape_whitespaces
// Added tokens, and which tokens are special: added_tokens_decoder of tokenizer_config.json, or
// added_tokens.json.
#include "engine/model/folder/folder_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECES_MAX = 1 << 20, PIECE_BYTES_MAX = 4096, MODEL_UNIGRAM = 1, MODEL_BPE = 2 };
enum {
    TYPE_NORMAL = 1,
    TYPE_UNKNOWN = 2,
    TYPE_CONTROL = 3,
    TYPE_USER_DEFINED = 4,
    TYPE_UNUSED = 5,
    TYPE_BYTE = 6
};

struct sentencepiece {
    const struct folder_files *files;
    const char *file;
    struct error *error;
    struct text *pieces;
    float *scores;
    int32_t *types;
    size_t n_pieces, capacity;
    uint32_t n_own;     // pieces of the file, without tokens added by the folder
    int32_t *strips[2]; // ids of tokens that strip white space before or after them
    size_t n_strips[2];
    int64_t model_type;
    bool byte_fallback, suffixes_blanks;
    struct text unknown, bos, eos, padding, charsmap;
    bool adds_blank, removes_blanks, escapes_blanks;
};

// DeBERTa V2: tokens around texts and pairs are as BERT's.
static bool is_of_bert(const struct sentencepiece *model)
{
    return strcmp(model->file, "spm.model") == 0;
}

static enum status refuse(struct sentencepiece *model, const char *what)
{
    return error_set(model->error, STATUS_REFUSE, ERROR_MODEL_FILE, "%s/%s: %s", model->files->path,
                     model->file, what);
}

static enum status refuse_unbuilt(struct sentencepiece *model, const char *what)
{
    return error_set(model->error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE, "%s/%s: %s is not built",
                     model->files->path, model->file, what);
}

static enum status out_of_memory(struct sentencepiece *model)
{
    return error_memory(model->error, STATUS_REFUSE, "a model's folder");
}

// --- Protobuf ---

struct field {
    uint64_t number, value; // value: a varint, or the bits of a fixed-size field
    struct text bytes;      // a length-delimited field
};

// False: end of the data, or (*bad) invalid protobuf.
static bool read_varint(struct text *rest, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; rest->size && shift < 64; shift += 7) {
        unsigned char byte = (unsigned char)*rest->data;
        *rest = (struct text){rest->data + 1, rest->size - 1};
        *value |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

static bool read_field(struct text *rest, struct field *field, bool *bad)
{
    enum { VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5 };
    uint64_t tag, size = 0;
    *field = (struct field){0};
    if (rest->size == 0)
        return false;
    *bad = !read_varint(rest, &tag);
    field->number = tag >> 3;
    switch (tag & 7) {
    case VARINT:
        *bad = *bad || !read_varint(rest, &field->value);
        return !*bad;
    case LENGTH:
        *bad = *bad || !read_varint(rest, &size);
        break;
    case FIXED32:
    case FIXED64:
        size = (tag & 7) == FIXED32 ? 4 : 8;
        break;
    default:
        *bad = true;
    }
    *bad = *bad || size > rest->size;
    if (*bad)
        return false;
    field->bytes = (struct text){rest->data, size};
    if ((tag & 7) != LENGTH)
        for (uint64_t i = 0; i < size; i++)
            field->value |= (uint64_t)(unsigned char)rest->data[i] << 8 * i;
    *rest = (struct text){rest->data + size, rest->size - size};
    return true;
}

// --- The model ---

static bool reserve_pieces(struct sentencepiece *model, size_t n)
{
    if (n <= model->capacity)
        return true;
    size_t capacity = n < 512 ? 1024 : 2 * n;
    struct text *pieces = realloc(model->pieces, capacity * sizeof *pieces);
    if (pieces)
        model->pieces = pieces;
    float *scores = realloc(model->scores, capacity * sizeof *scores);
    if (scores)
        model->scores = scores;
    int32_t *types = realloc(model->types, capacity * sizeof *types);
    if (types)
        model->types = types;
    if (!pieces || !scores || !types)
        return false;
    model->capacity = capacity;
    return true;
}

static enum status add_piece(struct sentencepiece *model, struct text piece, float score, int64_t type)
{
    if (piece.size > PIECE_BYTES_MAX || model->n_pieces == PIECES_MAX)
        return refuse(model, "a piece of more than 4096 bytes, or more than 2^20 pieces");
    if (type < TYPE_NORMAL || type > TYPE_BYTE || !utf8_valid(piece.data, piece.size) || score != score)
        return refuse(model, "a piece's type, text or score is not valid");
    if (!reserve_pieces(model, model->n_pieces + 1))
        return out_of_memory(model);
    model->pieces[model->n_pieces] = piece;
    model->scores[model->n_pieces] = score;
    model->types[model->n_pieces++] = (int32_t)type;
    return STATUS_OK;
}

static enum status read_piece(struct sentencepiece *model, struct text message, bool *bad)
{
    struct field field;
    struct text piece = {0};
    uint32_t bits = 0;
    int64_t type = TYPE_NORMAL;
    float score;
    while (read_field(&message, &field, bad)) {
        if (field.number == 1)
            piece = field.bytes;
        else if (field.number == 2)
            bits = (uint32_t)field.value;
        else if (field.number == 3)
            type = (int64_t)field.value;
    }
    memcpy(&score, &bits, sizeof score);
    return add_piece(model, piece, score, type);
}

static void read_trainer(struct sentencepiece *model, struct text message, bool *bad)
{
    struct field field;
    while (read_field(&message, &field, bad))
        switch (field.number) {
        case 3:
            model->model_type = (int64_t)field.value;
            break;
        case 24:
            model->suffixes_blanks = field.value != 0;
            break;
        case 35:
            model->byte_fallback = field.value != 0;
            break;
        case 45:
            model->unknown = field.bytes;
            break;
        case 46:
            model->bos = is_of_bert(model) ? model->bos : field.bytes;
            break;
        case 47:
            model->eos = is_of_bert(model) ? model->eos : field.bytes;
            break;
        case 48:
            model->padding = is_of_bert(model) ? model->padding : field.bytes;
            break;
        default:
            break;
        }
}

static void read_normalizer(struct sentencepiece *model, struct text message, bool *bad)
{
    struct field field;
    while (read_field(&message, &field, bad)) {
        if (field.number == 2)
            model->charsmap = field.bytes;
        else if (field.number == 3)
            model->adds_blank = field.value != 0;
        else if (field.number == 4)
            model->removes_blanks = field.value != 0;
        else if (field.number == 5)
            model->escapes_blanks = field.value != 0;
    }
}

static enum status parse_model(struct sentencepiece *model, struct text content)
{
    struct field field;
    bool bad = false;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && !bad && read_field(&content, &field, &bad)) {
        if (field.number == 1)
            status = read_piece(model, field.bytes, &bad);
        else if (field.number == 2)
            read_trainer(model, field.bytes, &bad);
        else if (field.number == 3)
            read_normalizer(model, field.bytes, &bad);
    }
    if (status == STATUS_OK && (bad || !model->n_pieces))
        return refuse(model, "expected a model of SentencePiece (a tiktoken file of that name is not built)");
    return status;
}

static bool is_truth(const struct value *object, const char *name)
{
    const struct value *value = value_get(object, name);
    return value && value->kind == VALUE_BOOL && value->boolean;
}

// Unigram's normalization is read. Other classes renumber the pieces (XLMRobertaTokenizer, PegasusTokenizer) or
// put other tokens around a text.
static enum status check_unigram(struct sentencepiece *model, const struct value *config)
{
    const struct value *class = value_get(config, "tokenizer_class");
    static const char *const classes[] = {"T5Tokenizer",        "T5TokenizerFast",
                                          "LlamaTokenizer",     "LlamaTokenizerFast",
                                          "DebertaV2Tokenizer", "DebertaV2TokenizerFast"};
    static const char *const settings[] = {"do_lower_case", "split_by_punct"}; // DebertaV2Tokenizer's
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (is_truth(config, settings[i])) {
            char what[96];
            snprintf(what, sizeof what, "%s true without tokenizer.json", settings[i]);
            return refuse_unbuilt(model, what);
        }
    bool is_known = !class || class->kind != VALUE_STRING;
    for (size_t i = 0; !is_known && i < sizeof classes / sizeof *classes; i++)
        is_known = text_equals_string(class->text, classes[i]);
    return is_known ? STATUS_OK
                    : refuse_unbuilt(model, "a unigram model of this tokenizer_class without tokenizer.json");
}

static enum status check_model(struct sentencepiece *model, const struct value *config)
{
    static const char *const types[] = {"model_type 0", "", "", "a model of words", "a model of characters"};
    if (model->model_type == MODEL_UNIGRAM)
        return check_unigram(model, config);
    if (model->model_type != MODEL_BPE)
        return refuse_unbuilt(model, model->model_type >= 0 && model->model_type <= 4
                                         ? types[model->model_type]
                                         : "such a model_type");
    if (model->charsmap.size)
        return refuse_unbuilt(model, "precompiled_charsmap (a normalizer other than identity)");
    if (model->removes_blanks)
        return refuse_unbuilt(model, "remove_extra_whitespaces true");
    if (!model->escapes_blanks)
        return refuse_unbuilt(model, "escape_whitespaces false");
    return model->suffixes_blanks ? refuse_unbuilt(model, "treat_whitespace_as_suffix true") : STATUS_OK;
}

// --- Added tokens ---

static enum status set_token(struct sentencepiece *model, int64_t id, struct text text, int32_t type)
{
    enum status status = STATUS_OK;
    if (id < 0 || id >= PIECES_MAX)
        return refuse(model, "the id of an added token is not below 2^20");
    while (status == STATUS_OK && model->n_pieces <= (size_t)id)
        status = add_piece(model, TEXT(""), 0.0f, TYPE_UNUSED);
    if (status != STATUS_OK)
        return status;
    if (text.size > PIECE_BYTES_MAX)
        return refuse(model, "an added token of more than 4096 bytes");
    model->pieces[id] = text;
    if (model->types[id] != TYPE_UNKNOWN)
        model->types[id] = type;
    return STATUS_OK;
}

// {"32000": {"content": "<|im_end|>", "special": true, "lstrip": false, ...}}
static enum status add_described(struct sentencepiece *model, const struct value *tokens)
{
    size_t n = tokens && tokens->kind == VALUE_OBJECT ? tokens->object.n_members : 0;
    enum status status = STATUS_OK;
    for (int side = 0; side < 2 && n; side++)
        if (!(model->strips[side] =
                  arena_allocate_array(model->files->arena, n, sizeof *model->strips[side])))
            return out_of_memory(model);
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        const struct value_member *member = &tokens->object.members[i];
        const struct value *content = value_get(&member->value, "content");
        char digits[16] = "", *end = digits;
        if (member->key.size < sizeof digits)
            memcpy(digits, member->key.data, member->key.size);
        long id = strtol(digits, &end, 10);
        if (end == digits || *end || !content || content->kind != VALUE_STRING)
            return refuse(model, "added_tokens_decoder of tokenizer_config.json is not as expected");
        if (is_truth(&member->value, "single_word"))
            return refuse_unbuilt(model, "an added token that is a single_word");
        status = set_token(model, id, content->text,
                           is_truth(&member->value, "special") ? TYPE_CONTROL : TYPE_USER_DEFINED);
        if (is_truth(&member->value, "lstrip"))
            model->strips[0][model->n_strips[0]++] = (int32_t)id;
        if (is_truth(&member->value, "rstrip"))
            model->strips[1][model->n_strips[1]++] = (int32_t)id;
    }
    return status;
}

static bool is_described(const struct value *tokens, int64_t id)
{
    char name[24];
    snprintf(name, sizeof name, "%lld", (long long)id);
    return tokens && value_get(tokens, name);
}

// added_tokens.json of older folders, {"<|im_end|>": 32000}: does not say which tokens are special.
static enum status add_listed(struct sentencepiece *model, const struct value *described)
{
    struct value tokens;
    bool found;
    enum status status = folder_read_json(model->files, "added_tokens.json", &tokens, &found, model->error);
    for (size_t i = 0; status == STATUS_OK && found && i < tokens.object.n_members; i++) {
        const struct value_member *member = &tokens.object.members[i];
        if (member->value.kind != VALUE_INTEGER)
            return refuse(model, "added_tokens.json: expected a whole number for each token");
        if (!is_described(described, member->value.integer))
            status = set_token(model, member->value.integer, member->key, TYPE_CONTROL);
    }
    return status;
}

// --- Keys ---

// False: no piece has this text.
static bool put_id(const struct sentencepiece *model, struct gguf_writer *keys, const char *key,
                   struct text text)
{
    for (size_t i = 0; text.size && i < model->n_pieces; i++)
        if (text_equal(model->pieces[i], text)) {
            gguf_writer_u32(keys, key, (uint32_t)i);
            return true;
        }
    return false;
}

// The configuration's token, else `otherwise`, the model's.
static struct text named(const struct value *config, const char *name, struct text otherwise)
{
    const struct value *value = value_get(config, name);
    if (value && value->kind == VALUE_OBJECT)
        value = value_get(value, "content");
    if (value && value->kind == VALUE_NULL)
        return (struct text){0};
    return value && value->kind == VALUE_STRING ? value->text : otherwise;
}

static bool truth_or(const struct value *config, const char *name, bool otherwise)
{
    const struct value *value = value_get(config, name);
    return value && value->kind == VALUE_BOOL ? value->boolean : otherwise;
}

static bool has_byte_names(const struct sentencepiece *model)
{
    bool has_names = false;
    for (size_t i = 0; i < model->n_pieces && !has_names; i++)
        has_names = model->pieces[i].size == 6 && memcmp(model->pieces[i].data, "<0x", 3) == 0;
    return has_names;
}

static void put_keys(const struct sentencepiece *model, const struct value *config, struct gguf_writer *keys)
{
    static const char *const strips[] = {"tokenizer.huggingface.strips_left",
                                         "tokenizer.huggingface.strips_right"};
    bool is_unigram = model->model_type == MODEL_UNIGRAM;
    gguf_writer_text(keys, "tokenizer.ggml.model", is_unigram ? TEXT("t5") : TEXT("llama"));
    gguf_writer_text(keys, "tokenizer.ggml.pre", TEXT("default"));
    gguf_writer_texts(keys, "tokenizer.ggml.tokens", model->pieces, model->n_pieces);
    gguf_writer_f32s(keys, "tokenizer.ggml.scores", model->scores, model->n_pieces);
    gguf_writer_i32s(keys, "tokenizer.ggml.token_type", model->types, model->n_pieces);
    (void)put_id(model, keys, "tokenizer.ggml.unknown_token_id", model->unknown);
    (void)put_id(model, keys, "tokenizer.ggml.padding_token_id", named(config, "pad_token", model->padding));
    bool of_bert = is_of_bert(model);
    bool has_bos = put_id(model, keys, "tokenizer.ggml.bos_token_id",
                          named(config, of_bert ? "cls_token" : "bos_token", model->bos));
    bool has_eos = put_id(model, keys, "tokenizer.ggml.eos_token_id",
                          named(config, of_bert ? "sep_token" : "eos_token", model->eos));
    if (of_bert)
        gguf_writer_bool(keys, "tokenizer.huggingface.pair_types", true);
    gguf_writer_bool(keys, "tokenizer.ggml.add_bos_token",
                     has_bos && truth_or(config, "add_bos_token", !is_unigram || of_bert));
    gguf_writer_bool(keys, "tokenizer.ggml.add_eos_token",
                     has_eos && truth_or(config, "add_eos_token", is_unigram));
    gguf_writer_bool(keys, "tokenizer.ggml.add_space_prefix",
                     truth_or(config, "add_prefix_space", model->adds_blank));
    if (is_unigram) {
        gguf_writer_u8s(keys, "tokenizer.ggml.precompiled_charsmap", model->charsmap);
        gguf_writer_bool(keys, "tokenizer.ggml.remove_extra_whitespaces", model->removes_blanks);
        gguf_writer_bool(keys, "tokenizer.ggml.escape_whitespaces", model->escapes_blanks);
        gguf_writer_bool(keys, "tokenizer.ggml.treat_whitespace_as_suffix", model->suffixes_blanks);
    }
    gguf_writer_u32(keys, "tokenizer.huggingface.sentencepieces", model->n_own);
    gguf_writer_bool(keys, "tokenizer.huggingface.space_first_only", !truth_or(config, "legacy", true));
    if (!model->byte_fallback && has_byte_names(model)) // by their names, readers of GGUF fall back to them
        gguf_writer_bool(keys, "tokenizer.huggingface.byte_fallback", false);
    for (int side = 0; side < 2; side++)
        if (model->n_strips[side])
            gguf_writer_i32s(keys, strips[side], model->strips[side], model->n_strips[side]);
}

enum status folder_add_sentencepiece(const struct folder_files *files, const char *file, struct text content,
                                     const struct value *config, struct gguf_writer *keys,
                                     struct error *error)
{
    struct sentencepiece model = {.files = files,
                                  .file = file,
                                  .error = error,
                                  .model_type = 1, // defaults of the format
                                  .unknown = TEXT("<unk>"),
                                  .bos = TEXT("<s>"),
                                  .eos = TEXT("</s>"),
                                  .padding = TEXT("<pad>"),
                                  .adds_blank = true,
                                  .removes_blanks = true,
                                  .escapes_blanks = true};
    const struct value *described = value_get(config, "added_tokens_decoder");
    if (is_of_bert(&model))
        model.bos = TEXT("[CLS]"), model.eos = TEXT("[SEP]"), model.padding = TEXT("[PAD]");
    enum status status = parse_model(&model, content);
    if (status == STATUS_OK)
        status = check_model(&model, config);
    model.n_own = (uint32_t)model.n_pieces;
    if (status == STATUS_OK)
        status = add_described(&model, described);
    if (status == STATUS_OK)
        status = add_listed(&model, described);
    if (status == STATUS_OK)
        put_keys(&model, config, keys);
    free(model.pieces);
    free(model.scores);
    free(model.types);
    return status;
}
