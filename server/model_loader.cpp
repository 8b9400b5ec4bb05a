#include "server/model_loader.h"

#include <chrono>
#include <fstream>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <openssl/sha.h>

#include "engine/reference/reference_backend.h"
#include "loaders/architecture.h"
#include "loaders/vocab.h"

namespace dsv4v {

namespace {

constexpr size_t kDigestBytes = 1 << 20;
constexpr auto kWarmUpTime = std::chrono::minutes(10);

// SHA-256 over the head of the file, which holds all keys and the tensor directory: tells models
// apart without reading hundreds of gigabytes.
std::string head_digest(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::string head(kDigestBytes, '\0');
    in.read(head.data(), static_cast<std::streamsize>(head.size()));
    head.resize(static_cast<size_t>(in.gcount()));
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256(reinterpret_cast<const unsigned char*>(head.data()), head.size(), digest);
    std::string hex;
    for (const unsigned char byte : digest) {
        hex += fmt::format("{:02x}", byte);
    }
    return hex;
}

// Name of the format that holds most bytes.
std::string main_format(const GgufFile& file) {
    std::map<QuantFormat, int64_t> bytes;
    for (const TensorView& tensor : file.tensors()) {
        bytes[tensor.format] += tensor.n_bytes();
    }
    auto best = bytes.begin();
    for (auto it = bytes.begin(); it != bytes.end(); ++it) {
        best = it->second > best->second ? it : best;
    }
    return best == bytes.end() ? "" : std::string(quant_format_info(best->first).name);
}

uint64_t tensor_bytes(const GgufFile& file) {
    int64_t sum = 0;
    for (const TensorView& tensor : file.tensors()) {
        sum += tensor.n_bytes();
    }
    return static_cast<uint64_t>(sum);
}

uint64_t parameter_count(const GgufFile& file) {
    int64_t sum = 0;
    for (const TensorView& tensor : file.tensors()) {
        sum += tensor.n_elements();
    }
    return static_cast<uint64_t>(sum);
}

Expected<std::unique_ptr<Backend>> make_backend(const ModelFiles& files, const MemoryPlan& plan,
                                                const Options& options) {
    const ReferenceOptions reference{.numerics = options.numerics == NumericsChoice::kPlain
                                                     ? Numerics::kPlain
                                                     : Numerics::kAuthor,
                                     .max_sequences = plan.max_sequences,
                                     .n_pages = plan.n_pages,
                                     .max_batch_tokens = plan.max_batch_tokens,
                                     .context_length = plan.context_length,
                                     .n_threads = options.threads};
    DSV4V_ASSIGN_OR_RETURN(std::unique_ptr<ReferenceBackend> backend,
                           ReferenceBackend::create(files.config, files.weights, reference));
    return backend;
}

// The first token is slow (pages of the file come in) and proves that the model runs at all.
Expected<void> warm_up(Engine& engine, int32_t token_id) {
    GenerationRequest request;
    request.request_id = "warm-up";
    request.prompt = {token_id};
    request.max_tokens = 1;
    request.sampling.temperature = 0;
    DSV4V_ASSIGN_OR_RETURN(const std::shared_ptr<TokenStream> stream,
                           engine.submit(std::move(request)));
    std::vector<TokenEvent> events;
    if (!stream->wait(events, std::chrono::milliseconds(kWarmUpTime))) {
        // The last event and the end may come in two steps.
        if (events.empty() || !stream->wait(events, std::chrono::milliseconds(kWarmUpTime))) {
            return make_error(ErrorCode::kInternal, "warm-up: no token in time");
        }
    }
    if (stream->finish_reason() == FinishReason::kError) {
        return make_error(ErrorCode::kInternal, "warm-up: " + stream->error_message());
    }
    return {};
}

} // namespace

Expected<ModelFiles> open_model_files(const Options& options) {
    DSV4V_ASSIGN_OR_RETURN(GgufFile file, GgufFile::open(options.model));
    DSV4V_RETURN_IF_ERROR(require_language_model(file));
    DSV4V_ASSIGN_OR_RETURN(ModelConfig config, ModelConfig::from_gguf(file));
    DSV4V_ASSIGN_OR_RETURN(Weights weights, Weights::bind(file, config));
    bool has_projector = false;
    if (!options.mmproj.empty()) {
        DSV4V_ASSIGN_OR_RETURN(const GgufFile projector, GgufFile::open(options.mmproj));
        DSV4V_RETURN_IF_ERROR(require_image_projector(projector));
        has_projector = true;
    }
    return ModelFiles{std::move(file), std::move(config), std::move(weights), has_projector};
}

Expected<MemoryPlan> plan_memory(const ModelFiles& files, const Options& options) {
    return MemoryPlan::make(files.config, {.ctx_size = options.ctx_size,
                                           .max_sequences = options.parallel,
                                           .max_batch_tokens = options.max_batch_tokens,
                                           .kv_budget_bytes = options.kv_memory,
                                           .kv_element_bytes = sizeof(float),
                                           .weights_bytes = tensor_bytes(files.file)});
}

Expected<std::unique_ptr<LoadedModel>> load_model(const Options& options,
                                                  const std::function<void(double)>& progress) {
    DSV4V_ASSIGN_OR_RETURN(ModelFiles opened, open_model_files(options));
    const auto files = std::make_shared<const ModelFiles>(std::move(opened));
    progress(0.2);
    DSV4V_ASSIGN_OR_RETURN(Vocab vocab, Vocab::from_gguf(files->file));
    DSV4V_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::create(std::move(vocab)));
    progress(0.4);
    DSV4V_ASSIGN_OR_RETURN(const MemoryPlan plan, plan_memory(*files, options));
    DSV4V_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, make_backend(*files, plan, options));
    progress(0.8);
    std::string description = backend->description();
    const int32_t warm_up_token = tokenizer.bos_id();
    auto engine = std::make_unique<Engine>(
        std::move(backend),
        EngineOptions{.max_queue = options.max_queue, .prefill_chunk = options.prefill_chunk});
    DSV4V_RETURN_IF_ERROR(warm_up(*engine, warm_up_token));
    return std::make_unique<LoadedModel>(LoadedModel{
        .storage = files,
        .config = files->config,
        .tokenizer = std::move(tokenizer),
        .engine = std::move(engine),
        .digest = head_digest(files->file.path()),
        .quant = main_format(files->file),
        .n_params = parameter_count(files->file),
        .size_bytes = files->file.n_bytes(),
        .kv_bytes = plan.pages_bytes() + plan.slots_bytes(),
        .backend = std::move(description),
        .has_projector = files->has_projector,
    });
}

} // namespace dsv4v
