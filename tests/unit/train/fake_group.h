// FakeGroup: the workers of a group as this one sees them, who come and go as a test says. It
// trains nothing.
#pragma once

#include <string>
#include <vector>

#include "troupe/core/text.h"
#include "troupe/strategies/strategy.h"

namespace troupe::testing {

class FakeGroup : public Strategy {
 public:
  explicit FakeGroup(const GroupView& view) : Strategy("fake", view) {}
  void become(const GroupView& view) { move_to(view); }
  [[nodiscard]] TrainState create_state(const Hooks&, std::uint64_t) override { return {}; }
  [[nodiscard]] std::vector<StepResult> run(const Step&, TrainState&, const DistributedBatch&,
                                            Phase) override {
    return {};
  }
};

[[nodiscard]] inline GroupView view_of_group(int workers, int rank = 0) {
  GroupView view;
  view.tasks.clear();
  for (int each = 0; each < workers; ++each) view.tasks.push_back(text("worker/", each));
  view.rank = rank;
  return view;
}

}  // namespace troupe::testing
