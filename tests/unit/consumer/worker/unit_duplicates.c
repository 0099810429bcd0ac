// Equal requests with a worker: which wait for another's answer, and what becomes of them when that one ends.
#include "consumer/worker/duplicates.h"
#include "tests/support/cases.h"

// As intake makes it.
static struct job *make_job(const char *id, const char *members)
{
    char record[512];
    struct error error;
    struct sampling none = {0};
    struct job *job = job_create();
    assert_non_null(job);
    int length = snprintf(record, sizeof record, "{\"job_id\":\"%s\",%s}", id, members);
    assert_ok(job_decode(job, (struct text){record, (size_t)length}, ENCODING_JSON, &error), &error);
    assert_true(job_set_id(job, text_from_string(id)));
    job->result.model = TEXT("m");
    job->result.system_fingerprint = TEXT("sheaf=1 model=m");
    job->figures.attempts = 1;
    assert_true(job_hash_request(job, &none, false));
    return job;
}

static struct job *greedy(const char *id)
{
    return make_job(id, "\"prompt\":\"p\",\"temperature\":0");
}

static void answer_job(struct job *job)
{
    static struct choice choice = {.text = TEXT("an answer"), .finish_reason = FINISH_STOP, .n_tokens = 3};
    job->result.status = RESULT_DONE;
    job->result.choices = &choice;
    job->result.n_choices = 1;
    job->result.prompt_tokens = 5;
    job->result.completion_tokens = 4;
    job->figures.cached_tokens = 2;
    job->figures.decode_us = 7;
}

static void end_badly(struct job *job, enum error_code code)
{
    struct error error;
    (void)error_set(&error, STATUS_REJECT, code, "why");
    job_fail(job, &error);
}

static void assert_list(struct job_list *list, const char *ids)
{
    char found[128] = "";
    for (struct job *job; (job = job_list_take(list)); job_destroy(job))
        snprintf(found + strlen(found), sizeof found - strlen(found), "%.*s ", (int)job->job_id.size,
                 job->job_id.data);
    assert_string_equal(found, ids);
}

static bool is_hashed(const char *members)
{
    struct job *job = make_job("j", members);
    bool is = digest_equal(&job->request_hash, &job->request_hash);
    job_destroy(job);
    return is;
}

static bool are_equal(const char *a, const char *b)
{
    struct job *first = make_job("a", a), *second = make_job("b", b);
    bool equal = digest_equal(&first->request_hash, &second->request_hash);
    job_destroy(first);
    job_destroy(second);
    return equal;
}

static const struct duplicate_limits limits = {.n_context = 100, .n_positions = 100};

#define PROMPT "\"prompt\":\"p\""
#define GREEDY PROMPT ",\"temperature\":0"

TEST(requests_are_equal_by_all_but_identity_priority_and_deadline)
{
    assert_true(are_equal(GREEDY,
                          "\"temperature\":0,\"custom_id\":\"other\",\"index\":4,\"priority\":3," PROMPT
                          ",\"deadline\":4000000000,\"created\":7"));
    static const char *const others[] = {
        GREEDY ",\"max_tokens\":3",   GREEDY ",\"n\":2",          "\"prompt\":\"q\",\"temperature\":0",
        GREEDY ",\"logprobs\":1",     GREEDY ",\"stop\":[\"x\"]", PROMPT ",\"temperature\":0.5,\"seed\":1",
        GREEDY ",\"top_p\":0.5",      GREEDY ",\"bad\":1", // a warning of its own
        GREEDY ",\"model\":\"other\""};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(are_equal(GREEDY, others[i]));
    assert_true(are_equal(PROMPT ",\"seed\":5", PROMPT ",\"seed\":5"));
    assert_true(are_equal(GREEDY ",\"seed\":5", GREEDY));
    assert_false(are_equal(PROMPT ",\"seed\":5", PROMPT ",\"seed\":6"));
}

static bool are_equal_but_for_max_tokens(const char *a, const char *b)
{
    struct job *first = make_job("a", a), *second = make_job("b", b);
    bool equal = digest_equal(&first->open_hash, &second->open_hash);
    job_destroy(first);
    job_destroy(second);
    return equal;
}

TEST(an_answer_that_ends_by_itself_does_not_depend_on_max_tokens)
{
    assert_true(are_equal_but_for_max_tokens(GREEDY ",\"max_tokens\":3", GREEDY ",\"max_tokens\":4"));
    assert_true(are_equal_but_for_max_tokens(GREEDY ",\"max_tokens\":3", GREEDY));
    assert_true(are_equal_but_for_max_tokens(PROMPT ",\"seed\":5,\"max_tokens\":3", PROMPT ",\"seed\":5"));
    assert_false(are_equal_but_for_max_tokens(GREEDY ",\"max_tokens\":3", GREEDY ",\"n\":2"));
    assert_false(are_equal_but_for_max_tokens(PROMPT, PROMPT)); // draws by its identity
#define CLOSES GREEDY ",\"guided_json\":{\"type\":\"string\"},\"close_at_max_tokens\":true"
    assert_false(are_equal_but_for_max_tokens(CLOSES ",\"max_tokens\":30", CLOSES ",\"max_tokens\":30"));
    assert_true(are_equal(CLOSES ",\"max_tokens\":30", CLOSES ",\"max_tokens\":30"));
#define BEST PROMPT ",\"seed\":5,\"best_of\":3" // one that is not returned may have been cut
    assert_false(are_equal_but_for_max_tokens(BEST, BEST));
}

TEST(annotations_of_a_schema_are_no_part_of_a_request)
{
#define SCHEMA(rest) GREEDY ",\"guided_json\":{\"type\":\"object\"," rest "}"
#define OF(p)        SCHEMA("\"properties\":{\"title\":" p "}")
    const char *plain = OF("{\"enum\":[1]}");
    assert_true(are_equal(plain, OF("{\"title\":\"T\",\"enum\":[1],\"description\":\"d\"}")));
    assert_true(are_equal(plain, SCHEMA("\"$comment\":\"c\",\"properties\":{\"title\":{\"enum\":[1],"
                                        "\"examples\":[1]}},\"description\":\"d\"")));
    assert_true(are_equal(SCHEMA("\"anyOf\":[{\"title\":\"x\"},true]"), SCHEMA("\"anyOf\":[{},true]")));
    assert_false(are_equal(plain, SCHEMA("\"properties\":{}"))); // a property of that name
    assert_false(are_equal(OF("{\"const\":{\"title\":1}}"), OF("{\"const\":{}}")));
    assert_false(are_equal(OF("{\"enum\":[{\"description\":1}]}"), OF("{\"enum\":[{}]}")));
    assert_false(are_equal(OF("{\"default\":1}"), OF("{}")));
    assert_false(
        are_equal(SCHEMA("\"examples\":[{\"const\":1}],\"properties\":{\"a\":{\"$ref\":\"#/examples/0\"}}"),
                  SCHEMA("\"examples\":[{\"const\":2}],\"properties\":{\"a\":{\"$ref\":\"#/examples/0\"}}")));
    // references into other annotations, from unknown keywords, and with escapes
    static const char *const ways[] = {
        "\"$ref\":\"#/title\",\"title\":{\"const\":%d}",
        "\"x\":{\"y\":[{\"$ref\":\"#/examples/0\"}]},\"examples\":[{\"const\":%d}]",
        "\"$ref\":\"#/%%65xamples/0\",\"examples\":[{\"const\":%d}]"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char rests[2][160], requests[2][512];
        for (int j = 0; j < 2; j++) {
            snprintf(rests[j], sizeof rests[j], ways[i], j);
            snprintf(requests[j], sizeof requests[j], GREEDY ",\"guided_json\":{%s}", rests[j]);
        }
        assert_false(are_equal(requests[0], requests[1]));
    }
}

TEST(a_digest_is_blake2b_of_160_bits)
{
    char hex[DIGEST_HEX];
    struct digest digest = digest_of("abc", 3);
    digest_write_hex(&digest, hex);
    assert_memory_equal(hex, "384264f676f39536840523f284921cdc68b6846b", DIGEST_HEX);
}

// Two requests of equal length whose encodings collide under XXH3 with any small seed: its accumulators add
// the products of the two halves of (word ^ secret), so two words with equal high halves (XORed) may swap
// their low ones. Which `n_before` puts the words where the secret's do so depends on the bytes before the
// prompt.
TEST(requests_that_are_made_to_collide_are_not_equal)
{
    static const char filler[] = "It came in a box. ";
    enum { FIRST_AT = 192, SECOND_AT = 320, SIZE = 420 };
    for (int n_before = 0; n_before < 64; n_before++) {
        char members[2][SIZE + 64];
        for (int i = 0; i < 2; i++) {
            char prompt[SIZE + 1] = "";
            for (int at = 0; at < SIZE - n_before; at++)
                prompt[at] = filler[at % (int)(sizeof filler - 1)];
            memcpy(prompt + FIRST_AT - n_before, i ? "cold itX" : "good itX", 8);
            memcpy(prompt + SECOND_AT - n_before, i ? "good[%af" : "cold[%af", 8);
            snprintf(members[i], sizeof members[i], "\"prompt\":\"%s\",\"temperature\":0,\"max_tokens\":6",
                     prompt);
        }
        assert_false(are_equal(members[0], members[1]));
    }
}

TEST(draws_without_a_seed_and_tools_have_no_equal)
{
    assert_true(is_hashed(GREEDY));
    assert_true(is_hashed(PROMPT ",\"seed\":1"));
    assert_false(is_hashed(PROMPT));
    assert_false(is_hashed(PROMPT ",\"temperature\":0.01"));
#define CALLS                                                                                                \
    "\"messages\":[{\"role\":\"user\",\"content\":\"p\"}],\"temperature\":0,"                                \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]"
    assert_false(is_hashed(CALLS)); // its calls have ids
    assert_true(is_hashed(CALLS ",\"tool_choice\":\"none\""));
    struct sampling defaults = {.given = SAMPLING_TEMPERATURE, .temperature = 0};
    struct job *job = make_job("j", PROMPT);
    assert_true(job_hash_request(job, &defaults, false));
    assert_true(digest_equal(&job->request_hash, &job->request_hash));
    job_destroy(job);
}

TEST(the_time_of_submission_is_part_of_a_chat_whose_template_reads_it)
{
    static const char *const prompts[] = {"\"messages\":[{\"role\":\"user\",\"content\":\"p\"}]",
                                          "\"prompt\":\"p\""};
    struct sampling none = {0};
    for (int chat = 0; chat < 2; chat++)
        for (int reads = 0; reads < 2; reads++) {
            struct job *jobs[2];
            for (int i = 0; i < 2; i++) {
                char members[200];
                snprintf(members, sizeof members, "%s,\"temperature\":0,\"created\":%d", prompts[!chat],
                         100 + i);
                jobs[i] = make_job("j", members);
                assert_true(job_hash_request(jobs[i], &none, reads));
            }
            assert_true(digest_equal(&jobs[0]->request_hash, &jobs[1]->request_hash) == !(chat && reads));
            job_destroy(jobs[0]);
            job_destroy(jobs[1]);
        }
}

static struct duplicates duplicates;

static int begin(void **state)
{
    memset(&duplicates, 0xA5, sizeof duplicates);
    return duplicates_init(&duplicates, &limits, 8) ? 0 : -1;
}

static int end(void **state)
{
    duplicates_finish(&duplicates);
    return 0;
}

TEST(an_equal_request_waits_and_is_answered_under_its_own_name)
{
    struct job_list finished = {0}, compute = {0};
    struct job *leader = greedy("a"), *second = greedy("b"), *third = greedy("c");
    struct job *other = make_job("d", "\"prompt\":\"q\",\"temperature\":0"), *late = greedy("e");
    third->result.reports_cached_tokens = true;
    assert_int_equal(duplicates_take(&duplicates, leader, NULL), DUPLICATE_NONE);
    assert_int_equal(duplicates_take(&duplicates, second, NULL), DUPLICATE_FOLLOWS);
    assert_int_equal(duplicates_take(&duplicates, third, NULL), DUPLICATE_FOLLOWS);
    assert_int_equal(duplicates_take(&duplicates, other, NULL), DUPLICATE_NONE);
    assert_int_equal(duplicates.n_followers, 2);
    answer_job(leader);
    duplicates_answer(&duplicates, leader, &finished, &compute);
    assert_int_equal(duplicates.n_followers, 0);
    assert_int_equal(compute.n_jobs, 0);
    assert_ptr_equal(finished.first, second);
    assert_true(text_equals_string(second->job_id, "b") && text_equals_string(second->custom_id, "b"));
    assert_int_equal(second->result.status, RESULT_DONE);
    assert_true(text_equals_string(second->result.choices[0].text, "an answer"));
    assert_int_equal(second->result.prompt_tokens, 5);
    assert_true(second->figures.is_duplicate && second->figures.attempts == 1);
    assert_true(second->figures.cached_tokens == 0 && second->figures.decode_us == 0);
    assert_true(third->result.reports_cached_tokens && !second->result.reports_cached_tokens);
    // The leader waits for its commit: a later one has its answer at once.
    assert_int_equal(duplicates_take(&duplicates, late, NULL), DUPLICATE_ANSWERED);
    assert_true(text_equals_string(late->result.choices[0].text, "an answer"));
    duplicates_leave(&duplicates, leader, &compute);
    struct job *after = greedy("f");
    assert_int_equal(duplicates_take(&duplicates, after, NULL), DUPLICATE_NONE);
    assert_list(&finished, "b c ");
    assert_list(&compute, "");
    struct job *rest[] = {leader, other, late, after};
    for (size_t i = 0; i < 4; i++)
        job_destroy(rest[i]);
}

TEST(of_another_dataset_or_topic_suspect_or_more_urgent_it_is_computed)
{
    struct job *jobs[7], *follower = greedy("f");
    for (int i = 0; i < 6; i++)
        jobs[i] = greedy("a");
    jobs[1]->dataset = TEXT("other");
    jobs[2]->source.topic = TEXT("topic");
    jobs[3]->source.crashes = 1;
    jobs[4]->priority = 1;
    jobs[5]->deadline_s = 4000000000;
    jobs[6] = make_job("g", PROMPT); // draws
    for (int i = 0; i < 7; i++)
        assert_int_equal(duplicates_take(&duplicates, jobs[i], NULL), DUPLICATE_NONE);
    follower->priority = -1;
    assert_int_equal(duplicates_take(&duplicates, follower, NULL), DUPLICATE_FOLLOWS);
    struct job_list left = {0};
    duplicates_leave(&duplicates, jobs[4], &left); // leads nothing
    assert_int_equal(left.n_jobs, 0);
    duplicates_leave(&duplicates, jobs[0], &left); // released
    assert_list(&left, "f ");
    for (int i = 0; i < 7; i++)
        job_destroy(jobs[i]);
}

TEST(a_suspect_takes_an_answer_but_is_not_waited_for)
{
    struct job *suspect = greedy("a"), *leader = greedy("b"), *again = greedy("c");
    suspect->source.crashes = again->source.crashes = 2;
    assert_int_equal(duplicates_take(&duplicates, suspect, NULL), DUPLICATE_NONE);
    assert_int_equal(duplicates_take(&duplicates, leader, NULL), DUPLICATE_NONE);
    answer_job(leader);
    assert_int_equal(duplicates_take(&duplicates, again, NULL), DUPLICATE_ANSWERED);
    job_destroy(suspect);
    job_destroy(leader);
    job_destroy(again);
}

TEST(after_a_cancelled_or_late_leader_the_next_one_leads)
{
    static const enum error_code codes[] = {ERROR_CANCELLED, ERROR_DEADLINE};
    for (int i = 0; i < 2; i++) {
        end(state);
        begin(state);
        struct job_list finished = {0}, compute = {0};
        struct job *leader = greedy("a"), *second = greedy("b"), *third = greedy("c");
        assert_int_equal(duplicates_take(&duplicates, leader, NULL), DUPLICATE_NONE);
        assert_int_equal(duplicates_take(&duplicates, second, NULL), DUPLICATE_FOLLOWS);
        assert_int_equal(duplicates_take(&duplicates, third, NULL), DUPLICATE_FOLLOWS);
        end_badly(leader, codes[i]);
        duplicates_answer(&duplicates, leader, &finished, &compute);
        assert_ptr_equal(compute.first, second);
        assert_true(compute.n_jobs == 1 && finished.n_jobs == 0 && duplicates.n_followers == 1);
        duplicates_leave(&duplicates, leader, &finished); // committed; it leads no longer
        assert_int_equal(finished.n_jobs, 0);
        answer_job(second);
        duplicates_answer(&duplicates, second, &finished, &compute);
        assert_list(&finished, "c ");
        assert_list(&compute, "b ");
        job_destroy(leader);
    }
}

TEST(after_a_failed_leader_each_is_computed)
{
    struct job_list finished = {0}, compute = {0};
    struct job *leader = greedy("a"), *second = greedy("b"), *third = greedy("c"), *late = greedy("d");
    assert_int_equal(duplicates_take(&duplicates, leader, NULL), DUPLICATE_NONE);
    assert_int_equal(duplicates_take(&duplicates, second, NULL), DUPLICATE_FOLLOWS);
    assert_int_equal(duplicates_take(&duplicates, third, NULL), DUPLICATE_FOLLOWS);
    end_badly(leader, ERROR_LOGITS_NAN);
    duplicates_answer(&duplicates, leader, &finished, &compute);
    assert_list(&compute, "b c ");
    assert_int_equal(finished.n_jobs + (size_t)duplicates.n_followers, 0);
    assert_int_equal(duplicates_take(&duplicates, late, NULL), DUPLICATE_NONE);
    job_destroy(leader);
    job_destroy(late);
}

TEST(followers_are_cancelled_and_miss_deadlines_by_themselves)
{
    struct job_list finished = {0};
    struct job *leader = greedy("a");
    leader->deadline_s = 50;
    assert_int_equal(duplicates_take(&duplicates, leader, NULL), DUPLICATE_NONE);
    static const struct {
        const char *id;
        int64_t deadline_s;
    } followers[] = {{"b", 0}, {"c", 100}, {"d", 200}, {"e", 0}};
    for (int i = 0; i < 4; i++) {
        struct job *job = greedy(followers[i].id);
        job->deadline_s = followers[i].deadline_s;
        assert_int_equal(duplicates_take(&duplicates, job, NULL), DUPLICATE_FOLLOWS);
    }
    duplicates_cancel(&duplicates, TEXT("default"), TEXT("b"), INT64_MAX, &finished);
    assert_int_equal(finished.first->result.status, RESULT_CANCELLED);
    assert_list(&finished, "b ");
    duplicates_expire(&duplicates, 99, &finished);
    assert_list(&finished, "");
    duplicates_expire(&duplicates, 100, &finished);
    assert_int_equal(finished.first->result.error.code, ERROR_DEADLINE);
    assert_list(&finished, "c ");
    assert_int_equal(duplicates.next_deadline_s, 200);
    duplicates_cancel(&duplicates, TEXT("other"), (struct text){0}, INT64_MAX, &finished);
    assert_list(&finished, "");
    duplicates_cancel(&duplicates, TEXT("default"), (struct text){0}, INT64_MAX, &finished);
    assert_list(&finished, "d e ");
    assert_int_equal(duplicates.n_followers, 0);
    job_destroy(leader);
}

TEST_FIXTURE(begin, end);
