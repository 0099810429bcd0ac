// Opens a model that a test makes; its file is deleted.
#pragma once

#include "engine/model/model.h"
#include "tests/support/cases.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/make_model.h"

#include <unistd.h>

static inline struct model *open_model_of(const struct model_recipe *recipe)
{
    struct error error = {0};
    struct model *model;
    char directory[64], path[96];
    make_directory(directory);
    snprintf(path, sizeof path, "%s/model.gguf", directory);
    make_model(path, recipe);
    assert_ok(model_open(&model, path, &error), &error);
    unlink(path);
    rmdir(directory);
    return model;
}
