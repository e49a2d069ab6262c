"""`tfworker synth`, `plan` and `verify`, against a reader of the format written here."""

import json
import os
import resource
import struct
import subprocess

import pytest

from conftest import DEADLINE_S, SLOW, TFWORKER

MASK = (1 << 64) - 1
SHAPE = "--layers 2 --hidden 64 --intermediate 96 --vocab 40".split()
INDEX = "model.safetensors.index.json"


def tfworker(*args, **options):
    return subprocess.run(
        [TFWORKER, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S * SLOW,
        check=False,
        **options,
    )


def synth(folder, *args):
    done = tfworker("synth", folder, *SHAPE, *args)
    assert done.returncode == 0, done.stderr
    return folder


def verify(folder):
    done = tfworker("verify", folder, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def read_file(path):
    """{name: (dtype, shape, bytes)} of one file, every byte of it accounted for."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header, data, end = json.loads(raw[8 : 8 + length]), raw[8 + length :], 0
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end_here = entry["data_offsets"]
        assert begin == end
        end = end_here
        tensors[name] = (entry["dtype"], entry["shape"], data[begin:end])
    assert end == len(data)
    return tensors


def read_checkpoint(folder):
    if not (folder / INDEX).exists():
        return read_file(folder / "model.safetensors")
    weight_map = json.loads((folder / INDEX).read_text())["weight_map"]
    tensors = {}
    for file in sorted(set(weight_map.values())):
        for name, tensor in read_file(folder / file).items():
            assert weight_map[name] == file
            tensors[name] = tensor
    assert set(tensors) == set(weight_map)
    return tensors


def splitmix64(j):
    z = (j + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def checksum(data):
    words = struct.unpack(f"<{(len(data) + 7) // 8}Q", data + bytes(-len(data) % 8))
    return sum(w * (splitmix64(j) | 1) for j, w in enumerate(words)) & MASK


def fnv1a(text):
    h = 0xCBF29CE484222325
    for byte in text.encode():
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return h


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize("layout", ["qwen3", "llama"])
def test_the_checksum_is_that_of_the_formula(tmp_path, layout, shards):
    folder = synth(tmp_path / "model", "--layout", layout, "--shards", shards)
    tensors, told = read_checkpoint(folder), verify(folder)
    sums = {name: checksum(data) for name, (_, _, data) in tensors.items()}
    assert {t["name"]: int(t["checksum"], 16) for t in told["tensors"]} == sums
    assert {t["name"]: (t["dtype"], t["shape"]) for t in told["tensors"]} == {
        name: (dtype, shape) for name, (dtype, shape, _) in tensors.items()
    }
    total = sum(value * (fnv1a(name) | 1) for name, value in sums.items()) & MASK
    assert int(told["checksum"], 16) == total
    assert (told["shards"], told["layers"]) == (shards, 2)


@pytest.mark.parametrize("layout", ["qwen3", "llama"])
def test_synth_writes_the_models_layout(tmp_path, layout):
    folder = synth(tmp_path / "model", "--layout", layout)
    config = json.loads((folder / "config.json").read_text())
    assert (config["model_type"], config["num_hidden_layers"]) == (layout, 2)
    hidden, inner, vocab = (
        config[k] for k in ("hidden_size", "intermediate_size", "vocab_size")
    )
    dim = config["head_dim"]
    q, kv = config["num_attention_heads"] * dim, config["num_key_value_heads"] * dim
    layer = {
        "input_layernorm": [hidden],
        "post_attention_layernorm": [hidden],
        "self_attn.q_proj": [q, hidden],
        "self_attn.k_proj": [kv, hidden],
        "self_attn.v_proj": [kv, hidden],
        "self_attn.o_proj": [hidden, q],
        "mlp.gate_proj": [inner, hidden],
        "mlp.up_proj": [inner, hidden],
        "mlp.down_proj": [hidden, inner],
    }
    if layout == "qwen3":
        layer |= {"self_attn.q_norm": [dim], "self_attn.k_norm": [dim]}
    expected = {f"model.layers.{i}.{k}.weight": v for i in range(2) for k, v in layer.items()}
    expected |= {
        "model.embed_tokens.weight": [vocab, hidden],
        "model.norm.weight": [hidden],
        "lm_head.weight": [vocab, hidden],
    }
    tensors = read_checkpoint(folder)
    assert {name: shape for name, (_, shape, _) in tensors.items()} == expected
    for dtype, _, data in tensors.values():
        assert dtype == "BF16"
        for (bits,) in struct.iter_unpack("<H", data):
            assert bits & 0x7F80 != 0x7F80, "neither infinite nor not a number"


def test_the_seed_alone_tells_the_weights(tmp_path):
    one = verify(synth(tmp_path / "one", "--seed", 7, "--shards", 3))
    same = verify(synth(tmp_path / "same", "--seed", 7, "--shard-size", "20KiB"))
    other = verify(synth(tmp_path / "other", "--seed", 8))
    assert one["checksum"] == same["checksum"] != other["checksum"]
    assert one["digest"] == same["digest"] == other["digest"]
    assert len({t["checksum"] for t in one["tensors"]}) == len(one["tensors"])


def test_the_ranks_of_a_plan_share_everything_out(tmp_path):
    folder = synth(tmp_path / "model")
    whole = json.loads(tfworker("plan", folder, "--world-size", 1, "--json").stdout)["ranks"][0]
    ranks = json.loads(tfworker("plan", folder, "--world-size", 4, "--json").stdout)["ranks"]
    assert [r["rank"] for r in ranks] == [0, 1, 2, 3]
    for cut in ("rows", "columns"):
        assert sum(r[cut]["bytes"] for r in ranks) == whole[cut]["bytes"] > 0
    for rank in ranks:
        assert rank["whole"] == whole["whole"]
        assert rank["bytes"] == sum(rank[cut]["bytes"] for cut in ("whole", "rows", "columns"))
    one = tfworker("plan", folder, "--world-size", 4, "--rank", 2, "--json")
    assert json.loads(one.stdout)["ranks"] == [ranks[2]]


def test_what_does_not_divide_is_named(tmp_path):
    done = tfworker("plan", synth(tmp_path / "model"), "--world-size", 3)
    assert done.returncode == 1
    assert "model.embed_tokens.weight" in done.stderr and "40 rows" in done.stderr


def test_synth_never_overwrites(tmp_path):
    folder = synth(tmp_path / "model", "--seed", 1)
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    done = tfworker("synth", folder, *SHAPE, "--seed", 2)
    assert done.returncode == 1 and str(folder) in done.stderr
    assert before == {p.name: p.read_bytes() for p in folder.iterdir()}


@pytest.mark.parametrize("there_before", [False, True])
def test_a_write_that_fails_names_the_file_and_leaves_nothing(tmp_path, there_before):
    folder = tmp_path / "model"
    if there_before:
        folder.mkdir()

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (50000, 50000))

    done = tfworker("synth", folder, *SHAPE, "--shards", 2, preexec_fn=limit)
    assert done.returncode == 1
    assert str(folder / "model-0000") in done.stderr and "File too large" in done.stderr
    assert folder.exists() == there_before
    assert list(tmp_path.glob("model/*")) == []


def test_verify_names_the_file_that_was_cut_short(tmp_path):
    folder = synth(tmp_path / "model", "--shards", 3)
    shard = folder / "model-00002-of-00003.safetensors"
    os.truncate(shard, shard.stat().st_size - 1)
    done = tfworker("verify", folder)
    assert done.returncode == 1
    assert str(shard) in done.stderr and "cut short" in done.stderr


def test_one_changed_bit_changes_the_checksum(tmp_path):
    folder = synth(tmp_path / "model")
    before = verify(folder)
    with open(folder / "model.safetensors", "r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)[0]
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last ^ 1]))
    after = verify(folder)
    changed = [
        b["name"]
        for b, a in zip(before["tensors"], after["tensors"])
        if b["checksum"] != a["checksum"]
    ]
    assert changed == ["lm_head.weight"]
    assert before["checksum"] != after["checksum"]


@pytest.mark.parametrize(
    "args",
    [
        ["synth"],
        ["synth", "a", "b"],
        ["synth", "a", "--layers", "0"],
        ["synth", "a", "--layers", "-1"],
        ["synth", "a", "--layers"],
        ["synth", "a", "--layout", "gpt"],
        ["synth", "a", "--shards", "2", "--shard-size", "1MiB"],
        ["synth", "a", "--shard-size", "1MB"],
        ["plan", "a"],
        ["plan", "a", "--world-size", "2", "--rank", "2"],
        ["verify", "a", "--threads", "0"],
        ["verify", "a", "--unknown"],
    ],
)
def test_wrong_command_lines_end_with_the_usage(tmp_path, args):
    done = tfworker(*args, cwd=tmp_path)
    assert done.returncode == 64
    assert f"usage: tfworker {args[0]} DIR" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_output_that_cannot_be_written_is_a_failure(tmp_path):
    folder = synth(tmp_path / "model")
    with open("/dev/full", "w", encoding="utf-8") as full:
        for verb in (["verify", folder], ["plan", folder, "--world-size", 2]):
            done = subprocess.run(
                [TFWORKER, *map(str, verb)],
                stdout=full,
                stderr=subprocess.PIPE,
                timeout=DEADLINE_S * SLOW,
                check=False,
            )
            assert done.returncode == 1
