"""Bytes <-> packets: the only place that knows how a packet is laid out."""
