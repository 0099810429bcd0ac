// Whether this process may use the tile registers of Intel AMX. Other architectures: never.
#pragma once

#include <stdbool.h>

// The processor has AMX with int8 products, and AVX-512 with VNNI; the operating system saves its registers.
bool amx_is_present(void);

// Asks the kernel for the tile registers, for all threads of the process (Linux,
// Documentation/arch/x86/xstate.rst). Further calls change nothing. Returns 0, or the errno of a refusal.
// Only if amx_is_present.
int amx_request_permission(void);
