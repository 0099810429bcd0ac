#include "schemas/base/nearest.h"

#include <string.h>

enum { NEAREST_BYTES_MAX = 64, SHORTENED_BYTES_MIN = 3 };

// Computes the Levenshtein distance in bytes of two texts of at most NEAREST_BYTES_MAX bytes.
static size_t edit_distance(struct text a, struct text b)
{
    size_t row[NEAREST_BYTES_MAX + 1];
    for (size_t j = 0; j <= b.size; j++)
        row[j] = j;
    for (size_t i = 1; i <= a.size; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.size; j++) {
            size_t replaced = diagonal + (a.data[i - 1] != b.data[j - 1]);
            size_t other = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = replaced < other ? replaced : other;
        }
    }
    return row[b.size];
}

struct nearest nearest_begin(struct text name)
{
    return (struct nearest){.name = name, .distance = name.size / 2 + 1};
}

bool nearest_try(struct nearest *nearest, struct text candidate)
{
    if (nearest->name.size > NEAREST_BYTES_MAX || candidate.size > NEAREST_BYTES_MAX)
        return false;
    struct text name = nearest->name;
    bool is_shortened = name.size >= SHORTENED_BYTES_MIN && name.size < candidate.size &&
                        memcmp(name.data, candidate.data, name.size) == 0;
    size_t distance = is_shortened ? 1 : edit_distance(name, candidate);
    if (distance >= nearest->distance)
        return false;
    nearest->distance = distance;
    nearest->found = candidate;
    return true;
}

struct text nearest_name(struct text name, const struct text *names, size_t n)
{
    struct nearest nearest = nearest_begin(name);
    for (size_t i = 0; i < n; i++)
        (void)nearest_try(&nearest, names[i]);
    return nearest.found;
}
