// Drives an OutputParser over a cut text and joins what it decided.
#pragma once

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "engine/output_parser.h"

namespace dsv4v::testing {

// Everything a client of the parser sees, joined; calls as `name(arguments)` with their markup.
struct ParsedOutput {
    std::string reasoning;
    std::string content;
    std::vector<ToolCall> calls;
    OutputSummary summary;
    bool in_wire_order = true; // reasoning before content before calls

    [[nodiscard]] std::string description() const {
        std::string text = "reasoning{" + reasoning + "} content{" + content + "}";
        for (const ToolCall& call : calls) {
            text += " call{" + call.name + " " + call.arguments + " raw:" + call.raw + "}";
        }
        text += " finish{" + summary.finish_reason + "}";
        for (const std::string& repair : summary.repairs) {
            text += " " + repair;
        }
        return text + (in_wire_order ? "" : " OUT OF ORDER");
    }
};

inline void join_deltas(const std::vector<OutputDelta>& deltas, ParsedOutput& output) {
    for (const OutputDelta& delta : deltas) {
        switch (delta.kind) {
        case OutputDelta::Kind::kReasoning:
            output.in_wire_order &= output.content.empty() && output.calls.empty();
            output.reasoning += delta.text;
            break;
        case OutputDelta::Kind::kContent:
            output.in_wire_order &= output.calls.empty();
            output.content += delta.text;
            break;
        case OutputDelta::Kind::kToolCall:
            output.calls.push_back(delta.call);
            break;
        }
    }
}

// Feeds the pieces of `text` that end at `cuts` (ascending).
inline ParsedOutput parse_cut(std::string_view text, const std::vector<size_t>& cuts,
                              const OutputParserOptions& options, EndCause cause) {
    OutputParser parser(options);
    ParsedOutput output;
    size_t begin = 0;
    const auto feed = [&](size_t end) {
        std::vector<OutputDelta> deltas;
        parser.feed(text.substr(begin, end - begin), deltas);
        join_deltas(deltas, output);
        begin = end;
    };
    for (const size_t cut : cuts) {
        feed(cut);
    }
    feed(text.size());
    std::vector<OutputDelta> deltas;
    output.summary = parser.finish(cause, deltas);
    join_deltas(deltas, output);
    return output;
}

// Offsets at which characters of valid UTF-8 begin, without 0.
inline std::vector<size_t> character_starts(std::string_view text) {
    std::vector<size_t> starts;
    for (size_t i = 1; i < text.size(); ++i) {
        if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) {
            starts.push_back(i);
        }
    }
    return starts;
}

// A random subset of `starts`.
inline std::vector<size_t> random_cuts(const std::vector<size_t>& starts, std::mt19937& random) {
    const double share = std::uniform_real_distribution<double>(0, 1)(random);
    std::bernoulli_distribution take(share * share);
    std::vector<size_t> cuts;
    for (const size_t start : starts) {
        if (take(random)) {
            cuts.push_back(start);
        }
    }
    return cuts;
}

} // namespace dsv4v::testing
