#include "server/http_head.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace dsv4v {

namespace {

tl::unexpected<HeadError> malformed(std::string message) {
    return tl::unexpected(HeadError{400, "bad_request", std::move(message)});
}

tl::unexpected<HeadError> too_large(std::string message) {
    return tl::unexpected(HeadError{431, "headers_too_large", std::move(message)});
}

char lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string lower_case(std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(), lower);
    return out;
}

std::string_view trim_blanks(std::string_view text) {
    const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
    while (!text.empty() && is_blank(text.front())) {
        text.remove_prefix(1);
    }
    while (!text.empty() && is_blank(text.back())) {
        text.remove_suffix(1);
    }
    return text;
}

std::optional<int> hex_digit(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    const char l = lower(c);
    return l >= 'a' && l <= 'f' ? std::optional<int>(l - 'a' + 10) : std::nullopt;
}

std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space) {
    std::string out;
    out.reserve(text.size());
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '+' && plus_is_space) {
            out.push_back(' ');
        } else if (text[i] != '%') {
            out.push_back(text[i]);
        } else {
            const auto high = i + 2 < text.size() ? hex_digit(text[i + 1]) : std::nullopt;
            const auto low = i + 2 < text.size() ? hex_digit(text[i + 2]) : std::nullopt;
            if (!high || !low) {
                return std::nullopt;
            }
            out.push_back(static_cast<char>(*high * 16 + *low));
            i += 2;
        }
    }
    return out;
}

// A field value without control characters (a tab is allowed).
bool is_field_value(std::string_view value) {
    return std::all_of(value.begin(), value.end(), [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
    });
}

// Cuts the next CRLF-terminated line off `rest`; nothing for a bare CR or LF.
std::optional<std::string_view> next_line(std::string_view& rest) {
    const size_t end = rest.find_first_of("\r\n");
    if (end == std::string_view::npos || rest.substr(end, 2) != "\r\n") {
        return std::nullopt;
    }
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 2);
    return line;
}

using Result = tl::expected<void, HeadError>;

Result parse_query(std::string_view text, RequestHead& head) {
    while (!text.empty()) {
        const std::string_view pair = text.substr(0, text.find('&'));
        text.remove_prefix(std::min(text.size(), pair.size() + 1));
        if (pair.empty()) {
            continue;
        }
        const size_t equals = std::min(pair.find('='), pair.size());
        auto name = percent_decode(pair.substr(0, equals), true);
        auto value = percent_decode(pair.substr(std::min(pair.size(), equals + 1)), true);
        if (!name || !value) {
            return malformed("the query has a broken percent escape");
        }
        head.query.emplace(std::move(*name), std::move(*value));
    }
    return {};
}

Result parse_target(std::string_view target, RequestHead& head) {
    if (target == "*" && head.method == "OPTIONS") {
        head.path = "*";
        return {};
    }
    const size_t scheme_end = target.find("://");
    if (!target.empty() && target.front() != '/' && scheme_end != std::string_view::npos) {
        const std::string scheme = lower_case(target.substr(0, scheme_end));
        if (scheme != "http" && scheme != "https") {
            return malformed("the request target has an unknown scheme");
        }
        target.remove_prefix(scheme_end + 3);
        const size_t authority_end = std::min(target.find_first_of("/?"), target.size());
        head.host = lower_case(target.substr(0, authority_end));
        target.remove_prefix(authority_end);
        if (target.empty() || target.front() == '?') {
            head.path = "/";
        }
    }
    const size_t question = std::min(target.find('?'), target.size());
    const std::string_view path = target.substr(0, question);
    if (!path.empty()) {
        auto decoded = percent_decode(path, false);
        if (!decoded || decoded->front() != '/' || decoded->find('\0') != std::string::npos) {
            return malformed("the request target is not a valid path");
        }
        head.path = std::move(*decoded);
    }
    if (head.path.empty()) {
        return malformed("the request target is empty");
    }
    return parse_query(target.substr(std::min(target.size(), question + 1)), head);
}

Result parse_request_line(std::string_view line, RequestHead& head) {
    if (line.size() > kMaxRequestLineBytes) {
        return too_large("the request line is longer than 8192 bytes");
    }
    const size_t first = line.find(' ');
    const size_t last = line.rfind(' ');
    if (first == std::string_view::npos || first == 0 || first == last) {
        return malformed("the request line is malformed");
    }
    head.method = std::string(line.substr(0, first));
    const std::string_view target = line.substr(first + 1, last - first - 1);
    const std::string_view version = line.substr(last + 1);
    if (!std::all_of(head.method.begin(), head.method.end(), is_token_char)) {
        return malformed("the method is malformed");
    }
    if (!std::all_of(target.begin(), target.end(), [](char c) {
            return static_cast<unsigned char>(c) > 0x20 && static_cast<unsigned char>(c) != 0x7f;
        })) {
        return malformed("the request target has a blank or control character");
    }
    if (version != "HTTP/1.1" && version != "HTTP/1.0") {
        return tl::unexpected(
            HeadError{505, "bad_request", "only HTTP/1.1 and HTTP/1.0 are spoken"});
    }
    head.minor_version = version.back() - '0';
    return parse_target(target, head);
}

Result parse_field(std::string_view line, RequestHead& head) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || colon == 0) {
        return malformed("a header line has no name");
    }
    const std::string_view name = line.substr(0, colon);
    // Also refuses continuation lines and blanks before the colon.
    if (!std::all_of(name.begin(), name.end(), is_token_char)) {
        return malformed("a header name has a forbidden character");
    }
    const std::string_view value = trim_blanks(line.substr(colon + 1));
    if (!is_field_value(value)) {
        return malformed("a header value has a control character");
    }
    head.headers.emplace(lower_case(name), std::string(value));
    return {};
}

Result apply_length(RequestHead& head) {
    const auto [begin, end] = head.headers.equal_range("content-length");
    std::optional<uint64_t> length;
    for (auto it = begin; it != end; ++it) {
        const std::string& text = it->second;
        uint64_t value = 0;
        const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        // 2^62: leaves room for sums.
        if (text.empty() || error != std::errc() || stop != text.data() + text.size() ||
            value > (uint64_t{1} << 62)) {
            return malformed("Content-Length is not a number of bytes");
        }
        if (length && *length != value) {
            return malformed("two different Content-Length values");
        }
        length = value;
    }
    head.content_length = length.value_or(0);
    const size_t n_encodings = head.headers.count("transfer-encoding");
    if (n_encodings == 0) {
        return {};
    }
    if (length) {
        return malformed("both Content-Length and Transfer-Encoding");
    }
    if (n_encodings > 1 || lower_case(head.header("transfer-encoding")) != "chunked" ||
        head.minor_version == 0) {
        return malformed("Transfer-Encoding other than a single chunked");
    }
    head.chunked = true;
    return {};
}

// True if the comma list of a field holds `token`.
bool list_has(const RequestHead& head, const std::string& name, std::string_view token) {
    const auto [begin, end] = head.headers.equal_range(name);
    for (auto it = begin; it != end; ++it) {
        std::string_view rest = it->second;
        while (!rest.empty()) {
            const std::string_view item = rest.substr(0, rest.find(','));
            rest.remove_prefix(std::min(rest.size(), item.size() + 1));
            if (lower_case(trim_blanks(item)) == token) {
                return true;
            }
        }
    }
    return false;
}

Result apply_connection(RequestHead& head) {
    if (head.headers.count("host") > 1) {
        return malformed("more than one Host");
    }
    if (head.minor_version == 1 && head.headers.count("host") == 0) {
        return malformed("no Host");
    }
    if (head.host.empty()) {
        head.host = lower_case(head.header("host"));
    }
    head.keep_alive = head.minor_version == 1 && !list_has(head, "connection", "close");
    if (const std::string& expect = head.header("expect"); !expect.empty()) {
        if (lower_case(expect) != "100-continue") {
            return tl::unexpected(HeadError{417, "bad_request", "Expect other than 100-continue"});
        }
        head.expect_continue = head.minor_version == 1;
    }
    return {};
}

} // namespace

bool is_token_char(char c) {
    constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
    const char l = lower(c);
    return (l >= 'a' && l <= 'z') || (c >= '0' && c <= '9') ||
           kMarks.find(c) != std::string_view::npos;
}

const std::string& RequestHead::header(const std::string& name) const {
    static const std::string kNone;
    const auto found = headers.find(name);
    return found == headers.end() ? kNone : found->second;
}

tl::expected<RequestHead, HeadError> parse_request_head(std::string_view text) {
    if (text.size() > kMaxHeadBytes) {
        return too_large("the request head is longer than 32768 bytes");
    }
    RequestHead head;
    const auto request_line = next_line(text);
    if (!request_line) {
        return malformed("the request line does not end in CR LF");
    }
    if (auto parsed = parse_request_line(*request_line, head); !parsed) {
        return tl::unexpected(parsed.error());
    }
    for (;;) {
        const auto line = next_line(text);
        if (!line) {
            return malformed("a header line does not end in CR LF");
        }
        if (line->empty()) {
            break;
        }
        if (head.headers.size() == kMaxHeaderFields) {
            return too_large("more than 100 header fields");
        }
        if (auto parsed = parse_field(*line, head); !parsed) {
            return tl::unexpected(parsed.error());
        }
    }
    if (!text.empty()) {
        return malformed("bytes after the request head");
    }
    if (auto applied = apply_length(head).and_then([&] { return apply_connection(head); });
        !applied) {
        return tl::unexpected(applied.error());
    }
    return head;
}

} // namespace dsv4v
