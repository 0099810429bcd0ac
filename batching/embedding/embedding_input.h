// From a text to the tokens that an embedder computes: the model's prompt, tokens, cut or refused by length. One
// rule for jobs and for sheaf embed, so that both have the same vectors. Special tokens are found in texts, as
// sentence-transformers does: prompts contain them, and nothing in a vector can be taken for an instruction.
// Thread: any; the rules do not change.
#pragma once

#include "engine/tokenizer/tokenizer.h"
#include "schemas/job.h"

struct embedding_rules {
    const struct tokenizer *tokenizer;
    int32_t n_vocab;
    int32_t n_longest;        // tokens of a text, special ones included
    const char *limited_by;   // what sets n_longest, for errors
    struct text prompt;       // put before each text that names no other
    bool is_prompt_given;     // by an option, maybe as empty; else by the model
    struct value prompts;     // the model's, by their names
    int32_t n_dimensions_max; // the model's width
};

// How a text that is too long is cut.
struct embedding_cut {
    int32_t n_tokens; // kept, special ones included; 0: the text is refused; -1: n_longest
    bool is_left;     // the start is cut, not the end
};

// The prompt that the request names. STATUS_REJECT: the model has no such prompt; the text lists the names.
// input_type chooses as sentence-transformers does (encode_query, encode_document): "query"; "document",
// "passage" or "corpus"; else the default.
enum status embedding_input_prompt(const struct embedding_rules *rules,
                                   const struct request_embedding *request, struct text *prompt,
                                   struct error *error) WARN_UNUSED;
// Appends the tokens of a text after its prompt. *n_cut: the number of tokens that the cut removed.
// STATUS_REJECT: no token, or too many, with both numbers; the tokens are undefined. STATUS_RETRY: out of memory.
enum status embedding_input_encode(const struct embedding_rules *rules, struct text prompt, struct text text,
                                   const struct embedding_cut *cut, struct token_array *ids, size_t *n_cut,
                                   struct error *error) WARN_UNUSED;
// The same for a text given as token ids, which are computed as given.
enum status embedding_input_copy(const struct embedding_rules *rules, const int32_t *tokens, int32_t n_tokens,
                                 const struct embedding_cut *cut, struct token_array *ids, size_t *n_cut,
                                 struct error *error) WARN_UNUSED;
