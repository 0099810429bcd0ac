// For ops/bench/exactly-once: preloaded into a worker, it makes librdkafka's transactions no-ops, and a
// commit a wait for the delivery of the results. The worker then publishes at least once, and keeps no
// offsets: what is left of the path without that machinery.
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

typedef int conf_set_function(void *conf, const char *name, const char *value, char *text, size_t size);
typedef int flush_function(void *rk, int timeout_ms);

conf_set_function rd_kafka_conf_set;
void *rd_kafka_init_transactions(void *rk, int timeout_ms);
void *rd_kafka_begin_transaction(void *rk);
void *rd_kafka_send_offsets_to_transaction(void *rk, const void *offsets, const void *metadata,
                                           int timeout_ms);
void *rd_kafka_commit_transaction(void *rk, int timeout_ms);

int rd_kafka_conf_set(void *conf, const char *name, const char *value, char *text, size_t size)
{
    conf_set_function *original = (conf_set_function *)dlsym(RTLD_NEXT, "rd_kafka_conf_set");
    return strcmp(name, "transactional.id") == 0 ? 0 : original(conf, name, value, text, size);
}

void *rd_kafka_init_transactions(void *rk, int timeout_ms)
{
    return NULL; // no error
}

void *rd_kafka_begin_transaction(void *rk)
{
    return NULL;
}

void *rd_kafka_send_offsets_to_transaction(void *rk, const void *offsets, const void *metadata,
                                           int timeout_ms)
{
    return NULL;
}

void *rd_kafka_commit_transaction(void *rk, int timeout_ms)
{
    flush_function *flush = (flush_function *)dlsym(RTLD_NEXT, "rd_kafka_flush");
    (void)flush(rk, timeout_ms);
    return NULL;
}
