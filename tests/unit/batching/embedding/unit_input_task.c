// The inputs of jobs for a classification head: which texts are a pair, their tokens and types, and the batcher's results.
// The scores are made from tokens and types alone, so that a wrong input has another score.
#include "batching/embedding/embedding_batcher.h"
#include "schemas/task.h"
#include "tests/support/job_records.h"
#include "tests/unit/batching/embedding/classifier_fixture.h"

static const struct text names[] = {TEXT("low"), TEXT("high")};
static const struct ranking_labels labels = {names, 2, 1, false};

static float score_of(const int32_t *ids, const int32_t *types, int32_t n_ids)
{
    float score = 0;
    for (int32_t i = 0; i < n_ids; i++)
        score += (float)((i + 1) * ids[i] + 100 * (types ? types[i] : 0));
    return score;
}

static enum status compute(const struct input_task *task, const struct embedding_text *texts, int32_t n_texts,
                           float *vectors, struct error *error)
{
    for (int32_t i = 0; i < n_texts; i++) {
        vectors[2 * i] = 0.5f;
        vectors[2 * i + 1] = score_of(texts[i].ids, texts[i].types, texts[i].n_ids);
    }
    return STATUS_OK;
}

struct task_bench {
    struct input_fixture fixture;
    struct input_task task;
    struct input_task_impl impl;
    struct pool *pool;
    struct embedding_batcher *batcher;
};

static void open_bench(struct task_bench *bench, const char *template)
{
    struct error error;
    open_fixture(&bench->fixture, template);
    bench->fixture.model.shape.n_vocab = 9;
    bench->task = input_task_scores(NULL, &bench->fixture.reader, &labels);
    bench->impl = *bench->task.impl;
    bench->impl.compute = compute;
    bench->task.impl = &bench->impl;
    assert_ok(pool_create(&bench->pool, 2, &error), &error);
    const struct embedding_batcher_config config = {
        .task = &bench->task, .pool = bench->pool, .n_jobs_max = 4, .n_tokens_max = 16, .n_texts_max = 3};
    assert_ok(embedding_batcher_create(&bench->batcher, &config, &error), &error);
}

static void close_bench(struct task_bench *bench)
{
    embedding_batcher_destroy(bench->batcher);
    pool_destroy(bench->pool);
    tokenizer_close(bench->fixture.tokenizer);
}

// Computes one job; its error, or its items as JSON, is `expected`.
static void assert_items(struct task_bench *bench, const char *record, const char *expected)
{
    struct job_batcher *jobs = embedding_batcher_base(bench->batcher);
    struct job_list finished = {0};
    struct step_figures figures;
    struct error error;
    struct buffer items = {0};
    jobs->impl->take(jobs, decode_good(record));
    while (!jobs->impl->is_empty(jobs))
        assert_ok(jobs->impl->round(jobs, &finished, &figures, &error), &error);
    struct job *job = job_list_take(&finished);
    if (job->result.status == RESULT_DONE)
        json_encode(&job->result.rankings.items, &items);
    else
        buffer_add_string(&items, job->result.error.text);
    assert_string_equal(items.data, expected);
    buffer_finish(&items);
    job_destroy(job);
}

// Sums of place and id, and 100 for each token of type 1: [C] 0, [S] 1, a 2, b 3, c 4.
TEST(a_pair_is_the_query_and_its_document_with_token_types)
{
    struct task_bench bench;
    open_bench(&bench, "");
    // [C] a [S] b [S] = 2*2 + 3 + 4*3 + 5 = 24, two tokens of type 1
    assert_items(&bench, "{'job_id':'j','text_1':'a','text_2':'b'}",
                 "[{\"index\":0,\"object\":\"score\",\"score\":224.0}]");
    // [C] a [S] c [S] = 28; [C] b [S] b [S] = 26
    assert_items(
        &bench, "{'job_id':'j','text_1':'a','text_2':['b','c']}",
        "[{\"index\":0,\"object\":\"score\",\"score\":224.0},{\"index\":1,\"object\":\"score\",\"score\":"
        "228.0}]");
    assert_items(
        &bench, "{'job_id':'j','text_1':['a','b'],'text_2':['b','b']}",
        "[{\"index\":0,\"object\":\"score\",\"score\":224.0},{\"index\":1,\"object\":\"score\",\"score\":"
        "226.0}]");
    close_bench(&bench);
}

TEST(a_ranking_has_the_most_relevant_documents_first)
{
    struct task_bench bench;
    open_bench(&bench, "");
    assert_items(&bench, "{'job_id':'j','query':'a','documents':['b','c','a','c','b'],'top_n':4}",
                 "[{\"index\":1,\"relevance_score\":228.0},{\"index\":3,\"relevance_score\":228.0},"
                 "{\"index\":0,\"relevance_score\":224.0},{\"index\":4,\"relevance_score\":224.0}]");
    close_bench(&bench);
}

TEST(a_class_is_of_one_text_or_of_its_tokens)
{
    struct task_bench bench;
    open_bench(&bench, "");
    const char *expected = "[{\"index\":0,\"label\":\"high\",\"probs\":[0.5,16.0],\"num_classes\":2}]";
    assert_items(&bench, "{'job_id':'j','task':'classify','input':'ac'}",
                 "[{\"index\":0,\"label\":\"high\",\"probs\":[0.5,20.0],\"num_classes\":2}]");
    assert_items(&bench, "{'job_id':'j','task':'classify','input':[0,2,4]}", expected);
    assert_items(&bench, "{'job_id':'j','task':'classify','input':[0,2,9]}",
                 "input: token 2 of the list: expected an id from 0 to 8, got 9");
    close_bench(&bench);
}

TEST(inputs_are_cut_where_the_job_says)
{
    struct task_bench bench;
    open_bench(&bench, "");
    // [C] a b [S] = 2*2 + 3*3 + 4; cut on the left [C] b c [S]
    assert_items(&bench, "{'job_id':'j','task':'classify','input':'abc','truncate_prompt_tokens':4}",
                 "[{\"index\":0,\"label\":\"high\",\"probs\":[0.5,17.0],\"num_classes\":2}]");
    assert_items(&bench,
                 "{'job_id':'j','task':'classify','input':'abc','truncate_prompt_tokens':4,"
                 "'truncation_side':'left'}",
                 "[{\"index\":0,\"label\":\"high\",\"probs\":[0.5,22.0],\"num_classes\":2}]");
    assert_items(&bench, "{'job_id':'j','query':'a','documents':['b','aaaaaaaaaaaaaaaa']}",
                 "documents[1]: the pair has 20 tokens: expected at most 16");
    close_bench(&bench);
    open_bench(&bench, "[C]{query} [S]{document}[S]c");
    assert_items(&bench,
                 "{'job_id':'j','query':'a','documents':['b'],'truncate_prompt_tokens':9,"
                 "'truncation_side':'left'}",
                 "truncation_side: expected \"right\": in the model's template the document's end is cut");
    close_bench(&bench);
}

TEST(jobs_of_many_documents_share_the_steps)
{
    struct task_bench bench;
    struct job_list finished = {0};
    struct step_figures figures;
    struct error error;
    open_bench(&bench, "");
    struct job_batcher *jobs = embedding_batcher_base(bench.batcher);
    jobs->impl->take(jobs,
                     decode_good("{'job_id':'long','query':'a','documents':['b','b','b','b','b','b']}"));
    jobs->impl->take(jobs, decode_good("{'job_id':'short','text_1':'a','text_2':'c'}"));
    assert_ok(jobs->impl->round(jobs, &finished, &figures, &error), &error);
    assert_int_equal(figures.n_sequences, 3);
    struct job *job = job_list_take(&finished);
    assert_true(text_equals_string(job->job_id, "short"));
    job_destroy(job);
    while (!jobs->impl->is_empty(jobs))
        assert_ok(jobs->impl->round(jobs, &finished, &figures, &error), &error);
    job = job_list_take(&finished);
    assert_int_equal(job->result.rankings.items.array.n_items, 6);
    assert_int_equal(job->result.prompt_tokens, 30);
    job_destroy(job);
    close_bench(&bench);
}
