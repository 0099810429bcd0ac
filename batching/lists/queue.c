#include "batching/lists/queue.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct queue {
    pthread_mutex_t mutex;
    pthread_cond_t not_empty, not_full;
    size_t capacity, size, head;
    bool closed;
    int fd; // eventfd: 1 while there is something to pop or the queue is closed, else 0
    void *items[];
};

enum status queue_create(struct queue **queue, size_t capacity, struct error *error)
{
    assert(capacity > 0);
    struct queue *q = calloc(1, sizeof *q + capacity * sizeof q->items[0]);
    if (!q)
        return error_memory(error, STATUS_REFUSE, "queue of %zu items", capacity);
    q->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (q->fd < 0) {
        int code = errno;
        free(q);
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "eventfd: %s", strerror(code));
    }
    pthread_mutex_init(&q->mutex, NULL);
    pthread_cond_init(&q->not_empty, NULL);
    pthread_cond_init(&q->not_full, NULL);
    q->capacity = capacity;
    *queue = q;
    return STATUS_OK;
}

void queue_destroy(struct queue *queue)
{
    if (!queue)
        return;
    assert(queue->size == 0);
    close(queue->fd);
    pthread_mutex_destroy(&queue->mutex);
    pthread_cond_destroy(&queue->not_empty);
    pthread_cond_destroy(&queue->not_full);
    free(queue);
}

// The eventfd cannot overflow: it is always 0 or 1, and is written under the mutex.
static void signal_fd(struct queue *queue)
{
    ssize_t n = write(queue->fd, &(uint64_t){1}, sizeof(uint64_t));
    (void)n;
}

static void clear_fd(struct queue *queue)
{
    uint64_t value;
    ssize_t n = read(queue->fd, &value, sizeof value);
    (void)n;
}

bool queue_push(struct queue *queue, void *item)
{
    assert(item);
    pthread_mutex_lock(&queue->mutex);
    while (queue->size == queue->capacity && !queue->closed)
        pthread_cond_wait(&queue->not_full, &queue->mutex);
    bool pushed = !queue->closed;
    if (pushed) {
        queue->items[(queue->head + queue->size) % queue->capacity] = item;
        if (queue->size++ == 0)
            signal_fd(queue);
        pthread_cond_signal(&queue->not_empty);
    }
    pthread_mutex_unlock(&queue->mutex);
    return pushed;
}

// Returns NULL if the queue is empty. The caller holds the mutex.
static void *pop_item(struct queue *queue)
{
    if (queue->size == 0)
        return NULL;
    void *item = queue->items[queue->head];
    queue->head = (queue->head + 1) % queue->capacity;
    if (--queue->size == 0 && !queue->closed)
        clear_fd(queue);
    pthread_cond_signal(&queue->not_full);
    return item;
}

void *queue_try_pop(struct queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    void *item = pop_item(queue);
    pthread_mutex_unlock(&queue->mutex);
    return item;
}

void *queue_pop(struct queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    while (queue->size == 0 && !queue->closed)
        pthread_cond_wait(&queue->not_empty, &queue->mutex);
    void *item = pop_item(queue);
    pthread_mutex_unlock(&queue->mutex);
    return item;
}

void queue_close(struct queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    if (!queue->closed && queue->size == 0)
        signal_fd(queue);
    queue->closed = true;
    pthread_cond_broadcast(&queue->not_empty);
    pthread_cond_broadcast(&queue->not_full);
    pthread_mutex_unlock(&queue->mutex);
}

bool queue_is_finished(struct queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    bool finished = queue->closed && queue->size == 0;
    pthread_mutex_unlock(&queue->mutex);
    return finished;
}

int queue_fd(const struct queue *queue)
{
    return queue->fd;
}
