"""
The figures of `etc/dev bench`: ours, the bare limit and, where installed, torchrun, measured in one
run, ours and bare taking turns. A bound is a multiple of the bare limit or a plain number.

    bench.py --build DIR [--json] [MEASURE...]
"""

import argparse
import json
import mmap
import os
import platform
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MEASURES = ("start", "go", "abort", "gone", "memory", "wakeups", "many", "load")
ROUNDS_MEASURES = {"start", "go", "abort", "gone"}
COLUMNS = ("start", "hello", "go", "abort", "gone")  # of a line of group_rounds, us
RANKS = 8
ROUNDS = 300
MANY_RANKS = 1000
MANY_ROUNDS = 7
TORCHRUN_ROUNDS = 3
QUIET_S = 10
TIMES_BYTES = 1 << 20
WENT_OFFSET = 24  # of struct times
MIB = 1 << 20
LOAD_FREE_BYTES = 3072 * MIB


class Row:
    """One line of the table. bound: ("ratio", x) or ("value", x); at most, unless at_least."""

    def __init__(self, measure, name, unit, ours, bare=None, bound=None, at_least=False, peer=None):
        self.measure, self.name, self.unit = measure, name, unit
        self.ours, self.bare, self.peer = ours, bare, peer
        self.ratio = ours / bare if bare else None
        self.bound, self.at_least = bound, at_least
        self.met = None
        if bound:
            got = self.ratio if bound[0] == "ratio" else ours
            self.met = got >= bound[1] if at_least else got <= bound[1]

    def bound_text(self):
        if not self.bound:
            return "-"
        unit = " x bare" if self.bound[0] == "ratio" else f" {self.unit}"
        return f"{'>=' if self.at_least else '<='} {self.bound[1]:g}{unit}"

    def as_json(self):
        return {
            "measure": self.measure, "name": self.name, "unit": self.unit, "ours": self.ours,
            "bare": self.bare, "ratio": self.ratio, "bound": self.bound_text(), "met": self.met,
            "torchrun": self.peer,
        }  # fmt: skip


def percentile(values, percent):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(percent / 100 * (len(ordered) - 1)))]


def torchrun_command():
    """The words that start torchrun, None if none is installed that works."""
    for words in (
        ["torchrun"],
        ["python3", "-m", "torch.distributed.run"],
        ["/usr/bin/python3", "-m", "torch.distributed.run"],
    ):
        probe = [*words, "--nproc_per_node", "1", "--no_python", "true"]
        if shutil.which(words[0]) and subprocess.run(probe, capture_output=True).returncode == 0:
            return words
    return None


class Bench:
    def __init__(self, build, folder):
        self.supervisor = str(build / "tfsupervisor")
        self.worker = str(build / "tfworker")
        self.programs = build / "bench"
        self.stub = str(self.programs / "rank_stub")
        self.folder = folder
        self.torchrun = torchrun_command()
        for name in ("run", "state"):
            (folder / name).mkdir()
        self.env = dict(
            os.environ, RUNTIME_DIRECTORY=str(folder / "run"),
            STATE_DIRECTORY=str(folder / "state"), TF_BENCH_LOG=str(folder / "group.log"),
        )  # fmt: skip

    def say(self, text):
        print(f"bench: {text}", file=sys.stderr, flush=True)

    def rounds(self, ranks, rounds, **programs):
        """{name: {column: [us...]}} of group_rounds over programs name=(status, words...)."""
        argv = [str(self.programs / "group_rounds"), str(ranks), str(rounds)]
        for name, words in programs.items():
            argv += [name, *map(str, words), ":"]
        done = subprocess.run(argv[:-1], env=self.env, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            log = Path(self.env["TF_BENCH_LOG"])
            sys.exit(log.read_text() if log.exists() else "bench: no log")
        found = {name: {column: [] for column in COLUMNS} for name in programs}
        for line in done.stdout.splitlines():
            name, *values = line.split()
            for column, value in zip(COLUMNS, values):
                if value != "-":
                    found[name][column].append(float(value))
        return found

    def ours(self, ranks, *options):
        return (10, self.supervisor, "run", "--ranks", ranks, *options, "--", self.stub)

    def bare(self, ranks):
        return (0, self.programs / "bare_group", ranks, self.stub)

    def torchrun_rounds(self):
        """Percentiles of torchrun over the same ranks, {} if there is none."""
        if not self.torchrun:
            return {}
        self.say(f"{TORCHRUN_ROUNDS} rounds of torchrun")
        words = (1, shutil.which(self.torchrun[0]), *self.torchrun[1:], "--nproc_per_node", RANKS,
                 "--no_python", self.stub)  # fmt: skip
        return self.rounds(RANKS, TORCHRUN_ROUNDS, torchrun=words)["torchrun"]

    def measure_rounds(self, wanted):
        self.say(f"{ROUNDS} rounds of {RANKS} ranks, ours and bare in turn")
        found = self.rounds(RANKS, ROUNDS, ours=self.ours(RANKS), bare=self.bare(RANKS))
        peer = self.torchrun_rounds()
        plan = (
            ("start", f"exec to main() of {RANKS} ranks", 50, ("ratio", 2.0)),
            ("go", "last READY to last GO, p50", 50, ("ratio", 1.5)),
            ("go", "last READY to last GO, p99", 99, ("ratio", 1.5)),
            ("abort", "SIGKILL to last ABORT, p50", 50, ("ratio", 1.5)),
            ("abort", "SIGKILL to last ABORT, p99", 99, ("ratio", 1.5)),
            ("gone", "SIGKILL to tree empty, p50", 50, ("value", 50.0)),
            ("gone", "SIGKILL to tree empty, p99", 99, ("value", 50.0)),
        )
        for column, name, percent, bound in plan:
            if column in wanted:
                ours, bare, other = (
                    percentile(which[column], percent) / 1000 if which.get(column) else None
                    for which in (found["ours"], found["bare"], peer)
                )
                yield Row(column, name, "ms", ours, bare, bound, peer=other)

    def measure_many(self):
        self.say(f"{MANY_ROUNDS} rounds of {MANY_RANKS} ranks, ours and bare in turn")
        found = self.rounds(
            MANY_RANKS, MANY_ROUNDS, ours=self.ours(MANY_RANKS), bare=self.bare(MANY_RANKS)
        )
        for column, name in (("hello", "start to last HELLO"), ("go", "last READY to last GO")):
            ours, bare = (percentile(found[who][column], 50) / 1000 for who in ("ours", "bare"))
            yield Row("many", f"{MANY_RANKS} ranks: {name}", "ms", ours, bare, ("ratio", 1.5))

    def measure_quiet(self, wanted):
        """Memory and wake-ups of a group that serves."""
        argv = (*self.ours(RANKS, "--set", "group.mode=service"),)[1:]
        ours = Quiet(list(map(str, argv)), self.env)
        peer = None
        if self.torchrun:
            argv = [*self.torchrun, "--nproc_per_node", str(RANKS), "--no_python", self.stub]
            peer = Quiet(argv, self.env)
        if "memory" in wanted:
            name = f"memory of guard and supervisor, {RANKS} ranks"
            for kind, bound in (("Rss", ("value", 5.0)), ("Pss", None)):
                yield Row("memory", f"{name}, {kind}", "MiB", ours.memory[kind], None, bound,
                          peer=peer and peer.memory[kind])  # fmt: skip
        if "wakeups" in wanted:
            yield Row("wakeups", f"wake-ups in {QUIET_S} s of serving", "", ours.wakeups, None,
                      ("value", 0), peer=peer and peer.wakeups)  # fmt: skip

    def measure_load(self):
        folder = Path(tempfile.mkdtemp(prefix="tf-bench-")) / "checkpoint"
        free = shutil.disk_usage(folder.parent).free
        if free < LOAD_FREE_BYTES:
            sys.exit(f"bench: {folder.parent}: {free // MIB} MiB free, load wants "
                     f"{LOAD_FREE_BYTES // MIB} MiB; set TMPDIR")  # fmt: skip
        self.say("writing a checkpoint, then loading it, ours and bare in turn")
        subprocess.run([self.worker, "synth", folder], stdout=subprocess.DEVNULL, check=True)
        done = subprocess.run([self.programs / "load_bench", folder], stdout=subprocess.PIPE)
        if done.returncode != 0:
            sys.exit(done.returncode)
        found = json.loads(done.stdout)
        shutil.rmtree(folder.parent)
        for world_size in (1, 2):
            one = found[f"rank_0_of_{world_size}"]
            name = f"host load, rank 0 of {world_size}, {found['threads']} threads"
            yield Row("load", name, "GB/s", one["ours_gbps"], one["bare_gbps"], ("ratio", 0.9),
                      at_least=True)  # fmt: skip
            yield Row("load", f"rank 0 of {world_size}: peak memory above its own bytes", "MiB",
                      one["peak_over_own_bytes_mib"], None, ("value", 64.0))  # fmt: skip


class Quiet:
    """Starts a group, leaves it alone, looks at what runs it: the processes above the ranks."""

    def __init__(self, argv, env):
        fd = os.memfd_create("bench-times")
        os.ftruncate(fd, TIMES_BYTES)
        page = mmap.mmap(fd, TIMES_BYTES)
        page[0:4] = struct.pack("I", RANKS)
        env = dict(env, TF_BENCH_TIMES=f"/proc/{os.getpid()}/fd/{fd}")
        with open(env["TF_BENCH_LOG"], "w") as log:
            group = subprocess.Popen(argv, env=env, stdout=log, stderr=log)
        try:
            self._await_go(page, group)
            time.sleep(1)  # what follows go, such as the last lines of the log
            pids = above_ranks(group.pid)
            before = switches(pids)
            self.memory = {kind: memory_of(pids, kind) / MIB for kind in ("Rss", "Pss")}
            time.sleep(QUIET_S)
            self.wakeups = switches(pids) - before
        finally:
            group.send_signal(signal.SIGTERM)
            group.wait(30)
            os.close(fd)

    def _await_go(self, page, group):
        end = time.monotonic() + 60
        while struct.unpack_from("I", page, WENT_OFFSET)[0] < RANKS:
            if group.poll() is not None or time.monotonic() > end:
                sys.exit("bench: the group did not start")
            time.sleep(0.01)


def above_ranks(pid):
    """pid and those below it that have children of their own."""
    below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    if not below:
        return []
    return [pid] + [found for child in below for found in above_ranks(int(child))]


def switches(pids):
    """Times that any thread of these was put on a processor."""
    return sum(
        int(line.split()[1])
        for pid in pids
        for status in Path(f"/proc/{pid}/task").glob("*/status")
        for line in status.read_text().splitlines()
        if "ctxt_switches" in line
    )


def memory_of(pids, kind):
    """Bytes, as /proc/PID/smaps_rollup tells."""
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith(f"{kind}:"):
                total += int(line.split()[1]) * 1024
    return total


def figure(value):
    if value is None:
        return "-"
    return f"{value:.0f}" if value == int(value) or value >= 1000 else f"{value:.3g}"


def print_table(rows):
    print(f"{'measure':<44} {'ours':>8} {'bare':>8}      {'ratio':>6}  {'bound':<12} met  torchrun")
    for row in rows:
        met = {True: "yes", False: "NO", None: "-"}[row.met]
        ratio = f"{row.ratio:.2f}" if row.ratio is not None else "-"
        print(
            f"{row.name:<44} {figure(row.ours):>8} {figure(row.bare):>8} {row.unit:<4} {ratio:>6}  "
            f"{row.bound_text():<12} {met:<4} {figure(row.peer)}"
        )


def measure(bench, wanted):
    if wanted & ROUNDS_MEASURES:
        yield from bench.measure_rounds(wanted)
    if wanted & {"memory", "wakeups"}:
        yield from bench.measure_quiet(wanted)
    if "many" in wanted:
        yield from bench.measure_many()
    if "load" in wanted:
        yield from bench.measure_load()


def main():
    parser = argparse.ArgumentParser(prog="etc/dev bench")
    parser.add_argument("--build", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help=", ".join(MEASURES))
    args = parser.parse_args()
    unknown = set(args.measures) - set(MEASURES)
    if unknown:
        parser.error(f"no measure {', '.join(sorted(unknown))}; there are {', '.join(MEASURES)}")
    # /run is memory where tfsupervisor serves; a socket file on a disk costs milliseconds.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="tf-bench-", dir=memory) as folder:
        bench = Bench(args.build.resolve(), Path(folder))
        rows = list(measure(bench, set(args.measures or MEASURES)))
    host = {"cores": os.cpu_count(), "kernel": platform.release(), "torchrun": bool(bench.torchrun)}
    if args.json:
        print(json.dumps({"host": host, "measures": [row.as_json() for row in rows]}, indent=2))
    else:
        print_table(rows)
        print(f"{host['cores']} cores, Linux {host['kernel']}", end="")
        print("" if bench.torchrun else "; no torchrun that works is installed")


if __name__ == "__main__":
    main()
