// The monotonic clock.
#pragma once

#include <stdint.h>

int64_t clock_now_ms(void);
