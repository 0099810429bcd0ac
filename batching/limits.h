// The batch's size and memory, derived from the machine and the model; what a person asked for stands. Printed at start.
//
// A model or a cache that the device does not hold is placed on device and host together (engine/placed.h): what asks for most
// of the device and fits is taken, in this order: everything on the device; when KV pages were asked for that do not fit beside the
// weights, attention and pages on the host; as many of the last layers as fit; both of these.
#pragma once

#include "batching/batcher.h"
#include "engine/forward.h"
#include "engine/placed.h"

enum placing { PLACING_AUTO, PLACING_DEVICE, PLACING_LAYERS, PLACING_ATTENTION };

struct limits_wanted { // 0: derive
    struct backend *backend; // asked what weights and steps take; NULL: as much as in the file
    bool device;             // a GPU: larger steps, and its memory is there for this alone
    int32_t n_sequences_max;
    int32_t n_rows_max;
    int32_t n_jobs_max;
    uint64_t page_bytes; // memory for KV pages
    const enum kv_type *kv_type; // of the pages; NULL: derive
    // What a device does not hold may go here; NULL: it holds everything, or the model is refused.
    struct backend *host;
    uint64_t host_memory_available;
    enum placing placing;
    int32_t n_device_layers; // with PLACING_LAYERS and PLACING_ATTENTION: so many last ones on the device
};

struct limits_plan {
    struct batch_limits batch;
    struct forward_limits forward;
    struct placement placement;                      // all zero: one backend computes everything
    uint64_t weight_bytes, matrix_bytes, page_bytes; // matrix_bytes: with what else steps need; page_bytes: of all pages
    uint64_t host_weight_bytes, host_page_bytes;     // of them not the device's
};

enum {
    LIMITS_PAGE_POSITIONS = 16,
    LIMITS_SEQUENCES_MAX = 4096,
    LIMITS_ROWS_MAX = 16384,
    LIMITS_JOBS_MAX = 16384, // what the offset map of one partition can cover
};

enum kv_type limits_kv_type(const struct model *model); // keys and values are kept as exact as the weights deserve
bool limits_is_placed(const struct limits_plan *plan); // device and host compute together
// "20 of 32 layers on the GPU with ..": for the log; with the option that asks for the same again.
void limits_describe_placement(const struct limits_plan *plan, const struct model *model, char *text, size_t size);

// `memory_available`: bytes the backend may take for all. Errors: STATUS_REFUSE, ERROR_OUT_OF_MEMORY, naming what was
// needed, what there is and what would fit.
enum status limits_derive(struct limits_plan *plan, const struct model *model, uint64_t memory_available,
                          const struct limits_wanted *wanted, struct error *error) WARN_UNUSED;

// What computing steps a second time on the CPU takes besides (engine/check.h): its limits, with as many pages as the plan has or as there is
// room for, and bytes. `host_memory_available` is what there was before the plan was carried out, of which the plan's own host
// part is taken off. Errors: STATUS_REFUSE, ERROR_OUT_OF_MEMORY.
enum status limits_derive_check(const struct limits_plan *plan, const struct model *model, uint64_t host_memory_available,
                                struct forward_limits *check, uint64_t *bytes, struct error *error) WARN_UNUSED;
