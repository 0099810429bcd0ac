// Sampling defaults for jobs without the parameters, as in vLLM, transformers and llama.cpp. Precedence:
// command line, then the model (generation_config.json of a folder, general.sampling.* of a GGUF file), then
// OpenAI's. transformers' do_sample is ignored: as in vLLM the temperature selects between sampling and
// greedy decoding. Thread: main.
#pragma once

#include "consumer/options/options.h"
#include "engine/file/gguf.h"
#include "schemas/job.h"

struct sampling_defaults {
    struct sampling sampling;     // fields flagged in `given`
    int64_t max_tokens;           // 0: up to the end of the context
    struct text reasoning_effort; // from the settings; empty: none
    // " temperature=0.6 top-k=20": the defaults in effect, for the arithmetic's name
    char names[384];
};

// Logs the defaults in effect and the model's settings that are not implemented. Errors: STATUS_REFUSE, a
// number out of range.
enum status sampling_defaults_read(struct sampling_defaults *defaults, const struct gguf *gguf,
                                   const struct sampling_options *options, struct error *error) WARN_UNUSED;
