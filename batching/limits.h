// Batch size and memory plan, derived from the machine and the model; options given by the user are not
// changed. Printed at start.
//
// If model or KV cache exceed the device memory, they are split between device and host (hybrid,
// engine/hybrid.h). The first of these placements that fits is used:
//   1. everything on the device
//   2. attention and pages on the host, if --kv-memory was given and the pages do not fit beside the weights
//   3. as many of the last layers as fit on the device
//   4. both 2 and 3
#pragma once

#include "batching/batcher.h"
#include "engine/forward.h"
#include "engine/hybrid.h"

// PLACING_AUTO never chooses PLACING_EXPERTS.
enum placing { PLACING_AUTO, PLACING_DEVICE, PLACING_LAYERS, PLACING_ATTENTION, PLACING_EXPERTS };

enum { LIMITS_NO_LAYERS = -1 }; // n_device_layers: experts of no layer stay on the device

struct limits_wanted {       // 0: derive
    struct backend *backend; // computes the sizes of weights and scratch; NULL: sizes as in the file
    bool device;             // a GPU: larger steps, and nearly all of its memory may be used
    int32_t n_sequences_max;
    int32_t n_tokens_max;
    int32_t n_jobs_max;
    int32_t n_drafts_max;        // not derived; 0 means no drafts
    bool hidden_only;            // as in struct forward_limits: the number of outputs is the number of tokens
    int32_t n_state_slots;       // used by models with recurrent layers; 0: derive
    bool no_snapshots;           // plan one slot per sequence and none for shared prefixes
    uint64_t page_bytes;         // memory for KV pages
    const enum kv_type *kv_type; // type of the pages' items; NULL: derive
    // Offload to this backend what exceeds the device; NULL: the model must fit the device.
    struct backend *host;
    uint64_t host_available_bytes;
    enum placing placing;
    // Number of last layers that stay on the device (llama.cpp: -ngl), with PLACING_LAYERS and
    // PLACING_ATTENTION; that keep their experts there, with PLACING_EXPERTS.
    int32_t n_device_layers;
};

struct limits_plan {
    struct batch_limits batch;
    struct forward_limits forward;
    struct placement placement; // all zero: one backend computes everything
    // matrix_bytes includes scratch; page_bytes: pages of device and host; draft_bytes: memory of speculation;
    // state_bytes: recurrent states of device and host
    uint64_t weight_bytes, matrix_bytes, page_bytes, draft_bytes, state_bytes;
    uint64_t host_weight_bytes, host_page_bytes, host_state_bytes; // the host's share in a hybrid placement
};

enum {
    LIMITS_PAGE_POSITIONS = 16,
    LIMITS_SEQUENCES_MAX = 4096,
    LIMITS_TOKENS_MAX = 16384,
    LIMITS_DRAFTS = 32,      // draft tokens in one step: with more, a CPU's step is compute-bound
    LIMITS_JOBS_MAX = 16384, // offsets that the offset map of one partition covers
};

bool limits_is_hybrid(const struct limits_plan *plan); // hybrid: device and host compute together
// Describes the placement for the log, "20 of 32 layers on the GPU with ..", with the option that selects it.
void limits_describe_placement(const struct limits_plan *plan, const struct model *model, char *text,
                               size_t size);

// `available_bytes`: bytes that the backend may use in total. Errors: STATUS_REFUSE, ERROR_OUT_OF_MEMORY,
// with the bytes needed, the bytes available and options that would fit.
enum status limits_derive(struct limits_plan *plan, const struct model *model, uint64_t available_bytes,
                          const struct limits_wanted *wanted, struct error *error) WARN_UNUSED;

// Completes `wanted` for embeddings of texts of up to n_longest tokens. With bidirectional attention: float32
// pages for the keys and values of one layer and the longest text.
void limits_set_embedding(struct limits_wanted *wanted, const struct model *model, int32_t n_longest);

// Limits and bytes of the second computation on the CPU (engine/cross_check.h): with the plan's number of
// pages, or fewer if the memory does not hold them. `host_available_bytes` was measured before the plan's
// allocations; the plan's host part is subtracted here. Errors: STATUS_REFUSE, ERROR_OUT_OF_MEMORY.
enum status limits_derive_check(const struct limits_plan *plan, const struct model *model,
                                uint64_t host_available_bytes, struct forward_limits *check, uint64_t *bytes,
                                struct error *error) WARN_UNUSED;
