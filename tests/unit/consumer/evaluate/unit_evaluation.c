// Answers against gold labels: the figures of a matrix, and its limits.
#include "consumer/evaluate/evaluation.h"
#include "tests/golden/golden.h"
#include "tests/support/cases.h"

#include <math.h>

static struct evaluation evaluation;
static struct error error;

static int open_evaluation(void **state)
{
    memset(&evaluation, 0xA5, sizeof evaluation);
    return evaluation_open(&evaluation, &error) == STATUS_OK ? 0 : -1;
}

static int close_evaluation(void **state)
{
    evaluation_close(&evaluation);
    return 0;
}

static void add_answers(const char *gold, const char *answer, int n)
{
    for (int i = 0; i < n; i++)
        assert_ok(evaluation_add(&evaluation, text_from_string(gold), text_from_string(answer), &error),
                  &error);
}

TEST(figures_follow_from_the_matrix)
{
    struct buffer out = {0};
    add_answers("yes", "yes", 20);
    add_answers("yes", "no", 5);
    add_answers("no", "yes", 10);
    add_answers("no", "no", 15);
    add_answers("", "no", 7); // no gold label
    assert_int_equal(evaluation.n_rows, 50);
    assert_float_equal(evaluation_accuracy(&evaluation).value, 0.7, 1e-12);
    // by chance 0.5 * 0.6 + 0.5 * 0.4 of the rows agree
    assert_float_equal(evaluation_kappa(&evaluation).value, 0.4, 1e-12);
    struct evaluation_class yes = evaluation_of_class(&evaluation, 0);
    assert_float_equal(yes.precision.value, 20.0 / 30, 1e-12);
    assert_float_equal(yes.recall.value, 0.8, 1e-12);
    assert_float_equal(yes.f1.value, 40.0 / 55, 1e-12);
    assert_float_equal(evaluation_macro_f1(&evaluation).value, (40.0 / 55 + 30.0 / 45) / 2, 1e-12);
    evaluation_write(&evaluation, &out);
    assert_non_null(strstr(out.data, "Cohen's kappa: 0.4000"));
    buffer_finish(&out);
}

TEST(a_row_without_an_answer_is_of_a_class_of_its_own)
{
    add_answers("a", "", 1);
    add_answers("a", "a", 1);
    assert_true(text_equals_string(evaluation_class_name(&evaluation, 1), EVALUATION_NO_ANSWER));
    assert_float_equal(evaluation_of_class(&evaluation, 0).recall.value, 0.5, 1e-12);
    assert_float_equal(evaluation_of_class(&evaluation, 1).f1.value, 0, 1e-12);
}

TEST(no_gold_label_equals_a_missing_answer)
{
    static const char *const labels[] = {"(none)", EVALUATION_NO_ANSWER};
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        close_evaluation(state);
        open_evaluation(state);
        add_answers(labels[i], "", 1);
        add_answers("a", "a", 1);
        assert_float_equal(evaluation_accuracy(&evaluation).value, 0.5, 1e-12);
        assert_int_equal(evaluation.n_classes, 3);
    }
}

// Only an empty text is no label.
TEST(null_is_a_label_like_any_other)
{
    add_answers("null", "null", 2);
    add_answers("null", "", 1);
    add_answers("", "null", 1);
    assert_int_equal(evaluation.n_rows, 3);
    assert_int_equal(evaluation.n_classes, 2);
    assert_true(text_equals_string(evaluation_class_name(&evaluation, 0), "null"));
    assert_float_equal(evaluation_accuracy(&evaluation).value, 2.0 / 3, 1e-12);
}

TEST(columns_are_aligned_by_what_a_terminal_shows)
{
    struct buffer out = {0};
    add_answers("aaaaaaaaaa\u00e4b", "b",
                1); // 11 columns end within the second byte's character
    add_answers("Entt\u00e4uschung", "\u4e00\u4e8c\u4e09\u56db\u4e94\u516d", 2);
    add_answers("e\u0301", "b", 3);
    evaluation_write(&evaluation, &out);
    assert_true(utf8_valid(out.data, out.size));
    const char *matrix = strstr(out.data, "answers in columns\n");
    assert_non_null(matrix);
    matrix = strchr(matrix, '\n') + 1;
    size_t width = 0;
    for (const char *end; (end = strchr(matrix, '\n')); matrix = end + 1) {
        size_t columns = utf8_columns(matrix, (size_t)(end - matrix));
        assert_true(width == 0 || columns == width);
        width = columns;
    }
    assert_int_equal(width, 16 + 5 * 12);
    assert_non_null(strstr(out.data, " aaaaaaaaaa\u00e4 "));
    assert_non_null(strstr(out.data, " \u4e00\u4e8c\u4e09\u56db\u4e94 "));
    buffer_finish(&out);
}

TEST(an_empty_or_uniform_matrix_divides_by_nothing)
{
    struct buffer out = {0};
    assert_true(isnan(evaluation_accuracy(&evaluation).value) && isnan(evaluation_kappa(&evaluation).value));
    evaluation_write(&evaluation, &out);
    buffer_add_byte(&out, '\0');
    assert_string_equal(
        out.data,
        "rows with a gold label: 0\naccuracy: undefined\nCohen's kappa: undefined\nmacro F1: undefined\n");
    buffer_clear(&out);
    add_answers("a", "a", 3);
    assert_true(isnan(evaluation_kappa(&evaluation).value));
    evaluation_write(&evaluation, &out);
    buffer_add_byte(&out, '\0');
    assert_non_null(strstr(out.data, "gold label: 3\naccuracy: 1.0000 (95 % interval 0.4385 to 1.0000)\n"
                                     "Cohen's kappa: undefined\nmacro F1: 1.0000\n\nclass"));
    add_answers("a", "a", 30); // one label: nothing says how often others are missed
    assert_false(interval_is_known(evaluation_macro_f1(&evaluation)));
    buffer_finish(&out);
}

TEST(classes_are_as_many_as_their_limit)
{
    char name[16];
    for (int i = 0; i < EVALUATION_CLASSES_MAX; i++) {
        snprintf(name, sizeof name, "%d", i);
        add_answers(name, name, 1);
    }
    assert_int_equal(evaluation_add(&evaluation, TEXT("other"), TEXT("0"), &error), STATUS_REFUSE);
    assert_int_equal(error.code, ERROR_LIMIT_EXCEEDED);
}

TEST(expected_labels_are_as_many_as_their_limit_and_are_forgotten)
{
    char name[16];
    for (int i = 0; i <= EVALUATION_CLASSES_MAX; i++) {
        snprintf(name, sizeof name, "%d", i);
        assert_int_equal(evaluation_expect(&evaluation, text_from_string(name), &error),
                         i < EVALUATION_CLASSES_MAX ? STATUS_OK : STATUS_REFUSE);
    }
    assert_ok(evaluation_expect(&evaluation, TEXT("7"), &error), &error);
    assert_ok(evaluation_expect(&evaluation, (struct text){0}, &error), &error);
    evaluation_restart(&evaluation);
    add_answers("b", "a", 2);
    assert_int_equal(evaluation.n_classes, 2);
    assert_true(text_equals_string(evaluation_class_name(&evaluation, 0), "b") && evaluation.n_rows == 2);
    evaluation_restart(&evaluation);
    add_answers("a", "a", 1);
    assert_float_equal(evaluation_accuracy(&evaluation).value, 1, 0);
}

TEST_FIXTURE(open_evaluation, close_evaluation);
