import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fediac.core.rng import Stream
from fediac.training.cpu import CpuEngine
from fediac.training.local import LocalResult, draw_batches, normalize
from fediac.training.local_settings import LocalSettings
from fediac.training.models import Builder, Shape
from tests.tiny import N_CLASSES, SHAPE, normed_model, plain_model, seeded, tiny_dataset

DATA = tiny_dataset()
CLIENTS = np.array_split(np.arange(len(DATA.train)), 4)
SETTINGS = LocalSettings(steps=3, batch_size=8)
EVERYONE = [0, 1, 2, 3]

Make = Callable[..., CpuEngine]


def pooled_model(shape: Shape, n_classes: int) -> nn.Module:
    """Return a model whose layers the compiled kernels can do."""
    return nn.Sequential(
        *(nn.Conv2d(shape[0], 16, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(16, n_classes)),
    )


def dropped_model(shape: Shape, n_classes: int) -> nn.Module:
    """Return a model that forgets half of what it sees while it trains."""
    n_pixels = shape[0] * shape[1] * shape[2]
    return nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(n_pixels, n_classes))


def counted_model(shape: Shape, n_classes: int) -> nn.Module:
    """Return a model whose batch norm weighs a batch by how many came before it."""
    norm = nn.BatchNorm1d(n_classes, momentum=None)
    return nn.Sequential(plain_model(shape, n_classes), norm)


class Spy(nn.Module):
    """A model that says how many threads an operation may use where it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = plain_model(SHAPE, N_CLASSES)
        self.seen = set[int]()

    def __deepcopy__(self, memo: object) -> "Spy":
        other = Spy()
        other.seen = self.seen
        return other

    def forward(self, images: Tensor) -> Tensor:
        self.seen.add(torch.get_num_threads())
        scores: Tensor = self.inner(images)
        return scores


@pytest.fixture
def make() -> Iterator[Make]:
    engines = []

    def build(
        model: Callable[[Shape, int], nn.Module] = normed_model,
        *,
        n_at_once: int = 2,
        settings: LocalSettings = SETTINGS,
    ) -> CpuEngine:
        engines.append(
            CpuEngine(
                lambda: seeded(model),
                DATA,
                CLIENTS,
                settings,
                seed=5,
                n_at_once=n_at_once,
            )
        )
        return engines[-1]

    yield build
    for engine in engines:
        engine.close()


@pytest.fixture
def two_threads() -> Iterator[None]:
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


def bits_of(results: list[LocalResult]) -> list[tuple[bytes, bytes, float]]:
    return [
        (each.update.numpy().tobytes(), each.statistics.numpy().tobytes(), each.loss)
        for each in results
    ]


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("model", [normed_model, pooled_model, dropped_model])
def test_results_have_the_same_bits_however_many_train_at_once(
    make: Make, model: Builder
) -> None:
    alone = make(model, n_at_once=1)
    expected = bits_of(alone.train(EVERYONE, round_number=1, rate=0.1))
    for n_at_once in (2, 4, 7):
        engine = make(model, n_at_once=n_at_once)
        for _ in range(2):  # again in threads that have trained other clients
            results = engine.train(EVERYONE, round_number=1, rate=0.1)
            assert bits_of(results) == expected
        evaluation = engine.evaluate()
        assert evaluation == alone.evaluate()


@pytest.mark.usefixtures("two_threads")
def test_a_client_trains_on_one_thread_and_the_number_is_put_back(make: Make) -> None:
    spy = Spy()
    engine = make(lambda _shape, _n: spy)
    engine.train(EVERYONE, round_number=1, rate=0.1)
    engine.evaluate()
    assert spy.seen == {1}
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("model", [normed_model, counted_model, dropped_model])
def test_results_do_not_depend_on_who_else_trains(make: Make, model: Builder) -> None:
    engine = make(model, n_at_once=1)
    together = bits_of(engine.train(EVERYONE, round_number=2, rate=0.1))
    alone = bits_of(engine.train([2], round_number=2, rate=0.1))
    assert alone == [together[2]]
    assert together[0] != together[1]
    assert bits_of(engine.train([2], round_number=3, rate=0.1)) != alone


def test_dropout_neither_reads_nor_moves_pytorchs_generator(make: Make) -> None:
    engine = make(dropped_model)
    before = torch.get_rng_state()
    first = bits_of(engine.train([1], round_number=1, rate=0.1))
    assert torch.equal(torch.get_rng_state(), before)
    with torch.random.fork_rng(devices=[]):
        torch.rand(3)  # somebody else draws
        assert bits_of(engine.train([1], round_number=1, rate=0.1)) == first


@pytest.mark.parametrize("model", [plain_model, pooled_model])
def test_an_update_is_what_plain_sgd_subtracts(make: Make, model: Builder) -> None:
    engine = make(model)
    result = engine.train([1], round_number=4, rate=0.05)[0]
    module = seeded(model)
    weights = list(module.parameters())
    optimizer = torch.optim.SGD(weights, lr=0.05)
    images, labels = normalize(DATA.train, DATA)
    losses = []
    for batch in draw_batches(len(CLIENTS[1]), SETTINGS, Stream(5, 4, 1)):
        chosen = torch.from_numpy(CLIENTS[1])[batch]
        loss = functional.cross_entropy(module(images[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call] # torch has none
        optimizer.step()
        losses.append(loss.item())
    assert result.loss == pytest.approx(np.mean(losses), rel=1e-6)
    before, place = engine.model.parameters, 0
    for each in weights:
        # Entries of a convolution lie channels last, as in the flat model.
        after = each.detach()
        after = after.permute(0, 2, 3, 1) if after.dim() == 4 else after
        part = slice(place, place + each.numel())
        change = before[part] - after.reshape(-1)
        # Three steps of additions in another order: a few units in the last place of
        # weights below 1.
        torch.testing.assert_close(result.update[part], change, atol=1e-6, rtol=0)
        place += each.numel()


def test_training_leaves_the_global_model_and_the_generator_alone(make: Make) -> None:
    before = torch.random.get_rng_state()
    engine = make(n_at_once=3)
    parameters, statistics = (
        engine.model.parameters.clone(),
        engine.model.statistics.clone(),
    )
    result = engine.train(EVERYONE, round_number=1, rate=0.1)[0]
    engine.evaluate()
    assert torch.equal(engine.model.parameters, parameters)
    assert torch.equal(engine.model.statistics, statistics)
    assert bool(result.update.any())
    assert bool(result.statistics.any())
    assert torch.equal(torch.random.get_rng_state(), before)


def test_training_starts_from_the_current_global_model(make: Make) -> None:
    engine = make()
    first = bits_of(engine.train(EVERYONE, round_number=1, rate=0.1))
    engine.model.parameters.mul_(0.5)
    assert bits_of(engine.train(EVERYONE, round_number=1, rate=0.1)) != first


def test_clients_may_start_from_statistics_of_their_own(make: Make) -> None:
    engine = make()
    plain = engine.train([0, 1], round_number=1, rate=0.1)
    start = engine.model.statistics
    own = {0: start, 1: start + 1.0, 2: start}
    results = engine.train([0, 1], round_number=1, rate=0.1, statistics=own)
    assert bits_of(results[:1]) == bits_of(plain[:1])
    # Running statistics do not enter training, and m steps of momentum 0.1 leave 0.9^m
    # of what they were: the change differs by 1 - 0.9^3 of what was added.
    assert torch.equal(results[1].update, plain[1].update)
    more = results[1].statistics - plain[1].statistics
    torch.testing.assert_close(more, torch.full_like(more, 1 - 0.9**3))


def test_evaluation_counts_the_whole_test_set(make: Make) -> None:
    engine = make(plain_model)
    module = seeded(plain_model).eval()
    images, labels = normalize(DATA.test, DATA)
    with torch.no_grad():
        scores = module(images)
    evaluation = engine.evaluate()
    right = float((scores.argmax(dim=1) == labels).float().mean())
    assert evaluation.accuracy == pytest.approx(right)
    loss = float(functional.cross_entropy(scores, labels))
    assert evaluation.loss == pytest.approx(loss, rel=1e-5)


def test_evaluation_in_parts_is_that_of_the_whole(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = make().evaluate()
    monkeypatch.setattr("fediac.training.cpu.engine.EVALUATION_BATCH", 7)
    parts = make().evaluate()
    assert parts.accuracy == whole.accuracy
    assert parts.loss == pytest.approx(whole.loss, rel=1e-5)


def test_images_have_the_mean_and_deviation_of_the_training_set() -> None:
    images, labels = normalize(DATA.train, DATA)
    assert float(images.mean()) == pytest.approx(0.0, abs=1e-5)
    assert float(images.std(correction=0)) == pytest.approx(1.0, rel=1e-5)
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert labels.tolist() == DATA.train.labels.tolist()


def test_a_client_with_less_than_a_batch_trains_on_all_it_has(make: Make) -> None:
    settings = LocalSettings(epochs=2, batch_size=1000)
    result = make(settings=settings).train([3], round_number=1, rate=0.1)[0]
    assert result.n_examples == len(CLIENTS[3])
    assert result.n_trained == 2 * len(CLIENTS[3])


def test_every_client_reports_when_it_is_done(make: Make) -> None:
    done = threading.Semaphore(0)
    make().train(EVERYONE, round_number=1, rate=0.1, client_done=done.release)
    assert all(done.acquire(blocking=False) for _ in EVERYONE)
    assert not done.acquire(blocking=False)


def test_a_closed_engine_stops_between_two_steps(make: Make) -> None:
    engine = make(n_at_once=2, settings=replace(SETTINGS, steps=20_000))
    started = threading.Event()
    engine.model.module.register_forward_hook(lambda *_: started.set())
    outcome: list[BaseException] = []

    def train() -> None:
        try:
            engine.train(EVERYONE, round_number=1, rate=0.01)
        except CancelledError as error:
            outcome.append(error)

    thread = threading.Thread(target=train)
    thread.start()
    assert started.wait(timeout=60)
    engine.close()
    thread.join(timeout=60)
    assert len(outcome) == 1
