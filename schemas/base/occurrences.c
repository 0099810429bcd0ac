#include "schemas/base/occurrences.h"

#include <stdlib.h>

enum { PLACES_FIRST = 1024 };

static struct occurrence *find_place(struct occurrence *places, size_t n_places, uint64_t hash)
{
    size_t i = hash & (n_places - 1);
    while (places[i].n && places[i].hash != hash)
        i = (i + 1) & (n_places - 1);
    return &places[i];
}

static bool grow_table(struct occurrences *occurrences)
{
    if (4 * (occurrences->n_used + 1) <= 3 * occurrences->n_places)
        return true;
    size_t n_places = occurrences->n_places ? 2 * occurrences->n_places : PLACES_FIRST;
    struct occurrence *places = calloc(n_places, sizeof *places);
    if (!places)
        return false;
    for (size_t i = 0; i < occurrences->n_places; i++)
        if (occurrences->places[i].n)
            *find_place(places, n_places, occurrences->places[i].hash) = occurrences->places[i];
    free(occurrences->places);
    occurrences->places = places;
    occurrences->n_places = n_places;
    return true;
}

bool occurrences_count(struct occurrences *occurrences, uint64_t hash, uint64_t *n)
{
    if (!grow_table(occurrences))
        return false;
    struct occurrence *place = find_place(occurrences->places, occurrences->n_places, hash);
    occurrences->n_used += place->n == 0;
    place->hash = hash;
    *n = place->n++;
    return true;
}

uint64_t occurrences_of(const struct occurrences *occurrences, uint64_t hash)
{
    return occurrences->n_places ? find_place(occurrences->places, occurrences->n_places, hash)->n : 0;
}

void occurrences_finish(struct occurrences *occurrences)
{
    free(occurrences->places);
    *occurrences = (struct occurrences){0};
}
