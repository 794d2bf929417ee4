// Programs that train something else than their author means, on one replica or on several: the
// first step finds them. Beside each kind one that looks like it and is right.
#include "tests/programs/nets.h"

namespace troupe::programs::first_step {

std::vector<Column> all_columns() {
  std::vector<Column> all;
  for (const auto& [column, title] : columns()) all.push_back(column);
  return all;
}

/// Columns in which a step's gradient is a sum of several.
std::map<Column, Expected> where_divided(const Expected& expected) {
  auto all = in(all_columns(), expected);
  all.erase(Column::alone);
  all.erase(Column::averages);
  return all;
}

torch::optim::SGDOptions options() { return torch::optim::SGDOptions(0.05).momentum(0.9); }

template <class Losses>
Result plain(const Shares& cut, const Losses& losses_of) {
  const auto net = initialized(std::make_shared<NetImpl>());
  torch::optim::SGD sgd(net->parameters(), options());
  auto losses = plain_loop(cut, *net, sgd,
                           [&](const Rows& rows, std::int64_t) { return losses_of(*net, rows); });
  return {std::move(losses), error_of(*net), tensors_of(*net)};
}

Result plain_regression(const Shares& cut) {
  return plain(cut,
               [](NetImpl& net, const Rows& rows) { return squares(net.forward(rows.x), rows.y); });
}

/// How far each example is from the batch's mean: what contrastive and triplet losses have in
/// common is that an example's loss depends on the others.
at::Tensor coupled(NetImpl& net, const Rows& rows) {
  const at::Tensor y = net.forward(rows.x);
  return squares(y - y.mean(), rows.y);
}

class CoupledHooks : public NetHooks<NetImpl> {
 public:
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    const at::Tensor loss = replica.global_mean(coupled(replica.model<NetImpl>(), rows_of(batch)));
    replica.apply_gradients(loss);
    return loss;
  }
  [[nodiscard]] StepResult validation_step(Replica& replica, const Batch& batch) const override {
    replica.metric("error").update(errors(replica, rows_of(batch)));
    return replica.global_mean(coupled(replica.model<NetImpl>(), rows_of(batch)));
  }
};

Result plain_coupled(const Shares& cut) { return plain(cut, coupled); }

const bool added_coupled = add({"a loss that couples examples", plain_coupled,
                                [] { return std::make_unique<CoupledHooks>(); },
                                where_divided(refused("depends on which others share its batch"))});

/// The same, declared to be meant over a share.
class DeclaredHooks : public NetHooks<NetImpl> {
 public:
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    const at::Tensor loss = replica.local_loss(
        coupled(replica.model<NetImpl>(), rows_of(batch)).sum() / static_cast<double>(kBatch));
    replica.apply_gradients(loss);
    return loss;
  }
  [[nodiscard]] StepResult validation_step(Replica& replica, const Batch& batch) const override {
    replica.metric("error").update(errors(replica, rows_of(batch)));
    return replica.local_loss(coupled(replica.model<NetImpl>(), rows_of(batch)).sum());
  }
};

std::map<Column, Expected> as_shares() {
  auto all = where_divided(Expected{Expected::Kind::shares});
  all[Column::accumulate] = Expected{Expected::Kind::parts};
  return all;
}

const bool added_declared = add({"a triplet loss within a share, declared", plain_coupled,
                                 [] { return std::make_unique<DeclaredHooks>(); }, as_shares()});

/// A hook as of a regression, and something beside it.
class BesideHooks : public NetHooks<NetImpl> {
 public:
  using Act = std::function<void(Replica&, const Batch&)>;
  BesideHooks(Act before, Act after) : before_(std::move(before)), after_(std::move(after)) {}

  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    if (before_) before_(replica, batch);
    StepResult result = NetHooks::train_step(replica, batch);
    if (after_) after_(replica, batch);
    return result;
  }

 private:
  Act before_, after_;
};

auto beside(BesideHooks::Act before, BesideHooks::Act after = nullptr) {
  return [=] { return std::make_unique<BesideHooks>(before, after); };
}

void clip(Replica& replica, const Batch& /*batch*/) {
  torch::nn::utils::clip_grad_norm_(replica.model<NetImpl>().parameters(), 1e-3);
}

/// As a loop does before backward, or for gradients of the inputs.
void clear(Replica& replica, const Batch& /*batch*/) { clear_gradients(replica.optimizer()); }

void look_at_inputs(Replica& replica, const Batch& batch) {
  const at::Tensor x = batch.fields[0].detach().clone().requires_grad_();
  (void)torch::autograd::grad({replica.model<NetImpl>().forward(x).sum()}, {x});
}

void back(Replica& replica, const Batch& batch) {
  replica.model<NetImpl>().forward(batch.fields[0]).sum().backward();
}

const bool added_clip = add(
    {"gradients clipped after their use", plain_regression, beside(nullptr, clip),
     in(all_columns(), refused("after apply_gradients, when optimizer \"optimizer\" had taken"))});
const bool added_back =
    add({"backward in the hook", plain_regression, beside(back),
         in(all_columns(), refused("itself before apply_gradients, which makes the step's"))});
const bool added_cleared =
    add({"gradients cleared in the hook", plain_regression, beside(clear, clear)});
const bool added_inputs = add({"gradients of inputs", plain_regression, beside(look_at_inputs)});

/// A rate that each call lowers, and one that is a function of the step.
void lower(Replica& replica, const Batch& /*batch*/) {
  auto& group = replica.optimizer().param_groups().front().options();
  group.set_lr(group.get_lr() * 0.9);
}
void schedule(Replica& replica, const Batch& /*batch*/) {
  replica.optimizer().param_groups().front().options().set_lr(
      0.05 * std::pow(0.9, static_cast<double>(replica.progress().step + 1)));
}

Result plain_falling(const Shares& cut) {
  const auto net = initialized(std::make_shared<NetImpl>());
  torch::optim::SGD sgd(net->parameters(), options());
  auto losses = plain_loop(cut, *net, sgd, [&](const Rows& rows, std::int64_t step) {
    sgd.param_groups().front().options().set_lr(0.05 *
                                                std::pow(0.9, static_cast<double>(step + 1)));
    return squares(net->forward(rows.x), rows.y);
  });
  return {std::move(losses), error_of(*net), tensors_of(*net)};
}

const bool added_lower = add({"a rate that each call lowers", plain_falling, beside(lower),
                              in(kRepeated, refused("changed an optimiser's options"))});
const bool added_schedule = add({"a rate set from the step", plain_falling, beside(schedule)});

/// A function on a parameter's gradient, registered with the model.
template <class Made>
class RegisteredHooks : public NetHooks<NetImpl> {
 public:
  [[nodiscard]] Trainable create_model() const override {
    Trainable made = NetHooks::create_model();
    for (const auto& item : made.models.front().second->named_parameters()) {
      if (item.key() == "hidden.weight") item.value().register_hook(Made());
    }
    return made;
  }
};

struct Mask {
  at::Tensor operator()(const at::Tensor& gradient) const {
    const at::Tensor half = torch::zeros({4, 1}, gradient.options());
    return gradient * torch::cat({half, half + 1});
  }
};
struct Limit {
  at::Tensor operator()(const at::Tensor& gradient) const { return gradient.clamp(-0.01, 0.01); }
};

template <class Made>
Result plain_registered(const Shares& cut) {
  const auto net = initialized(std::make_shared<NetImpl>());
  net->hidden->weight.register_hook(Made());
  torch::optim::SGD sgd(net->parameters(), options());
  auto losses = plain_loop(cut, *net, sgd, [&](const Rows& rows, std::int64_t) {
    return squares(net->forward(rows.x), rows.y);
  });
  return {std::move(losses), error_of(*net), tensors_of(*net)};
}

const bool added_mask = add({"a mask registered on a gradient", plain_registered<Mask>,
                             [] { return std::make_unique<RegisteredHooks<Mask>>(); }});
const bool added_limit = add({"a limit registered on a gradient", plain_registered<Limit>,
                              [] { return std::make_unique<RegisteredHooks<Limit>>(); },
                              where_divided(refused("is not the sum of what it makes of each"))});

/// Rows of the data set's own memory, where they follow each other.
class Views final : public Dataset {
 public:
  Views() {
    const Rows all = all_rows();
    for (const at::Tensor& field : {all.x, all.y, all.label, all.tokens, all.object})
      fields_.push_back(field.clone());
  }
  [[nodiscard]] std::int64_t size() const override { return kExamples; }
  [[nodiscard]] std::vector<at::Tensor> get(const at::Tensor& indices) const override {
    const auto first = indices[0].item<std::int64_t>();
    const bool follows = indices.equal(torch::arange(first, first + indices.size(0), torch::kLong));
    std::vector<at::Tensor> rows;
    for (const at::Tensor& field : fields_)
      rows.push_back(follows ? field.narrow(0, first, indices.size(0)).variable_data()
                             : field.index_select(0, indices));
    return rows;
  }

 private:
  std::vector<at::Tensor> fields_;
};

class ViewHooks : public NetHooks<NetImpl> {
 public:
  explicit ViewHooks(bool copies) : copies_(copies) {}
  [[nodiscard]] Splits create_datasets() const override {
    Splits splits = NetHooks::create_datasets();
    splits.train = std::make_shared<Views>();
    return splits;
  }
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    Batch changed = batch;
    if (copies_) changed.fields[0] = batch.fields[0].clone();
    changed.fields[0].mul_(2);  // in the data set, where it is not a copy
    changed.fields[0].div_(2);
    if (!copies_) changed.fields[0].add_(1e-3);
    return NetHooks::train_step(replica, changed);
  }

 private:
  const bool copies_;
};

const bool added_views = add({"views changed in place", plain_regression,
                              [] { return std::make_unique<ViewHooks>(false); },
                              in(all_columns(), refused("returns memory of its own"))});
const bool added_copies = add({"copies changed in place", plain_regression,
                               [] { return std::make_unique<ViewHooks>(true); }});

/// Predictions [B, 1] beside targets [B].
class BroadcastHooks : public NetHooks<NetImpl> {
 public:
  explicit BroadcastHooks(bool squeezes) : squeezes_(squeezes) {}
  [[nodiscard]] LossSet create_losses() const override {
    return {{"mse", [squeezes = squeezes_](const at::Tensor& y, const at::Tensor& target) {
               if (squeezes) return (y.squeeze(1) - target).pow(2);
               return (y - target).pow(2).flatten(1).mean(1);
             }}};
  }
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    const Rows rows = rows_of(batch);
    at::Tensor each =
        replica.loss("mse")(replica.model<NetImpl>().forward(rows.x), rows.y.squeeze(1));
    const at::Tensor loss = replica.global_mean(each);
    replica.apply_gradients(loss);
    return loss;
  }

 private:
  const bool squeezes_;
};

const bool added_broadcast = add({"predictions [B, 1] beside targets [B]", plain_regression,
                                  [] { return std::make_unique<BroadcastHooks>(false); },
                                  in(all_columns(), refused("LibTorch broadcasts such shapes"))});

const bool added_squeezed = add({"targets [B], and a loss that squeezes", plain_regression,
                                 [] { return std::make_unique<BroadcastHooks>(true); }});

/// A number that is none, in one example of the third batch.
class SpoiltHooks : public NetHooks<NetImpl> {
 public:
  [[nodiscard]] Splits create_datasets() const override {
    Splits splits = NetHooks::create_datasets();
    const Rows all = all_rows();
    at::Tensor x = all.x.clone();
    x[2 * kBatch + 5][3] = std::nan("");
    splits.train = std::make_shared<TensorDataset>(
        std::vector<at::Tensor>{x, all.y, all.label, all.tokens, all.object});
    return splits;
  }
};

const bool added_spoilt =
    add({"a feature that is NaN", plain_regression, [] { return std::make_unique<SpoiltHooks>(); },
         in(all_columns(), refused("field 0 of training examples 37 is not finite"))});

}  // namespace troupe::programs::first_step
