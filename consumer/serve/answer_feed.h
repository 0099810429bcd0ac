// The text of an answer while this process's worker computes it, on its way to the connection that streams it.
// The connection opens a feed before it submits its job, and closes it at the end. The worker's main thread
// adds what is new (serve_stream_begin, serve_stream_take in serve.h). A slow reader delays no other thread: its
// feed grows, to the size of the answer at most. Without a feed the answer arrives whole, from the store.
#pragma once

#include "consumer/serve/serve_state.h"
#include "schemas/job.h"

struct answer_feed;

// NULL: out of memory.
struct answer_feed *answer_feed_open(struct serve *serve, const char *dataset);
void answer_feed_close(struct answer_feed *feed);

// The functions below: thread: the connection's.

// Waits until there is text, the store has changed since `seen` (store_watch_now), or timeout_ms has passed.
// True: there is text.
bool answer_feed_wait(struct answer_feed *feed, uint64_t seen, int timeout_ms);
// Moves text of one choice into `text`, which must be empty; its thoughts are first. False: there is none.
bool answer_feed_next(struct answer_feed *feed, uint32_t *choice, bool *is_reasoning, struct buffer *text);
// Copies the members that all chunks have (answer_events_name). Empty: the job was not received yet.
void answer_feed_name(struct answer_feed *feed, struct buffer *name);
