// Structured output: what a text may be, and which tokens may come next. In this order:
//
//   a grammar          compiled from a regex, choices, GBNF, Lark or rules of one's own; immutable, any
//   number of threads a vocabulary       the model's tokens as a trie; immutable, once a model a recognizer
//   the automaton of one grammar over one vocabulary, built as far as it was needed; one thread at a time
//   matchers           one a text; each belongs to a recognizer and is used on its thread
//
// Results are functions of grammar, vocabulary and text, never of what a recognizer has built: it may be
// dropped at any time.
#pragma once

#include "engine/grammar/rules.h"

struct grammar;
struct grammar_vocabulary;
struct recognizer;

// Takes the rules over, also when it fails. STATUS_REJECT: a limit, or a start symbol that derives nothing.
enum status grammar_create(struct grammar **grammar, struct rules *rules, uint32_t start,
                           struct error *error) WARN_UNUSED;
void grammar_destroy(struct grammar *grammar);
// Gives the rules back, to be part of a larger grammar; the grammar is gone.
struct rules *grammar_release(struct grammar *grammar, uint32_t *start);
size_t grammar_bytes(const struct grammar *grammar); // of memory

// `limits` NULL: grammar_limits_default. Errors: STATUS_REJECT, with where and what.
enum status grammar_compile_regex(struct grammar **grammar, struct text regex,
                                  const struct grammar_limits *limits,
                                  struct error *error) WARN_UNUSED; // PATTERN_WHOLE
enum status grammar_compile_choice(struct grammar **grammar, const struct text *choices, size_t n_choices,
                                   const struct grammar_limits *limits, struct error *error) WARN_UNUSED;
// llama.cpp's notation: gbnf.c. The text is what `root` derives.
enum status grammar_compile_gbnf(struct grammar **grammar, struct text text,
                                 const struct grammar_limits *limits, struct error *error) WARN_UNUSED;
// Lark's notation, as far as it is context-free: lark.c. The text is what `start` derives. Other
// notation is refused by name.
enum status grammar_compile_lark(struct grammar **grammar, struct text text,
                                 const struct grammar_limits *limits, struct error *error) WARN_UNUSED;

enum { GRAMMAR_TOKEN_BYTES_MAX = 4096 };

// `tokens` are the bytes that each id adds to a text; for special tokens, which never spell text, what
// grammar_special_token() appends, or nothing: then it is never allowed. End tokens are allowed where a text
// may end, whatever their bytes. STATUS_RETRY: no memory. Never allowed are tokens longer than the limit, and
// such with a byte SPECIAL_QUOTE that are not special.
enum status grammar_vocabulary_create(struct grammar_vocabulary **vocabulary, const struct text *tokens,
                                      size_t n_tokens, const uint32_t *ends, size_t n_ends,
                                      struct error *error) WARN_UNUSED;
// How a special token is written in a vocabulary, in a matcher's text and in forced bytes.
void grammar_special_token(struct text name, struct buffer *out);
void grammar_vocabulary_destroy(struct grammar_vocabulary *vocabulary);
static inline size_t grammar_mask_words(size_t n_tokens)
{
    return (n_tokens + 31) / 32;
}

// Both outlive it; `vocabulary` may be NULL where no masks are asked for.
enum status recognizer_create(struct recognizer **recognizer, const struct grammar *grammar,
                              const struct grammar_vocabulary *vocabulary, struct error *error) WARN_UNUSED;
void recognizer_destroy(struct recognizer *recognizer);
size_t recognizer_bytes(const struct recognizer *recognizer); // of memory; it grows with what is matched

// A text so far. Zeroed is valid only for matcher_finish.
struct matcher {
    struct recognizer *recognizer;
    struct buffer bytes;   // all of the text: a recognizer that starts over reads it again
    uint32_t state;        // of the recognizer
    uint64_t generation;   // of the recognizer that `state` belongs to
    uint64_t work;         // of the masks counted against GRAMMAR_LIMIT_ANSWER_WORK
    struct buffer counted; // of struct counted_mask: these masks, in the text's order
};

enum status matcher_init(struct matcher *matcher, struct recognizer *recognizer,
                         struct error *error) WARN_UNUSED;
void matcher_finish(struct matcher *matcher);

// A place in a matcher's text, to come back to: of draft tokens that are not the text's.
struct matcher_mark {
    size_t n_bytes, n_counted; // of the two buffers
    uint32_t state;
    uint64_t generation, work;
};

struct matcher_mark matcher_set_mark(const struct matcher *matcher);
// The matcher is as it was at the mark. It must not have been rewound to an earlier one since.
void matcher_rewind(struct matcher *matcher, const struct matcher_mark *mark);

// Errors of all below: STATUS_REJECT, a limit that this text's state reaches; STATUS_RETRY, no memory.
// *n_accepted: how many of the bytes may follow; the matcher has moved behind them all, or, when that is not
// all, not at all.
enum status matcher_accept_bytes(struct matcher *matcher, struct text bytes, size_t *n_accepted,
                                 struct error *error) WARN_UNUSED;
// *accepted false: the mask forbids the token. An end token is accepted where the text may end and changes
// nothing.
enum status matcher_accept_token(struct matcher *matcher, uint32_t token, bool *accepted,
                                 struct error *error) WARN_UNUSED;
// One bit a token, grammar_mask_words() words, bit i % 32 of word i / 32; bits behind the last token are 0.
enum status matcher_mask(struct matcher *matcher, uint32_t *bits, struct error *error) WARN_UNUSED;
// Makes the mask, which the recognizer then keeps for matcher_mask, for a while.
enum status matcher_prepare_mask(struct matcher *matcher, struct error *error) WARN_UNUSED;
// The same as matcher_mask, without the tokens behind which the text can't be ended with n_left - 1 more. n_left: at least
// what matcher_tokens_to_end returns; it is then so behind each token of the mask too, with one less.
enum status matcher_mask_within(struct matcher *matcher, uint32_t n_left, uint32_t *bits,
                                struct error *error) WARN_UNUSED;
// *n_tokens that end the text, without an end token; UINT32_MAX: no tokens are known that do.
enum status matcher_tokens_to_end(struct matcher *matcher, uint32_t *n_tokens,
                                  struct error *error) WARN_UNUSED;
// The same behind bytes that may follow; the matcher stays.
enum status matcher_tokens_behind(struct matcher *matcher, struct text bytes, uint32_t *n_tokens,
                                  struct error *error) WARN_UNUSED;
// A state that two texts of one recognizer have in common is followed by the same texts, in one generation of
// the recognizer.
enum status matcher_find_state(struct matcher *matcher, uint32_t *state, uint64_t *generation,
                               struct error *error) WARN_UNUSED;
// Appends the only bytes that can follow, up to `n_max`, while the text may not end; the matcher stays. Of a
// JSON string, a character that alone can follow is forced as itself, though an escape could spell it.
enum status matcher_forced_bytes(struct matcher *matcher, size_t n_max, struct buffer *out,
                                 struct error *error) WARN_UNUSED;
// Of forced bytes, the first place from `from` on where a token may begin that is allowed and continues
// behind them; forced.size: there is none. Before the first such place, tokens end whatever follows.
enum status matcher_safe_size(struct matcher *matcher, struct text forced, size_t from, size_t *size,
                              struct error *error) WARN_UNUSED;
enum status matcher_may_end(struct matcher *matcher, bool *may_end, struct error *error) WARN_UNUSED;
// Whether the mask allows end tokens alone: the text may end, nothing can follow it, and there are end
// tokens.
enum status matcher_must_end(struct matcher *matcher, bool *must_end, struct error *error) WARN_UNUSED;
