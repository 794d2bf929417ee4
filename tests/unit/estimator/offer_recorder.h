// OfferRecorder: an exporter that remembers what it is offered, and specifications that use it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/counter_hooks.h"
#include "troupe/estimator/specs.h"

namespace troupe::testing {

/// Remembers what it is offered.
class OfferRecorder final : public Exporter {
 public:
  explicit OfferRecorder(std::string name = "recorder", std::optional<std::string> answer = {})
      : name_(std::move(name)), answer_(std::move(answer)) {}
  [[nodiscard]] const std::string& name() const override { return name_; }
  std::optional<std::string> offer(const ExportOffer& offer) override {
    offers.push_back(offer);
    return answer_;
  }

  [[nodiscard]] Steps steps() const {
    Steps steps;
    for (const auto& offer : offers) steps.push_back(offer.evaluation.global_step);
    return steps;
  }
  /// The steps of the offers that were said to be the last.
  [[nodiscard]] Steps final_steps() const {
    Steps steps;
    for (const auto& offer : offers) {
      if (offer.is_final) steps.push_back(offer.evaluation.global_step);
    }
    return steps;
  }

  std::vector<ExportOffer> offers;

 private:
  std::string name_;
  std::optional<std::string> answer_;
};

inline TrainSpec until(std::int64_t max_steps) {
  TrainSpec spec;
  spec.max_steps = max_steps;
  return spec;
}

inline EvalSpec with(std::shared_ptr<Exporter> exporter, double throttle_secs) {
  EvalSpec spec;
  spec.exporters = {std::move(exporter)};
  spec.throttle_secs = throttle_secs;
  return spec;
}

}  // namespace troupe::testing
