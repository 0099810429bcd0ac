// The model names in requests ("model") that a worker answers to: the names of --model-name; without them the
// model file's own name, the path of --model and the path's last component, with or without ".gguf", and then
// also "OWNER/name" if the worker answers to "name". A job that names another model is answered with a
// warning or, with --require-model, refused. Thread: main.
#pragma once

#include "schemas/job.h"

struct model_names {
    char *const *given; // of --model-name, NULL-terminated; NULL: none
    struct text own;    // the model file's
    const char *path;   // of --model
    bool is_required;
};

// The model's name in results: the first of --model-name, else the model's own.
struct text model_names_first(const struct model_names *names);
bool model_names_have(const struct model_names *names, struct text name);
// A job without a model name passes. STATUS_REJECT: the job names another model, and --require-model is set.
// STATUS_RETRY: out of memory.
enum status model_names_check(const struct model_names *names, struct job *job,
                              struct error *error) WARN_UNUSED;
