#include "consumer/fault.h"

void fault_point(enum fault_point point)
{
    (void)point;
}

bool fault_redelivers(void)
{
    return false;
}
