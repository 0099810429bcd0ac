// A dataset's results on their way from topics to a file: kept in an unnamed temporary SQLite file, so that
// memory stays bounded however many there are. The file is gone with gathering_close, or with the process.
#pragma once

#include "schemas/error.h"
#include "schemas/text.h"

#include <stdint.h>

enum { GATHERING_CACHE_KIB = 64 << 10 }; // of pages in memory

struct gathering;

enum status gathering_open(struct gathering **gathering, int cache_kib, struct error *error) WARN_UNUSED;
void gathering_close(struct gathering *gathering);

// A job that has to have a result. One submitted twice under one id counts once.
enum status gathering_add_job(struct gathering *gathering, struct text job_id,
                              struct error *error) WARN_UNUSED;
// The first of each id is kept. `index` -1: none, these come last.
enum status gathering_add_result(struct gathering *gathering, struct text job_id, int64_t index,
                                 struct text record, struct error *error) WARN_UNUSED;
enum status gathering_count(struct gathering *gathering, int64_t *n_jobs, int64_t *n_results,
                            int64_t *n_missing, struct error *error) WARN_UNUSED;
// In order of index, then as they came.
enum status gathering_read(struct gathering *gathering,
                           enum status (*receive)(void *context, struct text record, struct error *error),
                           void *context, struct error *error) WARN_UNUSED;
