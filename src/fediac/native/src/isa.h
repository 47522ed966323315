/* Which instruction set the kernels use: chosen when the library is loaded, so that
   one binary serves every machine of its architecture. */

#ifndef FEDIAC_ISA_H
#define FEDIAC_ISA_H

#include "kernels.h"

enum { ISA_BASELINE = 0, ISA_AVX2 = 1, ISA_AVX512 = 2 };

extern int fediac_isa_in_use;

#if defined(__x86_64__)
#define HAVE_X86 1
#include <immintrin.h>
#define AVX2_FEATURES "avx2,bmi,bmi2,lzcnt,popcnt"
#define AVX512_FEATURES "avx512f,avx512bw,avx512dq,avx512vl,bmi,bmi2,lzcnt,popcnt"
#define TARGET_AVX2 __attribute__((target(AVX2_FEATURES)))
#define TARGET_AVX512 __attribute__((target(AVX512_FEATURES)))
#define INLINE_AVX2 static inline __attribute__((always_inline, target(AVX2_FEATURES)))
#define INLINE_AVX512 \
    static inline __attribute__((always_inline, target(AVX512_FEATURES)))
#else
#define HAVE_X86 0
#endif

/* Define the function `name` three times from `name##_body`, which must be INLINE: the
   compiler then vectorises the body for each instruction set. `name` itself calls the
   one in use. */
#if HAVE_X86
#define FOR_EACH_ISA(linkage, name, parameters, arguments) \
    TARGET_AVX512 static void name##_avx512 parameters {   \
        name##_body arguments;                             \
    }                                                      \
    TARGET_AVX2 static void name##_avx2 parameters {       \
        name##_body arguments;                             \
    }                                                      \
    static void name##_baseline parameters {               \
        name##_body arguments;                             \
    }                                                      \
    CALL_ISA(linkage, name, parameters, arguments)

/* Define `name` as a call of whichever of its three versions is in use. */
#define CALL_ISA(linkage, name, parameters, arguments) \
    linkage void name parameters {                     \
        switch (fediac_isa_in_use) {                   \
        case ISA_AVX512:                               \
            name##_avx512 arguments;                   \
            break;                                     \
        case ISA_AVX2:                                 \
            name##_avx2 arguments;                     \
            break;                                     \
        default:                                       \
            name##_baseline arguments;                 \
        }                                              \
    }
#else
#define FOR_EACH_ISA(linkage, name, parameters, arguments) \
    linkage void name parameters {                         \
        name##_body arguments;                             \
    }
#define CALL_ISA(linkage, name, parameters, arguments) \
    linkage void name parameters {                     \
        name##_baseline arguments;                     \
    }
#endif

#endif
