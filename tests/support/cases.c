#include "tests/support/cases.h"

#include <assert.h>

enum { N_TESTS_MAX = 128 };

static struct CMUnitTest tests[N_TESTS_MAX];
static int lines[N_TESTS_MAX];
static size_t n_tests;

// Compilers may order constructors as they like: the line decides.
void cases_add(struct CMUnitTest test, int line)
{
    assert(n_tests < N_TESTS_MAX);
    size_t at = n_tests++;
    for (; at > 0 && lines[at - 1] > line; at--) {
        tests[at] = tests[at - 1];
        lines[at] = lines[at - 1];
    }
    tests[at] = test;
    lines[at] = line;
}

// TEST_FIXTURE and GROUP_FIXTURE of the program replace them.
__attribute__((weak)) CMFixtureFunction cases_setup, cases_teardown, cases_group_setup, cases_group_teardown;

int cases_run_named(const char *group)
{
    for (size_t i = 0; i < n_tests; i++)
        if (!tests[i].setup_func && !tests[i].teardown_func) {
            tests[i].setup_func = cases_setup;
            tests[i].teardown_func = cases_teardown;
        }
    return _cmocka_run_group_tests(group, tests, n_tests, cases_group_setup, cases_group_teardown);
}

int cases_run(void)
{
    return cases_run_named("tests");
}

__attribute__((weak)) int main(void)
{
    return cases_run();
}
