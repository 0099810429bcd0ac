// Refuses a file with a job whose result the topic of results will not take, before anything is submitted: a worker
// would fail the job (ERROR_RESULT_TOO_LARGE). Known here are the vectors of jobs with `dimensions`; the width of other
// vectors is the model's. Thread: main.
#pragma once

#include "consumer/command/files/input.h"
#include "consumer/queue/kafka/client/kafka_client.h"

// The input is at its first line, before and after. STATUS_REFUSE, ERROR_RESULT_TOO_LARGE names the line with the
// largest result, and the --split with which all fit.
enum status result_limit_check(struct input *input, const struct kafka_config *config,
                               struct error *error) WARN_UNUSED;
