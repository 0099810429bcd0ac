#include "gpu/state.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int32_t larger_of(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

// --- Matrices ---

enum { ROW_ALIGNMENT = 32 }; // floats: rows are aligned to 128 bytes

static void matrix_destroy(struct backend *base, struct matrix *matrix)
{
    if (!matrix)
        return;
    gpu_free(gpu_backend_of(base), matrix->device.items, matrix->size_bytes);
    free(matrix);
}

static enum status matrix_create(struct backend *base, int32_t n_rows_max, int32_t n_cols,
                                 struct matrix **out, struct error *error)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    assert(n_rows_max > 0 && n_cols > 0);
    *out = NULL;
    struct matrix *matrix = calloc(1, sizeof *matrix);
    int64_t stride = ((int64_t)n_cols + ROW_ALIGNMENT - 1) / ROW_ALIGNMENT * ROW_ALIGNMENT;
    size_t bytes = (size_t)n_rows_max;
    if (!matrix)
        return error_memory(error, STATUS_REFUSE, "a matrix");
    if (__builtin_mul_overflow(bytes, (size_t)stride * sizeof(float), &bytes))
        bytes = SIZE_MAX;
    else
        matrix->device.items = gpu_allocate(backend, bytes);
    if (!matrix->device.items) {
        char what[64];
        snprintf(what, sizeof what, "%d rows of %d items", n_rows_max, n_cols);
        free(matrix);
        return gpu_no_memory(backend, bytes, what, error);
    }
    matrix->device.stride = stride;
    matrix->size_bytes = bytes;
    matrix->n_rows_max = n_rows_max;
    matrix->n_cols = n_cols;
    backend->capacity.n_rows_max = larger_of(backend->capacity.n_rows_max, n_rows_max);
    backend->capacity.n_rows_least =
        backend->capacity.n_rows_least && backend->capacity.n_rows_least < n_rows_max
            ? backend->capacity.n_rows_least
            : n_rows_max;
    backend->capacity.n_cols_max = larger_of(backend->capacity.n_cols_max, n_cols);
    *out = matrix;
    return STATUS_OK;
}

// --- A step ---

static void add_times(struct step_slot *slot)
{
    phases_add(&slot->phases, &slot->times);
    if (slot->forward.way != STEP_EAGER)
        phases_add(&slot->forward.entry->phases, &slot->times);
    if (slot->sampling.way != STEP_EAGER)
        phases_add(&slot->sampling.entry->phases, &slot->times);
    phases_add(&slot->outcome_phases, &slot->times);
    slot->timed = true;
}

// Waits for submitted steps, before memory or graphs that they use are freed.
static enum status wait_submitted(struct gpu_backend *backend, struct error *error)
{
    if (backend->submitted.n_under_way == 0)
        return STATUS_OK;
    enum status status = device_wait(backend->device, error);
    for (int i = 0; i < 2; i++)
        if (status == STATUS_OK && backend->current.times &&
            &backend->submitted.slots[i] != backend->submitted.slot && !backend->submitted.slots[i].timed)
            add_times(&backend->submitted.slots[i]);
    return status;
}

// Reallocates pinned memory. Its contents are lost.
static enum status pin_again(struct gpu_backend *backend, unsigned char **memory, size_t size_bytes,
                             const char *what, struct error *error)
{
    device_unpin(backend->device, *memory);
    *memory = device_pin(backend->device, size_bytes);
    if (*memory)
        return STATUS_OK;
    if (device_status(backend->device, error) != STATUS_OK)
        return error->status;
    return error_set(error, STATUS_RESTART, ERROR_OUT_OF_MEMORY, "no pinned memory for %s: %zu bytes", what,
                     size_bytes);
}

// Grows the memory of steps' inputs, on the host and on the device, with slack so that growth is rare.
static enum status upload_reserve(struct gpu_backend *backend, size_t size_bytes, struct error *error)
{
    if (size_bytes <= backend->memory.upload.size_bytes)
        return STATUS_OK;
    size_t room = size_bytes + size_bytes / 2;
    enum status status = wait_submitted(backend, error);
    for (int i = 0; i < 2 && status == STATUS_OK; i++)
        status = pin_again(backend, &backend->submitted.slots[i].upload_host, room, "a step's input", error);
    graphs_clear(&backend->graphs, backend->device);
    if (status == STATUS_OK)
        status = gpu_scratch_reserve(backend, &backend->memory.upload, room, "a step's input", error);
    for (int i = 0; i < 2 && status == STATUS_OK; i++)
        status =
            gpu_scratch_reserve(backend, &backend->submitted.slots[i].upload, room, "a step's input", error);
    size_t given = (room / sizeof(struct sample_bias) + room / sizeof(int32_t)) * sizeof(float);
    if (status == STATUS_OK)
        status = gpu_scratch_reserve(backend, &backend->memory.given, given, "sampling", error);
    // The memory was planned at start, so another process has allocated some since. A restart plans again.
    if (status == STATUS_REFUSE)
        error->status = status = STATUS_RESTART;
    return status;
}

static enum status outcome_reserve(struct gpu_backend *backend, struct error *error)
{
    size_t size_bytes = gpu_outcome_bytes(backend->capacity.n_rows_least);
    if (size_bytes <= backend->memory.outcome.size_bytes)
        return STATUS_OK;
    enum status status = STATUS_OK;
    for (int i = 0; i < 2 && status == STATUS_OK; i++)
        status = pin_again(backend, &backend->submitted.slots[i].outcome_host, size_bytes, "a step's outcome",
                           error);
    return status == STATUS_OK
               ? gpu_scratch_reserve(backend, &backend->memory.outcome, size_bytes, "a step's outcome", error)
               : status;
}

// True for a pure decode step: one token per sequence, each with an output.
static bool is_decoding(const struct gpu_backend *backend, const struct step *step)
{
    return !backend->options.eager && !step->stops && step->samples && step->n_outputs == step->n_tokens &&
           step->n_sequences == step->n_tokens && step->n_tokens <= GRAPH_ROWS_MAX;
}

// Computes the sizes of the step's launches; in decode steps padded to the sizes of a graph.
static void measure_step(struct gpu_backend *backend, const struct step *step)
{
    backend->current.longest.n_positions = backend->current.longest.n_rows = 0;
    for (int32_t i = 0; i < step->n_sequences; i++) {
        const struct step_sequence *sequence = &step->sequences[i];
        int32_t n_positions = sequence->n_text ? sequence->n_text : sequence->position + sequence->n_tokens;
        backend->current.longest.n_positions = larger_of(backend->current.longest.n_positions, n_positions);
        backend->current.longest.n_rows = larger_of(backend->current.longest.n_rows, sequence->n_tokens);
    }
    backend->current.decoding = is_decoding(backend, step);
    backend->current.kind = (struct graph_kind){.part = step->samples_apart ? GRAPH_FORWARD : GRAPH_WHOLE,
                                                .n_rows = step->n_tokens,
                                                .n_positions = backend->current.longest.n_positions};
    if (backend->current.decoding) {
        int32_t n_rows = graph_rows(step->n_tokens);
        backend->current.kind.n_rows =
            n_rows < backend->capacity.n_rows_least ? n_rows : backend->capacity.n_rows_least;
        backend->current.kind.n_positions = graph_positions(backend->current.longest.n_positions);
    }
    backend->current.kind.selects = gpu_selects(backend);
    gpu_find_shared(backend, step);
    backend->current.kind.n_shared_tiles = graph_shared_tiles(backend->current.shared.n_tiles);
}

static struct step_part choose_graph(struct gpu_backend *backend, const struct graph_kind *kind)
{
    struct step_part part;
    part.entry = graphs_choose(&backend->graphs, backend->device, kind, &part.way);
    if (part.way == STEP_CAPTURES && !gpu_has_graph_memory(backend))
        part.way = STEP_EAGER;
    return part;
}

static void choose_way(struct gpu_backend *backend, const struct step *step)
{
    struct step_slot *slot = backend->submitted.slot,
                     *other = &backend->submitted.slots[slot == backend->submitted.slots];
    slot->forward = slot->sampling = (struct step_part){STEP_EAGER, NULL};
    if (backend->current.decoding) {
        slot->events = backend->current.times && backend->submitted.n_under_way > 0 ? 1 - other->events : 0;
        backend->current.kind.events = slot->events;
        slot->forward = choose_graph(backend, &backend->current.kind);
    }
    if (slot->forward.way == STEP_EAGER) {
        backend->current.padded = (struct upload_counts){
            step->n_tokens, step->n_sequences, step->n_outputs, backend->current.shared.n_tiles, 0, 0, 0};
        if ((backend->kv.layers || step->stops) && step->n_outputs < step->n_tokens)
            backend->current.padded.n_kept = step->n_outputs;
        backend->current.longest.n_positions_padded = backend->current.longest.n_positions;
        backend->current.n_part_rows = backend->current.shared.n_part_rows;
        gpu_size_runs(backend);
        return;
    }
    int32_t n_rows = backend->current.kind.n_rows;
    backend->current.padded =
        (struct upload_counts){n_rows, n_rows, n_rows, backend->current.kind.n_shared_tiles, 0, 0, 0};
    backend->current.longest.n_positions_padded = backend->current.kind.n_positions;
    backend->current.n_part_rows = n_rows;
    gpu_size_runs(backend);
}

static enum status make_ready(struct backend *base, struct error *error)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    enum status status = backend->capacity.reserved ? STATUS_OK : device_load_kernels(backend->device, error);
    if (status == STATUS_OK)
        status = gpu_step_memory_reserve(backend, error);
    return status == STATUS_OK ? outcome_reserve(backend, error) : status;
}

static enum status prepare_step(struct gpu_backend *backend, const struct step *step, struct error *error)
{
    enum status status =
        make_ready(&backend->base, error); // already done, except in tests without a forward pass
    if (status != STATUS_OK)
        return status;
    measure_step(backend, step);
    choose_way(backend, step);
    int32_t page_positions = backend->kv.page_positions;
    backend->current.layout = upload_layout(step, &backend->current.padded, page_positions);
    if (backend->current.layout.total_bytes > backend->memory.upload.size_bytes) {
        status = upload_reserve(backend, backend->current.layout.total_bytes, error); // destroys the graphs
        if (status != STATUS_OK)
            return status;
        choose_way(backend, step);
        backend->current.layout = upload_layout(step, &backend->current.padded, page_positions);
    }
    struct step_slot *slot = backend->submitted.slot;
    upload_fill(slot->upload_host, &backend->current.layout, step, &backend->current.padded, page_positions,
                &backend->current.shared, &backend->current.assignment, backend->capacity.n_cols_max);
    slot->n_outputs = step->n_outputs;
    slot->n_outputs_padded = backend->current.padded.n_outputs;
    slot->outcome_bytes = gpu_outcome_wanted_bytes(backend, step);
    return STATUS_OK;
}

static void mark_phase(struct gpu_backend *backend, struct phases *phases, enum step_phase phase)
{
    if (backend->current.times)
        phases_mark(phases, backend->device, phase);
}

static void mark_end(struct gpu_backend *backend, struct phases *phases)
{
    if (backend->current.times)
        phases_end(phases, backend->device);
}

static void start_phase(struct backend *base, enum step_phase next)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    struct pending_rows *waiting = &backend->current.pending_rows;
    if (backend->fault.failed || backend->submitted.slot->part->way == STEP_REPLAYS)
        return;
    if (waiting->out && waiting->kind == PENDING_ATTENTION) {
        waiting->ends_phase = true;
        waiting->phase = next;
    } else {
        mark_phase(backend, gpu_phases(backend), next);
    }
}

static void trace_steps(struct backend *base, struct step_times *times)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    struct error ignored; // it is returned when the step is collected
    bool changes = !backend->current.times != !times;
    assert(!backend->current.step);
    backend->current.times = NULL;
    if (changes && wait_submitted(backend, &ignored) == STATUS_OK)
        graphs_clear(&backend->graphs,
                     backend->device); // graphs contain the events, or were captured without them
    backend->current.times = times;
}

// True if the step reads tokens that the previous step draws.
static bool has_pending(const struct step *step)
{
    for (int32_t i = 0; i < step->n_tokens; i++)
        if (step->tokens[i] < 0)
            return true;
    for (int32_t i = 0; step->samples && i < step->n_outputs; i++)
        if (step->samples[i].pending > 0)
            return true;
    return false;
}

// Replaces pending tokens by the tokens that the previous step drew.
static void resolve_tokens(struct gpu_backend *backend)
{
    unsigned char *upload = backend->memory.upload.memory;
    launch_resolve(backend->stream, (int32_t *)(void *)(upload + backend->current.layout.tokens),
                   backend->current.padded.n_rows, upload_address(backend, backend->current.layout.settings),
                   backend->current.step->samples ? backend->current.padded.n_outputs : 0,
                   (int32_t *)(void *)upload, backend->memory.outcome.memory);
}

// Uploads bytes [begin, end) of the input and starts the part's graph. The upload runs beside the step before this one;
// the step that last used the slot was collected.
static void begin_part(struct gpu_backend *backend, struct phases *phases, size_t begin, size_t end)
{
    const struct step_slot *slot = backend->submitted.slot;
    mark_phase(backend, phases, PHASE_UPLOAD);
    const unsigned char *uploaded = slot->upload.memory;
    device_upload_ahead(backend->device, (unsigned char *)slot->upload.memory + begin,
                        slot->upload_host + begin, end - begin);
    device_join_uploads(backend->device);
    device_copy(backend->device, (unsigned char *)backend->memory.upload.memory + begin, uploaded + begin,
                end - begin);
    if (slot->part->way != STEP_EAGER)
        mark_end(backend, phases);
    if (slot->part->way == STEP_REPLAYS)
        device_graph_launch(backend->device, slot->part->entry->graph);
    else if (slot->part->way == STEP_CAPTURES)
        device_graph_begin(backend->device);
}

static void begin_step(struct backend *base, const struct step *step)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    assert(!backend->current.step && step->n_tokens <= backend->capacity.n_rows_max &&
           backend->submitted.n_under_way < 2);
    device_use(backend->device);
    struct step_slot *slot = backend->submitted.slot = backend->submitted.slot == backend->submitted.slots
                                                           ? &backend->submitted.slots[1]
                                                           : backend->submitted.slots;
    backend->current.step = step;
    backend->current.pending = (struct pending_add){0};
    backend->current.pending_rows.out = NULL;
    backend->current.ropes.n = 0;
    backend->current.keeps_outputs = false;
    slot->part = &slot->forward;
    slot->drawn = slot->timed = false;
    slot->times = (struct step_times){0};
    backend->fault.failed = prepare_step(backend, step, &backend->fault.error) != STATUS_OK;
    if (backend->fault.failed)
        return;
    backend->figures.n_steps++;
    slot->phases.n = slot->outcome_phases.n = 0;
    const struct upload_layout *layout = &backend->current.layout;
    gpu_copy_pages(backend, step);
    begin_part(backend, &slot->phases, 0, step->samples_apart ? layout->masks : layout->total_bytes);
    backend->figures.n_replayed += slot->part->way == STEP_REPLAYS;
    if (slot->part->way == STEP_CAPTURES || (slot->part->way == STEP_EAGER && has_pending(step)))
        resolve_tokens(backend);
}

// Pads the sampling to the same sizes as the forward pass.
static void resume_step(struct backend *base, const struct step *step)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    struct step_slot *slot = backend->submitted.slot;
    const struct upload_layout *layout = &backend->current.layout;
    assert(!backend->current.step && step->samples_apart && slot->part == &slot->forward &&
           backend->submitted.n_under_way > 0);
    backend->current.step = step;
    slot->part = &slot->sampling;
    if (slot->forward.way != STEP_EAGER)
        slot->sampling = choose_graph(backend, &(struct graph_kind){.part = GRAPH_SAMPLING,
                                                                    .n_rows = backend->current.kind.n_rows,
                                                                    .events = slot->events});
    upload_fill_masks(slot->upload_host, layout, step);
    begin_part(backend, &slot->outcome_phases, layout->masks, layout->total_bytes);
    backend->figures.n_apart++;
    backend->figures.n_apart_replayed += slot->part->way == STEP_REPLAYS;
}

static void finish_capture(struct gpu_backend *backend)
{
    struct graph_entry *entry = backend->submitted.slot->part->entry;
    mark_end(backend, &entry->phases);
    entry->graph = device_graph_end(backend->device);
    entry->refused = !entry->graph; // the step was enqueued without one
    if (entry->refused)
        return;
    device_graph_launch(backend->device, entry->graph);
    backend->figures.n_graphs++;
}

static enum status wait_now(struct backend *base, struct error *error)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    assert(backend->current.step && backend->current.step->stops);
    gpu_enqueues(backend);
    if (!backend->fault.failed)
        return device_wait(backend->device, error);
    *error = backend->fault.error;
    return error->status;
}

static void download_outcome(struct gpu_backend *backend)
{
    struct step_slot *slot = backend->submitted.slot;
    mark_phase(backend, &slot->outcome_phases, PHASE_DOWNLOAD);
    slot->drawn = slot->drawn && slot->n_outputs > 0;
    if (slot->drawn)
        device_download(backend->device, slot->outcome_host, backend->memory.outcome.memory,
                        slot->outcome_bytes);
    mark_end(backend, &slot->outcome_phases);
    device_event_record(backend->device, slot->ended);
}

static enum status submit_step(struct backend *base, struct error *error)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    struct step_slot *slot = backend->submitted.slot;
    const struct step *step = backend->current.step;
    assert(step);
    bool is_first = slot->part == &slot->forward, is_last = !is_first || !step->samples_apart;
    gpu_enqueues(backend); // flushes what is pending
    backend->current.step = NULL;
    if (backend->fault.failed) {
        backend->submitted.n_under_way = 0;
        *error = backend->fault.error;
        return error->status;
    }
    if (slot->part->way == STEP_CAPTURES)
        finish_capture(backend);
    else if (slot->part->way == STEP_EAGER)
        mark_end(backend, gpu_phases(backend));
    if (is_last)
        download_outcome(backend);
    backend->submitted.n_under_way += is_first;
    enum status status = device_status(backend->device, error); // An invalid launch is an error of this step.
    if (status != STATUS_OK)
        backend->submitted.n_under_way = 0;
    return status;
}

static enum status collect_step(struct backend *base, struct sample_result *results, struct error *error)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    assert(backend->submitted.n_under_way > 0);
    bool last = backend->submitted.n_under_way == 1;
    struct step_slot *slot =
        last ? backend->submitted.slot
             : &backend->submitted.slots[backend->submitted.slot == backend->submitted.slots];
    device_event_wait(backend->device, slot->ended);
    enum status status = device_status(backend->device, error);
    backend->submitted.n_under_way = status == STATUS_OK ? backend->submitted.n_under_way - 1 : 0;
    if (status != STATUS_OK)
        return status;
    if (slot->drawn && results)
        gpu_take_outcomes(slot, results);
    if (backend->current.times && !slot->timed)
        add_times(slot);
    if (backend->current.times)
        *backend->current.times = slot->times;
    return STATUS_OK;
}

static enum status end_step(struct backend *base, struct sample_result *results, struct error *error)
{
    assert(gpu_backend_of(base)->submitted.n_under_way == 0);
    enum status status = submit_step(base, error);
    return status == STATUS_OK ? collect_step(base, results, error) : status;
}

// --- The backend ---

static void *host_allocate(struct backend *base, size_t size_bytes)
{
    return device_pin(gpu_backend_of(base)->device, size_bytes);
}

static void host_free(struct backend *base, void *memory)
{
    device_unpin(gpu_backend_of(base)->device, memory);
}

static void destroy_backend(struct backend *base)
{
    if (!base)
        return;
    struct gpu_backend *backend = gpu_backend_of(base);
    struct error ignored; // the step is never collected, so its error has no reader
    device_use(backend->device);
    (void)!device_wait(backend->device, &ignored);
    graphs_clear(&backend->graphs, backend->device);
    tile_choices_finish(&backend->tile_choices);
    for (int i = 0; i < 2; i++) {
        struct step_slot *slot = &backend->submitted.slots[i];
        phases_finish(&slot->phases, backend->device);
        phases_finish(&slot->outcome_phases, backend->device);
        device_event_destroy(backend->device, slot->ended);
        device_unpin(backend->device, slot->upload_host);
        device_unpin(backend->device, slot->outcome_host);
        gpu_scratch_finish(backend, &slot->upload);
    }
    staging_finish(&backend->staging);
    shared_prefix_finish(&backend->current.shared);
    gpu_step_memory_finish(backend);
    gpu_selection_finish(backend);
    gpu_scratch_finish(backend, &backend->pages);
    gpu_scratch_finish(backend, &backend->states);
    device_close(backend->device);
    free(backend);
}

static const struct backend_device device_cuda = {.name = "cuda",
                                                  .destroy = destroy_backend,
                                                  .normed_input = gpu_normed_input,
                                                  .weight_create = gpu_weight_create,
                                                  .weight_destroy = gpu_weight_destroy,
                                                  .matrix_create = matrix_create,
                                                  .matrix_destroy = matrix_destroy,
                                                  .kv_create = gpu_kv_create,
                                                  .kv_read = gpu_kv_read,
                                                  .states_create = gpu_states_create,
                                                  .state_copy = gpu_state_copy,
                                                  .state_bytes = gpu_state_bytes,
                                                  .page_bytes = gpu_page_bytes,
                                                  .available_bytes = gpu_available_bytes,
                                                  .weight_bytes = gpu_weight_bytes,
                                                  .scratch_bytes = gpu_scratch_bytes,
                                                  .ready = make_ready,
                                                  .tune = gpu_tune,
                                                  .host_allocate = host_allocate,
                                                  .host_free = host_free,
                                                  .trace = trace_steps};

static const struct backend_operations operations_cuda = {.begin = begin_step,
                                                          .phase = start_phase,
                                                          .embed = gpu_embed,
                                                          .norm = gpu_norm,
                                                          .products = gpu_products,
                                                          .rope = gpu_rope,
                                                          .kv_store = gpu_kv_store,
                                                          .attend = gpu_attend,
                                                          .index_store = gpu_index_store,
                                                          .select_positions = gpu_select_positions,
                                                          .attends_both_ways = true,
                                                          .activate = gpu_activate,
                                                          .add = gpu_add,
                                                          .scale = gpu_scale,
                                                          .gather = gpu_gather,
                                                          .route = gpu_route,
                                                          .expert_products = gpu_expert_products,
                                                          .expert_sum = gpu_expert_sum,
                                                          .gated_products = gpu_gated_products,
                                                          .gate_rows = gpu_gate_rows,
                                                          .head_products = gpu_head_products,
                                                          .copy_columns = gpu_copy_columns,
                                                          .convolve = gpu_convolve,
                                                          .delta_rule = gpu_delta_rule,
                                                          .scan = gpu_scan,
                                                          .selective_scan = gpu_selective_scan,
                                                          .multiply_by = gpu_multiply_by,
                                                          .xielu = gpu_xielu,
                                                          .weighs_inputs = true,
                                                          .gate_softplus = gpu_gate_softplus,
                                                          .limit = gpu_limit,
                                                          .set_columns = gpu_set_columns,
                                                          .keep_outputs = gpu_keep_outputs,
                                                          .mix = gpu_mix,
                                                          .match_rms = gpu_match_rms,
                                                          .sparsify = gpu_sparsify,
                                                          .multiply = gpu_multiply,
                                                          .sample = gpu_sample,
                                                          .write = gpu_write,
                                                          .read = gpu_read,
                                                          .wait = wait_now,
                                                          .submit = submit_step,
                                                          .collect = collect_step,
                                                          .resume = resume_step,
                                                          .end = end_step};

enum status gpu_backend_create(struct backend **out, const struct gpu_options *options, struct error *error)
{
    *out = NULL;
    struct gpu_backend *backend = calloc(1, sizeof *backend);
    if (!backend)
        return error_memory(error, STATUS_REFUSE, "the CUDA backend");
    backend_init(&backend->base, &device_cuda, &operations_cuda);
    backend->options = *options;
    struct device_options device = {.index = options->index,
                                    .sync = options->sync,
                                    .no_overlap = options->no_overlap,
                                    .no_carveout = options->no_carveout,
                                    .no_wgmma = options->no_wgmma,
                                    .memory_bytes = options->emulated_memory_bytes,
                                    .shared_bytes_max = options->shared_bytes_max,
                                    .failing_work = options->failing_work,
                                    .upload_order = options->upload_order,
                                    .failing_graph = options->failing_graph};
    enum status status = device_open(&backend->device, &device, error);
    if (status == STATUS_OK)
        status = staging_init(&backend->staging, backend->device, error);
    for (int i = 0; i < 2 && status == STATUS_OK; i++) {
        backend->submitted.slots[i].ended = device_event_create(backend->device);
        if (!backend->submitted.slots[i].ended &&
            (status = device_status(backend->device, error)) == STATUS_OK)
            status = error_memory(error, STATUS_REFUSE, "an event");
    }
    if (status != STATUS_OK) {
        if (backend->device)
            destroy_backend(&backend->base);
        else
            free(backend);
        return status;
    }
    snprintf(backend->name, sizeof backend->name, "cuda:%d %s", options->index,
             device_facts(backend->device)->name);
    backend->base.device.name = backend->name;
    backend->measures_tiles = options->tiles == GPU_TILES_MEASURED ||
                              (options->tiles == GPU_TILES_AUTO && !device_facts(backend->device)->emulated);
    backend->stream = device_stream(backend->device);
    status = gpu_tiles_read(backend, error);
    if (status == STATUS_OK)
        *out = &backend->base;
    else
        destroy_backend(&backend->base);
    return status;
}

void gpu_backend_describe(const struct backend *base, char *text, size_t size)
{
    const struct gpu_backend *backend = (const struct gpu_backend *)(const void *)base;
    const struct device_facts *facts = device_facts(backend->device);
    snprintf(text, size, "%s, compute capability %d.%d, %d multiprocessors", facts->name,
             facts->capability_major, facts->capability_minor, facts->n_multiprocessors);
}

int gpu_backend_capability(const struct backend *base)
{
    const struct device_facts *facts = device_facts(((const struct gpu_backend *)(const void *)base)->device);
    return facts->capability_major * 10 + facts->capability_minor;
}

struct gpu_counts gpu_backend_counts(const struct backend *base)
{
    return ((const struct gpu_backend *)(const void *)base)->figures;
}
