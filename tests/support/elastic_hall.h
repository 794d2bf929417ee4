// ElasticHall: what a launcher does for the workers of an elastic group, for workers that are
// threads of this process: the rendezvous itself, without sockets or processes around it.
#pragma once

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/support/run_ranks.h"
#include "tests/support/test_secret.h"
#include "troupe/core/failure.h"
#include "troupe/core/text.h"
#include "troupe/core/unique_fd.h"
#include "troupe/distributed/elastic/rendezvous.h"

namespace troupe::testing {

class ElasticHall {
 public:
  struct Place {
    Cluster cluster;
    std::unique_ptr<Rounds> rounds;
  };

  explicit ElasticHall(int workers) : lines_(static_cast<std::size_t>(workers)) {
    Round first{1, 100, 0, {}};
    for (int i = 0; i < workers; ++i) {
      first.members.push_back({text("worker/", i), listen(i), false});
    }
    first_ = first;
    rendezvous_.emplace(RendezvousTerms{}, first, losses_,
                        [](std::uint64_t former) { return former + 1; });
  }

  [[nodiscard]] GroupOptions options() const {
    GroupOptions options;
    options.secret = test_secret();
    options.start_timeout = std::chrono::seconds(60);
    options.transport = transport_under_test();
    return options;
  }

  /// What a process of this worker is told when it starts.
  [[nodiscard]] Place enter(int index, bool joins) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Line& line = this->line(index);
    line.letters.clear();
    line.waiting = 0;
    if (joins) line.who = rendezvous_->starts(index, line.address);
    if (!joins) line.who = {index, 0};
    Place place;
    place.cluster.members.clear();
    for (const auto& member : first_.members) {
      place.cluster.members.push_back({member.task, member.address});
    }
    place.cluster.rank = index;
    place.cluster.generation = first_.generation;
    place.cluster.joins = joins;
    place.cluster.listener = detail::InheritedSocket(dup(line.listener.get()));
    place.cluster.on_this_machine = static_cast<int>(lines_.size());
    place.rounds = std::make_unique<Caller>(*this, index);
    return place;
  }

  /// Why workers would have been killed.
  [[nodiscard]] std::vector<std::string> expelled() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return expelled_;
  }

  /// Its process has ended.
  void leave(int index, std::optional<int> exit_code) {
    act([&](auto now) { rendezvous_->ended(line(index).who, exit_code, now); });
  }

 private:
  using TimePoint = Clock::TimePoint;
  struct Line {
    RoundWorker who;
    Endpoint address;
    UniqueFd listener;
    std::deque<RendezvousMessage> letters;
    int waiting = 0;
    std::optional<Departure> departure;
    std::function<void(const RoundLoss&)> on_lost;
  };

  class Caller final : public Rounds {
   public:
    Caller(ElasticHall& hall, int index) : hall_(hall), index_(index) {}
    ~Caller() override {
      const std::lock_guard<std::mutex> lock(hall_.mutex_);
      hall_.line(index_).on_lost = nullptr;
    }

    void started() override { say(Started{}); }
    void watch(std::function<void(const RoundLoss&)> on_lost) override {
      const std::lock_guard<std::mutex> lock(hall_.mutex_);
      hall_.line(index_).on_lost = std::move(on_lost);
    }
    std::optional<Round> next(const Readiness& mine) override {
      say(mine);
      std::unique_lock<std::mutex> lock(hall_.mutex_);
      auto& letters = hall_.line(index_).letters;
      while (letters.empty()) {
        hall_.changed_.wait_for(lock, std::chrono::milliseconds(20));
        if (letters.empty()) hall_.tick();
      }
      const RendezvousMessage letter = letters.front();
      letters.pop_front();
      if (const auto* round = std::get_if<Round>(&letter)) return *round;
      const auto& end = std::get<EndOfRounds>(letter);
      if (end.exit_code == 0) return std::nullopt;
      throw PeerLost(end.cause, end.fix);
    }
    void ask_to_leave() override { say(LeaveRequest{}); }
    [[nodiscard]] std::optional<Departure> departure() const override {
      const std::lock_guard<std::mutex> lock(hall_.mutex_);
      return hall_.line(index_).departure;
    }
    void leave(const Readiness& mine) override { say(mine); }
    [[nodiscard]] bool joiners_wait() const noexcept override {
      const std::lock_guard<std::mutex> lock(hall_.mutex_);
      return hall_.line(index_).waiting > 0;
    }

   private:
    void say(const WorkerMessage& message) {
      hall_.act([&](auto now) { hall_.rendezvous_->take(hall_.line(index_).who, message, now); });
    }

    ElasticHall& hall_;
    const int index_;
  };

  Line& line(int index) { return lines_[static_cast<std::size_t>(index)]; }

  Endpoint listen(int index) {
    LoopbackListener listener;
    Line& own = line(index);
    own.address = {"127.0.0.1", listener.port()};
    own.listener.reset(listener.release());
    return own.address;
  }

  template <class Event>
  void act(Event&& event) {
    const std::lock_guard<std::mutex> lock(mutex_);
    event(std::chrono::steady_clock::now());
    carry_out();
  }
  void tick() {
    rendezvous_->tick(std::chrono::steady_clock::now());
    carry_out();
  }
  void carry_out() {
    for (bool more = true; more;) {
      const auto orders = rendezvous_->take_orders();
      more = !orders.empty();
      for (const RendezvousOrder& order : orders) {
        if (const auto* letter = std::get_if<RoundLetter>(&order)) deliver(*letter);
        if (const auto* expulsion = std::get_if<Expulsion>(&order)) expel(*expulsion);
      }
    }
    changed_.notify_all();
  }
  /// A thread cannot be killed. Who is needed no longer is told so.
  void expel(const Expulsion& order) {
    if (!order.why.empty()) expelled_.push_back(order.why);
    line(order.who.index).letters.push_back(EndOfRounds{order.why.empty() ? 0 : 1, order.why, ""});
  }
  void deliver(const RoundLetter& letter) {
    Line& to = line(letter.to.index);
    if (const auto* waiting = std::get_if<Waiting>(&letter.message)) {
      to.waiting = waiting->count;
    } else if (const auto* loss = std::get_if<RoundLoss>(&letter.message)) {
      if (to.on_lost) to.on_lost(*loss);
    } else if (const auto* departure = std::get_if<Departure>(&letter.message)) {
      to.departure = *departure;
    } else if (std::holds_alternative<Ping>(letter.message)) {
      rendezvous_->take(letter.to, Pong{}, std::chrono::steady_clock::now());
    } else {
      to.letters.push_back(letter.message);
    }
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  StepLosses losses_;
  Round first_;
  std::optional<Rendezvous> rendezvous_;
  std::vector<Line> lines_;
  std::vector<std::string> expelled_;
};

}  // namespace troupe::testing
