"""What the words of a report mean, for readers who did not write the paper."""

from fediac.report.number_words import GAMMA

WORDS = (
    (
        "round",
        "Every client trains for a while, then all agree on one mean update.",
    ),
    (
        "accuracy",
        "Share of the test data that the common model gets right after a round.",
    ),
    (
        "simulated time",
        "Seconds by the simulator's clock, from the start of the run: training, links, "
        "queues and the switch. Not the time this computer took.",
    ),
    (
        "fast, slow",
        "Switches that serve a packet in 0.303 or 3.03 microseconds, unless the "
        "settings say otherwise. Both see the same rounds.",
    ),
    (
        "payload",
        "What all clients send and receive, without headers; 1 MiB is 2^20 bytes.",
    ),
    ("wire", "The same as real packets, with every header."),
    (
        "phase",
        "One exchange of a round: votes, levels (rounded values), blocks, indexed "
        "values, peaks (largest magnitudes), statistics of batch norm, or a trip to a "
        "far server.",
    ),
    ("entries chosen", "Entries of an update that a client sends in a round."),
    (
        GAMMA,
        "Squared error of a round's compression, relative to the update; less is "
        "better. The paper's proof of convergence needs it below 1; runs above 1 can "
        "train well too. Near or above 1 is usual with few votes and alone no reason "
        "to worry: what is not sent is kept, and sent later. Clients that agree on "
        "ever fewer entries are one; the notes at the top say so then.",
    ),
    (
        "consensus",
        "The entries that clients agree on by their votes, and send. Where nothing is "
        "agreed on for several rounds, or ever less, the model stands nearly still.",
    ),
    (
        "second best",
        "Of the runs that reached the target, the one with the next least traffic; one "
        "of another algorithm where there is any, never a repeat with another seed.",
    ),
)
