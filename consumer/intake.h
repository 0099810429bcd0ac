// From a record to a job: identity from the headers, decoding, names where none was given. A record that can't be
// decoded becomes a failed job that carries its original bytes: a dead letter.
// Thread: main.
#pragma once

#include "consumer/transport.h"

// From the reserve's memory. NULL: out of memory. job->result.status is RESULT_FAILED when the record was at fault, else RESULT_NONE.
struct job *intake_job(const struct record *record, struct text model_name, struct job_reserve *reserve);
