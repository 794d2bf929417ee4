#!/usr/bin/env python3
"""Writes a table of decisions that were made at random, with the reward of each:

    examples/actor_critic/make_decisions.py 2000 > decisions.csv

Staying is worth warmth - noise, left is worth noise, right is worth half of warmth.
"""
import random
import sys

draw = random.Random(1)
print("warmth,noise,action,reward")
for _ in range(int(sys.argv[1])):
    warmth, noise = draw.uniform(-1, 1), draw.uniform(-1, 1)
    action = draw.choice(["stay", "left", "right"])
    worth = {"stay": warmth - noise, "left": noise, "right": warmth / 2}[action]
    print(f"{warmth:.4f},{noise:.4f},{action},{worth + draw.gauss(0, 0.1):.4f}")
