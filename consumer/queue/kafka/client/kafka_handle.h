// librdkafka handles: creation with our and the user's settings, error and log callbacks. Internal to
// consumer/queue/kafka/.
#pragma once

#include "consumer/queue/kafka.h"

#include <librdkafka/rdkafka.h>
#include <pthread.h>

// transaction.timeout.ms of a submission: the longest time that readers of the jobs topic wait if its process
// was killed.
enum { KAFKA_SUBMIT_TRANSACTION_MS = 15000 };

enum kafka_role {
    KAFKA_CONSUMER,      // jobs, as a member of the group
    KAFKA_READER,        // reads manually assigned partitions to their end: control, results
    KAFKA_TRANSACTIONAL, // publishes results
    KAFKA_PRODUCER,      // writes cancellations
    KAFKA_SUBMITTER,     // submits jobs, in transactions
    KAFKA_ADMIN,         // looks up and creates topics
};

// Throttle times that brokers reported for quotas.
struct kafka_throttle {
    int64_t until_ms; // until then a broker reads nothing from us
    int64_t total_ms, longest_ms;
};

// A handle with the state of its callbacks. It is the handle's opaque, so it must not move.
struct kafka_handle {
    rd_kafka_t *rk;
    const struct kafka_config *config;
    void *owner;  // argument of the owner's callbacks
    bool is_down; // no broker is up; cleared when one answers
    // access denied by a broker: authentication, authorization, TLS; 0: none
    rd_kafka_resp_err_t denied;
    struct kafka_throttle throttle;    // includes the throttle times of earlier handles
    char last_error[ERROR_TEXT_BYTES]; // last error reported by librdkafka
};

int kafka_remaining_ms(int64_t deadline_ms); // at least 0

// Logs a warning, if the transport has a log.
void kafka_warn(const struct kafka_config *config, const char *line);

// Creates a configuration for the role; the user's settings override ours. `id` is the client.id, and the
// transactional.id or group.instance.id. NULL: `error` names the invalid property.
rd_kafka_conf_t *kafka_conf_create(const struct kafka_config *config, enum kafka_role role, const char *id,
                                   struct error *error);
// Takes ownership of `conf` and sets its error and log callbacks.
enum status kafka_handle_open(struct kafka_handle *handle, const struct kafka_config *config,
                              enum kafka_role role, rd_kafka_conf_t *conf, struct error *error) WARN_UNUSED;
// Destroys the handle within the deadline, or leaks it, because a call that never returns must not block the
// worker.
void kafka_handle_close(struct kafka_handle *handle, int64_t deadline_ms);
// Runs the handle's callbacks; a consumer's run while it is polled.
void kafka_handle_serve(struct kafka_handle *handle);

// Starts a thread with all signals blocked, because main handles them. False: it could not be started.
bool kafka_start_thread(pthread_t *thread, const char *name, void *(*run)(void *context), void *context);

// True if opening the transport must end early. Then sets `error` (may be NULL).
bool kafka_is_stopping(const struct kafka_config *config, struct error *error);

// True if the code means that access was denied.
bool kafka_is_denial(rd_kafka_resp_err_t code);
// True if the code means that the next batch of a partition cannot be read, even if it is fetched again.
bool kafka_is_unreadable(rd_kafka_resp_err_t code);
// Sets the error "WHAT: TEXT". If `code` is unspecific (no broker, timeout), TEXT is the last error of the
// handle.
enum status kafka_error_set(struct error *error, enum status status, const struct kafka_handle *handle,
                            const char *what, rd_kafka_resp_err_t code);
// Converts a message to a record, which points into it; `headers` [KAFKA_HEADERS_MAX] receives its headers.
struct record kafka_message_record(const rd_kafka_message_t *message, struct text topic,
                                   struct header *headers);
