#include "engine/json_value.h"

#include "engine/json_number.h"

namespace dsv4v {
namespace {

// Moves the children of `value` that have children of their own to `pending`.
void detach_containers(JsonValue& value, std::vector<JsonValue>& pending) {
    const auto detach = [&pending](JsonValue& child) {
        if (!child.items.empty() || !child.members.empty()) {
            pending.push_back(std::move(child));
        }
    };
    for (JsonValue& item : value.items) {
        detach(item);
    }
    for (auto& [name, member] : value.members) {
        detach(member);
    }
}

} // namespace

JsonValue::~JsonValue() {
    std::vector<JsonValue> pending;
    detach_containers(*this, pending);
    while (!pending.empty()) {
        JsonValue next = std::move(pending.back());
        pending.pop_back();
        detach_containers(next, pending);
    }
}

JsonValue JsonValue::string(std::string s) {
    JsonValue value;
    value.type = Type::kString;
    value.text = std::move(s);
    return value;
}

JsonValue JsonValue::object() {
    JsonValue value;
    value.type = Type::kObject;
    return value;
}

const JsonValue* JsonValue::find(std::string_view name) const {
    for (const auto& [member, value] : members) {
        if (member == name) {
            return &value;
        }
    }
    return nullptr;
}

std::optional<int64_t> JsonValue::as_int() const {
    return is_number() ? number_as_int(text) : std::nullopt;
}

std::optional<double> JsonValue::as_double() const {
    return is_number() ? number_as_finite_double(text) : std::nullopt;
}

} // namespace dsv4v
