// Marks for functions that host and device code share. Plain C++ on the host, so that headers
// using them need no CUDA.
#pragma once

#if defined(__CUDACC__)
#define DSV4V_HOST_DEVICE __host__ __device__
#define DSV4V_INLINE __forceinline__
#else
#define DSV4V_HOST_DEVICE
// Always inlined, so that a caller compiled for a wider instruction set gets the body in it too.
#define DSV4V_INLINE inline __attribute__((always_inline))
#endif
