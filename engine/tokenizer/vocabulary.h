// The input of tokenizer_create, independent of the file format; an adapter (vocabulary_gguf.c,
// vocabulary_json.c) fills it. Texts are borrowed from the file. A zeroed struct is valid and empty.
#pragma once

#include "engine/tokenizer/normalizer.h"
#include "engine/tokenizer/split.h"
#include "schemas/arena.h"
#include "schemas/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gguf;
struct gguf_writer;
struct tokenizer;

enum token_flag {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,      // replaces what the vocabulary lacks
    TOKEN_CONTROL = 4,      // found in text, and shown, only where special tokens are asked for
    TOKEN_USER_DEFINED = 8, // found in any text, before everything else
    TOKEN_UNUSED = 16,
    TOKEN_BYTE = 32,        // "<0x0A>"
    TOKEN_STRIPS_LEFT = 64, // takes the white space before it away
    TOKEN_STRIPS_RIGHT = 128,
    TOKEN_ENDS_GENERATION = 256,
};

enum {
    VOCABULARY_TOKENS_MAX = 1 << 20,
    VOCABULARY_TOKEN_BYTES_MAX = 4096,
    VOCABULARY_MERGES_MAX = 1 << 21,
};

struct vocabulary_merge {
    struct text left, right;
};

// How text becomes words and tokens.
struct token_rules {
    bool byte_level; // tokens are written in GPT-2's byte alphabet; else as UTF-8 with U+2581 for blanks
    bool adds_space; // before text that follows nothing or a special token
    bool space_unless_there; // not where the text starts with one
    bool space_first_only;   // only before text that follows nothing
    bool splits_blanks;      // merges never join a blank with the character before it
    bool ignores_merges;     // a word that is a token is that token, whatever the merges say
    bool normalizes_blanks;  // the normalizer writes U+2581 (and adds a space), no pre-tokenizer does
    bool controls_apart;     // a control token's text is no word: another token may have the same
    bool fuses_unknown;      // characters in a row that the vocabulary lacks become one unknown token
    bool adds_bos, adds_eos;
};

struct special_ids {                    // -1: none
    int32_t bos, eos, unknown, padding; // `unknown` is what encoding uses
    int32_t unk_token;                  // of chat templates
};

enum decoder_kind { DECODE_REPLACE, DECODE_STRIP };

// One step of making a token's text.
struct decoder_step {
    enum decoder_kind kind;
    struct text from, to; // DECODE_STRIP: up to n_first times `from` at the start, up to n_last at the end
    int64_t n_first, n_last;
};

enum { DECODER_STEPS_MAX = 8 };

// How tokens become text ("decoder" of tokenizer.json). Where none is given: the tokens' text with U+2581 as
// blanks, byte tokens as bytes, and a space is stripped that encoding adds.
struct token_decoder {
    bool is_given;
    bool shows_byte_tokens; // "<0x0A>" stays these six characters
    bool strips_first;      // the first blank of a text
    struct decoder_step steps[DECODER_STEPS_MAX];
    size_t n_steps;
};

struct vocabulary {
    struct arena arena; // of the arrays
    size_t n_tokens;
    struct text *texts;
    uint16_t *flags; // enum token_flag
    // The normalized text of each added token that is matched in normalized text. NULL: there are none; an
    // empty text: the token is matched in the text as it is given.
    struct text *normalized;
    // One of the two: pairs in order of rank, or (SentencePiece) a score for each token, the highest merged
    // first.
    struct vocabulary_merge *merges;
    size_t n_merges;
    float *scores;
    struct token_rules rules;
    struct special_ids ids;
    struct splitter *splitter; // NULL: text is not cut into words
    struct normalizer normalizer;
    struct token_decoder decoder;
};

void vocabulary_finish(struct vocabulary *vocabulary);

// Reads the keys tokenizer.ggml.*. `pre` (may be NULL) overrides tokenizer.ggml.pre.
enum status vocabulary_read_gguf(struct vocabulary *vocabulary, const struct gguf *gguf, const char *pre,
                                 struct error *error) WARN_UNUSED;
// Reads a Hugging Face folder's part (engine/model/model_folder.h): the keys tokenizer.huggingface.*.
// Components of such a file that are not implemented are refused by name.
enum status vocabulary_read_json(struct vocabulary *vocabulary, const struct gguf *gguf, const char *pre,
                                 struct error *error) WARN_UNUSED;
// The same from a folder's files. Empty texts: there is no such file.
struct vocabulary_json {
    struct text tokenizer, config,
        special_tokens;  // tokenizer.json, tokenizer_config.json, special_tokens_map.json
    const int32_t *ends; // further ids that end a generation
    size_t n_ends;
    const int32_t *control_ends; // those that do where they are control tokens
    size_t n_control_ends;
    const char *pre; // overrides the pre-tokenizer; NULL: the file's
};
enum status vocabulary_parse_json(struct vocabulary *vocabulary, const struct vocabulary_json *json,
                                  struct error *error) WARN_UNUSED;
// The same of Mistral's tekken.json in place of tokenizer.json.
enum status vocabulary_parse_tekken(struct vocabulary *vocabulary, const struct vocabulary_json *files,
                                    struct error *error) WARN_UNUSED;
// Adds the keys tokenizer.ggml.*, by which other engines read a GGUF file, for a tokenizer that is stored in
// `gguf` as tokenizer.huggingface.* alone; none where the file has them. Settings that they can't express are
// named in *unknown (a static text, empty where all is well), and then no key is added: half a tokenizer
// would be read wrongly.
enum status vocabulary_write_ggml(const struct gguf *gguf, struct gguf_writer *keys, struct text *unknown,
                                  struct error *error) WARN_UNUSED;
// Kinds of ends, each with tokens known by their text.
enum vocabulary_end {
    END_OF_TEXT = 1,    // <|endoftext|>, </s>, [EOS]
    END_OF_TURN = 2,    // <|im_end|>, <|eot_id|>, <end_of_turn>
    END_OF_MESSAGE = 4, // after which a tool answers: <|eom_id|>, <|call|>
    END_OF_PADDING = 8, // <PAD>, and separators between files of code
    END_ANY = 15,
};

// Flags the tokens that are known by their text: those that mark code to fill in, and those that end an
// answer in one of the ways `ends`, which no key or list of the model decides. A user-defined token never
// ends one by its spelling. Call it once the file's own flags stand.
void vocabulary_flag_known(struct vocabulary *vocabulary, unsigned ends);
// how a token with that text ends an answer; 0: it is not known to
unsigned vocabulary_end_named(struct text text);

// Ids that end a generation; those outside the vocabulary are left out. `only_control`: and those that are no
// control tokens.
void vocabulary_flag_ends(struct vocabulary *vocabulary, const int32_t *ids, size_t n_ids, bool only_control);
// Ids under a key of `gguf`, in the arena; none where the key is absent.
enum status vocabulary_read_ends(struct arena *arena, const struct gguf *gguf, const char *key,
                                 const int32_t **ids, size_t *n_ids, struct error *error) WARN_UNUSED;

// Builds a tokenizer; takes vocabulary->splitter over, copies all else. Errors: STATUS_REFUSE.
enum status tokenizer_create(struct tokenizer **tokenizer, struct vocabulary *vocabulary,
                             struct error *error) WARN_UNUSED;
