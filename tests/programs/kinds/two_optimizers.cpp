// Several optimisers: over one forward pass, or in turns, each with its own.
#include "tests/programs/nets.h"

namespace troupe::programs::two_optimizers {

struct Pair {
  std::shared_ptr<NetImpl> net = initialized(std::make_shared<NetImpl>());
  std::shared_ptr<torch::optim::SGD> body = std::make_shared<torch::optim::SGD>(
      net->hidden->parameters(), torch::optim::SGDOptions(0.05).momentum(0.5));
  std::shared_ptr<torch::optim::SGD> head = std::make_shared<torch::optim::SGD>(
      net->out->parameters(), torch::optim::SGDOptions(0.02).momentum(0.9));
};

at::Tensor penalty(const at::Tensor& y) { return y.pow(2).squeeze(1) * 0.1; }

/// The body learns the error, the head the error and a penalty, from one forward pass.
Result plain(const Shares& shares) {
  Pair all;
  std::vector<double> losses;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    double total = 0;
    std::vector<at::Tensor> gradients(4);
    clear_gradients(*all.body);
    clear_gradients(*all.head);
    for (const Rows& rows : shares.of(step)) {
      const at::Tensor y = all.net->forward(rows.x);
      const at::Tensor error = squares(y, rows.y).sum() / kBatch;
      const at::Tensor sum = error + penalty(y).sum() / kBatch;
      backward(error, all.net->hidden->parameters(), /*keeps_graph=*/true);
      backward(sum, all.net->out->parameters());
      total += error.item<double>();
    }
    all.body->step();
    all.head->step();
    losses.push_back(total);
  }
  return {std::move(losses), error_of(*all.net), tensors_of(*all.net)};
}

class JointHooks : public NetHooks<NetImpl> {
 public:
  explicit JointHooks(bool is_joint) : is_joint_(is_joint) {}
  [[nodiscard]] Trainable create_model() const override {
    const Pair made;
    return Trainable()
        .add_model("model", made.net)
        .add_optimizer("body", made.body)
        .add_optimizer("head", made.head);
  }
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    const Rows rows = rows_of(batch);
    const at::Tensor y = replica.model<NetImpl>().forward(rows.x);
    const at::Tensor error = squares(y, rows.y);
    const at::Tensor of_body = replica.global_mean(error);
    const at::Tensor of_head = replica.global_mean(error + penalty(y));
    if (is_joint_) {
      replica.apply_gradients({{of_body, "body"}, {of_head, "head"}});
    } else {
      replica.apply_gradients(of_body, "body");
      replica.apply_gradients(of_head, "head");
    }
    return {{"loss", of_body}, {"head", of_head}};
  }

 private:
  const bool is_joint_;
};

const bool added_joint = add(
    {"one forward pass, two optimisers", plain, [] { return std::make_unique<JointHooks>(true); }});

std::vector<Column> all_columns() {
  std::vector<Column> all;
  for (const auto& [column, title] : columns()) all.push_back(column);
  return all;
}
const bool added_apart =
    add({"one forward pass, two calls", plain, [] { return std::make_unique<JointHooks>(false); },
         in(all_columns(), refused("{{loss, \"a\"}, {other, \"b\"}}"))});

/// One loss for both.
Result plain_shared(const Shares& shares) {
  Pair all;
  std::vector<double> losses;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    clear_gradients(*all.body);
    clear_gradients(*all.head);
    double total = 0;
    for (const Rows& rows : shares.of(step)) {
      const at::Tensor loss = squares(all.net->forward(rows.x), rows.y).sum() / kBatch;
      backward(loss);
      total += loss.item<double>();
    }
    all.body->step();
    all.head->step();
    losses.push_back(total);
  }
  return {std::move(losses), error_of(*all.net), tensors_of(*all.net)};
}

class SharedHooks : public JointHooks {
 public:
  SharedHooks() : JointHooks(true) {}
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    const Rows rows = rows_of(batch);
    const at::Tensor loss =
        replica.global_mean(squares(replica.model<NetImpl>().forward(rows.x), rows.y));
    replica.apply_gradients(loss, {"body", "head"});
    return loss;
  }
};

const bool added_shared =
    add({"one loss, two optimisers", plain_shared, [] { return std::make_unique<SharedHooks>(); }});

/// In turns: the body in even steps, the head in odd ones.
Result plain_turns(const Shares& shares) {
  Pair all;
  std::vector<double> losses;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    torch::optim::SGD& sgd = step % 2 == 0 ? *all.body : *all.head;
    clear_gradients(*all.body);
    clear_gradients(*all.head);
    double total = 0;
    for (const Rows& rows : shares.of(step)) {
      const at::Tensor loss = squares(all.net->forward(rows.x), rows.y).sum() / kBatch;
      backward(loss);
      total += loss.item<double>();
    }
    sgd.step();
    losses.push_back(total);
  }
  return {std::move(losses), error_of(*all.net), tensors_of(*all.net)};
}

class TurnHooks : public JointHooks {
 public:
  TurnHooks() : JointHooks(true) {}
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    const Rows rows = rows_of(batch);
    const at::Tensor loss =
        replica.global_mean(squares(replica.model<NetImpl>().forward(rows.x), rows.y));
    replica.apply_gradients(loss, replica.progress().step % 2 == 0 ? "body" : "head");
    return loss;
  }
};

const bool added_turns =
    add({"two optimisers in turns", plain_turns, [] { return std::make_unique<TurnHooks>(); }});

/// Several updates on one batch.
Result plain_again(const Shares& shares) {
  const auto net = initialized(std::make_shared<NetImpl>());
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  std::vector<double> losses;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    double total = 0;
    for (int update = 0; update < 3; ++update) {
      clear_gradients(sgd);
      total = 0;
      for (const Rows& rows : shares.of(step)) {
        const at::Tensor loss = squares(net->forward(rows.x), rows.y).sum() / kBatch;
        backward(loss);
        total += loss.item<double>();
      }
      sgd.step();
    }
    losses.push_back(total);
  }
  return {std::move(losses), error_of(*net), tensors_of(*net)};
}

class AgainHooks : public NetHooks<NetImpl> {
 public:
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    StepResult result;
    for (int update = 0; update < 3; ++update)
      result = NetHooks<NetImpl>::train_step(replica, batch);
    return result;
  }
};

std::map<Column, Expected> again_exceptions() {
  auto all = in(kRepeated, refused("took two steps of optimizer \"optimizer\""));
  all.emplace(Column::servers, refused("two steps of optimizer"));
  return all;
}
const bool added_again = add({"several updates on one batch", plain_again,
                              [] { return std::make_unique<AgainHooks>(); }, again_exceptions()});

}  // namespace troupe::programs::two_optimizers
