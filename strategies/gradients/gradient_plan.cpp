#include "troupe/strategies/gradients/gradient_plan.h"

#include <limits>
#include <numeric>

#include "troupe/core/check.h"

namespace troupe::detail {

GradientPlan plan_of_one(const std::vector<std::int64_t>& sizes) {
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();
  return plan_buckets(sizes, order, {kEndless, kEndless});
}

GradientPlan plan_buckets(const std::vector<std::int64_t>& sizes,
                          const std::vector<std::size_t>& order, const BucketSizes& limits) {
  std::vector<std::size_t> whole = order;
  std::vector<char> known(sizes.size());
  for (const std::size_t parameter : order) {
    TROUPE_CHECK(parameter < sizes.size() && known[parameter] == 0);
    known[parameter] = 1;
  }
  for (std::size_t i = sizes.size(); i-- > 0;) {
    if (known[i] == 0) whole.push_back(i);
  }
  GradientPlan plan;
  plan.offsets.resize(sizes.size());
  plan.bucket_of.resize(sizes.size());
  plan.buckets.emplace_back();
  for (const std::size_t parameter : whole) {
    const GradientPlan::Bucket last = plan.buckets.back();
    const std::int64_t filled = last.end - last.begin;
    const bool first = plan.buckets.size() == 1;
    const bool full = first ? filled >= limits.first : filled + sizes[parameter] > limits.most;
    if (last.parameters > 0 && full) plan.buckets.push_back({last.end, last.end, 0});
    GradientPlan::Bucket& bucket = plan.buckets.back();
    plan.offsets[parameter] = bucket.end;
    plan.bucket_of[parameter] = plan.buckets.size() - 1;
    bucket.end += sizes[parameter];
    ++bucket.parameters;
  }
  return plan;
}

GradientPlan divided(GradientPlan plan, const std::vector<std::int64_t>& sizes,
                     const std::vector<int>& owners, int count) {
  std::vector<std::int64_t> next;  // by bucket
  for (const auto& bucket : plan.buckets) next.push_back(bucket.begin);
  for (int owner = 0; owner < count; ++owner) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (owners[i] != owner) continue;
      std::int64_t& end = next[plan.bucket_of[i]];
      plan.offsets[i] = end;
      end += sizes[i];
    }
    for (std::size_t k = 0; k < next.size(); ++k) {
      plan.buckets[k].ends.push_back(next[k] - plan.buckets[k].begin);
    }
  }
  return plan;
}

}  // namespace troupe::detail
