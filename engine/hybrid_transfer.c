// Transfers of matrices between the backends of a hybrid.
#include "engine/hybrid_parts.h"

#include <assert.h>

void hybrid_note_write(struct matrix *matrix, int id, int32_t n_rows)
{
    matrix->valid[id] = true;
    matrix->valid[1 - id] = false;
    matrix->n_rows = n_rows;
}

void hybrid_wait(struct hybrid_backend *hybrid)
{
    struct backend *device = hybrid->backends[DEVICE];
    if (!hybrid->failed && device->operations.wait(device, &hybrid->error) != STATUS_OK)
        hybrid->failed = true;
    hybrid->transfers.n_used = 0;
}

static size_t items_of(const struct matrix *matrix)
{
    return (size_t)matrix->n_rows * (size_t)matrix->n_cols;
}

static float *staging_take(struct hybrid_backend *hybrid, size_t n)
{
    assert(n <= hybrid->transfers.n - hybrid->transfers.n_used);
    float *taken = hybrid->transfers.floats + hybrid->transfers.n_used;
    hybrid->transfers.n_used += n;
    return taken;
}

bool hybrid_transfer(struct hybrid_backend *hybrid, int id, const struct matrix *const *wanted, int n)
{
    struct backend *to = hybrid->backends[id], *from = hybrid->backends[1 - id];
    struct matrix *transfers[TRANSFERS_MAX];
    float *rows[TRANSFERS_MAX];
    size_t n_items = 0;
    int n_transfers = 0;
    assert(n <= TRANSFERS_MAX);
    if (hybrid->failed) // the inputs were not computed
        return false;
    for (int i = 0; i < n; i++) {
        if (wanted[i]->valid[id])
            continue;
        assert(wanted[i]->valid[1 - id]);
        transfers[n_transfers++] = (struct matrix *)wanted[i]; // a transfer does not change its contents
        n_items += items_of(wanted[i]);
    }
    if (n_transfers && n_items > hybrid->transfers.n - hybrid->transfers.n_used)
        hybrid_wait(hybrid);
    if (hybrid->failed)
        return false;
    for (int i = 0; i < n_transfers; i++) {
        rows[i] = staging_take(hybrid, items_of(transfers[i]));
        from->operations.read(from, transfers[i]->at[1 - id], transfers[i]->n_rows, rows[i]);
    }
    if (n_transfers && id == HOST)
        hybrid_wait(hybrid);
    for (int i = 0; i < n_transfers && !hybrid->failed; i++) {
        to->operations.write(to, transfers[i]->at[id], transfers[i]->n_rows, rows[i]);
        transfers[i]->valid[id] = true;
    }
    return !hybrid->failed;
}

bool hybrid_transfer_one(struct hybrid_backend *hybrid, int id, const struct matrix *matrix)
{
    return hybrid_transfer(hybrid, id, &matrix, 1);
}

void hybrid_staging_finish(struct hybrid_backend *hybrid)
{
    struct backend *device = hybrid->backends[DEVICE];
    device->device.host_free(device, hybrid->transfers.floats);
    hybrid->transfers.floats = NULL;
    hybrid->transfers.n = 0;
}

enum status hybrid_staging_reserve(struct hybrid_backend *hybrid, struct error *error)
{
    struct backend *device = hybrid->backends[DEVICE];
    size_t n = hybrid->transfers.n_wanted;
    if (n <= hybrid->transfers.n)
        return STATUS_OK;
    hybrid_staging_finish(hybrid);
    hybrid->transfers.floats = device->device.host_allocate(device, n * sizeof(float));
    if (!hybrid->transfers.floats)
        return error_memory(error, STATUS_REFUSE, "rows between device and host: %zu bytes wanted",
                            n * sizeof(float));
    hybrid->transfers.n = n;
    return STATUS_OK;
}
