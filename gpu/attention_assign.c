#include "gpu/attention_assign.h"

#include <string.h>

enum {
    // Fixed cost of a segment, in positions: issuing its loads, turning scores into weights, adding the sums.
    SEGMENT_COST = 64,
    // Sequences are left whole if the longest run is at most this much longer than the mean.
    UNEVEN_PERCENT = 12,
};

static int32_t tiles_of(const struct attention_pages *pages, int32_t n_heads,
                        const struct attention_device *device)
{
    int32_t queries = attention_small_queries(pages, n_heads, device->shared_bytes_max),
            most = (n_heads / pages->n_kv_heads + 15) / 16 * 16;
    return pages->n_kv_heads * ((most + queries - 1) / queries);
}

int32_t attention_assign_runs(const struct attention_pages *pages, int32_t n_heads,
                              const struct attention_device *device)
{
    int32_t n = ATTENTION_BLOCKS_RESIDENT * device->n_multiprocessors / tiles_of(pages, n_heads, device);
    return n > 1 ? n : 1;
}

int32_t attention_assign_arrivals(const struct attention_pages *pages, int32_t n_heads,
                                  const struct attention_device *device, int32_t n_sequences)
{
    return n_sequences * tiles_of(pages, n_heads, device);
}

// Number of positions that the sequence's last row sees.
static int32_t end_of(const struct attention_sequence *sequence)
{
    return sequence->n_text ? sequence->n_text : sequence->position + sequence->n_rows;
}

// Number of segments that the sequence computes itself: all but the shared ones. 0: the decode kernel does
// not handle the sequence.
static int32_t count_segments(const struct attention_sequence *sequence,
                              const struct attention_assign_rules *rules)
{
    if (sequence->n_rows == 0 || !attention_is_small(sequence->n_rows, rules->n_heads, rules->n_kv_heads))
        return 0;
    return (end_of(sequence) - 1) / ATTENTION_SEGMENT + 1 - sequence->n_shared;
}

// Cost, in positions, of the first n segments that the sequence computes itself.
static int64_t cost_of(const struct attention_sequence *sequence, const struct attention_assign_rules *rules,
                       int32_t n)
{
    int64_t end = end_of(sequence), positions = (int64_t)(sequence->n_shared + n) * ATTENTION_SEGMENT;
    if (n == count_segments(sequence, rules) && end < positions)
        positions = end;
    return n ? positions - (int64_t)sequence->n_shared * ATTENTION_SEGMENT + (int64_t)n * SEGMENT_COST : 0;
}

// Assigns whole sequences to runs whose cost is at most `most`. False: the sequences do not fit in n_runs
// runs.
static bool assign_whole(const struct attention_sequence *sequences, int32_t n_sequences,
                         const struct attention_assign_rules *rules, int64_t most, struct attention_run *runs)
{
    int64_t in_run = 0;
    int32_t n = 0;
    runs[0] = (struct attention_run){0, 0};
    for (int32_t i = 0; i < n_sequences; i++) {
        int64_t cost = cost_of(&sequences[i], rules, count_segments(&sequences[i], rules));
        if (in_run > 0 && in_run + cost > most) {
            if (++n == rules->n_runs)
                return false;
            runs[n] = (struct attention_run){i, 0};
            in_run = 0;
        }
        in_run += cost;
        if (in_run > most)
            return false;
    }
    while (n < rules->n_runs)
        runs[++n] = (struct attention_run){n_sequences, 0};
    return true;
}

// Run i begins with the first segment that begins at i / n_runs of the total cost or later.
static void assign_cut(const struct attention_sequence *sequences, int32_t n_sequences,
                       const struct attention_assign_rules *rules, int64_t whole, struct attention_run *runs)
{
    int64_t before = 0;
    int32_t n = 0;
    for (int32_t i = 0; i < n_sequences; i++) {
        int32_t n_segments = count_segments(&sequences[i], rules);
        for (int32_t segment = 0; segment < n_segments; segment++) {
            int64_t at = before + cost_of(&sequences[i], rules, segment);
            while (n < rules->n_runs && n * whole <= at * rules->n_runs)
                runs[n++] = (struct attention_run){i, segment ? sequences[i].n_shared + segment : 0};
        }
        before += cost_of(&sequences[i], rules, n_segments);
    }
    while (n <= rules->n_runs)
        runs[n++] = (struct attention_run){n_sequences, 0};
}

// Counts the runs that have segments of each sequence.
static void count_runs(struct attention_sequence *sequences, int32_t n_sequences,
                       const struct attention_assign_rules *rules, const struct attention_run *runs)
{
    for (int32_t i = 0; i < n_sequences; i++)
        sequences[i].n_runs = count_segments(&sequences[i], rules) ? 1 : 0;
    for (int32_t run = 1; run <= rules->n_runs; run++)
        if (runs[run].segment > 0 && memcmp(&runs[run], &runs[run - 1], sizeof *runs) != 0)
            sequences[runs[run].sequence].n_runs++;
}

// Finds the lowest bound, to within 1 % of the mean, at which the whole sequences fit in the runs; `runs`
// gets these runs. The bound longest + mean always suffices, because then every run but the last exceeds the
// mean.
static int64_t bound_whole(const struct attention_sequence *sequences, int32_t n_sequences,
                           const struct attention_assign_rules *rules, int64_t longest, int64_t mean,
                           struct attention_run *runs)
{
    int64_t low = longest > mean ? longest : mean, high = longest + mean;
    while (high - low > mean / 100) {
        int64_t middle = low + (high - low) / 2;
        if (assign_whole(sequences, n_sequences, rules, middle, runs))
            high = middle;
        else
            low = middle + 1;
    }
    assign_whole(sequences, n_sequences, rules, high, runs);
    return high;
}

void attention_assign(struct attention_sequence *sequences, int32_t n_sequences,
                      const struct attention_assign_rules *rules, struct attention_run *runs)
{
    int64_t whole = 0, longest = 0;
    for (int32_t i = 0; i < n_sequences; i++) {
        int64_t cost = cost_of(&sequences[i], rules, count_segments(&sequences[i], rules));
        whole += cost;
        longest = cost > longest ? cost : longest;
    }
    int64_t mean = whole / rules->n_runs + 1,
            most = bound_whole(sequences, n_sequences, rules, longest, mean, runs);
    if (rules->may_cut && most > mean + mean * UNEVEN_PERCENT / 100)
        assign_cut(sequences, n_sequences, rules, whole, runs);
    count_runs(sequences, n_sequences, rules, runs);
}
