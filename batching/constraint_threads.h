// The threads that compile constraints (constraint.h). Entries reach them and return through two queues. They
// are not pool threads, because a compile may take most of a second, and every parallel loop would lack a
// thread for as long. There are two, so that the schemas of one job do not delay the schemas of another.
//
// Thread: engine.
#pragma once

#include "batching/constraint.h"

enum {
    CONSTRAINT_THREADS = 2,
    CONSTRAINTS_COMPILING_MAX = 256, // entries in the queues
};

struct constraint_threads;

// STATUS_RETRY: out of memory, or no thread could be started.
enum status constraint_threads_create(struct constraint_threads **threads, struct constraint_cache *cache,
                                      struct error *error) WARN_UNUSED;
// Waits for compiles in progress; drops queued ones.
void constraint_threads_destroy(struct constraint_threads *threads);
// At most CONSTRAINTS_COMPILING_MAX entries may be started and not yet taken.
void constraint_threads_start(struct constraint_threads *threads, struct compiled_constraint *entry);
// Returns a compiled entry; NULL: none yet.
struct compiled_constraint *constraint_threads_take(struct constraint_threads *threads);
void constraint_threads_wait(const struct constraint_threads *threads, int timeout_ms);
