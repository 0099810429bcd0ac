// The broker of the tests in tests/kafka/: $SHEAF_TEST_BROKER (HOST:PORT), else one that ops/kafka/start
// starts in a temporary folder and that ends with the program.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// HOST:PORT while a program's cases run. NULL, with the reason on standard error: there is no Java, or no
// Kafka for it, and cases are skipped.
extern const char *brokers;

// The group's setup and teardown (<cmocka.h> before this header's use).
int broker_start_group(void **state);
int broker_stop_group(void **state);

// A case that is skipped without a broker, by its own function: cmocka counts skip() in a setup as an error.
struct broker_case {
    void (*run)(void **state);
};
struct CMUnitTest broker_test(const char *name, struct broker_case *which);
#define BROKER_TEST(name) broker_test(#name, (struct broker_case[]){{name}})

// The same with a cluster: broker 1, which is the controller too, 2 and 3; `brokers` names all. Topics, those
// of groups and transactions too, have a copy on each. Not with $SHEAF_TEST_BROKER.
int cluster_start_group(void **state);
int cluster_stop_group(void **state);
const char *cluster_address(int id);
// Stops broker 2 or 3 (SIGSTOP), so that it takes connections and answers nothing, and lets it go on.
void cluster_pause(int id);
void cluster_resume(int id);
// How many lines of a broker's log have the text.
size_t cluster_count_logged(int id, const char *text);

// Crash the broker and restart it on its port. Only one of our own can be.
bool broker_is_ours(void);
void broker_kill(void);
void broker_restart(void);
// Stops it (SIGSTOP), so that it takes connections and answers nothing, and lets it go on.
void broker_pause(void);
void broker_resume(void);
