#include "consumer/command/files/joined_job.h"

#include "consumer/command/files/split_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct split_place place_of(const struct joined_job *joined, size_t part)
{
    struct split_place place = {0};
    (void)split_place_read(joined->parts[part]->custom_id, &place);
    return place;
}

bool joined_job_fits(const struct joined_job *joined, const struct job *part)
{
    struct split_place place;
    const struct result *result = &part->result;
    if (!split_place_read(part->custom_id, &place))
        return false;
    if (result->status == RESULT_DONE && result->embeddings.n_items != place.last - place.first + 1)
        return false; // no embedding job's
    if (joined->n == 0)
        return place.first == 0;
    const struct split_place before = place_of(joined, joined->n - 1);
    return text_equal(place.id, before.id) && place.n_all == before.n_all && place.first == joined->n_inputs;
}

bool joined_job_add(struct joined_job *joined, struct job *part)
{
    if (joined->n == joined->capacity) {
        size_t capacity = joined->capacity ? 2 * joined->capacity : 16;
        struct job **parts = realloc(joined->parts, capacity * sizeof *parts);
        if (!parts)
            return false;
        joined->parts = parts;
        joined->capacity = capacity;
    }
    joined->parts[joined->n++] = part;
    joined->n_inputs = place_of(joined, joined->n - 1).last + 1;
    return true;
}

bool joined_job_is_complete(const struct joined_job *joined)
{
    return joined->n > 0 && joined->n_inputs == place_of(joined, 0).n_all;
}

// "input[3]: ..." of the part is an input of the whole job.
static void renumber(const char *text, int64_t first, char renumbered[ERROR_TEXT_BYTES])
{
    int end = 0;
    long long index;
    bool is_numbered = sscanf(text, "input[%lld]%n", &index, &end) == 1 && end > 0;
    if (is_numbered)
        snprintf(renumbered, ERROR_TEXT_BYTES, "input[%lld]%s", index + (long long)first, text + end);
    else
        snprintf(renumbered, ERROR_TEXT_BYTES, "%s", text);
}

static bool copy_item(struct job *whole, struct embedding *item, const struct embedding *from, int64_t first)
{
    char text[ERROR_TEXT_BYTES], renumbered[ERROR_TEXT_BYTES];
    *item = *from;
    if (from->items)
        return true;
    snprintf(text, sizeof text, "%.*s", (int)from->message.size, from->message.data);
    renumber(text, first, renumbered);
    return job_set_text(whole, &item->message, text_from_string(renumbered));
}

static struct job *join_done(struct joined_job *joined)
{
    struct job *whole = joined->parts[0];
    struct embeddings *embeddings = &whole->result.embeddings;
    struct embedding *items =
        arena_allocate_array(&whole->arena, (size_t)joined->n_inputs, sizeof *embeddings->items);
    bool is_copied = items != NULL;
    int32_t n = 0;
    for (size_t i = 0; i < joined->n && is_copied; i++) {
        const struct result *part = &joined->parts[i]->result;
        for (int32_t j = 0; j < part->embeddings.n_items && is_copied; j++, n++)
            is_copied = copy_item(whole, &items[n], &part->embeddings.items[j], place_of(joined, i).first);
        if (i == 0)
            continue;
        whole->result.prompt_tokens += part->prompt_tokens;
        whole->result.cut_tokens += part->cut_tokens;
    }
    embeddings->items = items;
    embeddings->n_items = n;
    return is_copied ? whole : NULL;
}

struct job *joined_job_result(struct joined_job *joined)
{
    const struct split_place place = place_of(joined, 0);
    struct job *whole = NULL;
    for (size_t i = 0; i < joined->n && !whole; i++) {
        struct job *part = joined->parts[i];
        if (part->result.status == RESULT_DONE)
            continue;
        char text[ERROR_TEXT_BYTES];
        renumber(part->result.error.text, place_of(joined, i).first, text);
        memcpy(part->result.error.text, text, sizeof text);
        whole = part;
    }
    if (!whole)
        whole = join_done(joined);
    return whole && job_set_text(whole, &whole->custom_id, place.id) ? whole : NULL;
}

void joined_job_clear(struct joined_job *joined)
{
    while (joined->n)
        job_destroy(joined->parts[--joined->n]);
    joined->n_inputs = 0;
}

void joined_job_finish(struct joined_job *joined)
{
    joined_job_clear(joined);
    free(joined->parts);
    *joined = (struct joined_job){0};
}
