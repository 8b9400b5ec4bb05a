#include "loaders/architecture.h"

#include <string_view>

#include <fmt/format.h>

#include "loaders/base/printable.h"
#include "loaders/gguf_file.h"

namespace dsv4v {
namespace {

constexpr const char* kArchitectureKey = "general.architecture";
constexpr std::string_view kLanguageModel = "deepseek4";
constexpr std::string_view kImageProjector = "clip";

Expected<void> require(const GgufFile& file, std::string_view wanted, std::string_view swapped,
                       const char* hint) {
    DSV4V_ASSIGN_OR_RETURN(const std::string got, file.get_string(kArchitectureKey));
    if (got != wanted) {
        return make_error(ErrorCode::kUnsupported,
                          fmt::format("{}: key {} is \"{}\", wanted \"{}\"{}", file.path(),
                                      kArchitectureKey, printable(got), wanted,
                                      got == swapped ? hint : ""));
    }
    return {};
}

} // namespace

Expected<void> require_language_model(const GgufFile& file) {
    return require(file, kLanguageModel, kImageProjector,
                   "; this is an image projector, pass it as --mmproj");
}

Expected<void> require_image_projector(const GgufFile& file) {
    return require(file, kImageProjector, kLanguageModel,
                   "; this is a language model, pass it as --model");
}

} // namespace dsv4v
