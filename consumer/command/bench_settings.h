// Settings of sheaf bench: sizes of prompts, answers and batches, from --settings or from --prompt, --generate and --batch.
#pragma once

#include "consumer/options/options.h"

struct bench_setting {
    int32_t n_prompt, n_generate; // tokens of each sequence
    int32_t batch;                // sequences
};

// --settings is a list of PROMPT+GENERATE@BATCH[/BATCH...], separated by commas.
enum status bench_settings_parse(const struct bench_options *options,
                                 struct bench_setting settings[OPTIONS_BATCHES_MAX], int *n,
                                 struct error *error) WARN_UNUSED;
