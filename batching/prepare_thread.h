// Prepares long jobs while steps run, one at a time, on a separate thread: tokenizing a long job may take
// seconds. It is not a background task of the pool, because a thread that waits for one task (as each step
// does for its masks) runs other queued tasks meanwhile.
// Thread: engine.
#pragma once

#include "batching/sequence.h"

struct prepare_thread;

// The environment must outlive the thread. STATUS_RETRY: out of memory.
enum status prepare_thread_create(struct prepare_thread **thread,
                                  const struct prompt_environment *environment,
                                  struct error *error) WARN_UNUSED;
// The thread must hold no prompt.
void prepare_thread_destroy(struct prepare_thread *thread);

// Hands the prompt over; the thread must hold none. Sets its error if prompt_prepare fails.
void prepare_thread_start(struct prepare_thread *thread, struct prompt *prompt);
// Returns the prompt once it is prepared. NULL: not prepared within wait_ms (-1: no limit).
struct prompt *prepare_thread_take(struct prepare_thread *thread, int wait_ms);
