#include "batching/limits.h"

#include "engine/embedding.h"

#include "batching/speculation.h"

#include <stdio.h>
#include <string.h>

// From about 30 tokens per step, a CPU's GEMMs are compute-bound rather than bound by the memory bandwidth of
// the weights. Twice that stays above it while sequences finish. 512 tokens leave room for a prefill chunk of
// several hundred.
enum { SEQUENCES_DEFAULT = 64, TOKENS_DEFAULT = 512, JOBS_PER_SEQUENCE = 32, JOBS_LEAST = 1024 };
// A GPU's GEMMs are memory-bound up to some hundred tokens per step and compute-bound only from thousands on.
enum { DEVICE_SEQUENCES_DEFAULT = 256, DEVICE_TOKENS_DEFAULT = 4096 };
// Layers are offloaded until the memory left for KV pages holds this many positions. POSITIONS_LEAST, enough
// for one long job, applies while the device can hold all weights. If layers must be split anyway, the goal
// is POSITIONS_A_SEQUENCE, enough for a typical job in every sequence.
enum { POSITIONS_LEAST = 2048, POSITIONS_A_SEQUENCE = 512 };

// Default: float32 for float32 weights, else 16 bits.
static enum kv_type default_kv_type(const struct model *model)
{
    int32_t i = 0;
    while (i < model->shape.n_layers - 1 && !model->layers[i].attends)
        i++;
    return model->layers[i].tensors[SLOT_ATTN_K].type == TENSOR_F32 ? KV_F32 : KV_F16;
}

static int32_t at_least(int32_t value, int32_t least)
{
    return value < least ? least : value;
}

static void set_counts(struct batch_limits *batch, const struct limits_wanted *wanted, bool large)
{
    batch->page_positions = LIMITS_PAGE_POSITIONS;
    int32_t sequences = large ? DEVICE_SEQUENCES_DEFAULT : SEQUENCES_DEFAULT;
    int32_t tokens = large ? DEVICE_TOKENS_DEFAULT : TOKENS_DEFAULT;
    batch->n_sequences_max = wanted->n_sequences_max ? wanted->n_sequences_max : sequences;
    if (batch->n_sequences_max > LIMITS_SEQUENCES_MAX)
        batch->n_sequences_max = LIMITS_SEQUENCES_MAX;
    batch->n_tokens_max =
        wanted->n_tokens_max ? wanted->n_tokens_max : at_least(tokens, 2 * batch->n_sequences_max);
    batch->n_tokens_max = at_least(batch->n_tokens_max, batch->n_sequences_max);
    if (batch->n_tokens_max > LIMITS_TOKENS_MAX)
        batch->n_tokens_max = LIMITS_TOKENS_MAX;
    int32_t n_free = batch->n_tokens_max - batch->n_sequences_max;
    batch->n_drafts_max = wanted->n_drafts_max < n_free ? wanted->n_drafts_max : n_free;
    int32_t jobs = at_least(batch->n_sequences_max * JOBS_PER_SEQUENCE, JOBS_LEAST);
    batch->n_jobs_max = wanted->n_jobs_max ? wanted->n_jobs_max : jobs;
    if (batch->n_jobs_max > LIMITS_JOBS_MAX)
        batch->n_jobs_max = LIMITS_JOBS_MAX;
}

// ---- memory of a placement ----

enum { DEVICE, HOST, N_BACKENDS };

// Memory that a placement needs on one backend.
struct memory {
    uint64_t available_bytes;
    uint64_t weight_bytes, matrix_bytes, draft_bytes, state_bytes;
    uint64_t page_bytes; // bytes of one page, with the attention scratch for its positions
};

// One candidate for the plan: a placement and a batch size.
struct attempt {
    const struct model *model;
    const struct limits_wanted *wanted;
    uint64_t available_bytes;
    struct placement placement;
    bool large;              // step sizes of a GPU
    bool snapshots;          // slots for snapshots of recurrent states are planned
    int32_t positions_least; // minimum for the pages, unless --kv-memory is given
};

static bool takes_host(const struct placement *placement)
{
    return placement->n_host_layers > 0 || placement->host_attention || placement->n_host_experts > 0;
}

bool limits_is_hybrid(const struct limits_plan *plan)
{
    return takes_host(&plan->placement);
}

static uint64_t count_scratch_bytes(struct backend *backend, const struct model *model,
                                    const struct batch_limits *batch, int64_t n_positions)
{
    if (!backend)
        return 0;
    return backend->device.scratch_bytes(backend, &model->shape, batch->n_tokens_max,
                                         batch->n_sequences_max + batch->n_drafts_max, n_positions);
}

static void count_weights(const struct attempt *attempt, struct memory memory[N_BACKENDS])
{
    const struct limits_wanted *wanted = attempt->wanted;
    const struct model *model = attempt->model;
    int32_t n_host = attempt->placement.n_host_layers;
    if (!takes_host(&attempt->placement)) {
        memory[DEVICE].weight_bytes = wanted->backend ? forward_weight_bytes(model, wanted->backend)
                                                      : model_weight_bytes(model) - model_mapped_bytes(model);
        return;
    }
    int before = n_host > 0 ? HOST : DEVICE;
    memory[before].weight_bytes +=
        forward_layer_bytes(model, before == HOST ? wanted->host : wanted->backend, LAYER_BEFORE);
    memory[DEVICE].weight_bytes += forward_layer_bytes(model, wanted->backend, LAYER_AFTER);
    for (int32_t i = 0; i < model->shape.n_layers; i++) {
        int id = i < n_host ? HOST : DEVICE;
        memory[id].weight_bytes += forward_layer_bytes(model, id == HOST ? wanted->host : wanted->backend, i);
        if (i >= attempt->placement.n_host_experts)
            continue;
        memory[DEVICE].weight_bytes -= forward_experts_bytes(model, wanted->backend, i);
        memory[HOST].weight_bytes += forward_experts_bytes(model, wanted->host, i);
    }
}

// Bytes of one slot of recurrent states on each backend. 0: the backend refuses such models later.
static void count_slot_bytes(const struct attempt *attempt, uint64_t bytes[N_BACKENDS])
{
    const struct limits_wanted *wanted = attempt->wanted;
    uint64_t n_layers = (uint64_t)attempt->model->shape.recurrent.n_layers;
    uint64_t n_host = (uint64_t)placement_host_states(&attempt->placement, attempt->model);
    bytes[DEVICE] = bytes[HOST] = 0;
    if (n_layers > n_host)
        bytes[DEVICE] = forward_state_bytes(attempt->model, wanted->backend) / n_layers * (n_layers - n_host);
    if (n_host > 0)
        bytes[HOST] = forward_state_bytes(attempt->model, wanted->host) / n_layers * n_host;
}

// Plans recurrent states: one slot per sequence, plus half as many for snapshots of shared prefixes. Unless
// the batch size was given, it is limited so that the sequences' slots take at most a quarter of the memory
// left by the weights, and the snapshots at most an eighth, on each backend. KV pages of the same sequences need
// at least as much. With half as many snapshots as sequences, prompts compute at most 1 % more tokens than with
// unlimited snapshots (tests/unit/batching/unit_sharing.c).
static void set_states(const struct attempt *attempt, struct batch_limits *batch)
{
    const struct limits_wanted *wanted = attempt->wanted;
    if (attempt->model->shape.recurrent.n_layers == 0)
        return;
    uint64_t slot_bytes[N_BACKENDS], n_slots = UINT64_MAX;
    uint64_t available_bytes[N_BACKENDS] = {attempt->available_bytes, wanted->host_available_bytes};
    struct memory memory[N_BACKENDS] = {{0}};
    count_slot_bytes(attempt, slot_bytes);
    count_weights(attempt, memory);
    for (int i = 0; i < N_BACKENDS; i++) {
        uint64_t weight_bytes = memory[i].weight_bytes;
        uint64_t left_bytes = available_bytes[i] > weight_bytes ? available_bytes[i] - weight_bytes : 0;
        if (slot_bytes[i] && left_bytes / 4 / slot_bytes[i] < n_slots)
            n_slots = left_bytes / 4 / slot_bytes[i];
    }
    n_slots = n_slots == UINT64_MAX ? 0 : n_slots;
    if (!wanted->n_sequences_max && n_slots < (uint64_t)batch->n_sequences_max)
        batch->n_sequences_max = at_least((int32_t)n_slots, 1);
    int32_t n_snapshots = attempt->snapshots ? (batch->n_sequences_max + 1) / 2 : 0;
    if (n_slots / 2 < (uint64_t)n_snapshots)
        n_snapshots = (int32_t)n_slots / 2;
    batch->n_state_slots =
        wanted->n_state_slots ? wanted->n_state_slots : batch->n_sequences_max + n_snapshots;
    batch->n_drafts_max = 0;
}

static void count_states(const struct attempt *attempt, int32_t n_slots, struct memory memory[N_BACKENDS])
{
    uint64_t slot_bytes[N_BACKENDS];
    if (attempt->model->shape.recurrent.n_layers == 0)
        return;
    count_slot_bytes(attempt, slot_bytes);
    for (int i = 0; i < N_BACKENDS; i++)
        memory[i].state_bytes = (uint64_t)n_slots * slot_bytes[i];
}

static void count_bytes(const struct attempt *attempt, const struct limits_plan *plan,
                        uint64_t one_page_bytes, struct memory memory[N_BACKENDS])
{
    const struct limits_wanted *wanted = attempt->wanted;
    const struct placement *placement = &attempt->placement;
    enum { FAR = 1 << 20 }; // attention's scratch grows with the positions: measures bytes per position
    memset(memory, 0, N_BACKENDS * sizeof *memory);
    count_weights(attempt, memory);
    memory[DEVICE].available_bytes = attempt->available_bytes;
    memory[HOST].available_bytes = wanted->host_available_bytes;
    memory[DEVICE].matrix_bytes = forward_matrix_bytes(attempt->model, &plan->forward);
    if (takes_host(placement))
        memory[HOST].matrix_bytes = 2 * memory[DEVICE].matrix_bytes; // with the transfer buffers
    uint64_t fixed_bytes = count_scratch_bytes(wanted->backend, attempt->model, &plan->batch, 0);
    memory[DEVICE].matrix_bytes += fixed_bytes;
    if (plan->batch.n_drafts_max > 0) // drafts exist only on a CPU, whose device memory is the host's memory
        memory[DEVICE].draft_bytes =
            speculation_bytes(plan->batch.n_sequences_max, attempt->model->shape.n_context);
    count_states(attempt, plan->batch.n_state_slots, memory);
    int32_t n_layers = attempt->model->shape.attention.n_layers,
            n_host = placement_host_pages(placement, attempt->model);
    memory[HOST].page_bytes = forward_share_bytes(attempt->model, wanted->backend, plan->batch.page_positions,
                                                  plan->forward.kv_type, 0, n_host);
    memory[DEVICE].page_bytes = one_page_bytes - memory[HOST].page_bytes;
    if (n_host < n_layers)
        memory[DEVICE].page_bytes +=
            (count_scratch_bytes(wanted->backend, attempt->model, &plan->batch, FAR) - fixed_bytes) *
            (uint64_t)plan->batch.page_positions / FAR;
}

// Computes the number of pages for the remaining memory. *most: the number that fits. *unasked: the default
// number, limited to half of the remaining memory (95 % on a GPU) and to the full context of all sequences.
static void count_pages(const struct attempt *attempt, const struct limits_plan *plan,
                        const struct memory memory[N_BACKENDS], uint64_t *most, uint64_t *unasked)
{
    uint64_t pages_a_sequence =
        ((uint64_t)attempt->model->shape.n_context + LIMITS_PAGE_POSITIONS - 1) / LIMITS_PAGE_POSITIONS;
    *most = INT32_MAX / 2;
    *unasked = pages_a_sequence * (uint64_t)plan->batch.n_sequences_max;
    for (int i = 0; i < N_BACKENDS; i++) {
        const struct memory *one = &memory[i];
        uint64_t fixed_bytes = one->weight_bytes + one->matrix_bytes + one->draft_bytes + one->state_bytes,
                 left_bytes = one->available_bytes > fixed_bytes ? one->available_bytes - fixed_bytes : 0;
        uint64_t share_bytes = i == DEVICE && attempt->wanted->device ? left_bytes / 20 * 19 : left_bytes / 2;
        if (fixed_bytes > one->available_bytes)
            *most = 0;
        if (one->page_bytes) {
            *most = left_bytes / one->page_bytes < *most ? left_bytes / one->page_bytes : *most;
            *unasked = share_bytes / one->page_bytes < *unasked ? share_bytes / one->page_bytes : *unasked;
        }
    }
    *unasked = *unasked < *most ? *unasked : *most;
}

static uint64_t pages_least(const struct attempt *attempt)
{
    int32_t positions = attempt->positions_least;
    if (positions > attempt->model->shape.n_context && positions == POSITIONS_LEAST)
        positions = attempt->model->shape.n_context;
    uint64_t pages = ((uint64_t)positions + LIMITS_PAGE_POSITIONS - 1) / LIMITS_PAGE_POSITIONS;
    return pages > 0 ? pages : 1;
}

static bool attempt_fits(struct limits_plan *plan, const struct attempt *attempt)
{
    const struct limits_wanted *wanted = attempt->wanted;
    *plan = (struct limits_plan){.placement = attempt->placement};
    struct batch_limits *batch = &plan->batch;
    set_counts(batch, wanted, attempt->large);
    set_states(attempt, batch);
    plan->forward = (struct forward_limits){.n_tokens_max = batch->n_tokens_max,
                                            .n_outputs_max = batch->n_sequences_max + batch->n_drafts_max,
                                            .n_sequences_max = batch->n_sequences_max + batch->n_drafts_max,
                                            .page_positions = batch->page_positions,
                                            .n_state_slots = batch->n_state_slots,
                                            .kv_type = wanted->kv_type ? *wanted->kv_type
                                                                       : default_kv_type(attempt->model),
                                            .hidden_only = wanted->hidden_only};
    if (wanted->hidden_only)
        plan->forward.n_outputs_max = plan->forward.n_tokens_max;
    struct memory memory[N_BACKENDS];
    uint64_t most, unasked,
        one_page_bytes =
            forward_page_bytes(attempt->model, wanted->backend, batch->page_positions, plan->forward.kv_type);
    count_bytes(attempt, plan, one_page_bytes, memory);
    count_pages(attempt, plan, memory, &most, &unasked);
    uint64_t n_pages = wanted->page_bytes ? wanted->page_bytes / one_page_bytes : unasked;
    uint64_t least = wanted->page_bytes ? 1 : pages_least(attempt);
    if (wanted->page_bytes && n_pages > INT32_MAX / 2)
        n_pages = INT32_MAX / 2;
    plan->weight_bytes = memory[DEVICE].weight_bytes;
    plan->matrix_bytes = memory[DEVICE].matrix_bytes;
    plan->draft_bytes = memory[DEVICE].draft_bytes;
    plan->state_bytes = memory[DEVICE].state_bytes + memory[HOST].state_bytes;
    plan->host_state_bytes = memory[HOST].state_bytes;
    plan->host_weight_bytes = memory[HOST].weight_bytes;
    plan->host_page_bytes = n_pages * memory[HOST].page_bytes;
    plan->page_bytes = n_pages * one_page_bytes;
    batch->n_pages = plan->forward.n_pages = (int32_t)n_pages;
    return n_pages >= least && n_pages <= most;
}

// ---- choice of the placement ----

enum {
    FOR_AUTO = 1 << PLACING_AUTO,
    FOR_DEVICE = 1 << PLACING_DEVICE,
    FOR_LAYERS = 1 << PLACING_LAYERS,
    FOR_ATTENTION = 1 << PLACING_ATTENTION,
    FOR_EXPERTS = 1 << PLACING_EXPERTS
};
enum { NEEDS_HOST = 1, NEEDS_PAGE_BYTES = 2 }; // a host to offload to; --kv-memory
// HOST_LAYERS_FEWEST: the smallest number, from 1 on, that fits
enum host_layers { HOST_LAYERS_NONE, HOST_LAYERS_GIVEN, HOST_LAYERS_FEWEST };

// In order of preference: the first one that fits is the plan.
static const struct placement_candidate {
    unsigned placings; // values of --placement
    unsigned needs;
    enum host_layers host_layers;
    bool host_attention;
    // True: tries large steps first, then smaller ones, which leave more memory for pages. False: tries only
    // smaller ones.
    bool large;
    int32_t positions_least; // 0: one page. A few pages on the device are better than no plan.
    bool experts;            // the layers' experts only
} candidates[] = {
    {FOR_LAYERS, 0, HOST_LAYERS_GIVEN, false, true, 0},
    {FOR_ATTENTION, 0, HOST_LAYERS_GIVEN, true, true, 0},
    {FOR_AUTO, NEEDS_HOST, HOST_LAYERS_NONE, false, true, POSITIONS_LEAST},
    {FOR_AUTO, NEEDS_HOST | NEEDS_PAGE_BYTES, HOST_LAYERS_NONE, true, true, POSITIONS_LEAST},
    {FOR_LAYERS, 0, HOST_LAYERS_NONE, false, true, POSITIONS_A_SEQUENCE},
    {FOR_AUTO | FOR_LAYERS, NEEDS_HOST, HOST_LAYERS_FEWEST, false, false, POSITIONS_A_SEQUENCE},
    {FOR_AUTO, NEEDS_HOST, HOST_LAYERS_NONE, true, true, POSITIONS_LEAST},
    {FOR_ATTENTION, 0, HOST_LAYERS_NONE, true, true, 0},
    {FOR_AUTO | FOR_ATTENTION, NEEDS_HOST, HOST_LAYERS_FEWEST, true, false, POSITIONS_A_SEQUENCE},
    {FOR_EXPERTS, 0, HOST_LAYERS_GIVEN, false, true, 0, .experts = true},
    {FOR_EXPERTS, 0, HOST_LAYERS_NONE, false, true, POSITIONS_A_SEQUENCE},
    {FOR_EXPERTS, NEEDS_HOST, HOST_LAYERS_FEWEST, false, false, POSITIONS_A_SEQUENCE, .experts = true},
    {FOR_AUTO | FOR_DEVICE, 0, HOST_LAYERS_NONE, false, true, 0},
};

static bool is_candidate(const struct placement_candidate *candidate, const struct limits_wanted *wanted)
{
    bool given = wanted->placing >= PLACING_LAYERS && wanted->n_device_layers != 0;
    return (candidate->placings & 1u << wanted->placing) &&
           (candidate->host_layers == HOST_LAYERS_GIVEN) == given &&
           (!(candidate->needs & NEEDS_HOST) || wanted->host) &&
           (!(candidate->needs & NEEDS_PAGE_BYTES) || wanted->page_bytes);
}

static bool candidate_fits(struct limits_plan *plan, const struct placement_candidate *candidate,
                           struct attempt attempt)
{
    int32_t n_layers = attempt.model->shape.n_layers, first = 0, last = 0;
    if (candidate->host_layers == HOST_LAYERS_GIVEN)
        first = last = n_layers - at_least(attempt.wanted->n_device_layers, 0);
    if (candidate->host_layers == HOST_LAYERS_FEWEST)
        first = 1, last = candidate->experts ? n_layers : n_layers - 1;
    attempt.positions_least = candidate->positions_least;
    bool large = candidate->large && attempt.wanted->device;
    for (int32_t n_host = first; n_host <= last; n_host++) {
        attempt.placement = candidate->experts ? (struct placement){.n_host_experts = n_host}
                                               : (struct placement){n_host, candidate->host_attention, 0};
        for (int smaller = large ? 0 : 1; smaller < 2; smaller++) {
            attempt.large = !smaller;
            attempt.snapshots = !attempt.wanted->no_snapshots;
            if (attempt_fits(plan, &attempt))
                return true;
            attempt.snapshots = false;
            if (attempt.model->shape.recurrent.n_layers && attempt_fits(plan, &attempt))
                return true;
        }
    }
    return false;
}

// False: none fits; *plan is the last attempt.
static bool choose_plan(struct limits_plan *plan, const struct attempt *attempt)
{
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++)
        if (is_candidate(&candidates[i], attempt->wanted) && candidate_fits(plan, &candidates[i], *attempt))
            return true;
    return false;
}

// ---- options that would fit, for the error text ----

static void add_text(char *text, size_t size, const char *more)
{
    size_t length = strlen(text);
    snprintf(text + length, size - length, "%s%s", length ? ", or " : "", more);
}

// Writes the size as --kv-memory reads it. Rounds down, so that the size still fits; with `up` rounds up, so
// that it suffices.
static void size_text(uint64_t bytes, bool up, char text[32])
{
    bool small = bytes < 16 << 20;
    uint64_t unit = small ? 1 << 10 : 1 << 20;
    snprintf(text, 32, "%llu%c", (unsigned long long)((bytes + (up ? unit - 1 : 0)) / unit),
             small ? 'K' : 'M');
}

static void advise_options(const struct attempt *refused, char *text, size_t size)
{
    struct limits_wanted wanted = *refused->wanted;
    struct attempt attempt = *refused;
    struct limits_plan plan;
    char more[128], number[32];
    text[0] = '\0';
    attempt.wanted = &wanted;
    wanted.n_device_layers = 0;
    wanted.page_bytes = 0;
    wanted.placing = PLACING_DEVICE;
    if (choose_plan(&plan, &attempt)) {
        size_text(plan.page_bytes, false, number);
        snprintf(more, sizeof more, "--kv-memory %s", number);
        add_text(text, size, more);
    }
    wanted.page_bytes = refused->wanted->page_bytes;
    wanted.placing = PLACING_LAYERS;
    if (wanted.host && choose_plan(&plan, &attempt)) {
        snprintf(more, sizeof more, "--placement layers:%d (of %d layers)",
                 attempt.model->shape.n_layers - plan.placement.n_host_layers, attempt.model->shape.n_layers);
        add_text(text, size, more);
    }
    wanted.placing = PLACING_EXPERTS;
    if (wanted.host && attempt.model->shape.experts.n && choose_plan(&plan, &attempt)) {
        snprintf(more, sizeof more, "--placement experts:%d (of %d layers)",
                 attempt.model->shape.n_layers - plan.placement.n_host_experts,
                 attempt.model->shape.n_layers);
        add_text(text, size, more);
    }
    wanted.placing = PLACING_ATTENTION;
    if (wanted.host && choose_plan(&plan, &attempt))
        add_text(text, size, "--placement attention-cpu");
    if (!text[0])
        add_text(text, size,
                 refused->wanted->host ? "--backend cpu, or a smaller --max-batch"
                                       : "a smaller --kv-memory or --max-batch");
}

static enum status check_page(const struct attempt *attempt, struct error *error)
{
    const struct limits_wanted *wanted = attempt->wanted;
    enum kv_type type = wanted->kv_type ? *wanted->kv_type : default_kv_type(attempt->model);
    uint64_t one_page_bytes =
        forward_page_bytes(attempt->model, wanted->backend, LIMITS_PAGE_POSITIONS, type);
    if (!wanted->page_bytes || wanted->page_bytes >= one_page_bytes)
        return STATUS_OK;
    int32_t n_context = attempt->model->shape.n_context;
    char page[32], context[32];
    size_text(one_page_bytes, true, page);
    size_text(((uint64_t)n_context + LIMITS_PAGE_POSITIONS - 1) / LIMITS_PAGE_POSITIONS * one_page_bytes,
              true, context);
    return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                     "--kv-memory: expected at least %s, a page of %d positions, got %llu bytes; %s hold one "
                     "sequence of the model's whole context of %d",
                     page, LIMITS_PAGE_POSITIONS, (unsigned long long)wanted->page_bytes, context, n_context);
}

static enum status refuse_plan(const struct attempt *attempt, const struct limits_plan *plan,
                               struct error *error)
{
    char advice[320], host[128] = "", states[96] = "";
    uint64_t one_page_bytes = forward_page_bytes(attempt->model, attempt->wanted->backend,
                                                 plan->batch.page_positions, plan->forward.kv_type);
    advise_options(attempt, advice, sizeof advice);
    if (limits_is_hybrid(plan))
        snprintf(host, sizeof host, " (and on the host %.1f MB of %.1f MB)",
                 (double)(plan->host_weight_bytes + plan->host_page_bytes + plan->host_state_bytes) / 1e6,
                 (double)attempt->wanted->host_available_bytes / 1e6);
    if (plan->state_bytes)
        snprintf(states, sizeof states, "the recurrent states of %d sequences %.1f MB, ",
                 plan->batch.n_sequences_max, (double)(plan->state_bytes - plan->host_state_bytes) / 1e6);
    return error_set(
        error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY,
        "memory: %.1f MB are available; weights take %.1f MB, matrices for steps of %d tokens %.1f MB, %sand "
        "the KV pages %.1f MB (one page of %d positions: %.2f MB)%s; would fit: %s",
        (double)attempt->available_bytes / 1e6, (double)plan->weight_bytes / 1e6, plan->batch.n_tokens_max,
        (double)plan->matrix_bytes / 1e6, states, (double)(plan->page_bytes - plan->host_page_bytes) / 1e6,
        plan->batch.page_positions, (double)one_page_bytes / 1e6, host, advice);
}

enum status limits_derive(struct limits_plan *plan, const struct model *model, uint64_t available_bytes,
                          const struct limits_wanted *wanted, struct error *error)
{
    struct attempt attempt = {.model = model, .wanted = wanted, .available_bytes = available_bytes};
    if (!wanted->hidden_only && !model_has_logits(model))
        return error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE, "%s (%s) %s: it generates no text; %s",
                         model->name, model_family_name(model),
                         model->shape.bidirectional ? "attends in both directions" : "has no output matrix",
                         model->classifier.output.data
                             ? "sheaf classify and sheaf rerank compute its scores"
                             : "a worker with --task embed and sheaf embed compute its embeddings");
    if (wanted->n_device_layers > model->shape.n_layers)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "--placement: %d layers on the device, the model has %d", wanted->n_device_layers,
                         model->shape.n_layers);
    if (wanted->placing == PLACING_EXPERTS && !model->shape.experts.n)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--placement experts: family %s has no experts",
                         model_family_name(model));
    if (check_page(&attempt, error) != STATUS_OK)
        return error->status;
    return choose_plan(plan, &attempt) ? STATUS_OK : refuse_plan(&attempt, plan, error);
}

void limits_set_embedding(struct limits_wanted *wanted, const struct model *model, int32_t n_longest)
{
    static const enum kv_type type = KV_F32;
    enum { TEXTS_A_STEP_MAX = 64 };
    wanted->hidden_only = true;
    bool few = wanted->n_tokens_max && wanted->n_tokens_max < TEXTS_A_STEP_MAX;
    if (!model->shape.recurrent.n_layers) // else fewer texts are derived: each has a state in memory
        wanted->n_sequences_max = few ? wanted->n_tokens_max : TEXTS_A_STEP_MAX;
    if (!model->shape.bidirectional)
        return;
    struct batch_limits batch = {0};
    set_counts(&batch, wanted, wanted->device);
    struct forward_limits limits = {.n_tokens_max = batch.n_tokens_max,
                                    .n_sequences_max = batch.n_sequences_max,
                                    .page_positions = batch.page_positions};
    wanted->kv_type = &type;
    wanted->page_bytes = (uint64_t)embedder_pages(&limits, n_longest) *
                         forward_page_bytes(model, wanted->backend, batch.page_positions, type);
}

void limits_describe_placement(const struct limits_plan *plan, const struct model *model, char *text,
                               size_t size)
{
    int32_t n_layers = model->shape.n_layers, n_device = n_layers - plan->placement.n_host_layers;
    bool attention = plan->placement.host_attention;
    if (plan->placement.n_host_experts) {
        snprintf(
            text, size,
            "the experts of %d of %d layers on the CPU with %.1f MB, the rest on the GPU with %.1f MB of "
            "weights and %.1f MB of KV pages (--placement experts:%d)",
            plan->placement.n_host_experts, n_layers, (double)plan->host_weight_bytes / 1e6,
            (double)plan->weight_bytes / 1e6, (double)plan->page_bytes / 1e6,
            n_layers - plan->placement.n_host_experts);
        return;
    }
    char number[16] = "";
    if (!attention || n_device < n_layers)
        snprintf(number, sizeof number, ":%d", n_device);
    char states[64] = "", host_states[32] = "";
    if (plan->state_bytes) {
        snprintf(states, sizeof states, ", %.1f MB of recurrent states",
                 (double)(plan->state_bytes - plan->host_state_bytes) / 1e6);
        snprintf(host_states, sizeof host_states, ", %.1f MB", (double)plan->host_state_bytes / 1e6);
    }
    snprintf(text, size,
             "%d of %d layers on the GPU with %.1f MB of weights%s and %.1f MB of KV pages, the rest on the "
             "CPU with %.1f MB%s and %.1f MB%s (--placement %s%s)",
             n_device, n_layers, (double)plan->weight_bytes / 1e6, states,
             (double)(plan->page_bytes - plan->host_page_bytes) / 1e6, (double)plan->host_weight_bytes / 1e6,
             host_states, (double)plan->host_page_bytes / 1e6,
             attention ? ", attention of all layers there" : "", attention ? "attention-cpu" : "layers",
             number);
}

enum status limits_derive_check(const struct limits_plan *plan, const struct model *model,
                                uint64_t host_available_bytes, struct forward_limits *check, uint64_t *bytes,
                                struct error *error)
{
    *check = plan->forward;
    if (check->kv_type != KV_F32)
        check->kv_type = KV_F32_OF_F16; // binary16 values: the CPU's KV_F16 rounds differently
    uint64_t one_page_bytes = forward_page_bytes(model, NULL, check->page_positions, check->kv_type);
    uint64_t logit_bytes =
        2 * (uint64_t)check->n_outputs_max * (uint64_t)model->shape.n_vocab * sizeof(float);
    uint64_t fixed_bytes = model_weight_bytes(model) + forward_matrix_bytes(model, check) + logit_bytes;
    uint64_t planned_bytes = plan->host_weight_bytes + plan->host_page_bytes + plan->host_state_bytes;
    uint64_t left_bytes = host_available_bytes > planned_bytes + fixed_bytes
                              ? host_available_bytes - planned_bytes - fixed_bytes
                              : 0;
    uint64_t n_pages = left_bytes / 2 / one_page_bytes;
    if (n_pages < 1)
        return error_set(
            error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY,
            "--check-cpu: computing on the CPU too takes %.1f MB for weights, matrices and "
            "logits, and pages of %.2f MB each; of the host's memory %.1f MB are available",
            (double)fixed_bytes / 1e6, (double)one_page_bytes / 1e6,
            (double)(host_available_bytes > planned_bytes ? host_available_bytes - planned_bytes : 0) / 1e6);
    if (n_pages < (uint64_t)check->n_pages)
        check->n_pages = (int32_t)n_pages;
    *bytes = fixed_bytes + (uint64_t)check->n_pages * one_page_bytes;
    return STATUS_OK;
}
