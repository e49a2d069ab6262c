"""
tfrank: the rank's end of tfsupervisor's link, for Python. Standard library only.

    import tfrank

    with tfrank.open() as rank:
        for i, layer in enumerate(layers):
            load(layer)
            rank.progress(i + 1, len(layers), "layer")
        rank.ready_and_wait()
        with rank.collective("gather"):
            torch.distributed.all_gather(...)
        rank.serving()

An exception that leaves the block is told to the supervisor with its text, so that the whole group
ends with this reason at once. Without a supervisor (no TFRANK_LINK_FD) every call succeeds at once
and the program runs unchanged by hand.

Deadlines and timeouts are seconds. A rank's calls may come from any thread; those that wait belong
to one thread at a time. A fork()ed child of the rank says nothing.
"""

from __future__ import annotations

import asyncio
import atexit
import base64
import contextlib
import errno
import os
import select
import socket
import threading
import time
from typing import Any, Callable, Iterable, Iterator, Optional, Sequence, Tuple, TypeVar, Union

__all__ = [
    "Rank", "Aborted", "Stopped", "Closed", "open", "LINK_FD_VARIABLE", "PACKET_MAX_BYTES",
]
__version__ = "0.1.0"

LINK_FD_VARIABLE = "TFRANK_LINK_FD"
PROTOCOL = 1
PACKET_MAX_BYTES = 4096
GROUP_ID_MAX_BYTES = 512
TEXT_MAX_BYTES = 1000
PROGRESS_INTERVAL_S = 0.05  # at most 20 progress packets a second, the last one always

T = TypeVar("T")
Then = Union[str, Sequence[str]]


class Aborted(ConnectionAbortedError):
    """The group is lost: leave. Has the reason's word, the lost rank (-1: no single one), detail."""

    def __init__(self, reason: str, rank: int, detail: str):
        super().__init__(errno.ECONNABORTED, f"{reason}: {detail}")
        self.reason, self.rank, self.detail = reason, rank, detail


class Stopped(InterruptedError):
    """An operator asked for a stop: leave in order within `grace` seconds."""

    def __init__(self, grace: float):
        super().__init__(errno.ECANCELED, "the supervisor asks for a stop")
        self.grace = grace


class Closed(ConnectionError):
    """The supervisor has gone: leave."""

    def __init__(self) -> None:
        super().__init__(errno.EPIPE, "the supervisor has gone")


def _clean(text: object) -> str:
    """One line of at most TEXT_MAX_BYTES bytes of UTF-8, without NUL."""
    line = " ".join(str(text).replace("\0", "?").split())
    return line.encode("utf-8", "replace")[:TEXT_MAX_BYTES].decode("utf-8", "ignore")


def _fields(packet: bytes) -> "dict[str, str]":
    lines = packet.decode("utf-8", "replace").rstrip("\n").split("\n")
    return dict(line.split("=", 1) for line in lines if "=" in line)


def _take_link() -> Optional[socket.socket]:
    """The socket named in the environment, close-on-exec and out of the environment."""
    text = os.environ.get(LINK_FD_VARIABLE)
    if text is None:
        return None
    try:
        link = socket.socket(fileno=os.dup(int(text)))
    except (ValueError, OSError) as error:
        raise OSError(errno.EINVAL, f"{LINK_FD_VARIABLE}={text}: {error}") from None
    if link.family != socket.AF_UNIX or link.type != socket.SOCK_SEQPACKET:
        link.detach()
        raise OSError(errno.EINVAL, f"{LINK_FD_VARIABLE}={text} is no sequenced-packet Unix socket")
    # The number is kept: the kernel releases the highest first, and so the news comes first.
    number = int(text)
    os.set_inheritable(number, False)
    link.close()
    link = socket.socket(fileno=number)
    del os.environ[LINK_FD_VARIABLE]
    return link


class Rank:
    """
    One rank of a group. `settings` is up to 128 hex digits over everything in which all ranks must
    agree (model, versions, options): a group whose digests differ does not start.
    """

    def __init__(self, settings: Optional[str] = None):
        if settings is not None and not (
            0 < len(settings) <= 128 and all(c in "0123456789abcdefABCDEF" for c in settings)
        ):
            raise ValueError(f"settings must be 1 to 128 hex digits: {settings!r}")
        self._link = _take_link()
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._welcome: "dict[str, str]" = {}
        self._group_id: Optional[bytes] = None
        self._group_fd: Optional[int] = None
        self._go = False
        self._stop: Optional[float] = None
        self._abort: Optional[Aborted] = None
        self._closed = False
        self._progress_sent = 0.0
        # The interpreter's way out takes its time: the link ends with the process, not before.
        atexit.register(self._keep_open)
        self._say("HELLO=1", f"PROTOCOL={PROTOCOL}", *([f"SETTINGS={settings}"] if settings else []))

    # --- who we are ---

    @property
    def supervised(self) -> bool:
        """True if there is a supervisor at the other end."""
        return self._link is not None

    @property
    def rank(self) -> int:
        return int(os.environ.get("RANK", os.environ.get("TFRANK_RANK", "0")))

    @property
    def world_size(self) -> int:
        return int(os.environ.get("WORLD_SIZE", os.environ.get("TFRANK_WORLD_SIZE", "1")))

    @property
    def epoch(self) -> int:
        """One try at a start of the group; counts up at every restart."""
        return int(os.environ.get("TFRANK_EPOCH", "1"))

    # --- what we say ---

    def status(self, text: str) -> None:
        """A line for people."""
        self._say(f"STATUS={_clean(text)}", drop=True)

    def progress(
        self, done: int, total: int, unit: str = "", bytes: int = 0, bytes_total: int = 0
    ) -> None:
        """How far the load is. Cheap enough for every tensor; dropped rather than block."""
        if not 0 <= done <= total or not 0 <= bytes <= bytes_total:
            raise ValueError(f"progress {done} of {total}, bytes {bytes} of {bytes_total}")
        now = time.monotonic()
        last = done == total and bytes == bytes_total
        if not last and now - self._progress_sent < PROGRESS_INTERVAL_S:
            return
        self._progress_sent = now
        lines = [f"PROGRESS={done}/{total}"]
        if unit:
            lines.append(f"UNIT={_clean(unit)[:31]}")
        if bytes_total:
            lines.append(f"BYTES={bytes}/{bytes_total}")
        self._say(*lines, drop=True)

    def track(self, items: Iterable[T], unit: str = "", total: Optional[int] = None) -> Iterator[T]:
        """The items themselves; each one that the caller is done with is progress."""
        if total is None:
            items = list(items)
            total = len(items)
        self.progress(0, total, unit)
        for done, item in enumerate(items, 1):
            yield item
            self.progress(min(done, total), total, unit)

    def put_group_id(self, group_id: bytes, fd: Optional[int] = None) -> None:
        """Rank 0 gives the id by which the ranks find each other, and a descriptor if need be."""
        if not 0 < len(group_id) <= GROUP_ID_MAX_BYTES:
            raise ValueError(f"a group id is 1 to {GROUP_ID_MAX_BYTES} bytes, not {len(group_id)}")
        self._group_id = group_id
        self._group_fd = os.dup(fd) if fd is not None else None
        text = base64.b64encode(group_id).decode()
        self._say(f"GROUP_ID={text}", fds=[fd] if fd is not None else [])

    def get_group_id(self, timeout: Optional[float] = None) -> Tuple[bytes, Optional[int]]:
        """The id that rank 0 gave, with its descriptor, which is the caller's to close."""
        self._wait(lambda: self._group_id is not None or self._link is None, timeout)
        if self._group_id is None:
            raise OSError(errno.ENODATA, "there is no group id, and no supervisor to wait for")
        fd, self._group_fd = self._group_fd, None
        return self._group_id, fd

    def ready(self, then: Then = ()) -> None:
        """Load-ready. `then`: "collective", "serving", or both; what follows go."""
        words = [then] if isinstance(then, str) else list(then)
        for word in words:
            if word not in ("collective", "serving"):
                raise ValueError(f"then is collective, serving or both, not {word!r}")
        self._say("READY=1", *([f"THEN={','.join(words)}"] if words else []))

    def wait_go(self, timeout: Optional[float] = None) -> None:
        """Until every rank of this epoch is ready."""
        self._wait(lambda: self._go or self._link is None, timeout)

    def ready_and_wait(
        self, then: Then = ("collective", "serving"), timeout: Optional[float] = None
    ) -> None:
        """Load-ready, then until every rank is: what stands before the first collective."""
        self.ready(then)
        self.wait_go(timeout)

    @contextlib.contextmanager
    def collective(self, name: str = "") -> Iterator[None]:
        """Around the first collective, if ready() announced it."""
        named = [f"NAME={_clean(name)[:63]}"] if name else []
        self._say("COLLECTIVE=begin", *named)
        yield
        self._say("COLLECTIVE=done", *named)

    def serving(self) -> None:
        """Up."""
        self._say("SERVING=1")

    def watchdog(self) -> None:
        """The work loop turns: to be called from it, not from a thread beside it."""
        self._say("WATCHDOG=1", drop=True)

    def extend(self, seconds: float) -> None:
        """The bound that runs becomes at least this far from now, at most 24 h."""
        self._say(f"EXTEND_TIMEOUT_USEC={int(seconds * 1e6)}")

    def failed(self, error: Union[BaseException, str], number: int = 0) -> None:
        """The load failed or we cannot go on: the group ends with this text."""
        if isinstance(error, BaseException):
            text = f"{type(error).__name__}: {error}"
            number = number or getattr(error, "errno", None) or 0
        else:
            text = error
        self._say(f"FAILED={_clean(text)}", *([f"ERRNO={number}"] if number > 0 else []))

    def stopping(self) -> None:
        """We are about to leave: the whole group is stopped in order."""
        self._say("STOPPING=1")

    # --- what we hear ---

    def fileno(self) -> int:
        """For a loop of the caller's: to be polled for reading; -1 without a supervisor."""
        return self._link.fileno() if self._link is not None else -1

    def dispatch(self) -> None:
        """Reads what is there without blocking; raises Aborted, Stopped or Closed."""
        while self._read():
            pass
        self._raise()

    @property
    def gone(self) -> bool:
        """Every rank is ready: go was given."""
        return self._go or self._link is None

    async def wait_go_async(self, timeout: Optional[float] = None) -> None:
        """wait_go() in an asyncio program."""
        await self._wait_async(lambda: self._go or self._link is None, timeout)

    async def ready_and_wait_async(
        self, then: Then = ("collective", "serving"), timeout: Optional[float] = None
    ) -> None:
        """ready_and_wait() in an asyncio program."""
        self.ready(then)
        await self.wait_go_async(timeout)

    async def wait_end(self) -> None:
        """Until the supervisor says that it is over: raises Aborted, Stopped or Closed."""
        await self._wait_async(lambda: False, None)

    # --- the end ---

    def close(self) -> None:
        """
        Shuts the link down. A rank that lives on after it is a lost rank, unless stopping() or a
        request came before; at the end of a job simply exit.
        """
        link, self._link = self._link, None
        if link is None:
            return
        atexit.unregister(self._keep_open)
        if os.getpid() == self._pid:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
        link.close()

    def __enter__(self) -> "Rank":
        return self

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        if error is None or isinstance(error, (Aborted, Stopped, Closed)):
            return
        if isinstance(error, SystemExit) and error.code in (None, 0):
            return
        with contextlib.suppress(OSError):
            self.failed(error)

    async def __aenter__(self) -> "Rank":
        return self

    async def __aexit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        self.__exit__(kind, error, trace)

    # --- hooks: progress in one line ---

    def hook_module(self, module: Any, unit: str = "module") -> None:
        """Progress from torch's load_state_dict(): every submodule of `module` that is filled."""
        modules = list(module.modules())
        filled = [0]

        def count(*_: Any) -> None:
            filled[0] = min(filled[0] + 1, len(modules))
            self.progress(filled[0], len(modules), unit)

        for part in modules:
            part.register_load_state_dict_post_hook(count)

    @contextlib.contextmanager
    def hook_safetensors(self, total: Optional[int] = None, unit: str = "tensor") -> Iterator[None]:
        """
        Progress from every safetensors file that is opened within the block: each tensor or slice
        taken from it. `total` tensors, by default those of the files opened so far.
        """
        import safetensors

        real = safetensors.safe_open
        counted = {"done": 0, "total": 0}
        rank = self

        class Counting:
            def __init__(self, *words: Any, **named: Any):
                self._file = real(*words, **named)

            def __enter__(self) -> "Counting":
                self._file.__enter__()
                counted["total"] += len(self._file.keys())
                return self

            def __exit__(self, *words: Any) -> Any:
                return self._file.__exit__(*words)

            def __getattr__(self, name: str) -> Any:
                value = getattr(self._file, name)
                if name not in ("get_tensor", "get_slice"):
                    return value

                def taken(*words: Any, **named: Any) -> Any:
                    result = value(*words, **named)
                    counted["done"] += 1
                    whole = max(total or counted["total"], counted["done"])
                    rank.progress(counted["done"], whole, unit)
                    return result

                return taken

        safetensors.safe_open = Counting
        try:
            yield
        finally:
            safetensors.safe_open = real

    # --- the wire ---

    def _keep_open(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.detach()

    def _say(self, *lines: str, drop: bool = False, fds: Sequence[int] = ()) -> None:
        if self._link is None or os.getpid() != self._pid:
            return
        packet = ("\n".join(lines) + "\n").encode()
        flags = socket.MSG_NOSIGNAL | (socket.MSG_DONTWAIT if drop else 0)
        ancillary = []
        if fds:
            rights = b"".join(fd.to_bytes(4, "little") for fd in fds)
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
        try:
            with self._lock:
                self._link.sendmsg([packet], ancillary, flags)
        except BlockingIOError:
            if not drop:
                raise
        except (BrokenPipeError, ConnectionResetError):
            # Why it went is behind what we have not read yet.
            with contextlib.suppress(OSError):
                while self._read():
                    pass
            self._raise()
            raise Closed() from None

    def _read(self) -> bool:
        """Takes one packet; False if there is none now."""
        if self._link is None or self._closed:
            return False
        room = socket.CMSG_SPACE(4)
        try:
            packet, ancillary, _, _ = self._link.recvmsg(
                PACKET_MAX_BYTES + 1, room, socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True
        if not packet:
            self._closed = True
            return False
        fds = [
            int.from_bytes(data[:4], "little")
            for level, kind, data in ancillary
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS
        ]
        self._take(_fields(packet), fds)
        return True

    def _take(self, fields: "dict[str, str]", fds: Sequence[int]) -> None:
        verb = next(iter(fields), "")
        if verb == "WELCOME":
            self._welcome = fields
        elif verb == "GO":
            self._go = True
        elif verb == "GROUP_ID":
            self._group_id = base64.b64decode(fields[verb])
            self._group_fd = fds[0] if fds else None
            fds = fds[1:]
        elif verb == "STOP":
            self._stop = int(fields.get("GRACE_USEC", "0")) / 1e6
        elif verb == "ABORT":
            self._abort = Aborted(
                fields[verb], int(fields.get("RANK", "-1")), fields.get("DETAIL", "")
            )
        for fd in fds:
            os.close(fd)

    def _raise(self) -> None:
        if self._abort is not None:
            raise self._abort
        if self._stop is not None:
            raise Stopped(self._stop)
        if self._closed:
            raise Closed()

    def _wait(self, done: Callable[[], bool], timeout: Optional[float]) -> None:
        end = None if timeout is None else time.monotonic() + timeout
        while not done():
            if self._read():
                continue
            self._raise()
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError(errno.ETIMEDOUT, f"{timeout} s passed")
            select.select([self._link], [], [], left)

    async def _wait_async(self, done: Callable[[], bool], timeout: Optional[float]) -> None:
        async def wait() -> None:
            loop = asyncio.get_running_loop()
            while not done():
                if self._read():
                    continue
                self._raise()
                readable = asyncio.Event()
                loop.add_reader(self.fileno(), readable.set)
                try:
                    await readable.wait()
                finally:
                    loop.remove_reader(self.fileno())

        await asyncio.wait_for(wait(), timeout)


def open(settings: Optional[str] = None) -> Rank:
    """Takes the link over and says hello. Call it early, before a process or thread is started."""
    return Rank(settings)

