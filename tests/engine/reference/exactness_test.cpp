// The bits of a row's logits depend on its own sequence only: not on how the prompt was cut, on
// the neighbours in the batch, the slot, the pages or the number of threads.
#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/engine/reference/model_runner.h"

namespace dsv4v::testing {
namespace {

struct ExactnessCase {
    const char* label;
    const char* model;
    Numerics numerics;
};

std::ostream& operator<<(std::ostream& out, const ExactnessCase& of) {
    return out << of.label;
}

class Exactness : public ::testing::TestWithParam<ExactnessCase> {
  protected:
    [[nodiscard]] std::unique_ptr<ReferenceBackend> alone() const {
        return make_backend(GetParam().model, one_sequence(GetParam().numerics));
    }
};

INSTANTIATE_TEST_SUITE_P(TinyModels, Exactness,
                         ::testing::Values(ExactnessCase{"a_plain", kTinyA, Numerics::kPlain},
                                           ExactnessCase{"a_author", kTinyA, Numerics::kAuthor},
                                           ExactnessCase{"b_plain", kTinyB, Numerics::kPlain},
                                           ExactnessCase{"b_author", kTinyB, Numerics::kAuthor}),
                         [](const auto& param) { return std::string(param.param.label); });

std::vector<int32_t> prompt(size_t n_tokens) {
    std::vector<int32_t> tokens =
        as_ids(GoldenFile(unpacked("models/tiny-a.logits700.safetensors")).at("tokens").values);
    tokens.resize(n_tokens);
    return tokens;
}

// -1 if all bits are equal, else the first row that differs. NaN would differ from itself.
int64_t first_difference(const std::vector<float>& actual, const std::vector<float>& expected) {
    constexpr int64_t kVocab = 512;
    EXPECT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
        if (!(actual[i] == expected[i])) {
            return static_cast<int64_t>(i) / kVocab;
        }
    }
    return -1;
}

TEST_P(Exactness, AnyChunking) {
    const std::vector<int32_t> tokens = prompt(700);
    const auto backend = alone();
    const std::vector<float> whole = run_alone(*backend, tokens, 700);
    for (const int32_t chunk_size : {1, 7, 64, 128, 300}) {
        // Single rows of the larger model take long; 300 cross every edge that 700 do.
        const size_t n_tokens = chunk_size == 1 && GetParam().model == kTinyB ? 300 : 700;
        const std::vector<float> expected(whole.begin(),
                                          whole.begin() + static_cast<int64_t>(n_tokens) * 512);
        const std::vector<float> actual =
            run_alone(*backend, std::span(tokens).first(n_tokens), chunk_size);
        EXPECT_EQ(first_difference(actual, expected), -1) << "chunks of " << chunk_size;
    }
}

// Prompts that end around the edges of windows, rings, blocks and pages, then decoding.
TEST_P(Exactness, DecodingEqualsPrefill) {
    const auto backend = alone();
    const std::vector<float> whole = run_alone(*backend, prompt(264), 264);
    for (const int32_t n_prompt : {31, 32, 33, 127, 128, 129, 255, 256, 257}) {
        const std::vector<int32_t> tokens = prompt(static_cast<size_t>(n_prompt) + 6);
        CollectingProbe logits({"logits"});
        backend->set_probe(&logits);
        const std::vector<int32_t> pages = {5, 2, 7};
        for (int32_t first = 0; first < n_prompt + 6; first += first == 0 ? n_prompt : 1) {
            Batch batch;
            append_chunk(batch, {0, pages, tokens, first, first == 0 ? n_prompt : 1});
            StepResult result;
            ASSERT_TRUE(backend->step(batch, result).has_value());
        }
        const std::vector<float> expected(whole.begin(),
                                          whole.begin() + (int64_t{n_prompt} + 6) * 512);
        EXPECT_EQ(first_difference(logits.at("logits"), expected), -1) << "prompt of " << n_prompt;
    }
}

TEST_P(Exactness, AnyNumberOfThreads) {
    const std::vector<int32_t> tokens = prompt(150);
    ReferenceOptions options = one_sequence(GetParam().numerics);
    options.n_threads = 3;
    const auto threaded = make_backend(GetParam().model, options);
    EXPECT_EQ(first_difference(run_alone(*threaded, tokens, 70), run_alone(*alone(), tokens, 70)),
              -1);
}

// A request of the mixed test: its tokens, where it lives, how far it is, what came out.
struct Request {
    std::vector<int32_t> tokens;
    std::vector<int32_t> pages;
    int32_t slot = 0;
    int32_t n_done = 0;
    std::vector<float> logits;
};

// An eighth of them is long, up to `longest` tokens.
std::vector<Request> make_requests(int32_t n_requests, size_t longest, std::mt19937& random) {
    const std::vector<int32_t> source = prompt(700);
    std::vector<int32_t> slots(static_cast<size_t>(n_requests));
    std::iota(slots.begin(), slots.end(), 0);
    std::shuffle(slots.begin(), slots.end(), random);
    std::vector<int32_t> pages(static_cast<size_t>(n_requests) * 2);
    std::iota(pages.begin(), pages.end(), 0);
    std::shuffle(pages.begin(), pages.end(), random);
    std::vector<Request> requests(static_cast<size_t>(n_requests));
    for (size_t i = 0; i < requests.size(); ++i) {
        const auto begin = static_cast<int64_t>(random() % 500);
        const auto length =
            static_cast<int64_t>(1 + random() % (i % 8 == 0 ? longest : longest / 5));
        requests[i].tokens.assign(source.begin() + begin, source.begin() + begin + length);
        requests[i].pages = {pages[2 * i], pages[2 * i + 1]};
        requests[i].slot = slots[i];
    }
    return requests;
}

// One step over a random part of the unfinished requests, in random order, in random pieces.
void run_mixed_step(ReferenceBackend& backend, std::vector<Request>& requests,
                    std::mt19937& random) {
    constexpr std::array<int32_t, 8> kPieces = {1, 1, 1, 2, 5, 17, 64, 100};
    std::shuffle(requests.begin(), requests.end(), random);
    Batch batch;
    std::vector<std::pair<Request*, int32_t>> parts;
    for (Request& request : requests) {
        const auto left = static_cast<int32_t>(request.tokens.size()) - request.n_done;
        const int32_t n_rows = std::min(left, kPieces[random() % kPieces.size()]);
        const auto room =
            backend.limits().max_batch_tokens - static_cast<int32_t>(batch.token_ids.size());
        if (n_rows == 0 || n_rows > room || random() % 4 == 0) {
            continue;
        }
        append_chunk(batch, {request.slot, request.pages, request.tokens, request.n_done, n_rows});
        parts.emplace_back(&request, n_rows);
    }
    if (parts.empty()) {
        return;
    }
    CollectingProbe probe({"logits"});
    backend.set_probe(&probe);
    StepResult result;
    ASSERT_TRUE(backend.step(batch, result).has_value());
    auto row = probe.at("logits").begin();
    for (auto& [request, n_rows] : parts) {
        request->logits.insert(request->logits.end(), row, row + int64_t{n_rows} * 512);
        request->n_done += n_rows;
        row += int64_t{n_rows} * 512;
    }
}

TEST_P(Exactness, SixtyFourMixedRequests) {
    std::mt19937 random(7);
    std::vector<Request> requests =
        make_requests(64, GetParam().model == kTinyB ? 140 : 200, random);
    const auto together =
        make_backend(GetParam().model, {GetParam().numerics, 64, 128, 256, 256, 1});
    const auto unfinished = [](const Request& request) {
        return request.n_done < static_cast<int32_t>(request.tokens.size());
    };
    while (std::any_of(requests.begin(), requests.end(), unfinished)) {
        run_mixed_step(*together, requests, random);
    }
    const auto backend = alone();
    for (const Request& request : requests) {
        EXPECT_EQ(first_difference(request.logits, run_alone(*backend, request.tokens, 700)), -1)
            << "slot " << request.slot << ", " << request.tokens.size() << " tokens";
    }
}

} // namespace
} // namespace dsv4v::testing
