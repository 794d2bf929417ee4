// StatusSession: one connection to the status server: a request, and its answer or stream of
// events. Internal to report/.
//
// Thread rule: the server's thread only.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "troupe/report/page/report_page.h"
#include "troupe/report/page/run_directory.h"
#include "troupe/report/progress.h"
#include "troupe/report/status/status_access.h"
#include "troupe/report/status/status_server.h"

namespace troupe::detail {

/// The last progress that was reported, and which one that is. Any thread.
class ProgressBoard {
 public:
  void put(const Progress& progress) {
    const std::lock_guard<std::mutex> lock(mutex_);
    progress_ = progress;
    ++count_;
  }
  /// Count 0: none was reported.
  [[nodiscard]] std::pair<Progress, std::uint64_t> get() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return {progress_, count_};
  }

 private:
  mutable std::mutex mutex_;
  Progress progress_;
  std::uint64_t count_ = 0;
};

/// What the sessions of a server share.
struct StatusContent {
  StatusAccess access;
  StatusServer::Run run;
  StatusServer::Limits limits;
  std::string page = live_page();
  ProgressBoard progress = {};
  std::size_t streams = 0;  // under way
  bool has_warned = false;  // that the directory cannot be read
};

class StatusSession : public std::enable_shared_from_this<StatusSession> {
 public:
  enum class Stage { reading, answering, streaming, closed };
  using Socket = boost::asio::ip::tcp::socket;

  /// `content` outlives this object.
  StatusSession(Socket socket, StatusContent& content);

  void start();
  /// The server ends: a stream is sent the rest, answers are finished, requests closed.
  void finish();
  /// At once.
  void close();
  [[nodiscard]] Stage stage() const { return stage_; }

 private:
  using Status = boost::beast::http::status;
  /// What an answer consists of.
  struct Answer {
    Status status;
    const char* type = "text/plain; charset=utf-8";
    std::string body = {};
    const char* policy = "default-src 'none'; frame-ancestors 'none'";
  };

  void on_request(const boost::system::error_code& error);
  void serve(StatusPage page);
  void refuse(Status status);
  void answer(const Answer& answer);
  void begin_stream();
  /// What came since the last call, at first all lines of the directory, as server-sent events
  /// (https://html.spec.whatwg.org/multipage/server-sent-events.html); empty: nothing.
  /// Blocks: for files. Throws: EnvironmentError if a file cannot be read.
  [[nodiscard]] std::string new_events();
  void stream_on();
  void write_on();
  void look_again();
  void drain();

  StatusContent& content_;
  boost::beast::tcp_stream stream_;
  boost::asio::steady_timer pause_;
  boost::beast::flat_buffer in_;
  boost::beast::http::request_parser<boost::beast::http::empty_body> parser_;
  Stage stage_ = Stage::reading;
  std::string out_;                        // being written
  std::size_t sent_ = 0;                   // of it
  std::optional<RunDirectory> directory_;  // of a stream; unset: there is nothing in it yet
  std::uint64_t seen_ = 0;                 // of the progress, by a stream
  int silent_polls_ = 0;
  bool ending_ = false;  // training is over
  bool last_ = false;    // nothing follows out_
};

}  // namespace troupe::detail
