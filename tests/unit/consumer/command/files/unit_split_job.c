// Places of a divided job's parts in their ids, and the join of results.
#include "consumer/command/files/joined_job.h"
#include "consumer/command/files/split_job.h"
#include "tests/support/cases.h"

TEST(a_place_is_read_from_the_end_of_an_id)
{
    struct split_place place;
    assert_true(split_place_read(TEXT("doc#inputs=1-2/9#inputs=3-5/8"), &place));
    assert_true(text_equals_string(place.id, "doc#inputs=1-2/9"));
    assert_int_equal(place.first, 3);
    assert_int_equal(place.last, 5);
    assert_int_equal(place.n_all, 8);
    assert_true(split_place_read(TEXT("a#inputs=0-0/1"), &place));
}

TEST(other_ids_are_no_place)
{
    static const char *const ids[] = {"",
                                      "doc",
                                      "#inputs=0-1/2",
                                      "doc#inputs=0-1/",
                                      "doc#inputs=0-/2",
                                      "doc#inputs=-1/2",
                                      "doc#input=0-1/2",
                                      "doc#inputs=0-2/2",
                                      "doc#inputs=1-0/2",
                                      "doc#inputs=0-1/2 ",
                                      "doc#inputs=0-1/2000000000",
                                      "doc#inputs=0-1"};
    struct split_place place;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        assert_false(split_place_read(text_from_string(ids[i]), &place));
}

static struct job *part(const char *id, int32_t n_items)
{
    static const float vector[1] = {1};
    struct job *job = job_create();
    assert_non_null(job);
    assert_true(job_set_text(job, &job->custom_id, text_from_string(id)));
    job->result.status = RESULT_DONE;
    job->result.prompt_tokens = 3;
    job->result.embeddings.n_dimensions = 1;
    job->result.embeddings.n_items = n_items;
    job->result.embeddings.items =
        arena_allocate_array(&job->arena, (size_t)n_items, sizeof *job->result.embeddings.items);
    for (int32_t i = 0; i < n_items; i++)
        job->result.embeddings.items[i] = (struct embedding){.items = vector};
    return job;
}

TEST(parts_fit_in_their_order_alone)
{
    struct joined_job joined = {0};
    static const char *const later[] = {"a#inputs=4-5/6", "b#inputs=2-3/6", "a#inputs=2-3/7", "a",
                                        "a#inputs=2-4/6"};
    struct job *first = part("a#inputs=0-1/6", 2), *next = part("a#inputs=2-3/6", 2);
    assert_false(joined_job_fits(&joined, next));
    assert_true(joined_job_fits(&joined, first));
    assert_true(joined_job_add(&joined, first));
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        struct job *other = part(later[i], 2);
        assert_false(joined_job_fits(&joined, other));
        job_destroy(other);
    }
    assert_true(joined_job_fits(&joined, next));
    assert_true(joined_job_add(&joined, next));
    assert_false(joined_job_is_complete(&joined));
    joined_job_finish(&joined);
}

TEST(the_whole_has_all_vectors_and_the_first_failed_parts_error)
{
    struct joined_job joined = {0};
    struct error error;
    assert_true(joined_job_add(&joined, part("a#inputs=0-1/3", 2)));
    assert_true(joined_job_add(&joined, part("a#inputs=2-2/3", 1)));
    assert_true(joined_job_is_complete(&joined));
    struct job *whole = joined_job_result(&joined);
    assert_non_null(whole);
    assert_true(text_equals_string(whole->custom_id, "a"));
    assert_int_equal(whole->result.embeddings.n_items, 3);
    assert_int_equal(whole->result.prompt_tokens, 6);
    joined_job_clear(&joined);

    struct job *bad = part("a#inputs=2-2/3", 1);
    (void)error_set(&error, STATUS_REJECT, ERROR_EMPTY_PROMPT, "input[0]: the text has no tokens");
    job_fail(bad, &error);
    assert_true(joined_job_add(&joined, part("a#inputs=0-1/3", 2)));
    assert_true(joined_job_add(&joined, bad));
    whole = joined_job_result(&joined);
    assert_non_null(whole);
    assert_string_equal(whole->result.error.text, "input[2]: the text has no tokens");
    joined_job_finish(&joined);
}
