#!/usr/bin/env python3
"""Ten steps of examples/muon's optimiser in NumPy, written from its paper and not from the C++.

    python3 tests/interop/muon_reference.py > tests/golden/muon.txt

y = W2 tanh(W1 x + b1) + b2 on 12 examples, mean squared error over all of them in every step, in
float64. W1 [7, 3] and W2 [2, 7] are Muon's, the biases its Adam's. Prints the loss before each step,
then every parameter, row by row. tests/unit/examples/muon_test.cpp computes the same by Troupe.

Source: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/
"""
import numpy as np

STEPS, RATE, DECAY, MOMENTUM = 10, 0.02, 0.1, 0.95
ADAM_RATE, BETA1, BETA2, EPS = 0.003, 0.9, 0.95, 1e-10


def wave(shape, frequency):
    """Fixed numbers between -1 and 1."""
    return np.sin(frequency * (1 + np.arange(np.prod(shape)))).reshape(shape)


def newton_schulz(g):
    x = g.T if g.shape[0] > g.shape[1] else g
    x = x / (np.sqrt((x * x).sum()) + 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
    return x.T if g.shape[0] > g.shape[1] else x


def main():
    x, target = wave((12, 3), 0.7), wave((12, 2), 1.3)
    p = {"b1": 0.1 * wave((7,), 2.9), "b2": 0.1 * wave((2,), 3.7),
         "w1": 0.5 * wave((7, 3), 1.9), "w2": 0.5 * wave((2, 7), 2.3)}
    first = {name: np.zeros_like(value) for name, value in p.items()}
    second = {name: np.zeros_like(value) for name, value in p.items()}
    for step in range(1, STEPS + 1):
        h = np.tanh(x @ p["w1"].T + p["b1"])
        error = h @ p["w2"].T + p["b2"] - target
        print("loss", repr(float((error ** 2).sum(1).mean())))
        dy = 2 * error / len(x)
        dh = dy @ p["w2"] * (1 - h ** 2)
        gradient = {"b1": dh.sum(0), "b2": dy.sum(0), "w1": dh.T @ x, "w2": dy.T @ h}
        for name, g in gradient.items():
            if g.ndim == 2:
                first[name] = MOMENTUM * first[name] + (1 - MOMENTUM) * g
                nesterov = (1 - MOMENTUM) * g + MOMENTUM * first[name]
                update = newton_schulz(nesterov) * max(1, g.shape[0] / g.shape[1]) ** 0.5
                rate = RATE
            else:
                first[name] = BETA1 * first[name] + (1 - BETA1) * g
                second[name] = BETA2 * second[name] + (1 - BETA2) * g * g
                update = first[name] / (1 - BETA1 ** step)
                update = update / (np.sqrt(second[name] / (1 - BETA2 ** step)) + EPS)
                rate = ADAM_RATE
            p[name] = p[name] * (1 - rate * DECAY) - rate * update
    for name, value in sorted(p.items()):
        print(name, *(repr(float(v)) for v in value.ravel()))


main()
