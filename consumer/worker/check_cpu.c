#include "consumer/worker/check_cpu.h"

#include "consumer/observe/log.h"
#include "engine/cpu/backend.h"

enum status check_cpu_open(struct check_cpu *check, const struct check_cpu_wanted *wanted,
                           struct error *error)
{
    *check = (struct check_cpu){0};
    struct forward_limits limits;
    uint64_t bytes;
    enum status status = limits_derive_check(&wanted->plan, wanted->model, wanted->host_available_bytes,
                                             &limits, &bytes, error);
    if (status == STATUS_OK)
        status = cpu_backend_create(&check->host, wanted->pool, CPU_AUTO, error);
    if (status == STATUS_OK)
        status = cross_check_create(&check->check, wanted->model, wanted->backend,
                                    wanted->plan.forward.n_pages, check->host, &limits, error);
    if (status != STATUS_OK) {
        check_cpu_close(check);
        return status;
    }
    log_write(LOG_INFO, "check-cpu: every %lld steps on %s too, in %.1f MB of its memory (%d pages)",
              (long long)wanted->every, check->host->device.name, (double)bytes / 1e6, limits.n_pages);
    return STATUS_OK;
}

void check_cpu_close(struct check_cpu *check)
{
    cross_check_destroy(check->check);
    if (check->host)
        check->host->device.destroy(check->host);
    *check = (struct check_cpu){0};
}
