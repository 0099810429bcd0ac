// The input of tokenizer_create, independent of the file format; adapters (vocabulary_gguf.c,
// vocabulary_json.c, vocabulary_tekken.c) fill it. Texts are borrowed from the file. A zeroed struct is valid
// and empty.
#pragma once

#include "engine/tokenizer/normalizer.h"
#include "engine/tokenizer/split.h"
#include "schemas/base/arena.h"
#include "schemas/base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gguf;
struct gguf_writer;
struct tokenizer;

enum token_flag {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,      // stands for text that the vocabulary lacks
    TOKEN_CONTROL = 4,      // matched in text, and decoded, only where special tokens are enabled
    TOKEN_USER_DEFINED = 8, // matched in any text, before everything else
    TOKEN_UNUSED = 16,
    TOKEN_BYTE = 32,        // "<0x0A>"
    TOKEN_STRIPS_LEFT = 64, // strips the white space before it
    TOKEN_STRIPS_RIGHT = 128,
    TOKEN_ENDS_GENERATION = 256,
    TOKEN_OF_MODEL = 512, // WordPiece, Unigram: a piece of the model, not only a token added beside it
};

enum {
    VOCABULARY_TOKENS_MAX = 1 << 20,
    VOCABULARY_TOKEN_BYTES_MAX = 4096,
    VOCABULARY_MERGES_MAX = 1 << 21,
};

struct vocabulary_merge {
    struct text left, right;
};

// How a word becomes tokens.
enum vocabulary_model { VOCABULARY_BPE, VOCABULARY_WORD_PIECE, VOCABULARY_UNIGRAM };

// WordPiece and Unigram. Their unknown token exists.
struct vocabulary_pieces {
    struct text prefix;    // WordPiece: of pieces inside a word
    bool marks_starts;     // `prefix` marks the pieces that start a word instead
    size_t characters_max; // WordPiece: a word of more characters is unknown
    double *scores;        // [n_tokens] Unigram: finite
    bool is_sentencepiece; // Unigram: sums are floats, user-defined pieces always win, unused ones never
};

// How text is split into words and tokens.
struct token_rules {
    bool byte_level;   // tokens are written in GPT-2's byte alphabet; else as UTF-8 with U+2581 for blanks
    bool keeps_blanks; // not byte_level: blanks are written as such
    bool adds_space;   // insert a blank before text that follows nothing or a special token
    bool space_unless_there; // but not if the text already starts with a blank
    bool space_first_only;   // only before text that follows nothing
    bool is_metaspace;       // WordPiece, Unigram: each piece of `splitter` gets U+2581 for blanks
    bool splits_blanks;      // merges never join a blank with the character before it
    bool ignores_merges;     // a word that is a token becomes that token, without merging
    bool normalizes_blanks;  // the normalizer (not a pre-tokenizer) writes U+2581 and inserts the blank
    bool controls_apart;     // a control token's text is not a word: another token may have the same text
    bool no_byte_tokens; // tokens named <0xXX> are ordinary: text without a token becomes the unknown token
    bool merges_are_tokens; // a merge must name tokens and give a token
    bool fuses_unknown;     // consecutive characters that the vocabulary lacks become one unknown token
    bool adds_bos, adds_eos;
    bool one_type;     // the model gets no token_type_ids: all are 0
    bool assumes_case; // the file does not say whether WordPiece is cased
};

struct special_ids {                    // -1: none
    int32_t bos, eos, unknown, padding; // `unknown` is what encoding uses
    int32_t unk_token;                  // for chat templates
};

// What encoding with special tokens gives for one text, or for a pair: texts and tokens in order, each with
// the type that its tokens have (token_type_ids).
struct template_item {
    int32_t text;  // 0, 1: the first or second text; -1: `token`
    int32_t token; // id
    int32_t type;
};

enum { TEMPLATE_ITEMS_MAX = 32, TEMPLATE_TYPE_MAX = 255 };

// Each text of the input once. Without items: bos and eos around each text as the rules say, type 0 for the
// first text, 1 for the second.
struct token_template {
    struct template_item items[TEMPLATE_ITEMS_MAX];
    size_t n_items;
};

// DECODE_WORD_PIECE: drops `from` at the start, else puts a blank there; with `cleans` the blanks before
// punctuation and contractions go.
enum decoder_kind { DECODE_REPLACE, DECODE_STRIP, DECODE_WORD_PIECE };

// One step of converting a token to text.
struct decoder_step {
    enum decoder_kind kind;
    struct text from, to; // DECODE_STRIP: up to n_first times `from` at the start, up to n_last at the end
    int64_t n_first, n_last;
    bool cleans;
};

enum { DECODER_STEPS_MAX = 8 };

// How tokens become text ("decoder" of tokenizer.json). Without one: the token's text with blanks for U+2581,
// byte tokens as bytes, and the blank that encoding inserts is stripped.
struct token_decoder {
    bool is_given;
    bool shows_byte_tokens; // "<0x0A>" is decoded to these six characters
    bool strips_first;      // strips the first blank of a text
    struct decoder_step steps[DECODER_STEPS_MAX];
    size_t n_steps;
};

struct vocabulary {
    struct arena arena; // holds the arrays
    enum vocabulary_model model;
    struct vocabulary_pieces pieces;
    size_t n_tokens;
    struct text *texts;
    uint16_t *flags; // enum token_flag
    // The normalized text of each added token that is matched in normalized text. NULL: no such token; an
    // empty text: this token is matched in unnormalized text.
    struct text *normalized;
    // One of the two: pairs in order of rank; or (SentencePiece) a score for each token, where the highest
    // merges first.
    struct vocabulary_merge *merges;
    size_t n_merges;
    float *scores;
    struct token_rules rules;
    struct special_ids ids;
    struct token_template templates[2]; // of one text, of a pair
    struct splitter *splitter;          // NULL: text is not split into words
    struct splitter *splitter_after;    // is_metaspace: of the words that it makes; NULL: none
    struct normalizer normalizer;
    struct token_decoder decoder;
};

void vocabulary_finish(struct vocabulary *vocabulary);
// Whether the text is a byte token's name, as "<0x0A>".
bool vocabulary_is_byte_token(struct text text);

// Reads the keys tokenizer.ggml.*. `pre` (may be NULL) overrides tokenizer.ggml.pre.
enum status vocabulary_read_gguf(struct vocabulary *vocabulary, const struct gguf *gguf, const char *pre,
                                 struct error *error) WARN_UNUSED;
// Reads the vocabulary of a Hugging Face folder (engine/model/folder/model_folder.h) from the keys
// tokenizer.huggingface.*. Components of tokenizer.json that are not implemented are refused, and named in
// the error.
enum status vocabulary_read_json(struct vocabulary *vocabulary, const struct gguf *gguf, const char *pre,
                                 struct error *error) WARN_UNUSED;
// The same from the texts of a folder's files. Empty text: no such file.
struct vocabulary_json {
    struct text tokenizer, config,
        special_tokens;  // tokenizer.json, tokenizer_config.json, special_tokens_map.json
    const int32_t *ends; // additional ids that end a generation
    size_t n_ends;
    const int32_t *control_ends; // ids that end a generation if they are control tokens
    size_t n_control_ends;
    const char *pre; // overrides the file's pre-tokenizer; NULL: does not
};
enum status vocabulary_parse_json(struct vocabulary *vocabulary, const struct vocabulary_json *json,
                                  struct error *error) WARN_UNUSED;
// The same with Mistral's tekken.json instead of tokenizer.json.
enum status vocabulary_parse_tekken(struct vocabulary *vocabulary, const struct vocabulary_json *files,
                                    struct error *error) WARN_UNUSED;
// Adds the keys tokenizer.ggml.*, which other engines read, for a tokenizer stored in `gguf` only as
// tokenizer.huggingface.*; adds none if the file already has them. If these keys cannot express a setting,
// gaps->unknown names it (a static text; empty: no such setting) and no key is added: a partial tokenizer
// would be misread. gaps->ignored: a setting that other engines ignore, so that some texts get other tokens.
struct vocabulary_gaps {
    struct text unknown, ignored;
};
enum status vocabulary_write_ggml(const struct gguf *gguf, struct gguf_writer *keys,
                                  struct vocabulary_gaps *gaps, struct error *error) WARN_UNUSED;
// Kinds of ends, each with the tokens known by their text.
enum vocabulary_end {
    END_OF_TEXT = 1,    // <|endoftext|>, </s>, [EOS]
    END_OF_TURN = 2,    // <|im_end|>, <|eot_id|>, <end_of_turn>
    END_OF_MESSAGE = 4, // a tool answers next: <|eom_id|>, <|call|>
    END_OF_PADDING = 8, // <PAD>, and separators between source files
    END_ANY = 15,
};

// Flags the tokens known by their text: fill-in-the-middle marks, and ends of the kinds in `ends`, which are
// the kinds that no key or list of the model decides. The text of a user-defined token never makes it an end.
// Call this after setting the file's own flags.
void vocabulary_flag_known(struct vocabulary *vocabulary, unsigned ends);
// The kind of end of a token with that text; 0: not a known end.
unsigned vocabulary_end_named(struct text text);

// Flags ids that end a generation; ids outside the vocabulary are ignored, with `only_control` also those
// that are not control tokens.
void vocabulary_flag_ends(struct vocabulary *vocabulary, const int32_t *ids, size_t n_ids, bool only_control);
// Reads the ids under a key of `gguf` into the arena; n_ids 0: no such key.
enum status vocabulary_read_ends(struct arena *arena, const struct gguf *gguf, const char *key,
                                 const int32_t **ids, size_t *n_ids, struct error *error) WARN_UNUSED;

// Builds a tokenizer; takes over vocabulary->splitter, copies the rest. Errors: STATUS_REFUSE.
enum status tokenizer_create(struct tokenizer **tokenizer, struct vocabulary *vocabulary,
                             struct error *error) WARN_UNUSED;
