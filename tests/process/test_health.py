"""What a group tells while it lives and after it has gone: health socket, client verbs, reports."""

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess

import pytest

from conftest import DEADLINE_S, TFSUPERVISOR, deadline_after, is_zombie, left

NOBODY = 65534

# A rank that is ready when the test says so, by a line in its FIFO.
HELD = """\
import os, signal, socket
link = socket.socket(fileno=int(os.environ["TFRANK_LINK_FD"]))
link.send(b"HELLO=1\\nPROTOCOL=1\\nSETTINGS=aa\\n")
link.send(b"PROGRESS=36/48\\nUNIT=layer\\nBYTES=100/200\\n")
print("loading", flush=True)
with open(os.environ["TF_FIFO"]) as fifo:
    fifo.readline()
link.send(b"READY=1\\n")
while True:
    signal.pause()
"""


class Group:
    """`demo`: rank 0 is ready at once, rank 1 when let() is called."""

    def __init__(self, place, *lines, stubborn=False):
        fifo = place.root / "fifo"
        os.mkfifo(fifo)
        held = place.write("held.py", HELD)
        self.fifo = fifo
        self.place = place
        ignore = "ignore:TERM " if stubborn else ""
        ini = place.write(
            "demo.ini",
            "\n".join(
                [
                    "[group]",
                    "name = demo",
                    "ranks = 2",
                    *[line for line in lines if not line.startswith("http")],
                    "[worker]",
                    f"command = {' '.join(place.rank())} {ignore}hello ready pause",
                    "gpus = none",
                    "[worker.1]",
                    f"command = /usr/bin/python3 -S -E {held}",
                    "[environment]",
                    f"TF_FIFO = {fifo}",
                    "[health]",
                    "mode = 0600",
                    *[line for line in lines if line.startswith("http")],
                    "",
                ]
            ),
        )
        self.run = place.run(ini)
        self.run.wait_line(r"loading", stream="out")
        self.run.wait_line(r"rank 0: ready")

    def let(self):
        with open(self.fifo, "w", encoding="ascii") as fifo:
            fifo.write("go\n")
        self.run.wait_line(r"demo: serving|demo: .*\bserving\b")

    def kill(self, rank):
        os.kill(self.place.status("demo")["ranks"][rank]["pid"], signal.SIGKILL)


def probes(place):
    return {path: place.http("demo", path)[0] for path in ("/startupz", "/readyz", "/livez")}


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def raw(place, text, seconds=DEADLINE_S):
    """The whole answer of the Unix socket to these bytes."""
    end = deadline_after(seconds)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(left(end))
        sock.connect(str(place.run_dir / "demo" / "health.sock"))
        sock.sendall(text.encode())
        answer = b""
        while chunk := sock.recv(65536):
            answer += chunk
    return answer.decode()


def test_probes_follow_the_group_from_load_to_loss(place):
    group = Group(place, "abort_timeout = 10s", stubborn=True)
    assert probes(place) == {"/startupz": 503, "/readyz": 503, "/livez": 200}
    group.let()
    assert probes(place) == {"/startupz": 200, "/readyz": 200, "/livez": 200}
    group.kill(1)
    group.run.wait_line(r"ending the group")
    assert probes(place) == {"/startupz": 503, "/readyz": 503, "/livez": 503}
    reason = place.status("demo")["reason"]
    assert (reason["name"], reason["rank"], reason["cause"]) == (
        "RankDisconnected",
        1,
        "killed SIGKILL",
    )
    assert (reason["signal"], reason["phase"]) == ("SIGKILL", "serving")
    assert reason["log_tail"] == ["loading"]
    saved, end = place.run_dir / "demo" / "report.json", deadline_after(DEADLINE_S)
    # It is written in one of the next turns of the loop: an answer is a turn.
    while not saved.exists() and left(end):
        place.http("demo", "/livez")
    report = json.loads(saved.read_text())
    assert report["reason"]["cause"] == "killed SIGKILL"
    assert place.call("status", "demo").status == 1
    told = place.call("why", "demo")
    assert told.status == 0 and "not ended when this was written" in told.stdout
    group.kill(0)
    assert group.run.wait() == 10


def test_status_tells_how_far_every_rank_is(place):
    Group(place)
    status = place.status("demo")
    assert (status["group"], status["state"], status["epoch"]) == ("demo", "loading", 1)
    assert status["bounds"]["ready_timeout"] == 600
    first, second = status["ranks"]
    assert (first["state"], second["state"]) == ("ready", "loading")
    assert second["progress"] == {
        "done": 36,
        "total": 48,
        "unit": "layer",
        "bytes": 100,
        "bytes_total": 200,
    }
    assert second["rss_bytes"] > 1 << 20
    shown = place.call("status", "demo")
    assert shown.status == 3
    assert re.search(r"^ *1 +loading +\[#{10}\.{10}\] 36/48 layer", shown.stdout, re.M)
    assert "\x1b" not in shown.stdout
    assert json.loads(place.call("status", "demo", "--json").stdout)["group"] == "demo"


def test_exit_statuses_of_status_and_health(place):
    group = Group(place)
    assert place.call("status", "demo").status == 3
    assert [place.call("health", "demo", *o).status for o in ([], ["--startup"], ["--live"])] == [
        1,
        1,
        0,
    ]
    group.let()
    assert place.call("status", "demo").status == 0
    assert [place.call("health", "demo", *o).status for o in ([], ["--startup"], ["--ready"])] == [
        0,
        0,
        0,
    ]
    absent = place.call("status", "nobody")
    assert absent.status == 1 and "there is no group nobody" in absent.stderr
    assert place.call("health", "nobody").status == 1


def test_a_job_that_nobody_gates_counts_as_running(place):
    run = place.run("--ranks", "1", "--", *place.rank("print:here", "pause"))
    run.wait_line("here")
    name = f"run-{run.pid}"
    assert place.call("status", name).status == 0
    assert place.call("stop", name).status == 0
    assert run.wait() == 0


def test_routes_and_methods(place):
    Group(place)
    assert place.http("demo", "/nowhere")[0] == 404
    assert place.http("demo", "/status", method="POST")[0] == 405
    assert "\r\nAllow: GET, HEAD\r\n" in raw(place, "PUT /status HTTP/1.1\r\n\r\n")
    assert "\r\nAllow: POST\r\n" in raw(place, "GET /stop HTTP/1.1\r\n\r\n")
    head = raw(place, "HEAD /livez HTTP/1.1\r\n\r\n")
    assert head.startswith("HTTP/1.1 200 ") and head.endswith("\r\n\r\n")
    assert "\r\nContent-Length: 8\r\n" in head


def test_metrics_are_prometheus_text(place):
    Group(place)
    text = place.http("demo", "/metrics")[1]
    sample = re.compile(r'^tfsupervisor_[a-z_]+\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\} [0-9.e+-]+$')
    for line in text.splitlines():
        assert re.match(r"^# (HELP|TYPE) tfsupervisor_[a-z_]+ .+$", line) or sample.match(line), line
    assert 'tfsupervisor_load_progress_ratio{group="demo",rank="1"} 0.5\n' in text
    promtool = shutil.which("promtool")
    if promtool:
        subprocess.run([promtool, "check", "metrics"], input=text, text=True, check=True)


def test_tcp_answers_probes_but_stops_nothing(place):
    port = free_port()
    group = Group(place, f"http = 127.0.0.1:{port}")
    group.let()

    def ask(request):
        with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as sock:
            sock.sendall(request)
            return sock.makefile("rb").read()

    assert ask(b"GET /readyz HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    assert ask(b"POST /stop HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 403 ")
    assert place.http("demo", "/readyz")[0] == 200


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can come as another user")
def test_another_user_may_look_but_not_stop(place):
    Group(place)
    (place.run_dir / "demo").chmod(0o711)
    (place.run_dir / "demo" / "health.sock").chmod(0o666)
    os.seteuid(NOBODY)
    try:
        assert place.http("demo", "/livez")[0] == 200
        assert place.http("demo", "/stop", method="POST")[0] == 403
    finally:
        os.seteuid(0)
    assert place.http("demo", "/livez")[0] == 200


def test_stop_returns_when_nothing_is_left(place):
    group = Group(place, "stop_timeout = 300ms", stubborn=True)
    ranks = place.rank_pids(group.run)
    asked = place.call("stop", "demo")
    assert all(is_zombie(pid) for pid in ranks)
    assert not (place.run_dir / "demo").exists()
    assert asked.status == 0 and re.search(r"^demo: stopped after ", asked.stdout)
    assert group.run.wait() == 0
    assert "stopped on request" in group.run.last_line
    again = place.call("stop", "demo")
    assert again.status == 1 and "there is no group demo" in again.stderr


def test_name_may_be_left_out_if_one_group_is_running(place):
    Group(place)
    alone = place.call("status", "--run-dir", place.run_dir, "--json")
    assert json.loads(alone.stdout)["group"] == "demo"
    other = place.run("--ranks", "1", "--", *place.rank("print:here", "pause"))
    other.wait_line("here")
    both = place.call("status", "--run-dir", place.run_dir)
    assert both.status == 1
    assert "name one: " in both.stderr and "demo" in both.stderr and "run-" in both.stderr


def test_why_tells_the_incident_after_the_group_has_gone(place):
    group = Group(place)
    group.kill(1)
    assert group.run.wait() == 10
    told = place.call("why", "demo")
    assert told.status == 0
    first = told.stdout.splitlines()[0]
    assert re.match(
        r"demo: RankDisconnected: rank 1 \(pid \d+\) was killed by SIGKILL while loading "
        r"\(layer 36 of 48\), [0-9.]+ s after the start$",
        first,
    )
    assert group.run.last_line == f"tfsupervisor: {first}"
    for part in ("rank 1 of 2", "loading: layer 36 of 48", "rank 0: ready", "            loading"):
        assert part in told.stdout
    assert "out-of-memory" in told.stdout
    document = json.loads(place.call("why", "demo", "--json").stdout)
    assert document["exit_status"] == 10 and document["message"] == first[len("demo: ") :]
    assert document["reason"]["victims"][0]["rank"] == 0
    assert place.call("why", "--run-dir", place.run_dir).stdout == told.stdout
    assert len(place.call("why", "--list", "--run-dir", place.run_dir).stdout.splitlines()) == 1


def test_why_has_nothing_to_tell_of_a_clean_end(place):
    nothing = place.call("why", "demo")
    assert nothing.status == 1 and "no end of demo is on record" in nothing.stderr
    Group(place)
    assert place.call("stop", "demo").status == 0
    assert place.call("why", "demo").status == 1
    assert "stopped on request" in place.call("why", "demo", "--list").stdout


def test_wrong_options_are_usage_errors(place):
    for words, said in (
        (["status", "--jsn"], "did you mean --json?"),
        (["health", "--ready", "--live"], "choose one"),
        (["stop", "a", "b"], "one NAME is enough"),
        (["why", "--run-dir"], "wants a value"),
    ):
        wrong = place.call(*words)
        assert wrong.status == 64
        assert said in wrong.stderr and f"usage: tfsupervisor {words[0]} " in wrong.stderr


def test_a_living_group_is_refused_by_name_and_pid(place):
    group = Group(place)
    second = place.run(place.root / "demo.ini")
    assert second.wait() == 15
    assert "group demo is already running" in second.stderr
    assert re.search(r"pid \d+", second.last_line)
    assert place.http("demo", "/livez")[0] == 200
    assert group.run.running


def test_what_dead_ones_left_is_cleaned_and_said(place):
    group = Group(place)
    supervisor, ranks = place.supervisor_of(group.run), place.rank_pids(group.run)
    group.run.signal(signal.SIGSTOP)
    assert os.WIFSTOPPED(os.waitpid(group.run.pid, os.WUNTRACED)[1])
    os.kill(supervisor, signal.SIGKILL)
    group.run.signal(signal.SIGKILL)
    for pid in ranks:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    place.await_end([supervisor, *ranks])
    assert (place.run_dir / "demo" / "health.sock").exists()
    dead = place.call("status", "demo")
    assert dead.status == 1 and "its supervisor" in dead.stderr and "is gone" in dead.stderr
    again = place.run(place.root / "demo.ini")
    again.wait_line(r"cleaned .*/demo: \d+ files left by a supervisor that is gone")
    again.wait_line(r"rank 0: ready")
    assert place.call("stop", "demo").status == 0


def test_a_run_directory_that_cannot_be_used_is_named(place):
    command = ["--ranks", "1", "--", "/bin/true"]
    for folder, why in (
        ("/sys", "/sys/run-"),
        (place.root / "none" / "x", "No such file or directory"),
        (place.root / ("x" * 90), "has 1"),
    ):
        refused = place.run("--run-dir", folder, *command)
        assert refused.wait() == 15
        assert "PreflightFailed: " in refused.last_line
        assert str(folder) in refused.last_line and why in refused.last_line


def blocking_client(path):
    """A client whose connect() waits while the listener's queue is full."""
    sock = socket.socket(socket.AF_UNIX)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 60, 0))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 60, 0))
    sock.connect(path)
    return sock


def test_a_thousand_silent_clients_do_not_starve_a_probe_at_64_descriptors(place):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    run = place.start(
        "/bin/sh",
        "-c",
        'ulimit -n 64 && exec "$@"',
        "sh",
        TFSUPERVISOR,
        "run",
        "--ranks",
        "1",
        "--",
        *place.rank("hello", "ready", "await:GO", "print:gone-on", "pause"),
    )
    run.wait_line("gone-on")
    path = str(place.run_dir / f"run-{run.pid}" / "health.sock")
    silent = [blocking_client(path) for _ in range(1000)]
    for _ in range(20):
        with blocking_client(path) as sock:
            sock.sendall(b"GET /readyz HTTP/1.1\r\n\r\n")
            assert sock.recv(4096).startswith(b"HTTP/1.1 200 ")
    for sock in silent:
        sock.close()
