// Typed reading of one JSON object of a request: every wrong type or value becomes one precise
// error (JSON path, what was given, what is allowed). `null` means "not given". The first error
// sticks and later reads do nothing, so a caller reads all its fields and checks once.
// Not thread-safe; the object must outlive the reader.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/json_fields.h" // index_path
#include "engine/json_value.h"
#include "loaders/base/error.h"

namespace dsv4v {

struct NumberRange {
    double low = 0;
    double high = 0;
    bool open_low = false; // low itself is not allowed
};

// Short description of a value for messages: `"text"` (at most 64 characters), `[...]`, `3.5`.
[[nodiscard]] std::string describe(const JsonValue& value);

// "path.name", or "name" at the top.
[[nodiscard]] std::string join_path(std::string_view path, std::string_view name);
// kInvalidArgument with the message "'path' must be <wanted>, got <value>".
[[nodiscard]] Error wrong_value(std::string_view path, const JsonValue& value,
                                std::string_view wanted);

class RequestFields {
  public:
    // `object` must be an object; `path` is its JSON path, "" for the body.
    RequestFields(const JsonValue& object, std::string path);

    // The member, or nullptr when absent or null. Marks the name as known.
    const JsonValue* get(std::string_view name);
    // Marks names as known and otherwise ignores them.
    void ignore(std::initializer_list<std::string_view> names);

    // Each sets `out` only when the field is given and valid, and then returns true.
    bool read(std::string_view name, bool& out);
    bool read(std::string_view name, int32_t& out, int32_t low, int32_t high);
    bool read(std::string_view name, float& out, const NumberRange& range);
    bool read(std::string_view name, double& out, const NumberRange& range);
    bool read(std::string_view name, std::string& out, size_t max_bytes);
    // A string out of `allowed`; `out` becomes its index.
    bool read_choice(std::string_view name, std::initializer_list<std::string_view> allowed,
                     size_t& out);
    // The member if it is an object or an array.
    const JsonValue* object(std::string_view name);
    const JsonValue* array(std::string_view name, size_t max_items);
    // An array of integers.
    bool read(std::string_view name, std::vector<int32_t>& out, int32_t low, int32_t high,
              size_t max_items);

    void fail(Error error);
    void fail_value(std::string_view name, const JsonValue& value, std::string_view wanted);
    [[nodiscard]] std::string path_of(std::string_view name) const;
    [[nodiscard]] bool ok() const { return !error_.has_value(); }

    // The first error; with `strict` also an unknown member.
    [[nodiscard]] Expected<void> finish(bool strict);

  private:
    const JsonValue& object_;
    std::string path_;
    std::optional<Error> error_;
    std::set<std::string, std::less<>> known_;
};

} // namespace dsv4v
