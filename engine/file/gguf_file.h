// Declarations shared by gguf_names.c (index), gguf_keys.c (accessors), gguf_parse.c (one file's bytes),
// gguf.c (opening, parts), gguf_write.c and gguf_made.c (models constructed in memory). Private to these;
// each calls only files named before it.
#pragma once

#include "engine/file/gguf.h"
#include "engine/file/mapped_file.h"
#include "schemas/base/arena.h"

// One key-value; `kind` decides which member is valid.
struct gguf_entry {
    struct text key;
    enum gguf_kind kind;
    const unsigned char *scalar; // unaligned, little-endian
    struct text string;
    struct gguf_array array;
};

// Open addressing by hash: slots hold index + 1, 0 is free. `mask` + 1 slots, at most half full.
struct gguf_names {
    uint32_t *slots;
    size_t mask;
};

// One file of the model, mapped; or the keys of a model constructed in memory.
struct gguf_part {
    char *path;
    struct mapped_file file; // empty: data is a mapping without a file
    const unsigned char *data;
    size_t size;
    struct gguf_entry *entries;
    size_t n_entries;
    struct gguf_names keys;
    struct tensor *tensors;
    size_t n_tensors;
};

struct gguf {
    struct gguf_part *parts; // key-values are read from the first
    size_t n_parts;
    struct tensor *tensors; // of all parts, in file order
    size_t n_tensors;
    struct gguf_names names; // of `tensors`
    struct arena arena;
    struct gguf_regions *regions; // tensors generated on demand; NULL: a file
};

// Parses part->data and part->size into the rest of `part`; indexes live in the arena.
enum status gguf_parse(struct gguf_part *part, struct arena *arena, struct error *error) WARN_UNUSED;
enum status gguf_out_of_memory(struct error *error);

enum status gguf_names_create(struct gguf_names *names, size_t n_names, struct arena *arena,
                              struct error *error) WARN_UNUSED;
size_t gguf_names_start(const struct gguf_names *names, struct text name); // first slot to probe
void gguf_names_add(struct gguf_names *names, struct text name, size_t index);

const struct gguf_entry *gguf_part_entry(const struct gguf_part *part, struct text key); // NULL: absent
const char *gguf_kind_name(enum gguf_kind kind);
size_t gguf_kind_bytes(enum gguf_kind kind); // of a scalar; 0: string, array
// As gguf_u32, in one part.
enum status gguf_part_u32(const struct gguf_part *part, const char *key, uint32_t *value, bool *found,
                          struct error *error) WARN_UNUSED;
