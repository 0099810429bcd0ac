// Jobs linked by `next`, oldest first. A job is in at most one list. A zeroed list is empty.
// Thread: the owner's.
#pragma once

#include "schemas/job.h"

struct job_list {
    struct job *first, *last;
    size_t n_jobs;
};

void job_list_append(struct job_list *list, struct job *job);
struct job *job_list_take(struct job_list *list); // NULL: empty
