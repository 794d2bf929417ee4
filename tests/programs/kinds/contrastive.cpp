// Losses that compare the examples of all replicas: by all_gather they are what the whole batch
// makes them.
#include "tests/programs/nets.h"

namespace troupe::programs::contrastive {

/// [B, 6] to embeddings [B, 8] of length 1.
struct EncoderImpl : torch::nn::Module {
  EncoderImpl() { hidden = register_module("hidden", torch::nn::Linear(kInputs, 8)); }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = torch::tanh(hidden->forward(x));
    return y / y.norm(2, 1, /*keepdim=*/true);
  }
  torch::nn::Linear hidden{nullptr};
};

/// Two views of each example.
std::pair<at::Tensor, at::Tensor> views(EncoderImpl& net, const Rows& rows) {
  return {net.forward(rows.x), net.forward(rows.x * 1.1 + rows.y)};
}

/// [B]: how hard each first view finds its second one among `others` [N, 8], which begin with the
/// own ones at `begin`. Source: van den Oord, Li and Vinyals 2018 (InfoNCE).
at::Tensor losses_among(const at::Tensor& own, const at::Tensor& others, std::int64_t begin) {
  const at::Tensor target = begin + torch::arange(own.size(0));
  return torch::nll_loss(torch::log_softmax(own.mm(others.t()) / 0.5, 1), target, {},
                         at::Reduction::None);
}

/// Cross-correlation of the views over all rows, which should be the unit matrix. Source: Zbontar
/// et al. 2021 (Barlow Twins).
at::Tensor twin_loss(const at::Tensor& one, const at::Tensor& other) {
  const auto rows = static_cast<double>(one.size(0));
  const at::Tensor correlation = one.t().mm(other) / rows;
  return (correlation - torch::eye(8).to(one.options())).pow(2).sum();
}

/// Both kinds of loss: one for each example, and one number for all.
struct Loss {
  std::function<at::Tensor(EncoderImpl& net, const Rows& rows)> plain;             // [B]
  std::function<at::Tensor(Replica& replica, EncoderImpl& net, const Rows&)> own;  // [B]
};

const Loss kInfoNce = {[](EncoderImpl& net, const Rows& rows) {
                         const auto [one, other] = views(net, rows);
                         return losses_among(one, other, 0);
                       },
                       [](Replica& replica, EncoderImpl& net, const Rows& rows) {
                         const auto [one, other] = views(net, rows);
                         const auto [all, begin] = replica.all_gather(other);
                         return losses_among(one, all, begin);
                       }};
const Loss kTwins = {[](EncoderImpl& net, const Rows& rows) {
                       const auto [one, other] = views(net, rows);
                       return twin_loss(one, other).expand({rows.size()});
                     },
                     [](Replica& replica, EncoderImpl& net, const Rows& rows) {
                       const auto [one, other] = views(net, rows);
                       return twin_loss(replica.all_gather(one).rows,
                                        replica.all_gather(other).rows)
                           .expand({rows.size()});
                     }};

Result plain(const Shares& cut, const Loss& loss) {
  const auto net = initialized(std::make_shared<EncoderImpl>());
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  auto losses = plain_loop(cut, *net, sgd,
                           [&](const Rows& rows, std::int64_t) { return loss.plain(*net, rows); });
  const torch::NoGradGuard no_grad;
  double error = 0;
  for (std::int64_t batch = 0; batch < kStepsOfEpoch; ++batch) {
    for (const Rows& rows : Shares().of(batch))
      error += loss.plain(*net, rows).sum().item<double>();
  }
  return {std::move(losses), error / kExamples, tensors_of(*net)};
}

class Contrastive final : public NetHooks<EncoderImpl> {
 public:
  explicit Contrastive(const Loss& loss) : loss_(loss) {}

 protected:
  [[nodiscard]] at::Tensor errors(Replica& replica, const Rows& rows) const override {
    return loss_.own(replica, replica.model<EncoderImpl>(), rows);
  }

 private:
  const Loss& loss_;
};

std::map<Column, Expected> exceptions() {
  auto all = in({Column::virtual_alone, Column::virtual_pair, Column::elastic},
                refused("needs all replicas at the same time"));
  all.emplace(Column::servers, refused("which no process has with synchronous parameter servers"));
  all.emplace(Column::accumulate, refused("--accumulate computes them in parts"));
  return all;
}
Program program(const char* kind, const Loss& loss) {
  return {kind, [&loss](const Shares& cut) { return plain(cut, loss); },
          [&loss] { return std::make_unique<Contrastive>(loss); }, exceptions()};
}
const bool added_each = add(program("a contrastive loss of each example", kInfoNce));
const bool added_one = add(program("one contrastive loss of all rows", kTwins));

}  // namespace troupe::programs::contrastive
