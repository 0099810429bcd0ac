// The events of an answer, as its connection sends them. While nothing new is computed, a comment now and then
// keeps proxies from closing the connection. Thread: the connection's.
#pragma once

#include "consumer/serve/pending_answer.h"

struct answer_stream;

// Takes over the pending answer, which may have its record already. NULL: out of memory; it is finished.
struct answer_stream *answer_stream_create(struct pending_answer *pending, bool is_chat, bool include_usage);
// Waits for bytes and writes up to n_max of them; 0: the end.
size_t answer_stream_read(struct answer_stream *stream, char *bytes, size_t n_max);
void answer_stream_destroy(struct answer_stream *stream);
