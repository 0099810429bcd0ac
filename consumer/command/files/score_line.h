// A line of the input of sheaf classify and sheaf rerank:
//
//   the text itself                                             classify
//   {"text": "the text", "text_pair": "another", "id": 7}       classify; text_pair, id, custom_id may be absent
//   {"query": "a", "document": "b"}                             rerank: one score
//   {"query": "a", "documents": ["b", {"text": "c"}], "top_n": 1}  rerank; top_n may be absent
//
// Other members are ignored.
#pragma once

#include "schemas/base/arena.h"
#include "schemas/base/error.h"
#include "schemas/base/text.h"

#include <stdint.h>

struct score_line {
    struct text text, pair;        // classify; pair data NULL: none
    struct text query, *documents; // rerank: [n_documents], in the arena
    size_t n_documents;
    bool is_single; // "document"
    int64_t top_n;  // 0: not given
};

// As embed_line_decode (embed_line.h), whose ids these are.
enum status score_line_decode_text(struct text line, struct arena *arena, struct score_line *decoded,
                                   struct buffer *ids, struct error *error) WARN_UNUSED;
enum status score_line_decode_query(struct text line, struct arena *arena, struct score_line *decoded,
                                    struct buffer *ids, struct error *error) WARN_UNUSED;
