// Prepares long jobs beside the steps, one at a time, on a thread of its own: tokenizing one may take
// seconds. Such a thread, and not a background task of the pool: who waits for a task, as each step does for
// its masks, runs those that no thread has taken.
// Thread: engine.
#pragma once

#include "batching/sequence.h"

struct prepare_thread;

// The environment must outlive the thread. STATUS_RETRY: out of memory.
enum status prepare_thread_create(struct prepare_thread **thread,
                                  const struct prompt_environment *environment,
                                  struct error *error) WARN_UNUSED;
// No prompt is with it.
void prepare_thread_destroy(struct prepare_thread *thread);

// Hands the prompt over; none is with the thread. Its error is set if prompt_prepare fails.
void prepare_thread_start(struct prepare_thread *thread, struct prompt *prompt);
// The prompt that was handed over, once it is prepared; else NULL, after wait_ms (-1: waits for it).
struct prompt *prepare_thread_take(struct prepare_thread *thread, int wait_ms);
