// The broker of the tests in tests/kafka/: $SHEAF_TEST_BROKER (HOST:PORT), else one that ops/kafka/start
// brings up in a temporary folder and that ends with the program.
#pragma once

#include <stdbool.h>

// HOST:PORT while a program's cases run. NULL, with the reason on standard error: there is no Java, or no
// Kafka for it, and cases are skipped.
extern const char *brokers;

// The group's setup and teardown, and the setup of each case (<cmocka.h> before this header's use).
int broker_start_group(void **state);
int broker_stop_group(void **state);
int broker_is_needed(void **state);
#define BROKER_TEST(name) cmocka_unit_test_setup(name, broker_is_needed)

// Crash the broker and restart it on its port. Only one of our own can be.
bool broker_is_ours(void);
void broker_kill(void);
void broker_restart(void);
