// The status server over real sockets: well-meaning readers, slow ones, and crowds.
#include "troupe/report/status/status_server.h"

#include <fstream>
#include <future>
#include <list>
#include <nlohmann/json.hpp>

#include "tests/net/raw_client.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_prelude.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"

namespace status_server_test {

using namespace std::chrono_literals;
using troupe::StatusServer;
using troupe::text;
using troupe::testing::eventually;
using troupe::testing::RawClient;

namespace {

bool has(const std::string& whole, const std::string& part) {
  return whole.find(part) != std::string::npos;
}

std::uint16_t port_of(const StatusServer& server) {
  const std::string url = server.url();
  return static_cast<std::uint16_t>(std::stoi(url.substr(url.find(':', 5) + 1)));
}

std::string request(const std::string& target, const std::string& more = "",
                    const std::string& host = "localhost", const std::string& method = "GET") {
  return text(method, " ", target, " HTTP/1.1\r\nHost: ", host, "\r\n", more, "\r\n");
}

std::string ask(const StatusServer& server, const std::string& request) {
  RawClient client(port_of(server));
  client.send(request);
  return client.read_to_end();
}

std::string body_of(const std::string& answer) {
  return answer.substr(answer.find("\r\n\r\n") + 4);
}
std::string status_of(const std::string& answer) { return answer.substr(0, 12); }

/// A model directory and its server.
struct Served {
  explicit Served(const StatusServer::Limits& limits = StatusServer::Limits(),
                  const std::string& host = "") {
    append(R"({"step":1,"loss":2.5})");
    server = std::make_unique<StatusServer>(
        StatusServer::Place{host, 0}, StatusServer::Run{directory.path().string(), 3}, limits);
  }
  void append(const std::string& line) const {
    std::ofstream(directory / "summaries.jsonl", std::ios::app) << line << '\n';
  }

  troupe::testing::TempDir directory;
  std::unique_ptr<StatusServer> server;
};

/// Reads a stream's events as they come.
class EventReader {
 public:
  explicit EventReader(const StatusServer& server) : client_(port_of(server)) {
    client_.send(request("/events"));
  }
  /// Whether `part` comes, in time.
  [[nodiscard]] bool waits_for(const std::string& part) {
    std::size_t from = 0;
    while (all_.find(part, from) == std::string::npos) {
      from = all_.size() - std::min(all_.size(), part.size());
      const std::string more = client_.read_some();
      if (more.empty()) return false;
      all_ += more;
    }
    return true;
  }
  [[nodiscard]] std::string to_end() { return all_ += client_.read_to_end(); }
  [[nodiscard]] const std::string& all() const { return all_; }

 private:
  RawClient client_;
  std::string all_;
};

/// A test that waits for one of the first two does not end in its time.
StatusServer::Limits quick() {
  StatusServer::Limits limits;
  limits.request = limits.write = 10min;
  limits.poll = 5ms;
  return limits;
}

}  // namespace

TEST_SUITE("status") {
  TEST_CASE("status server: the pages, and what every answer says to browsers") {
    const Served served;
    for (const std::string target : {"/", "/metrics", "/healthz", "/none"}) {
      CAPTURE(target);
      const std::string answer = ask(*served.server, request(target));
      CHECK(status_of(answer) == (target == "/none" ? "HTTP/1.1 404" : "HTTP/1.1 200"));
      for (const char* header :
           {"Cache-Control: no-store\r\n", "Referrer-Policy: no-referrer\r\n",
            "X-Content-Type-Options: nosniff\r\n", "Cross-Origin-Resource-Policy: same-origin\r\n",
            "Content-Security-Policy: default-src 'none'; ", "Connection: close\r\n"}) {
        CHECK_MESSAGE(has(answer, header), header);
      }
      CHECK_FALSE(has(answer, "Access-Control"));
      CHECK(has(answer, text("Content-Length: ", body_of(answer).size(), "\r\n")));
      const std::string head = ask(*served.server, request(target, "", "localhost", "HEAD"));
      CHECK(head == answer.substr(0, answer.size() - body_of(answer).size()));
    }
    CHECK(has(ask(*served.server, request("/")), "Content-Type: text/html; charset=utf-8\r\n"));
    CHECK(has(ask(*served.server, request("/")), "connect-src 'self'; "));
    CHECK(body_of(ask(*served.server, request("/healthz"))) == "ok\n");
    CHECK(has(ask(*served.server, request("/metrics")), "\ntroupe_workers 3\n"));
    CHECK(has(ask(*served.server, request("/metrics")), "text/plain; version=0.0.4"));
    const std::string head = ask(*served.server, request("/events", "", "localhost", "HEAD"));
    CHECK(has(head, "Content-Type: text/event-stream\r\n"));
    CHECK(body_of(head).empty());
  }

  TEST_CASE("status server: a request in single bytes is one request") {
    const Served served;
    RawClient client(port_of(*served.server));
    for (const char byte : request("/healthz")) client.send(std::string(1, byte));
    CHECK(body_of(client.read_to_end()) == "ok\n");
  }

  TEST_CASE("status server: what is no GET or HEAD of HTTP is refused") {
    const Served served;
    const auto status = [&](const std::string& bytes) {
      return status_of(ask(*served.server, bytes));
    };
    for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW"}) {
      CAPTURE(method);
      const std::string answer = ask(*served.server, request("/", "", "localhost", method));
      CHECK(status_of(answer) == "HTTP/1.1 405");
      CHECK(has(answer, "Allow: GET, HEAD\r\n"));
    }
    const std::string body(100'000, 'x');
    CHECK(status(request("/", text("Content-Length: ", body.size(), "\r\n"), "localhost", "POST") +
                 body) == "HTTP/1.1 405");
    CHECK(status(request("/", "X: " + std::string(9'000, 'x') + "\r\n")) == "HTTP/1.1 431");
    CHECK(status(request("/" + std::string(9'000, 'x'))) == "HTTP/1.1 431");
    CHECK(status(std::string(100'000, 'x')) == "HTTP/1.1 431");
    CHECK(status("\x16\x03\x01\x02\x01 TLS\r\n\r\n") == "HTTP/1.1 400");
    CHECK(status("GET / HTTP/9.9\r\n\r\n") == "HTTP/1.1 400");
    CHECK(status(request("/metrics")) == "HTTP/1.1 200");  // it still serves
  }

  TEST_CASE("status server: another Host is refused on loopback") {
    const Served served;
    for (const char* host : {"evil.example", "localhost.evil.example:80", "10.0.0.1", ""}) {
      CAPTURE(host);
      for (const char* page : {"/", "/events", "/metrics", "/healthz"})
        CHECK(status_of(ask(*served.server, request(page, "", host))) == "HTTP/1.1 403");
    }
    CHECK(status_of(ask(*served.server, "GET / HTTP/1.0\r\n\r\n")) == "HTTP/1.1 403");
    CHECK(served.server->url() == text("http://127.0.0.1:", port_of(*served.server), "/"));
  }

  TEST_CASE("status server: an address that was named needs the token") {
    const Served served(StatusServer::Limits(), "127.0.0.1");
    const std::string url = served.server->url();
    const std::string query = url.substr(url.find("/?") + 1);
    const auto status = [&](const std::string& bytes) {
      return status_of(ask(*served.server, bytes));
    };
    for (const std::string page : {"/", "/events", "/metrics"}) {
      CAPTURE(page);
      const std::string refused = ask(*served.server, request(page, "", "node7"));
      CHECK(status_of(refused) == "HTTP/1.1 401");
      CHECK(has(refused, "WWW-Authenticate: Bearer\r\n"));
      CHECK_FALSE(has(refused, query.substr(query.find('=') + 1)));
      CHECK(status(request(page + "?token=0123456789abcdef0123456789abcdef")) == "HTTP/1.1 401");
    }
    const std::string token = query.substr(query.find('=') + 1);
    CHECK(status(request("/" + query, "", "node7")) == "HTTP/1.1 200");
    CHECK(status(request("/metrics", "Authorization: Bearer " + token + "\r\n")) == "HTTP/1.1 200");
    CHECK(status(request("/healthz", "", "node7")) == "HTTP/1.1 200");
    CHECK_FALSE(has(ask(*served.server, request("/" + query)), token));  // the page lacks it
  }

  TEST_CASE("status server: a live page is sent all lines, what comes, progress and the end") {
    Served served(quick());
    served.append(R"({"step":2,"loss":2.25})");
    EventReader reader(*served.server);
    CHECK(reader.waits_for("data: {\"source\":\"train\",\"line\":{\"step\":1,\"loss\":2.5}}\n\n"));
    CHECK(reader.waits_for("\"step\":2,\"loss\":2.25}}\n\n"));
    CHECK(has(reader.all(), "Content-Type: text/event-stream\r\n"));
    CHECK_FALSE(has(reader.all(), "event: progress"));
    troupe::Progress progress;
    progress.step = 77;
    served.server->update(progress);
    CHECK(reader.waits_for("event: progress\ndata: " + troupe::to_line(progress) + "\n\n"));
    served.append(R"({"step":3,"loss":2.125})");
    CHECK(reader.waits_for("\"step\":3,"));
    EventReader late(*served.server);  // is sent all of it, too
    CHECK(late.waits_for("event: progress\n"));
    CHECK(has(late.all(), "\"step\":3,"));
    served.append(R"({"step":4,"loss":2})");
    progress.activity = troupe::Progress::Activity::ended;
    served.server->update(progress);
    served.server.reset();
    for (EventReader* each : {&reader, &late}) {
      const std::string all = each->to_end();
      CHECK(has(all, "\"step\":4,"));
      CHECK(all.substr(all.size() - 21) == "event: end\ndata: {}\n\n");
    }
  }

  TEST_CASE("status server: pages of a run that did not end are sent the rest, and no end") {
    Served served(quick());
    EventReader reader(*served.server);
    CHECK(reader.waits_for("\"step\":1,"));
    served.append(R"({"step":2,"loss":2.25})");
    served.server.reset();
    CHECK(has(reader.to_end(), "\"step\":2,"));
    CHECK_FALSE(has(reader.all(), "event: end"));
  }

  TEST_CASE("status server: a directory that is made later") {
    const troupe::testing::TempDir directory;
    const std::string path = (directory / "run").string();
    const StatusServer server({"", 0}, {path, 1}, quick());
    EventReader reader(server);
    CHECK(reader.waits_for("\r\n\r\n"));
    std::filesystem::create_directory(path);
    std::ofstream(path + "/run.jsonl") << "{\"event\":\"start\"}\n";
    CHECK(reader.waits_for("\"event\":\"start\""));
  }

  TEST_CASE("status server: who sends no request in time is dropped") {
    StatusServer::Limits limits;
    limits.request = 100ms;
    const Served served(limits);
    RawClient silent(port_of(*served.server));
    RawClient slow(port_of(*served.server));
    slow.send("GET / HTTP/1.1\r\nHost: local");
    CHECK(silent.read_to_end().empty());
    CHECK(slow.read_to_end().empty());
  }

  TEST_CASE("status server: a reader that does not read is dropped, and costs nobody anything") {
    StatusServer::Limits limits = quick();
    limits.write = 500ms;
    limits.streams = 2;
    Served served(limits);
    const std::string line = text("{\"step\":1,\"text\":\"", std::string(100'000, 'x'), "\"}");
    for (int i = 0; i < 200; ++i) served.append(line);  // 20 MB: more than sockets hold
    RawClient stuck(port_of(*served.server));
    stuck.send(request("/events"));
    EventReader quick_reader(*served.server);
    served.append(R"({"step":2,"last":true})");
    CHECK(quick_reader.waits_for("\"last\":true"));
    CHECK(body_of(ask(*served.server, request("/healthz"))) == "ok\n");
    // There is room for a third when the stuck one is dropped.
    CHECK(eventually([&] {
      EventReader third(*served.server);
      return third.waits_for("HTTP/1.1 ") && third.waits_for("\"step\":1,");
    }));
    CHECK_FALSE(has(stuck.read_to_end(), "\"last\":true"));
  }

  TEST_CASE("status server: the end does not wait for a reader that does not read") {
    Served served(quick());
    const std::string line = text("{\"step\":1,\"text\":\"", std::string(100'000, 'x'), "\"}");
    for (int i = 0; i < 200; ++i) served.append(line);
    RawClient stuck(port_of(*served.server));
    stuck.send(request("/events"));
    CHECK(stuck.read(12) == "HTTP/1.1 200");
    served.server.reset();
  }

  TEST_CASE("status server: 100 connections that say nothing keep nobody out") {
    const Served served(quick());
    std::list<RawClient> crowd;
    for (int i = 0; i < 100; ++i) crowd.emplace_back(port_of(*served.server));
    CHECK(body_of(ask(*served.server, request("/healthz"))) == "ok\n");
  }

  TEST_CASE("status server: 100 live pages are too many, and metrics are still read") {
    const Served served(quick());
    std::list<EventReader> pages;
    int open = 0;
    for (int i = 0; i < 100; ++i) {
      EventReader& page = pages.emplace_back(*served.server);
      if (!page.waits_for("HTTP/1.1 ")) continue;
      if (page.waits_for("\"step\":1,")) {
        ++open;
      } else {
        CHECK(has(page.all(), "HTTP/1.1 503"));
      }
    }
    CHECK(open == 16);
    CHECK(status_of(ask(*served.server, request("/metrics"))) == "HTTP/1.1 200");
    pages.pop_front();  // room for another one, as soon as it is seen to be gone
    served.append(R"({"step":2})");
    CHECK(eventually([&] {
      EventReader page(*served.server);
      return page.waits_for("HTTP/1.1 ") && page.waits_for("\"step\":2");
    }));
  }

  TEST_CASE("status server: an address that cannot be listened on is an environment error") {
    const Served served;
    const std::uint16_t taken = port_of(*served.server);
    const auto message = [](const StatusServer::Place& place) {
      try {
        const StatusServer server(place, {"/tmp", 1});
      } catch (const troupe::EnvironmentError& error) {
        return std::string(error.what());
      }
      return std::string();
    };
    CHECK(has(message({"", taken}), text("127.0.0.1:", taken, ": the port is taken. Fix: ")));
    CHECK(has(message({"", taken}), "--status"));
    CHECK(has(message({"192.0.2.1", 0}), "--status HOST:PORT"));
    CHECK(has(message({"no.such.host.invalid", 0}), "--status HOST:PORT"));
  }
}

}  // namespace status_server_test
