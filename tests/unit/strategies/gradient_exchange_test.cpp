// How gradients are laid out, looked at and handed to another thread: all of it without LibTorch.
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/test_prelude.h"
#include "troupe/strategies/gradients/bucket_thread.h"
#include "troupe/strategies/gradients/gradient_plan.h"

using troupe::detail::BucketThread;
using troupe::detail::GradientPlan;

namespace {

std::vector<std::int64_t> ends_of(const GradientPlan& plan) {
  std::vector<std::int64_t> ends;
  for (const auto& bucket : plan.buckets) ends.push_back(bucket.end);
  return ends;
}

}  // namespace

TEST_SUITE("strategies") {
  TEST_CASE("gradient_plan: buckets follow the order, the first one is small") {
    const std::vector<std::int64_t> sizes = {10, 20, 30, 5, 1};
    const GradientPlan plan = troupe::detail::plan_buckets(sizes, {4, 3, 2, 1, 0}, {6, 50});
    CHECK(plan.offsets == std::vector<std::int64_t>{56, 36, 6, 1, 0});
    CHECK(ends_of(plan) == std::vector<std::int64_t>{6, 56, 66});
    CHECK(plan.bucket_of == std::vector<std::size_t>{2, 1, 1, 0, 0});
    CHECK(plan.buckets[1].parameters == 2);
  }

  TEST_CASE("gradient_plan: who is not in the order comes last, and is in a bucket, too") {
    const GradientPlan plan = troupe::detail::plan_buckets({1, 2, 3, 4}, {2}, {1, 100});
    CHECK(plan.offsets == std::vector<std::int64_t>{9, 7, 0, 3});
    CHECK(ends_of(plan) == std::vector<std::int64_t>{3, 10});
  }

  TEST_CASE("gradient_plan: a parameter that is larger than a bucket has one to itself") {
    const GradientPlan plan = troupe::detail::plan_buckets({4, 100, 4, 4}, {0, 1, 2, 3}, {1, 8});
    CHECK(ends_of(plan) == std::vector<std::int64_t>{4, 104, 112});
  }

  TEST_CASE("gradient_plan: one bucket keeps the order of the parameters") {
    const GradientPlan plan = troupe::detail::plan_of_one({3, 2});
    CHECK(plan.offsets == std::vector<std::int64_t>{0, 3});
    CHECK(ends_of(plan) == std::vector<std::int64_t>{5});
  }

  TEST_CASE("gradient_plan: divided, each bucket has its parameters by owner") {
    const std::vector<std::int64_t> sizes = {10, 20, 30, 5, 1};
    const GradientPlan whole = troupe::detail::plan_buckets(sizes, {4, 3, 2, 1, 0}, {6, 50});
    const GradientPlan plan = troupe::detail::divided(whole, sizes, {1, 2, 0, 2, 0}, 3);
    CHECK(plan.offsets == std::vector<std::int64_t>{56, 36, 6, 1, 0});
    CHECK(ends_of(plan) == ends_of(whole));
    CHECK(plan.bucket_of == whole.bucket_of);
    CHECK(plan.buckets[0].ends == std::vector<std::int64_t>{1, 1, 6});
    CHECK(plan.buckets[1].ends == std::vector<std::int64_t>{30, 30, 50});
    CHECK(plan.buckets[2].ends == std::vector<std::int64_t>{0, 10, 10});
    CHECK(troupe::detail::divided(troupe::detail::plan_of_one(sizes), sizes, {1, 2, 0, 2, 0}, 3)
              .offsets == std::vector<std::int64_t>{31, 41, 0, 61, 30});
  }

  TEST_CASE("gradient_values: one value beyond the limit, anywhere, is seen, and all are copied") {
    const float limit = 100.0F;
    for (const std::size_t count : {1U, 7U, 64U, 2048U, 5003U}) {
      for (const float bad :
           {101.0F, -101.0F, std::numeric_limits<float>::infinity(), std::nanf("")}) {
        for (const std::size_t place : {std::size_t{0}, count / 2, count - 1}) {
          std::vector<float> from(count, 100.0F);
          std::vector<float> into(count);
          CHECK(troupe::detail::copy_within(from.data(), into.data(), count, limit));
          CHECK(into == from);
          from[place] = bad;
          CHECK_FALSE(troupe::detail::copy_within(from.data(), into.data(), count, limit));
          CHECK_FALSE(troupe::detail::are_within(from.data(), count, limit));
          CHECK((into[place] == bad || std::isnan(into[place])));
        }
      }
    }
    const std::vector<double> wide = {1e300, -1e300};
    CHECK(troupe::detail::are_within(wide.data(), 2, 1e300));
    CHECK_FALSE(troupe::detail::are_within(wide.data(), 2, 1e299));
  }

  TEST_CASE("bucket_thread: buckets are reduced in order, no earlier than they are released") {
    BucketThread thread;
    std::atomic<std::size_t> released{0};
    std::vector<std::size_t> seen;
    for (int step = 0; step < 50; ++step) {
      released = 0;
      seen.clear();
      std::atomic<bool> early{false};
      thread.begin([&](std::size_t k) {
        if (k >= released) early = true;
        seen.push_back(k);
      });
      for (std::size_t k = 1; k <= 4; ++k) {
        released = k;
        thread.release(k);
        if (step % 3 == 0) std::this_thread::yield();
      }
      const std::size_t done = thread.finish();
      CHECK(done <= 4);
      CHECK(!early);
      REQUIRE(seen.size() == done);  // what finish() does not count, nobody has touched
      for (std::size_t k = 0; k < done; ++k) CHECK(seen[k] == k);
    }
  }

  TEST_CASE("bucket_thread: a failure is thrown by finish, and the next step starts afresh") {
    BucketThread thread;
    std::atomic<int> calls{0};
    thread.begin([&](std::size_t) {
      ++calls;
      throw std::runtime_error("link down");
    });
    thread.release(3);
    while (calls == 0) std::this_thread::yield();
    CHECK_THROWS_WITH_AS((void)thread.finish(), "link down", std::runtime_error);
    CHECK(calls == 1);  // the buckets behind it are not tried
    thread.begin([](std::size_t) {});
    thread.release(1);
    (void)thread.finish();
    thread.cancel();
    CHECK(thread.finish() == 0);  // a step that did not begin has nothing of the one before
    thread.begin([](std::size_t) {});
    CHECK_NOTHROW((void)thread.finish());
  }

  TEST_CASE("bucket_thread: destruction waits for the bucket under way, and takes no further one") {
    std::atomic<int> ended{0};
    std::atomic<bool> started{false};
    {
      BucketThread thread;
      thread.begin([&](std::size_t) {
        started = true;
        troupe::testing::take_time(std::chrono::milliseconds(20));
        ++ended;
      });
      thread.release(5);
      while (!started) std::this_thread::yield();
    }
    CHECK(ended == 1);
  }
}
