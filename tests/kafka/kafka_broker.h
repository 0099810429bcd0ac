// The broker of the tests in tests/kafka/: $SHEAF_TEST_BROKER (HOST:PORT), else one that ops/kafka/start
// brings up in a temporary folder and that ends with the program.
#pragma once

#include <stdbool.h>

// NULL, with the reason on standard error: there is no Java, or no Kafka for it.
const char *broker_start(void);
void broker_stop(void);
// Crash it and bring it back on its port. Only one of our own can be.
bool broker_is_ours(void);
void broker_kill(void);
void broker_restart(void);
