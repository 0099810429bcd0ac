// The names of a model in requests ("model") that a worker answers to: those of --model-name, else the model
// file's own, the path of --model and the path's last part, with or without ".gguf"; of a request's
// "owner/name" then the name is enough. A job that names another model is answered with a warning, or, with
// --require-model, refused.
// Thread: main.
#pragma once

#include "schemas/job.h"

struct model_names {
    char *const *given; // of --model-name, NULL behind the last; NULL: none
    struct text own;    // the model file's
    const char *path;   // of --model
    bool is_required;
};

// The model's name in results: the first that is given, else its own.
struct text model_names_first(const struct model_names *names);
bool model_names_have(const struct model_names *names, struct text name);
// A job without a model is anybody's. STATUS_REJECT: it names another one, which is refused. STATUS_RETRY: out
// of memory.
enum status model_names_check(const struct model_names *names, struct job *job,
                              struct error *error) WARN_UNUSED;
