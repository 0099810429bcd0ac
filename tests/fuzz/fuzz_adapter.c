// Any bytes as an adapter: a GGUF file; or, after a byte 'P', PEFT's two files: adapter_config.json, a NUL, and
// adapter_model.safetensors. What opens is computed with.
#include "engine/cpu/backend.h"
#include "engine/logits.h"
#include "engine/model/adapter.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/make_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_IDS = 3, VOCABULARY = 320, ADAPTER_BYTES_MAX = 1 << 22 };

static char directory[64];

static void remove_files(void)
{
    static const char *const names[] = {"adapter_config.json", "adapter_model.safetensors", "adapter.gguf",
                                        "model.gguf"};
    char path[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        unlink(path);
    }
    rmdir(directory);
}

static void put_file(const char *name, const void *data, size_t size)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file))
        abort();
}

static void compute_step(const struct model *model)
{
    static float logits[N_IDS * VOCABULARY];
    static const int32_t ids[N_IDS] = {1, 2, 3};
    struct error error;
    struct pool *pool;
    struct backend *backend;
    if (pool_create(&pool, 1, &error) != STATUS_OK ||
        cpu_backend_create(&backend, pool, CPU_AVX512, &error) != STATUS_OK ||
        logits_of_text(model, backend, KV_F32, ids, N_IDS, logits, &error) != STATUS_OK)
        abort();
    backend->device.destroy(backend);
    pool_destroy(pool);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char base[96], path[96];
    struct model *model;
    struct error error = {0};
    struct buffer unknown = {0};
    if (!*directory) {
        strcpy(directory, "/tmp/sheaf-fuzz-XXXXXX");
        if (!mkdtemp(directory) || atexit(remove_files))
            abort();
        snprintf(base, sizeof base, "%s/model.gguf", directory);
        make_model(base, &(struct model_recipe){.seed = 3});
    }
    snprintf(base, sizeof base, "%s/model.gguf", directory);
    bool is_folder = size && data[0] == 'P';
    if (is_folder) {
        const uint8_t *end = memchr(data, 0, size);
        size_t n_config = end ? (size_t)(end - data) : size, n_rest = end ? size - n_config - 1 : 0;
        put_file("adapter_config.json", data + 1, n_config - 1);
        put_file("adapter_model.safetensors", data + size - n_rest, n_rest);
        snprintf(path, sizeof path, "%s", directory);
    } else {
        put_file("adapter.gguf", data, size);
        snprintf(path, sizeof path, "%s/adapter.gguf", directory);
    }
    if (model_open(&model, base, &error) != STATUS_OK)
        abort();
    if (model_add_adapter(model, path, 1.0, &unknown, &error) != STATUS_OK) {
        if (!*error.text)
            abort();
    } else {
        model_adapter_fingerprint(model, 0, NULL, NULL);
        if (model_adapter_bytes(model) <= ADAPTER_BYTES_MAX)
            compute_step(model);
    }
    model_close(model);
    buffer_finish(&unknown);
    return 0;
}
