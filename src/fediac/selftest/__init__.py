"""A switch and its clients on this machine, tried through a network that loses packets.

`command` is where to begin.
"""
