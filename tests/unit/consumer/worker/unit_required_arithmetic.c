// Requirements on the arithmetic of a worker: lists of parts, whole names.
#include "consumer/worker/required_arithmetic.h"
#include "tests/support/cases.h"

#define NAME "sheaf=1 model=9f86d081884c7d65 backend=cuda-sm90 kv-type=f16 placement=device temperature=0"

TEST(requirements_are_parts_with_a_name_and_a_value)
{
    static const char *const bad[] = {"", "  ", "backend", "=cpu", "backend=", "kv-type=f16 backend"};
    static const char *const good[] = {"backend=cpu", "  kv-type=f16  backend=cpu ", "sheaf=1", "a=b=c"};
    struct error error;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(required_arithmetic_validate(bad[i], &error), STATUS_REFUSE);
        assert_int_equal(error.code, ERROR_USAGE);
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_ok(required_arithmetic_validate(good[i], &error), &error);
}

TEST(a_worker_has_every_required_part)
{
    static const char *const met[] = {"backend=cuda-sm90", "kv-type=f16 backend=cuda-sm90",
                                      " placement=device ", "model=9f86d081884c7d65", NAME};
    static const struct {
        const char *required, *text;
    } unmet[] = {
        {"backend=cuda-sm80", "backend=cuda-sm80, this worker has backend=cuda-sm90"},
        {"backend=cuda-sm9", "this worker has backend=cuda-sm90"},
        {"backend=cuda-sm900", "this worker has backend=cuda-sm90"},
        {"backend=cuda-sm90 kv-type=q8_0", "wants kv-type=q8_0, this worker has kv-type=f16"},
        {"quantize=q8_0", "quantize=q8_0, this worker has none"},
        {"kv-type=f32 backend=cpu", "kv-type=f16; backend=cpu, this worker"},
    };
    struct error error;
    for (size_t i = 0; i < sizeof met / sizeof *met; i++)
        if (required_arithmetic_check(met[i], NAME, &error) != STATUS_OK)
            fail_msg("%s: %s", met[i], error.text);
    for (size_t i = 0; i < sizeof unmet / sizeof *unmet; i++) {
        assert_int_equal(required_arithmetic_check(unmet[i].required, NAME, &error), STATUS_REFUSE);
        if (!strstr(error.text, unmet[i].text))
            fail_msg("%s: %s", unmet[i].required, error.text);
    }
}

TEST(a_whole_name_is_equal)
{
    struct error error;
    assert_int_equal(required_arithmetic_check("sheaf=1 backend=cuda-sm90 kv-type=f16 placement=device "
                                               "model=9f86d081884c7d65",
                                               NAME, &error),
                     STATUS_REFUSE);
    assert_non_null(strstr(error.text, "no temperature, this worker has temperature=0"));
    assert_ok(required_arithmetic_check("temperature=0 sheaf=1", NAME, &error), &error); // a list of parts
    assert_int_equal(required_arithmetic_check(NAME " quantize=q8_0", NAME, &error), STATUS_REFUSE);
}
