// Counters, gauges and histograms in Prometheus text format. Names follow vLLM's after the prefix
// `dsv4v:` so that existing dashboards need only a rename. Every value exists from the start and
// is finite. All functions may be called from any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/engine.h"
#include "server/request_record.h"

namespace dsv4v {

class Metrics {
  public:
    // `model_name` is the label of every series.
    explicit Metrics(const std::string& model_name);
    ~Metrics();
    Metrics(const Metrics&) = delete;
    Metrics& operator=(const Metrics&) = delete;

    // One finished HTTP exchange; called by the HTTP server. `route` is the pattern, `status` 499
    // when the client left first.
    void record_http(std::string_view route, int status, double seconds);
    // One finished generation; called by the HTTP server when record.generated.
    void record_request(const RequestRecord& record);
    // Time between two tokens of one choice; called by whoever reads the token stream.
    void observe_inter_token(double seconds);
    // An error told to a client, also inside a stream ("invalid_request_error", ...).
    void record_error(std::string_view type);
    // Log lines lost because the disk or terminal did not take them.
    void record_dropped_log_lines(uint64_t n);

    // The exposition; `stats` may be null while the model loads.
    [[nodiscard]] std::string exposition(const EngineStats* stats, const BackendLimits* limits);

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace dsv4v
