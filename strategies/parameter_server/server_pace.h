// ServerPace: the pace of a worker that trains through parameter servers. Each worker takes steps
// as fast as it can, within the staleness that the servers allow; the numbers of its steps, the
// values it starts from and the end of training come from them. The chief alone saves, validates
// and decides about the end.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/core/options/strategy_options.h"
#include "troupe/strategies/pace.h"
#include "troupe/strategies/parameter_server/served_parameters.h"
#include "troupe/strategies/parameter_server/server_exchange.h"
#include "troupe/strategies/parameter_server/server_report.h"
#include "troupe/strategies/parameter_server/wire/server_client.h"

namespace troupe::detail {

class ServerPace final : public Pace {
 public:
  /// Both outlive this object.
  ServerPace(const StrategyOptions& options, ServerExchange& exchange);

  /// One update from all workers' gradients, not one from each.
  [[nodiscard]] bool synchronous() const { return options_.servers.synchronous(); }

  /// Meets the servers, which are to serve `replica`'s parameters.  Blocks: at most start_timeout.
  /// Throws: ConfigError the second time, and for models that cannot be served or differ;
  /// RendezvousError.
  void join(Replica& replica);
  /// Around what computes the step that next_step() began. Throws: ConfigError for one not begun.
  void take_step();
  void end_step();
  void abort(const std::string& reason, int exit_code) noexcept;
  /// Ends training for all where end() was not called, and says goodbye.
  void close();

  [[nodiscard]] bool coordinates() const override { return chief_; }
  [[nodiscard]] int voices() const override { return 1; }
  /// Throws: ConfigError where a worker would have no examples: it would never ask for a step, nor
  /// learn that training is over.
  [[nodiscard]] Counts counts(const DistributedDataset& train) const override;
  void require(Need need, const std::string& what) const override;
  void start(TrainState& state, const DistributedDataset& train, std::int64_t last_step) override;
  [[nodiscard]] std::optional<std::int64_t> next_step(TrainState& state) override;
  [[nodiscard]] std::optional<std::int64_t> examples_of(
      const DistributedBatch& batch) const override;
  void collect(TrainState& state) override;
  void end(TrainState& state, const std::string& reason) override;
  [[nodiscard]] std::string facts() const override { return finished_ ? report_.json() : ""; }

 private:
  using Rates = std::vector<double>;  // of all optimisers' groups, in order
  static Rates rates_of(Replica& replica);
  /// Other workers do not see a checkpoint: their learning rates, create_model's, are the chief's.
  void keep_rates(Replica& replica) const;
  /// The same on every worker, so shares of a batch belong together where training is synchronous.
  [[nodiscard]] DataPosition place_at(std::int64_t updates, const DistributedDataset& train) const;
  [[nodiscard]] ServerClient::Install install();

  const StrategyOptions& options_;
  const bool chief_;
  ServerExchange& exchange_;
  ServedParameters served_;
  std::unique_ptr<ServerClient> client_;
  ServerReport report_;
  Rates rates_;  // create_model's
  bool started_ = false;
  bool begun_ = false;   // a step, and it has not ended
  bool newest_ = false;  // the chief has asked for no step since it collected
  bool finished_ = false;
};

}  // namespace troupe::detail
