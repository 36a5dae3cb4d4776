"""The configuration reference: what it shows can be used as it stands, and nothing is left out."""

import re
from pathlib import Path

from scheduler import config

PAGE = (Path(__file__).parents[2] / "docs/configuration.md").read_text()


def test_examples_can_be_used():
    """Whoever copies an example from the page gets no error; the last one is the default."""
    examples = re.findall(r"^```yaml\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert len(examples) == 2
    assert [config.parse(example) for example in examples][-1] == config.default()


def test_every_key_has_a_row():
    """The tables name each key of each model."""
    models = [config.SchedulerConfiguration, config.Profile, config.Plugins, config.PluginSet, config.PluginEntry]
    models += [config.PluginConfig, config.LeaderElection, config.ClientConnection, config.Backfill]
    models += [config.GroupKind, config.GroupRoles, config.GroupCount, config.GroupLabel]
    rows = set(re.findall(r"^\| `(\w+)` \|", PAGE, flags=re.MULTILINE))
    assert {field.alias for model in models for field in model.model_fields.values()} == rows


def test_keys_without_effect_say_so():
    """Nobody tunes in vain."""
    for key in ("percentageOfNodesToScore", "parallelism", "extenders"):
        (row, *_) = re.findall(rf"^\| `{key}` \|.*$", PAGE, flags=re.MULTILINE)
        assert "*No effect: " in row
