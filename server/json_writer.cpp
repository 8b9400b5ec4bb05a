#include "server/json_writer.h"

#include <cmath>

#include "engine/utf8.h"

namespace dsv4v {

JsonWriter& JsonWriter::begin_object() {
    writer_.StartObject();
    return *this;
}

JsonWriter& JsonWriter::end_object() {
    writer_.EndObject();
    return *this;
}

JsonWriter& JsonWriter::begin_array() {
    writer_.StartArray();
    return *this;
}

JsonWriter& JsonWriter::end_array() {
    writer_.EndArray();
    return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
    return value(name); // a key is written like a string
}

JsonWriter& JsonWriter::null() {
    writer_.Null();
    return *this;
}

JsonWriter& JsonWriter::value(bool v) {
    writer_.Bool(v);
    return *this;
}

JsonWriter& JsonWriter::value(int32_t v) {
    writer_.Int(v);
    return *this;
}

JsonWriter& JsonWriter::value(int64_t v) {
    writer_.Int64(v);
    return *this;
}

JsonWriter& JsonWriter::value(uint64_t v) {
    writer_.Uint64(v);
    return *this;
}

JsonWriter& JsonWriter::value(double v) {
    writer_.Double(std::isfinite(v) ? v : 0.0);
    return *this;
}

JsonWriter& JsonWriter::value(std::string_view v) {
    if (is_valid_utf8(v)) {
        writer_.String(v.data(), static_cast<rapidjson::SizeType>(v.size()));
        return *this;
    }
    const std::string repaired = replace_invalid_utf8(v);
    writer_.String(repaired.data(), static_cast<rapidjson::SizeType>(repaired.size()));
    return *this;
}

JsonWriter& JsonWriter::rounded(double v) {
    return value(std::isfinite(v) ? std::round(v * 1000) / 1000 : 0.0);
}

std::string JsonWriter::take() {
    std::string text(buffer_.GetString(), buffer_.GetSize());
    buffer_.Clear();
    writer_.Reset(buffer_);
    return text;
}

} // namespace dsv4v
