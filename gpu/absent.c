// The backend of a program that was built without the CUDA Toolkit.
#include "gpu/backend.h"

enum status gpu_backend_create(struct backend **backend, const struct gpu_options *options,
                               struct error *error)
{
    (void)options;
    *backend = NULL;
    return error_set(error, STATUS_REFUSE, ERROR_DEVICE, "this program was built without CUDA");
}

void gpu_backend_describe(const struct backend *backend, char *text, size_t size)
{
    (void)backend;
    if (size)
        text[0] = '\0';
}

int gpu_backend_capability(const struct backend *backend)
{
    (void)backend;
    return 0;
}

struct gpu_counts gpu_backend_counts(const struct backend *backend)
{
    (void)backend;
    return (struct gpu_counts){0};
}
