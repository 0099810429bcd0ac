// The model names in requests ("model") that a worker answers to. These are the names of --model-name.
// Without --model-name they are the model file's own name, the path of --model, and the last component of the
// path, with or without ".gguf". Then "OWNER/name" is accepted too if the worker answers to "name". A job
// that names anything else, except an adapter (--lora-modules), is answered with a warning or, with --require-model,
// refused. Thread: main.
#pragma once

#include "schemas/job.h"

// A LoRA adapter that requests choose (--lora-modules).
struct adapter_name {
    struct text name;
    char system_fingerprint[JOB_FINGERPRINT_BYTES_MAX + 1]; // of its answers
};

struct model_names {
    char *const *given; // names of --model-name, NULL-terminated; NULL: none
    struct text own;    // the name in the model file
    const char *path;   // path of --model
    bool is_required;
    const struct adapter_name *adapters; // [n_adapters], of the adapter sets 1..
    int32_t n_adapters;
};

// Returns the model's name in results: the first of --model-name, else the model's own name.
struct text model_names_first(const struct model_names *names);
bool model_names_have(const struct model_names *names, struct text name);
// Checks the model that the job names, and sets job->adapter_set if the name is an adapter's. A job without a model name
// passes. STATUS_REJECT: the job names another model, and --require-model is set. STATUS_RETRY: out of memory.
enum status model_names_check(const struct model_names *names, struct job *job,
                              struct error *error) WARN_UNUSED;
