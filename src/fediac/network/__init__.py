"""The switch as a process on UDP: the only package, with its callers, that has sockets.

`switch_process` is where to begin.
"""
