"""Vote counters, bit-sliced: plane ``i`` holds bit ``i`` of every entry's counter.

One logic operation on a plane serves all its entries. Counters saturate at the largest
value their planes hold, which is at least the threshold, so they never wrap.
"""

from functools import reduce


def count_votes(planes: list[int], votes: int) -> list[int]:
    """Return the planes after one more client's votes, given as one long integer."""
    carry = votes & ~reduce(lambda left, right: left & right, planes)
    counted = []
    for plane in planes:
        counted.append(plane ^ carry)
        carry &= plane
    return counted


def reach_threshold(planes: list[int], threshold: int, n_bits: int) -> int:
    """Return the entries whose counter is at least ``threshold``, as one integer."""
    above, equal = 0, (1 << n_bits) - 1
    for place in reversed(range(len(planes))):
        plane = planes[place]
        if threshold >> place & 1:
            equal &= plane
        else:
            above |= equal & plane
            equal &= ~plane
    return above | equal
