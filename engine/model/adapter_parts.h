// Shared by adapter.c (adapters of a model), adapter_open.c, adapter_gguf.c and adapter_folder.c (their formats). Private
// to these.
#pragma once

#include "engine/model/adapter.h"
#include "engine/model/folder/folder_parts.h"

// An adapter's matrices for one slot of one layer.
struct adapter_part {
    int32_t set;   // 0: all sets
    int32_t layer; // LAYER_OUTPUT: the output matrix
    enum layer_slot slot;
    struct tensor down, up; // A, B
    uint64_t first_row;     // the slot's first row of B, in GGUF's order
    enum folder_form form;  // order of B's rows
    double scale;
};

struct adapter_file {
    struct gguf *gguf; // one of the two
    struct safetensors *weights;
    int32_t set;            // 0: all sets
    uint64_t settings_hash; // of the scales of a folder's matrices
    double scale;
};

struct adapters {
    struct adapter_file files[ADAPTERS_MAX];
    int n_files;
    int32_t n_sets;
    int32_t rank_max;           // of all sets and matrices
    struct adapter_part *parts; // of all files, in their order
    size_t n_parts, capacity;
    size_t file_parts; // first part of the file that is being opened
};

// A pair of A and B for the model's tensor `target`, in GGUF's name.
struct adapter_pair {
    const struct tensor *down, *up;
    struct text target;
    enum folder_form form;
    double scale;
};

// adapter.c: adds the parts of a pair, one for each slot that is a slice of the target. STATUS_REFUSE: the model has no
// such matrix, it can't be adapted, or a shape is wrong.
enum status adapter_add_pair(struct model *model, const struct adapter_pair *pair,
                             struct error *error) WARN_UNUSED;

// These open the file and add its pairs; the file is closed with the adapters, also on failure.
enum status adapter_open_gguf(struct model *model, struct adapter_file *file, const char *path,
                              struct error *error) WARN_UNUSED;
enum status adapter_open_folder(struct model *model, struct adapter_file *file, const char *path,
                                struct buffer *unknown, struct error *error) WARN_UNUSED;
