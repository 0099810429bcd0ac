#include "engine/cpu/kernels.h"

#include "engine/cpu/product/amx.h"

#include <assert.h>
#include <string.h>

struct level {
    const char *name;
    bool (*supported)(void); // not called for plain C; NULL: the architecture lacks the level
    int (*permit)(void);     // asks the operating system: 0, or an errno; NULL: needs no permission
    void (*rows)(struct row_kernels *kernels);
    void (*attention)(struct attention_kernels *kernels);
    void (*products)(struct product_kernels *kernels);
};

#if defined(__x86_64__)
#include <cpuid.h>

// Reads the feature bits (Intel SDM, CPUID). The operating system must also save the wide registers: XCR0
// bits 1, 2 and 5 to 7.
static uint64_t enabled_state(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return 0;
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static bool has_avx2(void)
{
    unsigned a, b, c, d;
    if ((enabled_state() & 0x6) != 0x6 || !__get_cpuid(1, &a, &b, &c, &d))
        return false;
    if (!(c & bit_FMA) || !(c & bit_F16C) || !(c & bit_AVX))
        return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & bit_AVX2;
}

static bool has_avxvnni(void)
{
    enum { AVXVNNI = 1 << 4 }; // subleaf 1, EAX
    unsigned a, b, c, d;
    return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && a & AVXVNNI;
}

static bool has_avx512(void)
{
    const unsigned wanted = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    unsigned a, b, c, d;
    if (!has_avx2() || (enabled_state() & 0xE6) != 0xE6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return false;
    return (b & wanted) == wanted && c & bit_AVX512VNNI;
}

static const struct level levels[CPU_LEVEL_COUNT] = {
    [CPU_PLAIN] = {"cpu/plain", NULL, NULL, row_kernels_plain, attention_kernels_plain,
                   product_kernels_plain},
    [CPU_AVX2] = {"cpu/avx2", has_avx2, NULL, row_kernels_avx2, attention_kernels_avx2, product_kernels_avx2},
    [CPU_AVXVNNI] = {"cpu/avxvnni", has_avxvnni, NULL, row_kernels_avx2, attention_kernels_avx2,
                     product_kernels_avxvnni},
    [CPU_AVX512] = {"cpu/avx512", has_avx512, NULL, row_kernels_avx512, attention_kernels_avx512,
                    product_kernels_avx512},
    [CPU_AMX] = {"cpu/amx", amx_is_present, amx_request_permission, row_kernels_avx512,
                 attention_kernels_avx512, product_kernels_amx},
};
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

// Reads the features (Linux, Documentation/arch/arm64/elf_hwcaps.rst). NEON itself is part of every 64-bit
// ARM.
static bool has_dot_products(void)
{
    return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
}

static bool has_matrix_products(void)
{
    return has_dot_products() && getauxval(AT_HWCAP2) & HWCAP2_I8MM;
}

static const struct level levels[CPU_LEVEL_COUNT] = {
    [CPU_PLAIN] = {"cpu/plain", NULL, NULL, row_kernels_plain, attention_kernels_plain,
                   product_kernels_plain},
    [CPU_NEON] = {"cpu/neon", has_dot_products, NULL, row_kernels_neon, attention_kernels_neon,
                  product_kernels_neon},
    [CPU_I8MM] = {"cpu/i8mm", has_matrix_products, NULL, row_kernels_neon, attention_kernels_neon,
                  product_kernels_i8mm},
};
#else
static const struct level levels[CPU_LEVEL_COUNT] = {
    [CPU_PLAIN] = {"cpu/plain", NULL, NULL, row_kernels_plain, attention_kernels_plain,
                   product_kernels_plain},
};
#endif

bool cpu_level_find(const char *name, enum cpu_level *level)
{
    for (int i = 0; i < CPU_LEVEL_COUNT; i++)
        if (levels[i].name && strcmp(levels[i].name + strlen("cpu/"), name) == 0) {
            *level = (enum cpu_level)i;
            return true;
        }
    return false;
}

void cpu_kernels_init(struct cpu_kernels *kernels, enum cpu_level level_max)
{
    assert(level_max >= CPU_PLAIN && level_max < CPU_LEVEL_COUNT);
    int i = (int)level_max;
    kernels->refused = NULL;
    for (; i > CPU_PLAIN; i--) {
        if (!levels[i].supported || !levels[i].supported())
            continue;
        const int refusal = levels[i].permit ? levels[i].permit() : 0;
        if (refusal == 0)
            break;
        kernels->refused = levels[i].name;
        kernels->refused_errno = refusal;
    }
    kernels->level = (enum cpu_level)i;
    kernels->name = levels[i].name;
    levels[i].rows(&kernels->rows);
    levels[i].attention(&kernels->attention);
    levels[i].products(&kernels->products);
}
