// Cases of a cmocka program, which register themselves in the order of their lines:
//
//     TEST(a_name_that_is_a_sentence)
//     {
//         assert_true(...);
//     }
//
// A program without a main() gets one that runs all of them (cases.c). One that needs more has its own and calls
// cases_run(), which returns the number of failed cases. The body of a case has cmocka's `void **state`, which is
// the case's name until a setup changes it.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TEST(name) TEST_WITH(name, NULL, NULL)

// A case with a setup and a teardown of its own, either of them NULL or a CMFixtureFunction.
#define TEST_WITH(name, setup, teardown)                                                                     \
    static void name(void **state);                                                                          \
    __attribute__((constructor)) static void register_##name(void)                                           \
    {                                                                                                        \
        cases_add((struct CMUnitTest){#name, name, setup, teardown, (void *)(uintptr_t) #name}, __LINE__);   \
    }                                                                                                        \
    static void name(void **state)

// What runs around each case that has no setup or teardown of its own, and around all of them; NULL: nothing.
#define TEST_FIXTURE(setup, teardown) CMFixtureFunction cases_setup = setup, cases_teardown = teardown
#define GROUP_FIXTURE(setup, teardown)                                                                       \
    CMFixtureFunction cases_group_setup = setup, cases_group_teardown = teardown

extern CMFixtureFunction cases_setup, cases_teardown, cases_group_setup, cases_group_teardown;

void cases_add(struct CMUnitTest test, int line);
int cases_run(void);
// Runs the cases as a group of this name, for a program that runs them several times.
int cases_run_named(const char *group);

// A status that must be STATUS_OK, else the case fails here with the text of the struct error.
#define assert_ok(status, error)                                                                             \
    do                                                                                                       \
        if ((status) != STATUS_OK)                                                                           \
            fail_msg("%s", (error)->text);                                                                   \
    while (0)
