// Traces: what is recorded, by which thread, and that nothing is without start_trace().
#include "troupe/core/trace.h"

#include <malloc.h>

#include <memory>
#include <thread>

#include "tests/support/test_prelude.h"

namespace trace_test {

using troupe::start_trace;
using troupe::stop_trace;
using troupe::Trace;
using troupe::Traced;

TEST_SUITE("core") {
  TEST_CASE("trace: nothing is recorded before start and after stop") {
    { const Traced before("before"); }
    start_trace();
    { const Traced within("within", 7); }
    const Trace trace = stop_trace();
    { const Traced after("after"); }
    REQUIRE(trace.intervals.size() == 1);
    CHECK(trace.intervals[0].name == "within");
    CHECK(trace.intervals[0].bytes == 7);
    CHECK(trace.intervals[0].duration >= 0);
    start_trace();
    CHECK(stop_trace().intervals.empty());
  }

  TEST_CASE("trace: an interval that began before the trace, or did not end in it, is left out") {
    auto early = std::make_unique<Traced>("early");
    start_trace();
    early.reset();
    auto late = std::make_unique<Traced>("late");
    CHECK(stop_trace().intervals.empty());
    start_trace();
    late.reset();
    CHECK(stop_trace().intervals.empty());
  }

  TEST_CASE("trace: threads have their names, and an inner interval lies in the outer one") {
    troupe::name_this_thread("main thread");
    start_trace();
    {
      const Traced outer("outer");
      std::thread([] {
        troupe::name_this_thread("other thread");
        const Traced inner("inner");
      }).join();
    }
    const Trace trace = stop_trace();
    REQUIRE(trace.intervals.size() == 2);
    const auto& inner = trace.intervals[0];
    const auto& outer = trace.intervals[1];
    CHECK(trace.threads.at(inner.thread) == "other thread");
    CHECK(trace.threads.at(outer.thread) == "main thread");
    CHECK(inner.start >= outer.start);
    CHECK(inner.start + inner.duration <= outer.start + outer.duration);
  }

  TEST_CASE("trace: an interval whose name is known takes nothing from the heap") {
    start_trace();
    const auto record = [] { const Traced traced("a name that is too long for a small string"); };
    record();
    const std::size_t before = mallinfo2().uordblks;
    for (int i = 0; i < 10'000; ++i) record();
    CHECK(mallinfo2().uordblks == before);
    CHECK(stop_trace().intervals.size() == 10'001);
  }

  TEST_CASE("trace: what exceeds the limit is counted") {
    start_trace(3);
    for (int i = 0; i < 5; ++i) const Traced each("each");
    const Trace trace = stop_trace();
    CHECK(trace.intervals.size() == 3);
    CHECK(trace.dropped == 2);
  }
}

}  // namespace trace_test
