// Any bytes as a safetensors file; what opens must lie in the file, found by name and readable to the last
// item.
#include "engine/file/safetensors.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void read_tensor(const struct safetensors *safetensors, size_t index, size_t file_size)
{
    const struct safetensors_tensor *entry = safetensors_at(safetensors, index);
    const struct tensor *tensor = &entry->tensor;
    const unsigned char *data = tensor->data;
    fuzz_check(safetensors_find(safetensors, tensor->name) == index);
    fuzz_check(tensor->size_bytes > 0 && tensor->size_bytes <= file_size);
    unsigned sum = (unsigned)data[0] + data[tensor->size_bytes - 1];
    (void)sum;
    if (entry->readable) {
        float first, last;
        fuzz_check(tensor_row_bytes(tensor) * tensor_n_rows(tensor) == tensor->size_bytes);
        tensor_traits(tensor->type)->dequantize(data, &first, 1);
        tensor_traits(tensor->type)
            ->dequantize(data + tensor->size_bytes - tensor_traits(tensor->type)->block_bytes, &last, 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int file = memfd_create("fuzz", 0);
    if (file < 0 || write(file, data, size) != (ssize_t)size)
        abort();
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    struct safetensors *safetensors;
    struct error error;
    if (safetensors_open(&safetensors, path, &error) == STATUS_OK) {
        for (size_t i = 0; i < safetensors_n_tensors(safetensors); i++)
            read_tensor(safetensors, i, size);
        safetensors_close(safetensors);
    } else {
        fuzz_check(error.status == STATUS_REFUSE && error.text[0]);
    }
    close(file);
    return 0;
}
