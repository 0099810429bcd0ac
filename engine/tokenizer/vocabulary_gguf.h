// Declarations shared by vocabulary_gguf.c and vocabulary_gguf_pieces.c. Private to these files.
#pragma once

#include "engine/tokenizer/vocabulary.h"

// WordPiece ("bert") and Unigram ("t5") of a GGUF file: model, and the defaults of ids and rules. False: another
// model.
bool gguf_set_pieces(struct vocabulary *vocabulary, struct text model);
// The ids that have keys of their own: of cls and sep.
enum status gguf_read_piece_ids(struct vocabulary *vocabulary, const struct gguf *gguf,
                                struct error *error) WARN_UNUSED;
// The templates of a text, bos A eos, and of a pair, bos A eos B eos with two eos between the texts if `twice`: B and
// its eos have this type.
void gguf_set_templates(struct vocabulary *vocabulary, bool twice, int32_t type);
// The rest, once tokens, scores, types, ids and rules have been read: normalizer, pre-tokenizer, templates. The
// first n_own tokens are the model's.
enum status gguf_read_pieces(struct vocabulary *vocabulary, const struct gguf *gguf, size_t n_own,
                             struct error *error) WARN_UNUSED;
