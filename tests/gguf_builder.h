// Writes GGUF files for tests: well-formed ones, copies of existing ones with a change, and broken
// ones (every field can be overridden).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "loaders/gguf_file.h"

namespace dsv4v::testing {

template <class T>
std::string encode(T value) {
    std::string bytes(sizeof(T), '\0');
    std::memcpy(bytes.data(), &value, sizeof(T));
    return bytes;
}
inline std::string encode_string(const std::string& text) {
    return encode<uint64_t>(text.size()) + text;
}

struct GgufBuilder {
    struct Key {
        std::string name;
        uint32_t type = 0;
        std::string value; // as in the file, arrays with element type and count in front
    };
    struct Tensor {
        std::string name;
        std::vector<uint64_t> ne;
        uint32_t type = 0;
        std::string data;               // may stay empty: then zeros, or a hole in a sparse file
        uint64_t n_bytes = 0;           // size in the file
        std::optional<uint32_t> n_dims; // instead of ne.size()
        std::optional<uint64_t> offset; // instead of the next free one
    };

    std::string magic = "GGUF";
    uint32_t version = 3;
    std::optional<uint64_t> n_keys;    // instead of keys.size()
    std::optional<uint64_t> n_tensors; // instead of tensors.size()
    uint64_t alignment = 32;           // of the writer; also set the key to change the file's
    std::vector<Key> keys;
    std::vector<Tensor> tensors;

    // A copy of everything that `file` holds, without its split.* keys.
    static GgufBuilder copy_of(const GgufFile& file) {
        GgufBuilder builder;
        for (const std::string_view name : file.keys()) {
            const GgufValue& value = *file.shard(0).metadata.find(name);
            std::string bytes;
            if (value.type == GgufType::kString) {
                bytes = encode<uint64_t>(value.bytes.size());
            } else if (value.type == GgufType::kArray) {
                bytes = encode(static_cast<uint32_t>(value.element_type)) +
                        encode<uint64_t>(value.n_elements);
            }
            bytes.append(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
            if (!name.starts_with("split.")) {
                builder.set(std::string(name), static_cast<uint32_t>(value.type), bytes);
            }
        }
        for (const TensorView& view : file.tensors()) {
            Tensor& tensor = builder.tensors.emplace_back();
            tensor.name = view.name;
            tensor.ne.assign(view.ne.begin(), view.ne.end());
            while (tensor.ne.size() > 1 && tensor.ne.back() == 1) {
                tensor.ne.pop_back();
            }
            tensor.type = static_cast<uint32_t>(view.format);
            tensor.n_bytes = static_cast<uint64_t>(view.n_bytes());
            tensor.data.assign(reinterpret_cast<const char*>(view.data), tensor.n_bytes);
        }
        return builder;
    }

    // Keys. An existing one keeps its place.
    void set(const std::string& name, uint32_t type, const std::string& value) {
        for (Key& key : keys) {
            if (key.name == name) {
                key = {name, type, value};
                return;
            }
        }
        keys.push_back({name, type, value});
    }
    void set_u32(const std::string& name, uint32_t value) { set(name, 4, encode(value)); }
    void set_i32(const std::string& name, int32_t value) { set(name, 5, encode(value)); }
    void set_u16(const std::string& name, uint16_t value) { set(name, 2, encode(value)); }
    void set_u64(const std::string& name, uint64_t value) { set(name, 10, encode(value)); }
    void set_f32(const std::string& name, float value) { set(name, 6, encode(value)); }
    void set_bool(const std::string& name, bool value) {
        set(name, 7, encode<uint8_t>(value ? 1 : 0));
    }
    void set_string(const std::string& name, const std::string& text) {
        set(name, 8, encode_string(text));
    }
    template <class T>
    void set_array(const std::string& name, uint32_t element_type, const std::vector<T>& values) {
        std::string bytes = encode(element_type) + encode<uint64_t>(values.size());
        for (const T& value : values) {
            bytes += encode(value);
        }
        set(name, 9, bytes);
    }
    void set_i32_array(const std::string& name, const std::vector<int32_t>& values) {
        set_array(name, 5, values);
    }
    void set_f32_array(const std::string& name, const std::vector<float>& values) {
        set_array(name, 6, values);
    }
    void set_string_array(const std::string& name, const std::vector<std::string>& texts) {
        std::string bytes = encode<uint32_t>(8) + encode<uint64_t>(texts.size());
        for (const std::string& text : texts) {
            bytes += encode_string(text);
        }
        set(name, 9, bytes);
    }
    void erase_key(const std::string& name) {
        const size_t n_erased =
            std::erase_if(keys, [&](const Key& key) { return key.name == name; });
        EXPECT_EQ(n_erased, 1U) << name;
    }

    // Tensors. `ne` in GGUF order; the size follows from the format.
    Tensor& add(const std::string& name, const std::vector<uint64_t>& ne, QuantFormat format) {
        const QuantFormatInfo& info = quant_format_info(format);
        uint64_t n_bytes = ne[0] / info.block_elements * info.block_bytes;
        for (size_t i = 1; i < ne.size(); ++i) {
            n_bytes *= ne[i];
        }
        Tensor tensor;
        tensor.name = name;
        tensor.ne = ne;
        tensor.type = static_cast<uint32_t>(format);
        tensor.n_bytes = n_bytes;
        tensors.push_back(tensor);
        return tensors.back();
    }
    Tensor& tensor(const std::string& name) {
        const auto found = std::find_if(tensors.begin(), tensors.end(),
                                        [&](const Tensor& t) { return t.name == name; });
        EXPECT_NE(found, tensors.end()) << name;
        return *found;
    }
    void erase_tensor(const std::string& name) {
        const size_t n_erased =
            std::erase_if(tensors, [&](const Tensor& t) { return t.name == name; });
        EXPECT_EQ(n_erased, 1U) << name;
    }

    // Everything before the data section, with its padding.
    [[nodiscard]] std::string header() const {
        std::string bytes = magic + encode(version) +
                            encode<uint64_t>(n_tensors.value_or(tensors.size())) +
                            encode<uint64_t>(n_keys.value_or(keys.size()));
        for (const Key& key : keys) {
            bytes += encode_string(key.name) + encode(key.type) + key.value;
        }
        const std::vector<uint64_t> offsets = tensor_offsets();
        for (size_t i = 0; i < tensors.size(); ++i) {
            const Tensor& t = tensors[i];
            bytes += encode_string(t.name);
            bytes += encode(t.n_dims.value_or(static_cast<uint32_t>(t.ne.size())));
            for (const uint64_t dim : t.ne) {
                bytes += encode(dim);
            }
            bytes += encode(t.type) + encode(offsets[i]);
        }
        if (!tensors.empty()) {
            bytes.resize(align_up(bytes.size()));
        }
        return bytes;
    }

    // The whole file.
    [[nodiscard]] std::string build() const {
        std::string bytes = header();
        const size_t data_begin = bytes.size();
        uint64_t offset = 0;
        for (const Tensor& t : tensors) {
            bytes.resize(data_begin + offset);
            bytes += t.data;
            offset = align_up(offset + t.n_bytes);
            bytes.resize(data_begin + offset);
        }
        return bytes;
    }

    void write(const std::string& path) const {
        std::ofstream out(path, std::ios::binary);
        const std::string bytes = build();
        out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        EXPECT_TRUE(out.good()) << path;
    }

    // As write, but tensors without data stay holes: a full-size model takes a few megabytes.
    void write_sparse(const std::string& path) const {
        const std::string head = header();
        const int fd = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
        ASSERT_GE(fd, 0) << path;
        const auto put = [&](const std::string& bytes, uint64_t at) {
            const ssize_t n_written =
                ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
            EXPECT_EQ(n_written, static_cast<ssize_t>(bytes.size()));
        };
        put(head, 0);
        uint64_t offset = 0;
        for (const Tensor& t : tensors) {
            put(t.data, head.size() + offset);
            offset = align_up(offset + t.n_bytes);
        }
        EXPECT_EQ(::ftruncate(fd, static_cast<off_t>(head.size() + offset)), 0);
        ::close(fd);
    }

  private:
    [[nodiscard]] uint64_t align_up(uint64_t value) const {
        return (value + alignment - 1) / alignment * alignment;
    }
    [[nodiscard]] std::vector<uint64_t> tensor_offsets() const {
        std::vector<uint64_t> offsets;
        uint64_t next = 0;
        for (const Tensor& t : tensors) {
            offsets.push_back(t.offset.value_or(next));
            next = align_up(next + t.n_bytes);
        }
        return offsets;
    }
};

// Bytes in a heap block of exactly their size, so that a sanitizer sees the first byte read past
// it.
class ExactBytes {
  public:
    explicit ExactBytes(std::string_view bytes)
        : size_(bytes.size()), data_(new std::byte[bytes.size()]) {
        std::memcpy(data_.get(), bytes.data(), bytes.size());
    }
    [[nodiscard]] std::span<const std::byte> span() const { return {data_.get(), size_}; }

  private:
    size_t size_;
    std::unique_ptr<std::byte[]> data_;
};

// A file of that content that disappears with the object.
class TemporaryFile {
  public:
    explicit TemporaryFile(const std::string& name)
        : path_(::testing::TempDir() + "dsv4v-" + std::to_string(::getpid()) + "-" + name) {}
    ~TemporaryFile() { ::unlink(path_.c_str()); }
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;
    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    std::string path_;
};

} // namespace dsv4v::testing
