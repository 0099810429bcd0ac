// Hash index of the names of key-values and tensors.
#include "engine/file/gguf_file.h"
#include "schemas/base/hash.h"

enum status gguf_out_of_memory(struct error *error)
{
    return error_memory(error, STATUS_REFUSE, "the file's index");
}

enum status gguf_names_create(struct gguf_names *names, size_t n_names, struct arena *arena,
                              struct error *error)
{
    size_t n_slots = 16;
    while (n_slots < 2 * n_names)
        n_slots *= 2;
    names->slots = arena_allocate_array(arena, n_slots, sizeof *names->slots);
    names->mask = n_slots - 1;
    return names->slots ? STATUS_OK : gguf_out_of_memory(error);
}

size_t gguf_names_start(const struct gguf_names *names, struct text name)
{
    return (size_t)hash_bytes(name.data, name.size, 0) & names->mask;
}

const struct gguf_entry *gguf_part_entry(const struct gguf_part *part, struct text key)
{
    if (!part->keys.slots)
        return NULL;
    for (size_t i = gguf_names_start(&part->keys, key);; i = (i + 1) & part->keys.mask) {
        uint32_t slot = part->keys.slots[i];
        if (slot == 0)
            return NULL;
        if (text_equal(part->entries[slot - 1].key, key))
            return &part->entries[slot - 1];
    }
}

void gguf_names_add(struct gguf_names *names, struct text name, size_t index)
{
    size_t i = gguf_names_start(names, name);
    while (names->slots[i])
        i = (i + 1) & names->mask;
    names->slots[i] = (uint32_t)index + 1;
}
