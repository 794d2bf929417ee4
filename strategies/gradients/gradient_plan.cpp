#include "strategies/gradients/gradient_plan.h"

#include "core/check.h"

namespace troupe::detail {
namespace {

void add(GradientPlan& plan, std::size_t parameter, std::int64_t size) {
  GradientPlan::Bucket& bucket = plan.buckets.back();
  plan.offsets[parameter] = bucket.end;
  plan.bucket_of[parameter] = plan.buckets.size() - 1;
  bucket.end += size;
  ++bucket.parameters;
}

GradientPlan empty_plan(std::size_t parameters) {
  GradientPlan plan;
  plan.offsets.resize(parameters);
  plan.bucket_of.resize(parameters);
  plan.buckets.emplace_back();
  return plan;
}

}  // namespace

GradientPlan plan_of_one(const std::vector<std::int64_t>& sizes) {
  GradientPlan plan = empty_plan(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) add(plan, i, sizes[i]);
  return plan;
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
  GradientPlan plan = empty_plan(sizes.size());
  for (const std::size_t parameter : whole) {
    const GradientPlan::Bucket last = plan.buckets.back();
    const std::int64_t filled = last.end - last.begin;
    const bool first = plan.buckets.size() == 1;
    const bool full = first ? filled >= limits.first : filled + sizes[parameter] > limits.most;
    if (last.parameters > 0 && full) plan.buckets.push_back({last.end, last.end, 0});
    add(plan, parameter, sizes[parameter]);
  }
  return plan;
}

}  // namespace troupe::detail
