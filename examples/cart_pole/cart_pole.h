// examples/cart_pole/cart_pole.h -- a pole on a cart, to be kept upright by pushing the cart to the
// left or to the right. Source: A. Barto, R. Sutton, C. Anderson, "Neuronlike adaptive elements
// that can solve difficult learning control problems", IEEE Transactions on Systems, Man, and
// Cybernetics, 1983; constants and limits as in Gymnasium's CartPole-v1, which counts it as solved
// where episodes last 475 steps of 500 on average.
#pragma once

#include <cmath>

#include "troupe.h"

struct CartPole {
  static constexpr int kNumbers = 4;  // that a policy sees: position, speed, angle, its speed
  static constexpr int kMostSteps = 500;

  /// What it stands at: kNumbers, and how many steps the episode has lasted; below 0: none has
  /// begun.
  double* row;

  [[nodiscard]] bool has_begun() const { return row[kNumbers] >= 0; }
  void reset(troupe::ExampleRandom& random) const {
    for (int i = 0; i < kNumbers; ++i) row[i] = random.uniform(-0.05F, 0.05F);
    row[kNumbers] = 0;
  }
  [[nodiscard]] bool has_fallen() const {
    return std::abs(row[0]) > 2.4 || std::abs(row[2]) > 12 * 3.14159265358979 / 180;
  }
  [[nodiscard]] bool is_over() const { return has_fallen() || row[kNumbers] >= kMostSteps; }

  /// One push, for a fiftieth of a second.
  void push(bool right) const {
    constexpr double kGravity = 9.8, kPole = 0.1, kBoth = 1.1, kHalfLength = 0.5, kForce = 10;
    constexpr double kSeconds = 0.02;
    const double sine = std::sin(row[2]);
    const double cosine = std::cos(row[2]);
    const double pushed =
        ((right ? kForce : -kForce) + kPole * kHalfLength * row[3] * row[3] * sine) / kBoth;
    const double turned = (kGravity * sine - cosine * pushed) /
                          (kHalfLength * (4.0 / 3 - kPole * cosine * cosine / kBoth));
    const double moved = pushed - kPole * kHalfLength * turned * cosine / kBoth;
    row[0] += kSeconds * row[1];
    row[1] += kSeconds * moved;
    row[2] += kSeconds * row[3];
    row[3] += kSeconds * turned;
    row[kNumbers] += 1;
  }
};
