// Sparse attention (gpu/kernels/kernels_selection.h). The memory is reserved with the KV pages. If a row of a step selects
// positions, the rows are computed in groups whose scores, or whose copies of keys and values, fit in this memory.
#include "gpu/kernels/launch.h"
#include "gpu/state.h"

#include <assert.h>

static const uint64_t working_bytes =
    128ull << 20; // for scores, and again for copies; more if a single row needs it

static struct selection_pages pages_of(const struct kv_shape *kv, void *memory)
{
    return (struct selection_pages){memory, kv->index.n_layers, kv->n_pages, kv->page_positions,
                                    kv->index.key_dim};
}

uint64_t gpu_index_bytes(const struct kv_shape *kv)
{
    return (uint64_t)kv->index.n_layers * (uint64_t)kv->n_pages * (uint64_t)kv->page_positions *
           (uint64_t)kv->index.key_dim * sizeof(float);
}

// ---- working memory ----

static int32_t pages_each(const struct kv_shape *kv)
{
    return (kv->index.n_selected + kv->page_positions - 1) / kv->page_positions;
}

// Pages of n_rows rows' copies.
static struct attention_pages copies_of(const struct kv_shape *kv, int32_t n_rows, void *memory)
{
    return (struct attention_pages){.memory = memory,
                                    .n_layers = 1,
                                    .n_pages = n_rows * pages_each(kv),
                                    .n_kv_heads = kv->n_kv_heads,
                                    .key_dim = kv->key_dim,
                                    .value_dim = kv->value_dim,
                                    .page_positions = kv->page_positions,
                                    .type = kv->type};
}

static int32_t scores_each(const struct kv_shape *kv, int64_t n_positions)
{
    int64_t most = (int64_t)kv->n_pages * kv->page_positions;
    if (kv->n_positions_most && kv->n_positions_most < most)
        most = kv->n_positions_most;
    n_positions = n_positions < most ? n_positions : most;
    return (int32_t)((n_positions + SELECTION_POSITIONS - 1) / SELECTION_POSITIONS * SELECTION_POSITIONS);
}

// Number of rows, at least one, for which there is room.
static int32_t rows_at_once(uint64_t size_bytes, uint64_t row_bytes, int32_t n_rows)
{
    uint64_t n = size_bytes / row_bytes;
    return n < 1 ? 1 : n < (uint64_t)n_rows ? (int32_t)n : n_rows;
}

struct selection_sizes {
    uint64_t scores, copies, selected, places;
};

static struct selection_sizes sizes_of(const struct kv_shape *kv)
{
    struct attention_pages one = copies_of(kv, 1, NULL);
    uint64_t n_rows = (uint64_t)kv->n_rows_most,
             score_bytes = (uint64_t)scores_each(kv, INT32_MAX) * sizeof(float),
             copy_bytes = attention_pages_bytes(&one);
    int32_t n_copied = rows_at_once(working_bytes, copy_bytes, kv->n_rows_most),
            n_scored = rows_at_once(working_bytes, score_bytes, kv->n_rows_most);
    return (struct selection_sizes){
        .scores = (uint64_t)n_scored * score_bytes,
        .copies = (uint64_t)n_copied * copy_bytes,
        .selected = n_rows * (uint64_t)kv->index.n_selected * sizeof(int32_t),
        .places = (n_rows + (uint64_t)n_copied) * sizeof(struct attention_sequence) +
                  (uint64_t)n_copied * (uint64_t)pages_each(kv) * sizeof(int32_t),
    };
}

uint64_t gpu_selection_bytes(const struct kv_shape *kv)
{
    if (kv->index.n_selected == 0)
        return 0;
    struct selection_sizes sizes = sizes_of(kv);
    return sizes.scores + sizes.copies + sizes.selected + sizes.places;
}

enum status gpu_selection_create(struct gpu_backend *backend, const struct kv_shape *kv, struct error *error)
{
    struct sparse_attention *sparse = &backend->sparse;
    if (kv->index.n_selected == 0)
        return STATUS_OK;
    assert(!kv->layers && kv->n_rows_most > 0);
    if (kv->index.key_dim > SELECTION_DIM_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                         "an indexer's keys of %d items: the CUDA backend computes with at most %d",
                         kv->index.key_dim, (int)SELECTION_DIM_MAX);
    struct selection_sizes sizes = sizes_of(kv);
    struct {
        struct device_scratch *scratch;
        uint64_t size_bytes;
    } wanted[] = {{&sparse->pages, gpu_index_bytes(kv)},
                  {&sparse->scores, sizes.scores},
                  {&sparse->copies, sizes.copies},
                  {&sparse->selected, sizes.selected},
                  {&sparse->places, sizes.places}};
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted && status == STATUS_OK; i++)
        status =
            gpu_scratch_reserve(backend, wanted[i].scratch, wanted[i].size_bytes, "sparse attention", error);
    return status;
}

void gpu_selection_finish(struct gpu_backend *backend)
{
    struct sparse_attention *sparse = &backend->sparse;
    struct device_scratch *all[] = {&sparse->pages, &sparse->scores, &sparse->copies, &sparse->selected,
                                    &sparse->places};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        gpu_scratch_finish(backend, all[i]);
}

// ---- a step ----

bool gpu_selects(const struct gpu_backend *backend)
{
    int32_t n = backend->kv.index.n_selected;
    return n > 0 && backend->current.longest.n_positions > n;
}

void gpu_copy_index_pages(struct gpu_backend *backend, const struct step *step)
{
    const struct kv_shape *kv = &backend->kv;
    if (!backend->sparse.pages.memory)
        return;
    unsigned char *memory = backend->sparse.pages.memory;
    size_t page_bytes = (size_t)kv->page_positions * (size_t)kv->index.key_dim * sizeof(float);
    for (int32_t i = 0; i < step->n_copies; i++)
        device_copy_rows(backend->device, memory + (size_t)step->copies[i].to * page_bytes,
                         memory + (size_t)step->copies[i].from * page_bytes, (size_t)kv->index.n_layers,
                         page_bytes, page_bytes * (size_t)kv->n_pages);
}

static struct selection_rows rows_of(const struct gpu_backend *backend)
{
    return (struct selection_rows){
        .sequences = upload_address(backend, backend->current.layout.sequences),
        .n_sequences = backend->current.padded.n_sequences,
        .tables = upload_address(backend, 0),
        .positions = upload_address(backend, backend->current.layout.positions),
        .n_selected = backend->kv.index.n_selected,
        .selected = backend->sparse.selected.memory,
    };
}

void gpu_index_store(struct backend *base, int32_t layer, const struct matrix *k)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    if (!gpu_enqueues(backend))
        return;
    assert(k->n_cols == backend->kv.index.key_dim && layer < backend->kv.index.n_layers);
    struct selection_store store = {.pages = pages_of(&backend->kv, backend->sparse.pages.memory),
                                    .layer = layer,
                                    .sequences = upload_address(backend, backend->current.layout.sequences),
                                    .row_sequences =
                                        upload_address(backend, backend->current.layout.row_sequences),
                                    .tables = upload_address(backend, 0),
                                    .n_rows = backend->current.padded.n_rows,
                                    .keys = k->device};
    launch_selection_store(backend->stream, &store);
}

void gpu_select_positions(struct backend *base, int32_t layer, const struct matrix *queries,
                          const struct matrix *weights)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    const struct kv_shape *kv = &backend->kv;
    if (!gpu_enqueues(backend))
        return;
    assert(queries->n_cols == kv->index.n_heads * kv->index.key_dim && weights->n_cols == kv->index.n_heads);
    int32_t n_rows = backend->current.padded.n_rows;
    struct selection_launch launch = {.pages = pages_of(kv, backend->sparse.pages.memory),
                                      .layer = layer,
                                      .rows = rows_of(backend),
                                      .n_heads = kv->index.n_heads,
                                      .queries = queries->device,
                                      .weights = weights->device,
                                      .scores = backend->sparse.scores.memory,
                                      .n_scores =
                                          scores_each(kv, backend->current.longest.n_positions_padded)};
    assert(n_rows <= kv->n_rows_most);
    int32_t n =
        rows_at_once(backend->sparse.scores.size_bytes, (uint64_t)launch.n_scores * sizeof(float), n_rows);
    n = n < LAUNCH_BLOCKS_YZ_MAX ? n : LAUNCH_BLOCKS_YZ_MAX;
    for (; launch.rows.first < n_rows; launch.rows.first += n) {
        int32_t left = n_rows - launch.rows.first;
        launch.rows.n = left < n ? left : n;
        launch_selection(backend->stream, &launch);
    }
}

// Attention of rows that see all positions, and then of the others.
static void attend_rest(const struct gpu_backend *backend, struct attention_launch launch,
                        struct attention_sequence *sequences)
{
    launch_selection_rest(backend->stream, sequences, launch.sequences, launch.extent.n_sequences,
                          backend->kv.index.n_selected);
    launch.sequences = sequences;
    // With few rows left a sequence counts as small, and has no place in the scratch.
    if (launch.extent.n_rows_most > 1) {
        launch.partials = (struct attention_partials){0};
        launch.extent.n_part_rows = launch.extent.n_rows;
    }
    launch_attention(backend->stream, &launch);
}

void gpu_attend_selected(struct gpu_backend *backend, struct attention_launch launch)
{
    const struct kv_shape *kv = &backend->kv;
    struct attention_pages one = copies_of(kv, 1, NULL);
    int32_t n_rows = launch.extent.n_rows,
            n = rows_at_once(backend->sparse.copies.size_bytes, attention_pages_bytes(&one), n_rows);
    struct attention_sequence *sequences = backend->sparse.places.memory;
    assert(launch.scoring.window == 0 && launch.scoring.chunk == 0 && launch.scoring.alibi_bias_max == 0.0f &&
           !launch.scoring.relative_bias);
    launch.shared = (struct attention_shared){0};
    launch.assigned = (struct attention_assigned){0};
    attend_rest(backend, launch, sequences);
    struct selection_gather gather = {.from = launch.pages,
                                      .to = copies_of(kv, n, backend->sparse.copies.memory),
                                      .layer = launch.layer,
                                      .rows = rows_of(backend),
                                      .n_pages_each = pages_each(kv),
                                      .sequences = sequences + kv->n_rows_most};
    gather.tables = (int32_t *)(void *)(gather.sequences + n);
    launch.pages = gather.to;
    launch.layer = 0;
    launch.sequences = gather.sequences;
    launch.tables = gather.tables;
    for (; gather.rows.first < n_rows; gather.rows.first += n) {
        int32_t left = n_rows - gather.rows.first;
        gather.rows.n = left < n ? left : n;
        launch_selection_gather(backend->stream, &gather);
        launch.extent = (struct attention_extent){.n_sequences = gather.rows.n,
                                                  .n_rows = n_rows,
                                                  .n_rows_most = 1,
                                                  .n_part_rows = gather.rows.n,
                                                  .n_positions_most = kv->index.n_selected};
        launch_attention(backend->stream, &launch);
    }
}
