// The clocks. Any thread.
#pragma once

#include <stdint.h>

// Monotonic time; the origin is arbitrary.
int64_t clock_ns(void);
int64_t clock_us(void);
int64_t clock_ms(void);
double clock_s(void);
int64_t clock_second(void); // whole seconds; up to a kernel tick late, at a seventh of the cost

int64_t clock_wall_us(void);   // since 1970 UTC; jumps back if the clock is set
int64_t clock_cpu_ns(void);    // processor time of all threads of the process
int64_t clock_thread_ns(void); // processor time of the calling thread

// Converts seconds to microseconds. Saturates instead of overflowing, because the number may come from
// another program.
static inline int64_t clock_us_of_s(int64_t seconds)
{
    int64_t us;
    return __builtin_mul_overflow(seconds, 1000000, &us) ? (seconds < 0 ? INT64_MIN : INT64_MAX) : us;
}
