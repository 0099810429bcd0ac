#include "engine/tokenizer/pieces.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// --- Build ---

// True if the token is a piece of the model. Added tokens are no pieces, and control tokens neither, although tokenizer.json
// lists them in the model: they are read from a text only with TOKENIZER_PARSE_SPECIAL, before the model.
static bool is_piece(const struct vocabulary *vocabulary, size_t id)
{
    unsigned flags = vocabulary->flags[id];
    if (vocabulary->pieces.is_sentencepiece)
        return flags & (TOKEN_NORMAL | TOKEN_USER_DEFINED | TOKEN_UNUSED) && flags & TOKEN_OF_MODEL;
    return flags & TOKEN_OF_MODEL && !(flags & TOKEN_CONTROL);
}

static bool build_word_pieces(struct piece_model *pieces, const struct vocabulary *vocabulary)
{
    struct text prefix = vocabulary->pieces.prefix;
    bool marks_starts = vocabulary->pieces.marks_starts;
    struct trie_piece *starts = calloc(vocabulary->n_tokens, sizeof *starts);
    struct trie_piece *continues = calloc(vocabulary->n_tokens, sizeof *continues);
    size_t n_starts = 0, n_continues = 0;
    for (size_t i = 0; starts && continues && i < vocabulary->n_tokens; i++) {
        struct text text = vocabulary->texts[i];
        if (!is_piece(vocabulary, i) || text.size == 0)
            continue;
        bool has_prefix = text.size >= prefix.size && !memcmp(text.data, prefix.data, prefix.size);
        struct text rest =
            has_prefix ? (struct text){text.data + prefix.size, text.size - prefix.size} : text;
        if (!marks_starts)
            starts[n_starts++] = (struct trie_piece){text, (int32_t)i};
        else if (has_prefix && rest.size)
            starts[n_starts++] = (struct trie_piece){rest, (int32_t)i};
        if (marks_starts ? !has_prefix : has_prefix && rest.size)
            continues[n_continues++] = (struct trie_piece){rest, (int32_t)i};
    }
    bool done = starts && continues && piece_trie_build(&pieces->starts, starts, n_starts) &&
                piece_trie_build(&pieces->continues, continues, n_continues);
    free(starts);
    free(continues);
    return done;
}

// Finds the lowest and highest score of normal pieces, as floats like in SentencePiece. The search for the
// highest begins at FLT_MIN, as there.
static void find_limits(struct piece_model *pieces, const struct vocabulary *vocabulary)
{
    double least = pieces->single ? FLT_MAX : INFINITY, most = FLT_MIN;
    for (size_t i = 0; i < vocabulary->n_tokens; i++) {
        double score = pieces->scores[i];
        if (!(vocabulary->flags[i] & TOKEN_OF_MODEL) ||
            (pieces->single && !(vocabulary->flags[i] & TOKEN_NORMAL)))
            continue;
        least = score < least ? score : least;
        most = score > most ? score : most;
    }
    pieces->unknown_score = pieces->single ? (float)least - 10.0f : least - 10.0;
    pieces->bonus = most;
}

static bool build_unigram(struct piece_model *pieces, const struct vocabulary *vocabulary)
{
    struct trie_piece *all = calloc(vocabulary->n_tokens, sizeof *all);
    size_t n = 0;
    pieces->scores = calloc(vocabulary->n_tokens, sizeof *pieces->scores);
    if (!all || !pieces->scores) {
        free(all);
        return false;
    }
    memcpy(pieces->scores, vocabulary->pieces.scores, vocabulary->n_tokens * sizeof *pieces->scores);
    for (size_t i = 0; i < vocabulary->n_tokens; i++)
        if (is_piece(vocabulary, i) && vocabulary->texts[i].size)
            all[n++] = (struct trie_piece){vocabulary->texts[i], (int32_t)i};
    find_limits(pieces, vocabulary);
    bool done = piece_trie_build(&pieces->starts, all, n);
    free(all);
    return done;
}

bool pieces_build(struct piece_model *pieces, const struct vocabulary *vocabulary, const int32_t *byte_ids,
                  const uint16_t *flags)
{
    *pieces = (struct piece_model){.model = vocabulary->model,
                                   .characters_max = vocabulary->pieces.characters_max,
                                   .single = vocabulary->pieces.is_sentencepiece,
                                   .byte_fallback = !vocabulary->rules.no_byte_tokens,
                                   .unknown = vocabulary->ids.unknown,
                                   .byte_ids = byte_ids,
                                   .flags = flags};
    return (vocabulary->model == VOCABULARY_UNIGRAM ? build_unigram : build_word_pieces)(pieces, vocabulary);
}

void pieces_finish(struct piece_model *pieces)
{
    piece_trie_finish(&pieces->starts);
    piece_trie_finish(&pieces->continues);
    free(pieces->scores);
    *pieces = (struct piece_model){0};
}

void piece_scratch_finish(struct piece_scratch *scratch)
{
    free(scratch->paths);
    *scratch = (struct piece_scratch){0};
}

// --- WordPiece ---

// Whether the word has more than `limit` characters.
static bool is_longer(struct text word, size_t limit)
{
    size_t n = 0;
    if (word.size <= limit)
        return false;
    for (size_t i = 0; i < word.size && n <= limit; i++)
        n += ((unsigned char)word.data[i] & 0xC0) != 0x80;
    return n > limit;
}

static void encode_word_pieces(const struct piece_model *pieces, struct text word, struct token_array *ids)
{
    size_t before = ids->n_ids, size = 0;
    bool is_known = !is_longer(word, pieces->characters_max);
    for (size_t at = 0; is_known && at < word.size; at += size) {
        int32_t id = piece_trie_longest(at ? &pieces->continues : &pieces->starts,
                                        (struct text){word.data + at, word.size - at}, &size);
        is_known = id >= 0;
        if (is_known)
            token_array_add(ids, id);
    }
    if (is_known)
        return;
    ids->n_ids = before;
    token_array_add(ids, pieces->unknown);
}

// --- Unigram ---

static bool reserve_paths(struct piece_scratch *scratch, size_t n)
{
    if (n > scratch->capacity) {
        size_t capacity = n < 256 ? 256 : n + n / 2;
        struct piece_path *paths = realloc(scratch->paths, capacity * sizeof *paths);
        if (!paths)
            return false;
        scratch->paths = paths;
        scratch->capacity = capacity;
    }
    for (size_t i = 0; i < n; i++)
        scratch->paths[i] = (struct piece_path){0, UINT32_MAX, -1};
    return true;
}

// Keeps the earlier path if sums are equal, as both libraries do: its last piece is longer.
static void offer_path(const struct piece_model *pieces, struct piece_path *path, double score, size_t start,
                       int32_t id)
{
    if (pieces->single)
        score = (float)score;
    if (path->start == UINT32_MAX || score > path->score)
        *path = (struct piece_path){score, (uint32_t)start, id};
}

static double score_of(const struct piece_model *pieces, int32_t id, size_t size)
{
    if (pieces->single && pieces->flags[id] & TOKEN_USER_DEFINED)
        return (float)size * (float)pieces->bonus - 0.1;
    return pieces->scores[id];
}

static size_t character_size(struct text text, size_t at)
{
    unsigned char byte = (unsigned char)text.data[at];
    size_t size = byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
    return size < text.size - at ? size : text.size - at;
}

// Extends the best path that ends at `at` by each possible piece. If no piece is the single character at
// `at`, also extends it by an unknown character.
static void extend_path(const struct piece_model *pieces, struct piece_path *paths, struct text word,
                        size_t at, size_t size)
{
    double score = paths[at].score;
    bool has_character = false;
    uint32_t node = 0;
    for (size_t i = at; i < word.size; i++) {
        node = piece_trie_child(&pieces->starts, node, (unsigned char)word.data[i]);
        if (!node)
            break;
        int32_t id = pieces->starts.nodes[node].id;
        if (id < 0 || (pieces->single && pieces->flags[id] & TOKEN_UNUSED))
            continue;
        offer_path(pieces, &paths[i + 1], score_of(pieces, id, i + 1 - at) + score, at, id);
        has_character |= i + 1 - at == size;
    }
    if (has_character)
        return;
    offer_path(pieces, &paths[at + size], pieces->unknown_score + score, at, pieces->unknown);
}

// Adds a run of unknown characters as byte tokens or as one unknown token. In tokenizers, a run that equals a
// piece becomes that piece.
static void add_unknown(const struct piece_model *pieces, struct text run, struct token_array *ids)
{
    int32_t id = pieces->single ? -1 : piece_trie_find(&pieces->starts, run);
    bool has_bytes = pieces->byte_fallback && id < 0;
    for (size_t i = 0; i < run.size && has_bytes; i++)
        has_bytes = pieces->byte_ids[(unsigned char)run.data[i]] >= 0;
    for (size_t i = 0; i < run.size && has_bytes; i++)
        token_array_add(ids, pieces->byte_ids[(unsigned char)run.data[i]]);
    if (!has_bytes)
        token_array_add(ids, id < 0 ? pieces->unknown : id);
}

// Follows the best path backwards and stores, at the start of each piece, its end in place of the sum.
static void link_forward(struct piece_path *paths, size_t end)
{
    for (size_t start; end > 0; end = start) {
        start = paths[end].start;
        paths[start].score = (double)end;
    }
}

static bool is_unknown(const struct piece_model *pieces, const struct piece_path *path)
{
    return path->id == pieces->unknown;
}

static bool encode_unigram(const struct piece_model *pieces, struct piece_scratch *scratch, struct text word,
                           struct token_array *ids)
{
    if (word.size >= UINT32_MAX || !reserve_paths(scratch, word.size + 1))
        return false;
    struct piece_path *paths = scratch->paths;
    for (size_t at = 0, size; at < word.size; at += size) {
        size = character_size(word, at);
        extend_path(pieces, paths, word, at, size);
    }
    link_forward(paths, word.size);
    for (size_t at = 0, end; at < word.size; at = end) {
        end = (size_t)paths[at].score;
        if (!is_unknown(pieces, &paths[end])) {
            token_array_add(ids, paths[end].id);
            continue;
        }
        while (end < word.size && is_unknown(pieces, &paths[(size_t)paths[end].score]))
            end = (size_t)paths[end].score;
        add_unknown(pieces, (struct text){word.data + at, end - at}, ids);
    }
    return true;
}

bool pieces_encode(const struct piece_model *pieces, struct piece_scratch *scratch, struct text word,
                   struct token_array *ids)
{
    if (pieces->model == VOCABULARY_UNIGRAM)
        return encode_unigram(pieces, scratch, word, ids);
    encode_word_pieces(pieces, word, ids);
    return true;
}
