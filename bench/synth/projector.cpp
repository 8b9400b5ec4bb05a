#include "bench/synth/projector.h"

#include <array>
#include <cmath>

#include <fmt/format.h>

namespace dsv4v {
namespace {

constexpr int32_t kFullHidden = 4096;
constexpr int32_t kPatch = 14;
constexpr int32_t kMerge = 3;

struct TowerGeometry {
    int32_t n_blocks;
    int32_t width;
    int32_t n_heads;
    int32_t ffn;
};

constexpr TowerGeometry kFullTower = {32, 1024, 16, 2816};
constexpr TowerGeometry kSmallTower = {2, 128, 2, 192};

const TowerGeometry& tower_for(int32_t hidden) {
    return hidden == kFullHidden ? kFullTower : kSmallTower;
}

class ProjectorLister {
  public:
    std::vector<SynthTensor> list(const TowerGeometry& tower, int32_t hidden, ProjectorForm form) {
        const int64_t width = tower.width;
        const int64_t merged = int64_t{kMerge} * kMerge * width;
        add("v.patch_embd.weight", QuantFormat::kF32, {kPatch, kPatch, 3, width}, Fill::kMatrix,
            1.0f / std::sqrt(3.0f * kPatch * kPatch));
        vector("v.patch_embd.bias", width, Fill::kSmall);
        for (int32_t i = 0; i < tower.n_blocks; ++i) {
            list_block(fmt::format("v.blk.{}.", i), tower, form);
        }
        vector("v.post_ln.weight", width, Fill::kNorm);
        linear("mm.1", merged, hidden);
        linear("mm.2", hidden, hidden);
        for (const char* name : {"v.token_embd.img_start", "v.token_embd.img_end",
                                 "v.token_embd.img_pad", "v.image_newline"}) {
            add(name, QuantFormat::kF32, {hidden}, Fill::kMatrix, 1.0f);
        }
        return std::move(tensors_);
    }

  private:
    void add(std::string name, QuantFormat format, std::vector<int64_t> ne, Fill fill,
             float value) {
        tensors_.push_back({{std::move(name), format, std::move(ne)}, fill, value, false});
    }
    void vector(std::string name, int64_t width, Fill fill) {
        add(std::move(name), QuantFormat::kF32, {width}, fill, 0);
    }
    void matrix(std::string name, int64_t width, int64_t n_rows) {
        add(std::move(name), QuantFormat::kBF16, {width, n_rows}, Fill::kMatrix,
            1.0f / std::sqrt(static_cast<float>(width)));
    }
    void linear(const std::string& name, int64_t width, int64_t n_rows) {
        matrix(name + ".weight", width, n_rows);
        vector(name + ".bias", n_rows, Fill::kSmall);
    }
    void list_block(const std::string& prefix, const TowerGeometry& tower, ProjectorForm form) {
        const int64_t width = tower.width;
        vector(prefix + "ln1.weight", width, Fill::kNorm);
        if (form == ProjectorForm::kFused) {
            linear(prefix + "attn_qkv", width, 3 * width);
        } else {
            for (const char* part : {"attn_q", "attn_k", "attn_v"}) {
                linear(prefix + part, width, width);
            }
        }
        linear(prefix + "attn_out", width, width);
        vector(prefix + "ln2.weight", width, Fill::kNorm);
        matrix(prefix + "ffn_gate.weight", width, tower.ffn);
        matrix(prefix + "ffn_up.weight", width, tower.ffn);
        matrix(prefix + "ffn_down.weight", tower.ffn, width);
    }

    std::vector<SynthTensor> tensors_;
};

} // namespace

std::vector<SynthTensor> projector_tensors(int32_t hidden, ProjectorForm form) {
    return ProjectorLister().list(tower_for(hidden), hidden, form);
}

void add_projector_keys(GgufKeys& keys, int32_t hidden) {
    const TowerGeometry& tower = tower_for(hidden);
    constexpr std::array<float, 3> kHalf = {0.5f, 0.5f, 0.5f};
    keys.add_string("general.architecture", "clip");
    keys.add_string("general.type", "mmproj");
    keys.add_string("general.name", "synthetic projector");
    keys.add_u32("general.file_type", 32);
    keys.add_u32("general.quantization_version", 2);
    keys.add_bool("clip.has_vision_encoder", true);
    keys.add_string("clip.projector_type", "deepseek4v");
    keys.add_bool("clip.use_silu", true);
    keys.add_u32("clip.vision.projection_dim", static_cast<uint32_t>(hidden));
    keys.add_u32("clip.vision.image_size", 672);
    keys.add_u32("clip.vision.patch_size", kPatch);
    keys.add_u32("clip.vision.embedding_length", static_cast<uint32_t>(tower.width));
    keys.add_u32("clip.vision.feed_forward_length", static_cast<uint32_t>(tower.ffn));
    keys.add_u32("clip.vision.block_count", static_cast<uint32_t>(tower.n_blocks));
    keys.add_u32("clip.vision.attention.head_count", static_cast<uint32_t>(tower.n_heads));
    keys.add_f32("clip.vision.attention.layer_norm_epsilon", 1e-6f);
    keys.add_f32_array("clip.vision.image_mean", kHalf);
    keys.add_f32_array("clip.vision.image_std", kHalf);
    keys.add_u32("clip.vision.projector.scale_factor", kMerge);
    keys.add_u32("clip.vision.image_min_pixels", 147456);
}

} // namespace dsv4v
