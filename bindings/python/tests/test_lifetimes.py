"""What becomes of a store's handles: in processes that were forked, when threads close it, and compared with each other."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import everleaf
import pytest


@pytest.fixture
def store(tmp_path: Path):
    with everleaf.open(tmp_path / "a.pool", max_size=1 << 28) as store:
        yield store


@pytest.mark.parametrize("call", ["store.bisect(b'~')", "store.check()", "store.map('other').bisect(b'~')"])
def test_a_forked_process_closes_amid_a_call_of_another_thread(tmp_path: Path, call: str) -> None:
    """The child waited for a thread of its parent, which is not there, for ever; SIGALRM ends it then."""
    program = f"""
import everleaf, os, signal, threading
store = everleaf.open({str(tmp_path / "a.pool")!r}, max_size=1 << 28)
store.put_many((b"%06d" % n, b"v") for n in range(50_000))
store.map("other").put_many((b"%06d" % n, b"v") for n in range(50_000))
stopped, begun = threading.Event(), threading.Event()
def work():
    while not stopped.is_set():
        begun.set()
        {call}
thread = threading.Thread(target=work)
thread.start()
begun.wait()
try:
    for _ in range(10):
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            store.close()
            try:
                store[b"000000"]
            except (everleaf.Closed, everleaf.Forked):
                os._exit(0 if store.closed else 2)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
finally:
    stopped.set()
    thread.join()
assert len(store) == 50_000 and store.check() == []
store.close()
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=900)
    with everleaf.open(tmp_path / "a.pool", create=False) as store:
        assert len(store) == 50_000


@pytest.fixture
def own_switches():
    """A thread keeps the interpreter until it lets go of it."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    yield
    sys.setswitchinterval(interval)


def closed_by_last_handle(path: Path) -> int:
    """How often another thread ran while the last handle of a store went, which was inside of a call."""
    store = everleaf.open(path, max_size=1 << 28)
    store.put_many((b"%06d" % number, b"v" * 100) for number in range(20_000))
    view = store.view()
    count, stopped = [0], threading.Event()
    before = 0

    def run() -> None:
        while not stopped.is_set():
            count[0] += 1
            time.sleep(0)

    def keys() -> Any:
        nonlocal before
        # A whole block of keys, and the rest when it was looked for: then nothing is left to do but to end.
        for number in range(512):
            yield b"%06d" % number
        view.close()
        store.close()
        before = count[0]

    thread = threading.Thread(target=run)
    thread.start()
    assert view.find_many(keys()) == [b"v" * 100] * 512
    after = count[0]
    stopped.set()
    thread.join()
    everleaf.open(path).close()
    return after - before


def test_a_call_that_ends_last_closes_the_store_as_others_run(tmp_path: Path, own_switches: None) -> None:
    """It did so with the interpreter, so that all threads waited for a snapshot."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        pytest.skip("no thread waits for the interpreter")
    assert any(closed_by_last_handle(tmp_path / f"{number}.pool") for number in range(20))


def test_a_closed_view_keeps_no_store_open(tmp_path: Path) -> None:
    store = everleaf.open(tmp_path / "a.pool")
    with store.view() as view:
        pass
    with pytest.raises(everleaf.Closed):
        view.of(store.map("other"))
    del store
    gc.collect()
    everleaf.open(tmp_path / "a.pool").close()


def test_a_cycle_through_a_codec_is_collected(tmp_path: Path) -> None:
    """The compiled part had references that the collector did not see: the store was open until the process ended."""

    class App:
        def __init__(self, path: Path, has_more: bool) -> None:
            codec: everleaf.codecs.Codec[Any] = everleaf.codecs.Codec("own", self.encode, self.decode)
            self.store = everleaf.open(path, keys=codec, values=codec)
            self.store["a"] = "b"
            self.parts = [self.store.view(), self.store.map("other", codec, codec)] if has_more else []
            self.pairs = [iter(mapping.items()) for mapping in [self.store, *self.parts]] if has_more else []
            assert [next(pairs, None) for pairs in self.pairs] == [("a", "b"), ("a", "b"), None][:len(self.pairs)]

        def encode(self, text: str) -> bytes:
            return text.encode()

        def decode(self, data: bytes) -> str:
            return data.decode()

    for has_more in [False, True]:
        app = App(tmp_path / "a.pool", has_more)
        gc.collect()
        # What is in use is not collected, however many refer to it.
        assert dict(app.store) == {"a": "b"}
        gone = weakref.ref(app)
        del app
        gc.collect()
        assert gone() is None
        everleaf.open(tmp_path / "a.pool").close()


def test_views_are_equal_by_their_pairs_and_have_no_hash(store: everleaf.Store) -> None:
    store.update({b"a": b"1", b"b": b"2"})
    other = store.map("other")
    other.update({b"a": b"1", b"b": b"2"})
    texts = store.map("texts", keys=str, values=str)
    texts.update(a="1")
    with store.view() as one, other.view() as two, texts.view() as three:
        assert one == two == {b"b": b"2", b"a": b"1"} == store
        assert three == {"a": "1"} and three != one and one != three and one != 7 and three != {"a": "1", "b": "2"}
        del other[b"b"]
        assert one == two and one != other and other.view() != one and {b"a": b"1"} == other
        for mapping in [one, store]:
            with pytest.raises(TypeError, match="unhashable"):
                hash(mapping)
        looked: list[bytes] = []
        noisy: Any = everleaf.codecs.Codec("noisy", bytes, lambda data: looked.append(data) or data)
        store.put_many((b"%06d" % number, b"v") for number in range(3000))
        other.put_many((b"%06d" % number, b"w") for number in range(3000))
        mine, theirs = (store.map(name, bytes, noisy) for name in ["default", "other"])
        # The first pair tells; no more is read than a page of each.
        assert mine != theirs and len(looked) == 2
        looked.clear()
        assert mine == mine and not looked


def test_places_beyond_all_numbers_of_pairs(store: everleaf.Store) -> None:
    """They were refused with the words of `islice`."""
    model = [(b"%03d" % number, b"v") for number in range(30)]
    store.put_many(model)
    huge = 10**30
    for place in [
        slice(huge), slice(2, huge), slice(huge, None), slice(-huge, None), slice(-huge, -2), slice(None, -huge), slice(0, huge, huge),
        slice(huge, -huge, -1), slice(None, None, -huge), slice(-huge, huge), slice(-3, huge),
    ]:
        assert store.items()[place] == model[place], place
        assert store.keys()[place] == [key for key, _ in model[place]]
    for place in [huge, -huge]:
        with pytest.raises(IndexError):
            store.items()[place]
    with pytest.raises(ValueError):
        store.items()[::0]
