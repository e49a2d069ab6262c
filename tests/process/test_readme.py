"""What the README shows is true."""

import re
import subprocess

import pytest

from conftest import ROOT

README = (ROOT / "README.md").read_text()
INI_FILES = re.findall(r"```ini\n(.*?)```", README, re.DOTALL)
VERBS = sorted(set(re.findall(r"^tfsupervisor ([a-z]+)\b", README, re.MULTILINE)))


@pytest.mark.parametrize("text", INI_FILES)
def test_every_ini_file_of_the_readme_is_accepted(place, text):
    checked = place.call("check", place.write("model.ini", text))
    assert checked.status == 0, checked.told()


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_of_the_readme_is_known(place, verb):
    helped = place.call("--help")
    assert re.search(rf"^  {verb} ", helped.stdout, re.MULTILINE)


def test_an_unknown_verb_of_the_developer_script_is_a_usage_error():
    done = subprocess.run([ROOT / "etc" / "dev", "nope"], capture_output=True, text=True)
    assert done.returncode == 64
    assert "no verb 'nope'" in done.stderr
