// The labels of answers that a worker counts for its page.
#include "consumer/observe/label_tally.h"
#include "tests/support/cases.h"

static struct label_tally tally;

static int clear(void **state)
{
    tally = (struct label_tally){.is_counted = true};
    return 0;
}

static void add_answer(const struct constraint *constraint, const char *text)
{
    struct job *job = job_create();
    struct choice choice = {.text = text_from_string(text)};
    assert_non_null(job);
    job->request.constraint = *constraint;
    job->result.status = RESULT_DONE;
    job->result.choices = &choice;
    job->result.n_choices = 1;
    label_tally_add(&tally, job);
    job->result.choices = NULL;
    job->result.n_choices = 0;
    job_destroy(job);
}

static void add_choice(struct text *choices, int32_t n, const char *text)
{
    add_answer(&(struct constraint){.kind = CONSTRAINT_CHOICE, .choices = choices, .n_choices = n}, text);
}

static void add_object(const char *schema, const char *text)
{
    add_answer(&(struct constraint){.kind = CONSTRAINT_JSON_SCHEMA, .source = text_from_string(schema)},
               text);
}

static void assert_label(int group, int label, const char *text, int64_t n)
{
    assert_true(group < tally.n_groups && label < tally.groups[group].n_labels);
    assert_string_equal(tally.groups[group].labels[label].text, text);
    assert_int_equal(tally.groups[group].labels[label].n, n);
}

TEST(jobs_with_the_same_choices_are_counted_together)
{
    struct text tones[] = {TEXT("warm"), TEXT("cold")}, other[] = {TEXT("warm"), TEXT("hot")};
    add_choice(tones, 2, "warm");
    add_choice(other, 2, "hot");
    add_choice(tones, 2, "cold");
    add_choice(tones, 2, "warm");
    add_choice(tones, 2, "war"); // an answer that was cut is no label
    assert_int_equal(tally.n_groups, 2);
    assert_string_equal(tally.groups[0].name, "warm, cold");
    assert_int_equal(tally.groups[0].n, 3);
    assert_label(0, 0, "warm", 2);
    assert_label(0, 1, "cold", 1);
    assert_label(1, 0, "hot", 1);
}

TEST(enumerated_properties_of_a_schema_are_counted)
{
    const char *schema =
        "{\"properties\":{\"mood\":{\"enum\":[\"good\",\"bad\",1]},\"text\":{\"type\":\"string\"},"
        "\"sure\":{\"type\":\"boolean\"}}}";
    add_object(schema, "{\"mood\":\"good\",\"text\":\"private\",\"sure\":true}");
    add_object(schema, "{\"mood\":1,\"text\":\"other\",\"sure\":true}");
    add_object(schema, "{\"mood\":\"go"); // no JSON
    add_object(schema, "[1]");
    assert_int_equal(tally.n_groups, 2);
    assert_string_equal(tally.groups[0].name, "mood");
    assert_label(0, 0, "good", 1);
    assert_label(0, 1, "1", 1);
    assert_string_equal(tally.groups[1].name, "sure");
    assert_label(1, 0, "true", 2);
}

TEST(a_group_of_too_many_labels_is_dropped)
{
    static char names[TALLY_LABELS_MAX + 1][8];
    struct text choices[TALLY_LABELS_MAX + 1];
    for (int i = 0; i <= TALLY_LABELS_MAX; i++) {
        snprintf(names[i], sizeof names[i], "l%d", i);
        choices[i] = text_from_string(names[i]);
    }
    for (int i = 0; i < TALLY_LABELS_MAX; i++)
        add_choice(choices, TALLY_LABELS_MAX + 1, names[i]);
    assert_false(tally.groups[0].is_dropped);
    add_choice(choices, TALLY_LABELS_MAX + 1, names[TALLY_LABELS_MAX]);
    assert_true(tally.groups[0].is_dropped);
}

TEST(groups_and_schemas_have_limits)
{
    for (int i = 0; i <= TALLY_GROUPS_MAX; i++) {
        char name[8];
        snprintf(name, sizeof name, "c%d", i);
        add_choice((struct text[]){text_from_string(name)}, 1, name);
    }
    assert_int_equal(tally.n_groups, TALLY_GROUPS_MAX);
    for (int i = 0; i <= TALLY_SCHEMAS_MAX; i++) {
        char schema[48];
        snprintf(schema, sizeof schema, "{\"properties\":{\"p%d\":{\"enum\":[1]}}}", i);
        add_object(schema, "{}");
    }
    assert_int_equal(tally.n_schemas, TALLY_SCHEMAS_MAX);
    assert_int_equal(tally.n_groups, TALLY_GROUPS_MAX);
}

TEST(nothing_is_counted_until_it_is_asked_for)
{
    tally.is_counted = false;
    add_choice((struct text[]){TEXT("a")}, 1, "a");
    assert_int_equal(tally.n_groups, 0);
}

TEST_FIXTURE(clear, NULL);
