// Names of datasets from Kafka in a store. Two job topics, or a topic and the embedded queue, may have
// datasets with the same name, whose rows would share their keys. The first dataset in the store has the
// name, the other is called NAME@TOPIC. Called within a transaction.
#pragma once

#include "schemas/base/arena.h"
#include "store/database.h"

struct dataset_name;

// Names looked up in the current transaction. Zeroed: none.
struct dataset_names {
    struct arena arena;
    struct dataset_name *first;
};

// *name is valid until dataset_names_finish, as `dataset` and `topic` must be. Without a topic *name is
// `dataset`.
enum status dataset_name_of(struct store *store, struct dataset_names *names, struct text dataset,
                            struct text topic, struct text *name, struct error *error) WARN_UNUSED;
void dataset_names_finish(struct dataset_names *names);

// Checks whether the embedded queue may accept jobs of the dataset. STATUS_REFUSE: its rows are from a topic.
enum status dataset_name_check_queue(struct store *store, struct text dataset,
                                     struct error *error) WARN_UNUSED;

// Dataset name of answers that are put aside (store_replace_begin): a changed file no longer has their lines,
// but equal requests may use them. They have rows in `jobs`, but none in `datasets`. The name is longer than
// a dataset's may be, and not terminated.
enum { BEFORE_NAME_BYTES = JOB_DATASET_BYTES_MAX + 8 };
struct text dataset_name_before(struct text dataset, char name[BEFORE_NAME_BYTES]);
