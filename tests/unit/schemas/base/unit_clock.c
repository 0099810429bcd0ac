// Clocks: seconds and nanoseconds of the system's, in each unit.
#include "schemas/base/clock.h"
#include "tests/support/cases.h"

#include <time.h>

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    *t = clock == CLOCK_MONOTONIC          ? (struct timespec){5000, 123456789}
         : clock == CLOCK_REALTIME         ? (struct timespec){1700000000, 999999999}
         : clock == CLOCK_MONOTONIC_COARSE ? (struct timespec){2000000000, 999999999}
                                           : (struct timespec){3, 1};
    return 0;
}

TEST(each_clock_counts_in_its_unit)
{
    assert_int_equal(clock_ns(), 5000123456789);
    assert_int_equal(clock_us(), 5000123456);
    assert_int_equal(clock_ms(), 5000123);
    assert_true(clock_s() > 5000.123456 && clock_s() < 5000.123457);
    assert_int_equal(clock_second(), 2000000000);
    assert_int_equal(clock_wall_us(), 1700000000999999);
    assert_int_equal(clock_cpu_ns(), 3000000001);
}
