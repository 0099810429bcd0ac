// The hybrid: a backend over two backends, a device and the host, for models or KV caches that exceed the
// device memory:
//
//   layers      the embedding and the first layers are on the host, the other layers and the output on the
//               device (llama.cpp: -ngl); KV pages and recurrent states are with their layer. One transfer per
//               step.
//   attention   KV pages and attention of all layers are on the host (llama.cpp: --no-kv-offload); the GEMMs
//               are where their layer is. In each device layer queries, keys and values are transferred to
//               the host and the output of attention back. Recurrent states are with their layer.
//   experts     the routed experts of the first layers are on the host, all else on the device (llama.cpp:
//               --n-cpu-moe). In each of these layers router logits and the experts' input are transferred to
//               the host and their sum back.
//
// An operation with weights or pages runs where these are, any other where its input is; matrices needed on
// the other backend are copied. The choice depends only on the placement, never on a step, so results are
// batch-invariant, because both backends are. Another placement gives other bytes, because device and host
// round differently.
//
// Thread: engine.
#pragma once

#include "engine/backend.h"

struct placement {
    int32_t n_host_layers; // number of layers on the host; includes the embedding unless it is 0
    bool host_attention;
    int32_t n_host_experts; // number of layers whose experts are on the host; not with the others
};

// Number of layers with KV pages on the host, and of recurrent layers on the host. They are the first ones of each
// kind.
int32_t placement_host_pages(const struct placement *placement, const struct model *model);
int32_t placement_host_states(const struct placement *placement, const struct model *model);

// Creates a backend for this model, which is read in this call only. On success takes ownership of both backends,
// which must be new. The device must implement `wait` (engine/backend.h), because all its steps have `stops` set.
// Errors: ERROR_OUT_OF_MEMORY.
enum status hybrid_backend_create(struct backend **backend, struct backend *device, struct backend *host,
                                  const struct model *model, const struct placement *placement,
                                  struct error *error) WARN_UNUSED;
