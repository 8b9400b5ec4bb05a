// The only test source that is compiled with absolute paths, so that the objects of all others can
// be shared between checkouts by the compiler cache.
#include "tests/golden.h"

namespace dsv4v::testing {

std::string source_root() {
    return DSV4V_SOURCE_DIR;
}

std::string unpacked(const std::string& name) {
    return std::string(DSV4V_TEST_DATA) + "/" + name;
}

std::string source_data(const std::string& name) {
    return source_root() + "/tests/data/" + name;
}

} // namespace dsv4v::testing
