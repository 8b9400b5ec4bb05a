// What this binary was built from; the values come from CMake.
#pragma once

#include <string>

namespace dsv4v {

struct BuildInfo {
    const char* version;
    const char* commit;
    const char* compiler;
    const char* cuda; // toolkit version or "none"
    const char* build_type;
    const char* sanitizers; // "none" or a list
};

[[nodiscard]] const BuildInfo& build_info();
// As one JSON object, for /version and --version.
[[nodiscard]] std::string build_info_json();

} // namespace dsv4v
