"""Replays of ranks that die: the news comes at once, and the first cause is told."""

import random
import signal
import time

import pytest
import replay
from replay import ended, report, start

BLOCKED = "ignore('TERM'); up(); gate(); hold()"


def test_dies_loading(place):
    gate = replay.Gate(place)
    run = start(
        place,
        "hello(); progress(12, 48)\n"
        "if rank == 1: gate()\n"
        "ready(); tell(hear('ABORT').replace(chr(10), ' '))",
    )
    pids = gate.await_ranks(1)
    run.wait_line("demo: rank 0: ready")
    replay.kill(pids[1], 9)
    why = ended(place, run, 10)
    assert (why["name"], why["rank"], why["cause"]) == ("RankDisconnected", 1, "killed SIGKILL")
    assert (why["phase"], why["progress"]["done"], why["pid"]) == ("loading", 12, pids[1])
    assert "[rank 0] ABORT=RankDisconnected RANK=1 " in run.stdout
    assert "rank 1" in run.last_line and "layer 12 of 48" in run.last_line


@pytest.mark.parametrize("mode", ["service", "job"])
@pytest.mark.parametrize("moment", ["before HELLO", "before READY", "before go", "after go"])
def test_exits_zero(place, mode, moment):
    leave = {
        "before HELLO": "",
        "before READY": "hello()",
        "before go": "hello(); ready()",
        "after go": "up()",
    }
    gate = replay.Gate(place)
    peer = "up(); posix._exit(0)" if mode == "job" else "up(); hold()"
    run = start(
        place,
        f"if {moment == 'before go'}: gate()\n"
        f"if rank == 1:\n    {leave[moment] or 'pass'}\n    posix._exit(0)\n"
        f"if {moment == 'before go'}: gate('late')\n{peer}",
        mode=mode,
    )
    if moment == "before go":
        late = replay.Gate(place, "late")
        gate.await_ranks(2)
        gate.release(0)
        late.await_ranks(1)
        gate.release(1)
        run.wait_line("demo: rank 1: gone")
        late.release()
    if mode == "job" and moment == "after go":
        assert run.wait() == 0, run.told()
        assert report(place)["reason"] is None
        return
    why = ended(place, run, 10)
    assert (why["name"], why["rank"], why["cause"]) == ("RankDisconnected", 1, "exited 0")


def test_aborts(place):
    """The peers are blocked and deaf: all are gone within abort_timeout, and nobody says ready."""
    gate = replay.Gate(place)
    run = start(place, BLOCKED, ranks=4, abort_timeout="600ms")
    pids = gate.await_ranks(4)
    assert place.http("demo", "/readyz")[0] == 200
    began = time.monotonic()
    replay.kill(pids[2], signal.SIGABRT)
    replay.await_death(pids[2])
    assert place.http("demo", "/readyz")[0] == 503
    why = ended(place, run, 10)
    assert time.monotonic() - began < 0.6 + 1.5 * replay.SLOW
    assert (why["rank"], why["cause"], why["phase"]) == (2, "killed SIGABRT", "serving")
    assert {victim["rank"] for victim in why["victims"]} == {0, 1, 3}
    assert all(victim["killed_by_us"] for victim in why["victims"])


def test_fails_but_lives(place):
    gate = replay.Gate(place)
    run = start(
        place,
        "ignore('TERM'); hello()\n"
        "if rank == 1: gate(); say('FAILED=no space left for 3 tensors\\nERRNO=28\\n'); hold()\n"
        "ready(); hear('ABORT'); tell('told')",
        abort_timeout="300ms",
    )
    gate.await_ranks(1)
    run.wait_line("rank 0: ready")
    gate.release()
    run.wait_line(r"\[rank 0\] told", stream="out")
    why = ended(place, run, 10)
    assert (why["rank"], why["cause"]) == (1, "failed: no space left for 3 tensors")
    assert "No space left on device" in run.last_line


def test_fails_before_hello(place):
    run = start(place, "failed('no driver') if rank == 1 else None; hold()", abort_timeout="1s")
    why = ended(place, run, 10)
    assert (why["rank"], why["cause"], why["phase"]) == (1, "failed: no driver", "starting")


@pytest.mark.parametrize("after_ms", [20, 0])
def test_first_cause(place, after_ms):
    """The peers see the end of rank 3 on sockets of their own, as NCCL's do, and leave with 1."""
    gate = replay.Gate(place)
    code = (
        "sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)\n"
        "if rank == 3:\n"
        "    sock.bind(argv[0] + environ['TFRANK_EPOCH']); sock.listen(9)\n"
        "    gate('gate'); peers = [sock._accept() for i in range(3)]\n"
        "    up(); gate('gate'); hold()\n"
        "gate('gate'); sock.connect(argv[0] + environ['TFRANK_EPOCH']); up()\n"
        f"sock.recv(1); time.sleep({after_ms / 1000}); posix._exit(1)\n"
    )
    for i in replay.times(100, 8):
        run = start(place, code, place.root / f"peer{i}.", ranks=4)
        gate.await_ranks(4)
        gate.release()
        pids = gate.await_ranks(1)
        replay.kill(pids[3], 9)
        why = ended(place, run, 10)
        assert (why["rank"], why["cause"]) == (3, "killed SIGKILL"), f"run {i}: {run.told()}"
        assert {victim["rank"] for victim in why["victims"]} == {0, 1, 2}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_two_at_once(place, number):
    gate = replay.Gate(place)
    for i in replay.times(200, 8):
        run = start(place, "up(); gate(); hear('ABORT')", ranks=3)
        pids = gate.await_ranks(3)
        gate.release()
        two = [(0, 1), (1, 2), (2, 0)][i % 3]
        for rank in two:
            replay.kill(pids[rank], number)
        why = ended(place, run, 10)
        assert why["rank"] in two and why["cause"] == f"killed {number.name}", run.told()
        assert not place.processes() and not list(place.run_dir.iterdir())


def test_forked_dataloader(place):
    """A child that inherits everything, the link too, and outlives its parent."""
    gate = replay.Gate(place)
    run = start(
        place,
        "ignore('TERM'); up(); child('hold()') if rank == 1 else None; gate(); hold()",
        abort_timeout="5s",
    )
    pids = gate.await_ranks(2)
    began = time.monotonic()
    replay.kill(pids[1], 9)
    run.wait_line("ending the group: RankDisconnected: rank 1, killed SIGKILL")
    assert time.monotonic() - began < 2 * replay.SLOW
    assert place.http("demo", "/readyz")[0] == 503
    run.signal(15)
    time_of_second = replay.deadline_after(0.25)
    replay.await_that(lambda: replay.left(time_of_second) == 0)
    run.signal(15)
    why = ended(place, run, 10)
    assert (why["rank"], why["cause"]) == (1, "killed SIGKILL")


def test_last_packets_come_before_the_death(place):
    """What a rank said last is read before its end is judged, though many packets lie before it."""
    gate = replay.Gate(place)
    run = start(
        place,
        "hello(); gate()\n"
        "if rank == 1:\n"
        "    for i in range(200): progress(i, 200)\n"
        "    failed('the last word'); posix._exit(1)\n"
        "hold()",
    )
    pids = gate.await_ranks(2)
    supervisor = place.supervisor_of(run)
    replay.kill(supervisor, signal.SIGSTOP)
    gate.release(1)
    replay.await_death(pids[1])
    replay.kill(supervisor, signal.SIGCONT)
    why = ended(place, run, 10)
    assert (why["rank"], why["cause"]) == (1, "failed: the last word")
    assert why["progress"]["done"] == 199


def test_last_packets_of_others_come_before_a_death(place):
    """Rank 1 said why it fails before rank 0 died of it: rank 1 is the cause."""
    gate = replay.Gate(place)
    run = start(
        place,
        "hello(); gate()\n"
        "if rank == 1:\n"
        "    for i in range(200): progress(i, 200)\n"
        "    failed('mine'); gate(); hold()\n"
        "posix._exit(1)",
    )
    pids = gate.await_ranks(2)
    supervisor = place.supervisor_of(run)
    replay.kill(supervisor, signal.SIGSTOP)
    gate.release(1)
    gate.await_ranks(1)
    gate.release(0)
    replay.await_death(pids[0])
    replay.kill(supervisor, signal.SIGCONT)
    why = ended(place, run, 10)
    assert (why["rank"], why["cause"]) == (1, "failed: mine")


def test_dies_with_unread_packets_of_ours(place):
    """WELCOME and GO are unread: the link ends by a reset, and its last word lies behind."""
    gate = replay.Gate(place)
    run = start(
        place,
        "hello(); ready()\n"
        "if rank == 1: gate(); failed('unread'); posix._exit(3)\n"
        "hold()",
    )
    gate.await_ranks(1)
    run.wait_line("go: ")
    gate.release()
    why = ended(place, run, 10)
    assert (why["rank"], why["cause"]) == (1, "failed: unread")


def test_closes_its_link_and_execs(place):
    code = (
        "hello(); ready()\n"
        "if rank == 1:\n"
        "    link.close() if argv[0] == 'close' else posix.set_inheritable(link.fileno(), False)\n"
        "    posix.execv('/bin/sleep', ['sleep', '1000'])\n"
        "hold()"
    )
    for how in ("close", "close-on-exec"):
        run = start(place, code, how)
        why = ended(place, run, 10)
        assert (why["rank"], why["cause"]) == (1, "link-closed"), how


def test_floods_its_link(place):
    """A rank that never stops talking: its peers are heard, and the deaf get their deaths told."""
    gate = replay.Gate(place)
    run = start(
        place,
        "hello()\nif rank == 0:\n    ready()\n    while True: progress(1, 2)\n"
        "ready(); hear('GO'); gate(); hold()",
        ranks=3,
    )
    pids = gate.await_ranks(2)
    assert place.http("demo", "/readyz")[0] == 200
    replay.kill(pids[2], 9)
    why = ended(place, run, 10)
    assert (why["rank"], why["cause"]) == (2, "killed SIGKILL")


def test_flood_after_the_end_began(place):
    """What is said then is logged, but not without bound."""
    run = start(
        place,
        "ignore('TERM'); up()\nwhile True: progress(1, 2)",
        stop_timeout="700ms",
    )
    run.wait_line("go: ")
    run.signal(15)
    assert run.wait() == 0
    assert len(run.stderr.splitlines()) < 200


def test_every_exit_code(place):
    """In a service every one is a loss; the code is in the reason and in the last line."""
    for first in range(0, 256, 8):
        codes = range(first, first + 8)
        runs = {
            code: start(place, ["sh", "-c", f"exit {code}"], name=f"x{code}", ranks=1)
            for code in codes
        }
        for code, run in runs.items():
            why = ended(place, run, 10, f"x{code}")
            assert (why["name"], why["cause"]) == ("RankDisconnected", f"exited {code}")
            assert (why["exit_code"], why["signal"]) == (code, None)
            assert f" exited {code} " in run.last_line


def test_every_exit_code_of_a_job(place):
    for code in (0, 1, 130, 143, 255):
        run = start(place, ["sh", "-c", f"exit {code}"], ranks=1, mode="job")
        assert run.wait() == (10 if code else 0), run.told()


FATAL = sorted(
    set(range(1, 65))
    - {32, 33}
    - {getattr(signal, f"SIG{n}") for n in "CHLD CONT STOP TSTP TTIN TTOU URG WINCH".split()}
)


def name_of(number):
    if number >= signal.SIGRTMIN:
        return f"signal {number}"
    return {signal.SIGIO: "SIGPOLL"}.get(number, signal.Signals(number).name)


def test_every_fatal_signal(place):
    for first in range(0, len(FATAL), 8):
        numbers = FATAL[first : first + 8]
        runs = {
            number: start(place, ["sh", "-c", f"kill -{number} $$"], name=f"k{number}", ranks=1)
            for number in numbers
        }
        for number, run in runs.items():
            why = ended(place, run, 10, f"k{number}")
            name = name_of(number)
            assert (why["name"], why["cause"]) == ("RankDisconnected", f"killed {name}")
            assert why["exit_code"] is None and why["signal"] == name
            assert f"was killed by {name} " in run.last_line


STEPS = ("starting", "connected", "loading", "ready", "collective", "warming", "serving")
WALK = """
trace = posix.open(argv[0], posix.O_RDWR)

def step(i, what):
    posix.pwrite(trace, bytes([i]), 2 * rank)
    what()
    posix.pwrite(trace, bytes([i]), 2 * rank + 1)
    time.sleep((posix.getpid() % 7) / 1000)

step(1, hello)
step(2, lambda: progress(1, 2))
step(3, lambda: ready('collective,serving'))
hear('GO')
step(4, lambda: say('COLLECTIVE=begin\\nNAME=gather\\n'))
step(5, lambda: say('COLLECTIVE=done\\nNAME=gather\\n'))
step(6, lambda: say('SERVING=1\\n'))
hear('ABORT')
"""


def rank_of(pid):
    for word in replay.read_proc(pid, "environ").split(b"\0"):
        if word.startswith(b"RANK="):
            return int(word[5:])
    return None


def victim_of(place, run, dice):
    """A rank that has been forked, by chance; None while there is none."""
    below = replay.children_of(run.pid)
    ranks = replay.children_of(below[0]) if below else []
    return dice.choice(ranks) if ranks else None


def test_kill_anywhere(place):
    seed = random.randrange(1 << 32)
    dice = random.Random(seed)
    for i in replay.times(1000, 15):
        trace = place.root / "trace"
        trace.write_bytes(bytes(6))
        where = f"seed {seed}, run {i}"
        run = start(place, WALK, trace, ranks=3)
        moment = time.monotonic() + dice.uniform(0.005, 0.09)
        replay.await_that(lambda: time.monotonic() >= moment, step=0.0005)
        pid = replay.await_that(lambda: victim_of(place, run, dice))
        replay.kill(pid, 9)
        assert run.wait() == 10, f"{where}\n{run.told()}"
        told = report(place)
        why = told["reason"]
        assert (why["name"], why["cause"], why["pid"]) == (
            "RankDisconnected",
            "killed SIGKILL",
            pid,
        ), f"{where}\n{run.told()}"
        began, done = trace.read_bytes()[2 * why["rank"] : 2 * why["rank"] + 2]
        phases = set(STEPS[done : began + 1]) | ({"collective"} if began >= 3 else set())
        assert why["phase"] in phases, f"{where}: {why['phase']} is none of {phases}"
        assert not place.processes() and not list(place.run_dir.iterdir()), where


def test_drill_kinds(place):
    """late, gone, eof, missing and timeout, by ranks that know nothing but the link."""
    kinds = {
        "late": ("hello(); time.sleep(0.3 * rank); ready(); hear('GO'); posix._exit(0)", 0, None),
        "gone": ("hello(); posix._exit(1) if rank == 1 else hear('ABORT')", 10, "exited 1"),
        "eof": ("hello(); link.close() if rank == 1 else hear('ABORT'); hold()", 10, "link-closed"),
        "missing": ("hold() if rank == 1 else hello(); ready(); hear('ABORT')", 11, "load"),
        "timeout": (
            "hello(); ready('collective'); hear('GO')\n"
            "if rank == 1: hold()\n"
            "say('COLLECTIVE=begin\\nNAME=gather\\n'); hear('ABORT')",
            11,
            "collective",
        ),
    }
    bounds = {"load_timeout": "1500ms", "collective_timeout": "300ms", "abort_timeout": "300ms"}
    runs = {
        kind: start(place, code, name=kind, mode="job" if kind == "late" else "service", **bounds)
        for kind, (code, _, _) in kinds.items()
    }
    for kind, (_, status, cause) in kinds.items():
        assert runs[kind].wait() == status, runs[kind].told()
        why = report(place, kind)["reason"]
        if cause is not None:
            assert why["rank"] == 1, kind
            assert cause in (why["cause"], why["bound"]), kind
