"""Text from a model, a token at a time: greedy, sampled, or by beam search, over compiled steps with a cache.

A prompt goes through the model in pieces of 2^k tokens and every further token alone, so that a handful of programs
serve prompts of all lengths. Keys and values of what was read stay in a cache of fixed size.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

import tinygrad_lite as tl
from tinygrad_lite.nn import Module
from tinygrad_lite.tensor import Tensor

Array = np.ndarray[Any, Any]


class Decoder:
    """A model that remembers what it has read: `feed(ids)` gives the logits after each of them.

    Args:
        model: one with `make_cache`, called as model(ids, positions=…, cache=…), or with `step(ids, state)`.
        batch, capacity: rows, and tokens a row may have; capacity is the model's block_size by default.
        compiled: run native programs; else eagerly.
        quantised: keep the cache in int8.
        source: ids that an encoder–decoder reads first, once.

    Raises:
        ValueError: a capacity above block_size; a source without a model that reads one, or the other way round.
    """

    def __init__(
        self,
        model: Any,
        batch: int,
        capacity: int | None = None,
        *,
        compiled: bool = True,
        quantised: bool = False,
        source: Tensor | None = None,
    ) -> None:
        _check_source(model, source, batch)
        self.batch, self.length, self.quantised = batch, 0, quantised
        self.recurrent = not hasattr(model, "make_cache")
        block = getattr(model.config, "block_size", None)
        if block is not None and capacity is not None and capacity > block:
            raise ValueError(f"a capacity of {capacity} tokens exceeds block_size {block}")
        self.capacity = block if capacity is None else capacity
        self.extra: Any = None if self.recurrent else ()  # a recurrent state, or what was read of a source
        if self.recurrent:
            self.step = _recurrent_step(model)
        else:
            self.cache = model.make_cache(batch, self.capacity, quantised)
            self.step = _cached_step(model, self.cache, source is not None)
        if source is not None:
            with tl.no_grad():
                memory = model.encode(source)
            self.extra = (memory.projected, memory.padding)
        self.next_logits, self.compiled = self.step, compiled
        if compiled:
            self.step = tl.compile(self.step)

    def feed(self, ids: Tensor) -> Tensor:
        """Logits (B, T, vocab) of ids (B, T) that follow all that was fed before.

        Raises:
            ValueError: another batch size, or more tokens than the capacity.
        """
        if ids.dim() != 2 or ids.shape[0] != self.batch:
            raise ValueError(f"the decoder was made for batch size {self.batch}, got ids of shape {tuple(ids.shape)}")
        if self.capacity is not None and self.length + ids.shape[1] > self.capacity:
            total = self.length + ids.shape[1]
            raise ValueError(f"{total} tokens exceed the capacity of {self.capacity} tokens (at most block_size)")
        logits = []
        with tl.no_grad():
            spans = list(pieces(ids.shape[1]))
            for first, last in spans:
                logits.append(self._piece(ids if len(spans) == 1 else ids[:, first:last].contiguous()))
                self.length += last - first
        return logits[0] if len(logits) == 1 else tl.cat(logits, dim=1)

    def _piece(self, ids: Tensor) -> Tensor:
        if self.recurrent:
            logits, self.extra = self.step(ids, self.extra)
            return logits
        positions = tl.from_numpy(np.arange(self.length, self.length + ids.shape[1]))
        return self.step(ids, positions, self.extra)

    @functools.cached_property
    def writer(self) -> Writer:
        """What writes the tokens of `greedy`."""
        return Writer(self.next_logits, self.batch, self.capacity, self.compiled)

    def greedy(self, ids: Tensor, n: int) -> Tensor:
        """(B, n) tokens that follow: each the likeliest after all before it. The last of them is not read.

        A token is one run of one program, which also writes it down and counts on; between tokens nothing happens in
        Python.

        Raises:
            ValueError: as `feed`; a model without a cache.
        """
        if self.recurrent:
            raise ValueError("greedy needs a model with a cache; choose from feed()'s logits instead")
        if self.capacity is not None and self.length + ids.shape[1] + n - 1 > self.capacity:
            total = self.length + ids.shape[1] + n - 1
            raise ValueError(f"{total} tokens exceed the capacity of {self.capacity} tokens (at most block_size)")
        first = self.feed(ids)[:, -1].argmax(dim=-1, keepdim=True)
        text = self.writer.write(first, self.length, n, self.extra)
        self.length += n - 1
        return text

    def rewind(self, length: int = 0) -> None:
        """Forget all but the first `length` tokens: another text may continue the same prefix."""
        if not 0 <= length <= self.length or (self.recurrent and length not in (0, self.length)):
            raise ValueError(f"cannot go back to {length} of the {self.length} tokens read")
        if self.recurrent and length == 0:
            self.extra = None
        self.length = length

    def reorder(self, rows: Array) -> None:
        """Let row i continue what row rows[i] read."""
        index = tl.from_numpy(np.asarray(rows, np.int64))
        if self.recurrent:
            self.extra = _mapped(self.extra, lambda t: t.index_select(1, index))
        else:
            self.cache.reorder(index)
            self.extra = _mapped(self.extra, lambda t: t.index_select(0, index))

    def nbytes(self) -> int:
        """Bytes of what is remembered."""
        if self.recurrent:
            return sum(t.numel() * t.element_size() for t in _leaves(self.extra))
        return self.cache.nbytes()


class Writer:
    """Token after token into `text` (B, capacity): the token read last, and its place, are tensors in the program."""

    def __init__(self, logits: Callable[..., Tensor], batch: int, capacity: int, compiled: bool) -> None:
        self.token = tl.zeros(batch, 1, dtype=tl.int64)
        self.place = tl.zeros(1, dtype=tl.int64)
        self.text = tl.zeros(batch, capacity + 1, dtype=tl.int64)  # the last token is written, and never read
        self.compiled = compiled

        def advance(extra: Any) -> None:
            chosen = logits(self.token, self.place, extra)[:, -1].argmax(dim=-1, keepdim=True)
            self.place.add_(1)
            self.token.copy_(chosen)
            self.text.index_copy_(1, self.place, chosen)

        self.advance = tl.compile(advance) if compiled else advance

    def write(self, first: Tensor, place: int, n: int, extra: Any) -> Tensor:
        """(B, n): `first`, which comes at `place`, and the n - 1 tokens after it."""
        with tl.no_grad():
            self.token.copy_(first)
            self.place.fill_(place)
            if n > 1 and self.compiled:
                self.advance.repeat(n - 1, extra)
            for _ in range(0 if self.compiled else n - 1):
                self.advance(extra)
        return tl.cat([first, self.text[:, place + 1 : place + n]], dim=1)


def _cached_step(model: Any, cache: Any, crossed: bool) -> Callable[..., Any]:
    if not crossed:
        return lambda ids, positions, extra: model(ids, positions=positions, cache=cache)[0]
    from tinygrad_lite.models.t5 import Memory

    def step(ids: Tensor, positions: Tensor, extra: Any) -> Tensor:
        return model.decode(ids, Memory(*extra), positions, cache)

    return step


def _recurrent_step(model: Any) -> Callable[..., Any]:
    return lambda ids, state: model.step(ids, state)


def _mapped(tree: Any, fn: Callable[[Tensor], Tensor]) -> Any:
    if tree is None:
        return None
    if isinstance(tree, Tensor):
        return fn(tree)
    return type(tree)(_mapped(item, fn) for item in tree)


def _leaves(tree: Any) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    else:
        for item in tree or ():
            yield from _leaves(item)


def pieces(length: int) -> Iterator[tuple[int, int]]:
    """[first, last) of the powers of two that add up to a length, largest first."""
    start = 0
    for bit in reversed(range(length.bit_length())):
        if length >> bit & 1:
            yield start, start + (1 << bit)
            start += 1 << bit


# ---- one choice ------------------------------------------------------------------------------------------


class Sampling(NamedTuple):
    """How a token is chosen from logits.

    temperature 0 takes the likeliest; top_k keeps the k likeliest, top_p the likeliest that reach the probability p
    together (Holtzman et al. 2019); repetition_penalty divides positive and multiplies negative logits of tokens that
    occurred (Keskar et al. 2019).
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float = 1.0

    def check(self) -> None:
        """Raise ValueError for a value out of range."""
        if self.temperature < 0:
            raise ValueError(f"temperature must be at least 0, not {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k must be at least 1, not {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must lie in (0, 1], not {self.top_p}")
        if self.repetition_penalty <= 0:
            raise ValueError(f"repetition_penalty must be positive, not {self.repetition_penalty}")

    def choose(self, logits: Array, before: Array, rng: np.random.Generator) -> Array:
        """(B,) ids from logits (B, V), given the ids before them (B, T)."""
        if self.temperature != 0 or self.repetition_penalty != 1.0:
            logits = self.adjusted(logits, before)
        if self.temperature == 0:
            return logits.argmax(axis=-1)
        # Gumbel's trick: the largest of logits plus this noise is a draw from their softmax
        return (logits + rng.gumbel(size=logits.shape)).argmax(axis=-1)

    def adjusted(self, logits: Array, before: Array) -> Array:
        """Float64 logits as they are drawn from, -inf where a token is left out."""
        logits = logits.astype(np.float64)
        if self.repetition_penalty != 1.0:
            for row, seen in zip(logits, before, strict=True):
                ids = np.unique(seen)
                row[ids] = np.where(
                    row[ids] > 0, row[ids] / self.repetition_penalty, row[ids] * self.repetition_penalty
                )
        if self.temperature == 0:
            return logits
        logits = logits / self.temperature
        if self.top_k is not None and self.top_k < logits.shape[-1]:
            least = np.partition(logits, -self.top_k, axis=-1)[:, -self.top_k, None]
            logits = np.where(logits < least, -np.inf, logits)
        return logits if self.top_p is None else _nucleus(logits, self.top_p)


def _nucleus(logits: Array, p: float) -> Array:
    order = np.argsort(-logits, axis=-1, kind="stable")
    weights = np.exp(log_softmax(np.take_along_axis(logits, order, -1)))
    # a token stays where those before it do not reach p yet: the likeliest always does
    kept = weights.cumsum(axis=-1) - weights < p
    found = np.empty_like(kept)
    np.put_along_axis(found, order, kept, -1)
    return np.where(found, logits, -np.inf)


def log_softmax(logits: Array) -> Array:
    """log softmax over the last axis, in float64."""
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


# ---- many tokens ------------------------------------------------------------------------------------------

UNTIL_STOP = 16  # tokens written before a look at whether they are still wanted

_decoders: weakref.WeakKeyDictionary[Any, dict[Any, Decoder]] = weakref.WeakKeyDictionary()


def decoder_of(model: Any, batch: int, compiled: bool = True, quantised: bool = False) -> Decoder:
    """A decoder of the model that has read nothing; the same one for the same arguments, programs and all."""
    known = _decoders.setdefault(model, {})
    key = (batch, compiled, quantised, _dtype(model))
    if key not in known:
        known[key] = Decoder(weakref.proxy(model), batch, compiled=compiled, quantised=quantised)
    known[key].rewind(0)
    return known[key]


def _check_count(n: int) -> None:
    if n < 0:
        raise ValueError(f"the number of tokens to generate must be at least 0, not {n}")


def _check_source(model: Any, source: Tensor | None, batch: int) -> None:
    """ValueError unless an encoder–decoder has a source, of as many rows as it is to write, and others none."""
    reads = hasattr(model, "encode")
    if reads != (source is not None):
        what = "reads a source, which is missing" if reads else "reads no source, but one was given"
        raise ValueError(f"{model.__class__.__name__} {what}")  # model may be a proxy
    if source is not None and (source.dim() != 2 or source.shape[0] != batch):
        raise ValueError(f"the source has shape {tuple(source.shape)}, expected ({batch}, length)")


def _dtype(model: Any) -> Any:
    return next(iter(model.parameters())).dtype


def generate(
    model: Module,
    idx: Tensor,
    n: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    repetition_penalty: float = 1.0,
    *,
    stop: int | Sequence[int] = (),
    seed: int | None = None,
    sliding: bool = False,
    compiled: bool = True,
    quantised: bool = False,
    source: Tensor | None = None,
) -> Tensor:
    """Up to `n` tokens more, each chosen from the logits after those before it.

    Shapes: idx (B, T) to (B, T + n), or shorter where every row has stopped; a row that did repeats its stop token.

    Args:
        temperature, top_k, top_p, repetition_penalty: see Sampling.
        stop: ids that end a row.
        seed: of the draws; by default tl's generator gives one.
        sliding: past block_size, go on from the last block_size tokens alone, read anew for each token.
        compiled: by native programs; eagerly otherwise.
        quantised: with a cache in int8.
        source: (B, S) ids an encoder–decoder reads first.

    Raises:
        ValueError: an argument out of range; more tokens than block_size without `sliding`; a source without a model
            that reads one, or the other way round.
    """
    _check_count(n)
    how = Sampling(temperature, top_k, top_p, repetition_penalty)
    how.check()
    if idx.dim() != 2 or not idx.shape[1]:
        raise ValueError(f"generation goes on from ids of shape (batch, length >= 1), not {tuple(idx.shape)}")
    block = getattr(model.config, "block_size", None)
    if block is not None and not sliding and idx.shape[1] + n - 1 > block:
        raise ValueError(
            f"{idx.shape[1]} tokens and {n} more exceed block_size {block}; sliding=True goes on from the last {block}"
        )
    stops = np.array([stop] if isinstance(stop, int) else list(stop), np.int64)
    with _evaluating(model):
        if source is None:
            decoder = decoder_of(model, idx.shape[0], compiled, quantised)
        else:
            decoder = Decoder(model, idx.shape[0], compiled=compiled, quantised=quantised, source=source)
        if _is_greedy(decoder, idx, n, how):
            return tl.from_numpy(_greedy(decoder, np.array(idx.numpy()), n, stops))
        rng = np.random.default_rng(int(tl.randint(0, 2**31 - 1, (1,)).item()) if seed is None else seed)
        return _continued(decoder, _windowed(model, compiled), idx, n, how, stops, rng)


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """All of the model in evaluation mode, and then as it was."""
    training = [module for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True


def _is_greedy(decoder: Decoder, idx: Tensor, n: int, how: Sampling) -> bool:
    """Is each token the likeliest, and in the decoder's reach?"""
    block = decoder.capacity
    fits = block is not None and idx.shape[1] + n <= block + 1
    return how.temperature == 0 and how.repetition_penalty == 1.0 and fits and n > 0 and not decoder.recurrent


def _continued(
    decoder: Decoder,
    window: Callable[[Tensor], Tensor],
    idx: Tensor,
    n: int,
    how: Sampling,
    stops: Array,
    rng: np.random.Generator,
) -> Tensor:
    ids, block = np.array(idx.numpy()), decoder.capacity
    done = np.zeros(len(ids), bool)
    for _ in range(n):
        new = tl.from_numpy(ids[:, decoder.length :].copy())
        if block is None or ids.shape[1] <= block:
            logits = decoder.feed(new)
        else:
            logits = window(tl.from_numpy(ids[:, -block:].copy()))
        chosen = how.choose(logits.numpy()[:, -1], ids, rng)
        chosen = np.where(done, ids[:, -1], chosen)
        ids = np.concatenate([ids, chosen[:, None].astype(ids.dtype)], axis=1)
        done |= np.isin(chosen, stops)
        if len(stops) and done.all():
            break
    return tl.from_numpy(ids)


def _greedy(decoder: Decoder, ids: Array, n: int, stops: Array) -> Array:
    """As `_continued` with the likeliest token each time, many tokens a call."""
    start, end = ids.shape[1], ids.shape[1] + n
    while ids.shape[1] < end:
        count = min(end - ids.shape[1], UNTIL_STOP) if len(stops) else end - ids.shape[1]
        text = decoder.greedy(tl.from_numpy(ids[:, decoder.length :].copy()), count).numpy()
        ids = np.concatenate([ids, text.astype(ids.dtype)], axis=1)
        stopped = np.isin(ids[:, start:], stops)
        if stopped.any(axis=1).all():
            end = start + int(stopped.argmax(axis=1).max()) + 1
    ids = ids[:, :end]
    for row, stopped in zip(ids[:, start:], np.isin(ids[:, start:], stops), strict=True):
        if stopped.any():
            row[stopped.argmax() :] = row[stopped.argmax()]
    return ids


def _windowed(model: Any, compiled: bool) -> Callable[[Tensor], Tensor]:
    """Logits of a whole window, without a cache."""

    def run(ids: Tensor) -> Tensor:
        with tl.no_grad():
            return model(ids)[0]

    return tl.compile(run) if compiled else run


def beam_search(
    model: Module,
    idx: Tensor,
    n: int,
    beams: int = 4,
    length_penalty: float = 1.0,
    *,
    stop: int | Sequence[int] = (),
    compiled: bool = True,
    source: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The likeliest continuation a beam of this width finds, and its log-probability.

    Candidates that stopped, and those of n tokens, are compared by log-probability / tokens^length_penalty.

    Shapes: idx (1, T) to (1, T + m), m at most n, and ().

    Raises:
        ValueError: more than one row, beams below 1, n below 0, more tokens than block_size; a source without a model
            that reads one, or the other way round.
    """
    _check_count(n)
    if idx.dim() != 2 or idx.shape[0] != 1 or beams < 1:
        raise ValueError(f"beam search goes on from one row, with one beam or more, not {tuple(idx.shape)}, {beams}")
    block = getattr(model.config, "block_size", None)
    if block is not None and idx.shape[1] + n - 1 > block:
        raise ValueError(f"{idx.shape[1]} tokens and {n} more exceed block_size {block}")
    with _evaluating(model):
        wide = idx.expand(beams, idx.shape[1]).contiguous()
        if source is None:
            decoder = decoder_of(model, beams, compiled)
        else:
            rows = source.expand(beams, source.shape[1]).contiguous()
            decoder = Decoder(model, beams, compiled=compiled, source=rows)
        stops = [stop] if isinstance(stop, int) else list(stop)
        ids, score = _beams(decoder, np.array(wide.numpy()), n, length_penalty, stops)
        return tl.from_numpy(ids[None]), tl.tensor(score)


def _beams(decoder: Decoder, ids: Array, n: int, penalty: float, stops: list[int]) -> tuple[Array, float]:
    beams, start = ids.shape
    scores = np.full(beams, -np.inf)
    scores[0] = 0.0  # at first all rows are the same: one of them counts
    finished: list[tuple[float, float, Array]] = []
    for step in range(n):
        logits = decoder.feed(tl.from_numpy(ids[:, decoder.length :].copy())).numpy()[:, -1]
        total = (scores[:, None] + log_softmax(logits)).ravel()
        ranked = np.argsort(-total, kind="stable")[: 2 * beams]
        rows, tokens = np.divmod(ranked, logits.shape[-1])
        kept: list[tuple[int, int, float]] = []
        for row, token, score in zip(rows, tokens, total[ranked], strict=True):
            if token in stops:
                if score > -np.inf:
                    text = np.append(ids[row], token)
                    finished.append((score / (step + 1) ** penalty, score, text))
            elif len(kept) < beams:
                kept.append((row, token, score))
        best_open = kept[0][2] / (step + 1) ** penalty if kept else -np.inf
        if not kept or (len(finished) >= beams and max(f[0] for f in finished) >= best_open):
            break
        order = np.array([row for row, _, _ in kept] + [kept[0][0]] * (beams - len(kept)))
        new = np.array([token for _, token, _ in kept] + [kept[0][1]] * (beams - len(kept)))
        scores = np.array([score for _, _, score in kept] + [-np.inf] * (beams - len(kept)))
        ids = np.concatenate([ids[order], new[:, None].astype(ids.dtype)], axis=1)
        decoder.reorder(order)
    else:  # all n tokens are there: what has not stopped is a candidate too
        length = max(1, ids.shape[1] - start)
        still = zip(ids, scores, strict=True)
        finished += [(score / length**penalty, score, row) for row, score in still if score > -np.inf]
    _, score, text = max(finished, key=lambda found: found[0])
    return text, float(score)
