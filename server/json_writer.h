// JSON text for replies. Whatever the content, the result is valid JSON and valid UTF-8: ill-formed
// bytes become U+FFFD and numbers that are not finite become 0. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

namespace dsv4v {

class JsonWriter {
  public:
    JsonWriter& begin_object();
    JsonWriter& end_object();
    JsonWriter& begin_array();
    JsonWriter& end_array();
    JsonWriter& key(std::string_view name);

    JsonWriter& null();
    JsonWriter& value(bool v);
    JsonWriter& value(int32_t v);
    JsonWriter& value(int64_t v);
    JsonWriter& value(uint64_t v);
    JsonWriter& value(double v);
    JsonWriter& value(std::string_view v);
    JsonWriter& value(const char* v) { return value(std::string_view(v)); }
    // Milliseconds and rates, rounded to 3 decimals.
    JsonWriter& rounded(double v);

    template <class T>
    JsonWriter& field(std::string_view name, const T& v) {
        return key(name).value(v);
    }

    [[nodiscard]] std::string take();

  private:
    rapidjson::StringBuffer buffer_;
    rapidjson::Writer<rapidjson::StringBuffer> writer_{buffer_};
};

} // namespace dsv4v
