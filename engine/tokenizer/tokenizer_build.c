// Builds a tokenizer from a vocabulary: resolves merges to ids, finds which tokens are whole words, and
// prepares the tables for encoding and decoding.
#include "engine/file/gguf.h"
#include "engine/tokenizer/byte_alphabet.h"
#include "engine/tokenizer/tokenizer_parts.h"
#include "engine/tokenizer/vocabulary.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Large vocabularies reserve their memory at once. BYTES_A_TOKEN estimates the text, form and piece of a
// token with their pointers.
enum { MANY_TOKENS = 16384, BYTES_A_TOKEN = 128 };

// State of one build. `symbol_texts` grows when a merge names a symbol that is not a token.
struct builder {
    struct tokenizer *tokenizer;
    const struct vocabulary *vocabulary;
    struct text *symbol_texts;
    size_t n_symbols, capacity;
    struct token_map by_text;
    struct merge_scratch scratch;
    struct error *error; // STATUS_OK unless the vocabulary is refused
};

static struct text copy_text(struct arena *arena, struct text text)
{
    char *copy = arena_copy(arena, text.data, text.size);
    return (struct text){copy, copy ? text.size : 0};
}

// --- Symbols ---

static bool add_symbol(struct builder *builder, struct text text, bool is_word)
{
    if (builder->n_symbols == builder->capacity) {
        size_t capacity = builder->capacity ? 2 * builder->capacity : builder->vocabulary->n_tokens + 1;
        struct text *texts =
            capacity < INT32_MAX ? realloc(builder->symbol_texts, capacity * sizeof *texts) : NULL;
        if (!texts)
            return false;
        builder->symbol_texts = texts;
        builder->capacity = capacity;
    }
    struct text copy = copy_text(&builder->tokenizer->arena, text);
    if (!copy.data)
        return false;
    builder->symbol_texts[builder->n_symbols++] = copy;
    return copy.size == 0 || !is_word ||
           token_map_add(&builder->by_text, builder->symbol_texts, (int32_t)builder->n_symbols - 1);
}

// Returns the symbol with that text, created if missing; -1: out of memory.
static int32_t intern_text(struct builder *builder, struct text text)
{
    int32_t id = token_map_find(&builder->by_text, builder->symbol_texts, text);
    if (id >= 0)
        return id;
    return add_symbol(builder, text, true) ? (int32_t)builder->n_symbols - 1 : -1;
}

static bool is_word(const struct vocabulary *vocabulary, size_t id)
{
    return !vocabulary->rules.controls_apart || id >= vocabulary->n_tokens ||
           !(vocabulary->flags[id] & TOKEN_CONTROL);
}

static bool add_tokens(struct builder *builder)
{
    struct tokenizer *tokenizer = builder->tokenizer;
    size_t n_tokens = builder->vocabulary->n_tokens;
    if (n_tokens >= MANY_TOKENS && !arena_reserve(&tokenizer->arena, n_tokens * BYTES_A_TOKEN))
        return false;
    if (!token_map_reserve(&builder->by_text, n_tokens))
        return false;
    for (size_t i = 0; i < builder->vocabulary->n_tokens; i++)
        if (!add_symbol(builder, builder->vocabulary->texts[i], is_word(builder->vocabulary, i)))
            return false;
    tokenizer->n_tokens = (int32_t)builder->vocabulary->n_tokens;
    tokenizer->flags = arena_allocate_array(&tokenizer->arena, builder->n_symbols, sizeof *tokenizer->flags);
    if (!tokenizer->flags)
        return false;
    memcpy(tokenizer->flags, builder->vocabulary->flags, builder->n_symbols * sizeof *tokenizer->flags);
    return true;
}

// --- Merges ---

// True if the symbol is a token. Control tokens are not among the words (controls_apart), so they are
// searched separately.
static bool is_token(const struct builder *builder, int32_t symbol, struct text text)
{
    if (symbol < builder->tokenizer->n_tokens)
        return true;
    for (size_t i = 0; i < builder->vocabulary->n_tokens; i++)
        if (text_equal(builder->vocabulary->texts[i], text))
            return true;
    return false;
}

static int shown_bytes(struct text text)
{
    return (int)(text.size < 64 ? text.size : 64);
}

// Refuses merges that do not fit the vocabulary, as the tokenizers library does: a list that was cut or
// edited gives other ids.
static bool check_merge(struct builder *builder, size_t i, const struct text texts[3],
                        const int32_t symbols[3])
{
    int part = 0;
    while (part < 3 && is_token(builder, symbols[part], texts[part]))
        part++;
    if (part < 2)
        error_set(builder->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                  "tokenizer.json: model.merges: item %zu: \"%.*s\" is no token", i, shown_bytes(texts[part]),
                  texts[part].data);
    else if (part == 2)
        error_set(
            builder->error, STATUS_REFUSE, ERROR_MODEL_FILE,
            "tokenizer.json: model.merges: item %zu: \"%.*s\" and \"%.*s\" merge into \"%.*s\", which is"
            " no token",
            i, shown_bytes(texts[0]), texts[0].data, shown_bytes(texts[1]), texts[1].data,
            shown_bytes(texts[2]), texts[2].data);
    return part == 3;
}

static bool add_listed_merges(struct builder *builder)
{
    if (!merge_table_reserve(&builder->tokenizer->merges, builder->vocabulary->n_merges))
        return false;
    for (size_t i = 0; i < builder->vocabulary->n_merges; i++) {
        const struct vocabulary_merge *merge = &builder->vocabulary->merges[i];
        char joined[2 * VOCABULARY_TOKEN_BYTES_MAX + 1];
        size_t size = merge->left.size + merge->right.size;
        assert(size <= sizeof joined);
        memcpy(joined, merge->left.data, merge->left.size);
        memcpy(joined + merge->left.size, merge->right.data, merge->right.size);
        int32_t left = intern_text(builder, merge->left);
        int32_t right = intern_text(builder, merge->right);
        int32_t merged = intern_text(builder, (struct text){joined, size});
        if (left < 0 || right < 0 || merged < 0 ||
            (builder->vocabulary->rules.merges_are_tokens &&
             !check_merge(builder, i, (struct text[]){merge->left, merge->right, {joined, size}},
                          (int32_t[]){left, right, merged})) ||
            !merge_table_add(&builder->tokenizer->merges, left, right, (uint32_t)i, merged))
            return false;
    }
    return true;
}

// Returns a rank that falls as the score rises; equal scores have equal ranks. The bits of an IEEE float sort
// like its value, in reverse for negative floats. Never returns UINT32_MAX, the rank of pairs that do not
// merge.
static uint32_t rank_of_score(float score)
{
    uint32_t bits;
    score += 0.0f; // -0 becomes +0
    memcpy(&bits, &score, sizeof bits);
    uint32_t rising = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return UINT32_MAX - (rising ? rising : 1);
}

// Returns the symbol of a part of a token: a token, or a single character, for which a symbol is created if
// missing. -1: the part is neither, or memory ran out (*failed).
static int32_t part_symbol(struct builder *builder, struct text part, bool *failed)
{
    int32_t id = token_map_find(&builder->by_text, builder->symbol_texts, part);
    uint32_t codepoint;
    if (id >= 0 || utf8_decode(part.data, part.size, &codepoint) != part.size)
        return id;
    id = intern_text(builder, part);
    *failed |= id < 0;
    return id;
}

// SentencePiece merges any two symbols whose concatenation is a token: adds a merge for each way to cut a
// token in two.
static bool add_scored_merges(struct builder *builder)
{
    // almost every token can be cut in at least one way
    bool failed = !merge_table_reserve(&builder->tokenizer->merges, builder->vocabulary->n_tokens);
    for (size_t i = 0; i < builder->vocabulary->n_tokens && !failed; i++) {
        struct text text = builder->symbol_texts[i];
        uint32_t rank = rank_of_score(builder->vocabulary->scores[i]);
        uint32_t codepoint;
        if (token_map_find(&builder->by_text, builder->symbol_texts, text) != (int32_t)i)
            continue; // if several tokens have the same text, only the first can be reached
        for (size_t at = 0, size; at < text.size && !failed; at += size) {
            size = utf8_decode(text.data + at, text.size - at, &codepoint);
            size = size ? size : 1;
            if (at == 0)
                continue;
            int32_t left = part_symbol(builder, (struct text){text.data, at}, &failed);
            if (left < 0)
                continue;
            int32_t right = part_symbol(builder, (struct text){text.data + at, text.size - at}, &failed);
            if (right >= 0)
                failed |= !merge_table_add(&builder->tokenizer->merges, left, right, rank, (int32_t)i);
        }
    }
    return !failed;
}

// Finds the bytes that a merge joins with a following blank (U+2581). Text can be cut before all other
// blanks.
static void find_joins(struct tokenizer *tokenizer, const struct text *texts)
{
    for (size_t i = 0; tokenizer->merges.rules && i <= tokenizer->merges.mask; i++) {
        const struct merge_rule *rule = &tokenizer->merges.rules[i];
        if (!rule->pair)
            continue;
        struct text text = texts[rule->merged];
        for (size_t at = 1; at + 3 <= text.size; at++)
            if (!memcmp(text.data + at, TOKENIZER_BLANK, 3))
                tokenizer->symbols.joins_blank[(unsigned char)text.data[at - 1]] = true;
    }
}

// --- Forms, words ---

static bool make_forms(struct builder *builder)
{
    struct tokenizer *tokenizer = builder->tokenizer;
    size_t n_symbols = builder->n_symbols;
    tokenizer->symbols.n_symbols = n_symbols;
    tokenizer->texts = arena_allocate_array(&tokenizer->arena, n_symbols, sizeof *tokenizer->texts);
    tokenizer->symbols.forms =
        arena_allocate_array(&tokenizer->arena, n_symbols, sizeof *tokenizer->symbols.forms);
    if (!tokenizer->texts || !tokenizer->symbols.forms)
        return false;
    if (tokenizer->rules.byte_level && !token_map_reserve(&tokenizer->symbols.words, n_symbols))
        return false;
    memcpy(tokenizer->texts, builder->symbol_texts, n_symbols * sizeof *tokenizer->texts);
    bool is_text = !tokenizer->rules.byte_level;
    if (is_text) { // the forms are the texts: reuse their map
        tokenizer->symbols.words = builder->by_text;
        builder->by_text = (struct token_map){0};
    }
    for (size_t i = 0; i < n_symbols; i++) {
        struct text text = tokenizer->texts[i];
        tokenizer->symbols.forms[i] = text;
        if (!is_text) {
            char *bytes = arena_allocate(&tokenizer->arena, text.size + 1);
            size_t size;
            if (!bytes)
                return false;
            bool decodes = is_word(builder->vocabulary, i) && byte_alphabet_decode(text, bytes, &size);
            tokenizer->symbols.forms[i] = decodes ? (struct text){bytes, size} : (struct text){0};
        }
        if (!is_text && tokenizer->symbols.forms[i].size &&
            !token_map_add(&tokenizer->symbols.words, tokenizer->symbols.forms, (int32_t)i))
            return false;
    }
    return true;
}

static void find_first_symbols(struct tokenizer *tokenizer)
{
    bool has_bytes = true;
    for (unsigned byte = 0; byte < 256; byte++) {
        char name[8];
        char raw = (char)byte;
        snprintf(name, sizeof name, "<0x%02X>", byte);
        struct text text = tokenizer->rules.byte_level ? (struct text){&raw, 1} : text_from_string(name);
        int32_t id = token_map_find(&tokenizer->symbols.words, tokenizer->symbols.forms, text);
        bool is_token = id >= 0 && id < tokenizer->n_tokens;
        bool is_fallback = tokenizer->rules.byte_level || (is_token && !tokenizer->rules.no_byte_tokens);
        tokenizer->symbols.byte_symbols[byte] = is_fallback ? id : -1;
        has_bytes &= is_fallback;
        if (byte < 128)
            tokenizer->symbols.ascii_symbols[byte] =
                token_map_find(&tokenizer->symbols.words, tokenizer->symbols.forms, (struct text){&raw, 1});
    }
    // Text must not be cut before blanks in these cases: a merge may join a blank with text before a dropped
    // character; unknown characters are fused across a blank; a whole text that is a token needs no merges;
    // U+2581 is an ordinary character.
    bool drops = !has_bytes && tokenizer->ids.unknown < 0;
    bool has_blank =
        token_map_find(&tokenizer->symbols.words, tokenizer->symbols.forms, TEXT(TOKENIZER_BLANK)) >= 0;
    if (drops || !has_blank || tokenizer->rules.ignores_merges || tokenizer->rules.keeps_blanks)
        memset(tokenizer->symbols.joins_blank, true, sizeof tokenizer->symbols.joins_blank);
}

// True if merging the token's form gives this token alone. Also returns false if memory ran out (*failed).
static bool merges_to_itself(struct builder *builder, int32_t id, bool *failed)
{
    struct tokenizer *tokenizer = builder->tokenizer;
    struct text form = tokenizer->symbols.forms[id];
    int32_t symbols[VOCABULARY_TOKEN_BYTES_MAX];
    if (form.size == 0 || form.size > VOCABULARY_TOKEN_BYTES_MAX)
        return false;
    size_t n_symbols = tokenizer_first_symbols(tokenizer, form, symbols);
    size_t n_merged = merge_symbols(&tokenizer->merges, &builder->scratch, symbols, n_symbols);
    *failed |= n_merged == SIZE_MAX;
    return n_merged == 1 && symbols[0] == id;
}

static bool find_whole_words(struct builder *builder)
{
    struct tokenizer *tokenizer = builder->tokenizer;
    bool failed = false;
    tokenizer->symbols.is_whole =
        arena_allocate_array(&tokenizer->arena, builder->n_symbols, sizeof *tokenizer->symbols.is_whole);
    if (!tokenizer->symbols.is_whole)
        return false;
    for (int32_t id = 0; id < tokenizer->n_tokens && !failed; id++) {
        struct text form = tokenizer->symbols.forms[id];
        tokenizer->symbols.is_whole[id] = form.size > 0 && (builder->vocabulary->rules.ignores_merges ||
                                                            merges_to_itself(builder, id, &failed));
        if (tokenizer->symbols.is_whole[id] && form.size > tokenizer->symbols.whole_bytes_max)
            tokenizer->symbols.whole_bytes_max = form.size;
    }
    return !failed;
}

// --- Pieces, special tokens ---

// Replaces U+2581 with a blank.
static struct text unescape_text(struct arena *arena, struct text text)
{
    char *piece = arena_allocate(arena, text.size + 1);
    size_t size = 0;
    for (size_t at = 0; piece && at < text.size;) {
        bool blank = text.size - at >= 3 && !memcmp(text.data + at, TOKENIZER_BLANK, 3);
        piece[size++] = blank ? ' ' : text.data[at];
        at += blank ? 3 : 1;
    }
    return (struct text){piece, piece ? size : 0};
}

// Strips the step's text from the start and the end.
static struct text strip_text(const struct decoder_step *step, struct text text)
{
    struct text from = step->from;
    for (int64_t i = 0;
         i < step->n_first && text.size >= from.size && !memcmp(text.data, from.data, from.size); i++)
        text = (struct text){text.data + from.size, text.size - from.size};
    for (int64_t i = 0; i < step->n_last && text.size >= from.size &&
                        !memcmp(text.data + text.size - from.size, from.data, from.size);
         i++)
        text.size -= from.size;
    return text;
}

static struct text replace_text(struct arena *arena, const struct decoder_step *step, struct text text)
{
    size_t n_found = 0, size = 0;
    for (size_t at = 0; at + step->from.size <= text.size; at++)
        n_found += memcmp(text.data + at, step->from.data, step->from.size) == 0;
    char *made = n_found ? arena_allocate(arena, text.size + n_found * step->to.size + 1) : NULL;
    if (!n_found)
        return text;
    for (size_t at = 0; made && at < text.size;) {
        bool found =
            text.size - at >= step->from.size && !memcmp(text.data + at, step->from.data, step->from.size);
        struct text put = found ? step->to : (struct text){text.data + at, 1};
        if (put.size)
            memcpy(made + size, put.data, put.size);
        size += put.size;
        at += found ? step->from.size : 1;
    }
    return (struct text){made, made ? size : 0};
}

// Decodes token by token, like the library's decoder of WordPiece.
static struct text word_piece_text(struct arena *arena, const struct decoder_step *step, struct text text)
{
    static const struct decoder_step cleaning[] = {
        {.from = {" .", 2}, .to = {".", 1}},     {.from = {" ?", 2}, .to = {"?", 1}},
        {.from = {" !", 2}, .to = {"!", 1}},     {.from = {" ,", 2}, .to = {",", 1}},
        {.from = {" ' ", 3}, .to = {"'", 1}},    {.from = {" n't", 4}, .to = {"n't", 3}},
        {.from = {" 'm", 3}, .to = {"'m", 2}},   {.from = {" 's", 3}, .to = {"'s", 2}},
        {.from = {" 've", 4}, .to = {"'ve", 3}}, {.from = {" 're", 4}, .to = {"'re", 3}},
    };
    struct text prefix = step->from;
    if (prefix.size && text.size >= prefix.size && !memcmp(text.data, prefix.data, prefix.size)) {
        text = (struct text){text.data + prefix.size, text.size - prefix.size};
    } else {
        char *made = arena_allocate(arena, text.size + 1);
        if (!made)
            return (struct text){0};
        made[0] = ' ';
        memcpy(made + 1, text.data, text.size);
        text = (struct text){made, text.size + 1};
    }
    for (size_t i = 0; step->cleans && text.data && i < sizeof cleaning / sizeof *cleaning; i++)
        text = replace_text(arena, &cleaning[i], text);
    return text;
}

static struct text decode_text(struct arena *arena, const struct token_decoder *decoder, struct text text)
{
    for (size_t i = 0; i < decoder->n_steps && text.data; i++)
        text = decoder->steps[i].kind == DECODE_STRIP ? strip_text(&decoder->steps[i], text)
               : decoder->steps[i].kind == DECODE_WORD_PIECE
                   ? word_piece_text(arena, &decoder->steps[i], text)
                   : replace_text(arena, &decoder->steps[i], text);
    return text;
}

static int hexadecimal_digit(char digit)
{
    return digit >= '0' && digit <= '9' ? digit - '0' : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

// Returns the byte that "<0x0A>" names, or `text` itself if it names none.
static struct text named_byte(struct arena *arena, struct text text)
{
    if (text.size != 6 || memcmp(text.data, "<0x", 3) || text.data[5] != '>' ||
        hexadecimal_digit(text.data[3]) < 0 || hexadecimal_digit(text.data[4]) < 0)
        return text;
    char byte = (char)(hexadecimal_digit(text.data[3]) * 16 + hexadecimal_digit(text.data[4]));
    return copy_text(arena, (struct text){&byte, 1});
}

static struct text piece_of(struct builder *builder, int32_t id)
{
    struct tokenizer *tokenizer = builder->tokenizer;
    const struct token_decoder *decoder = &builder->vocabulary->decoder;
    unsigned flags = tokenizer->flags[id];
    struct text text = tokenizer->texts[id];
    bool has_steps = decoder->is_given && !tokenizer->rules.byte_level;
    const struct text *normalized = builder->vocabulary->normalized;
    if (flags & TOKEN_USER_DEFINED && decoder->is_given && normalized && normalized[id].size &&
        !(text = copy_text(&tokenizer->arena, normalized[id])).data)
        return text;
    if (flags & (TOKEN_CONTROL | TOKEN_UNKNOWN) || (flags & TOKEN_USER_DEFINED && !has_steps))
        return text;
    if (flags & TOKEN_BYTE && !decoder->shows_byte_tokens)
        return named_byte(&tokenizer->arena, text);
    if (!(flags & (TOKEN_NORMAL | TOKEN_BYTE | TOKEN_USER_DEFINED)))
        return (struct text){"", 0};
    if (tokenizer->rules.byte_level)
        return tokenizer->symbols.forms[id].data ? tokenizer->symbols.forms[id] : text;
    return has_steps ? decode_text(&tokenizer->arena, decoder, text) : unescape_text(&tokenizer->arena, text);
}

static bool make_pieces(struct builder *builder)
{
    struct tokenizer *tokenizer = builder->tokenizer;
    tokenizer->pieces =
        arena_allocate_array(&tokenizer->arena, (size_t)tokenizer->n_tokens, sizeof *tokenizer->pieces);
    if (!tokenizer->pieces)
        return false;
    for (int32_t id = 0; id < tokenizer->n_tokens; id++) {
        tokenizer->pieces[id] = piece_of(builder, id);
        if (!tokenizer->pieces[id].data)
            return false;
    }
    return true;
}

static bool add_specials(struct builder *builder)
{
    struct tokenizer *tokenizer = builder->tokenizer;
    const struct text *normalized = builder->vocabulary->normalized;
    for (int32_t id = 0; id < tokenizer->n_tokens; id++) {
        unsigned flags = tokenizer->flags[id];
        bool is_kept = flags & TOKEN_OF_MODEL && builder->vocabulary->pieces.is_sentencepiece;
        if (!(flags & (TOKEN_CONTROL | TOKEN_UNKNOWN | TOKEN_USER_DEFINED)) ||
            (is_kept && flags & TOKEN_USER_DEFINED)) // pieces.c chooses those
            continue;
        bool is_normalized = normalized && normalized[id].size;
        struct text text = is_normalized ? normalized[id] : tokenizer->texts[id];
        if (!special_add(is_normalized ? &tokenizer->normalized : &tokenizer->specials, text, id,
                         flags & (TOKEN_CONTROL | TOKEN_UNKNOWN)))
            return false;
        if (text.size > tokenizer->special_bytes_max)
            tokenizer->special_bytes_max = text.size;
    }
    return true;
}

// Takes ownership of the steps, and copies their texts.
static bool take_normalizer(struct tokenizer *tokenizer, struct normalizer *normalizer)
{
    tokenizer->normalizer = *normalizer;
    *normalizer = (struct normalizer){0};
    for (size_t i = 0; i < tokenizer->normalizer.n_steps; i++) {
        struct normalizer_step *step = &tokenizer->normalizer.steps[i];
        const char *before = step->from.data;
        step->from = copy_text(&tokenizer->arena, step->from);
        step->to = copy_text(&tokenizer->arena, step->to);
        if (!step->from.data || !step->to.data)
            return false;
        if (step->charsmap.units.size) { // views of `from`
            step->charsmap.units.data = step->from.data + (step->charsmap.units.data - before);
            step->charsmap.replacements.data = step->from.data + (step->charsmap.replacements.data - before);
        }
    }
    return true;
}

static bool build_pieces(struct builder *builder)
{
    struct tokenizer *tokenizer = builder->tokenizer;
    if (!make_forms(builder))
        return false;
    find_first_symbols(tokenizer);
    if (!pieces_build(&tokenizer->piece_model, builder->vocabulary, tokenizer->symbols.byte_symbols,
                      tokenizer->flags))
        return false;
    return make_pieces(builder) && add_specials(builder);
}

static bool build_tokenizer(struct builder *builder)
{
    struct tokenizer *tokenizer = builder->tokenizer;
    if (!add_tokens(builder))
        return false;
    if (tokenizer->model != VOCABULARY_BPE)
        return build_pieces(builder);
    if (!(builder->vocabulary->merges ? add_listed_merges(builder) : add_scored_merges(builder)))
        return false;
    if (!make_forms(builder))
        return false;
    find_joins(tokenizer, tokenizer->symbols.forms);
    find_first_symbols(tokenizer);
    return find_whole_words(builder) && make_pieces(builder) && add_specials(builder);
}

// --- Templates ---

static void add_item(struct token_template *template, int32_t text, int32_t token, int32_t type)
{
    assert(template->n_items < TEMPLATE_ITEMS_MAX);
    template->items[template->n_items++] = (struct template_item){text, token, type};
}

// Completes the templates as transformers' classes with add_bos_token and add_eos_token do
// (LlamaTokenizerFast.update_post_processor).
static void complete_templates(struct tokenizer *tokenizer)
{
    for (int32_t n_texts = 1; n_texts <= 2; n_texts++) {
        struct token_template *template = &tokenizer->templates[n_texts - 1];
        if (template->n_items)
            continue;
        for (int32_t text = 0; text < n_texts; text++) {
            if (tokenizer->rules.adds_bos)
                add_item(template, -1, tokenizer->ids.bos, text);
            add_item(template, text, -1, text);
            if (tokenizer->rules.adds_eos)
                add_item(template, -1, tokenizer->ids.eos, text);
        }
    }
    for (int i = 0; i < 2 && tokenizer->rules.one_type; i++)
        for (size_t at = 0; at < tokenizer->templates[i].n_items; at++)
            tokenizer->templates[i].items[at].type = 0;
}

// --- Open, close ---

void tokenizer_close(struct tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    token_map_finish(&tokenizer->symbols.words);
    merge_table_finish(&tokenizer->merges);
    special_finish(&tokenizer->specials);
    special_finish(&tokenizer->normalized);
    splitter_close(tokenizer->splitter);
    splitter_close(tokenizer->splitter_after);
    normalizer_finish(&tokenizer->normalizer);
    pieces_finish(&tokenizer->piece_model);
    word_cache_destroy(tokenizer->cache);
    arena_finish(&tokenizer->arena);
    free(tokenizer);
}

enum status tokenizer_create(struct tokenizer **tokenizer, struct vocabulary *vocabulary, struct error *error)
{
    *tokenizer = NULL;
    struct tokenizer *created = calloc(1, sizeof *created);
    bool built = false;
    if (created) {
        created->rules = vocabulary->rules;
        created->model = vocabulary->model;
        created->ids = vocabulary->ids;
        memcpy(created->templates, vocabulary->templates, sizeof created->templates);
        complete_templates(created);
        created->strips_first = vocabulary->decoder.is_given
                                    ? vocabulary->decoder.strips_first
                                    : vocabulary->rules.adds_space && !vocabulary->rules.byte_level;
        *error = (struct error){0};
        struct builder builder = {.tokenizer = created, .vocabulary = vocabulary, .error = error};
        created->cache = word_cache_create();
        built =
            created->cache && take_normalizer(created, &vocabulary->normalizer) && build_tokenizer(&builder);
        free(builder.symbol_texts);
        token_map_finish(&builder.by_text);
        merge_scratch_finish(&builder.scratch);
    }
    if (!built) {
        tokenizer_close(created);
        return created && error->status != STATUS_OK ? error->status
                                                     : error_memory(error, STATUS_REFUSE, "the tokenizer");
    }
    created->splitter = vocabulary->splitter;
    created->splitter_after = vocabulary->splitter_after;
    vocabulary->splitter = vocabulary->splitter_after = NULL;
    tokenizer_find_bound(created);
    *tokenizer = created;
    return STATUS_OK;
}

static enum status read_suppressed(struct tokenizer *tokenizer, const struct gguf *gguf, struct error *error)
{
    static const char key[] = "tokenizer.ggml.suppress_tokens";
    struct gguf_array array = {0};
    bool found = false;
    enum status status = gguf_array(gguf, key, &array, &found, error);
    if (status != STATUS_OK || !found || array.n_items == 0)
        return status;
    if (array.kind != GGUF_I32 && array.kind != GGUF_U32)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "%s: expected 32-bit integers", key);
    int32_t *ids = arena_allocate_array(&tokenizer->arena, array.n_items, sizeof *ids);
    if (!ids)
        return error_memory(error, STATUS_REFUSE, "the tokenizer");
    for (size_t i = 0; i < array.n_items; i++)
        ids[i] = (int32_t)gguf_array_integer(&array, i);
    tokenizer->suppressed = ids;
    tokenizer->n_suppressed = array.n_items;
    return STATUS_OK;
}

enum status tokenizer_open(struct tokenizer **tokenizer, const struct gguf *gguf, const char *pre,
                           struct error *error)
{
    struct vocabulary vocabulary = {0};
    *tokenizer = NULL;
    // A file that sheaf made from a folder has both descriptions; tokenizer.json is more complete.
    bool json =
        gguf_has(gguf, "tokenizer.huggingface.json") || gguf_has(gguf, "tokenizer.huggingface.tekken");
    if (!json && !gguf_has(gguf, "tokenizer.ggml.model"))
        return error_set(
            error, STATUS_REFUSE, ERROR_MODEL_FILE,
            "%s: there is no tokenizer: a folder needs tokenizer.json (or tokenizer.model, vocab.json with "
            "merges.txt, tekken.json), a GGUF file the key tokenizer.ggml.model",
            gguf_path(gguf));
    enum status status = json ? vocabulary_read_json(&vocabulary, gguf, pre, error)
                              : vocabulary_read_gguf(&vocabulary, gguf, pre, error);
    if (status == STATUS_OK)
        status = tokenizer_create(tokenizer, &vocabulary, error);
    vocabulary_finish(&vocabulary);
    if (status == STATUS_OK)
        status = read_suppressed(*tokenizer, gguf, error);
    if (status != STATUS_OK) {
        tokenizer_close(*tokenizer);
        *tokenizer = NULL;
    }
    return status == STATUS_OK ? status : error_prefix(error, "%s", gguf_path(gguf));
}
