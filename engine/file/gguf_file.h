// Private header of gguf_names.c (index), gguf_keys.c (accessors), gguf_parse.c (the bytes of one file),
// gguf.c (opening, parts), gguf_write.c and gguf_made.c (models constructed in memory). Each file calls only
// files named before it.
#pragma once

#include "engine/file/gguf.h"
#include "engine/file/mapped_file.h"
#include "schemas/base/arena.h"

// One key-value. `kind` decides which member is valid.
struct gguf_entry {
    struct text key;
    enum gguf_kind kind;
    const unsigned char *scalar; // unaligned, little-endian
    struct text string;
    struct gguf_array array;
};

// Hash table with open addressing. A slot holds index + 1; 0 means free. It has `mask` + 1 slots, at most
// half full.
struct gguf_names {
    uint32_t *slots;
    size_t mask;
};

// One mapped file of the model, or the keys of a model constructed in memory.
struct gguf_part {
    char *path;
    struct mapped_file file; // empty if data is a mapping without a file
    const unsigned char *data;
    size_t size;
    struct gguf_entry *entries;
    size_t n_entries;
    struct gguf_names keys;
    struct tensor *tensors;
    size_t n_tensors;
};

struct gguf {
    struct gguf_part *parts; // parts; key-values are read from the first
    size_t n_parts;
    struct tensor *tensors; // tensors of all parts, in file order
    size_t n_tensors;
    struct gguf_names names; // index of `tensors`
    struct arena arena;
    struct gguf_regions *regions; // tensors generated on demand; NULL for a file
};

// Parses part->data and part->size, and fills in the rest of `part`. Indexes are in the arena.
enum status gguf_parse(struct gguf_part *part, struct arena *arena, struct error *error) WARN_UNUSED;
enum status gguf_out_of_memory(struct error *error);

enum status gguf_names_create(struct gguf_names *names, size_t n_names, struct arena *arena,
                              struct error *error) WARN_UNUSED;
size_t gguf_names_start(const struct gguf_names *names, struct text name); // the first slot to probe
void gguf_names_add(struct gguf_names *names, struct text name, size_t index);

const struct gguf_entry *gguf_part_entry(const struct gguf_part *part, struct text key); // NULL: absent
const char *gguf_kind_name(enum gguf_kind kind);
size_t gguf_kind_bytes(enum gguf_kind kind); // size of a scalar; 0 for a string or an array
// Does the work of gguf_u32 for one part.
enum status gguf_part_u32(const struct gguf_part *part, const char *key, uint32_t *value, bool *found,
                          struct error *error) WARN_UNUSED;
