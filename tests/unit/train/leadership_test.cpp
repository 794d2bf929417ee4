// Agreements of a group whose leader is lost while they are made.
#include "troupe/train/leadership.h"

#include <string>
#include <utility>
#include <vector>

#include "tests/support/torch_prelude.h"
#include "tests/unit/train/fake_group.h"

namespace leadership_test {

using troupe::Outbox;
using troupe::detail::Leadership;
using troupe::detail::StepFlags;
using troupe::testing::FakeGroup;
using troupe::testing::view_of_group;

namespace {

/// Of this worker alone are calls real. Beside it is a worker that leads until it is lost, in the
/// collective of that number; then this worker is the chief, or another one is.
class LosingGroup final : public FakeGroup {
 public:
  LosingGroup(int lost_at, int own_rank_after)
      : FakeGroup(view_of_group(2, 1)), lost_at_(lost_at), after_(own_rank_after) {}
  void sum(troupe::Span<double> values) override {
    if (++sums == lost_at_) become(view_of_group(2, after_));
    // The vote of the other worker: in this test both ask for the same.
    StepFlags other;
    const bool other_leads = sums < lost_at_ || (after_ != 0 && sums > lost_at_);
    other.leads = other_leads;
    other.saved = other_leads ? 8 : 0;
    const std::vector<double> theirs = troupe::detail::to_values(other);
    for (std::size_t i = 0; i < theirs.size(); ++i) values[i] += theirs[i];
  }
  int sums = 0;

 private:
  int lost_at_;
  int after_;
};

struct Told {
  std::vector<std::string> records;
  Outbox outbox{Outbox::Role::follower};
  void add(const std::string& record) {
    outbox.add([this, record](bool again) { records.push_back(record + (again ? " again" : "")); });
  }
};

}  // namespace

TEST_SUITE("train") {
  TEST_CASE("leadership: what the leader has told is forgotten by the others") {
    LosingGroup group(/*lost_at=*/99, 0);
    Told told;
    Leadership leadership(group, told.outbox, {[] {}, [] { FAIL("nobody was lost"); }});
    told.add("step 1");
    CHECK(leadership.agree([] { return StepFlags(); }).leads == 1);
    CHECK(group.sums == 1);
    told.outbox.lead();
    CHECK(told.records.empty());
  }

  TEST_CASE(
      "leadership: the next leader tells what the lost one may not have, and all agree anew") {
    LosingGroup group(/*lost_at=*/2, /*own_rank_after=*/0);
    Told told;
    int begun = 0;
    int asked = 0;
    Leadership leadership(group, told.outbox, {[] {}, [&] { ++begun; }});
    told.add("step 1");
    (void)leadership.agree([] { return StepFlags(); });
    told.add("step 2");
    const StepFlags all = leadership.agree([&] {
      ++asked;
      return StepFlags();
    });
    CHECK(all.leads == 1);
    CHECK(asked == 2);
    CHECK(group.sums == 4);  // the lost one, the handing over, the agreement anew
    CHECK(begun == 1);
    CHECK((told.records == std::vector<std::string>{"step 2 again"}));
    told.add("step 3");
    CHECK(told.records.back() == "step 3");
  }

  TEST_CASE("leadership: a worker that leads early hands over at the next agreement") {
    // A step was healed, so it knows before the others have asked.
    LosingGroup group(/*lost_at=*/1, /*own_rank_after=*/0);
    std::vector<double> values(troupe::detail::to_values({}).size(), 0.0);
    group.sum(troupe::Span<double>(values));
    Told told;
    int asked = 0;
    Leadership leadership(group, told.outbox, {[] {}, [] {}});
    told.add("step 1");
    leadership.follow();
    CHECK((told.records == std::vector<std::string>{"step 1 again"}));
    (void)leadership.agree([&] {
      ++asked;
      return StepFlags();
    });
    CHECK(asked == 2);
    (void)leadership.agree([&] {
      ++asked;
      return StepFlags();
    });
    CHECK(asked == 3);
  }

  TEST_CASE("leadership: where another worker is next, this one keeps what is not known as told") {
    LosingGroup group(/*lost_at=*/1, /*own_rank_after=*/1);
    Told told;
    Leadership leadership(group, told.outbox, {[] {}, [] { FAIL("another worker leads"); }});
    told.add("step 1");
    int asked = 0;
    (void)leadership.agree([&] {
      StepFlags mine;
      mine.stop = ++asked > 0;  // why training ends is not said yet
      return mine;
    });
    CHECK(asked == 2);
    told.outbox.lead();
    CHECK((told.records == std::vector<std::string>{"step 1 again"}));
  }
}

}  // namespace leadership_test
