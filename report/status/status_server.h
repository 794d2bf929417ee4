// StatusServer: a run's live page, its metrics and its health over HTTP, from a thread of the
// chief's own.
//
//   GET /         the page of report_page.h, live          needs the token, if there is one
//   GET /events   its lines, as server-sent events         needs the token, if there is one
//   GET /metrics  Prometheus' text format                  needs the token, if there is one
//   GET /healthz  200 "ok" while the process lives
//
// It listens on loopback without a token, or on an address that the user names, with a random token
// that the chief prints: "?token=..." or "Authorization: Bearer". Bounded: connections, bytes of a
// request, time of each; a slow reader is dropped, training never waits.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "troupe/report/progress.h"

namespace troupe {

class StatusServer {
 public:
  struct Place {
    std::string host;        // empty: 127.0.0.1, without a token
    std::uint16_t port = 0;  // 0: the system chooses
  };
  struct Run {
    std::string model_dir;  // may be missing, or have nothing in it yet
    int workers = 1;
  };
  /// Of what others may cost.
  struct Limits {
    std::chrono::milliseconds request{5'000};  // from the connection to the end of its request
    std::chrono::milliseconds write{10'000};   // for 64 KiB; then the reader is dropped
    std::chrono::milliseconds poll{1'000};     // between two looks at the directory, for a page
    std::size_t connections = 32;              // one more: the oldest that is no live page goes
    std::size_t streams = 16;                  // live pages; one more is refused
  };

  /// Listens when it returns. Blocks: for the look-up of a name.
  /// Throws: EnvironmentError if the address is taken or not this machine's.
  StatusServer(const Place& place, Run run, const Limits& limits);
  StatusServer(const Place& place, Run run) : StatusServer(place, std::move(run), Limits()) {}
  /// Tells open pages what is new, and the end if the last progress says that training has ended;
  /// pages that are not told wait for a restart. Blocks: for less than a second.
  ~StatusServer();
  StatusServer(const StatusServer&) = delete;
  StatusServer& operator=(const StatusServer&) = delete;

  /// What to open: "http://127.0.0.1:8080/", with "?token=..." where there is one.
  [[nodiscard]] std::string url() const;
  /// Any thread; copies, never waits for a reader.
  void update(const Progress& progress);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe
