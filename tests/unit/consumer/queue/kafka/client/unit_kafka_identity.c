// The names by which brokers know a client (consumer/queue/kafka/client/kafka_handle.c), as librdkafka has them.
#include "consumer/queue/kafka/client/kafka_handle.h"
#include "tests/support/cases.h"

static const struct kafka_config usual = {.brokers = "localhost:1",
                                          .topics.jobs = "jobs",
                                          .group.name = "workers"};

// `expected`: NULL for a property that is not set.
static void assert_property(const struct kafka_config *config, enum kafka_role role, const char *id,
                            const char *name, const char *expected)
{
    struct error error;
    char value[512] = "";
    size_t size = sizeof value;
    rd_kafka_conf_t *conf = kafka_conf_create(config, role, id, &error);
    if (!conf)
        fail_msg("%s", error.text);
    const rd_kafka_conf_res_t result = rd_kafka_conf_get(conf, name, value, &size);
    assert_int_equal(result, expected ? RD_KAFKA_CONF_OK : RD_KAFKA_CONF_UNKNOWN);
    assert_string_equal(value, expected ? expected : "");
    rd_kafka_conf_destroy(conf);
}

// Groups of one name on several topics of jobs have members of their own.
TEST(a_member_is_named_by_its_slot_and_the_topic_of_jobs)
{
    struct kafka_config config = usual;
    assert_property(&config, KAFKA_CONSUMER, "slot", "group.instance.id", "slot.jobs");
    config.topics.jobs = "others";
    assert_property(&config, KAFKA_CONSUMER, "slot", "group.instance.id", "slot.others");
    config.topics.jobs = NULL;
    assert_property(&config, KAFKA_CONSUMER, "slot", "group.instance.id", "slot");
}

TEST(a_name_is_cut_to_the_brokers_limit)
{
    enum { NAME_BYTES_MAX = 249 };
    char topic[NAME_BYTES_MAX + 1], expected[NAME_BYTES_MAX + 1];
    struct kafka_config config = usual;
    memset(topic, 't', NAME_BYTES_MAX);
    memset(expected, 't', NAME_BYTES_MAX);
    memcpy(expected, "slot.", 5);
    topic[NAME_BYTES_MAX] = expected[NAME_BYTES_MAX] = '\0';
    config.topics.jobs = topic;
    assert_property(&config, KAFKA_CONSUMER, "slot", "group.instance.id", expected);
}

TEST(a_dynamic_member_and_clients_that_are_none_have_no_name)
{
    static const enum kafka_role others[] = {KAFKA_READER, KAFKA_TRANSACTIONAL, KAFKA_PRODUCER,
                                             KAFKA_SUBMITTER, KAFKA_ADMIN};
    struct kafka_config config = usual;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_property(&config, others[i], "slot", "group.instance.id", NULL);
    config.group.is_dynamic = true;
    assert_property(&config, KAFKA_CONSUMER, "slot", "group.instance.id", NULL);
}

TEST(groups_and_transactions_have_their_names)
{
    struct kafka_config config = usual;
    assert_property(&config, KAFKA_CONSUMER, "slot", "group.id", "workers");
    assert_property(&config, KAFKA_READER, "slot", "group.id", "workers");
    config.group.name = NULL;
    assert_property(&config, KAFKA_READER, "slot", "group.id", "sheaf");
    assert_property(&config, KAFKA_ADMIN, "slot", "group.id", NULL);
    assert_property(&config, KAFKA_TRANSACTIONAL, "slot", "transactional.id", "slot");
    assert_property(&config, KAFKA_PRODUCER, "slot", "transactional.id", NULL);
}
