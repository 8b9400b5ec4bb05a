// CHECK: programmer errors only, never reachable from outside input. Active in every build.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace dsv4v {

[[noreturn]] inline void check_failed(const char* file, int line, const char* condition) {
    std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
    std::abort();
}

} // namespace dsv4v

#define DSV4V_CHECK(condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            ::dsv4v::check_failed(__FILE__, __LINE__, #condition);                                 \
        }                                                                                          \
    } while (false)
