// One backend made of two, a device and the host, for models or caches that the device does not hold:
//
//   layers          the first layers and the embedding before them are the host's, all others and the output the device's;
//                   KV pages are where their layer is. Rows cross once a step.
//   attention       KV pages of all layers are the host's, and so is attention over them; the products before and
//                   after it stay where their layer is. Queries, keys and values cross in each of the device's layers, and
//                   what attention made of them crosses back.
//
// An operation runs where its weights or its pages are, one without either where its rows are; rows that are needed on
// the other side are copied there. All follows from the placement, nothing from a step: a row's result depends on its company as
// little as each side's operations do, and is the same bytes in every step. Another placement gives other bytes, since the two sides round
// differently.
//
// Thread: engine.
#pragma once

#include "engine/backend.h"

struct placement {
    int32_t n_host_layers; // with the embedding, unless 0
    bool host_attention;
};

// Takes both backends over, which must be new, unless it fails. The device waits (engine/backend.h) and sees every step as
// one that stops. Errors: ERROR_OUT_OF_MEMORY.
enum status placed_backend_create(struct backend **backend, struct backend *device, struct backend *host,
                                  const struct placement *placement, struct error *error) WARN_UNUSED;
