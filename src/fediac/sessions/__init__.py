"""Rounds over a network, without the network: machines that take packets and a clock.

Every attempt at a round is a session with fixed members. Read `member` first: one of
them, from its join to its last answer; then `client` and `coordinator`.
"""
