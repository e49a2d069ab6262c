"""`tfsupervisor check`: what it says of a configuration, how it refuses one, that it starts nothing."""

import os
import stat

import pytest
from conftest import ROOT

TWO = """\
[group]
name = two
ranks = 2
collective_timeout = 45s
[worker]
command = sh -c "echo a=b ; exit" --rank {rank} --port {master_port}
gpus = none
ready = link
[worker.1]
stop_signal = INT
[environment]
GREETING = it's "{rank}" ; of {world_size}
"""


def check(place, *argv, **popen):
    return place.call("check", *argv, **popen)


def section(text, title):
    """The lines below a title, up to the next empty line or title."""
    lines = text.splitlines()
    start = lines.index(title) + 1
    end = next((i for i in range(start, len(lines)) if not lines[i].startswith(" ")), len(lines))
    return lines[start:end]


def test_shows_values_with_their_places(place):
    path = place.write("two.ini", TWO)
    done = check(place, path, "--set", "group.ready_timeout=90s")
    assert done.status == 0, done.told()
    group = {line.split()[0]: line.split(None, 1)[1] for line in section(done.stdout, "[group]")}
    assert group["ranks"].split() == ["2", f"{path}:3"]
    assert group["collective_timeout"].split() == ["45s", f"{path}:4"]
    assert group["ready_timeout"].split() == ["90s", "--set", "group.ready_timeout=90s"]
    assert group["load_timeout"].split() == ["1h", "default"]
    assert section(done.stdout, "[worker.1]") == [f"  stop_signal          INT{'':25}  {path}:10"]


def test_shows_each_rank_and_its_environment(place):
    done = check(place, place.write("two.ini", TWO))
    assert section(done.stdout, "ranks") == [
        "  rank 0  no GPU",
        "    sh -c 'echo a=b ; exit' --rank 0 --port {master_port}",
        "  rank 1  no GPU",
        "    sh -c 'echo a=b ; exit' --rank 1 --port {master_port}",
    ]
    for line in ('  GREETING=it\'s "0" ; of 2', "  WORLD_SIZE=2", "  TORCHELASTIC_RUN_ID=two"):
        assert line in done.stdout.splitlines()
    assert section(done.stdout, "notes") == [" - none"]


def test_a_command_is_checked_without_a_file(place):
    words = ["python3", "-c", "print('x y')", ""]
    done = check(place, "--ranks", "3", "--set", "worker.gpus=none", "--", *words)
    assert done.status == 0, done.told()
    assert done.stdout.splitlines()[0].startswith(f"run-{done.pid}: a job of 3 ranks")
    assert section(done.stdout, "ranks")[5] == "    python3 -c 'print('\\''x y'\\'')' ''"


@pytest.mark.parametrize(
    "text, note",
    [
        ("ready = auto", "every rank counts as loading until a rank speaks on its link"),
        ("ready = tcp:80", "every rank does not wait for go: its first collective cannot be held"),
        ("[worker.1]\ncommand = docker run x", "rank 1 runs the client of a container or"),
        ("[worker.0]\ncommand = /usr/bin/ssh h x", "rank 0 runs the client of a container or"),
        ("[worker.1]\ncommand = true && true", "rank 1 has a shell's word in its command"),
        ("[worker.0]\ncommand = no-such-program-here", "rank 0 names a program that is not in its"),
        ("alive = tcp:80", "every rank has alive, which nothing asks while watchdog_timeout = 0"),
    ],
)
def test_notes_say_what_people_learn_too_late(place, text, note):
    ini = "[group]\nranks = 2\n[worker]\ncommand = true\ngpus = none\n" + text + "\n"
    done = check(place, place.write("noted.ini", ini))
    assert done.status == 0, done.told()
    assert note in " ".join(" ".join(section(done.stdout, "notes")).split())


def test_ranks_count_for_a_file_too(place):
    done = check(place, place.write("two.ini", TWO), "--ranks", "3")
    assert done.stdout.startswith("two: a service of 3 ranks"), done.told()


def test_a_mistake_is_78_with_its_place_and_nothing_else(place):
    path = place.write("bad.ini", "[group]\nrank = 2\n")
    done = check(place, path)
    assert done.status == 78
    assert done.stdout == ""
    assert done.stderr == (
        f'tfsupervisor: {path}:2: unknown key "rank" in [group]; did you mean "ranks"?'
    )


def test_a_missing_file_is_78_with_both_places_looked_at(place):
    done = check(place, "no-such-group")
    assert done.status == 78
    assert "no-such-group: there is no such file here" in done.stderr
    assert "/etc/tfsupervisor/no-such-group.ini" in done.stderr


@pytest.mark.parametrize(
    "argv, said",
    [
        ([], "FILE or -- COMMAND is missing"),
        (["--"], "FILE or -- COMMAND is missing"),
        (["a.ini", "b.ini"], 'one FILE is enough, what is "b.ini"'),
        (["a.ini", "--", "true"], "FILE or -- COMMAND, not both"),
        (["--ranks", "0", "--", "true"], "--ranks wants a number from 1 to 1024"),
        (["--ranks=x", "--", "true"], "--ranks wants a number from 1 to 1024"),
        (["--ste", "a.b=c", "x.ini"], "did you mean --set?"),
        (["--frobnicate", "x.ini"], 'unknown option "--frobnicate"'),
        (["x.ini", "--set"], "--set wants SECTION.KEY=VALUE"),
    ],
)
def test_a_wrong_command_line_is_64_with_the_usage(place, argv, said):
    done = check(place, *argv)
    assert done.status == 64
    assert done.stdout == ""
    assert said in done.stderr
    assert "usage: tfsupervisor check FILE" in done.stderr


def test_the_environment_never_configures(place):
    path = place.write("two.ini", TWO)
    plain = check(place, path)
    names = {"TFSUPERVISOR_PORT": "tcp://10.0.0.1:1", "RANKS": "7", "RANK": "7", "WORLD_SIZE": "9"}
    assert check(place, path, env=names).stdout == plain.stdout


def test_a_long_command_arrives_whole(place):
    word = "".join(f"{i};=#" for i in range(1000))
    path = place.write("long.ini", f"[group]\nranks = 1\n[worker]\ncommand = true '{word}'\n")
    done = check(place, path, "--set", "worker.gpus=none")
    assert section(done.stdout, "ranks")[1] == f"    true '{word}'"


def test_a_file_may_be_a_pipe(place):
    with pipe_with(TWO) as pipe:
        done = check(place, "/dev/stdin", stdin=pipe)
    assert done.status == 0, done.told()
    assert done.stdout.startswith("two: a service of 2 ranks")


def pipe_with(text):
    reading, writing = os.pipe()
    os.write(writing, text.encode())
    os.close(writing)
    return open(reading, "rb")


def test_the_samples_are_valid(place):
    samples = sorted((ROOT / "etc").glob("*.ini"))
    assert len(samples) >= 3
    for sample in samples:
        done = check(place, sample)
        assert done.status == 0, done.told()
        assert stat.S_IMODE(sample.stat().st_mode) & 0o444 == 0o444
