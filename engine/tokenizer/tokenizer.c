// Encoding, decoding, properties. tokenizer_build.c opens and closes a tokenizer.
#include "engine/tokenizer/tokenizer.h"

#include "engine/tokenizer/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

static inline bool reserve_ids(struct token_array *array, size_t extra)
{
    return array->capacity - array->n_ids >= extra || token_array_grow(array, extra);
}

// --- Encoding ---

// State of one call of tokenizer_encode.
struct encoder {
    const struct tokenizer *tokenizer;
    struct token_array *ids;
    struct merge_scratch scratch;
    struct piece_scratch pieces;
    size_t n_first;   // bytes of the normalized text that come from the first character of the whole text
    int32_t *symbols; // scratch for long words
    size_t n_symbols_max;
    struct buffer prepared, normalized[2];
    const char *start;       // start of the whole text
    const char *piece_start; // start of the normalized piece that is being split
    const char *end;         // end of the text whose words are being encoded
    struct special_controls controls;
    struct text_spans mapped; // controls.plain, mapped to the text with U+2581 for blanks
    bool continues;           // set by TOKENIZER_CONTINUES
    bool failed;
};

enum { SYMBOLS_ON_STACK = 64 };

// Writes the byte tokens of a character without a token. Returns 0 if the vocabulary lacks some of them.
static size_t byte_fallback(const struct tokenizer *tokenizer, struct text text, int32_t *symbols)
{
    for (size_t i = 0; i < text.size; i++) {
        symbols[i] = tokenizer->symbols.byte_symbols[(unsigned char)text.data[i]];
        if (symbols[i] < 0)
            return 0;
    }
    return text.size;
}

// A character without a token and without byte tokens becomes the unknown token if the vocabulary has one,
// else nothing. As in tokenizers, an unknown token is placed after byte tokens that follow it, and is fused
// across them.
size_t tokenizer_first_symbols(const struct tokenizer *tokenizer, struct text word, int32_t *symbols)
{
    size_t n_symbols = 0, n_unknown = 0;
    if (tokenizer->rules.byte_level) {
        for (size_t i = 0; i < word.size; i++)
            symbols[i] = tokenizer->symbols.byte_symbols[(unsigned char)word.data[i]];
        return word.size;
    }
    for (size_t at = 0, size; at < word.size; at += size) {
        struct text rest = {word.data + at, word.size - at};
        uint32_t codepoint;
        size = utf8_decode(rest.data, rest.size, &codepoint);
        rest.size = size;
        int32_t id = size == 0   ? -1
                     : size == 1 ? tokenizer->symbols.ascii_symbols[codepoint]
                                 : token_map_find(&tokenizer->symbols.words, tokenizer->symbols.forms, rest);
        if (size == 0)
            size = rest.size = 1;
        size_t n_bytes = id < 0 ? byte_fallback(tokenizer, rest, symbols + n_symbols) : 0;
        bool is_unknown = id < 0 && n_bytes == 0 && tokenizer->ids.unknown >= 0;
        n_symbols += n_bytes;
        if (n_unknown && (id >= 0 || (is_unknown && !tokenizer->rules.fuses_unknown)))
            symbols[n_symbols++] = tokenizer->ids.unknown;
        if (id >= 0)
            symbols[n_symbols++] = id;
        n_unknown = is_unknown || (n_unknown && id < 0);
    }
    if (n_unknown)
        symbols[n_symbols++] = tokenizer->ids.unknown;
    return n_symbols;
}

// Emits a symbol. If it is beyond the vocabulary, or MERGE_NO_SYMBOL, emits byte tokens.
static void emit_symbol(struct encoder *encoder, int32_t symbol)
{
    const struct tokenizer *tokenizer = encoder->tokenizer;
    if (symbol >= 0 && symbol < tokenizer->n_tokens) {
        token_array_add(encoder->ids, symbol);
        return;
    }
    struct text form = symbol >= 0 ? tokenizer->symbols.forms[symbol] : (struct text){0};
    for (size_t i = 0; i < form.size; i++) {
        int32_t id = tokenizer->symbols.byte_symbols[(unsigned char)form.data[i]];
        if (id < 0 || id >= tokenizer->n_tokens)
            id = tokenizer->ids.unknown;
        if (id >= 0)
            token_array_add(encoder->ids, id);
    }
}

// Collapses consecutive unknown tokens in ids[from..] to one.
static void fuse_unknown(struct encoder *encoder, size_t from)
{
    struct token_array *ids = encoder->ids;
    size_t n_ids = from;
    for (size_t i = from; i < ids->n_ids; i++)
        if (i == from || ids->ids[i] != encoder->tokenizer->ids.unknown || ids->ids[i] != ids->ids[i - 1])
            ids->ids[n_ids++] = ids->ids[i];
    ids->n_ids = n_ids;
}

static int32_t *reserve_symbols(struct encoder *encoder, size_t n_symbols)
{
    if (n_symbols > encoder->n_symbols_max) {
        free(encoder->symbols);
        encoder->symbols = malloc(n_symbols * sizeof *encoder->symbols);
        encoder->n_symbols_max = encoder->symbols ? n_symbols : 0;
    }
    return encoder->symbols;
}

static void merge_word(struct encoder *encoder, struct text word)
{
    const struct tokenizer *tokenizer = encoder->tokenizer;
    size_t size = word.size;
    if (size <= tokenizer->symbols.whole_bytes_max) {
        int32_t id = token_map_find(&tokenizer->symbols.words, tokenizer->symbols.forms, word);
        if (id >= 0 && tokenizer->symbols.is_whole[id]) {
            token_array_add(encoder->ids, id);
            return;
        }
    }
    int32_t on_stack[SYMBOLS_ON_STACK];
    int32_t *symbols = size <= SYMBOLS_ON_STACK ? on_stack : reserve_symbols(encoder, size);
    if (!symbols) {
        encoder->failed = true;
        return;
    }
    size_t n_symbols = tokenizer_first_symbols(tokenizer, word, symbols);
    n_symbols = merge_symbols(&tokenizer->merges, &encoder->scratch, symbols, n_symbols);
    if (n_symbols == SIZE_MAX) {
        encoder->failed = true;
        return;
    }
    size_t from = encoder->ids->n_ids;
    for (size_t i = 0; i < n_symbols; i++)
        emit_symbol(encoder, symbols[i]);
    if (tokenizer->rules.fuses_unknown)
        fuse_unknown(encoder, from);
}

// Encodes a word that is not in the cache. If `key` is NULL, does not insert it.
static __attribute__((noinline)) void encode_new_word(struct encoder *encoder, struct text word,
                                                      const struct word_key *key)
{
    struct token_array *ids = encoder->ids;
    size_t n_before = ids->n_ids;
    if (encoder->tokenizer->model == VOCABULARY_BPE)
        merge_word(encoder, word);
    else
        encoder->failed |= !pieces_encode(&encoder->tokenizer->piece_model, &encoder->pieces, word, ids);
    if (key && !encoder->failed && !ids->failed && ids->n_ids - n_before <= WORD_CACHE_IDS_MAX)
        word_cache_put(encoder->tokenizer->cache, key, ids->ids + n_before, ids->n_ids - n_before);
}

static void encode_words(void *context, const char *data, const size_t *sizes, size_t n_words)
{
    struct encoder *encoder = context;
    struct token_array *ids = encoder->ids;
    for (size_t i = 0; i < n_words; data += sizes[i++]) {
        struct word_key key;
        size_t n_known = 0, n_ids = 0;
        bool has_room = !ids->failed && reserve_ids(ids, (n_words - i) * WORD_CACHE_IDS_MAX);
        if (has_room)
            n_known = word_cache_find(encoder->tokenizer->cache, data, sizes + i, n_words - i, encoder->end,
                                      ids->ids + ids->n_ids, &n_ids, &key);
        ids->n_ids += n_ids;
        for (; n_known > 0; n_known--)
            data += sizes[i++];
        if (i == n_words)
            return;
        bool has_key = has_room && sizes[i] > 0 && sizes[i] <= WORD_CACHE_BYTES_MAX;
        encode_new_word(encoder, (struct text){data, sizes[i]}, has_key ? &key : NULL);
    }
}

static void encode_word(struct encoder *encoder, const char *data, size_t size)
{
    encode_words(encoder, data, &size, 1);
}

// Cuts a text before each blank that no merge joins with the byte before it. Merging the parts separately
// gives the same tokens as merging the whole, and most parts are whole words, which the cache knows.
static void encode_blank_word(struct encoder *encoder, const char *data, size_t size)
{
    const char *end = data + size;
    const char *start = data;
    for (const char *at = data + (size > 0); at < end;) {
        at = memchr(at, TOKENIZER_BLANK[0], (size_t)(end - at));
        if (!at)
            break;
        if (end - at >= 3 && !memcmp(at, TOKENIZER_BLANK, 3) &&
            (encoder->tokenizer->rules.splits_blanks ||
             !encoder->tokenizer->symbols.joins_blank[(unsigned char)at[-1]])) {
            encode_word(encoder, start, (size_t)(at - start));
            start = at;
        }
        at++;
    }
    if (start < end)
        encode_word(encoder, start, (size_t)(end - start));
}

static void encode_blank_words(void *context, const char *data, const size_t *sizes, size_t n_words)
{
    for (size_t i = 0; i < n_words; data += sizes[i++])
        encode_blank_word(context, data, sizes[i]);
}

// True if a blank is inserted before `text`. Only other text, a special token or nothing may precede it;
// after text none is inserted.
static bool wants_space(const struct encoder *encoder, struct text text, bool is_first)
{
    const struct tokenizer *tokenizer = encoder->tokenizer;
    if (!tokenizer->rules.adds_space || (is_first ? encoder->continues : tokenizer->rules.space_first_only))
        return false;
    bool has_blank = text.data[0] == ' ' || (!tokenizer->rules.byte_level && text.size >= 3 &&
                                             memcmp(text.data, TOKENIZER_BLANK, 3) == 0);
    return !(tokenizer->rules.space_unless_there && has_blank);
}

static struct text prepared_text(struct encoder *encoder)
{
    encoder->failed |= encoder->prepared.failed;
    return (struct text){encoder->prepared.data, encoder->prepared.failed ? 0 : encoder->prepared.size};
}

// Replaces blanks with U+2581, if the vocabulary writes them so.
static struct text prepare_text(struct encoder *encoder, struct text text, bool is_first)
{
    if (encoder->tokenizer->rules.keeps_blanks)
        return text;
    buffer_clear(&encoder->prepared);
    if (wants_space(encoder, text, is_first))
        buffer_add_string(&encoder->prepared, TOKENIZER_BLANK);
    for (size_t at = 0; at < text.size;) {
        const char *blank = memchr(text.data + at, ' ', text.size - at);
        size_t size = blank ? (size_t)(blank - text.data) - at : text.size - at;
        buffer_add(&encoder->prepared, text.data + at, size);
        if (blank)
            buffer_add_string(&encoder->prepared, TOKENIZER_BLANK);
        at += size + 1;
    }
    return prepared_text(encoder);
}

// Prepares byte-level text: inserts a blank before it if wants_space returns true.
static struct text prepare_bytes(struct encoder *encoder, struct text text, bool is_first)
{
    if (!wants_space(encoder, text, is_first))
        return text;
    buffer_clear(&encoder->prepared);
    buffer_add_byte(&encoder->prepared, ' ');
    buffer_add_text(&encoder->prepared, text);
    return prepared_text(encoder);
}

static void encode_prepared(struct encoder *encoder, struct text text)
{
    const struct tokenizer *tokenizer = encoder->tokenizer;
    if (text.size == 0)
        return;
    encoder->end = text.data + text.size;
    take_words *words = tokenizer->rules.byte_level ? encode_words : encode_blank_words;
    if (!tokenizer->splitter)
        words(encoder, text.data, &text.size, 1);
    else if (!splitter_run(tokenizer->splitter, text, words, encoder))
        encoder->failed = true;
}

// --- WordPiece, Unigram ---

static void split_after(struct encoder *encoder, const char *data, size_t size)
{
    const struct splitter *splitter = encoder->tokenizer->splitter_after;
    if (splitter)
        encoder->failed |= !splitter_run(splitter, (struct text){data, size}, encode_words, encoder);
    else
        encode_word(encoder, data, size);
}

// Implements the pre-tokenizer Metaspace: writes U+2581 for blanks and, if its scheme says so, before the
// piece; then cuts the text before each U+2581.
static void encode_metaspace(void *context, const char *data, const size_t *sizes, size_t n_words)
{
    struct encoder *encoder = context;
    for (size_t i = 0; i < n_words; data += sizes[i++]) {
        bool is_first = (size_t)(data - encoder->piece_start) < encoder->n_first;
        struct text text = prepare_text(encoder, (struct text){data, sizes[i]}, is_first);
        const char *end = encoder->end = text.data + text.size, *start = text.data;
        for (const char *at = start + 1; encoder->tokenizer->rules.splits_blanks && at + 3 <= end; at++)
            if (*at == TOKENIZER_BLANK[0] && !memcmp(at, TOKENIZER_BLANK, 3)) {
                split_after(encoder, start, (size_t)(at - start));
                start = at;
            }
        if (start < end)
            split_after(encoder, start, (size_t)(end - start));
    }
}

static void encode_pieces(struct encoder *encoder, struct text text, bool is_first)
{
    const struct tokenizer *tokenizer = encoder->tokenizer;
    take_words *words = tokenizer->rules.is_metaspace ? encode_metaspace : encode_words;
    encoder->end = text.data + text.size;
    encoder->piece_start = text.data;
    if (!is_first)
        encoder->n_first = 0;
    if (!tokenizer->splitter)
        words(encoder, text.data, &text.size, 1);
    else
        encoder->failed |= !splitter_run(tokenizer->splitter, text, words, encoder);
}

// Encodes normalized text without added tokens.
static void encode_normalized(struct encoder *encoder, struct text text, bool is_first)
{
    if (text.size == 0)
        return;
    if (encoder->tokenizer->model != VOCABULARY_BPE) {
        encode_pieces(encoder, text, is_first);
        return;
    }
    encode_prepared(encoder, encoder->tokenizer->rules.byte_level ? prepare_bytes(encoder, text, is_first)
                                                                  : prepare_text(encoder, text, is_first));
}

// Returns the end of text[from..end) without its trailing white space.
static size_t end_without_space(struct text text, size_t from, size_t end)
{
    while (end > from) {
        uint32_t codepoint;
        size_t start = end - 1;
        while (start > from && end - start < 4 && ((unsigned char)text.data[start] & 0xC0) == 0x80)
            start--;
        if (utf8_decode(text.data + start, end - start, &codepoint) != end - start ||
            !tokenizer_is_space(codepoint))
            break;
        end = start;
    }
    return end;
}

static size_t start_without_space(struct text text, size_t start)
{
    uint32_t codepoint;
    for (size_t size; start < text.size; start += size) {
        size = utf8_decode(text.data + start, text.size - start, &codepoint);
        if (size == 0 || !tokenizer_is_space(codepoint))
            break;
    }
    return start;
}

typedef void encode_part(struct encoder *encoder, struct text text, bool is_first);

static void encode_as_is(struct encoder *encoder, struct text text, bool is_first)
{
    (void)is_first;
    encode_prepared(encoder, text);
}

// Finds added tokens and appends their ids; `encode` encodes the text between them.
static void encode_between(struct encoder *encoder, const struct special_matcher *matcher, struct text text,
                           bool is_first, struct special_controls controls, encode_part *encode)
{
    const struct tokenizer *tokenizer = encoder->tokenizer;
    struct special_match match;
    size_t at = 0;
    while (special_find(matcher, text, at, controls, &match)) {
        unsigned flags = tokenizer->flags[match.id];
        size_t end = flags & TOKEN_STRIPS_LEFT ? end_without_space(text, at, match.start) : match.start;
        encode(encoder, (struct text){text.data + at, end - at}, is_first && at == 0);
        token_array_add(encoder->ids, match.id);
        at = flags & TOKEN_STRIPS_RIGHT ? start_without_space(text, match.end) : match.end;
    }
    encode(encoder, (struct text){text.data + at, text.size - at}, is_first && at == 0);
}

// Maps the plain spans of `text`, a part of the whole text, to its prepared form, in which each blank is
// U+2581. Excludes blanks at the end of a span, because such a blank may be the first character of a token's
// normalized text.
static void map_plain(struct encoder *encoder, struct text text, struct text prepared)
{
    const struct text_spans *plain = encoder->controls.plain;
    bool blanks = encoder->tokenizer->rules.normalizes_blanks;
    size_t base = (size_t)(text.data - encoder->start), from = 0, n_grown = 0;
    size_t n_blank = strlen(TOKENIZER_BLANK);
    for (size_t i = 0; blanks && i < text.size; i++)
        n_grown += text.data[i] == ' ' ? n_blank - 1 : 0;
    n_grown = prepared.size - text.size - n_grown; // growth by the inserted blank
    encoder->mapped.n_items = 0;
    for (size_t i = 0; i < plain->n_items; i++) {
        size_t start = plain->items[i].start > base ? plain->items[i].start - base : 0;
        size_t end = plain->items[i].end > base ? plain->items[i].end - base : 0;
        end = end < text.size ? end : text.size;
        while (blanks && end > start && text.data[end - 1] == ' ')
            end--;
        if (start >= end)
            continue;
        for (; from < start; from++)
            n_grown += blanks && text.data[from] == ' ' ? n_blank - 1 : 0;
        start += n_grown;
        for (; from < end; from++)
            n_grown += blanks && text.data[from] == ' ' ? n_blank - 1 : 0;
        text_spans_add(&encoder->mapped, start, end + n_grown);
    }
    encoder->failed |= encoder->mapped.failed;
}

// Added tokens that are matched in normalized text are matched after all others (added_vocabulary.rs of
// github.com/huggingface/tokenizers, extract_and_normalize). They may include control tokens only if the
// normalizer changes nothing but blanks.
static void find_normalized(struct encoder *encoder, struct text text, struct text normalized, bool is_first)
{
    const struct tokenizer *tokenizer = encoder->tokenizer;
    struct special_controls controls = encoder->controls;
    bool blanks = tokenizer->rules.normalizes_blanks;
    if (blanks)
        normalized = prepare_text(encoder, normalized, is_first);
    if (controls.plain && tokenizer->normalizer.n_steps == 0) {
        map_plain(encoder, text, normalized);
        controls.plain = &encoder->mapped;
    }
    encode_between(encoder, &tokenizer->normalized, normalized, is_first, controls,
                   blanks ? encode_as_is : encode_normalized);
}

// Sets n_first. Metaspace with the scheme "first" inserts a blank before each piece that starts within the
// normalized form of the first character.
static void find_first(struct encoder *encoder, struct text text)
{
    const struct tokenizer *tokenizer = encoder->tokenizer;
    uint32_t codepoint;
    size_t size = utf8_decode(text.data, text.size, &codepoint);
    struct text normalized = {text.data, size ? size : 1};
    struct normalizer steps = tokenizer->normalizer;
    for (size_t i = 0; i < steps.n_steps; i++)
        if (steps.steps[i].kind ==
            NORMALIZE_PRECOMPILED) // the library lets the next character take the place of a dropped one
            steps.n_steps = i;
    struct text character = normalized;
    encoder->failed |= !normalizer_run(&steps, character, encoder->normalized, &normalized);
    bool is_kept = steps.n_steps < tokenizer->normalizer.n_steps && normalized.size;
    encoder->failed |= !normalizer_run(&tokenizer->normalizer, character, encoder->normalized, &normalized);
    encoder->n_first = normalized.size || !is_kept ? normalized.size : 1;
}

// Encodes text in which the added tokens that match unnormalized text have already been found.
static void encode_plain(struct encoder *encoder, struct text text, bool is_first)
{
    const struct tokenizer *tokenizer = encoder->tokenizer;
    struct text normalized = text;
    if (tokenizer->rules.is_metaspace && tokenizer->rules.space_first_only && is_first && text.size)
        find_first(encoder, text);
    if (text.size && !normalizer_run(&tokenizer->normalizer, text, encoder->normalized, &normalized)) {
        encoder->failed = true;
        return;
    }
    if (tokenizer->normalized.n_roots && normalized.size)
        find_normalized(encoder, text, normalized, is_first);
    else
        encode_normalized(encoder, normalized, is_first);
}

// Appends the template's tokens before its first text, or after its last text.
static void add_around(const struct token_template *of, bool after, struct token_array *ids)
{
    bool is_after = false;
    for (size_t i = 0; i < of->n_items; i++)
        if (of->items[i].text >= 0)
            is_after = true;
        else if (is_after == after)
            token_array_add(ids, of->items[i].token);
}

enum status tokenizer_encode(const struct tokenizer *tokenizer, struct text text, unsigned flags,
                             struct token_array *ids, struct error *error)
{
    return tokenizer_encode_around(tokenizer, text, NULL, flags, ids, error);
}

enum status tokenizer_encode_around(const struct tokenizer *tokenizer, struct text text,
                                    const struct text_spans *plain, unsigned flags, struct token_array *ids,
                                    struct error *error)
{
    if (text.size > TOKENIZER_TEXT_BYTES_MAX)
        return error_set(error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED, "text of %zu bytes, at most %d",
                         text.size, TOKENIZER_TEXT_BYTES_MAX);
    struct encoder encoder = {
        .tokenizer = tokenizer, .ids = ids, .start = text.data, .continues = flags & TOKENIZER_CONTINUES};
    if (flags & TOKENIZER_ADD_SPECIAL)
        add_around(&tokenizer->templates[0], false, ids);
    encoder.controls = (struct special_controls){flags & TOKENIZER_PARSE_SPECIAL, plain};
    if (text.size)
        encode_between(&encoder, &tokenizer->specials, text, true, encoder.controls, encode_plain);
    if (flags & TOKENIZER_ADD_SPECIAL)
        add_around(&tokenizer->templates[0], true, ids);
    merge_scratch_finish(&encoder.scratch);
    piece_scratch_finish(&encoder.pieces);
    buffer_finish(&encoder.prepared);
    buffer_finish(&encoder.normalized[0]);
    buffer_finish(&encoder.normalized[1]);
    text_spans_finish(&encoder.mapped);
    free(encoder.symbols);
    if (encoder.failed || ids->failed)
        return error_memory(error, STATUS_RETRY, "tokenizing %zu bytes", text.size);
    return STATUS_OK;
}

// --- Decoding, properties ---

static bool is_token(const struct tokenizer *tokenizer, int32_t id)
{
    return id >= 0 && id < tokenizer->n_tokens;
}

void tokenizer_decode(const struct tokenizer *tokenizer, int32_t id, bool special, struct buffer *out)
{
    if (is_token(tokenizer, id) && (special || !(tokenizer->flags[id] & (TOKEN_CONTROL | TOKEN_UNKNOWN))))
        buffer_add_text(out, tokenizer->pieces[id]);
}

int32_t tokenizer_n_tokens(const struct tokenizer *tokenizer)
{
    return tokenizer->n_tokens;
}

struct text tokenizer_token_text(const struct tokenizer *tokenizer, int32_t id)
{
    return is_token(tokenizer, id) ? tokenizer->texts[id] : (struct text){0};
}

bool tokenizer_strips_first_space(const struct tokenizer *tokenizer)
{
    return tokenizer->strips_first;
}

bool tokenizer_is_control(const struct tokenizer *tokenizer, int32_t id)
{
    return is_token(tokenizer, id) && tokenizer->flags[id] & TOKEN_CONTROL;
}

bool tokenizer_ends_generation(const struct tokenizer *tokenizer, int32_t id)
{
    return is_token(tokenizer, id) && tokenizer->flags[id] & TOKEN_ENDS_GENERATION;
}

const int32_t *tokenizer_suppressed(const struct tokenizer *tokenizer, size_t *n)
{
    *n = tokenizer->n_suppressed;
    return tokenizer->suppressed;
}

int32_t tokenizer_bos(const struct tokenizer *tokenizer)
{
    return tokenizer->ids.bos;
}

int32_t tokenizer_eos(const struct tokenizer *tokenizer)
{
    return tokenizer->ids.eos;
}

int32_t tokenizer_unk_token(const struct tokenizer *tokenizer)
{
    return tokenizer->ids.unk_token;
}

int32_t tokenizer_padding(const struct tokenizer *tokenizer)
{
    return tokenizer->ids.padding;
}

bool tokenizer_adds_bos(const struct tokenizer *tokenizer)
{
    return tokenizer->rules.adds_bos;
}

bool tokenizer_adds_eos(const struct tokenizer *tokenizer)
{
    return tokenizer->rules.adds_eos;
}

const char *tokenizer_model_name(const struct tokenizer *tokenizer)
{
    if (tokenizer->model != VOCABULARY_BPE)
        return tokenizer->model == VOCABULARY_UNIGRAM ? "unigram" : "wordpiece";
    return tokenizer->splitter ? "bpe" : "spm";
}

const char *tokenizer_pre_name(const struct tokenizer *tokenizer)
{
    bool has_name = tokenizer->splitter && tokenizer->model == VOCABULARY_BPE;
    return has_name ? splitter_traits(tokenizer->splitter)->name : "";
}
