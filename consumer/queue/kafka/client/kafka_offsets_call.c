#include "consumer/queue/kafka/client/kafka_offsets_call.h"

#include "consumer/queue/kafka/client/kafka_handle.h"
#include "schemas/base/clock.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define THREAD_NAME "sheaf-offsets"

enum { RUNNING, RETURNED, LEFT };

struct kafka_offsets_call {
    rd_kafka_t *rk;
    rd_kafka_topic_partition_list_t *offsets;
    rd_kafka_consumer_group_metadata_t *group;
    int timeout_ms;
    int returned_fd; // readable once `fault` is set
    rd_kafka_error_t *fault;
    pthread_t thread;
    atomic_int state;
};

static void free_call(struct kafka_offsets_call *call)
{
    if (call->offsets)
        rd_kafka_topic_partition_list_destroy(call->offsets);
    if (call->group)
        rd_kafka_consumer_group_metadata_destroy(call->group);
    if (call->fault)
        rd_kafka_error_destroy(call->fault);
    if (call->returned_fd >= 0)
        close(call->returned_fd);
    free(call);
}

// ---- the call's thread ----

static void *run_call(void *context)
{
    struct kafka_offsets_call *call = context;
    call->fault =
        rd_kafka_send_offsets_to_transaction(call->rk, call->offsets, call->group, call->timeout_ms);
    (void)eventfd_write(call->returned_fd, 1);
    int state = RUNNING;
    if (atomic_compare_exchange_strong(&call->state, &state, RETURNED))
        return NULL; // the caller joins this thread
    rd_kafka_destroy(call->rk);
    free_call(call);
    return NULL;
}

// ---- the caller ----

// librdkafka has no function for a copy.
static rd_kafka_consumer_group_metadata_t *copy_group(const rd_kafka_consumer_group_metadata_t *group,
                                                      rd_kafka_error_t **fault)
{
    void *bytes;
    size_t n_bytes;
    rd_kafka_consumer_group_metadata_t *copy = NULL;
    *fault = rd_kafka_consumer_group_metadata_write(group, &bytes, &n_bytes);
    if (*fault)
        return NULL;
    *fault = rd_kafka_consumer_group_metadata_read(&copy, bytes, n_bytes);
    rd_kafka_mem_free(NULL, bytes);
    return *fault ? NULL : copy;
}

static bool wait_for_return(const struct kafka_offsets_call *call, int wait_ms)
{
    struct pollfd fd = {.fd = call->returned_fd, .events = POLLIN};
    int64_t deadline_ms = clock_ms() + wait_ms;
    int n;
    while ((n = poll(&fd, 1, wait_ms)) < 0 && errno == EINTR) {
        int64_t remaining_ms = deadline_ms - clock_ms();
        wait_ms = remaining_ms > 0 ? (int)remaining_ms : 0;
    }
    return n > 0;
}

static struct kafka_offsets_call *create_call(rd_kafka_t *rk, const rd_kafka_topic_partition_list_t *offsets,
                                              const rd_kafka_consumer_group_metadata_t *group, int timeout_ms,
                                              rd_kafka_error_t **fault)
{
    struct kafka_offsets_call *call = calloc(1, sizeof *call);
    *fault = NULL;
    if (!call) {
        *fault = rd_kafka_error_new(RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE, "no memory for a call");
        return NULL;
    }
    call->rk = rk;
    call->timeout_ms = timeout_ms;
    call->returned_fd = eventfd(0, EFD_CLOEXEC);
    call->group = copy_group(group, fault);
    if (!*fault && call->returned_fd < 0)
        *fault = rd_kafka_error_new(RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE, "no descriptor for a call");
    if (*fault) {
        free_call(call);
        return NULL;
    }
    call->offsets = rd_kafka_topic_partition_list_copy(offsets);
    return call;
}

struct kafka_offsets_call *kafka_offsets_send(rd_kafka_t *rk, const rd_kafka_topic_partition_list_t *offsets,
                                              const rd_kafka_consumer_group_metadata_t *group, int timeout_ms,
                                              int patience_ms, rd_kafka_error_t **fault)
{
    struct kafka_offsets_call *call = create_call(rk, offsets, group, timeout_ms, fault);
    if (!call)
        return NULL;
    if (!kafka_start_thread(&call->thread, THREAD_NAME, run_call, call)) {
        free_call(call);
        *fault = rd_kafka_error_new(RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE, "no thread for a call");
        return NULL;
    }
    if (!wait_for_return(call, timeout_ms + patience_ms)) {
        *fault =
            rd_kafka_error_new(RD_KAFKA_RESP_ERR__TIMED_OUT,
                               "librdkafka did not return for %d ms beyond the call's time limit of %d ms",
                               patience_ms, timeout_ms);
        return call;
    }
    pthread_join(call->thread, NULL);
    *fault = call->fault;
    call->fault = NULL;
    free_call(call);
    return NULL;
}

bool kafka_offsets_leave(struct kafka_offsets_call *call)
{
    int state = RUNNING;
    if (atomic_compare_exchange_strong(&call->state, &state, LEFT)) {
        pthread_detach(call->thread);
        return true;
    }
    pthread_join(call->thread, NULL);
    free_call(call);
    return false;
}
