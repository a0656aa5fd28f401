"""Saved calls: files that hold one call and its inputs, and what replays them."""
