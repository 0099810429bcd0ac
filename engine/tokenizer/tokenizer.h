// Encodes text to token ids and decodes ids, exactly as the model's authors do: SPM (score-driven merges,
// byte fallback) and byte-level BPE with each family's own split pattern. Built from the keys of a GGUF file
// (a vocabulary-only file suffices), which may be closed afterwards. Immutable after open: any thread may
// encode and decode.
#pragma once

#include "schemas/base/span.h"
#include "schemas/base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gguf;
struct tokenizer;

enum tokenizer_flags {
    TOKENIZER_ADD_SPECIAL = 1,   // add bos/eos, [CLS]/[SEP] as the model specifies
    TOKENIZER_PARSE_SPECIAL = 2, // encode text such as <|im_start|> as its control token
    TOKENIZER_CONTINUES = 4,     // the text continues another: no blank is inserted before it
};

// A growing array of token ids; zeroed is empty. `failed` is set when memory runs out, and stays set.
struct token_array {
    int32_t *ids;
    size_t n_ids;
    size_t capacity;
    bool failed;
};

void token_array_add(struct token_array *array, int32_t id);
// Makes room for `extra` more ids. False: out of memory; `failed` is set.
bool token_array_grow(struct token_array *array, size_t extra);
void token_array_finish(struct token_array *array);

// Opens a tokenizer. `pre` (may be NULL) overrides tokenizer.ggml.pre. An unknown tokenizer model or split
// pattern is refused; the error names it.
enum status tokenizer_open(struct tokenizer **tokenizer, const struct gguf *gguf, const char *pre,
                           struct error *error) WARN_UNUSED;
void tokenizer_close(struct tokenizer *tokenizer);

enum { TOKENIZER_TEXT_BYTES_MAX = 64 << 20 };

// Appends the ids of `text`. Invalid UTF-8 is tokenized as bytes. The time is linear for text made of words,
// and O(n log n) in the worst case, one word as long as the text. Errors: STATUS_RETRY when memory runs out;
// STATUS_REJECT, ERROR_LIMIT_EXCEEDED for a text longer than TOKENIZER_TEXT_BYTES_MAX.
enum status tokenizer_encode(const struct tokenizer *tokenizer, struct text text, unsigned flags,
                             struct token_array *ids, struct error *error) WARN_UNUSED;

// The same with TOKENIZER_PARSE_SPECIAL, except in the spans `plain` (NULL: none). A control token that
// overlaps a span is encoded as ordinary text. The spans change nothing else: neither merges across the ends
// of a span nor user-defined tokens.
enum status tokenizer_encode_around(const struct tokenizer *tokenizer, struct text text,
                                    const struct text_spans *plain, unsigned flags, struct token_array *ids,
                                    struct error *error) WARN_UNUSED;

// Input of an encoder model: one text, or a pair such as a question and a passage.
struct tokenizer_input {
    struct text texts[2];
    size_t n_texts; // 1 or 2
    // 0: no limit. A longer input loses tokens at the end of its texts, first of the longer one (longest_first of
    // transformers); added tokens stay
    size_t n_tokens_max;
    bool cuts_left; // at the start of its texts instead (truncation_side of transformers)
};

// Appends the ids of the input, and to `types` (may be NULL) the type of each token. *n_cut (may be NULL)
// becomes the number of tokens lost to n_tokens_max. Flags and errors: as tokenizer_encode;
// STATUS_REJECT, ERROR_LIMIT_EXCEEDED also if n_tokens_max is below the number of added tokens.
enum status tokenizer_encode_input(const struct tokenizer *tokenizer, const struct tokenizer_input *input,
                                   unsigned flags, struct token_array *ids, struct token_array *types,
                                   size_t *n_cut, struct error *error) WARN_UNUSED;
// The number of tokens that TOKENIZER_ADD_SPECIAL adds to an input of n_texts (1 or 2).
size_t tokenizer_n_added(const struct tokenizer *tokenizer, size_t n_texts);
// The highest type that tokenizer_encode_input gives.
int32_t tokenizer_type_max(const struct tokenizer *tokenizer);

// Appends a description of what TOKENIZER_ADD_SPECIAL adds to an input of n_texts (1 or 2): "[CLS] A [SEP]
// B:1 [SEP]:1". A type other than 0 follows its text or token.
void tokenizer_describe_input(const struct tokenizer *tokenizer, size_t n_texts, struct buffer *out);
// Appends how BERT's normalizer treats letters, "uncased, accents stripped"; nothing without that normalizer.
void tokenizer_describe_case(const struct tokenizer *tokenizer, struct buffer *out);

// Returns a lower bound on the number of tokens of `text`, in one linear scan. 0: no bound is known, for
// example if a vocabulary drops text for which it has no token.
int64_t tokenizer_least_tokens(const struct tokenizer *tokenizer, struct text text);

// Appends the bytes that a token has in running text. Control tokens have bytes only with `special`. Ids
// outside the vocabulary have none: a model may pad its output matrix beyond the vocabulary, and such a row
// may be sampled; transformers and vLLM decode it to nothing too. A token may be a part of a UTF-8 character.
// The first token of an SPM text has the inserted leading space. If tokenizer_strips_first_space, the caller
// removes it from the start of a text that was generated without a prompt.
void tokenizer_decode(const struct tokenizer *tokenizer, int32_t id, bool special, struct buffer *out);

int32_t tokenizer_n_tokens(const struct tokenizer *tokenizer);
// Returns the entry of the vocabulary; empty for ids outside it.
struct text tokenizer_token_text(const struct tokenizer *tokenizer, int32_t id);
// True if encoding inserts a blank before text that follows nothing or a special token: see tokenizer_decode.
bool tokenizer_strips_first_space(const struct tokenizer *tokenizer);
bool tokenizer_is_control(const struct tokenizer *tokenizer, int32_t id);
// True if the token ends a generation: eos, eot, eom and the tokens known to end a turn (<|im_end|>,
// <|eot_id|>, <end_of_turn>, ...).
bool tokenizer_ends_generation(const struct tokenizer *tokenizer, int32_t id);
// Ids [*n] that the model must not sample ("suppress_tokens" of generation_config.json, of GGUF files
// tokenizer.ggml.suppress_tokens). They may be outside the vocabulary.
const int32_t *tokenizer_suppressed(const struct tokenizer *tokenizer, size_t *n);
int32_t tokenizer_bos(const struct tokenizer *tokenizer);       // -1: none
int32_t tokenizer_eos(const struct tokenizer *tokenizer);       // -1: none
int32_t tokenizer_unk_token(const struct tokenizer *tokenizer); // for chat templates. -1: none
int32_t tokenizer_padding(const struct tokenizer *tokenizer);   // -1: none
bool tokenizer_adds_bos(const struct tokenizer *tokenizer);
bool tokenizer_adds_eos(const struct tokenizer *tokenizer);
const char *tokenizer_model_name(const struct tokenizer *tokenizer); // "spm", "bpe", "wordpiece", "unigram"
const char *tokenizer_pre_name(const struct tokenizer *tokenizer);   // "llama-bpe"; "" for all but "bpe"
