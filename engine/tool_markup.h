// Recognises the tags of tool markup at one place of a text that may still grow, tolerant of the
// spellings that the model is known to produce. docs/chat-format.md. Every tag has a bounded
// length, so that looking at it again after each new character stays cheap.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace dsv4v {

// kPartial: more text decides.
enum class TagMatch { kNo, kPartial, kYes };

inline constexpr size_t kMaxTagBlanks = 32;     // white space in a row inside a tag
inline constexpr size_t kMaxTagNameBytes = 512; // a quoted name

// Opening or closing wrapper ("tool_calls" and its variants) at `pos`; `end` is behind it.
[[nodiscard]] TagMatch match_wrapper(std::string_view text, size_t pos, bool is_closer,
                                     size_t& end);
// The beginning of an invoke opener, up to and including the character behind the word.
[[nodiscard]] TagMatch match_invoke_start(std::string_view text, size_t pos);
// A whole invoke opener; `name` is a view into `text`.
[[nodiscard]] TagMatch match_invoke_open(std::string_view text, size_t pos, std::string_view& name,
                                         size_t& end);
[[nodiscard]] TagMatch match_invoke_close(std::string_view text, size_t pos, size_t& end);

struct ParameterTag {
    std::string_view name;         // into the text
    std::optional<bool> is_string; // the `string` attribute, if it says true or false
};
[[nodiscard]] TagMatch match_parameter_open(std::string_view text, size_t pos, ParameterTag& tag,
                                            size_t& end);
[[nodiscard]] TagMatch match_parameter_close(std::string_view text, size_t pos, size_t& end);

// True if text from `pos` on begins a tag at least as far as the bar behind "DSML".
[[nodiscard]] bool has_tag_marker(std::string_view text, size_t pos);

[[nodiscard]] bool is_blank(char c);

} // namespace dsv4v
