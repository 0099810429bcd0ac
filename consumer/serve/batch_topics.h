// Batches over Kafka (--brokers): their lines are submitted to the jobs topic, and their answers collected from
// the results topic, as `sheaf submit` and `sheaf collect` do. A thread, sheaf-mirror, mirrors the topics into
// the store, which so has the counts of each dataset. One server of a store does both: the server that holds the
// lock FOLDER/leader: two mirrors would count twice, and two submissions would fence each other.
// Thread: sheaf-keeper, except open and close: main.
#pragma once

#include "consumer/command/files/output.h"
#include "consumer/serve/serve_state.h"

struct settings;
struct batch_topics;

// STATUS_REFUSE: an option of Kafka is invalid. The brokers need not answer yet.
enum status batch_topics_open(struct batch_topics **topics, struct serve *serve,
                              const struct settings *settings, struct error *error) WARN_UNUSED;
void batch_topics_close(struct batch_topics *topics);
// Whether this server leads; starts the mirror when it has become the leader.
bool batch_topics_lead(struct batch_topics *topics);
// Submits the file's lines; resumes after its last line.
enum status batch_topics_submit(struct batch_topics *topics, struct text dataset, const char *path,
                                struct error *error) WARN_UNUSED;
// Tells all workers, once for each dataset.
enum status batch_topics_cancel(struct batch_topics *topics, const char *dataset,
                                struct error *error) WARN_UNUSED;
// STATUS_RETRY: a result is missing.
enum status batch_topics_collect(struct batch_topics *topics, struct text dataset, struct output *output,
                                 struct error *error) WARN_UNUSED;
