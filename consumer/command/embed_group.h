// Texts that sheaf embed computes and writes together, of lines or of a table's rows: some steps' tokens.
//
//   embed_group_plan, [embed_group_name], embed_group_open
//   embed_group_add ... until embed_group_is_full; embed_group_compute; embed_group_vector; embed_group_clear
//   embed_group_close
//
// A text that cannot be computed is an item with an error and harms no other. Memory is bounded by the step, the
// longest text and GROUP_BYTES of vectors. Thread: main.
#pragma once

#include "consumer/worker/embedding_runtime.h"
#include "consumer/worker/runtime.h"

struct embed_item {
    size_t first_id, n_ids; // of its tokens
    int32_t vector;         // its row; -1: none
    struct error error;     // STATUS_REJECT: why it has none
};

struct embed_group {
    struct runtime *runtime;
    struct embedding_runtime embedding;
    struct embedding_cut cut;
    struct embed_item *items; // [n_max]
    int32_t n, n_max;
    size_t n_group_tokens; // number at which a group is full
    struct token_array ids;
    struct embedding_text *texts; // [n_max]
    float *vectors;               // [n_max, n_dimensions]
    int64_t n_cut, n_tokens;      // of all groups: truncated texts, computed tokens
};

// The cut that --truncate asks for. STATUS_REFUSE: ERROR_USAGE.
enum status embed_cut_choose(struct embedding_cut *cut, const struct embed_options *options,
                             struct error *error) WARN_UNUSED;
// The options, the backend and the memory plan; the runtime has a loaded model and outlives the group.
enum status embed_group_plan(struct embed_group *group, struct runtime *runtime,
                             const struct settings *settings, struct error *error) WARN_UNUSED;
// Appends what the vectors depend on besides the texts, for resuming.
enum status embed_group_name(const struct embed_group *group, const struct settings *settings,
                             struct buffer *name, struct error *error) WARN_UNUSED;
// Packs the weights and opens the embedder.
enum status embed_group_open(struct embed_group *group, struct error *error) WARN_UNUSED;
void embed_group_close(struct embed_group *group);

// STATUS_OK also if the text cannot be computed: its item has the error. Must not be full.
enum status embed_group_add(struct embed_group *group, struct text text, struct error *error) WARN_UNUSED;
// Adds an item without a text.
void embed_group_add_fault(struct embed_group *group, const struct error *fault);
bool embed_group_is_full(const struct embed_group *group);
enum status embed_group_compute(struct embed_group *group, struct error *error) WARN_UNUSED;
// [n_dimensions], all finite; NULL: the item has an error.
const float *embed_group_vector(const struct embed_group *group, int32_t item);
void embed_group_clear(struct embed_group *group);
// Logs how many texts were cut.
void embed_group_say_cut(const struct embed_group *group);
