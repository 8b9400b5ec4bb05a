#include "engine/utf8.h"

#include <cstring>

namespace dsv4v {
namespace {

// What a lead byte promises: total length and the range of the second byte, which is where
// overlong forms, surrogates and values above U+10FFFF are refused. n_bytes 0: never a lead.
struct LeadRule {
    uint32_t n_bytes;
    uint8_t second_first;
    uint8_t second_last;
};

LeadRule rule_of_lead(uint8_t lead) {
    if (lead >= 0xC2 && lead <= 0xDF) {
        return {2, 0x80, 0xBF};
    }
    if (lead >= 0xE0 && lead <= 0xEF) {
        return {3, static_cast<uint8_t>(lead == 0xE0 ? 0xA0 : 0x80),
                static_cast<uint8_t>(lead == 0xED ? 0x9F : 0xBF)};
    }
    if (lead >= 0xF0 && lead <= 0xF4) {
        return {4, static_cast<uint8_t>(lead == 0xF0 ? 0x90 : 0x80),
                static_cast<uint8_t>(lead == 0xF4 ? 0x8F : 0xBF)};
    }
    return {0, 0, 0};
}

size_t ascii_prefix(std::string_view bytes) {
    size_t n = 0;
    while (n + 8 <= bytes.size()) {
        uint64_t word = 0;
        std::memcpy(&word, bytes.data() + n, 8);
        if ((word & 0x8080808080808080ULL) != 0) {
            break;
        }
        n += 8;
    }
    while (n < bytes.size() && static_cast<uint8_t>(bytes[n]) < 0x80) {
        ++n;
    }
    return n;
}

// Appends the decided part of `bytes` to `out`; returns how many bytes it covers. What is left is
// an unfinished character of at most 3 bytes.
size_t append_decided(std::string_view bytes, std::string& out) {
    size_t at = 0;
    while (at < bytes.size()) {
        const size_t n_valid = valid_utf8_prefix(bytes.substr(at));
        out.append(bytes, at, n_valid);
        at += n_valid;
        if (at == bytes.size()) {
            break;
        }
        const Utf8Char bad = first_utf8_char(bytes.substr(at));
        if (bad.state == Utf8Char::State::kUnfinished) {
            break;
        }
        out.append(kReplacementCharacter);
        at += bad.n_bytes;
    }
    return at;
}

} // namespace

Utf8Char first_utf8_char(std::string_view bytes) {
    using State = Utf8Char::State;
    const auto lead = static_cast<uint8_t>(bytes[0]);
    if (lead < 0x80) {
        return {lead, 1, State::kValid};
    }
    const LeadRule rule = rule_of_lead(lead);
    if (rule.n_bytes == 0) {
        return {0, 1, State::kInvalid};
    }
    char32_t code_point = lead & (0x7Fu >> rule.n_bytes);
    for (uint32_t i = 1; i < rule.n_bytes; ++i) {
        if (i == bytes.size()) {
            return {0, i, State::kUnfinished};
        }
        const auto byte = static_cast<uint8_t>(bytes[i]);
        const uint8_t first = i == 1 ? rule.second_first : 0x80;
        const uint8_t last = i == 1 ? rule.second_last : 0xBF;
        if (byte < first || byte > last) {
            return {0, i, State::kInvalid};
        }
        code_point = (code_point << 6) | (byte & 0x3Fu);
    }
    return {code_point, rule.n_bytes, State::kValid};
}

size_t valid_utf8_prefix(std::string_view bytes) {
    size_t at = 0;
    while (true) {
        at += ascii_prefix(bytes.substr(at));
        if (at == bytes.size()) {
            return at;
        }
        const Utf8Char next = first_utf8_char(bytes.substr(at));
        if (next.state != Utf8Char::State::kValid) {
            return at;
        }
        at += next.n_bytes;
    }
}

bool is_valid_utf8(std::string_view bytes) {
    return valid_utf8_prefix(bytes) == bytes.size();
}

std::string replace_invalid_utf8(std::string_view bytes) {
    std::string out;
    out.reserve(bytes.size());
    if (append_decided(bytes, out) < bytes.size()) {
        out.append(kReplacementCharacter);
    }
    return out;
}

std::string Utf8Stream::feed(std::string_view bytes) {
    pending_.append(bytes);
    std::string out;
    pending_.erase(0, append_decided(pending_, out));
    return out;
}

std::string Utf8Stream::finish() {
    std::string out(pending_.empty() ? std::string_view() : kReplacementCharacter);
    pending_.clear();
    return out;
}

} // namespace dsv4v
