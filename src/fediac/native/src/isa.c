/* Which instruction set the kernels use, see isa.h. */

#include "isa.h"

int fediac_isa_in_use = ISA_BASELINE;

static int best_isa(void) {
#if HAVE_X86
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("bmi") ||
        !__builtin_cpu_supports("bmi2") || !__builtin_cpu_supports("popcnt") ||
        !__builtin_cpu_supports("fma"))
        return ISA_BASELINE;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return ISA_AVX512;
    return ISA_AVX2;
#else
    return ISA_BASELINE;
#endif
}

/* Use the best instruction set this machine has, but none above `cap`; return it. */
EXPORT int fediac_set_isa(int cap) {
    int best = best_isa();
    fediac_isa_in_use = cap < best ? cap : best;
    return fediac_isa_in_use;
}

/* The name of the instruction set in use. */
EXPORT const char *fediac_isa_name(void) {
    static const char *const names[] = {"baseline", "avx2", "avx512"};
    return names[fediac_isa_in_use];
}

/* The digest of the sources, by which Python refuses a library built from others. */
EXPORT const char *fediac_sources(void) {
    return FEDIAC_SOURCES;
}
