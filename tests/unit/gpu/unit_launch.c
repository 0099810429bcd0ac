// Names of kernels, from how compilers spell them (gpu/kernels/launch.h).
#include "gpu/kernels/launch.h"
#include "tests/support/cases.h"

TEST(a_kernel_is_named_as_in_its_source)
{
    static const char *const rows[][2] = {
        {"void note() [with auto kernel = add_rows]", "add_rows"},
        {"void note() [kernel = &add_rows]", "add_rows"},
        {"void note() [with auto kernel = sheaf::add_rows]", "add_rows"},
        {"void note() [kernel = &sheaf::emulated::add_rows]", "add_rows"},
        {"void note() [with auto kernel = multiply<8, true>]", "multiply<8, true>"},
        {"void note() [with auto kernel = sheaf::multiply<kind::wide, 4>]", "multiply<kind::wide, 4>"},
        {"void note() [with auto kernel = multiply<kind::wide>]", "multiply<kind::wide>"},
        {"add_rows", "add_rows"},
        {"&add_rows", "add_rows"},
        {"", ""},
    };
    static struct kernel_entry entries[sizeof rows / sizeof *rows];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        kernel_register(&entries[i], &rows[i], rows[i][0]);
        assert_string_equal(entries[i].name, rows[i][1]);
        assert_ptr_equal(entries[i].function, &rows[i]);
        assert_ptr_equal(kernel_list(), &entries[i]); // the last one first
        assert_ptr_equal(entries[i].next, i ? &entries[i - 1] : NULL);
    }
}

TEST(a_long_name_is_cut)
{
    static struct kernel_entry entries[3];
    char description[2 * sizeof entries->name];
    for (int over = 0; over < 3; over++) {
        size_t length = sizeof entries->name - 2 + (size_t)over;
        memset(description, 'k', length);
        description[length] = '\0';
        memset(entries[over].name, 'x', sizeof entries->name);
        kernel_register(&entries[over], NULL, description);
        assert_int_equal(strlen(entries[over].name), over < 2 ? length : sizeof entries->name - 1);
    }
}
