// Gradients that travel while backward computes: the same bits as after it, whatever the buckets.
#include "tests/unit/strategies/overlap_runs.h"

namespace overlap_test {

using troupe::Batch;
using troupe::Overlap;
using troupe::Replica;
using troupe::StepResult;
using troupe::text;
using namespace troupe::testing;  // NOLINT: a test

namespace {

/// Counts the sums of gradients by bucket.
class Counting final : public troupe::detail::Engine {
 public:
  Counting(std::unique_ptr<Engine> engine, std::vector<std::string>& sums)
      : engine_(std::move(engine)), sums_(sums) {}
  [[nodiscard]] bool is_exact() const override { return engine_->is_exact(); }
  [[nodiscard]] bool can_overlap() const override { return engine_->can_overlap(); }
  void all_reduce(const at::Tensor& flat, const troupe::detail::Summand& summand) override {
    sums_.push_back(summand.what);
    engine_->all_reduce(flat, summand);
  }

 private:
  std::unique_ptr<Engine> engine_;
  std::vector<std::string>& sums_;
};

}  // namespace

TEST_SUITE("strategies") {
  TEST_CASE("overlap: on, off and automatic, with buckets of any size, end with the same bits") {
    for (const int size : {2, 3}) {
      const Outcome expected = train_deep({Overlap::off, 256, size})[0];
      REQUIRE(expected.losses.size() == 12);
      CHECK(expected.losses.back() < expected.losses.front());
      for (const std::int64_t bytes : {4, 64, 256, 1 << 20}) {
        check_equal({Overlap::on, bytes, size}, expected);
      }
    }
    check_equal({Overlap::automatic}, train_deep({Overlap::off})[0]);
  }

  TEST_CASE("overlap: buckets travel from the second step on, the last layers' first") {
    std::vector<std::string> sums;
    const auto port = troupe::testing::free_port();
    troupe::testing::run_ranks(2, [&](int rank) {
      std::vector<std::string> others;
      std::vector<std::string>& own = rank == 0 ? sums : others;
      auto options = options_of(rank, 2, port);
      as({Overlap::on, 64})(options);
      const auto strategy = troupe::make_multi_worker(
          options, [&own](std::unique_ptr<troupe::detail::Engine> engine) {
            return std::make_unique<Counting>(std::move(engine), own);
          });
      (void)train_with(*strategy, Deep(), 1);
    });
    // One sum in the first step, the order, then every bucket in the two that follow.
    REQUIRE(sums.size() > 6);
    CHECK(sums[0].find("bucket") == std::string::npos);
    CHECK(sums[1].find("the order of apply_gradients") == 0);
    CHECK(sums[2].find("bucket 1 of ") != std::string::npos);
    CHECK((sums.size() - 2) % 2 == 0);
    CHECK(sums.back().find(text("bucket ", (sums.size() - 2) / 2, " of ")) != std::string::npos);
  }

  TEST_CASE("overlap: automatic sums after backward within a machine, and during it between two") {
    // How often a first bucket travels. `host`: where the first worker is; `told_of`: how many
    // workers share its machine, as it was told.
    const auto first_buckets = [](Overlap overlap, const std::string& host, int told_of = 0) {
      std::array<std::vector<std::string>, 2> sums;
      const auto port = troupe::testing::free_port();
      troupe::testing::run_ranks(2, [&](int rank) {
        troupe::StrategyOptions options = options_of(rank, 2, port);
        as({overlap, 64})(options);
        options.cluster.members[0].address = troupe::Endpoint{host, port};
        if (rank == 0) options.cluster.on_this_machine = told_of;
        const auto strategy =
            troupe::make_multi_worker(options, [&own = sums[static_cast<std::size_t>(rank)]](
                                                   std::unique_ptr<troupe::detail::Engine> engine) {
              return std::make_unique<Counting>(std::move(engine), own);
            });
        (void)train_with(*strategy, Deep(), 2);
      });
      CHECK(sums[0] == sums[1]);
      return std::count_if(sums[0].begin(), sums[0].end(), [](const std::string& what) {
        return what.find("bucket 1 of ") != std::string::npos;
      });
    };
    CHECK(first_buckets(Overlap::automatic, "127.0.0.1") == 0);
    CHECK(first_buckets(Overlap::automatic, "127.0.0.2") > 0);
    CHECK(first_buckets(Overlap::on, "127.0.0.1") > 0);
    CHECK(first_buckets(Overlap::off, "127.0.0.2") == 0);
    // What one worker was told about the others changes nothing: they all see who has met.
    CHECK(first_buckets(Overlap::automatic, "127.0.0.1", 1) == 0);
    CHECK(first_buckets(Overlap::automatic, "127.0.0.2", 2) > 0);
  }

  TEST_CASE("overlap: in parts, with a part that has no example, too") {
    for (const std::int64_t parts : {2, 3}) {
      const Outcome expected = train_deep({Overlap::off, 256, 3, parts})[0];
      check_equal({Overlap::on, 64, 3, parts}, expected);
    }
  }

  TEST_CASE("overlap: parameters that nobody, or only one worker, used") {
    class OnOne final : public Deep {
     public:
      explicit OnOne(int from) : from_(from) {}
      [[nodiscard]] bool uses_side(const Replica& replica) const override {
        return replica.place().index >= from_;
      }

     private:
      int from_;
    };
    for (const int from : {1, 2}) {  // the second one; nobody
      CAPTURE(from);
      const OnOne hooks(from);
      const Outcome expected = train_deep({Overlap::off}, hooks)[0];
      check_equal({Overlap::on, 64}, expected, hooks);
    }
    class CheckSide final : public Deep {
     public:
      [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
        auto result = Deep::train_step(replica, batch);
        if (replica.model<Net>().side->weight.grad().defined()) {
          throw std::runtime_error("a gradient for a parameter that nobody used");
        }
        return result;
      }
    };
    CHECK_NOTHROW((void)train_deep({}, CheckSide()));
  }

  TEST_CASE("overlap: two optimisers, one twice in a step") {
    class Gan final : public Deep {
     public:
      [[nodiscard]] troupe::Trainable create_model() const override {
        const auto one = std::make_shared<Net>();
        const auto two = std::make_shared<Net>();
        return troupe::Trainable()
            .add_model("model", one)
            .add_model("second", two)
            .add_optimizer("optimizer",
                           std::make_shared<torch::optim::SGD>(one->parameters(), 0.05))
            .add_optimizer("other", std::make_shared<torch::optim::Adam>(
                                        two->parameters(), torch::optim::AdamOptions(0.01)));
      }
      [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
        const auto both = [&] {
          const auto y =
              replica.model<Net>("second").forward(replica.model<Net>().forward(batch.fields[0]));
          return replica.global_mean(replica.loss("squared_error")(y, batch.fields[1]));
        };
        replica.apply_gradients(both(), "optimizer");
        replica.apply_gradients(both(), "other");
        const auto loss = both();
        replica.apply_gradients(loss, "optimizer");
        return loss;
      }
    };
    const Outcome expected = train_deep({Overlap::off}, Gan())[0];
    CHECK(expected.hash != train_deep({Overlap::off}, Gan(), 1)[0].hash);
    check_equal({Overlap::on, 64}, expected, Gan());
  }

  TEST_CASE("overlap: interrupted at every step equals uninterrupted, bit for bit") {
    check_interruptions(5, [](const auto& dir, std::int64_t steps, bool is_whole) {
      return on_workers(
          2,
          [&](troupe::Strategy& strategy) {
            return train_alone(strategy, Deep(), quiet_options(steps, 4, dir));
          },
          as({is_whole ? Overlap::off : Overlap::on, 64}));
    });
  }
}

}  // namespace overlap_test
