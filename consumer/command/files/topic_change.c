#include "consumer/command/files/topic_change.h"

#include "consumer/queue/headers.h"
#include "consumer/queue/kafka/client/kafka_client.h"
#include "schemas/base/hash.h"

#include <stdlib.h>

struct submitted_lines {
    struct text dataset;
    uint64_t *hashes; // [n_lines + 1] of each line's record; 0: none
    int64_t n_lines, n_found;
};

// Never 0: 0 means no record.
static uint64_t hash_of(struct text line)
{
    uint64_t hash = hash_bytes(line.data, line.size, 0);
    return hash ? hash : 1;
}

static enum status receive_record(void *context, const struct record *record, struct error *error)
{
    struct submitted_lines *lines = context;
    int64_t number = 0;
    (void)error;
    if (!text_equal(headers_find(record->headers, record->n_headers, HEADER_DATASET), lines->dataset) ||
        !headers_read_integer(record->headers, record->n_headers, HEADER_INDEX, &number) || number < 1 ||
        number > lines->n_lines)
        return STATUS_OK;
    lines->n_found += lines->hashes[number] == 0;
    lines->hashes[number] = hash_of(record->value);
    return STATUS_OK;
}

// A line without a record must be blank, unless records are missing.
static bool is_same(const struct submitted_lines *lines, int64_t number, struct text line, bool all_found)
{
    uint64_t hash = lines->hashes[number];
    if (!hash)
        return !all_found || input_line_is_blank(line);
    struct text kept = {line.data, line.size < TOPIC_LINE_KEPT_BYTES ? line.size : TOPIC_LINE_KEPT_BYTES};
    return !input_line_is_blank(line) && (hash == hash_of(line) || hash == hash_of(kept));
}

static int64_t find_line(const struct submitted_lines *lines, struct input *input, bool all_found)
{
    struct text line = {0};
    struct error error;
    enum status status = input_rewind(input, &error);
    while (status == STATUS_OK && input->lines.number < lines->n_lines) {
        status = input_lines_next(&input->lines, &line, &error);
        if (status != STATUS_OK || !line.data)
            return 0;
        if (!is_same(lines, input->lines.number, line, all_found))
            return input->lines.number;
    }
    return 0;
}

int64_t topic_change_find(const struct kafka_config *config, struct text dataset, struct input *input,
                          int64_t n_lines, int64_t n_jobs)
{
    if (n_lines > TOPIC_CHANGE_LINES_MAX)
        return 0;
    struct submitted_lines lines = {.dataset = dataset,
                                    .hashes = calloc((size_t)n_lines + 1, sizeof *lines.hashes),
                                    .n_lines = n_lines};
    struct error error;
    int64_t number = 0;
    if (lines.hashes && kafka_read_topic(config, config->topics.jobs, KAFKA_END_STABLE, receive_record,
                                         &lines, &error) == STATUS_OK)
        number = find_line(&lines, input, lines.n_found == n_jobs);
    free(lines.hashes);
    return number;
}
