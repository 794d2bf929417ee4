#include "train/callbacks/profiler.h"

#if __has_include(<torch/csrc/autograd/profiler_legacy.h>)
#define TROUPE_HAS_OPERATOR_RECORDER 1
#include <torch/csrc/autograd/profiler_legacy.h>

#include <algorithm>
#include <unordered_map>
#endif

namespace troupe {

#ifdef TROUPE_HAS_OPERATOR_RECORDER
namespace {

namespace legacy = torch::autograd::profiler;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

/// The event that came first; null where there is none.
const legacy::LegacyEvent* earliest(const legacy::thread_event_lists& lists) {
  const legacy::LegacyEvent* first = nullptr;
  for (const auto& events : lists) {
    for (const auto& event : events) {
      if (first == nullptr || event.cpuElapsedUs(*first) > 0) first = &event;
    }
  }
  return first;
}

/// An operator is a push and a pop with one handle; one that has no pop is still going on, and left
/// out.
std::vector<TraceSpan> to_spans(const legacy::thread_event_lists& lists) {
  std::vector<TraceSpan> spans;
  const legacy::LegacyEvent* start = earliest(lists);
  std::unordered_map<std::uint64_t, const legacy::LegacyEvent*> pops;
  for (const auto& events : lists) {
    for (const auto& event : events) {
      if (event.kind() == legacy::EventKind::PopRange) pops[event.handle()] = &event;
    }
  }
  for (const auto& events : lists) {
    for (const auto& event : events) {
      const auto pop = pops.find(event.handle());
      if (event.kind() != legacy::EventKind::PushRange || pop == pops.end()) continue;
      spans.push_back({event.name(), start->cpuElapsedUs(event), event.cpuElapsedUs(*pop->second),
                       event.threadId()});
    }
  }
  std::stable_sort(spans.begin(), spans.end(),
                   [](const TraceSpan& a, const TraceSpan& b) { return a.start_us < b.start_us; });
  return spans;
}

class OperatorRecorder final : public SpanRecorder {
 public:
  OperatorRecorder() = default;
  OperatorRecorder(const OperatorRecorder&) = delete;
  OperatorRecorder& operator=(const OperatorRecorder&) = delete;
  ~OperatorRecorder() override {
    if (!recording_) return;
    try {  // a step that threw
      (void)legacy::disableProfilerLegacy();
    } catch (...) {
    }
  }
  void start() override {
    legacy::enableProfilerLegacy(ProfilerConfig(ProfilerState::CPU));
    recording_ = true;
  }
  [[nodiscard]] std::vector<TraceSpan> stop() override {
    recording_ = false;
    return to_spans(legacy::disableProfilerLegacy());
  }

 private:
  bool recording_ = false;
};

}  // namespace

std::unique_ptr<SpanRecorder> make_operator_recorder() {
  return std::make_unique<OperatorRecorder>();
}
#else
std::unique_ptr<SpanRecorder> make_operator_recorder() { return nullptr; }
#endif

}  // namespace troupe
