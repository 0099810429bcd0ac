// A record's place, identity and headers become a job's.
#include "consumer/queue/intake.h"
#include "tests/support/cases.h"

TEST(a_job_knows_where_its_record_was)
{
    const struct header headers[] = {{TEXT("own"), TEXT("kept")}, {TEXT("other"), TEXT("too")}};
    const struct record record = {.topic = TEXT("t"),
                                  .partition = 3,
                                  .offset = 44,
                                  .key = TEXT("k"),
                                  .identity.dataset = TEXT("d"),
                                  .headers = headers,
                                  .n_headers = 2,
                                  .has_more_headers = true,
                                  .written_s = 1700000000,
                                  .value = TEXT("{\"job_id\":\"a\",\"prompt\":\"p\"}"),
                                  .crashes = 2,
                                  .attempts = 3};
    const struct result_names names = {TEXT("m"), TEXT("f")};
    struct job_reserve reserve = {0};
    struct job *job = intake_job(&record, &names, &reserve);
    assert_non_null(job);
    const struct job_source *source = &job->source;
    assert_int_equal(job->result.status, RESULT_NONE);
    assert_true(text_equal(source->topic, TEXT("t")) && text_equal(source->key, TEXT("k")));
    assert_int_equal(source->partition, 3);
    assert_int_equal(source->offset, 44);
    assert_int_equal(source->crashes, 2);
    assert_int_equal(job->figures.attempts, 4); // with this one
    assert_true(source->has_more_headers);
    assert_int_equal(source->n_headers, 2);
    assert_true(text_equal(source->headers[0].value, TEXT("kept")));
    assert_true(text_equal(job->dataset, TEXT("d")));
    assert_int_equal(source->written_s, 1700000000); // the time that the job has where it names none
    job_destroy(job);
}

TEST(a_number_of_the_identity_takes_precedence_only_if_it_is_given)
{
    for (int given = 0; given < 2; given++) {
        const struct record record = {
            .identity = {.has_index = given, .has_created = given, .index = 0, .created_s = 1700000001},
            .value = TEXT("{\"job_id\":\"a\",\"prompt\":\"p\",\"index\":7,\"created\":1700000002}")};
        struct job *job = intake_job(&record, &(struct result_names){TEXT("m"), TEXT("f")}, NULL);
        assert_non_null(job);
        assert_int_equal(job->index, given ? 0 : 7);
        assert_int_equal(job->created_s, given ? 1700000001 : 1700000002);
        job_destroy(job);
    }
}

static uint64_t seed_of(const struct record *record)
{
    const struct result_names names = {TEXT("m"), TEXT("f")};
    struct job *job = intake_job(record, &names, NULL);
    assert_non_null(job);
    assert_int_equal(job->result.status, RESULT_NONE);
    uint64_t seed = job->request.sampling.seed;
    assert_true(seed == job_default_seed(job)); // as the engine thread computes it later
    job_destroy(job);
    return seed;
}

// A record of another producer, without a name.
TEST(a_record_without_a_name_draws_by_its_place_in_any_topic)
{
    struct record record = {
        .topic = TEXT("t"), .partition = 3, .offset = 44, .value = TEXT("{\"prompt\":\"p\"}")};
    uint64_t first = seed_of(&record);
    record.topic = TEXT("other");
    assert_true(seed_of(&record) == first);
    record.offset = 45;
    assert_true(seed_of(&record) != first);
    record.offset = 44;
    record.partition = 4;
    assert_true(seed_of(&record) != first);
}

static uint64_t seed_of_line(const char *dataset, const char *custom_id, const char *line)
{
    char job_id[64];
    snprintf(job_id, sizeof job_id, "%s-1", dataset);
    const struct record record = {.identity = {.dataset = text_from_string(dataset),
                                               .job_id = text_from_string(job_id),
                                               .custom_id = text_from_string(custom_id ? custom_id : job_id),
                                               .has_index = true,
                                               .index = 1},
                                  .value = text_from_string(line)};
    return seed_of(&record);
}

// As `submit` sends lines: those without a custom_id have one made of the dataset's name.
TEST(a_line_draws_alike_in_every_dataset)
{
    static const char unnamed[] = "{\"prompt\":\"p\"}",
                      named[] = "{\"prompt\":\"p\",\"custom_id\":\"run-1\"}";
    uint64_t first = seed_of_line("run", "run-1", named);
    assert_true(seed_of_line("other", "run-1", named) == first);
    assert_true(seed_of_line("run", NULL, unnamed) == seed_of_line("other", NULL, unnamed));
    assert_true(seed_of_line("run", NULL, unnamed) != first);
}

// Lines of one prompt draw alike where the worker is told so.
TEST(the_names_of_results_say_how_it_draws_and_what_it_reports)
{
    const struct record records[2] = {{.offset = 1, .value = TEXT("{\"prompt\":\"p\"}")},
                                      {.offset = 2, .value = TEXT("{\"prompt\":\"p\"}")}};
    for (int same = 0; same < 2; same++) {
        const struct result_names names = {
            .model = TEXT("m"), .system_fingerprint = TEXT("f"), .same_draws = same, .cached_tokens = same};
        struct job *jobs[2];
        for (int i = 0; i < 2; i++) {
            jobs[i] = intake_job(&records[i], &names, NULL);
            assert_non_null(jobs[i]);
            assert_int_equal(jobs[i]->request.sampling.seed_given, same);
            assert_int_equal(jobs[i]->result.reports_cached_tokens, same);
            assert_true(text_equal(jobs[i]->result.model, TEXT("m")));
            assert_true(text_equal(jobs[i]->result.system_fingerprint, TEXT("f")));
        }
        assert_int_equal(jobs[0]->request.sampling.seed == jobs[1]->request.sampling.seed, same);
        job_destroy(jobs[0]);
        job_destroy(jobs[1]);
    }
    const struct record seeded = {.value = TEXT("{\"prompt\":\"p\",\"seed\":9}")};
    const struct result_names names = {.same_draws = true};
    struct job *job = intake_job(&seeded, &names, NULL);
    assert_non_null(job);
    assert_int_equal(job->request.sampling.seed, 9);
    job_destroy(job);
}

static void check_rejected(const struct record *record, enum error_code code, const char *says)
{
    const struct result_names names = {TEXT("m"), TEXT("f")};
    struct job *job = intake_job(record, &names, NULL);
    assert_non_null(job);
    assert_int_equal(job->result.status, RESULT_FAILED);
    assert_int_equal(job->result.error.code, code);
    assert_non_null(strstr(job->result.error.text, says));
    assert_true(text_equal(job->source.record, record->value)); // for the dead topic
    job_destroy(job);
}

TEST(a_record_that_is_no_job_has_failed_and_is_kept)
{
    struct record record = {.value = TEXT("{\"prompt\":5}")};
    check_rejected(&record, ERROR_INVALID_FIELD, "prompt");
    record = (struct record){.value = TEXT("?")};
    check_rejected(&record, ERROR_INVALID_ENCODING, "something else of 1 bytes");
    record = (struct record){.value = {0}};
    check_rejected(&record, ERROR_INVALID_ENCODING, "nothing of 0 bytes");
    record = (struct record){.value = TEXT("{\"prompt\":\"p\"}"), .cut = TEXT("3000 bytes")};
    check_rejected(&record, ERROR_LIMIT_EXCEEDED, "only the beginning of the job was submitted: 3000 bytes");
}

// ---- names of models ----

static struct job *take_with(struct model_names answers_to, const char *value)
{
    const struct result_names names = {.model = model_names_first(&answers_to), .answers_to = answers_to};
    const struct record record = {.value = text_from_string(value), .topic = TEXT("t")};
    struct job *job = intake_job(&record, &names, NULL);
    assert_non_null(job);
    return job;
}

static void assert_answers_to(struct model_names names, const char *model, bool expected)
{
    char record[200];
    snprintf(record, sizeof record, "{\"prompt\":\"p\",\"model\":\"%s\"}", model);
    struct job *job = take_with(names, record);
    if (job->result.status != RESULT_NONE || (job->result.n_warnings == 0) != expected)
        fail_msg("%s: %d warnings", model, job->result.n_warnings);
    job_destroy(job);
    names.is_required = true;
    job = take_with(names, record);
    assert_int_equal(job->result.status, expected ? RESULT_NONE : RESULT_FAILED);
    job_destroy(job);
}

TEST(a_worker_answers_to_its_model_s_names)
{
    char *given[] = {"first", "org/second", NULL};
    const struct model_names own = {.own = TEXT("Tiny 1B"), .path = "/models/org/Tiny-1B.gguf"},
                             named = {.given = given,
                                      .own = TEXT("Tiny 1B"),
                                      .path = "/models/org/Tiny-1B.gguf"};
    static const char *const of_own[] =
        {"Tiny 1B", "Tiny-1B", "Tiny-1B.gguf", "/models/org/Tiny-1B.gguf", "x/Tiny-1B", "x/Tiny 1B", ""},
                             *const others[] = {"tiny", "gpt-4o", "Tiny-1B/x", "Tiny-1B-Instruct"};
    for (size_t i = 0; i < sizeof of_own / sizeof *of_own; i++)
        assert_answers_to(own, of_own[i], true);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_answers_to(own, others[i], false);
        assert_answers_to((struct model_names){0}, others[i], true); // of no model, as a mirror
    }
    assert_answers_to(named, "first", true);
    assert_answers_to(named, "org/second", true);
    assert_answers_to(named, "second", false);
    assert_answers_to(named, "Tiny 1B", false);
}

TEST(a_job_that_names_an_adapter_is_computed_and_answered_with_it)
{
    char *given[] = {"base", NULL};
    const struct adapter_name adapters[] = {{TEXT("sql"), "lora=1"}, {TEXT("org/sum:2"), "lora=2"}};
    struct model_names names = {
        .given = given, .own = TEXT("tiny"), .is_required = true, .adapters = adapters, .n_adapters = 2};
    static const struct {
        const char *record, *model, *fingerprint;
        int32_t set;
    } cases[] = {{"{\"prompt\":\"p\",\"model\":\"sql\"}", "sql", "lora=1", 1},
                 {"{\"prompt\":\"p\",\"model\":\"org/sum:2\"}", "org/sum:2", "lora=2", 2},
                 {"{\"prompt\":\"p\",\"model\":\"base\"}", "base", "", 0},
                 {"{\"prompt\":\"p\"}", "base", "", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job *job = take_with(names, cases[i].record);
        assert_int_equal(job->result.status, RESULT_NONE);
        assert_int_equal(job->adapter_set, cases[i].set);
        assert_true(text_equals_string(job->result.model, cases[i].model));
        assert_true(text_equals_string(job->result.system_fingerprint, cases[i].fingerprint));
        job_destroy(job);
    }
    struct job *job = take_with(names, "{\"prompt\":\"p\",\"model\":\"sum:2\"}");
    assert_int_equal(job->result.status, RESULT_FAILED);
    assert_string_equal(
        job->result.error.text,
        "model: expected \"base\", this worker's model, or the name of an adapter, got \"sum:2\"");
    job_destroy(job);
}

TEST(a_job_that_names_another_model_is_warned_or_refused_by_name)
{
    struct model_names names = {.own = TEXT("tiny"), .path = "tiny.gguf"};
    struct job *job = take_with(names, "{\"prompt\":\"p\",\"model\":\"gpt-4o\"}");
    assert_true(
        text_equals_string(job->result.warnings[0],
                           "model: the request names \"gpt-4o\", the answer is of \"tiny\" (--model-name "
                           "names what a worker answers to)"));
    job_destroy(job);
    names.is_required = true;
    job = take_with(names, "{\"prompt\":\"p\",\"model\":\"gpt-4o\"}");
    assert_string_equal(job->result.error.text,
                        "model: expected \"tiny\", this worker's model, got \"gpt-4o\"");
    job_destroy(job);
}
