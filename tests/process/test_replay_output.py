"""Replays of what ranks print: nothing is lost, nothing blocks, and whatever it is can be read."""

import json
import os
import re
import signal
import subprocess

import pytest
import replay
from replay import TFSUPERVISOR, ended, ini, start, wild


def test_last_words(place):
    """100,000 lines, then SIGKILL: all are in the log, and the tail is in the report."""
    gate = replay.Gate(place)
    run = start(
        place,
        "ignore('TERM'); up()\n"
        "if rank == 1:\n"
        "    for i in range(0, 100000, 500):\n"
        "        tell('\\n'.join(f'line {j} of rank {rank}' for j in range(i, i + 500)))\n"
        "    die('KILL')\n"
        "hear('ABORT'); gate(); posix._exit(0)",
        abort_timeout="1h",
    )
    gate.await_ranks(1)
    log = place.run_dir / "demo" / "rank-1.log"
    replay.await_that(lambda: log.read_text().endswith("line 99999 of rank 1\n"))
    assert log.read_text() == "".join(f"line {i} of rank 1\n" for i in range(100000))
    gate.release()
    why = ended(place, run, 10)
    assert why["log_tail"][-1] == "line 99999 of rank 1"
    shown = [line for line in run.stdout.splitlines() if line.startswith("[rank 1] ")]
    left_out = sum(int(n) for n in re.findall(r"^\.\.\. (\d+) lines not shown", run.text(), re.M))
    assert all(re.fullmatch(r"\[rank 1\] line \d+ of rank 1", line) for line in shown)
    assert len(shown) + left_out == 100000
    assert shown[-1] == "[rank 1] line 99999 of rank 1" or left_out


def test_last_words_killed_midway(place):
    """Every line whose write had returned is there, and no line is torn."""
    gate = replay.Gate(place)
    run = start(
        place,
        "count = posix.open('count', posix.O_RDWR | posix.O_CREAT)\n"
        "ignore('TERM'); up(); gate()\n"
        "if rank == 0: hear('ABORT'); gate(); posix._exit(0)\n"
        "i = 0\n"
        "while True: tell(f'line {i}'); i += 1; posix.pwrite(count, b'%9d' % i, 0)",
        abort_timeout="1h",
    )
    pids = gate.await_ranks(2)
    gate.release()
    log = place.run_dir / "demo" / "rank-1.log"
    replay.await_that(lambda: log.exists() and log.stat().st_size > 20000)
    replay.kill(pids[1], 9)
    gate.await_ranks(1)
    written = int((place.root / "count").read_text())
    replay.await_that(lambda: log.read_text().count("\n") >= written)
    lines = log.read_text().splitlines()
    assert lines == [f"line {i}" for i in range(len(lines))] and len(lines) >= written
    gate.release()
    assert run.wait() == 10


def test_last_words_unread_at_the_death(place):
    """A pipe full of words is drained, though nothing else holds the end up."""
    gate = replay.Gate(place)
    run = start(
        place,
        "import fcntl; fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20)\n"
        "up(); gate()\ntell('\\n'.join(f'line {i}' for i in range(60000))); die('KILL')",
        ranks=1,
    )
    pids = gate.await_ranks(1)
    supervisor = place.supervisor_of(run)
    replay.kill(supervisor, signal.SIGSTOP)
    gate.release()
    replay.await_death(pids[0])
    replay.kill(supervisor, signal.SIGCONT)
    why = ended(place, run, 10)
    assert why["log_tail"][-1] == "line 59999"
    assert run.stdout.splitlines()[-1] == "[rank 0] line 59999"


def test_last_words_while_a_child_holds_the_pipe(place):
    """A grandchild that keeps the pipe open holds up neither the words nor the end."""
    gate = replay.Gate(place)
    run = start(
        place,
        "up(); gate()\n"
        "if rank == 1: escape(prepare='ignore(15)'); tell('my last words'); posix._exit(4)\n"
        "hear('ABORT')",
        abort_timeout="300ms",
    )
    gate.await_ranks(2)
    gate.release()
    why = ended(place, run, 10)
    assert (why["rank"], why["cause"], why["log_tail"]) == (1, "exited 4", ["my last words"])
    assert "[rank 1] my last words" in run.stdout


def test_carriage_returns(place):
    run = start(
        place,
        "for i in range(1000): posix.write(1, b'\\rloading %d/1000' % (i + 1))\n"
        "posix.write(1, b'\\nraw \\xff\\xfe\\x00\\x1b[2J bytes\\n')\n"
        "posix.write(1, b'x' * 100 + b'\\n'); posix.write(1, b'no newline at the end')",
        ranks=1,
        mode="job",
    )
    assert run.wait() == 0
    lines = run.stdout.splitlines()
    assert all(line.startswith("[rank 0] ") for line in lines)
    assert lines[-1] == "[rank 0] no newline at the end"
    assert "[rank 0] loading 1000/1000" in lines and len(lines) < 30
    assert any("raw" in line and "bytes" in line for line in lines)


def rss_kib(pid):
    status = replay.read_proc(pid, "status").decode()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1])


@pytest.mark.parametrize("end", ["", "\\r", "\\n"])
def test_carriage_returns_in_bounded_memory(place, end):
    """64 MB without a newline, with carriage returns alone, or in lines of 1 MB."""
    gate = replay.Gate(place)
    run = start(
        place,
        "up(); gate()\n"
        "for i in range(64):\n"
        f"    data = b'y' * (1 << 20) + b'{end}'\n"
        "    while data: data = data[posix.write(1, data):]\n"
        "gate(); hold()",
        ranks=1,
    )
    gate.await_ranks(1)
    before = rss_kib(place.supervisor_of(run))
    gate.release()
    gate.await_ranks(1)
    assert rss_kib(place.supervisor_of(run)) < before + 12 * 1024
    assert place.http("demo", "/readyz")[0] == 200
    log = place.run_dir / "demo"
    assert sum(path.stat().st_size for path in log.glob("rank-0.log*")) <= 16 << 20
    run.signal(15)
    assert run.wait() == 0
    assert max(map(len, run.stdout.splitlines())) <= 1 << 17


def test_output_flood_holds_up_nobody(place):
    """A rank that never stops printing: the others load, go, and their deaths are told."""
    gate = replay.Gate(place)
    run = start(
        place,
        "if rank == 0:\n    hello(); ready()\n    while True: tell('y' * 60)\n"
        "up(); gate(); hold()",
        ranks=3,
    )
    pids = gate.await_ranks(2)
    assert place.http("demo", "/readyz")[0] == 200
    replay.kill(pids[2], 9)
    why = ended(place, run, 10)
    assert (why["rank"], why["cause"]) == (2, "killed SIGKILL")


def start_into(place, path, fd, stream):
    """Our standard output or error is this descriptor."""
    return place.run(path, preexec_fn=lambda: os.dup2(fd, stream))


@pytest.mark.parametrize("stream", [1, 2])
def test_slow_reader_of_our_output(place, stream):
    """Nobody reads: ranks go and print on, and all of it is in their logs."""
    mine, theirs = os.pipe()
    gate = replay.Gate(place)
    code = (
        "for i in range(20000): tell(f'line {i}')\n"
        "up(); tell('went'); gate(); hold()"
    )
    run = start_into(place, ini(place, wild(place, code)), theirs, stream)
    os.close(theirs)
    gate.await_ranks(2)
    log = place.run_dir / "demo" / "rank-0.log"
    replay.await_that(lambda: log.read_text().endswith("went\n"))
    assert log.read_text().splitlines()[:20000] == [f"line {i}" for i in range(20000)]
    assert place.http("demo", "/readyz")[0] == 200
    run.signal(15)
    assert run.wait() == 0
    os.close(mine)


@pytest.mark.parametrize("stream", [1, 2])
def test_dead_reader_of_our_output(place, stream):
    mine, theirs = os.pipe()
    os.close(mine)
    gate = replay.Gate(place)
    code = "tell('to nobody'); up(); tell('went'); gate(); posix._exit(6)"
    run = start_into(place, ini(place, wild(place, code)), theirs, stream)
    os.close(theirs)
    gate.await_ranks(2)
    assert place.http("demo", "/readyz")[0] == 200
    gate.release()
    why = ended(place, run, 10)
    assert why["cause"] == "exited 6" and why["log_tail"] == ["to nobody", "went"]


def test_json_lines(place):
    path = ini(place, wild(place, "tell('a \"quoted\" line'); up(); posix._exit(3)"))
    run = place.run(path, "--log-format", "json")
    assert run.wait() == 10
    for stream in ("out", "err"):
        lines = [json.loads(line) for line in run.text(stream).splitlines()]
        assert lines and all(isinstance(line, dict) for line in lines)
    assert 'a \\"quoted\\" line' in run.stdout


def test_closed_output_is_no_death(place):
    """A rank may close its standard output and work on."""
    gate = replay.Gate(place)
    run = start(place, "up(); posix.close(1); posix.close(2); gate(); hold()")
    gate.await_ranks(2)
    assert place.http("demo", "/readyz")[0] == 200
    run.signal(signal.SIGTERM)
    assert run.wait() == 0


def test_full_disk_below_the_logs(place):
    """What the disk does not take costs the log, not the group."""
    replay.needs_namespaces()
    gate = replay.Gate(place)
    path = ini(place, wild(place, "tell('x' * 200000); tell('end'); up(); gate(); hold()"), ranks=1)
    mount = f"mount -t tmpfs -o size=64k,mode=711 none {place.run_dir}"
    words = ["unshare", "--mount", *replay.user_namespace(), "sh", "-c"]
    words += [f'{mount} && exec "$@"', "sh", TFSUPERVISOR, "run", str(path)]
    run = place.start(*words)
    gate.await_ranks(1)
    run.wait_line(r"go: ")
    assert "rank-0.log" in run.stderr
    run.signal(15)
    assert run.wait() == 0, run.told()


def test_no_disk_at_all_is_a_preflight(place):
    replay.needs_namespaces()
    path = ini(place, ["true"])
    mount = f"mount -t tmpfs -o size=4k,nr_inodes=1,mode=711 none {place.run_dir}"
    words = ["unshare", "--mount", *replay.user_namespace(), "sh", "-c"]
    words += [f'{mount} && exec "$@"', "sh", TFSUPERVISOR, "run", str(path)]
    run = place.start(*words)
    assert run.wait() == 15, run.told()
    assert "PreflightFailed" in run.last_line and str(place.run_dir) in run.last_line
    assert subprocess.run(["ls", place.run_dir], capture_output=True).stdout == b""
