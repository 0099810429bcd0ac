// A mock executor, for tests and measurements of everything else: `--engine-test SPEC` replaces the forward
// pass, while tokenizer, template, window, pages, queue and store are the real ones. An answer is a pure
// function of the job's tokens, seed and choice: words of the vocabulary, ending with probability 1/8 after
// each.
//
//   instant     a step takes no time
//   fixed:MS    a step takes MS milliseconds
//   random:MS   a step takes between 0 and MS milliseconds
//
// Thread: engine, after test_executor_create.
#pragma once

#include "batching/batcher.h"

struct test_executor;
struct tokenizer;

enum { TEST_ENGINE_MS_MAX = 600000 };

// The tokenizer must outlive it. Errors: STATUS_REFUSE, ERROR_USAGE for an invalid spec.
enum status test_executor_create(struct test_executor **executor, const char *spec,
                                 const struct tokenizer *tokenizer, struct error *error) WARN_UNUSED;
void test_executor_destroy(struct test_executor *executor);
struct step_executor test_executor_bind(struct test_executor *executor);
