// The scheduler on the test's own thread, step by step, over the fake backend, which refuses any
// batch that breaks a rule and whose tokens hash all that came before.
#include "engine/scheduler.h"

#include <map>
#include <random>

#include "tests/engine/generation.h"

namespace dsv4v::testing {
namespace {

using Clock = Scheduler::Clock;

// What the engine's step loop does, without the thread.
class Steps {
  public:
    explicit Steps(const BackendLimits& limits, int32_t prefill_chunk = 512)
        : backend(limits), scheduler(limits, prefill_chunk) {}

    std::shared_ptr<TokenStream> submit(GenerationRequest request) {
        auto stream = std::make_shared<TokenStream>();
        auto sequence = std::make_unique<Sequence>(std::move(request), stream);
        sequence->arrival = n_arrivals_++;
        scheduler.add(std::move(sequence));
        return stream;
    }

    // One step; false when there was nothing to run. `last_batch` is valid until the next call.
    bool step() {
        scheduler.sweep(now);
        scheduler.check_invariants();
        last_batch = &scheduler.schedule(now);
        scheduler.check_invariants();
        const bool any = !last_batch->token_ids.empty();
        if (any) {
            for (const int32_t slot : scheduler.slots_to_reset()) {
                backend.reset_slot(slot);
            }
            StepResult result;
            const auto stepped = backend.step(*last_batch, result);
            EXPECT_TRUE(stepped) << stepped.error().message;
            scheduler.commit(result, now);
            scheduler.check_invariants();
        }
        for (const std::unique_ptr<Sequence>& sequence : scheduler.take_finished()) {
            sequence->finish(sequence->end, sequence->error_message);
        }
        now += std::chrono::milliseconds(1);
        return any;
    }

    void run() {
        for (int i = 0; scheduler.has_sequences(); ++i) {
            ASSERT_LT(i, 200000) << "the work does not end";
            step();
            ASSERT_FALSE(::testing::Test::HasFailure());
        }
    }

    FakeBackend backend;
    Scheduler scheduler;
    const Batch* last_batch = nullptr;
    Clock::time_point now = Clock::now();

  private:
    uint64_t n_arrivals_ = 0;
};

Generation read_finished(TokenStream& stream) {
    Generation generation;
    EXPECT_TRUE(read_some(stream, generation, std::chrono::milliseconds(0)));
    return generation;
}

TEST(Scheduler, DecodeRowsComeBeforePrefillChunks) {
    BackendLimits limits = small_limits();
    limits.max_batch_tokens = 64;
    Steps steps(limits, 40);
    const auto first = steps.submit(make_request(10, 50, 1));
    steps.step();
    const auto second = steps.submit(make_request(100, 50, 2));
    const auto third = steps.submit(make_request(100, 50, 3));
    steps.step();
    const std::vector<SequenceChunk>& chunks = steps.last_batch->chunks;
    ASSERT_EQ(chunks.size(), 3U);
    EXPECT_EQ(chunks[0].n_rows, 1);
    EXPECT_EQ(chunks[0].first_position, 10);
    EXPECT_EQ(chunks[1].n_rows, 40); // prefill_chunk
    EXPECT_EQ(chunks[2].n_rows, 23); // what is left of max_batch_tokens
    EXPECT_EQ(steps.last_batch->sample_rows.size(), 1U);
    steps.run();
    EXPECT_EQ(read_finished(*second).output.size(), 50U);
    EXPECT_EQ(read_finished(*third).output, expected_output(make_prompt(100, 3), 50));
}

TEST(Scheduler, BatchNeverExceedsItsBounds) {
    std::mt19937 random(3);
    for (const int32_t max_rows : {4, 7, 64}) {
        BackendLimits limits = small_limits();
        limits.max_sequences = 16;
        limits.max_batch_tokens = max_rows;
        Steps steps(limits, 5);
        for (int32_t i = 0; i < 30; ++i) {
            steps.submit(make_request(1 + static_cast<int32_t>(random() % 90), 20, i));
        }
        size_t most = 0;
        while (steps.step()) {
            most = std::max(most, steps.last_batch->token_ids.size());
            for (const SequenceChunk& chunk : steps.last_batch->chunks) {
                EXPECT_LE(chunk.n_rows, 5);
            }
        }
        EXPECT_EQ(most, static_cast<size_t>(max_rows));
        EXPECT_EQ(steps.scheduler.stats().n_finished_length, 30U);
    }
}

TEST(Scheduler, EveryRunningSequenceDecodesInEveryStep) {
    BackendLimits limits = small_limits();
    limits.max_sequences = 16;
    limits.max_batch_tokens = 4; // fewer rows than slots
    Steps steps(limits);
    std::vector<std::shared_ptr<TokenStream>> streams;
    for (int32_t i = 0; i < 12; ++i) {
        streams.push_back(steps.submit(make_request(3, 10, i)));
    }
    steps.run();
    for (int32_t i = 0; i < 12; ++i) {
        EXPECT_EQ(read_finished(*streams[static_cast<size_t>(i)]).output,
                  expected_output(make_prompt(3, i), 10));
    }
}

TEST(Scheduler, FirstComeFirstServedWithinAPriority) {
    BackendLimits limits = small_limits();
    limits.max_sequences = 1;
    Steps steps(limits);
    std::vector<std::shared_ptr<TokenStream>> streams;
    for (const int32_t priority : {0, 1, 0, -1, 1}) {
        GenerationRequest request = make_request(3, 2, static_cast<int32_t>(streams.size()));
        request.priority = priority;
        streams.push_back(steps.submit(std::move(request)));
    }
    std::vector<size_t> order;
    std::vector<bool> done(streams.size(), false);
    while (steps.scheduler.has_sequences()) {
        steps.step();
        for (size_t i = 0; i < streams.size(); ++i) {
            if (!done[i] && streams[i]->finish_reason() != FinishReason::kNone) {
                done[i] = true;
                order.push_back(i);
            }
        }
    }
    EXPECT_EQ(order, (std::vector<size_t>{3, 0, 2, 1, 4}));
}

TEST(Scheduler, LongPromptIsNotOvertakenForEver) {
    BackendLimits limits = small_limits();
    limits.n_pages = 8;
    limits.context_length = 1024;
    Steps steps(limits);
    for (int32_t i = 0; i < 4; ++i) {
        steps.submit(make_request(100, 100, i));
    }
    steps.step();
    const auto long_one = steps.submit(make_request(1000, 2, 77));
    int n_steps = 0;
    for (int32_t i = 100; long_one->finish_reason() == FinishReason::kNone; ++i, ++n_steps) {
        ASSERT_LT(n_steps, 1000);
        steps.submit(make_request(100, 100, i)); // a crowd of small ones behind it
        steps.step();
    }
    EXPECT_LT(n_steps, 120); // the four before it, then itself
    EXPECT_EQ(read_finished(*long_one).output, expected_output(make_prompt(1000, 77), 2));
}

TEST(Scheduler, PreemptedSequencesGiveTheSameTokens) {
    BackendLimits limits = small_limits();
    limits.max_sequences = 8;
    limits.n_pages = 8;
    limits.context_length = 1024;
    Steps steps(limits, 64);
    std::vector<std::shared_ptr<TokenStream>> streams;
    std::vector<GenerationRequest> requests;
    for (int32_t i = 0; i < 10; ++i) {
        GenerationRequest request = make_request(20 + 13 * i, 300, i);
        request.prompt_logprobs = i % 2 == 0;
        requests.push_back(request);
        streams.push_back(steps.submit(std::move(request)));
    }
    steps.run();
    EXPECT_GE(steps.scheduler.stats().n_preemptions, 5U);
    EXPECT_EQ(steps.scheduler.stats().n_pages_used, 0);
    uint64_t n_prompt = 0;
    for (size_t i = 0; i < streams.size(); ++i) {
        const Generation generation = read_finished(*streams[i]);
        EXPECT_EQ(generation.reason, FinishReason::kLength);
        EXPECT_EQ(generation.output, expected_output(requests[i].prompt, 300)) << i;
        EXPECT_EQ(generation.prompt_tokens.size(),
                  requests[i].prompt_logprobs ? requests[i].prompt.size() - 1 : 0);
        n_prompt += requests[i].prompt.size();
    }
    EXPECT_EQ(steps.scheduler.stats().n_prompt_tokens, n_prompt); // recomputing does not count
    EXPECT_EQ(steps.scheduler.stats().n_generated_tokens, 3000U);
}

TEST(Scheduler, NewestGivesWayAndOldestIsNeverPreempted) {
    BackendLimits limits = small_limits();
    limits.n_pages = 4;
    limits.context_length = 512;
    Steps steps(limits);
    const auto oldest = steps.submit(make_request(120, 300, 1));
    steps.submit(make_request(120, 300, 2));
    int n_steps = 0;
    while (oldest->finish_reason() == FinishReason::kNone) {
        steps.step();
        ++n_steps;
    }
    EXPECT_EQ(n_steps, 300); // one token in each step, whatever the other one did
    EXPECT_GT(steps.scheduler.stats().n_preemptions, 0U);
    steps.run();
}

TEST(Scheduler, LowerPriorityGivesWayEvenIfOlder) {
    BackendLimits limits = small_limits();
    limits.n_pages = 4;
    limits.context_length = 512;
    Steps steps(limits);
    GenerationRequest unimportant = make_request(120, 300, 1);
    unimportant.priority = 5;
    steps.submit(std::move(unimportant));
    steps.step();
    const auto important = steps.submit(make_request(120, 300, 2));
    int n_steps = 0;
    while (important->finish_reason() == FinishReason::kNone) {
        steps.step();
        ++n_steps;
    }
    EXPECT_EQ(n_steps, 300);
    steps.run();
}

TEST(Scheduler, UnreadStreamRestsAndLosesNothing) {
    BackendLimits limits = small_limits();
    Steps steps(limits);
    const auto unread = steps.submit(make_request(3, 2000, 1));
    const auto other = steps.submit(make_request(3, 1500, 2));
    Generation theirs;
    while (!read_some(*other, theirs, std::chrono::milliseconds(0))) {
        ASSERT_TRUE(steps.step());
    }
    EXPECT_EQ(theirs.output.size(), 1500U);
    EXPECT_FALSE(steps.step()); // only the resting one is left
    EXPECT_TRUE(steps.scheduler.has_sequences());
    Generation mine;
    EXPECT_FALSE(read_some(*unread, mine, std::chrono::milliseconds(0)));
    EXPECT_EQ(mine.output.size(), static_cast<size_t>(kMaxUnreadEvents));
    steps.run();
    EXPECT_TRUE(read_some(*unread, mine, std::chrono::milliseconds(0)));
    EXPECT_EQ(mine.output, expected_output(make_prompt(3, 1), 2000));
}

TEST(Scheduler, RestingSequenceGivesItsPagesFirst) {
    BackendLimits limits = small_limits();
    limits.n_pages = 12;
    limits.context_length = 12 * kPageTokens;
    Steps steps(limits);
    const auto unread = steps.submit(make_request(3, 1200, 1)); // rests with 9 pages
    const auto other = steps.submit(make_request(3, 1200, 2));
    Generation theirs;
    int n_steps = 0;
    while (!read_some(*other, theirs, std::chrono::milliseconds(0))) {
        ASSERT_LT(++n_steps, 10000);
        steps.step();
    }
    EXPECT_EQ(theirs.output, expected_output(make_prompt(3, 2), 1200));
    Generation mine;
    EXPECT_FALSE(read_some(*unread, mine, std::chrono::milliseconds(0)));
    steps.run();
    EXPECT_TRUE(read_some(*unread, mine, std::chrono::milliseconds(0)));
    EXPECT_EQ(mine.output, expected_output(make_prompt(3, 1), 1200));
}

TEST(Scheduler, DeadlineEndsWaitingAndRunning) {
    BackendLimits limits = small_limits();
    limits.max_sequences = 1;
    Steps steps(limits);
    GenerationRequest request = make_request(3, 1000, 1);
    request.deadline = steps.now + std::chrono::milliseconds(10);
    const auto running = steps.submit(request);
    const auto waiting = steps.submit(request);
    steps.run();
    EXPECT_EQ(read_finished(*running).reason, FinishReason::kTimeout);
    EXPECT_EQ(read_finished(*running).output.size(), 0U); // read above
    EXPECT_EQ(read_finished(*waiting).reason, FinishReason::kTimeout);
    EXPECT_EQ(steps.scheduler.stats().n_timed_out, 2U);
    EXPECT_EQ(steps.scheduler.stats().n_generated_tokens, 10U);
}

TEST(Scheduler, CancelIsSeenInEveryPhaseWithinOneStep) {
    BackendLimits limits = small_limits();
    limits.max_sequences = 1;
    // Steps before the cancel: in the queue, in the prompt, at the first token, in the output.
    for (const auto& [n_steps, queued] :
         {std::pair{0, true}, {1, true}, {1, false}, {3, false}, {4, false}, {20, false}}) {
        Steps steps(limits, 10);
        const auto ahead = queued ? steps.submit(make_request(30, 500, 9)) : nullptr;
        const auto stream = steps.submit(make_request(30, 500, 1));
        for (int i = 0; i < n_steps; ++i) {
            steps.step();
        }
        const uint64_t n_rows = steps.backend.record->n_rows;
        stream->cancel(CancelCause::kGone);
        stream->cancel(CancelCause::kStopped); // the first cause counts
        if (ahead) {
            ahead->cancel(CancelCause::kGone);
        }
        EXPECT_FALSE(steps.step());
        EXPECT_EQ(steps.backend.record->n_rows, n_rows);
        EXPECT_EQ(read_finished(*stream).reason, FinishReason::kCancelled);
        const EngineStats stats = steps.scheduler.stats();
        EXPECT_EQ(stats.n_running + stats.n_waiting + stats.n_pages_used, 0);
        EXPECT_EQ(stats.n_cancelled_decode, n_steps >= 3 ? 1U : 0U);
        EXPECT_EQ(stats.n_cancelled_prefill, n_steps == 1 ? 1U : 0U);
        EXPECT_EQ(stats.n_cancelled_queue, queued ? (n_steps == 0 ? 2U : 1U) : 0U);
    }
}

TEST(Scheduler, ConsumerThatHasEnoughFinishesWithStop) {
    Steps steps(small_limits());
    const auto stream = steps.submit(make_request(3, 500, 1));
    steps.step();
    stream->cancel(CancelCause::kStopped);
    steps.step();
    EXPECT_EQ(read_finished(*stream).reason, FinishReason::kStop);
    EXPECT_EQ(steps.scheduler.stats().n_finished_stop, 1U);
}

TEST(Scheduler, ProgressTellsQueueAndPrompt) {
    BackendLimits limits = small_limits();
    limits.max_sequences = 1;
    Steps steps(limits, 10);
    const auto first = steps.submit(make_request(25, 5, 1));
    const auto second = steps.submit(make_request(25, 5, 2));
    const auto third = steps.submit(make_request(25, 5, 3));
    steps.step();
    EXPECT_EQ(first->progress().phase, GenerationProgress::Phase::kPrefill);
    EXPECT_EQ(first->progress().n_prompt_done, 10);
    EXPECT_EQ(first->progress().n_prompt, 25);
    EXPECT_EQ(third->progress().phase, GenerationProgress::Phase::kQueue);
    EXPECT_EQ(third->progress().queue_position, 2);
    second->cancel(CancelCause::kGone);
    steps.step();
    EXPECT_EQ(third->progress().queue_position, 1);
    steps.step();
    EXPECT_EQ(first->progress().phase, GenerationProgress::Phase::kDecode);
    EXPECT_EQ(first->progress().n_prompt_done, 25);
    steps.run();
}

// 10,000 operations of random traffic: invariants hold after each (Steps::step checks them), every
// output is what the request alone would give, and at the end nothing is held.
TEST(Scheduler, RandomTrafficKeepsEveryInvariant) {
    struct Client {
        GenerationRequest request;
        std::shared_ptr<TokenStream> stream;
        Generation generation;
        bool cancelled = false;
    };
    std::mt19937 random(11);
    BackendLimits limits = small_limits();
    limits.max_sequences = 6;
    limits.n_pages = 7;
    limits.max_batch_tokens = 100;
    limits.context_length = 640;
    Steps steps(limits, 48);
    std::vector<Client> clients;
    uint64_t n_submitted = 0;
    uint64_t n_checked = 0;
    const auto read_client = [&](Client& client) {
        if (!read_some(*client.stream, client.generation, std::chrono::milliseconds(0))) {
            return false;
        }
        const size_t n = client.generation.output.size();
        EXPECT_EQ(client.generation.output,
                  expected_output(client.request.prompt, static_cast<int32_t>(n)));
        if (!client.cancelled) {
            const size_t room = 640 - client.request.prompt.size();
            EXPECT_EQ(n, std::min(static_cast<size_t>(client.request.max_tokens), room));
            EXPECT_EQ(client.generation.reason, FinishReason::kLength);
        }
        ++n_checked;
        return true;
    };
    for (int op = 0; op < 10000; ++op) {
        const uint32_t dice = random() % 100;
        if (dice < 12 && clients.size() < 40) {
            Client client;
            client.request = make_request(1 + static_cast<int32_t>(random() % 150),
                                          static_cast<int32_t>(random() % 600), op);
            client.request.priority = static_cast<int32_t>(random() % 3);
            client.request.prompt_logprobs = random() % 4 == 0;
            client.stream = steps.submit(client.request);
            clients.push_back(std::move(client));
            ++n_submitted;
        } else if (dice < 15 && !clients.empty()) {
            Client& client = clients[random() % clients.size()];
            client.stream->cancel(CancelCause::kGone);
            client.cancelled = true;
        } else {
            steps.step();
        }
        std::erase_if(clients, read_client);
        ASSERT_FALSE(HasFailure()) << "operation " << op;
    }
    EXPECT_GT(steps.scheduler.stats().n_preemptions, 20U);
    steps.run();
    std::erase_if(clients, read_client);
    const EngineStats stats = steps.scheduler.stats();
    EXPECT_EQ(n_checked, n_submitted);
    EXPECT_EQ(stats.n_pages_used, 0);
    EXPECT_EQ(stats.n_finished_length + stats.n_cancelled_queue + stats.n_cancelled_prefill +
                  stats.n_cancelled_decode,
              n_submitted);
    EXPECT_EQ(stats.n_errors, 0U);
}

// The whole cost of scheduling 256 decoding sequences, without a backend. The bound is loose
// (debug and sanitizer builds, busy machines): it catches a cost that grows with the square.
TEST(Scheduler, StepCostAt256Rows) {
    BackendLimits limits = small_limits();
    limits.max_sequences = 256;
    limits.max_batch_tokens = 2048;
    limits.n_pages = 20000;
    limits.context_length = 8192;
    Scheduler scheduler(limits, 512);
    std::vector<std::shared_ptr<TokenStream>> streams;
    for (int32_t i = 0; i < 256; ++i) {
        streams.push_back(std::make_shared<TokenStream>());
        auto sequence = std::make_unique<Sequence>(make_request(4000, 1000, i), streams.back());
        sequence->arrival = static_cast<uint64_t>(i);
        scheduler.add(std::move(sequence));
    }
    std::vector<double> microseconds;
    std::vector<TokenEvent> events;
    while (microseconds.size() < 300) {
        const Clock::time_point start = Clock::now();
        scheduler.sweep(start);
        const Batch& batch = scheduler.schedule(start);
        const bool all_decode = batch.token_ids.size() == 256 && batch.sample_rows.size() == 256;
        const Clock::time_point scheduled = Clock::now();
        StepResult result;
        result.tokens.resize(batch.sample_rows.size());
        for (SampledToken& token : result.tokens) {
            token.token_id = 5;
        }
        const Clock::time_point stepped = Clock::now();
        scheduler.commit(result, stepped);
        const auto spent = (scheduled - start) + (Clock::now() - stepped);
        if (all_decode) {
            microseconds.push_back(std::chrono::duration<double, std::micro>(spent).count());
        }
        for (const auto& stream : streams) {
            stream->wait(events, std::chrono::milliseconds(0));
        }
        events.clear();
    }
    std::ranges::sort(microseconds);
    const double median = microseconds[microseconds.size() / 2];
    std::printf("scheduler step at 256 rows: median %.1f us, 99th percentile %.1f us\n", median,
                microseconds[microseconds.size() * 99 / 100]);
    EXPECT_LT(median, 50000);
}

} // namespace
} // namespace dsv4v::testing
