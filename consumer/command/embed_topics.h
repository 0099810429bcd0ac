// sheaf embed TABLE --brokers: a fleet of workers computes the vectors of a table's rows. The different texts of the
// table become lines of /v1/embeddings jobs, some texts each, which are submitted exactly once (topic_submit.h); then
// results are read from the results topic until each job has one. The lines depend on the table alone, so the same
// command resumes after a kill: with what is on the topics.
//
//   rows -> different texts 0, 1, 2, ... -> jobs -> results -> vector of each text -> vector of each row
//
// Thread: main.
#pragma once

#include "consumer/command/embed_rows.h"

// Computes the vectors of all rows into `rows`, whose source is open; rows->file is opened at vectors_path. Rows without
// a vector have their faults in rows->faults. STATUS_RETRY: stopped by a signal, or a broker; the same command resumes.
enum status embed_topics_compute(struct embed_rows *rows, const struct settings *settings,
                                 const char *vectors_path, struct error *error) WARN_UNUSED;
