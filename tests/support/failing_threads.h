// Threads that fail to start on purpose. The linker redirects pthread_create of a test program to
// failing_threads.c (--wrap, in the dependency of that name).
#pragma once

#include <stdbool.h>

extern bool threads_fail; // from the next one on
