// A bounded queue of pointers between threads: the only way that jobs move between threads. Pushing to a full
// queue waits; popping from an empty one waits or fails. A closed queue accepts no more items; its
// remaining ones can be popped. The file descriptor is readable while the queue is not empty or is closed,
// for poll(2). Thread: any.
#pragma once

#include "schemas/base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct queue;

enum status queue_create(struct queue **queue, size_t capacity, struct error *error) WARN_UNUSED;
// The queue must be empty.
void queue_destroy(struct queue *queue);

// Waits for room. False when closed: the caller still owns the item.
bool queue_push(struct queue *queue, void *item) WARN_UNUSED;
// NULL when empty (try), or closed and empty (pop).
void *queue_try_pop(struct queue *queue);
void *queue_pop(struct queue *queue);

void queue_close(struct queue *queue);
// True: closed and empty.
bool queue_is_finished(struct queue *queue);
int queue_fd(const struct queue *queue);
