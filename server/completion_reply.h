// Replies of POST /v1/completions: stream chunks and the whole body. docs/api.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/reply_fields.h"
#include "server/reply_writer.h"
#include "server/sampling_request.h"

namespace dsv4v {

struct CompletionReplyOptions {
    StreamFlags stream;
    bool logprobs = false;
    bool token_ids = false;
    uint64_t seed = 0;
    std::vector<int32_t> stop_token_ids; // of the request
    // Per choice: the text that is repeated before the output, and its ids for log-probabilities.
    struct Echo {
        std::string text;
        std::vector<int32_t> ids;
    };
    std::vector<std::optional<Echo>> echoes;
    std::vector<std::vector<int32_t>> prompt_ids; // per choice, only with token_ids
};

class CompletionReplyWriter final : public ReplyWriter {
  public:
    // `tokenizer` must outlive it.
    CompletionReplyWriter(const Tokenizer& tokenizer, ReplyIdentity identity,
                          CompletionReplyOptions options);

    void write_update(const ChoiceUpdate& update, const GenerationRun& run,
                      std::vector<std::string>& events) override;
    void write_end(const GenerationRun& run, std::vector<std::string>& events) override;
    [[nodiscard]] std::string empty_event() const override;
    [[nodiscard]] std::string progress_event(const GenerationRun& run) const override;
    void collect(ChoiceUpdate update) override;
    [[nodiscard]] std::string body(const GenerationRun& run) override;

  private:
    // A piece of a choice: a chunk of a stream or the whole.
    struct Piece {
        std::string text;
        std::vector<SampledToken> logprobs;
        std::vector<int32_t> token_ids;
        bool has_echo = false; // text begins with the repeated prompt
        std::optional<ChoiceEnd> end;
    };

    // A row of the legacy log-probability table; the first prompt token has no score.
    struct Row {
        int32_t token_id = 0;
        const SampledToken* score = nullptr;
    };

    void add(ChoiceUpdate& update, Piece& piece) const;
    void write_head(JsonWriter& json) const;
    void write_choice(JsonWriter& json, size_t choice_idx, const Piece& piece,
                      const GenerationRun& run);
    void write_logprobs(JsonWriter& json, size_t choice_idx, const Piece& piece,
                        const GenerationRun& run);
    [[nodiscard]] std::vector<Row> rows_of(size_t choice_idx, const Piece& piece,
                                           const GenerationRun& run) const;
    void write_rows(JsonWriter& json, const std::vector<Row>& rows, uint64_t offset) const;
    void write_top(JsonWriter& json, const std::vector<Row>& rows) const;
    void write_top_ids(JsonWriter& json, const std::vector<Row>& rows) const;
    [[nodiscard]] std::string chunk(size_t choice_idx, const Piece& piece,
                                    const GenerationRun& run);

    const Tokenizer& tokenizer_;
    const ReplyIdentity identity_;
    const CompletionReplyOptions options_;
    std::vector<Piece> pieces_;          // per choice, of a whole body
    std::vector<Piece> unsent_;          // per choice, entries that wait for text
    std::vector<uint64_t> text_offsets_; // per choice, characters before the next piece
};

} // namespace dsv4v
