#include "troupe/report/status/status_session.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>
#include <exception>
#include <string_view>

#include "troupe/core/error.h"
#include "troupe/core/log.h"
#include "troupe/core/text.h"
#include "troupe/report/status/metrics_text.h"

namespace troupe::detail {
namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

constexpr std::size_t kMostRequestBytes = 8 * 1024;
// What one write has Limits::write for: a reader of less than 6 KiB/s is too slow.
constexpr std::size_t kChunk = 64 * 1024;
// A comment, so that what lies between, and this end, see whether the reader is there still.
constexpr int kSilentPolls = 15;
constexpr const char* kEnd = "event: end\ndata: {}\n\n";  // of a training that is over
constexpr std::chrono::seconds kDrain{1};
// The page's own policy, in its head, says which scripts; what is here counts beside it.
constexpr const char* kPagePolicy =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
constexpr std::size_t kMostDrainedBytes = 256 * 1024;

std::string_view view(boost::beast::string_view text) { return {text.data(), text.size()}; }

const char* refusal_text(http::status status) {
  switch (status) {
    case http::status::unauthorized:
      return "This page needs a token: open the address that the chief has printed, or send the "
             "token as \"Authorization: Bearer\".\n";
    case http::status::forbidden:
      return "This page is read on the machine that trains, as http://localhost or "
             "http://127.0.0.1; --status HOST:PORT makes it readable from elsewhere.\n";
    case http::status::not_found:
      return "There are /, /events, /metrics and /healthz.\n";
    case http::status::method_not_allowed:
      return "Pages are read by GET or HEAD.\n";
    case http::status::service_unavailable:
      return "Too many live pages are open: close one.\n";
    case http::status::request_header_fields_too_large:
      return "The request is too long.\n";
    default:
      return "This is no HTTP request.\n";
  }
}

/// What to answer to a request that cannot be read; unset: nobody is there to answer.
std::optional<http::status> status_of(const error_code& error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return http::status::request_header_fields_too_large;
  const bool gone = error == http::error::end_of_stream || error == http::error::partial_message;
  const bool unreadable = error.category() == http::make_error_code(http::error{}).category();
  if (unreadable && !gone) return http::status::bad_request;
  return std::nullopt;
}

}  // namespace

StatusSession::StatusSession(Socket socket, StatusContent& content)
    : content_(content),
      stream_(std::move(socket)),
      pause_(stream_.get_executor()),
      in_(2 * kMostRequestBytes) {
  parser_.header_limit(kMostRequestBytes);
}

void StatusSession::start() {
  stream_.expires_after(content_.limits.request);
  http::async_read_header(stream_, in_, parser_,
                          [self = shared_from_this()](const error_code& error, std::size_t) {
                            self->on_request(error);
                          });
}

void StatusSession::close() {
  if (stage_ == Stage::streaming) --content_.streams;
  stage_ = Stage::closed;
  pause_.cancel();
  stream_.close();
}

void StatusSession::finish() {
  ending_ = true;
  if (stage_ == Stage::reading) return close();
  pause_.cancel();  // a stream that waits goes on
}

void StatusSession::on_request(const error_code& error) {
  if (stage_ == Stage::closed) return;
  if (error) {
    const auto status = status_of(error);
    return status ? refuse(*status) : close();
  }
  const auto& request = parser_.get();
  if (request.method() != http::verb::get && request.method() != http::verb::head)
    return refuse(http::status::method_not_allowed);
  const StatusDecision decision =
      content_.access.decide({view(request.target()), view(request[http::field::host]),
                              view(request[http::field::authorization])});
  if (!decision.page) return refuse(static_cast<http::status>(decision.refusal));
  serve(*decision.page);
}

void StatusSession::serve(StatusPage page) {
  switch (page) {
    case StatusPage::live:
      return answer({http::status::ok, "text/html; charset=utf-8", content_.page, kPagePolicy});
    case StatusPage::events:
      return begin_stream();
    case StatusPage::metrics:
      return answer({http::status::ok, kMetricsType,
                     metrics_text(content_.progress.get().first, content_.run.workers)});
    case StatusPage::health:
      return answer({http::status::ok, "text/plain; charset=utf-8", "ok\n"});
  }
}

void StatusSession::refuse(http::status status) {
  answer({status, "text/plain; charset=utf-8", refusal_text(status)});
}

void StatusSession::answer(const Answer& answer) {
  http::response_header<> head;
  head.version(11);
  head.result(answer.status);
  head.set(http::field::connection, "close");
  head.set(http::field::content_type, answer.type);
  head.set(http::field::cache_control, "no-store");
  head.set("Content-Security-Policy", answer.policy);
  head.set("Cross-Origin-Resource-Policy", "same-origin");
  head.set("Referrer-Policy", "no-referrer");  // the address may hold the token
  head.set("X-Content-Type-Options", "nosniff");
  if (answer.status == http::status::unauthorized)
    head.set(http::field::www_authenticate, "Bearer");
  if (answer.status == http::status::method_not_allowed) head.set(http::field::allow, "GET, HEAD");
  if (stage_ != Stage::streaming) head.set(http::field::content_length, text(answer.body.size()));
  const bool only_head = parser_.get().method() == http::verb::head;
  out_ = text(head) + (only_head ? "" : answer.body);
  last_ = stage_ != Stage::streaming;
  if (last_) stage_ = Stage::answering;
  write_on();
}

void StatusSession::begin_stream() {
  if (parser_.get().method() == http::verb::head)
    return answer({http::status::ok, "text/event-stream"});
  if (content_.streams >= content_.limits.streams) return refuse(http::status::service_unavailable);
  ++content_.streams;
  stage_ = Stage::streaming;
  answer({http::status::ok, "text/event-stream"});
}

std::string StatusSession::new_events() {
  std::string events;
  try {
    if (!directory_) directory_.emplace(content_.run.model_dir);
  } catch (const ConfigError&) {  // before the first line is written
  }
  if (directory_) {
    for (const RunLine& line : directory_->read_on()) events += "data: " + to_json(line) + "\n\n";
  }
  const auto [progress, count] = content_.progress.get();
  if (count != seen_) events += "event: progress\ndata: " + to_line(progress) + "\n\n";
  seen_ = count;
  return events;
}

/// Sends what is new until nothing is; then looks again after a pause, or ends.
void StatusSession::stream_on() {
  out_.clear();
  sent_ = 0;
  try {
    out_ = new_events();
  } catch (const std::exception& error) {
    if (!std::exchange(content_.has_warned, true))
      log_warning("the live page lacks what cannot be read: ", error.what());
  }
  if (!out_.empty()) {
    silent_polls_ = 0;
    return write_on();
  }
  last_ = ending_;
  if (last_) {
    // Without the end a page asks again, until a run that failed is started anew.
    if (content_.progress.get().first.activity != Progress::Activity::ended) return close();
    out_ = kEnd;
    return write_on();
  }
  pause_.expires_after(content_.limits.poll);
  pause_.async_wait([self = shared_from_this()](const error_code&) {
    if (self->stage_ != Stage::closed) self->look_again();
  });
}

void StatusSession::look_again() {
  if (++silent_polls_ < kSilentPolls) return stream_on();
  silent_polls_ = 0;
  out_ = ":\n\n";
  sent_ = 0;
  write_on();
}

void StatusSession::write_on() {
  stream_.expires_after(content_.limits.write);
  const std::size_t count = std::min(kChunk, out_.size() - sent_);
  asio::async_write(stream_, asio::buffer(out_.data() + sent_, count),
                    [self = shared_from_this()](const error_code& error, std::size_t written) {
                      if (self->stage_ == Stage::closed) return;
                      if (error) return self->close();
                      self->sent_ += written;
                      if (self->sent_ < self->out_.size()) return self->write_on();
                      if (!self->last_) return self->stream_on();
                      self->stage_ == Stage::streaming ? self->close() : self->drain();
                    });
}

/// A socket that is closed with unread bytes resets the connection, and the answer with it.
void StatusSession::drain() {
  error_code ignored;
  stream_.socket().shutdown(Socket::shutdown_send, ignored);
  stream_.expires_after(kDrain);
  sent_ = 0;
  struct Reader {
    std::shared_ptr<StatusSession> self;
    void operator()(const error_code& error, std::size_t count) const {
      if (self->stage_ == Stage::closed) return;
      self->sent_ += count;
      if (error || self->sent_ > kMostDrainedBytes) return self->close();
      read();
    }
    void read() const {
      self->out_.resize(kChunk);
      self->stream_.async_read_some(asio::buffer(self->out_.data(), self->out_.size()), *this);
    }
  };
  Reader{shared_from_this()}.read();
}

}  // namespace troupe::detail
