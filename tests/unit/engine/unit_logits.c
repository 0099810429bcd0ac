// Logits of one text (engine/logits.h): at the borders of a chunk, of the context and of a longer context, and
// what is no text.
#include "engine/cpu/backend.h"
#include "engine/logits.h"
#include "tests/support/cases.h"
#include "tests/support/open_model.h"

enum { N_VOCAB = 320, N_CONTEXT = 300, N_ORIGINAL = 16, ROW = N_VOCAB * (int)sizeof(float) };

static struct model *model;
static struct pool *pool;
static struct error error;
static int32_t ids[N_CONTEXT + 1];

static void open_model(const struct model_recipe *recipe)
{
    model = open_model_of(recipe);
    assert_ok(pool_create(&pool, 2, &error), &error);
    for (int32_t i = 0; i <= N_CONTEXT; i++)
        ids[i] = (i * 37 + 5) % N_VOCAB;
}

static void close_model(void)
{
    pool_destroy(pool);
    model_close(model);
}

static enum status compute(int32_t n_ids, float *logits)
{
    struct backend *backend;
    assert_ok(cpu_backend_create(&backend, pool, CPU_AVX512, &error), &error);
    enum status status = logits_of_text(model, backend, KV_F32, ids, n_ids, logits, &error);
    backend->device.destroy(backend);
    return status;
}

TEST(the_logits_of_a_text_begin_with_those_of_its_beginning)
{
    static const int32_t lengths[] = {1, 32, 33, LOGITS_CHUNK_TOKENS, LOGITS_CHUNK_TOKENS + 1, N_CONTEXT - 1};
    static float whole[N_CONTEXT * N_VOCAB], part[N_CONTEXT * N_VOCAB];
    open_model(&(struct model_recipe){.seed = 3, .n_context = N_CONTEXT});
    assert_int_equal(compute(N_CONTEXT, whole), STATUS_OK);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        assert_int_equal(compute(lengths[i], part), STATUS_OK);
        assert_memory_equal(part, whole, lengths[i] * ROW);
    }
    close_model();
}

TEST(a_text_beyond_the_original_context_has_the_longer_one_s_factors)
{
    static float below[N_ORIGINAL * N_VOCAB], at[N_ORIGINAL * N_VOCAB], beyond[(N_ORIGINAL + 1) * N_VOCAB];
    open_model(&(struct model_recipe){.family = "phi3", .seed = 3, .larger = true});
    assert_int_equal(model->shape.n_context_original, N_ORIGINAL);
    assert_int_equal(compute(N_ORIGINAL - 1, below), STATUS_OK);
    assert_int_equal(compute(N_ORIGINAL, at), STATUS_OK);
    assert_int_equal(compute(N_ORIGINAL + 1, beyond), STATUS_OK);
    assert_memory_equal(at, below, (N_ORIGINAL - 1) * ROW);
    assert_memory_not_equal(beyond + N_VOCAB, at + N_VOCAB, ROW); // the first is not rotated
    close_model();
}

static void assert_rejected(int32_t n_ids, enum error_code code, const char *expected)
{
    static float logits[N_CONTEXT * N_VOCAB];
    assert_int_equal(compute(n_ids, logits), STATUS_REJECT);
    assert_int_equal(error.code, code);
    assert_string_equal(error.text, expected);
}

TEST(what_is_no_text_of_the_model_is_rejected)
{
    static float logits[N_VOCAB];
    open_model(&(struct model_recipe){.seed = 3, .n_context = N_CONTEXT});
    assert_rejected(0, ERROR_EMPTY_PROMPT, "no tokens");
    assert_rejected(N_CONTEXT + 1, ERROR_CONTEXT_LENGTH, "301 tokens: the model's context has 300");
    ids[2] = N_VOCAB;
    assert_rejected(3, ERROR_TOKEN_RANGE, "token 320 at 2: the vocabulary has 320");
    ids[0] = -1;
    assert_rejected(1, ERROR_TOKEN_RANGE, "token -1 at 0: the vocabulary has 320");
    ids[0] = N_VOCAB - 1;
    assert_int_equal(compute(1, logits), STATUS_OK);
    ids[0] = 0;
    assert_int_equal(compute(1, logits), STATUS_OK);
    close_model();
}
