// SPDX-License-Identifier: Apache-2.0
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "server/connection.h"
#include "server/endpoints.h"
#include "server/sse.h"

namespace lockstep::server {

namespace asio = boost::asio;
constexpr auto kUse = asio::as_tuple(asio::use_awaitable);

namespace {

/// Counts a generation request for /load while it is in work.
class LoadCount {
 public:
  explicit LoadCount(std::atomic<int64_t>& load) : load_(load) { ++load_; }
  ~LoadCount() { --load_; }
  LoadCount(const LoadCount&) = delete;
  LoadCount& operator=(const LoadCount&) = delete;

 private:
  std::atomic<int64_t>& load_;
};

/// Frames the parts of a streamed answer for one client.
class StreamBuffer {
 public:
  explicit StreamBuffer(bool chunked) : chunked_(chunked) {}
  void event(std::string_view payload) { append_sse(pending_, payload); }
  /// What is to be written now: all events since the last call in one chunk.
  std::string take(bool last) {
    std::string out;
    if (!chunked_) return std::exchange(pending_, {});
    if (!pending_.empty()) append_chunk(out, std::exchange(pending_, {}));
    if (last) out += kLastChunk;
    return out;
  }

 private:
  bool chunked_;
  std::string pending_;
};

ApiError aborted_error() {
  return run_error(request::FinishReason::kCancelled, Status(StatusCode::kCancelled, "the server is shutting down"));
}

}  // namespace

asio::awaitable<void> Connection::generate(const HttpRequest& request, Endpoint endpoint) {
  const LoadCount count(state_->load);
  const auto backing = state_->backing();
  auto work = [&]() -> asio::awaitable<ApiResult<GenerationPlan>> {
    co_return plan_generation(endpoint, request.body, *backing);
  };
  ApiResult<GenerationPlan> plan = co_await asio::co_spawn(state_->workers, work, asio::use_awaitable);
  if (!plan) {
    co_await respond(request, error_response(plan.error()));
    co_return;
  }
  if (gone_) co_return;
  mailbox_ = std::make_shared<Mailbox>(stream_.get_executor());
  Generation generation(*std::move(plan), *backing->port, *backing->text, mailbox_, state_->histograms);
  if (const auto error = generation.submit()) {
    mailbox_.reset();
    co_await respond(request, error_response(*error));
    co_return;
  }
  co_await run_generation(request, generation);
  mailbox_.reset();
}

asio::awaitable<void> Connection::run_generation(const HttpRequest& request, Generation& generation) {
  watching_ = true;
  asio::co_spawn(stream_.get_executor(), [self = shared_from_this()] { return self->watch(); }, asio::detached);
  if (generation.plan().params.stream)
    co_await stream_answer(request, generation);
  else
    co_await whole_answer(request, generation);
  watching_ = false;
  if (!gone_) stream_.socket().cancel();  // ends watch(); nothing else is going on here
  if (!generation.done()) state_->counters.finished(request::FinishReason::kCancelled);
}

asio::awaitable<void> Connection::stream_answer(const HttpRequest& request, Generation& generation) {
  const AnswerWriter writer(generation.plan(), *state_->backing()->text);
  HttpResponse response;
  response.content_type = "text/event-stream; charset=utf-8";
  response.headers.emplace_back("Cache-Control", "no-cache");
  add_cors(request, response);
  const bool chunked = request.chunked_answers;
  if (!chunked) keep_alive_ = false;
  const std::string head =
      format_head(response, chunked ? BodyFraming::kChunked : BodyFraming::kUntilClose, keep_alive_);
  if (!co_await write(head)) co_return;

  StreamBuffer buffer(chunked);
  while (!generation.done() && !aborted_) {
    co_await mailbox_->wait();
    if (gone_) co_return;
    std::vector<ChoiceDelta> deltas = generation.take();
    count_ends(deltas);
    for (ChoiceDelta& delta : deltas) {
      // Text that was held back is delivered; the end itself is told by the error frame.
      if (is_failure(delta.output.finish_reason)) delta.output.finish_reason = request::FinishReason::kNone;
      for (const std::string& chunk : writer.chunks(delta, generation.usage())) buffer.event(chunk);
    }
    if (generation.done()) break;
    const std::string events = buffer.take(false);
    if (!co_await write(events)) co_return;
  }
  if (generation.error() || !generation.done()) {
    buffer.event(dump(to_json(generation.error() ? *generation.error() : aborted_error())));
  } else if (generation.plan().params.include_usage) {
    buffer.event(writer.usage_chunk(generation.usage()));
  }
  buffer.event(kSseDone);
  co_await write(buffer.take(true));
}

asio::awaitable<void> Connection::whole_answer(const HttpRequest& request, Generation& generation) {
  std::vector<ChoiceDelta> choices(generation.plan().prompts.size() * static_cast<size_t>(generation.plan().params.n));
  while (!generation.done() && !aborted_) {
    co_await mailbox_->wait();
    if (gone_) co_return;
    std::vector<ChoiceDelta> deltas = generation.take();
    count_ends(deltas);
    for (ChoiceDelta& delta : deltas) {
      ChoiceDelta& choice = choices[static_cast<size_t>(delta.index)];
      if (delta.first)
        choice = std::move(delta);
      else
        merge(choice, std::move(delta));
    }
  }
  if (generation.error() || !generation.done()) {
    // Not inside the co_await: g++ 12 destroys the temporaries of a conditional there twice.
    const ApiError error = generation.error() ? *generation.error() : aborted_error();
    co_await respond(request, error_response(error));
    co_return;
  }
  const AnswerWriter writer(generation.plan(), *state_->backing()->text);
  co_await respond(request, json_text_response(writer.answer(choices, generation.usage())));
}

void Connection::count_ends(const std::vector<ChoiceDelta>& deltas) {
  for (const ChoiceDelta& delta : deltas) {
    if (delta.output.finish_reason != request::FinishReason::kNone)
      state_->counters.finished(delta.output.finish_reason);
  }
}

/// Notices a client that closes while its request is in work. Bytes that arrive meanwhile are the next requests: they
/// are kept for later. Only waiting can be cancelled, and waiting takes no bytes, so none is lost.
asio::awaitable<void> Connection::watch() {
  stream_.socket().non_blocking(true);
  while (watching_ && !gone_ && buffer_.size() < buffer_.max_size()) {
    const auto [error] = co_await stream_.socket().async_wait(asio::ip::tcp::socket::wait_read, kUse);
    if (error || !watching_ || gone_) co_return;
    boost::system::error_code read_error;
    const size_t room = std::min<size_t>(4096, buffer_.max_size() - buffer_.size());
    const size_t size = stream_.socket().read_some(buffer_.prepare(room), read_error);
    buffer_.commit(size);
    if (read_error && read_error != asio::error::would_block) fail_connection();
  }
}

}  // namespace lockstep::server
