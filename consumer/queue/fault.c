#include "consumer/queue/fault.h"

void fault_point(enum fault_point point)
{
    (void)point;
}

void fault_step(const struct step *step)
{
    (void)step;
}

bool fault_redelivers(void)
{
    return false;
}
