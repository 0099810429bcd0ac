// Partitions with records that are neither committed nor aborted: of transactions that are open, and of those
// that a coordinator calls complete without having ended them there (KAFKA-20734). Such a transaction hangs:
// the next end of a transaction of the same producer id in this partition, a commit or an abort, is its own.
// Internal to consumer/kafka/. Thread: the handles' own.
#pragma once

#include "consumer/kafka/kafka_handle.h"

// The partitions of the topics (NULL: none) with their log ends: behind the last records written. `reader`
// must have isolation.level=read_uncommitted, as the roles of transactional producers have. The caller owns
// the list. NULL: no answer in time (STATUS_RETRY), or access was denied (STATUS_REFUSE).
rd_kafka_topic_partition_list_t *kafka_undecided_find(struct kafka_handle *reader, const char *const *topics,
                                                      size_t n_topics, int timeout_ms, struct error *error);
// Takes the partitions out of the list of which all records below their offsets are decided. `first` (may be
// NULL) receives the others with their first undecided offsets, and is the caller's. `reader` must have
// isolation.level=read_committed. STATUS_RETRY: no answer in time, the list is as before.
enum status kafka_undecided_look(struct kafka_handle *reader, rd_kafka_topic_partition_list_t *list,
                                 rd_kafka_topic_partition_list_t **first, int timeout_ms,
                                 struct error *error) WARN_UNUSED;
// Passes on the records of the list's partitions, decided or not: from the first undecided one, the offsets of
// `from`, to those of `list`. `from` has the same partitions in the same order. Stops after timeout_ms.
// STATUS_RETRY: of a partition neither a record nor the end was read in that time.
enum status kafka_undecided_scan(const struct kafka_config *config,
                                 const rd_kafka_topic_partition_list_t *from,
                                 const rd_kafka_topic_partition_list_t *list, int timeout_ms,
                                 void (*receive)(void *context, int index, const struct record *record),
                                 void *context, struct error *error) WARN_UNUSED;
// Sends a record to each partition of the list, in a transaction of the producer that the caller is to abort:
// its end is then written to all of them, and nobody who reads committed records sees the record. Waits until
// it is there, at most timeout_ms.
void kafka_undecided_mark(struct kafka_handle *producer, const rd_kafka_topic_partition_list_t *list,
                          int timeout_ms);
// "topic T partition 3 and 2 more".
void kafka_undecided_name(const rd_kafka_topic_partition_list_t *list, char *text, size_t size);
