// Any bytes as a certificate: if it can be read, it is written and reads back as the same certificate.
#include "consumer/certificate/certificate.h"
#include "tests/fuzz/fuzz.h"

static void read_again(const struct certificate *certificate)
{
    struct certificate back;
    struct buffer first = {0}, second = {0};
    struct sha256 statement, other;
    struct error error;
    certificate_encode(certificate, &first);
    fuzz_check(certificate_decode(&back, (struct text){first.data, first.size}, &error) == STATUS_OK);
    certificate_encode(&back, &second);
    fuzz_check(text_equal((struct text){first.data, first.size}, (struct text){second.data, second.size}));
    fuzz_check(certificate_statement(certificate, &statement) && certificate_statement(&back, &other));
    fuzz_check(sha256_equal(&statement, &other));
    buffer_finish(&first);
    buffer_finish(&second);
    certificate_finish(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct certificate certificate;
    struct error error = {0};
    enum status status = certificate_decode(&certificate, (struct text){(const char *)data, size}, &error);
    if (status == STATUS_OK)
        read_again(&certificate);
    else
        fuzz_check(status == STATUS_REFUSE && error.text[0]);
    certificate_finish(&certificate);
    return 0;
}
