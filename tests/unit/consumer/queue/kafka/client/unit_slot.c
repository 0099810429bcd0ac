// The slots of Kafka workers beside one store: files that hold their ids, one worker each.
#include "consumer/queue/kafka/client/slot.h"
#include "tests/support/cases.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static int make_folder(void **state)
{
    strcpy(folder, "/tmp/sheaf-slots-XXXXXX");
    return mkdtemp(folder) ? 0 : 1;
}

static int remove_folder(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static struct slot open_slot(const char *group)
{
    struct slot slot;
    struct error error;
    assert_ok(slot_open(&slot, folder, group, &error), &error);
    return slot;
}

TEST_WITH(a_slot_is_held_by_one_worker_and_keeps_its_id, make_folder, remove_folder)
{
    struct slot first = open_slot("g"), second = open_slot("g");
    assert_int_equal(first.number, 0);
    assert_int_equal(second.number, 1);
    assert_string_not_equal(first.id, second.id);
    slot_close(&first);
    struct slot again = open_slot("g");
    assert_int_equal(again.number, 0);
    struct slot third = open_slot("g");
    assert_int_equal(third.number, 2);
    struct slot other = open_slot("another group");
    assert_int_equal(other.number, 0);
    assert_string_not_equal(other.id, again.id);
    slot_close(&again);
    first = open_slot("g");
    assert_int_equal(strlen(first.id), SLOT_ID_BYTES);
    struct slot *slots[] = {&first, &second, &third, &other};
    for (size_t i = 0; i < 4; i++)
        slot_close(slots[i]);
    slot_close(&first); // twice is fine
}

TEST_WITH(a_slot_file_cut_short_gets_a_new_id, make_folder, remove_folder)
{
    struct slot slot = open_slot("g");
    char before[sizeof slot.id], path[128];
    memcpy(before, slot.id, sizeof before);
    slot_close(&slot);
    slot = open_slot("g");
    assert_string_equal(slot.id, before);
    slot_close(&slot);
    snprintf(path, sizeof path, "%s/g.worker-0", folder);
    struct stat information;
    assert_int_equal(stat(path, &information), 0);
    assert_int_equal(information.st_mode & 0777, 0600);
    assert_int_equal(truncate(path, SLOT_ID_BYTES - 1), 0);
    slot = open_slot("g");
    assert_string_not_equal(slot.id, before);
    slot_close(&slot);
}

static void open_named(struct slot *slot)
{
    struct error error;
    assert_ok(slot_open_named(slot, folder, "g", "pod-7", &error), &error);
}

TEST_WITH(a_slot_keeps_the_member_id_of_its_last_process, make_folder, remove_folder)
{
    char longest[SLOT_MEMBER_BYTES_MAX + 1];
    struct slot slot = open_slot("g");
    assert_string_equal(slot.member, "");
    char id[sizeof slot.id];
    memcpy(id, slot.id, sizeof id);
    memset(longest, 'm', SLOT_MEMBER_BYTES_MAX);
    longest[SLOT_MEMBER_BYTES_MAX] = '\0';
    const char *const members[] = {SLOT_MEMBER_JOINING, longest, "sheaf-g-1.jobs-0a1b", SLOT_MEMBER_FENCED};
    for (size_t i = 0; i < 4; i++) {
        slot_note_member(&slot, members[i]);
        slot_close(&slot);
        slot = open_slot("g");
        assert_string_equal(slot.member, members[i]);
        assert_string_equal(slot.id, id);
    }
    slot_close(&slot);
    open_named(&slot);
    assert_string_equal(slot.member, "");
    slot_note_member(&slot, longest);
    slot_close(&slot);
    open_named(&slot);
    assert_string_equal(slot.member, longest);
    assert_string_equal(slot.id, "pod-7");
    slot_close(&slot);
}

TEST_WITH(a_member_id_of_a_copied_or_cut_file_is_not_believed, make_folder, remove_folder)
{
    char command[512], path[128];
    struct slot slot;
    snprintf(path, sizeof path, "%s/g.member-pod-7", folder);
    open_named(&slot);
    slot_note_member(&slot, "0a1b");
    slot_close(&slot);
    snprintf(command, sizeof command, "cp -p %s %s/copy && mv %s/copy %s", path, folder, folder, path);
    assert_int_equal(system(command), 0);
    open_named(&slot);
    assert_string_equal(slot.member, "");
    slot_note_member(&slot, "0a1b");
    slot_close(&slot);
    struct stat information;
    assert_int_equal(stat(path, &information), 0);
    for (int is_other = 0; is_other < 2; is_other++) { // an inode number of another file system
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fprintf(file, "%16s\n%llu %llu 0a1b\n", "", (unsigned long long)information.st_dev + is_other,
                (unsigned long long)information.st_ino);
        fclose(file);
        open_named(&slot);
        assert_string_equal(slot.member, is_other ? "" : "0a1b");
        slot_close(&slot);
    }
    open_named(&slot);
    slot_note_member(&slot, "0a1b");
    slot_close(&slot);
    assert_int_equal(stat(path, &information), 0);
    for (off_t size = information.st_size - 1; size >= 0; size--) {
        assert_int_equal(truncate(path, size), 0);
        open_named(&slot);
        assert_string_equal(slot.member, "");
        slot_close(&slot);
    }
}

TEST_WITH(a_member_s_name_is_held_by_one_worker, make_folder, remove_folder)
{
    struct slot first, second;
    struct error error;
    char longest[SLOT_NAME_BYTES_MAX + 2];
    char group[SLOT_GROUP_BYTES_MAX + 2] = "";
    memset(group, 'g', SLOT_GROUP_BYTES_MAX);
    assert_ok(slot_open_named(&first, folder, group, "pod-7", &error), &error);
    slot_close(&first);
    group[SLOT_GROUP_BYTES_MAX] = 'g';
    assert_int_equal(slot_open_named(&first, folder, group, "pod-7", &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "longer than"));
    assert_ok(slot_open_named(&first, folder, "g", "pod-7", &error), &error);
    assert_string_equal(first.id, "pod-7");
    assert_int_equal(slot_open_named(&second, folder, "g", "pod-7", &error), STATUS_REFUSE);
    assert_int_equal(error.code, ERROR_USAGE);
    assert_non_null(strstr(error.text, "pod-7"));
    assert_ok(slot_open_named(&second, folder, "another", "pod-7", &error), &error);
    slot_close(&second);
    slot_close(&first);
    assert_ok(slot_open_named(&first, folder, "g", "pod-7", &error), &error);
    slot_close(&first);
    assert_int_equal(slot_open_named(&first, folder, "g", "../pod", &error), STATUS_REFUSE);
    assert_int_equal(slot_open_named(&first, folder, "g", "", &error), STATUS_REFUSE);
    memset(longest, 'n', sizeof longest);
    longest[SLOT_NAME_BYTES_MAX] = '\0';
    assert_ok(slot_open_named(&first, folder, "g", longest, &error), &error);
    slot_close(&first);
    longest[SLOT_NAME_BYTES_MAX] = 'n';
    longest[SLOT_NAME_BYTES_MAX + 1] = '\0';
    assert_int_equal(slot_open_named(&first, folder, "g", longest, &error), STATUS_REFUSE);
}

// librdkafka commits no other group's offsets in a transaction.
TEST(a_group_is_printable_ascii)
{
    static const char *const refused[] = {"\xc3\xa9", "a\tb", "a\n", "\x7f"};
    struct error error;
    assert_ok(slot_check(" a\"%/~", NULL, &error), &error);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(slot_check(refused[i], i % 2 ? "pod" : NULL, &error), STATUS_REFUSE);
        assert_int_equal(error.code, ERROR_USAGE);
        assert_non_null(strstr(error.text, "--group: expected printable ASCII"));
    }
}

TEST(without_a_file_a_slot_has_the_given_name_or_a_random_one)
{
    struct slot first, second;
    struct error error;
    assert_int_equal(slot_open_named(&first, "/no/such/folder", "g", "pod-7", &error), STATUS_REFUSE);
    assert_int_equal(error.code, ERROR_FILE);
    assert_ok(slot_open_without_file(&first, "pod-7", &error), &error);
    assert_string_equal(first.id, "pod-7");
    assert_int_equal(slot_open_without_file(&first, "no name", &error), STATUS_REFUSE);
    memset(&first, '?', sizeof first);
    memset(&second, '?', sizeof second);
    assert_ok(slot_open_without_file(&first, NULL, &error), &error);
    assert_ok(slot_open_without_file(&second, NULL, &error), &error);
    assert_string_not_equal(first.id, second.id);
    assert_int_equal(strlen(first.id), SLOT_ID_BYTES);
    assert_int_equal(strspn(first.id, "0123456789abcdef"), SLOT_ID_BYTES);
    slot_close(&first); // nothing to close
}

TEST_WITH(any_group_name_makes_a_file_name, make_folder, remove_folder)
{
    char longest[SLOT_GROUP_BYTES_MAX + 2], path[512];
    struct slot slot = open_slot("../a b%");
    slot_close(&slot);
    snprintf(path, sizeof path, "%s/%%2E%%2E%%2Fa%%20b%%25.worker-0", folder);
    assert_int_equal(access(path, F_OK), 0);
    memset(longest, '.', sizeof longest); // %2E each: 240 bytes of the 255 of a file name
    longest[80] = '\0';
    slot = open_slot(longest);
    slot_close(&slot);
    memset(longest, 'g', sizeof longest);
    longest[SLOT_GROUP_BYTES_MAX] = '\0';
    slot = open_slot(longest);
    slot_close(&slot);
    struct error error;
    longest[SLOT_GROUP_BYTES_MAX] = 'g';
    longest[SLOT_GROUP_BYTES_MAX + 1] = '\0';
    assert_int_equal(slot_open(&slot, folder, longest, &error), STATUS_REFUSE);
    assert_int_equal(slot_open(&slot, "/no/such/folder", "g", &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "/no/such/folder"));
    assert_int_equal(slot.file, -1);
}

// Not by the error of a file, after which a worker continues without one.
TEST_WITH(a_group_whose_name_no_file_can_have_is_refused_by_its_length, make_folder, remove_folder)
{
    static const struct {
        const char *member;
        int n_dots, n_letters; // 3 bytes and 1
        bool fits;
    } groups[] = {{NULL, 81, 0, true},     {NULL, 80, 4, false},    {NULL, 0, SLOT_GROUP_BYTES_MAX, true},
                  {"pod-7", 80, 2, true},  {"pod-7", 80, 3, false}, {"pod-7", 81, 0, false},
                  {"pod-77", 80, 1, true}, {"pod-77", 80, 2, false}};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        char group[SLOT_GROUP_BYTES_MAX + 1];
        size_t n_dots = (size_t)groups[i].n_dots, n_letters = (size_t)groups[i].n_letters;
        struct slot slot;
        struct error error = {0};
        memset(group, '.', n_dots);
        memset(group + n_dots, 'g', n_letters);
        group[n_dots + n_letters] = '\0';
        enum status status = groups[i].member
                                 ? slot_open_named(&slot, folder, group, groups[i].member, &error)
                                 : slot_open(&slot, folder, group, &error);
        assert_int_equal(status, groups[i].fits ? STATUS_OK : STATUS_REFUSE);
        if (!groups[i].fits) {
            assert_int_equal(error.code, ERROR_USAGE);
            assert_non_null(strstr(error.text, "the name of its lock file"));
        }
        slot_close(&slot);
    }
}

// Only letters, digits, '-' and '_' are written as they are: not their neighbors in ASCII either.
TEST_WITH(each_end_of_a_range_of_characters_is_in_it, make_folder, remove_folder)
{
    char path[512];
    struct slot slot = open_slot("azAZ09-_`{@[/:");
    slot_close(&slot);
    snprintf(path, sizeof path, "%s/azAZ09-_%%60%%7B%%40%%5B%%2F%%3A.worker-0", folder);
    assert_int_equal(access(path, F_OK), 0);
}

// A service manager may start workers without a standard input.
TEST_WITH(a_slot_whose_file_is_descriptor_0_is_given_back_too, make_folder, remove_folder)
{
    int input = dup(STDIN_FILENO);
    close(STDIN_FILENO);
    struct slot slot = open_slot("g"), again;
    assert_int_equal(slot.file, STDIN_FILENO);
    slot_close(&slot);
    again = open_slot("g");
    assert_int_equal(again.number, 0);
    slot_close(&again);
    if (input >= 0) {
        assert_int_equal(dup2(input, STDIN_FILENO), STDIN_FILENO);
        close(input);
    }
}

// A file of a shorter name would be another worker's lock.
TEST_WITH(a_path_beyond_the_system_s_limit_is_refused_and_not_cut, make_folder, remove_folder)
{
    static char longest[PATH_MAX + 1];
    struct slot slot;
    struct error error;
    for (int named = 0; named < 2; named++)
        for (int excess = 0; excess < 2; excess++) {
            size_t n_name = strlen(named ? "/g.member-pod-7" : "/g.worker-0");
            size_t n = PATH_MAX - 1 - n_name + (size_t)excess;
            memset(longest, '/', n);
            memcpy(longest, folder, strlen(folder));
            longest[n] = '\0';
            enum status status = named ? slot_open_named(&slot, longest, "g", "pod-7", &error)
                                       : slot_open(&slot, longest, "g", &error);
            assert_int_equal(status, excess ? STATUS_REFUSE : STATUS_OK);
            if (excess) {
                assert_int_equal(slot.file, -1);
                assert_non_null(strstr(error.text, "the path of "));
            }
            slot_close(&slot);
        }
}
