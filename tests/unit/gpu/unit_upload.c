// The host inputs of a step as the device reads them: each array where the layout says, padded, and each
// sequence, output and tile with its lists (gpu/upload.h).
#include "gpu/upload.h"
#include "tests/support/cases.h"

#include <math.h>

enum { PAGE = 64, VOCAB = 100, N_DIMS = 6 };

int32_t attention_small_queries(const struct attention_pages *pages, int32_t n_heads,
                                uint64_t shared_bytes_max)
{
    return 16;
}

// Four sequences: a chunk of 3 rows of which 1 is stored, single tokens at borders of pages, a token that is
// not known yet.
static const int32_t pages[4][5] = {{11, 12, 13}, {21}, {31, 32}, {41, 42, 43, 44, 45}};
static const struct step_sequence sequences[4] = {
    {.first_row = 0, .n_tokens = 3, .position = 126, .pages = pages[0], .n_stored = 127},
    {.first_row = 3, .n_tokens = 1, .position = 63, .pages = pages[1]},
    {.first_row = 4, .n_tokens = 1, .position = 64, .pages = pages[2]},
    {.first_row = 5, .n_tokens = 1, .position = 319, .pages = pages[3]}};
static const int32_t n_pages[4] = {3, 1, 2, 5};
static const int32_t tokens[6] = {50, 51, 52, 60, 70, -1}, positions[6] = {126, 127, 128, 63, 64, 319};
static const int32_t output_rows[4] = {2, 3, 4, 5};
static const float rope[6 * N_DIMS] = {1, 2, 3, 4, 5, 6, 7, 8, [35] = 36};

static const struct logit_bias two_biases[] = {{7, -1.5f}, {99, 100}}, one_bias[] = {{0, 3}};
static const int32_t prompt[] = {1, 2, 3, 4, 99}, generated[] = {5, 6};
static const uint32_t allowed[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
static const struct sampling samplings[4] = {
    {.seed = 1234567890123,
     .temperature = 0.5f,
     .top_p = 0.9f,
     .min_p = 0.1f,
     .top_k = 40,
     .repetition_penalty = 1,
     .logit_bias = (struct logit_bias *)two_biases,
     .n_logit_bias = 2,
     .logprobs = true,
     .top_logprobs = 3},
    {.repetition_penalty = 1.25f,
     .presence_penalty = 0.5f,
     .frequency_penalty = -0.25f,
     .temperature = 1,
     .top_p = 1},
    {.repetition_penalty = 1,
     .temperature = 1,
     .top_p = 1,
     .logprobs = true,
     .top_logprobs = JOB_TOP_LOGPROBS_MAX + 5},
    {.repetition_penalty = 1,
     .presence_penalty = 1,
     .logit_bias = (struct logit_bias *)one_bias,
     .n_logit_bias = 1,
     .top_logprobs = 2},
};
static const struct sample_request samples[4] = {
    {.sampling = &samplings[0],
     .index = 9,
     .choice = 2,
     .prompt = prompt,
     .n_prompt = 5,
     .generated = generated,
     .n_generated = 2,
     .allowed = allowed[0],
     .n_allowed_words = 4},
    {.sampling = &samplings[1],
     .index = 2,
     .prompt = prompt,
     .n_prompt = 5,
     .generated = generated,
     .n_generated = 2},
    {.sampling = &samplings[2], .pending = 3, .prompt = prompt, .n_prompt = 5},
    {.sampling = &samplings[3],
     .pending = 1,
     .prompt = prompt + 1,
     .n_prompt = 3,
     .generated = generated + 1,
     .n_generated = 1,
     .allowed = allowed[1],
     .n_allowed_words = 4},
};

static struct step make_step(void)
{
    return (struct step){.n_tokens = 6,
                         .tokens = tokens,
                         .positions = positions,
                         .n_sequences = 4,
                         .sequences = sequences,
                         .rope = {rope, NULL},
                         .n_rope_dims = {N_DIMS, N_DIMS},
                         .n_outputs = 4,
                         .output_rows = output_rows,
                         .samples = samples};
}

static struct attention_shared_tile shared_tiles[2] = {
    {.segment = 0, .first_page = 3, .first_member = 0, .n_queries = 8, .position_least = 319},
    {.segment = 0, .first_page = 0, .first_member = 2, .n_queries = 4, .position_least = 126}};
static int32_t members[4] = {5, 0, 1, 2}, first_parts[4] = {-1, 3, 4, 0}, n_shared[4] = {0, 0, 0, 1};
static const struct shared_prefix shared = {.first_parts = first_parts,
                                            .n_shared = n_shared,
                                            .members = members,
                                            .n_part_rows = 4,
                                            .tiles = shared_tiles,
                                            .n_tiles = 2};
static const struct attention_assign_rules rules = {8, 2, 3, true};
static const struct upload_counts exact = {6, 4, 4, 2, 3, 7, 0}, padded = {10, 6, 7, 8, 3, 9, 0};

// Arrays in their order, with their sizes in bytes.
struct upload_part {
    size_t at, size;
};

static size_t list_parts(const struct upload_layout *layout, const struct step *step,
                         const struct upload_counts *counts, bool has_pages, struct upload_part *parts)
{
    bool samples_wanted = step->samples != NULL;
    size_t rows = (size_t)counts->n_rows, tiles = (size_t)counts->n_shared_tiles,
           runs = (size_t)counts->n_runs;
    const struct upload_part all[] = {
        {layout->tokens, rows * 4},
        {layout->positions, rows * 4},
        {layout->row_sequences, rows * 4},
        {layout->output_rows, (size_t)counts->n_outputs * 4},
        {layout->sequences, (size_t)counts->n_sequences * sizeof(struct attention_sequence)},
        {layout->settings, samples_wanted ? (size_t)counts->n_outputs * sizeof(struct sample_settings) : 0},
        {layout->rope[0], step->rope[0] ? rows * N_DIMS * 4 : 0},
        {layout->rope[1], step->rope[1] ? rows * N_DIMS * 4 : 0},
        {layout->shared.tiles, tiles * sizeof(struct attention_shared_tile)},
        {layout->shared.members, tiles ? rows * 4 : 0},
        {layout->runs, runs ? (runs + 1) * sizeof(struct attention_run) : 0},
        {layout->arrivals, (size_t)counts->n_arrivals * 4},
        {layout->kept.sequences, (size_t)counts->n_kept * sizeof(struct attention_sequence)},
        {layout->kept.rope[0], step->rope[0] ? (size_t)counts->n_kept * N_DIMS * 4 : 0},
        {layout->kept.rope[1], step->rope[1] ? (size_t)counts->n_kept * N_DIMS * 4 : 0},
        {layout->pages, has_pages ? (3 + 1 + 2 + 5) * 4 : 0},
        {layout->biases, samples_wanted ? 3 * sizeof(struct sample_bias) : 0},
        {layout->history, samples_wanted ? (5 + 2 + 3 + 1 + 1) * 4 : 0},
        {layout->masks, samples_wanted ? 8 * 4 : 0},
    };
    memcpy(parts, all, sizeof all);
    return sizeof all / sizeof *all;
}

static void check_layout(const struct step *step, const struct upload_counts *counts, int32_t page_positions)
{
    struct upload_part parts[19];
    struct upload_layout layout = upload_layout(step, counts, page_positions);
    size_t n = list_parts(&layout, step, counts, page_positions > 0, parts), end = 0;
    for (size_t i = 0; i < n; i++) { // consecutive, each at the next multiple of 16
        assert_int_equal(parts[i].at, end);
        end = (parts[i].at + parts[i].size + 15) / 16 * 16;
    }
    assert_int_equal(layout.total_bytes, end);
}

TEST(arrays_stand_one_after_the_other_at_multiples_of_16)
{
    struct step step = make_step();
    check_layout(&step, &exact, PAGE);
    check_layout(&step, &padded, PAGE);
    check_layout(&step, &padded, 0);
    step.rope[1] = rope;
    check_layout(&step, &padded, PAGE);
    step.samples = NULL;
    step.rope[0] = NULL;
    check_layout(&step, &padded, PAGE);
    check_layout(&step, &(struct upload_counts){6, 4, 4, 0, 0, 0, 4}, PAGE);
}

// Offsets that a graph was captured with do not change.
TEST(places_of_padded_arrays_do_not_depend_on_the_step)
{
    struct step step = make_step(), other = step;
    other.n_tokens = 3, other.n_sequences = 1, other.n_outputs = 1;
    struct upload_layout a = upload_layout(&step, &padded, PAGE), b = upload_layout(&other, &padded, PAGE);
    assert_memory_equal(&a, &b, offsetof(struct upload_layout, biases));
    assert_true(b.total_bytes < a.total_bytes);
}

static const void *place(const unsigned char *bytes, size_t at)
{
    return bytes + at;
}

static void check_rows(const unsigned char *bytes, const struct upload_layout *layout,
                       const struct upload_counts *counts)
{
    static const int32_t row_sequences[] = {-1, 0, 0, 1, 2, 3}; // the first is stored
    const int32_t *got[4] = {place(bytes, layout->tokens), place(bytes, layout->positions),
                             place(bytes, layout->row_sequences), place(bytes, layout->output_rows)};
    const float *got_rope = place(bytes, layout->rope[0]);
    for (int32_t i = 0; i < counts->n_rows; i++) {
        assert_int_equal(got[0][i], i < 6 ? tokens[i] : 0);
        assert_int_equal(got[1][i], i < 6 ? positions[i] : 0);
        assert_int_equal(got[2][i], i < 6 ? row_sequences[i] : -1);
        for (int32_t j = 0; j < N_DIMS; j++)
            assert_true(got_rope[i * N_DIMS + j] == (i < 6 ? rope[i * N_DIMS + j] : 0));
    }
    for (int32_t i = 0; i < counts->n_outputs; i++)
        assert_int_equal(got[3][i], i < 4 ? output_rows[i] : -1);
}

static void check_sequences(const unsigned char *bytes, const struct upload_layout *layout,
                            const struct upload_counts *counts)
{
    const struct attention_sequence *got = place(bytes, layout->sequences);
    const int32_t *all = place(bytes, 0);
    for (int32_t i = 0; i < counts->n_sequences; i++) {
        if (i >= 4) {
            assert_memory_equal(&got[i], &(struct attention_sequence){0}, sizeof *got);
            continue;
        }
        assert_int_equal(got[i].first_row, sequences[i].first_row);
        assert_int_equal(got[i].n_rows, sequences[i].n_tokens);
        assert_int_equal(got[i].position, sequences[i].position);
        assert_int_equal(got[i].first_part, first_parts[i]);
        assert_int_equal(got[i].n_shared, n_shared[i]);
        assert_in_range((size_t)got[i].first_page * 4, layout->pages,
                        layout->biases - (size_t)n_pages[i] * 4);
        assert_memory_equal(all + got[i].first_page, pages[i], (size_t)n_pages[i] * 4);
        if (i > 0)
            assert_int_equal(got[i].first_page, got[i - 1].first_page + n_pages[i - 1]);
    }
}

static void check_shared(const unsigned char *bytes, const struct upload_layout *layout,
                         const struct upload_counts *counts)
{
    const struct attention_sequence *by = place(bytes, layout->sequences);
    const struct attention_shared_tile *got = place(bytes, layout->shared.tiles);
    for (int32_t i = 0; i < counts->n_shared_tiles; i++) {
        struct attention_shared_tile expected = {0};
        if (i < 2) {
            expected = shared_tiles[i];
            expected.first_page = by[shared_tiles[i].first_page].first_page;
        }
        assert_memory_equal(&got[i], &expected, sizeof expected);
    }
    assert_memory_equal(place(bytes, layout->shared.members), members, sizeof members);
}

static void check_runs(const unsigned char *bytes, const struct upload_layout *layout,
                       const struct upload_counts *counts)
{
    struct attention_sequence expected[4];
    struct attention_run runs[4];
    const struct attention_sequence *got = place(bytes, layout->sequences);
    const int32_t *arrivals = place(bytes, layout->arrivals);
    memcpy(expected, got, sizeof expected);
    attention_assign(expected, 4, &rules, runs);
    assert_memory_equal(place(bytes, layout->runs), runs, sizeof runs);
    for (int32_t i = 0; i < 4; i++)
        assert_int_equal(got[i].n_runs, expected[i].n_runs);
    assert_true(got[3].n_runs > 0);
    for (int32_t i = 0; i < counts->n_arrivals; i++)
        assert_int_equal(arrivals[i], 0);
}

static void check_settings(const struct sample_settings *got, const struct sampling *sampling, uint32_t index,
                           uint32_t choice)
{
    assert_true(got->seed == sampling->seed);
    assert_int_equal(got->index, index);
    assert_int_equal(got->choice, choice);
    assert_true(got->temperature == sampling->temperature && got->top_p == sampling->top_p &&
                got->min_p == sampling->min_p);
    assert_true(got->penalties.presence == sampling->presence_penalty &&
                got->penalties.frequency == sampling->frequency_penalty &&
                got->penalties.repetition == sampling->repetition_penalty);
    assert_int_equal(got->top_k, sampling->top_k);
    assert_int_equal(got->n_biases, sampling->n_logit_bias);
}

static void check_samples(const unsigned char *bytes, const struct upload_layout *layout,
                          const struct upload_counts *counts)
{
    const struct sample_settings *got = place(bytes, layout->settings);
    const struct sample_bias *biases = place(bytes, 0);
    const int32_t *all = place(bytes, 0);
    const uint32_t *masks = place(bytes, 0);
    for (int32_t i = 0; i < 4; i++)
        check_settings(&got[i], &samplings[i], samples[i].index, samples[i].choice);
    for (int32_t i = 4; i < counts->n_outputs; i++)
        assert_memory_equal(&got[i], &(struct sample_settings){0}, sizeof *got);
    assert_int_equal(got[0].flags, SAMPLE_WANTED | SAMPLE_LOGPROBS | SAMPLE_ADJUSTS | SAMPLE_MASKED);
    assert_int_equal(got[1].flags, SAMPLE_WANTED | SAMPLE_ADJUSTS);
    assert_int_equal(got[2].flags, SAMPLE_WANTED | SAMPLE_LOGPROBS);
    assert_int_equal(got[3].flags, SAMPLE_WANTED | SAMPLE_ADJUSTS | SAMPLE_MASKED);
    static const int32_t n_top[] = {3, 0, JOB_TOP_LOGPROBS_MAX, 0};
    for (int32_t i = 0; i < 4; i++)
        assert_int_equal(got[i].n_top, n_top[i]);
    // biases
    assert_int_equal((size_t)got[0].first_bias * sizeof *biases, layout->biases);
    assert_int_equal(got[3].first_bias, got[0].first_bias + 2);
    assert_memory_equal(biases + got[0].first_bias, (&(struct sample_bias[]){{7, -1.5f}, {99, 100}, {0, 3}}),
                        3 * sizeof *biases);
    // histories: of outputs with penalties alone
    assert_int_equal(got[0].history.n_prompt + got[0].history.n_generated, 0);
    assert_int_equal(got[2].history.n_prompt + got[2].history.n_generated, 0);
    assert_int_equal((size_t)got[1].history.first_token * 4, layout->history);
    assert_int_equal(got[1].history.n_prompt, 5);
    assert_int_equal(got[1].history.n_generated, 2);
    assert_memory_equal(all + got[1].history.first_token, (&(int32_t[]){1, 2, 3, 4, 99, 5, 6}), 7 * 4);
    assert_int_equal(got[3].history.first_token, got[1].history.first_token + 7);
    assert_int_equal(got[3].history.n_prompt, 3);
    assert_int_equal(got[3].history.n_generated, 2); // with the one that is not known yet
    assert_memory_equal(all + got[3].history.first_token, (&(int32_t[]){2, 3, 4, 6, -1}), 5 * 4);
    // masks
    assert_int_equal((size_t)got[0].first_mask * 4, layout->masks);
    assert_int_equal(got[3].first_mask, got[0].first_mask + 4);
    assert_memory_equal(masks + got[0].first_mask, allowed, sizeof allowed);
}

TEST(every_array_has_the_step_s_items_and_its_padding)
{
    struct step step = make_step();
    for (int i = 0; i < 2; i++) {
        const struct upload_counts *counts = i ? &padded : &exact;
        struct upload_layout layout = upload_layout(&step, counts, PAGE);
        unsigned char *bytes = malloc(layout.total_bytes + 16);
        memset(bytes, 0xa5, layout.total_bytes + 16);
        upload_fill(bytes, &layout, &step, counts, PAGE, &shared, &rules, VOCAB);
        check_rows(bytes, &layout, counts);
        check_sequences(bytes, &layout, counts);
        check_shared(bytes, &layout, counts);
        check_runs(bytes, &layout, counts);
        check_samples(bytes, &layout, counts);
        for (int j = 0; j < 16; j++)
            assert_int_equal(bytes[layout.total_bytes + (size_t)j], 0xa5);
        free(bytes);
    }
}

TEST(what_a_step_lacks_is_left_out)
{
    struct step step = make_step();
    struct upload_counts counts = {6, 4, 4, 0, 0, 0, 0};
    struct shared_prefix none = {.first_parts = first_parts, .n_shared = n_shared};
    step.samples = NULL;
    step.rope[0] = NULL;
    step.rope[1] = rope;
    struct upload_layout layout = upload_layout(&step, &counts, 0);
    unsigned char *bytes = malloc(layout.total_bytes);
    memset(bytes, 0xa5, layout.total_bytes);
    upload_fill(bytes, &layout, &step, &counts, 0, &none, NULL, VOCAB);
    const struct attention_sequence *got = place(bytes, layout.sequences);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(got[i].first_row, sequences[i].first_row);
        assert_int_equal(got[i].n_runs, 0);
    }
    assert_memory_equal(place(bytes, layout.rope[1]), rope, sizeof rope);
    assert_memory_equal(place(bytes, layout.output_rows), output_rows, sizeof output_rows);
    free(bytes);
}
