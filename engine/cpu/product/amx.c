#include "engine/cpu/product/amx.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

// Intel SDM, CPUID leaf 7, and XCR0: bits 1 and 2 are the registers of AVX, 5 to 7 of AVX-512, 17 and 18 of AMX.
bool amx_is_present(void)
{
    enum { TILE = 1 << 24, INT8 = 1 << 25, STATE = 0x600E6 }; // EDX; XCR0
    const unsigned avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return false;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & STATE) != STATE || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return false;
    return (b & avx512) == avx512 && c & bit_AVX512VNNI && d & TILE && d & INT8;
}

int amx_request_permission(void)
{
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 }; // Linux 5.16 and later
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0 ? 0 : errno;
}
#else
bool amx_is_present(void)
{
    return false;
}

int amx_request_permission(void)
{
    return 0;
}
#endif
