// JSON reading: whatever the bytes are, the reader answers, and what it accepts prints to text that
// reads and prints the same again.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/json_value.h"
#include "engine/utf8.h"
#include "loaders/base/check.h"

namespace {

// Python prints an overflowing number as a word that is not JSON.
bool is_rereadable(const std::string& printed) {
    return printed.find("Infinity") == std::string::npos;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto value = dsv4v::parse_json(text);
    if (!value) {
        DSV4V_CHECK(!value.error().message.empty());
        return 0;
    }
    const std::string printed = dsv4v::python_json(*value);
    DSV4V_CHECK(dsv4v::is_valid_utf8(printed));
    if (is_rereadable(printed)) {
        const auto again = dsv4v::parse_json(printed);
        DSV4V_CHECK(again.has_value());
        DSV4V_CHECK(dsv4v::python_json(*again) == printed);
    }
    (void)value->as_int();
    (void)value->as_double();
    return 0;
}
