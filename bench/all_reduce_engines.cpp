#include "bench/all_reduce_engines.h"

#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bench/aes_gcm.h"
#include "bench/checksums.h"
#include "bench/gloo_group.h"
#include "bench/loopback.h"
#include "troupe/core/failure.h"
#include "troupe/core/secret.h"
#include "troupe/core/text.h"

namespace troupe::bench {
namespace {

constexpr std::chrono::milliseconds kLimit{60'000};

struct Way {
  const char* name;
  Transport transport;
  bool encrypted = false;
};
constexpr Way kWays[] = {{"tcp", Transport::tcp},
                         {"unix_socket", Transport::unix_socket},
                         {"shared_memory", Transport::shared_memory},
                         {"automatic", Transport::automatic},
                         {"tls", Transport::tcp, true}};

// 127.1 is 127.0.0.1 as only the system's resolver reads it: to a cluster description it is a host
// like any other, so what travels there is encrypted.
std::string chief_of(const AllReducePlace& place, const Way& way) {
  if (!place.address.empty()) return place.address;
  return way.encrypted ? "127.1" : "127.0.0.1";
}

Cluster cluster_of(const AllReducePlace& place, std::size_t way) {
  Cluster cluster;
  cluster.rank = place.rank;
  cluster.members.clear();
  for (int rank = 0; rank < place.ranks; ++rank) {
    cluster.members.push_back({text("worker/", rank), std::nullopt});
  }
  cluster.members.front().address = Endpoint{chief_of(place, kWays[way]), place.ports.at(way)};
  const int listener = place.listen_fds.at(way);
  if (listener >= 0) cluster.listener = detail::InheritedSocket(listener);
  cluster.origin = "benchmark";
  return cluster;
}

}  // namespace

struct Engines::Impl {
  std::vector<std::unique_ptr<WorkerGroup>> groups;
  std::unique_ptr<GlooGroup> gloo;
  AesGcm aes_gcm;
  std::unique_ptr<Loopback> tcp;
  std::unique_ptr<Loopback> unix_socket;
  std::vector<float> values;
  std::vector<float> copy;
  std::shared_ptr<std::byte> in_place;
};

Deadline Engines::deadline() { return Deadline::in(kLimit); }

Engines::Engines(const AllReducePlace& place) : impl_(std::make_unique<Impl>()) {
  impl_->values.resize(place.most_bytes / sizeof(float));
  impl_->copy.resize(impl_->values.size());
  add_groups(place);
  if (!place.address.empty()) return;
  add_gloo(place);
  add_limits(place);
}

Engines::~Engines() = default;

void Engines::add_groups(const AllReducePlace& place) {
  for (std::size_t way = 0; way < std::size(kWays); ++way) {
    const auto& [name, transport, encrypted] = kWays[way];
    if (!place.address.empty() && transport != Transport::tcp) continue;
    GroupOptions options;
    options.secret = std::make_shared<const Secret>(std::vector<std::byte>(Secret::kMinBytes));
    options.transport = transport;
    options.insecure = !encrypted;
    impl_->groups.push_back(std::make_unique<WorkerGroup>(cluster_of(place, way), options));
    WorkerGroup& group = *impl_->groups.back();
    group.join({});
    const auto run = [&group](Span<float> values) { group.all_reduce(values, deadline()); };
    engines_.push_back({name, Engine::Kind::troupe, impl_->values.data(), run});
    if (transport == Transport::tcp && !encrypted) add_unsummed(group);
    if (transport != Transport::shared_memory) continue;
    impl_->in_place = group.make_buffer(place.most_bytes, deadline());
    auto* const memory = reinterpret_cast<float*>(impl_->in_place.get());
    engines_.push_back({"in_place", Engine::Kind::troupe, memory, run});
  }
}

// The same connections, so that nothing but the checksums differs.
void Engines::add_unsummed(WorkerGroup& group) {
  engines_.push_back(
      {"tcp_unsummed", Engine::Kind::troupe, impl_->values.data(), [&group](Span<float> values) {
         const NoChecksums off;
         group.all_reduce(values, deadline());
         if (off.spared() > 0) return;
         throw InternalError("this program cannot turn checksums off.",
                             "link it with a linker that knows --wrap, without LTO.");
       }});
}

void Engines::add_gloo(const AllReducePlace& place) {
  impl_->gloo = GlooGroup::make(place.rank, place.ranks, place.folder + "/gloo", kLimit);
  if (!impl_->gloo) return;
  engines_.push_back({"gloo", Engine::Kind::other, impl_->values.data(),
                      [this](Span<float> values) { impl_->gloo->all_reduce(values); }});
}

void Engines::add_limits(const AllReducePlace& place) {
  const auto add = [&](const char* name, std::function<void(Span<float>)> run) {
    engines_.push_back({name, Engine::Kind::limit, impl_->values.data(), std::move(run)});
  };
  add("memcpy", [this](Span<float> from) {
    std::memcpy(impl_->copy.data(), from.data(), from.size_bytes());
    // The compiler may not drop a copy whose result somebody could look at.
    asm volatile("" : : "r"(impl_->copy.data()) : "memory");
  });
  if (place.ranks != 2) return;  // limits of two processes
  add("aes_gcm", [this](Span<float> values) { impl_->aes_gcm.seal_and_open(values.size_bytes()); });
  const std::string path = place.folder + "/loopback";
  std::optional<Loopback::Listener> tcp;
  std::optional<Loopback::Listener> local;
  std::uint64_t port = 0;
  if (place.rank == 0) {
    tcp.emplace();
    local.emplace(path);
    port = tcp->port();
  }
  std::vector<std::uint64_t> ports = {port};
  impl_->groups.front()->broadcast(as_writable_bytes(Span<std::uint64_t>(ports)), 0, deadline());
  if (place.rank == 0) {
    impl_->tcp = std::make_unique<Loopback>(*tcp);
    impl_->unix_socket = std::make_unique<Loopback>(*local);
  } else {
    impl_->tcp = std::make_unique<Loopback>(static_cast<std::uint16_t>(ports.front()));
    impl_->unix_socket = std::make_unique<Loopback>(path);
  }
  add("one_way_tcp", [this, sends = place.rank == 0](Span<float> values) {
    impl_->tcp->one_way(values.size_bytes(), sends);
  });
  add("duplex_tcp", [this](Span<float> values) { impl_->tcp->duplex(values.size_bytes()); });
  add("duplex_unix",
      [this](Span<float> values) { impl_->unix_socket->duplex(values.size_bytes()); });
}

const Engine& Engines::named(const std::string& name) const {
  for (const Engine& engine : engines_) {
    if (engine.name == name) return engine;
  }
  throw ConfigError(text("there is no engine '", name, "'."), "ask for one of the greeting.");
}

void Engines::barrier() { impl_->groups.front()->barrier(deadline()); }

void Engines::close() {
  impl_->gloo.reset();
  for (auto& group : impl_->groups) group->close();
}

}  // namespace troupe::bench
