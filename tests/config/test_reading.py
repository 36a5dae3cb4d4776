"""What a configuration file may say, and what is answered when it says something else."""

from datetime import timedelta

import pytest

from scheduler import config
from scheduler.config import ConfigurationError, LeaderElection, PluginEntry, Profile, SchedulerConfiguration
from scheduler.engine.core import registry

KUBE = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
OURS = "apiVersion: config.ai-scheduler.io/v1alpha1\nkind: SchedulerConfiguration\n"


def problems(text: str) -> list[str]:
    """Return the problems of a text that must not be accepted."""
    with pytest.raises(ConfigurationError) as caught:
        config.parse(text)
    return [str(problem) for problem in caught.value.problems]


def test_empty_file_is_the_default():
    """Nothing has to be said."""
    assert config.parse("") == config.parse("# nothing\n") == config.default()


def test_defaults_are_those_of_kube_scheduler_where_it_has_them():
    """Backoff, flush, Permit cap and Lease timing are upstream's constants."""
    default = config.default()
    assert (default.pod_initial_backoff_seconds, default.pod_max_backoff_seconds) == (1, 10)
    assert default.unschedulable_flush_seconds == 5 * 60
    assert default.permit_max_seconds == 15 * 60
    lease = default.leader_election
    assert (lease.lease_duration, lease.renew_deadline, lease.retry_period) == tuple(
        timedelta(seconds=seconds) for seconds in (15, 10, 2)
    )


def test_scheduler_name_is_never_default_scheduler_by_itself():
    """A file of kube-scheduler's without a name must not make two schedulers fight for all pods."""
    for text in ("", KUBE, OURS, KUBE + "profiles: [{}]"):
        assert [profile.scheduler_name for profile in config.parse(text).profiles] == ["ai-scheduler"]


@pytest.mark.parametrize(
    ("text", "base"),
    [
        ("", "ai-scheduler"),
        (OURS, "ai-scheduler"),
        (KUBE, "kube-default"),
        (KUBE + "profiles: []", "kube-default"),
        (KUBE + "profiles: [{schedulerName: a}]", "kube-default"),
        (KUBE + "profiles: [{base: ai-scheduler}]", "ai-scheduler"),
        (OURS + "profiles: [{base: kube-default}]", "kube-default"),
        ("profiles: [{schedulerName: a}]", "ai-scheduler"),
    ],
)
def test_base_follows_the_kind_of_the_file_unless_it_is_set(text, base):
    """One file drives kube-scheduler and us alike; our own files start from our plugins."""
    assert config.parse(text).profiles[0].base == base


def test_a_file_of_kube_scheduler_is_accepted_whole():
    """Every key of KubeSchedulerConfiguration v1 is known."""
    text = KUBE + (
        """
parallelism: 16
leaderElection: {leaderElect: true, leaseDuration: 15s, renewDeadline: 10s, retryPeriod: 2s, resourceLock: leases,
  resourceName: x, resourceNamespace: kube-system}
clientConnection: {kubeconfig: /x, acceptContentTypes: a, contentType: b, qps: 50, burst: 100}
enableProfiling: true
enableContentionProfiling: true
percentageOfNodesToScore: 0
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 10
delayCacheUntilActive: false
extenders:
- {urlPrefix: "http://localhost", filterVerb: filter, weight: 1, managedResources: [{name: example.com/foo}]}
profiles:
- schedulerName: a
  percentageOfNodesToScore: 50
  pluginConfig:
  - name: NodeResourcesFit
    args: {apiVersion: kubescheduler.config.k8s.io/v1, kind: NodeResourcesFitArgs, scoringStrategy: {type: MostAllocated}}
  plugins:
"""
        + "".join(
            f"    {point}: {{enabled: [{{name: A, weight: 3}}], disabled: [{{name: '*'}}]}}\n"
            for point in [
                "preEnqueue",
                "queueSort",
                "preFilter",
                "filter",
                "postFilter",
                "preScore",
                "score",
                "reserve",
                "permit",
                "preBind",
                "bind",
                "postBind",
                "multiPoint",
                "placementGenerate",
                "placementScore",
                "podGroupPostFilter",
            ]
        )
    )
    configuration = config.parse(text)
    (profile,) = configuration.profiles
    assert profile.plugins.placement_generate.enabled == [PluginEntry(name="A", weight=3)]
    assert profile.plugin_config[0].args["scoringStrategy"] == {"type": "MostAllocated"}
    assert [line.partition(":")[0] for line in config.unhonoured(configuration)] == [
        "profiles[0].percentageOfNodesToScore",
        "clientConnection.contentType",
        "clientConnection.acceptContentTypes",
        "percentageOfNodesToScore",
        "parallelism",
        "delayCacheUntilActive",
        "extenders",
        "enableProfiling",
        "enableContentionProfiling",
    ]


def test_nothing_is_unhonoured_unless_it_was_set():
    """Defaults are not blamed on the user."""
    assert config.unhonoured(config.parse(KUBE + "profiles: [{schedulerName: a}]")) == []


@pytest.mark.parametrize(
    "text", ["profiles:", "leaderElection:\npodMaxBackoffSeconds: null", "profiles: [{plugins: }]"]
)
def test_key_without_value_is_as_good_as_absent(text):
    """Go reads null as absent, and so do files that comments have emptied."""
    assert config.parse(text) == config.default()


def test_arguments_keep_their_nulls():
    """Arguments belong to the plugin; nothing is taken out of them."""
    (profile,) = config.parse("profiles: [{pluginConfig: [{name: A, args: {x: null, y: []}}]}]").profiles
    assert profile.plugin_config[0].args == {"x": None, "y": []}


def test_zero_rate_stands_for_the_default():
    """As in kube-scheduler, qps and burst of 0 are not a rate of nothing."""
    connection = config.parse("clientConnection: {qps: 0, burst: 0}").client_connection
    assert connection == config.default().client_connection
    assert config.parse("clientConnection: {qps: -1}").client_connection.qps == -1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tieBreak: coin", "tieBreak: 'coin' is unknown; allowed: hash, name, random"),
        ("intake: informer", "intake: 'informer' is unknown; allowed: kopf, reflector"),
        ("podInitialBackoffSeconds: 0", "podInitialBackoffSeconds: 0 is out of range; allowed: from 1 to 86400"),
        ("podInitialBackoffSeconds: '1'", "podInitialBackoffSeconds: '1' is no whole number; allowed: a whole number"),
        ("podMaxBackoffSeconds: 1.5", "podMaxBackoffSeconds: 1.5 is no whole number; allowed: a whole number"),
        ("clientConnection: {qps: .nan}", "clientConnection.qps: nan is no finite number; allowed: a finite number"),
        ("leaderElection: []", "leaderElection: [] is no mapping; allowed: a mapping"),
        ("profiles: {}", "profiles: {} is no list; allowed: a list"),
        ("profiles: [a]", "profiles[0]: 'a' is no mapping; allowed: a mapping"),
        ("profiles: [{schedulerName: ''}]", "profiles[0].schedulerName: is empty; allowed: a text"),
        ("profiles: [{schedulerName: 1}]", "profiles[0].schedulerName: 1 is no text; allowed: text"),
        ("profiles: [{base: x}]", "profiles[0].base: 'x' is unknown; allowed: ai-scheduler, kube-default"),
        (
            "profiles: [{percentageOfNodesToScore: 101}]",
            "profiles[0].percentageOfNodesToScore: 101 is out of range; allowed: from 0 to 100",
        ),
        (
            "leaderElection: {leaderElect: 'true'}",
            "leaderElection.leaderElect: 'true' is neither true nor false; allowed: true, false",
        ),
        (
            "leaderElection: {retryPeriod: 2}",
            "leaderElection.retryPeriod: 2 is no duration; allowed: a Go duration such as 15s, 1m30s or 500ms",
        ),
        (
            "metricsBindAddress: localhost",
            "metricsBindAddress: 'localhost' is no address; allowed: host:port, :port, [IPv6]:port, or empty for off",
        ),
    ],
)
def test_wrong_value_is_named_with_what_is_allowed(text, expected):
    """A line says where, what and what else."""
    assert problems(text) == [expected]


def test_unknown_key_is_an_error_with_its_path():
    """A misspelt key is found, and the likely one named."""
    assert problems("profiles: [{plugins: {score: {enabled: [{name: A, wieght: 1}]}}}]") == [
        "profiles[0].plugins.score.enabled[0].wieght: unknown key, did you mean weight?; allowed: name, weight"
    ]


def test_python_names_are_no_keys():
    """There is one spelling in files."""
    (problem,) = problems("leader_election: {}")
    assert problem.startswith("leader_election: unknown key, did you mean leaderElection?; allowed: apiVersion, ")


def test_every_problem_is_told_at_once():
    """A file is not mended in ten rounds."""
    assert [line.partition(":")[0] for line in problems("tieBreak: x\nfoo: 1\nprofiles: [{base: 1}, {bar: 2}]")] == [
        "profiles[0].base",
        "profiles[1].bar",
        "tieBreak",
        "foo",
    ]


def test_message_has_the_source_and_a_line_per_problem():
    """What is printed to a user names the file."""
    with pytest.raises(ConfigurationError) as caught:
        config.parse("tieBreak: x\nparallelism: 0", source="a.yaml")
    assert str(caught.value) == (
        "a.yaml cannot be used:\n"
        "  tieBreak: 'x' is unknown; allowed: hash, name, random\n"
        "  parallelism: 0 is out of range; allowed: from 1"
    )


@pytest.mark.parametrize("weight", [-1, 101])
def test_weight_is_within_0_and_100(weight):
    """Scores are small integers; so are their weights."""
    (problem,) = problems(f"profiles: [{{plugins: {{score: {{enabled: [{{name: A, weight: {weight}}}]}}}}}}]")
    assert problem == f"profiles[0].plugins.score.enabled[0].weight: {weight} is out of range; allowed: from 0 to 100"


@pytest.mark.parametrize("weight", [0, 100])
def test_weights_at_the_borders_are_allowed(weight):
    """Both ends belong to the range."""
    text = f"profiles: [{{plugins: {{score: {{enabled: [{{name: A, weight: {weight}}}]}}}}}}]"
    assert config.parse(text).profiles[0].plugins.score.enabled[0].weight == weight


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "profiles: [{schedulerName: a}, {schedulerName: b}, {schedulerName: a}]",
            "profiles[2].schedulerName: 'a' is there twice; allowed: each name once",
        ),
        (
            "profiles: [{}, {}]",
            "profiles[1].schedulerName: 'ai-scheduler' is there twice; allowed: each name once",
        ),
        (
            "profiles: [{plugins: {filter: {enabled: [{name: A}, {name: A}]}}}]",
            "profiles[0].plugins.filter.enabled[1].name: 'A' is there twice; allowed: each name once",
        ),
        (
            "profiles: [{plugins: {filter: {disabled: [{name: A}, {name: A}]}}}]",
            "profiles[0].plugins.filter.disabled[1].name: 'A' is there twice; allowed: each name once",
        ),
        (
            "profiles: [{pluginConfig: [{name: A}, {name: B}, {name: A}]}]",
            "profiles[0].pluginConfig[2].name: 'A' is there twice; allowed: each name once",
        ),
        (
            "profiles: [{plugins: {filter: {enabled: [{name: '*'}]}}}]",
            "profiles[0].plugins.filter.enabled[0].name: '*' cannot be enabled; allowed: names of plugins",
        ),
        (
            "profiles: [{plugins: {queueSort: {enabled: [{name: A}, {name: B}]}}}]",
            "profiles[0].plugins.queueSort.enabled: names several plugins; allowed: one",
        ),
        (
            "profiles: [{schedulerName: a}, {schedulerName: b, plugins: {queueSort: {enabled: [{name: A}]}}}]",
            "profiles[1].plugins.queueSort: differs from profiles[0]; allowed: the same, for all profiles share one queue",
        ),
        (
            "podInitialBackoffSeconds: 11",
            "podMaxBackoffSeconds: 10 is too short; allowed: podInitialBackoffSeconds or more",
        ),
        (
            "leaderElection: {leaseDuration: 10s}",
            "leaderElection.leaseDuration: is too short; allowed: more than renewDeadline",
        ),
        (
            "leaderElection: {renewDeadline: 2400ms}",
            "leaderElection.renewDeadline: is too short; allowed: more than 1.2 times retryPeriod",
        ),
        (
            "leaderElection: {retryPeriod: 0s}",
            "leaderElection.retryPeriod: is not positive; allowed: a Go duration above 0s",
        ),
        (
            "leaderElection: {resourceNamespace: kube-system, resourceName: kube-scheduler}",
            (
                "leaderElection.resourceName: kube-system/kube-scheduler is kube-scheduler's own Lease: one of the two would "
                "stand by for ever; allowed: any other name"
            ),
        ),
    ],
)
def test_what_contradicts_itself_is_refused(text, expected):
    """Values that are fine alone may be wrong together."""
    assert problems(text) == [expected]


def test_the_same_plugin_may_be_enabled_and_disabled():
    """Upstream's way to move a default plugin to another place in the order."""
    text = "profiles: [{plugins: {filter: {enabled: [{name: A}], disabled: [{name: A}, {name: '*'}]}}}]"
    assert config.parse(text).profiles[0].plugins.filter.enabled == [PluginEntry(name="A")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kind: SchedulerConfiguration", "apiVersion: is missing beside kind; allowed: both or neither"),
        ("apiVersion: kubescheduler.config.k8s.io/v1", "kind: is missing beside apiVersion; allowed: both or neither"),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration",
            (
                "apiVersion: 'kubescheduler.config.k8s.io/v1beta3' is unknown; allowed: config.ai-scheduler.io/v1alpha1, "
                "kubescheduler.config.k8s.io/v1"
            ),
        ),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: SchedulerConfiguration",
            "kind: SchedulerConfiguration is not of kubescheduler.config.k8s.io/v1; allowed: KubeSchedulerConfiguration",
        ),
        (
            "apiVersion: config.ai-scheduler.io/v1alpha1\nkind: KubeSchedulerConfiguration",
            "kind: KubeSchedulerConfiguration is not of config.ai-scheduler.io/v1alpha1; allowed: SchedulerConfiguration",
        ),
    ],
)
def test_identity_is_ours_or_kube_schedulers_or_absent(text, expected):
    """A file of another kind is not guessed at."""
    assert expected in problems(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tieBreak: name\ntieBreak: hash", "line 2, column 1: the key 'tieBreak' is there twice; allowed: once"),
        ("[1]", "is a list; allowed: a mapping"),
        ("a: [", "line 1, column 5: expected the node content, but found '<stream end>'"),
        ("a: 1\n---\nb: 2", "line 2, column 1: but found another document"),
        ("!!python/object/apply:os.getcwd []", ("line 1, column 1: could not determine a constructor for the tag "
         "'tag:yaml.org,2002:python/object/apply:os.getcwd'")),
        ("profiles: &a [*a]", "nests too deeply, or in itself"),
        ("[" * 5000, "nests too deeply, or in itself"),
    ],
)  # fmt: skip
def test_what_is_no_plain_yaml_mapping_is_refused(text, expected):
    """Neither a trace nor code nor a guess comes of a broken text."""
    assert problems(text) == [expected]


BOMB = "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12))


@pytest.mark.parametrize(
    "text",
    [BOMB, BOMB.replace("[", "{<<: [").replace("]", "]}"), f"profiles: [{{args: {{{BOMB.replace(chr(10), ',')}}}}}]"],
)
def test_aliases_that_stand_for_billions_are_refused(text):
    """A few lines must not fill the memory, neither as lists nor as merged mappings nor inside arguments."""
    (problem,) = problems(text)
    assert problem.endswith("its aliases stand for more than 100,000 values; allowed: fewer, or none")


def test_a_few_aliases_are_fine():
    """They spare repetition between profiles."""
    text = (
        "profiles: [{schedulerName: a, plugins: &p {score: {disabled: [{name: X}]}}}, {schedulerName: b, plugins: *p}]"
    )
    first, second = config.parse(text).profiles
    assert first.plugins == second.plugins


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("9" * 5000, "the value is no int"),
        ("0x" + "f" * 5000, "the number is out of range; allowed: whole numbers of 64 bits"),
        ("9" * 30, "the number is out of range; allowed: whole numbers of 64 bits"),
        ("2025-13-45", "the value is no timestamp"),
        ("!!int x", "the value is no int"),
        ("!!bool x", "the value is no bool"),
        ("!!timestamp x", "the value is no timestamp"),
    ],
)
def test_a_value_that_cannot_be_converted_is_a_problem_like_others(value, expected):
    """PyYAML's own accidents do not come out as traces."""
    assert problems(f"podMaxBackoffSeconds: {value}") == [f"line 1, column 23: {expected}"]


@pytest.mark.parametrize(
    "key", ["podInitialBackoffSeconds", "podMaxBackoffSeconds", "unschedulableFlushSeconds", "permitMaxSeconds"]
)
def test_no_time_is_longer_than_a_day(key):
    """More is a slip of the pen."""
    assert problems(f"{key}: 86401")[0] == f"{key}: 86401 is out of range; allowed: from 1 to 86400"
    config.parse(f"{{podMaxBackoffSeconds: 86400, {key}: 86400}}" if key != "podMaxBackoffSeconds" else f"{key}: 86400")


def test_no_term_of_the_lease_is_longer_than_a_day():
    """The longest duration there is must not overflow either."""
    expected = "leaderElection.retryPeriod: is too long; allowed: a Go duration up to 24h"
    assert problems("leaderElection: {retryPeriod: 23999999976h}") == [expected]


@pytest.mark.parametrize("name", ["Bad Name/../x", "..", "-a", "a-", "a_b", "a\n", "x" * 254])
def test_the_lease_has_the_name_of_an_object(name):
    """Names go into paths of requests."""
    with pytest.raises(ValueError, match="is no name of an object; allowed: at most 253 of"):
        LeaderElection(resource_name=name)
    with pytest.raises(ValueError, match="is no name of a namespace; allowed: at most 63 of"):
        LeaderElection(resource_namespace=name)


def test_only_the_name_of_a_lease_may_have_dots():
    """Namespaces are labels, Leases subdomains."""
    LeaderElection(resource_name="a.b-1", resource_namespace="a-b1")
    with pytest.raises(ValueError, match=r"'a\.b' is no name of a namespace"):
        LeaderElection(resource_namespace="a.b")


def test_json_is_read_as_well():
    """YAML contains JSON, and tools write it."""
    assert config.parse('{"tieBreak": "name"}').tie_break == "name"


def test_file_that_cannot_be_read_is_told(tmp_path):
    """A missing file and one that is no text are problems like others."""
    with pytest.raises(ConfigurationError, match="No such file"):
        config.load(tmp_path / "none.yaml")
    broken = tmp_path / "broken.yaml"
    broken.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match="is no UTF-8 text"):
        config.load(broken)


@pytest.mark.parametrize(
    "text",
    [
        "",
        KUBE
        + "profiles: [{schedulerName: z, percentageOfNodesToScore: 4}]\nparallelism: 3\nextenders: [{urlPrefix: x}]",
        "leaderElection: {leaseDuration: 1h2m3s4ms, leaderElect: false}\ntieBreak: random\nhealthzBindAddress: ''",
        (
            "profiles: [{plugins: {multiPoint: {disabled: [{name: '*'}], enabled: [{name: A, weight: 0}]}}, "
            "pluginConfig: [{name: A, args: {x: null, y: [], z: {}}}]}]"
        ),
    ],
)
def test_written_configuration_reads_back_the_same(text):
    """`to_yaml` loses nothing and adds nothing."""
    configuration = config.parse(text)
    again = config.parse(config.to_yaml(configuration))
    ours = {"api_version": config.API_VERSION, "kind": config.KIND}
    assert again == configuration.model_copy(update=ours)
    assert config.unhonoured(again) == config.unhonoured(configuration)


def test_models_are_made_with_python_names():
    """Programs, unlike files, use snake case; the checks are the same."""
    profile = Profile(scheduler_name="a", base="kube-default")
    assert SchedulerConfiguration(profiles=[profile]).profiles[0].scheduler_name == "a"
    with pytest.raises(ValueError, match="too short"):
        LeaderElection(lease_duration=timedelta(seconds=1))


def test_every_field_is_documented():
    """The reference is made of the docstrings, so none may lack."""
    models = [config.SchedulerConfiguration, config.Profile, config.Plugins, config.PluginSet, config.PluginEntry]
    models += [config.PluginConfig, config.LeaderElection, config.ClientConnection]
    assert [f"{m.__name__}.{n}" for m in models for n, field in m.model_fields.items() if not field.description] == []


def test_gates_that_change_nothing_are_listed():
    """A gate may be set for kube-scheduler's sake; those that are honoured are named."""
    text = "featureGates: {TaintTolerationComparisonOperators: true, SchedulerAsyncAPICalls: false}"
    (line,) = config.unhonoured(config.parse(text))
    assert line.startswith("featureGates.SchedulerAsyncAPICalls: changes nothing here; gates that do are ")
    assert "TaintTolerationComparisonOperators" in line


def test_gates_are_switches():
    """On or off."""
    (problem,) = problems("featureGates: {TaintTolerationComparisonOperators: often}")
    assert problem.startswith("featureGates.TaintTolerationComparisonOperators")


def test_points_of_upstream_that_are_idle_here_are_listed_and_harmless():
    """A file that lists plugins point by point, as kube-scheduler takes it, can be used."""
    text = KUBE + "profiles: [{plugins: {preScore: {enabled: [{name: NodeResourcesFit}]}}}]"
    configuration = config.parse(text)
    (line,) = config.unhonoured(configuration)
    assert line == "profiles[0].plugins.preScore.enabled[0]: NodeResourcesFit has nothing to do at this point here"
    assert registry().resolve(configuration.profiles[0], None).points["pre_score"]
