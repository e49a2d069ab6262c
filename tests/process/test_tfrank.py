"""The client library as an engine uses it: C, C++ and Python, static and shared, by hand."""

import ctypes
import shutil
import subprocess

import pytest

from conftest import BUILD, ROOT

PROGRAM = r"""
#include <stdio.h>
#include <tfrank.h>

int
main(void)
{
	struct tfrank *rank;

	if (tfrank_open(&rank) != 0) {
		fprintf(stderr, "%s\n", tfrank_error());
		return 1;
	}
	if (tfrank_hello(rank, NULL) != 0 || tfrank_progress(rank, 1, 1, "layer", 0, 0) != 0 ||
	    tfrank_ready(rank, TFRANK_THEN_SERVING) != 0 || tfrank_wait_go(rank, 0) != 0 ||
	    tfrank_serving(rank) != 0)
		return 2;
	printf("rank %d of %d\n", tfrank_rank(rank), tfrank_world_size(rank));
	tfrank_close(rank);
	return 0;
}
"""

SHARED = BUILD / "worker" / "libtfrank.so"
STATIC = BUILD / "worker" / "libtfrank.a"


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(autouse=True)
def plain_library():
    undefined = output_of("nm", "-D", "--undefined-only", SHARED)
    if any(word in undefined for word in ("__asan_", "__tsan_", "__ubsan_")):
        pytest.skip("a sanitizer's library wants its runtime in every program")


def compile_program(place, compiler, suffix, library):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} here")
    source = place.write(f"engine.{suffix}", PROGRAM)
    program = place.root / "engine"
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
    subprocess.run(
        [compiler, *strict, "-I", ROOT / "worker", source, "-o", program, *library], check=True
    )
    return program


def shared_flags():
    return [SHARED, f"-Wl,-rpath,{SHARED.parent}"]


@pytest.mark.parametrize("compiler, suffix", [("cc", "c"), ("c++", "cc")])
@pytest.mark.parametrize("library", ["shared", "static"])
def test_an_engine_builds_and_runs_by_hand(place, compiler, suffix, library):
    flags = shared_flags() if library == "shared" else [STATIC]
    program = compile_program(place, compiler, suffix, flags)
    run = place.start(program, env={"RANK": 2, "WORLD_SIZE": 4})
    assert run.wait() == 0, run.told()
    assert run.stdout == "rank 2 of 4"


def test_an_engine_goes_in_a_group(place):
    program = compile_program(place, "cc", "c", shared_flags())
    run = place.run("--ranks", "2", "--", program)
    assert run.wait() == 0, run.told()
    assert "[rank 0] rank 0 of 2" in run.stdout and "[rank 1] rank 1 of 2" in run.stdout


def test_only_its_own_names_are_seen_from_outside():
    for command in (["nm", "-D", "--defined-only", SHARED], ["nm", "-g", "--defined-only", STATIC]):
        names = [line.split()[2] for line in output_of(*command).splitlines() if line.count(" ") == 2]
        assert "tfrank_open" in [name.split("@")[0] for name in names]
        assert [name for name in names if not name.startswith(("tfrank_", "TFRANK_"))] == []


def test_it_needs_libc_alone():
    lines = [line for line in output_of("readelf", "-d", SHARED).splitlines() if "NEEDED" in line]
    needed = {line.split("[")[1].rstrip("]") for line in lines}
    assert needed <= {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def test_python_can_use_it_through_ctypes(monkeypatch):
    for name in ("TFRANK_LINK_FD", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    library = ctypes.CDLL(str(SHARED))
    library.tfrank_abort_reason.restype = ctypes.c_char_p
    rank = ctypes.c_void_p()
    assert library.tfrank_open(ctypes.byref(rank)) == 0
    assert library.tfrank_hello(rank, b"ab") == 0
    assert library.tfrank_ready(rank, 0) == 0
    assert library.tfrank_wait_go(rank, ctypes.c_uint64(0)) == 0
    assert library.tfrank_abort_reason(rank) == b""
    library.tfrank_close(rank)
