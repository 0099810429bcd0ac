// Computes a lower bound on the number of tokens of a text without encoding it: the bytes of the text divided
// by the maximum bytes of one token. The bound holds because encoding drops no counted byte. A text consists
// of special tokens, of blanks that such tokens strip, and of plain text. Plain text is normalized, and grows
// if blanks are inserted or written as U+2581. Then it is split into words without gaps, and a word becomes
// symbols whose concatenation is the word. A byte-level vocabulary drops the bytes it lacks, so these are not
// counted.
#include "engine/tokenizer/tokenizer_parts.h"

enum { CHARACTER_BYTES_MAX = 4 };

static bool has_byte(const struct tokenizer *tokenizer, int byte)
{
    int32_t id = tokenizer->symbols.byte_symbols[byte];
    return id >= 0 && id < tokenizer->n_tokens;
}

// True if every character that the vocabulary lacks becomes a separate unknown token. The form of this token
// must be at least as long as a character; otherwise a token merged from it could cover more bytes than its
// own form has.
static bool has_unknown(const struct tokenizer *tokenizer)
{
    int32_t id = tokenizer->ids.unknown;
    return !tokenizer->rules.fuses_unknown && id >= 0 && id < tokenizer->n_tokens &&
           tokenizer->symbols.forms[id].size >= CHARACTER_BYTES_MAX;
}

// Sets bound->counts. False: there is no bound.
static bool find_counted(struct tokenizer *tokenizer)
{
    struct token_bound *bound = &tokenizer->bound;
    bool has_all = true;
    if (tokenizer->model != VOCABULARY_BPE || splitter_drops(tokenizer->splitter))
        return false;
    for (int byte = 0; byte < 256; byte++) {
        bound->counts[byte] = true;
        if (has_byte(tokenizer, byte))
            continue;
        has_all = false;
        bound->counts[byte] = !tokenizer->rules.byte_level;
    }
    // With a normalizer, a dropped byte may come from a byte that is counted.
    return has_all ||
           (tokenizer->rules.byte_level ? tokenizer->normalizer.n_steps == 0 : has_unknown(tokenizer));
}

void tokenizer_find_bound(struct tokenizer *tokenizer)
{
    const unsigned special = TOKEN_CONTROL | TOKEN_UNKNOWN | TOKEN_USER_DEFINED;
    size_t most = tokenizer->special_bytes_max > CHARACTER_BYTES_MAX ? tokenizer->special_bytes_max
                                                                     : CHARACTER_BYTES_MAX;
    for (int32_t id = 0; id < tokenizer->n_tokens; id++) {
        unsigned flags = tokenizer->flags[id];
        if (tokenizer->symbols.forms[id].size > most)
            most = tokenizer->symbols.forms[id].size;
        if (flags & special && flags & (TOKEN_STRIPS_LEFT | TOKEN_STRIPS_RIGHT))
            tokenizer->bound.takes_spaces = true;
    }
    tokenizer->bound.bytes_max = find_counted(tokenizer) ? most : 0;
}

// The number of bytes of white space at text[at].
static size_t space_at(struct text text, size_t at)
{
    size_t start = at;
    uint32_t codepoint;
    for (size_t size; at < text.size; at += size) {
        size = utf8_decode(text.data + at, text.size - at, &codepoint);
        if (size == 0 || !tokenizer_is_space(codepoint))
            break;
    }
    return at - start;
}

int64_t tokenizer_least_tokens(const struct tokenizer *tokenizer, struct text text)
{
    const struct token_bound *bound = &tokenizer->bound;
    size_t n_bytes = 0;
    unsigned char all = 0;
    for (size_t i = 0; i < text.size && bound->bytes_max; i++) {
        size_t n_space = bound->takes_spaces ? space_at(text, i) : 0;
        i += n_space;
        if (i == text.size)
            break;
        n_bytes += bound->counts[(unsigned char)text.data[i]];
        all |= (unsigned char)text.data[i];
    }
    // no overflow: at most 2^12 * 2^20
    size_t most = bound->bytes_max * normalizer_shrinks(&tokenizer->normalizer, all < 0x80);
    return most ? (int64_t)(n_bytes / most + (n_bytes % most > 0)) : 0;
}
