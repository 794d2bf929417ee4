#include "tests/simulation/served_worker.h"

#include <cstring>
#include <exception>

#include "tests/net/float_store.h"
#include "tests/support/eventually.h"
#include "troupe/core/error.h"
#include "troupe/core/text.h"
#include "troupe/strategies/parameter_server/wire/server_client.h"
#include "troupe/strategies/parameter_server/wire/server_process.h"

namespace troupe::simulation {
namespace {

using testing::FloatModel;
using testing::FloatStore;

class Trainer {
 public:
  Trainer(const ServedPlan& plan, const Cluster& cluster, ServedPart& part,
          const std::function<void(std::int64_t)>& on_step)
      : plan_(plan),
        part_(part),
        on_step_(on_step),
        served_(testing::small_model(plan.servers)),
        values_(served_),
        client_(cluster, plan.options, plan.pace, served_) {}

  void run() {
    client_.join({});
    if (is_chief()) {
      std::vector<std::vector<std::byte>> states;
      for (int server = 0; server < plan_.servers; ++server)
        states.push_back(FloatStore(served_, server).save());
      client_.start(states, 0, plan_.last_step);
    } else if (client_.wait_for_start() < 0) {
      complain("training begins before its first step");
    }
    part_.has_begun = true;
    while (take_step()) {
    }
    if (is_chief()) finish();
    client_.close();
    part_.is_ok = true;
  }

 private:
  [[nodiscard]] bool is_chief() const { return part_.number == 0; }

  void complain(const std::string& what) {
    if (part_.violation.empty()) part_.violation = what;
  }

  bool take_step() {
    const auto begun = client_.begin(values_.install());
    if (!begun.step) return false;
    on_step_(static_cast<std::int64_t>(part_.numbers.size()));
    check_staleness();
    part_.numbers.push_back(*begun.step);
    compute();
    Push push = values_.gradient(0.0F);
    std::vector<std::vector<float>> units(push.gradients.size());
    for (std::size_t i = 0; i < push.gradients.size(); ++i) {
      units[i].assign(push.gradients[i].values.size() / sizeof(float), 0.0F);
      if (counts(push.gradients[i].shard)) units[i][static_cast<std::size_t>(part_.number)] = 1;
      push.gradients[i].values = as_bytes(Span<const float>(units[i].data(), units[i].size()));
    }
    client_.push(push, values_.install());
    client_.end();
    return true;
  }

  /// A part of the table, of which each server has one.
  [[nodiscard]] bool counts(int shard) const {
    return served_.shards[static_cast<std::size_t>(shard)].tensor == 0;
  }

  /// Of workers that nothing befalls: they have taken all their steps themselves, one by one.
  void check_staleness() {
    const auto& bound = plan_.pace.staleness_bound;
    const auto clock = static_cast<std::int64_t>(part_.numbers.size());
    const bool may_lose_any = plan_.trouble == Trouble::reset ||
                              plan_.trouble == Trouble::half_reset ||
                              plan_.trouble == Trouble::half_open;
    if (!bound || may_lose_any || part_.is_again || part_.number == plan_.victim) return;
    for (std::size_t shard = 0; shard < values_.values.size(); ++shard) {
      if (!counts(static_cast<int>(shard))) continue;
      for (int other = 0; other < plan_.workers; ++other) {
        const auto steps =
            -static_cast<std::int64_t>(values_.values[shard][static_cast<std::size_t>(other)]);
        const std::int64_t lag = clock - steps;
        if (other != plan_.victim && lag > *bound)
          complain(text("at its step ", clock, " it reads values with ", steps, " steps of worker/",
                        other));
      }
    }
  }

  void compute() const {
    if (plan_.step_pause == 0) return;
    Random random(plan_.seed + part_.numbers.size() * 31 + static_cast<std::size_t>(part_.number));
    troupe::testing::take_time(std::chrono::nanoseconds(random.between(0, plan_.step_pause)));
  }

  void finish() {
    const auto collected = client_.collect(values_.install());
    part_.updates = client_.finish("done").updates;
    if (collected.step != part_.updates)
      complain(text("it collects the state of step ", collected.step, " of ", part_.updates));
    for (const auto& state : collected.states) {
      std::vector<float> counts(static_cast<std::size_t>(plan_.workers));
      std::memcpy(counts.data(), state.data(), counts.size() * sizeof(float));
      part_.counts.push_back(counts);
    }
  }

  const ServedPlan& plan_;
  ServedPart& part_;
  const std::function<void(std::int64_t)>& on_step_;
  const ServedModel served_;
  FloatModel values_;
  ServerClient client_;
};

template <class Body>
void run(ServedPart& part, const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    part.kind = error.kind();
    part.cause = error.cause();
  } catch (const std::exception& error) {
    part.kind = "unexpected";
    part.cause = error.what();
  }
  World::the().note(text(part.process->name, part.is_ok ? " is done" : " ends with ", part.kind,
                         " ", part.cause));
}

}  // namespace

void serve(const ServedPlan& plan, const Cluster& cluster, ServedPart& part) {
  run(part, [&] {
    const ServedModel model = testing::small_model(plan.servers);
    FloatStore store(model, cluster.server);
    ServerProcess(cluster, plan.options, plan.pace, model, store).run({});
    part.is_ok = true;
  });
}

void train(const ServedPlan& plan, const Cluster& cluster, ServedPart& part,
           const std::function<void(std::int64_t step)>& on_step) {
  run(part, [&] { Trainer(plan, cluster, part, on_step).run(); });
}

}  // namespace troupe::simulation
