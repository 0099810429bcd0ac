// Selection of the CPU's kernels: names, limits, and registers that the operating system refuses.
#include "engine/cpu/kernels.h"
#include "engine/cpu/product/amx.h"
#include "tests/support/cases.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __x86_64__
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

TEST(level_is_found_by_its_name_and_is_at_most_the_limit)
{
    for (int limit = CPU_PLAIN; limit < CPU_LEVEL_COUNT; limit++) {
        struct cpu_kernels kernels;
        cpu_kernels_init(&kernels, (enum cpu_level)limit);
        assert_true((int)kernels.level <= limit);
        enum cpu_level level;
        assert_true(cpu_level_find(kernels.name + strlen("cpu/"), &level));
        assert_int_equal(level, kernels.level);
    }
}

#ifdef __x86_64__
// Makes the kernel answer arch_prctl(ARCH_REQ_XCOMP_PERM) with EPERM in this process.
static int refuse_tile_registers(void)
{
    enum { REQUEST_PERMISSION = 0x1023 };
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, REQUEST_PERMISSION, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

enum { CHILD_RIGHT, CHILD_WRONG, CHILD_WITHOUT_FILTER };

static int select_without_permission(void)
{
    if (refuse_tile_registers() != 0)
        return CHILD_WITHOUT_FILTER;
    struct cpu_kernels kernels, limited;
    cpu_kernels_init(&kernels, CPU_AMX);
    cpu_kernels_init(&limited, CPU_AVX512);
    return kernels.level == CPU_AVX512 && kernels.refused && strcmp(kernels.refused, "cpu/amx") == 0 &&
                   kernels.refused_errno == EPERM && !limited.refused
               ? CHILD_RIGHT
               : CHILD_WRONG;
}

TEST(refused_tile_registers_are_named_and_avx512_is_taken)
{
    if (!amx_is_present()) {
        print_message("skipped: this processor has no AMX\n");
        skip();
    }
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(select_without_permission());
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == CHILD_WITHOUT_FILTER) {
        print_message("skipped: this process may set no filter of system calls\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), CHILD_RIGHT);
}
#endif

TEST_FIXTURE(NULL, NULL);

int main(void)
{
    return cases_run();
}
