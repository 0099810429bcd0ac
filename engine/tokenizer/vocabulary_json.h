// Declarations shared by vocabulary_json.c (tokens, merges, settings), vocabulary_json_source.c (helpers), the files
// of its parts, vocabulary_json_*.c, and vocabulary_tekken.c. Private to these files. Format:
// github.com/huggingface/tokenizers, tokenizers/src (serde of each component).
#pragma once

#include "engine/tokenizer/vocabulary.h"
#include "schemas/value.h"

struct json_source {
    struct vocabulary *vocabulary;
    struct arena *arena; // the vocabulary's
    struct error *error;
    struct value config, special_tokens; // tokenizer_config.json, special_tokens_map.json; null: no such file
    bool replaces_blanks;                // the normalizer writes U+2581 for blanks
};

// A component's "type"; empty text: the component is absent or null.
struct text json_type(const struct value *component);
bool json_truth(const struct value *object, const char *name, bool otherwise);
// Error "tokenizer.json: WHAT "TYPE" is not known".
enum status json_refuse(struct json_source *source, const char *what, struct text name);
// Parses a file's text; an empty text gives null.
enum status json_parse_file(struct json_source *source, const char *name, struct text text,
                            struct value *value) WARN_UNUSED;
enum status json_out_of_memory(struct json_source *source);
// The token with that text; -1: none.
int32_t json_id_of(const struct vocabulary *vocabulary, struct text text);

// The model's settings; call it after the tokens have been read. WordPiece and Unigram.
enum status json_read_pieces(struct json_source *source, const struct value *model) WARN_UNUSED;

// Sets normalizer, byte_level, adds_space and related rules.
enum status json_read_normalizer(struct json_source *source, const struct value *normalizer) WARN_UNUSED;
// Sets the splitter (for byte-level vocabularies), byte_level, adds_space and related rules. `pre` (may be
// NULL) names a pre-tokenizer to use instead of the file's.
enum status json_read_pre_tokenizer(struct json_source *source, const struct value *pre_tokenizer,
                                    const char *pre) WARN_UNUSED;
// Sets `decoder`. Call it after json_read_pre_tokenizer, which sets byte_level.
enum status json_read_decoder(struct json_source *source, const struct value *decoder) WARN_UNUSED;
// Sets `normalized`. Call it after tokens, normalizer and pre-tokenizer have been read.
enum status json_read_normalized(struct json_source *source, const struct value *added) WARN_UNUSED;
// Sets `templates`, and by the template of one text bos, eos and whether they are added. Call it after the
// tokens have been read; `processor` may be NULL.
enum status json_read_processor(struct json_source *source, const struct value *processor) WARN_UNUSED;
