#include "consumer/kafka_fault.h"

void kafka_fault_point(enum kafka_point point)
{
    (void)point;
}
