// Structured output: which texts are allowed, and which tokens may come next. Create in this order:
//
//   grammar      compiled from a regex, choices, GBNF, Lark or rules; immutable, for any number of threads
//   vocabulary   the model's tokens as a trie; immutable, one per model
//   recognizer   automaton of one grammar over one vocabulary, extended on demand; one thread at a time
//   matcher      one per text; belongs to a recognizer and runs on its thread
//
// Results depend on the grammar, the vocabulary and the text only, never on what a recognizer has cached, so
// a recognizer may be dropped at any time.
//
// Example of a mask: grammar [0-9]+(,[0-9]+)*, text so far "12", end token 4.
//
//   token   bytes   text then   bit
//       0   3       123         1
//       1   ,4      12,4        1
//       2   ,,      12,,        0    no text begins so
//       3   a       12a         0
//       4   end     12          1    the text may end here         bits[0] == 0x13
#pragma once

#include "engine/grammar/rules.h"

struct grammar;
struct grammar_vocabulary;
struct recognizer;

// Compiles rules. Takes ownership of `rules`, even on failure. STATUS_REJECT: a limit is exceeded, or the
// start symbol derives nothing.
enum status grammar_create(struct grammar **grammar, struct rules *rules, uint32_t start,
                           struct error *error) WARN_UNUSED;
void grammar_destroy(struct grammar *grammar);
// Returns the rules for use in a larger grammar and destroys the grammar.
struct rules *grammar_release(struct grammar *grammar, uint32_t *start);
size_t grammar_bytes(const struct grammar *grammar); // memory

// Compiles a regex of the whole text. `limits` NULL means grammar_limits_default. STATUS_REJECT: the text
// names the place and the fault.
enum status grammar_compile_regex(struct grammar **grammar, struct text regex,
                                  const struct grammar_limits *limits,
                                  struct error *error) WARN_UNUSED; // PATTERN_WHOLE
enum status grammar_compile_choice(struct grammar **grammar, const struct text *choices, size_t n_choices,
                                   const struct grammar_limits *limits, struct error *error) WARN_UNUSED;
// Compiles llama.cpp's notation (gbnf.c). The start symbol is `root`.
enum status grammar_compile_gbnf(struct grammar **grammar, struct text text,
                                 const struct grammar_limits *limits, struct error *error) WARN_UNUSED;
// Compiles the context-free part of Lark's notation (lark.c). The start symbol is `start`. Other constructs
// are rejected, and the error names them.
enum status grammar_compile_lark(struct grammar **grammar, struct text text,
                                 const struct grammar_limits *limits, struct error *error) WARN_UNUSED;

enum { GRAMMAR_TOKEN_BYTES_MAX = 4096 };

// Builds a vocabulary. tokens[id] are the bytes that a token adds to a text. A special token never spells
// text: pass what grammar_special_token() appends. End tokens are allowed where the text may end, whatever
// their bytes are. Never allowed are tokens with an empty text, tokens longer than GRAMMAR_TOKEN_BYTES_MAX,
// and tokens that contain SPECIAL_QUOTE without being special. STATUS_RETRY: out of memory.
enum status grammar_vocabulary_create(struct grammar_vocabulary **vocabulary, const struct text *tokens,
                                      size_t n_tokens, const uint32_t *ends, size_t n_ends,
                                      struct error *error) WARN_UNUSED;
// Appends the spelling of a special token. It is used in a vocabulary, in a matcher's text and in forced
// bytes.
void grammar_special_token(struct text name, struct buffer *out);
void grammar_vocabulary_destroy(struct grammar_vocabulary *vocabulary);
static inline size_t grammar_mask_words(size_t n_tokens)
{
    return (n_tokens + 31) / 32;
}

// Creates a recognizer. The grammar and the vocabulary must outlive it. `vocabulary` may be NULL if no mask
// is ever requested.
enum status recognizer_create(struct recognizer **recognizer, const struct grammar *grammar,
                              const struct grammar_vocabulary *vocabulary, struct error *error) WARN_UNUSED;
void recognizer_destroy(struct recognizer *recognizer);
size_t recognizer_bytes(const struct recognizer *recognizer); // memory; grows with the texts matched

// A text and its state. A zeroed matcher may only be passed to matcher_finish().
struct matcher {
    struct recognizer *recognizer;
    struct buffer bytes;   // the whole text; it is read again after the recognizer restarts
    uint32_t state;        // state in the recognizer; valid if `generation` is the recognizer's
    uint64_t generation;   // recognizer generation in which `state` was found
    uint64_t work;         // work of the masks that count against GRAMMAR_LIMIT_ANSWER_WORK
    struct buffer counted; // these masks in text order, an array of struct counted_mask
};

enum status matcher_init(struct matcher *matcher, struct recognizer *recognizer,
                         struct error *error) WARN_UNUSED;
void matcher_finish(struct matcher *matcher);

// A saved position of a matcher. Rewinding to it removes draft tokens that were not accepted.
struct matcher_mark {
    size_t n_bytes, n_counted; // sizes of matcher.bytes and matcher.counted
    uint32_t state;
    uint64_t generation, work;
};

struct matcher_mark matcher_set_mark(const struct matcher *matcher);
// Restores the state of the matcher at the mark. The matcher must not have been rewound to an earlier mark
// since.
void matcher_rewind(struct matcher *matcher, const struct matcher_mark *mark);

// Errors of all functions below: STATUS_REJECT if a limit is reached in the state of this text; STATUS_RETRY
// if memory runs out.
//
// Accepts bytes. *n_accepted becomes the number of leading bytes that may follow. The matcher advances only
// if all of them may.
enum status matcher_accept_bytes(struct matcher *matcher, struct text bytes, size_t *n_accepted,
                                 struct error *error) WARN_UNUSED;
// Accepts a token. *accepted becomes false if the token is not in the mask. An end token is accepted if the
// text may end; the matcher does not advance.
enum status matcher_accept_token(struct matcher *matcher, uint32_t token, bool *accepted,
                                 struct error *error) WARN_UNUSED;
// Writes the mask: grammar_mask_words() words; token i is bit i % 32 of word i / 32. Bits after the last
// token are 0.
enum status matcher_mask(struct matcher *matcher, uint32_t *bits, struct error *error) WARN_UNUSED;
// Computes the mask before matcher_mask() requests it. The recognizer caches the latest masks.
enum status matcher_prepare_mask(struct matcher *matcher, struct error *error) WARN_UNUSED;
// Like matcher_mask(), without the tokens after which n_left - 1 more tokens cannot end the text. n_left is
// at least the result of matcher_tokens_to_end(). After every token of this mask the same holds for n_left -
// 1, so the text always ends in time.
enum status matcher_mask_within(struct matcher *matcher, uint32_t n_left, uint32_t *bits,
                                struct error *error) WARN_UNUSED;
// *n_tokens becomes a number of tokens that end the text, without an end token; UINT32_MAX: none is known.
enum status matcher_tokens_to_end(struct matcher *matcher, uint32_t *n_tokens,
                                  struct error *error) WARN_UNUSED;
// Like matcher_tokens_to_end(), but after `bytes`, which the grammar must allow next. The matcher does not
// advance.
enum status matcher_tokens_after(struct matcher *matcher, struct text bytes, uint32_t *n_tokens,
                                 struct error *error) WARN_UNUSED;
// Finds the state. Two texts of one recognizer with equal *state and *generation allow the same
// continuations.
enum status matcher_find_state(struct matcher *matcher, uint32_t *state, uint64_t *generation,
                               struct error *error) WARN_UNUSED;
// Appends the bytes that must follow, at most `n_max`. Stops if the text may end or has a choice. The matcher
// does not advance. In a JSON string, a character that must follow is appended unescaped, although an escape
// could spell it too.
enum status matcher_forced_bytes(struct matcher *matcher, size_t n_max, struct buffer *out,
                                 struct error *error) WARN_UNUSED;
// *size becomes the first offset >= `from` in `forced` at which a token can begin that spells the rest of
// `forced` and continues after it; forced.size if there is none. Tokens before this offset do not depend on
// the text after `forced`.
enum status matcher_safe_size(struct matcher *matcher, struct text forced, size_t from, size_t *size,
                              struct error *error) WARN_UNUSED;
enum status matcher_may_end(struct matcher *matcher, bool *may_end, struct error *error) WARN_UNUSED;
// *must_end becomes true if the mask allows only end tokens: the text may end, no byte can follow, and the
// vocabulary has an end token.
enum status matcher_must_end(struct matcher *matcher, bool *must_end, struct error *error) WARN_UNUSED;
