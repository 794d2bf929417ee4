// Programs whose definition depends on what is computed together: statistics of a batch, gradients
// that are no sum over examples.
#include "tests/programs/nets.h"
#include "troupe/hooks/sync_batch_norm.h"

namespace troupe::programs::shares {

torch::optim::SGDOptions options() { return torch::optim::SGDOptions(0.05).momentum(0.9); }

/// Every column whose batches are cut comes to the loop that computes the pieces apart.
std::map<Column, Expected> as_cut() {
  std::map<Column, Expected> all;
  for (const auto& [column, title] : columns()) {
    if (column == Column::alone || column == Column::averages) continue;
    const bool is_parts = column == Column::accumulate;
    all.emplace(column, Expected{is_parts ? Expected::Kind::parts : Expected::Kind::shares});
  }
  return all;
}

template <class Norm>
struct NormedImpl : torch::nn::Module {
  NormedImpl() {
    hidden = this->register_module("hidden", torch::nn::Linear(kInputs, 8));
    norm = this->register_module("norm", Norm(8));
    out = this->register_module("out", torch::nn::Linear(8, 1));
  }
  at::Tensor forward(const at::Tensor& x) {
    return out->forward(torch::relu(norm->forward(hidden->forward(x))));
  }
  torch::nn::Linear hidden{nullptr}, out{nullptr};
  Norm norm{nullptr};
};
using PlainNormed = NormedImpl<torch::nn::BatchNorm1d>;
using SyncNormed = NormedImpl<SyncBatchNorm>;

std::vector<at::Tensor> copies(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& tensor : tensors) all.push_back(tensor.clone());
  return all;
}

/// Each share begins with the buffers that the step began with; afterwards they are the mean over
/// the shares. Parts of a share follow each other.
Result plain_normed(const Shares& cut) {
  const auto net = initialized(std::make_shared<PlainNormed>());
  torch::optim::SGD sgd(net->parameters(), options());
  std::vector<double> losses;
  auto buffers = net->buffers();
  for (std::int64_t step = 0; step < kSteps; ++step) {
    clear_gradients(sgd);
    double total = 0;
    const auto before = copies(buffers);
    std::vector<std::vector<at::Tensor>> after;
    for (const Rows& rows : cut.of(step)) {
      for (std::size_t i = 0; cut.shares > 1 && i < buffers.size(); ++i)
        buffers[i].copy_(before[i]);
      const at::Tensor loss = squares(net->forward(rows.x), rows.y).sum() / kBatch;
      backward(loss);
      total += loss.item<double>();
      after.push_back(copies(buffers));
    }
    sgd.step();
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; cut.shares > 1 && i < buffers.size(); ++i) {
      buffers[i].copy_(after.front()[i]);
      if (!buffers[i].is_floating_point() || cut.first_keeps) continue;
      at::Tensor sum = torch::zeros_like(buffers[i]);
      for (const auto& own : after) sum += own[i];
      buffers[i].copy_(sum / static_cast<double>(after.size()));
    }
    losses.push_back(total);
  }
  return {std::move(losses), error_of(*net), tensors_of(*net)};
}

template <class Net>
class NormedHooks : public NetHooks<Net> {
 public:
  [[nodiscard]] Trainable create_model() const override {
    const auto net = initialized(std::make_shared<Net>());
    return {net, std::make_shared<torch::optim::SGD>(net->parameters(), options())};
  }
};

const bool added_norm =
    add({"batch norm", plain_normed, [] { return std::make_unique<NormedHooks<PlainNormed>>(); },
         as_cut()});

std::map<Column, Expected> sync_exceptions() {
  auto all = in({Column::virtual_alone, Column::virtual_pair, Column::elastic},
                refused("needs all replicas at the same time"));
  all.emplace(Column::servers, refused("which no process has with synchronous parameter servers"));
  all.emplace(Column::accumulate, Expected{Expected::Kind::parts});
  return all;
}
const bool added_sync =
    add({"SyncBatchNorm", plain_normed, [] { return std::make_unique<NormedHooks<SyncNormed>>(); },
         sync_exceptions()});

/// A power iteration at each forward pass estimates the largest singular value.
struct SpectralImpl : torch::nn::Module {
  SpectralImpl() {
    hidden = register_module("hidden", torch::nn::Linear(kInputs, 8));
    out = register_module("out", torch::nn::Linear(8, 1));
    u = register_buffer("u", torch::ones({8}, real()) / std::sqrt(8.0));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor weight = hidden->weight;
    at::Tensor v;
    {
      const torch::NoGradGuard no_grad;
      v = torch::nn::functional::normalize(weight.t().mv(u),
                                           torch::nn::functional::NormalizeFuncOptions().dim(0));
      if (is_training())
        u.copy_(torch::nn::functional::normalize(
            weight.mv(v), torch::nn::functional::NormalizeFuncOptions().dim(0)));
    }
    const at::Tensor sigma = u.clone().dot(weight.mv(v));
    return out->forward(
        torch::tanh(torch::nn::functional::linear(x, weight / sigma, hidden->bias)));
  }
  torch::nn::Linear hidden{nullptr}, out{nullptr};
  at::Tensor u;
};

Result plain_spectral(const Shares& cut) {
  const auto net = initialized(std::make_shared<SpectralImpl>());
  torch::optim::SGD sgd(net->parameters(), options());
  auto losses = plain_loop(cut, *net, sgd, [&](const Rows& rows, std::int64_t) {
    return squares(net->forward(rows.x), rows.y);
  });
  return {std::move(losses), error_of(*net), tensors_of(*net)};
}

const bool added_spectral = add({"spectral norm", plain_spectral,
                                 [] { return std::make_unique<NormedHooks<SpectralImpl>>(); },
                                 in({Column::accumulate}, Expected{Expected::Kind::parts})});

std::vector<at::Tensor> gradients_of(const at::Tensor& loss, NetImpl& net,
                                     bool keeps_graph = false) {
  return torch::autograd::grad({loss}, net.parameters(), {}, keeps_graph);
}

/// PCGrad: of two losses' gradients each loses what points against the other.
std::vector<at::Tensor> surgery(NetImpl& net, const at::Tensor& one, const at::Tensor& other) {
  auto a = gradients_of(one, net, true);
  auto b = gradients_of(other, net);
  double dot = 0, of_a = 0, of_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    dot += (a[i] * b[i]).sum().item<double>();
    of_a += a[i].pow(2).sum().item<double>();
    of_b += b[i].pow(2).sum().item<double>();
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    const at::Tensor whole = a[i] + b[i];
    a[i] = dot >= 0 ? whole : whole - a[i] * (dot / of_a) - b[i] * (dot / of_b);
  }
  return a;
}

at::Tensor against(const at::Tensor& y) { return (y + 0.5).pow(2).squeeze(1); }

/// The loop of both: `make(net, rows)` gives a share's loss and the gradients that it makes itself.
template <class Make>
Result plain_own(const Shares& cut, const Make& make) {
  const auto net = initialized(std::make_shared<NetImpl>());
  torch::optim::SGD sgd(net->parameters(), options());
  std::vector<double> losses;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    clear_gradients(sgd);
    double total = 0;
    for (const Rows& rows : cut.of(step)) {
      const auto [loss, made] = make(*net, rows);
      auto parameters = net->parameters();
      for (std::size_t i = 0; i < made.size(); ++i) {
        at::Tensor& into = parameters[i].mutable_grad();
        into = into.defined() ? into + made[i] : made[i];
      }
      total += loss.template item<double>();
    }
    sgd.step();
    losses.push_back(total);
  }
  return {std::move(losses), error_of(*net), tensors_of(*net)};
}

Result plain_surgery(const Shares& cut) {
  return plain_own(cut, [](NetImpl& net, const Rows& rows) {
    const at::Tensor y = net.forward(rows.x);
    const at::Tensor loss = squares(y, rows.y).sum() / kBatch;
    return std::pair(loss, surgery(net, loss, against(y).sum() / kBatch));
  });
}

class SurgeryHooks : public NormedHooks<NetImpl> {
 public:
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    const Rows rows = rows_of(batch);
    auto& net = replica.model<NetImpl>();
    const at::Tensor y = net.forward(rows.x);
    const at::Tensor loss = replica.global_mean(squares(y, rows.y));
    replica.apply_gradients(surgery(net, loss, replica.global_mean(against(y))));
    return loss;
  }
};

const bool added_surgery =
    add({"PCGrad", plain_surgery, [] { return std::make_unique<SurgeryHooks>(); }, as_cut()});

/// SAM: the gradient is that of the weights a step uphill, from where they come back.
template <class Loss>
std::vector<at::Tensor> sharp(NetImpl& net, const at::Tensor& loss, const Loss& again) {
  auto first = gradients_of(loss, net);
  double norm = 0;
  for (const at::Tensor& gradient : first) norm += gradient.pow(2).sum().item<double>();
  auto parameters = net.parameters();
  const auto kept = [&] {
    const torch::NoGradGuard no_grad;
    return copies(parameters);
  }();
  const auto add_all = [&](const std::vector<at::Tensor>& values, double factor) {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].add_(values[i], factor);
  };
  add_all(first, 0.05 / std::sqrt(norm));
  auto second = gradients_of(again(), net);
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].copy_(kept[i]);
  return second;
}

Result plain_sharp(const Shares& cut) {
  return plain_own(cut, [](NetImpl& net, const Rows& rows) {
    const auto compute = [&] { return squares(net.forward(rows.x), rows.y).sum() / kBatch; };
    const at::Tensor loss = compute();
    return std::pair(loss, sharp(net, loss, compute));
  });
}

class SharpHooks : public NormedHooks<NetImpl> {
 public:
  [[nodiscard]] StepResult train_step(Replica& replica, const Batch& batch) const override {
    const Rows rows = rows_of(batch);
    auto& net = replica.model<NetImpl>();
    const auto compute = [&] { return replica.global_mean(squares(net.forward(rows.x), rows.y)); };
    const at::Tensor loss = compute();
    replica.apply_gradients(sharp(net, loss, compute));
    return loss;
  }
};

const bool added_sharp =
    add({"SAM", plain_sharp, [] { return std::make_unique<SharpHooks>(); }, as_cut()});

}  // namespace troupe::programs::shares
