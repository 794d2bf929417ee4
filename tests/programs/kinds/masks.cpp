// Losses of which some examples, shares or parts have none: masked tokens, images without objects;
// rows that few examples use.
#include "tests/programs/nets.h"

namespace troupe::programs::masks {

torch::optim::SGDOptions options() { return torch::optim::SGDOptions(0.05).momentum(0.9); }

/// The mean over the rows that hold an object; most shares have none.
at::Tensor masked(const at::Tensor& losses, const at::Tensor& object) {
  return (losses * object).sum() / object.sum();
}

Result plain(const Shares& /*cut*/) {
  const auto net = initialized(std::make_shared<NetImpl>());
  torch::optim::SGD sgd(net->parameters(), options());
  std::vector<double> losses;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const Rows rows = Shares().of(step).front();
    clear_gradients(sgd);
    const at::Tensor loss = masked(squares(net->forward(rows.x), rows.y), rows.object);
    backward(loss);
    sgd.step();
    losses.push_back(loss.item<double>());
  }
  return {std::move(losses), error_of(*net), tensors_of(*net)};
}

class MaskedHooks : public NetHooks<NetImpl> {
 public:
  [[nodiscard]] Trainable create_model() const override {
    const auto net = initialized(std::make_shared<NetImpl>());
    return {net, std::make_shared<torch::optim::SGD>(net->parameters(), options())};
  }
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    const Rows rows = rows_of(batch);
    const at::Tensor loss =
        replica.global_mean(squares(replica.model<NetImpl>().forward(rows.x), rows.y), rows.object);
    replica.apply_gradients(loss);
    return loss;
  }
};

const bool added_masked = add(
    {"a share in which no example counts", plain, [] { return std::make_unique<MaskedHooks>(); }});

/// The same without a forward pass where there is no object: a loss without a graph.
class ObjectHooks : public MaskedHooks {
 public:
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    const Rows rows = rows_of(batch);
    const bool has_any = rows.object.sum().item<double>() > 0;
    const at::Tensor losses = has_any ? squares(replica.model<NetImpl>().forward(rows.x), rows.y)
                                      : torch::zeros({rows.size()}, rows.x.options());
    const at::Tensor loss = replica.global_mean(losses, rows.object);
    replica.apply_gradients(loss);
    return loss;
  }
};

const bool added_object =
    add({"a share without a graph", plain, [] { return std::make_unique<ObjectHooks>(); }});

/// A learned vector is added to the inputs: an embedding of one row, a prompt.
struct PromptedImpl : NetImpl {
  PromptedImpl() { prompt = register_parameter("prompt", torch::zeros({1, kInputs}, real())); }
  at::Tensor forward(const at::Tensor& x) { return NetImpl::forward(x + prompt); }
  at::Tensor prompt;
};

Result plain_prompted(const Shares& cut) {
  const auto net = initialized(std::make_shared<PromptedImpl>());
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  auto losses = plain_loop(cut, *net, sgd, [&](const Rows& rows, std::int64_t) {
    return squares(net->forward(rows.x), rows.y);
  });
  return {std::move(losses), error_of(*net), tensors_of(*net)};
}

const bool added_prompted = add(
    {"learned inputs", plain_prompted, [] { return std::make_unique<NetHooks<PromptedImpl>>(); }});

/// Tokens whose rows of a table are summed; the gradient is sparse.
struct WordsImpl : torch::nn::Module {
  WordsImpl() {
    table = register_module("table",
                            torch::nn::Embedding(torch::nn::EmbeddingOptions(10, 5).sparse(true)));
    out = register_module("out", torch::nn::Linear(5, 1));
  }
  at::Tensor forward(const at::Tensor& tokens) {
    return out->forward(torch::tanh(table->forward(tokens).sum(1)));
  }
  torch::nn::Embedding table{nullptr};
  torch::nn::Linear out{nullptr};
};

double error_of_words(WordsImpl& net) {
  const torch::NoGradGuard no_grad;
  const Rows all = all_rows();
  return squares(net.forward(all.tokens), all.y).mean().item<double>();
}

Result plain_words(const Shares& cut) {
  const auto net = initialized(std::make_shared<WordsImpl>());
  torch::optim::SGD sgd(net->parameters(), 0.05);
  auto losses = plain_loop(cut, *net, sgd, [&](const Rows& rows, std::int64_t) {
    return squares(net->forward(rows.tokens), rows.y);
  });
  return {std::move(losses), error_of_words(*net), tensors_of(*net)};
}

class WordHooks : public ProgramHooks {
 public:
  explicit WordHooks(bool by_adam) : by_adam_(by_adam) {}
  [[nodiscard]] Trainable create_model() const override {
    const auto net = initialized(std::make_shared<WordsImpl>());
    if (by_adam_) return {net, std::make_shared<torch::optim::Adam>(net->parameters(), 0.01)};
    return {net, std::make_shared<torch::optim::SGD>(net->parameters(), 0.05)};
  }

 protected:
  [[nodiscard]] at::Tensor errors(Replica& replica, const Rows& rows) const override {
    return squares(replica.model<WordsImpl>().forward(rows.tokens), rows.y);
  }

 private:
  const bool by_adam_;
};

std::map<Column, Expected> everywhere(const Expected& expected) {
  std::map<Column, Expected> all;
  for (const auto& [column, title] : columns()) all.emplace(column, expected);
  return all;
}

const bool added_words =
    add({"sparse embedding", plain_words, [] { return std::make_unique<WordHooks>(false); }});
const bool added_adam =
    add({"sparse embedding by Adam", plain_words, [] { return std::make_unique<WordHooks>(true); },
         everywhere(refused("has sparse gradients, which optimizer \"optimizer\" does not take"))});

class LbfgsHooks : public NetHooks<NetImpl> {
 public:
  [[nodiscard]] Trainable create_model() const override {
    const auto net = initialized(std::make_shared<NetImpl>());
    return {net, std::make_shared<torch::optim::LBFGS>(net->parameters())};
  }
};
const bool added_lbfgs = add({"LBFGS", plain, [] { return std::make_unique<LbfgsHooks>(); },
                              everywhere(refused("is an LBFGS"))});

/// Layers that were never registered, all or one of them; an optimiser without parameters; a
/// registered weight that another tensor has replaced; a loss that was cut from its graph.
struct ForgottenImpl : NetImpl {
  ForgottenImpl() { side->to(real()); }
  at::Tensor forward(const at::Tensor& x) { return NetImpl::forward(x) + side->forward(x); }
  torch::nn::Linear side{kInputs, 1};
};
const bool added_forgotten =
    add({"a layer that is not registered", plain,
         [] { return std::make_unique<NetHooks<ForgottenImpl>>(); },
         everywhere(refused("is a parameter of no model: nothing trains or saves it"))});

class ReplacedHooks : public NetHooks<NetImpl> {
 public:
  [[nodiscard]] Trainable create_model() const override {
    Trainable made = NetHooks<NetImpl>::create_model();
    auto& net = dynamic_cast<NetImpl&>(*made.models.front().second);
    net.hidden->weight = torch::ones({8, kInputs}, real()).requires_grad_();
    return made;
  }
};
const bool added_replaced =
    add({"a weight that another tensor replaced", plain,
         [] { return std::make_unique<ReplacedHooks>(); },
         everywhere(refused("is a parameter of no model: nothing trains or saves it"))});

class EmptyHooks : public NetHooks<NetImpl> {
 public:
  [[nodiscard]] Trainable create_model() const override {
    const auto net = initialized(std::make_shared<NetImpl>());
    return {net, std::make_shared<torch::optim::SGD>(std::vector<at::Tensor>(), options())};
  }
};
const bool added_empty =
    add({"an optimiser without parameters", plain, [] { return std::make_unique<EmptyHooks>(); },
         everywhere(refused("owns no parameter"))});

class CutHooks : public NetHooks<NetImpl> {
 public:
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    const at::Tensor each = errors(replica, rows_of(batch)).detach();
    const at::Tensor loss = replica.global_mean(each);
    replica.apply_gradients(loss);
    return loss;
  }
};
const bool added_cut =
    add({"a loss without a graph", plain, [] { return std::make_unique<CutHooks>(); },
         everywhere(refused("found no gradient for any of its 4 parameters"))});

}  // namespace troupe::programs::masks
