// libFuzzer target: arbitrary bytes as a GGUF file, through the parser and everything that reads
// model facts from it. Seeds: tests/data/gguf.
#include <cstddef>
#include <cstdint>
#include <span>

#include "loaders/gguf_file.h"
#include "loaders/model_report.h"
#include "loaders/vocab.h"

namespace {

// Reads every key by every getter, and the first and last byte of every tensor.
void read_everything(const dsv4v::GgufFile& file) {
    for (const std::string_view key : file.keys()) {
        (void)file.get_int(key);
        (void)file.get_float(key);
        (void)file.get_bool(key);
        (void)file.get_string(key);
        (void)file.get_int_array(key);
        (void)file.get_float_array(key);
        (void)file.get_string_array(key);
    }
    for (const dsv4v::TensorView& tensor : file.tensors()) {
        volatile std::byte touched = tensor.data[0];
        touched = tensor.data[tensor.n_bytes() - 1];
        (void)touched;
    }
}

void read_model(const dsv4v::GgufFile& file) {
    const auto config = dsv4v::ModelConfig::from_gguf(file);
    if (!config) {
        return;
    }
    const auto weights = dsv4v::Weights::bind(file, *config);
    if (weights) {
        (void)dsv4v::model_report(file, *config, *weights);
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto bytes = std::as_bytes(std::span(data, size));
    const auto file = dsv4v::GgufFile::parse(bytes, "fuzz");
    if (file) {
        read_everything(*file);
        read_model(*file);
        (void)dsv4v::Vocab::from_gguf(*file);
    }
    return 0;
}
