// Jobs for a classification head: their fields, both encodings of their results, the bodies of vLLM, Jina and Cohere.
#include "schemas/ranking_result.h"
#include "schemas/task.h"
#include "tests/golden/golden.h"
#include "tests/support/job_records.h"
#include "tests/unit/schemas/schema_validator.h"

// decode() also compares both encodings of the record and the job that is written back.
TEST(a_request_is_a_ranking_scores_or_a_classification_by_its_fields)
{
    static const struct {
        const char *record;
        enum task task;
        int32_t n_inputs, n_queries;
        bool scores;
    } cases[] = {{"{'query':'q','documents':['a',{'text':'b'},'']}", TASK_RERANK, 3, 1, false},
                 {"{'url':'/v1/rerank','body':{'query':'','documents':['a']}}", TASK_RERANK, 1, 1, false},
                 {"{'url':'/rerank','body':{'query':'q','documents':['a']}}", TASK_RERANK, 1, 1, false},
                 {"{'url':'/v2/rerank','body':{'query':'q','documents':['a']}}", TASK_RERANK, 1, 1, false},
                 {"{'text_1':'a','text_2':'b'}", TASK_RERANK, 1, 1, true},
                 {"{'url':'/v1/score','body':{'text_1':'a','text_2':['b','c']}}", TASK_RERANK, 2, 1, true},
                 {"{'url':'/score','body':{'text_1':['a','b'],'text_2':['c','d']}}", TASK_RERANK, 2, 2, true},
                 {"{'text_1':['a'],'text_2':['c','d']}", TASK_RERANK, 2, 1, true},
                 {"{'url':'/v1/classify','body':{'input':['a','b']}}", TASK_CLASSIFY, 2, 0, false},
                 {"{'url':'/classify','body':{'input':'a'}}", TASK_CLASSIFY, 1, 0, false},
                 {"{'task':'classify','input':[1,2]}", TASK_CLASSIFY, 1, 0, false},
                 {"{'url':'/v1/classify','body':{'text_1':'a','text_2':['b','c']}}", TASK_CLASSIFY, 2, 1,
                  true},
                 {"{'task':'classify','text_1':['a','b'],'text_2':['c','d']}", TASK_CLASSIFY, 2, 2, true},
                 {"{'task':'embed','input':'a'}", TASK_EMBED, 1, 0, false},
                 {"{'task':'rerank','text_1':'a','text_2':'b'}", TASK_RERANK, 1, 1, true},
                 {"{'task':'generate','prompt':'a'}", TASK_GENERATE, 0, 0, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job *job = decode_good(cases[i].record);
        assert_int_equal(job->request.task, cases[i].task);
        assert_int_equal(job->request.embedding.n_inputs, cases[i].n_inputs);
        assert_int_equal(job->request.ranking.n_queries, cases[i].n_queries);
        assert_int_equal(job->request.ranking.scores, cases[i].scores);
        job_destroy(job);
    }
}

TEST(a_ranking_keeps_its_parameters_when_it_is_written_and_read)
{
    static const char *const records[] = {
        ("{\"job_id\":\"a\",\"documents\":[\"x\",\"\"],\"query\":\"q\",\"top_n\":1,\"return_documents\":true,"
         "\"truncate_prompt_tokens\":-1,\"truncation_side\":\"left\",\"partial\":true}"),
        "{\"job_id\":\"a\",\"text_1\":[\"x\",\"\"],\"text_2\":[\"y\",\"z\"],\"truncate_prompt_tokens\":9}",
        "{\"job_id\":\"a\",\"text_1\":\"x\",\"text_2\":\"y\"}",
        "{\"job_id\":\"a\",\"task\":\"classify\",\"text_1\":\"x\",\"text_2\":[\"y\",\"z\"]}",
        "{\"job_id\":\"a\",\"task\":\"classify\",\"input\":[\"x\"],\"partial\":true}"};
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        struct decoded_job decoded = decode_bytes(text_from_string(records[i]), ENCODING_JSON);
        struct buffer out = {0};
        assert_ok(decoded.status, &decoded.error);
        job_encode(decoded.job, ENCODING_JSON, &out);
        assert_string_equal(out.data, records[i]);
        buffer_finish(&out);
        job_destroy(decoded.job);
    }
}

TEST(a_bad_field_is_named_with_what_was_expected)
{
    static const char document[] = "a string or an object with a string \"text\"";
    char text[160];
    snprintf(text, sizeof text, "documents[1]: expected %s, got 5", document);
    assert_refused("{'query':'q','documents':['a',5]}", ERROR_INVALID_FIELD, text);
    snprintf(text, sizeof text, "documents[0]: expected %s, got {\"title\":\"a\"}", document);
    assert_refused("{'query':'q','documents':[{'title':'a'}]}", ERROR_INVALID_FIELD, text);
    assert_refused("{'query':'q','documents':[]}", ERROR_MISSING_FIELD,
                   "documents: expected 1 to 2048 documents, got 0");
    assert_refused("{'query':['q'],'documents':['a']}", ERROR_INVALID_FIELD,
                   "query: expected a string, got [\"q\"]");
    assert_refused("{'query':'q'}", ERROR_MISSING_FIELD, "documents: missing; query needs it");
    assert_refused("{'text_1':'q'}", ERROR_MISSING_FIELD, "text_2: missing; text_1 needs it");
    assert_refused("{'text_2':'q'}", ERROR_MISSING_FIELD, "text_1: missing; text_2 needs it");
    assert_refused("{'text_1':['a','b'],'text_2':['c','d','e']}", ERROR_INVALID_FIELD,
                   "text_2: expected 2 texts, as text_1 has, got 3");
    assert_refused("{'text_1':['a','b'],'text_2':'c'}", ERROR_INVALID_FIELD,
                   "text_2: expected 2 texts, as text_1 has, got 1");
    assert_refused("{'text_1':'a','text_2':['c',5]}", ERROR_INVALID_FIELD,
                   "text_2[1]: expected a string, got 5");
    assert_refused("{'query':'q','documents':['a'],'text_1':'t'}", ERROR_INVALID_FIELD,
                   "text_1: given beside query, which is for /v1/rerank");
    assert_refused("{'text_1':'a','text_2':'b','top_n':1}", ERROR_INVALID_FIELD,
                   "top_n: given beside text_1, which is for /v1/score");
    assert_refused("{'query':'q','documents':['a'],'top_n':0}", ERROR_INVALID_FIELD,
                   "top_n: expected an integer from 1 to 2048, got 0");
    assert_refused("{'query':'q','documents':['a'],'use_activation':false}", ERROR_UNSUPPORTED_FIELD,
                   "use_activation: only true is supported, got false");
}

TEST(fields_of_another_task_or_path_are_refused_by_name)
{
    assert_refused("{'query':'q','documents':['a'],'dimensions':3}", ERROR_INVALID_FIELD,
                   "dimensions: given beside query, but it is no field of /v1/rerank and /v1/score");
    assert_refused("{'text_1':'q','text_2':'a','prompt':'p'}", ERROR_INVALID_FIELD,
                   "prompt: given beside text_1, but it is no field of /v1/rerank and /v1/score");
    assert_refused("{'task':'classify','input':'a','dimensions':3}", ERROR_INVALID_FIELD,
                   "dimensions: given beside input, but it is no field of /v1/classify");
    assert_refused("{'prompt':'p','top_n':3}", ERROR_INVALID_FIELD,
                   "top_n: needs query, which is not given: it is a field of /v1/rerank and /v1/score");
    assert_refused("{'task':'classify','prompt':'p'}", ERROR_INVALID_FIELD,
                   "task: classify is for /v1/classify, the request is one for /v1/chat/completions and "
                   "/v1/completions");
    assert_refused("{'task':'paint','input':'p'}", ERROR_INVALID_FIELD,
                   "task: expected generate, embed, classify or rerank, got \"paint\"");
    assert_refused("{'url':'/v1/embeddings','body':{'input':'a','task':'classify'}}", ERROR_INVALID_FIELD,
                   "task: classify is for /v1/classify, the request is one for /v1/embeddings");
    assert_refused("{'url':'/v1/classify','body':{'input':'a','task':'embed'}}", ERROR_INVALID_FIELD,
                   "task: embed is for /v1/embeddings, the request is one for /v1/classify");
    assert_refused("{'url':'/v1/rerank','body':{'text_1':'a','text_2':'b'}}", ERROR_INVALID_FIELD,
                   "url: \"/v1/rerank\" needs query, which is not given");
    assert_refused("{'url':'/v1/score','body':{}}", ERROR_MISSING_FIELD,
                   "text_1: missing; url \"/v1/score\" needs it");
    assert_refused("{'url':'/v1/classify','body':{'input':'a','text_1':'a','text_2':'b'}}",
                   ERROR_INVALID_FIELD,
                   "input: given beside text_1 and text_2; a classification is of texts or of pairs");
    assert_refused("{'task':'classify','text_1':'a'}", ERROR_MISSING_FIELD,
                   "text_2: missing; text_1 needs it");
    assert_refused("{'task':'classify','query':'a','documents':['b']}", ERROR_INVALID_FIELD,
                   "task: classify is for /v1/classify, the request is one for /v1/rerank and /v1/score");
    assert_refused("{'url':'/v1/score','body':{'text_1':'a','text_2':'b','task':'classify'}}",
                   ERROR_INVALID_FIELD,
                   "task: classify is for /v1/classify, the request is one for /v1/rerank and /v1/score");
    assert_refused("{'url':'/v1/classify','body':{'prompt':'a'}}", ERROR_INVALID_FIELD,
                   "url: \"/v1/classify\" needs input, which is not given");
}

TEST(a_job_has_at_most_2048_documents)
{
    static const char *const starts[] = {"{\"query\":\"q\",\"documents\":[\"a\"",
                                         "{\"text_1\":\"q\",\"text_2\":[\"a\""};
    for (int n = JOB_INPUTS_MAX; n <= JOB_INPUTS_MAX + 1; n++)
        for (int kind = 0; kind < 2; kind++) {
            struct buffer record = {0};
            buffer_add_string(&record, starts[kind]);
            for (int i = 1; i < n; i++)
                buffer_add_string(&record, ",\"a\"");
            buffer_add_string(&record, "]}");
            struct decoded_job decoded = decode_bytes((struct text){record.data, record.size}, ENCODING_JSON);
            assert_int_equal(decoded.status, n == JOB_INPUTS_MAX ? STATUS_OK : STATUS_REJECT);
            if (n > JOB_INPUTS_MAX)
                assert_string_equal(decoded.error.text,
                                    kind ? "text_2: expected 1 to 2048 texts, got 2049"
                                         : "documents: expected 1 to 2048 documents, got 2049");
            job_destroy(decoded.job);
            buffer_finish(&record);
        }
}

TEST(a_worker_refuses_jobs_of_another_task_and_says_what_to_start)
{
    static const char *const records[] = {"{'prompt':'p'}", "{'input':'a'}",
                                          "{'task':'classify','input':'a'}",
                                          "{'query':'q','documents':['a']}"};
    for (enum task own = 0; own < TASK_COUNT; own++)
        for (enum task worker = 0; worker < TASK_COUNT; worker++) {
            struct error error;
            struct job *job = decode_good(records[own]);
            assert_int_equal(task_check(worker, job, &error), own == worker ? STATUS_OK : STATUS_REJECT);
            if (own != worker) {
                assert_non_null(strstr(error.text, task_traits(own)->paths));
                assert_non_null(strstr(error.text, task_traits(worker)->paths));
                assert_non_null(strstr(error.text, task_traits(own)->needs));
            }
            job_destroy(job);
        }
}

// ---- results ----

static const struct text names[] = {TEXT("bad"), TEXT("good")};
static const struct ranking_labels two = {names, 2, 1, false};

// Four inputs, of which one has an error; two are equally relevant.
static struct job *make_done(const char *record)
{
    static const float scores[3][2] = {{0.75f, 0.25f}, {0.1f, 0.9f}, {0.75f, 0.25f}};
    struct embedding rows[4] = {{.items = scores[0]},
                                {.items = scores[1]},
                                {.code = ERROR_CONTEXT_LENGTH,
                                 .message = TEXT("[2]: the pair has 600 tokens")},
                                {.items = scores[2]}};
    struct job *job = decode_good(record);
    assert_true(rankings_fill(job, rows, &two));
    job->result.status = RESULT_DONE;
    job->result.prompt_tokens = 12;
    job->result.cut_tokens = 9;
    job->result.model = TEXT("minilm");
    return job;
}

#define IDENTITY "'job_id':'docs-4','dataset':'docs','index':4,'created':1700000000,'partial':true,"
#define FAILED                                                                                               \
    "{\"index\":2,\"error\":{\"code\":\"context_length_exceeded\",\"message\":\"[2]: the pair has 600 "      \
    "tokens\"}}"

static const struct {
    const char *record, *golden, *body;
} done[] = {
    {"{" IDENTITY "'query':'q','documents':['w','x','y','z'],'return_documents':true,'top_n':2}",
     "result_rerank.json",
     "{\"id\":\"rerank-docs-4\",\"model\":\"minilm\",\"results\":[{\"index\":1,\"relevance_score\":0.9,"
     "\"document\":{\"text\":\"x\"}},{\"index\":0,\"relevance_score\":0.25,\"document\":{\"text\":\"w\"}}],"
     "\"errors\":[" FAILED "],"},
    {"{" IDENTITY "'text_1':'q','text_2':['w','x','y','z']}", "result_scores.json",
     "{\"id\":\"score-docs-4\",\"object\":\"list\",\"created\":1700000000,\"model\":\"minilm\",\"data\":["
     "{\"index\":0,\"object\":\"score\",\"score\":0.25},{\"index\":1,\"object\":\"score\",\"score\":0.9}," FAILED
     ",{\"index\":3,\"object\":\"score\",\"score\":0.25}],"},
    {"{" IDENTITY "'task':'classify','input':['w','x','y','z']}", "result_classifications.json",
     "{\"id\":\"classify-docs-4\",\"object\":\"list\",\"created\":1700000000,\"model\":\"minilm\",\"data\":["
     "{\"index\":0,\"label\":\"bad\",\"probs\":[0.75,0.25],\"num_classes\":2},{\"index\":1,\"label\":\"good\","
     "\"probs\":[0.1,0.9],\"num_classes\":2}," FAILED
     ",{\"index\":3,\"label\":\"bad\",\"probs\":[0.75,0.25],\"num_classes\":2}],"},
};
enum { N_DONE = sizeof done / sizeof *done };

TEST(a_result_is_the_golden_bytes_and_is_read_back_to_the_same_record_and_body)
{
    for (int i = 0; i < N_DONE; i++) {
        struct job *job = make_done(done[i].record);
        struct buffer body = {0};
        result_encode_openai(job, false, &body);
        for (enum encoding encoding = ENCODING_JSON; encoding <= ENCODING_MSGPACK; encoding++) {
            struct buffer record = {0}, again = {0}, body_again = {0};
            struct error error;
            struct job *read = job_create();
            result_encode(job, encoding, &record);
            if (encoding == ENCODING_JSON)
                golden_check(done[i].golden, (struct text){record.data, record.size});
            assert_ok(result_decode(read, (struct text){record.data, record.size}, encoding, &error), &error);
            assert_int_equal(read->request.task, job->request.task);
            result_encode(read, encoding, &again);
            assert_int_equal(record.size, again.size);
            assert_memory_equal(record.data, again.data, record.size);
            result_encode_openai(read, false, &body_again);
            assert_string_equal(body_again.data, body.data);
            buffer_finish(&record);
            buffer_finish(&again);
            buffer_finish(&body_again);
            job_destroy(read);
        }
        buffer_finish(&body);
        job_destroy(job);
    }
}

TEST(the_bodies_have_the_shapes_of_the_paths)
{
    static const char usage[] =
        "\"usage\":{\"prompt_tokens\":12,\"total_tokens\":12,\"cut_tokens\":9}}},\"error\":null}";
    struct arena arena = {0};
    struct buffer schema_file = golden_read("../../schemas/openai.schema.json");
    struct value root, line;
    struct error error;
    assert_ok(json_decode((struct text){schema_file.data, schema_file.size}, &arena, &root, &error), &error);
    const struct schema_validator schema = {&root};
    for (int i = 0; i < N_DONE; i++) {
        struct job *job = make_done(done[i].record);
        struct buffer out = {0};
        result_encode_openai(job, false, &out);
        if (!strstr(out.data, done[i].body) || !strstr(out.data, usage))
            fail_msg("%s", out.data);
        assert_ok(json_decode((struct text){out.data, out.size}, &arena, &line, &error), &error);
        assert_true(schema_accepts(&schema, &root, &line));
        buffer_finish(&out);
        job_destroy(job);
    }
    arena_finish(&arena);
    buffer_finish(&schema_file);
}

TEST(logits_are_not_called_probabilities)
{
    const struct ranking_labels raw = {names, 2, -1, true};
    const float logits[2] = {-3, 7};
    const struct embedding row = {.items = logits};
    struct job *job = decode_good("{'job_id':'a','task':'classify','input':'w'}");
    struct buffer out = {0};
    assert_true(rankings_fill(job, &row, &raw));
    json_encode(&job->result.rankings.items, &out);
    assert_string_equal(out.data,
                        "[{\"index\":0,\"label\":\"good\",\"logits\":[-3.0,7.0],\"num_classes\":2}]");
    buffer_finish(&out);
    job_destroy(job);
}

TEST(a_damaged_result_is_refused)
{
    static const char *const records[] = {"'object':'rerank','data':[]",
                                          "'object':'rerank','results':5",
                                          "'object':'rerank','results':[5]",
                                          "'object':'scores','data':[{}]",
                                          "'object':'scores','data':[],'errors':[{}]",
                                          "'object':'classifications','results':[]"};
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        char record[256];
        struct error error;
        struct job *job = job_create();
        snprintf(
            record, sizeof record,
            "{'job_id':'a','dataset':'d','custom_id':'a','status':'done',%s,'usage':{'prompt_tokens':1}}",
            records[i]);
        for (char *at = record; *at; at++)
            *at = *at == '\'' ? '"' : *at;
        assert_int_equal(result_decode(job, text_from_string(record), ENCODING_JSON, &error), STATUS_REJECT);
        assert_non_null(strstr(error.text, "expected a list of objects with an index"));
        job_destroy(job);
    }
}

TEST(a_result_with_too_many_labels_is_refused_by_its_size)
{
    enum { N_LABELS = 600 };
    static struct text labels[N_LABELS];
    static float scores[N_LABELS];
    static struct embedding rows[JOB_INPUTS_MAX];
    struct buffer record = {0};
    buffer_add_string(&record, "{\"job_id\":\"a\",\"task\":\"classify\",\"input\":[\"a\"");
    for (int i = 1; i < JOB_INPUTS_MAX; i++)
        buffer_add_string(&record, ",\"a\"");
    buffer_add_string(&record, "]}");
    for (int i = 0; i < N_LABELS; i++)
        labels[i] = TEXT("a");
    for (int i = 0; i < JOB_INPUTS_MAX; i++)
        rows[i].items = scores;
    for (int32_t n = 400; n <= N_LABELS; n += 200) {
        const struct ranking_labels many = {labels, n, -1, false};
        struct decoded_job decoded = decode_bytes((struct text){record.data, record.size}, ENCODING_JSON);
        struct error error;
        assert_true(rankings_fill(decoded.job, rows, &many));
        enum status status = result_check(decoded.job, &error);
        assert_int_equal(status, n == 400 ? STATUS_OK : STATUS_REJECT);
        if (status == STATUS_REJECT)
            assert_non_null(strstr(error.text, "input: the scores of 2048 inputs have "));
        job_destroy(decoded.job);
    }
    buffer_finish(&record);
}
