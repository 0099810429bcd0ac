// librdkafka handles: made with our settings and the user's, their errors and logs gathered. Internal to
// consumer/kafka/.
#pragma once

#include "consumer/kafka/kafka.h"

#include <librdkafka/rdkafka.h>

// transaction.timeout.ms of a submission: how long its killed process keeps readers of the jobs topic waiting at most.
enum { KAFKA_SUBMIT_TRANSACTION_MS = 15000 };

enum kafka_role {
    KAFKA_CONSUMER,      // jobs, as a member of the group
    KAFKA_READER,        // reads partitions it assigns itself, from beginning to end: control, results
    KAFKA_TRANSACTIONAL, // publishes results
    KAFKA_PRODUCER,      // writes cancellations
    KAFKA_SUBMITTER,     // submits jobs, in transactions
    KAFKA_ADMIN,         // looks topics up and creates them
};

// A handle and what its callbacks learn. The handle's opaque is this struct, which therefore must not move.
struct kafka_handle {
    rd_kafka_t *rk;
    const struct kafka_config *config;
    void *owner;                       // for the callbacks of who opened it
    bool is_down;                      // no broker is up; cleared by whoever sees one answer
    rd_kafka_resp_err_t denied;        // a broker refused us: authentication, authorisation, TLS; 0: none did
    char last_error[ERROR_TEXT_BYTES]; // newest one that librdkafka reported
};

int kafka_remaining_ms(int64_t deadline_ms); // at least 0

// Our settings for the role, then the user's. `id` names the client, and the transaction or the group's
// static member. NULL: `error` says which property is wrong.
rd_kafka_conf_t *kafka_conf_create(const struct kafka_config *config, enum kafka_role role, const char *id,
                                   struct error *error);
// Takes `conf` over. The callbacks for errors and logs are set here.
enum status kafka_handle_open(struct kafka_handle *handle, const struct kafka_config *config,
                              enum kafka_role role, rd_kafka_conf_t *conf, struct error *error) WARN_UNUSED;
// Within the deadline, or the handle is left behind: a library that hangs must not hang the worker.
void kafka_handle_close(struct kafka_handle *handle, int64_t deadline_ms);
// Runs its callbacks. A consumer's run while it is polled.
void kafka_handle_serve(struct kafka_handle *handle);

// The broker says that we may not.
bool kafka_is_denial(rd_kafka_resp_err_t code);
// "WHAT: TEXT", with the newest error the handle heard of when `code` itself says little (no broker, time
// out).
enum status kafka_error_set(struct error *error, enum status status, const struct kafka_handle *handle,
                            const char *what, rd_kafka_resp_err_t code);
// The record of a message, into which it points; its headers stand in `headers` [KAFKA_HEADERS_MAX].
struct record kafka_message_record(const rd_kafka_message_t *message, struct text topic, struct header *headers);
