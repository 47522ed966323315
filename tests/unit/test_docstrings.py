from fediac import FediAC, TopK
from fediac.docstrings import read_attributes, read_summary


class Silent:
    pass


def test_the_first_line_is_the_summary() -> None:
    assert read_summary(TopK) == "Top-k entries with indices at a parameter server"
    assert read_summary(Silent) == ""


def test_attributes_of_a_class_and_of_what_it_is_made_from() -> None:
    found = read_attributes(FediAC)
    assert found["residual"] == "Keep what is not sent, for the next round."
    assert found["n_votes"].startswith("Entries a client votes for (k): a count")
    assert "'bound', each client" in found["bits"]
    assert "\n" not in found["bits"]
    assert read_attributes(Silent) == {}
