// Request heads: never crashes, and what it accepts obeys the rules that later code relies on.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "server/http_head.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto head = dsv4v::parse_request_head(text);
    if (!head) {
        if (head.error().status < 400) {
            std::abort();
        }
        return 0;
    }
    const bool bad_path = head->path.empty() || (head->path[0] != '/' && head->path != "*");
    const bool bad_value = head->header("host").find_first_of("\r\n") != std::string::npos;
    if (bad_path || bad_value || (head->chunked && head->content_length > 0)) {
        std::abort();
    }
    return 0;
}
