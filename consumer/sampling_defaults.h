// Sampling parameters for jobs that name none, as vLLM, transformers and llama.cpp have them: an option of the command line
// before the model's own (generation_config.json of a folder, general.sampling.* of a GGUF file), before OpenAI's.
// transformers' do_sample is not read: as in vLLM temperature alone decides whether tokens are drawn. Thread: main.
#pragma once

#include "consumer/options.h"
#include "engine/file/gguf.h"
#include "schemas/job.h"

struct sampling_defaults {
    struct sampling sampling; // what `given` says
    int64_t max_tokens;       // 0: up to the context's end
    char names[256];          // " temperature=0.6 top-k=20": what holds, for the arithmetic's name; empty: nothing
};

// Says what holds, and which of the model's settings are not built. Errors: STATUS_REFUSE, for a number out of its range.
enum status sampling_defaults_read(struct sampling_defaults *defaults, const struct gguf *gguf,
                                   const struct settings *settings, struct error *error) WARN_UNUSED;
