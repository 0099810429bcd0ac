// The name of an arithmetic: everything besides the request that determines an answer. Every result has it as
// `system_fingerprint`: results with equal names for equal requests are equal to the byte. Its parts are
// separated by spaces:
//
//   sheaf=4 model=9f86d081884c7d65 backend=cpu kv-type=f16
//   sheaf=4 model=9f86d081884c7d65 backend=cuda-sm90 kv-type=q8_0 placement=layers:20 max-tokens=512
//
//   sheaf     ARITHMETIC_VERSION
//   model     hash of the model's content (model_fingerprint), which `sheaf inspect` prints
//   backend   cpu, or cuda with the GPU's compute capability; engine-test
//   kv-type   type of the KV pages (--kv-type)
//   lora      hashes of the adapters (--lora) in their order, separated by commas, each with *SCALE if it is not 1
//   activation-bits  16 if --activation-bits is
//   placement on a GPU: device (all of it), layers:N, attention-cpu:N, experts:N (--placement)
//   others    options that change answers and are not at their default
//
// With --lora-modules the answers of each adapter have their own name: the name of a worker with this adapter as its last
// --lora. The fleet's name, to which datasets are bound, is the base model's name and all adapters, in the order of their
// names:
//
//   lora-modules=NAME:HASH[*SCALE],...
//
// Threads, memory, batch, window and the CPU's kernels do not change answers and are not included, nor is
// --model-name.
// Thread: main.
#pragma once

#include "consumer/worker/runtime.h"

// Increment it when the bytes of any answer change: kernels, forward pass, sampler, tokenizer, templates,
// stop rules.
enum { ARITHMETIC_VERSION = 4 };

// Sets runtime->arithmetic, the names in runtime->adapters and runtime->fleet_arithmetic from the runtime's model,
// backend and plan. Reads the whole model. Errors: STATUS_REFUSE; STATUS_RESTART after an interrupt (NULL: none).
enum status arithmetic_name(struct runtime *runtime, const struct settings *settings,
                            const struct interrupt *interrupt, struct error *error) WARN_UNUSED;
