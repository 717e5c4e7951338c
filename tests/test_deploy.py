"""What stands in deploy/, as far as it can be told without a registry, a cluster or systemd."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from hookgate.builtin_plugins.telemetry.records import OWN
from hookgate.core.settings.schema import LimitSettings

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "hookgate"
CLUSTER_KINDS = {
    "ServiceAccount": "v1",
    "ConfigMap": "v1",
    "Service": "v1",
    "Deployment": "apps/v1",
    "Job": "batch/v1",
    "PodDisruptionBudget": "policy/v1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
    "NetworkPolicy": "networking.k8s.io/v1",
    "ServiceMonitor": "monitoring.coreos.com/v1",
}

Objects = Sequence[Mapping[str, Any]]


# -- Helm: what the chart uses of its language --------------------------------------------


def rendered(values: Mapping[str, Any]) -> Objects:
    """Render the chart as `helm template hookgate` would, as far as its templates go."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    known = {
        "Values": values,
        "Release": {"Name": "hookgate"},
        "Chart": {"AppVersion": chart["appVersion"]},
    }
    text = "\n---\n".join(
        render(path.read_text("utf-8"), known) for path in sorted(CHART.glob("templates/*.yaml"))
    )
    return [one for one in yaml.safe_load_all(text) if one]


def render(template: str, known: Mapping[str, Any]) -> str:
    trimmed = re.sub(r"\s*\{\{-", "{{", template)
    parts = re.split(r"\{\{(.*?)\}\}", trimmed)
    out, end = block(parts, 0, {**known})
    assert end == len(parts), "an `end` without its beginning"
    return out


def block(parts: list[str], at: int, known: dict[str, Any]) -> tuple[str, int]:
    """Render until the `end` of this block; text stands at even places, actions at odd ones."""
    out = parts[at]
    at += 1
    while at < len(parts):
        action = parts[at].strip()
        if action == "end":
            return out, at + 1
        if action.startswith("if "):
            inner, at = block(parts, at + 1, known)
            words = action.split()[1:]
            wanted = bool(value(words[-1], known)) is not (words[0] == "not")
            out += (inner if wanted else "") + parts[at]
        elif action.startswith("range "):
            found = re.fullmatch(r"range (\$\w+), (\$\w+) := (\S+)", action)
            assert found, action
            table = value(found[3], known)
            end = at
            for key, item in sorted(table.items()):
                inner, end = block(parts, at + 1, {**known, found[1]: key, found[2]: item})
                out += inner
            at = end
            out += parts[at]
        else:
            out += str(piped(action, known)) + parts[at + 1]
            at += 1
        at += 1
    return out, at


def value(word: str, known: Mapping[str, Any]) -> Any:
    if word.isdigit():
        return int(word)
    if word.startswith("$"):
        return known[word]
    found: Any = known
    for name in word.removeprefix(".").split("."):
        found = found[name]
    return found


def piped(action: str, known: Mapping[str, Any]) -> Any:
    first, *filters = (part.split() for part in action.split("|"))
    match first:
        case ["add", *words]:
            result: Any = sum(value(word, known) for word in words)
        case ["toYaml", word]:
            result = yaml.safe_dump(value(word, known), sort_keys=True).rstrip()
        case [word]:
            result = value(word, known)
        case _:
            raise AssertionError(f"the chart uses what this test does not know: {action}")
    for name, *words in filters:
        match name:
            case "nindent":
                indented = (f"{' ' * int(words[0])}{line}" for line in result.splitlines())
                result = "\n" + "\n".join(indented)
            case "default":
                result = result or value(words[0], known)
            case "sha256sum":
                result = hashlib.sha256(result.encode()).hexdigest()
            case _:
                raise AssertionError(f"the chart uses what this test does not know: {action}")
    return result


def chart(**over: Any) -> Objects:
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    return rendered({**values, **over})


def base() -> Objects:
    """Return what `kubectl kustomize` makes of the base."""
    if (kubectl := shutil.which("kubectl")) is None:
        pytest.skip("no kubectl here")
    done = subprocess.run(
        [kubectl, "kustomize", str(DEPLOY / "kustomize")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


WHOLE = {
    "autoscaling": {"enabled": True, "maxReplicas": 8, "turnsEach": 50},
    "serviceMonitor": {"enabled": True, "tokenKey": "client_token"},
}


def of(objects: Objects, kind: str) -> Mapping[str, Any]:
    return next(one for one in objects if one["kind"] == kind)


def pods(objects: Objects) -> Iterator[Mapping[str, Any]]:
    for one in objects:
        if one["kind"] in ("Deployment", "Job"):
            yield one["spec"]["template"]["spec"]


@pytest.fixture(params=["chart", "whole chart", "kustomize"])
def objects(request: pytest.FixtureRequest) -> Objects:
    if request.param == "kustomize":
        return base()
    return chart(**(WHOLE if request.param == "whole chart" else {}))


def test_objects_are_of_kinds_that_there_are_and_have_names_of_their_own(objects: Objects) -> None:
    for one in objects:
        assert one["apiVersion"] == CLUSTER_KINDS[one["kind"]]
    names = [(one["kind"], one["metadata"]["name"]) for one in objects]
    assert len(set(names)) == len(names)


def test_what_is_selected_is_what_is_there(objects: Objects) -> None:
    deployment = of(objects, "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"].items()
    selectors = [
        deployment["spec"]["selector"]["matchLabels"],
        of(objects, "Service")["spec"]["selector"],
    ]
    selectors.append(of(objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"])
    selectors.append(of(objects, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"])
    for selector in selectors:
        assert selector
        assert selector.items() <= labels
    for one in objects:
        if one["kind"] == "HorizontalPodAutoscaler":
            (metric,) = one["spec"]["metrics"]
            assert metric["pods"]["metric"]["name"] in {figure.name for figure in OWN}
            assert one["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
        if one["kind"] == "ServiceMonitor":
            service = of(objects, "Service")["metadata"]["labels"]
            assert one["spec"]["selector"]["matchLabels"].items() <= service.items()


def test_a_pod_is_closed_and_mounts_what_it_has(objects: Objects) -> None:
    maps = {one["metadata"]["name"] for one in objects if one["kind"] == "ConfigMap"}
    for pod in pods(objects):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        assert volumes["config"]["configMap"]["name"] in maps
        # Its group reads it, nobody else, as a key file may be.
        assert volumes["secrets"]["secret"]["defaultMode"] == 0o440
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            closed = container["securityContext"]
            assert closed["readOnlyRootFilesystem"] is True
            assert closed["allowPrivilegeEscalation"] is False
            assert closed["capabilities"] == {"drop": ["ALL"]}
            mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
            assert mounts.keys() == volumes.keys()
            named = {one["name"]: one["value"] for one in container["env"]}
            assert Path(named["HOOKGATE_CONFIG"]).parent == Path(mounts["config"])
            files = {name: path for name, path in named.items() if name.endswith("_FILE")}
            assert "AUDIT_KEY_FILE" in files
            assert {str(Path(path).parent) for path in files.values()} == {mounts["secrets"]}


def test_a_pod_has_the_time_to_end_and_is_asked_where_the_gateway_answers(objects: Objects) -> None:
    spec = of(objects, "Deployment")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    limits = settings_of(objects)["gateway"]["limits"]
    before = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", [0])
    needed = limits["drain_wait_seconds"] + limits["drain_seconds"] + int(before[-1])
    assert spec["terminationGracePeriodSeconds"] >= needed + 5
    assert container["livenessProbe"]["httpGet"]["path"] == "/health"
    ready = container["readinessProbe"]
    assert ready["httpGet"]["path"] == "/ready"
    # Balancers have noticed before it stops to listen.
    asks = ready["periodSeconds"] * ready.get("failureThreshold", 3)
    assert limits["drain_wait_seconds"] > asks
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": 7200}
    (first, *_) = spec["initContainers"]
    assert first["args"] == ["config", "check", "--strict"]


def test_the_chart_upgrades_the_tables_before_the_gateways_that_need_them() -> None:
    job = of(chart(), "Job")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["db", "upgrade"]
    assert settings_of(chart())["plugin"]["storage"]["auto_upgrade"] is False


# -- settings --------------------------------------------------------------------------------


def settings_of(objects: Objects) -> dict[str, Any]:
    return tomllib.loads(of(objects, "ConfigMap")["data"]["config.toml"])


def texts() -> dict[str, str]:
    found = {
        str(path.relative_to(DEPLOY)): path.read_text("utf-8")
        for path in DEPLOY.rglob("config.toml")
    }
    found["helm"] = of(chart(), "ConfigMap")["data"]["config.toml"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("which", sorted(texts()))
def test_the_settings_pass_a_strict_check(which: str, tmp_path: Path) -> None:
    secrets, home = tmp_path / "secrets", tmp_path / "home"
    for folder in (secrets, home):
        folder.mkdir(mode=0o700)
    held = {
        "client_token": "hgt_" + "x" * 43,
        "database_url": "postgresql://hookgate:secret@database/hookgate",
        "audit_key": "k" * 64,
        "anthropic_api_key": "sk-ant-0123456789",
    }
    for name, text in held.items():
        (secrets / name).write_text(text)
        (secrets / name).chmod(0o400)
    config = tmp_path / "config.toml"
    mounted = r'"/run/(?:secrets(?:/hookgate)?|credentials/hookgate\.service)/'
    config.write_text(re.sub(mounted, f'"{secrets}/', texts()[which]))
    environ = {
        "PATH": os.environ["PATH"],
        "HOOKGATE_HOME": str(home),
        "HOOKGATE_CONFIG": str(config),
        "HOOKGATE_PLUGINS__ENTRY_POINTS": "false",
        "AUDIT_KEY_FILE": str(secrets / "audit_key"),
        "ANTHROPIC_API_KEY_FILE": str(secrets / "anthropic_api_key"),
    }
    done = subprocess.run(
        [sys.executable, "-m", "hookgate", "config", "check", "--strict", "--json"],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["ok"]


# -- systemd ----------------------------------------------------------------------------------


SERVICE = (DEPLOY / "systemd" / "hookgate.service").read_text("utf-8")


def test_the_unit_waits_for_what_a_stop_takes() -> None:
    seconds = int(re.findall(r"^TimeoutStopSec=(\d+)$", SERVICE, re.M)[0])
    limits = LimitSettings()
    assert seconds >= limits.drain_wait_seconds + limits.drain_seconds + 5
    assert "Type=notify\n" in SERVICE
    assert "ExecReload=/bin/kill -HUP $MAINPID" in SERVICE
    # By it the gateway learns which user is at the other end.
    assert "AF_NETLINK" in SERVICE


def test_systemd_finds_nothing_wrong_and_little_exposed(tmp_path: Path) -> None:
    if (analyze := shutil.which("systemd-analyze")) is None:
        pytest.skip("no systemd here")
    for name in ("hookgate.service", "hookgate.socket"):
        text = (DEPLOY / "systemd" / name).read_text("utf-8")
        (tmp_path / name).write_text(text.replace("/opt/hookgate/bin/hookgate", "/bin/true"))
    units = [str(tmp_path / "hookgate.service"), str(tmp_path / "hookgate.socket")]
    done = subprocess.run([analyze, "verify", *units], capture_output=True, text=True, check=False)
    assert "hookgate" not in done.stdout + done.stderr
    shown = subprocess.run(
        [analyze, "security", "--offline=true", "--no-pager", units[0]],
        capture_output=True,
        text=True,
        check=False,
    )
    (exposure,) = re.findall(
        r"Overall exposure level for hookgate\.service: ([\d.]+)", shown.stdout
    )
    assert float(exposure) <= 2.0


# -- containers --------------------------------------------------------------------------------


def test_the_image_is_built_in_two_stages_and_runs_as_nobody_in_particular() -> None:
    lines = (DEPLOY / "Containerfile").read_text("utf-8").replace("\\\n", " ").splitlines()
    steps = [line.split(None, 1) for line in lines if line and line[0].isalpha()]
    (argument,) = [rest for name, rest in steps if name == "ARG"]
    base = argument.removeprefix("BASE=")
    froms = [rest.replace("${BASE}", base) for name, rest in steps if name == "FROM"]
    assert len(froms) == 2
    # As hadolint asks: versions that are named, no shell around what runs, no root at the end.
    assert all(":" in one and ":latest" not in one for one in froms)
    last = steps[max(number for number, (name, _) in enumerate(steps) if name == "FROM") :]
    (user,) = [rest for name, rest in last if name == "USER"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    for name, rest in last:
        assert name not in ("ADD", "MAINTAINER")
        assert name != "RUN" or not re.search(r"\b(?:apt|apk|gcc|make|sudo|curl)\b", rest)
        if name in ("ENTRYPOINT", "CMD"):
            assert isinstance(json.loads(rest), list)
    for _, rest in (step for step in steps if step[0] == "RUN"):
        assert "--no-cache-dir" in rest
    # A mount is anybody's; the home within it is made by the gateway, for its user alone.
    (volume,) = [rest for name, rest in last if name == "VOLUME"]
    assert f"HOOKGATE_HOME={volume}/data" in next(rest for name, rest in last if name == "ENV")
    for pod in pods(chart()):
        for container in pod["containers"]:
            assert volume in [mount["mountPath"] for mount in container["volumeMounts"]]
    assert "--no-index" in next(rest for name, rest in last if name == "RUN")
    for name, rest in (step for step in steps if step not in last):
        for command in rest.split("&&") if name == "RUN" else ():
            # All that comes from an index comes by its hash; hookgate's own needs nothing else.
            assert "--require-hashes" in command or "--no-deps --no-build-isolation" in command


def test_what_is_deployed_are_the_versions_that_are_tested_each_by_its_hash() -> None:
    def versions(text: str) -> dict[str, str]:
        found = re.findall(r"^([\w.-]+)==([^\s;\\]+)", text, re.M)
        return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}

    tested = versions((ROOT / "constraints.txt").read_text("utf-8"))
    # What Windows or a browser alone would need is in no environment that the tests have.
    elsewhere = re.compile(r"; .*(?:win32|emscripten)")
    for name in ("requirements.txt", "requirements-build.txt"):
        text = (DEPLOY / name).read_text("utf-8")
        assert text.count("--only-binary :all:") == 1
        for one in re.split(r"\n(?=\S)", text.replace("\\\n", " ")):
            if "==" in one:
                assert "--hash=sha256:" in one, one
                (package, version), *_ = versions(one).items()
                assert tested.get(package) == version or elsewhere.search(one), one[:80]
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = wanted["optional-dependencies"]
    needed = [*wanted["dependencies"], *extras["postgres"], *extras["wasm"]]
    held = versions((DEPLOY / "requirements.txt").read_text("utf-8"))
    assert {re.split(r"[\[<>=;]", one)[0] for one in needed} <= held.keys()


def test_no_secret_and_no_history_comes_into_what_an_image_is_built_from() -> None:
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    first, *rest = (line for line in lines if line and line[0] != "#")
    assert first == "*"
    taken = {line[1:] for line in rest if line[0] == "!"}
    assert not {".git", ".venv", "deploy", "tests", "*"} & taken
    for path in re.findall(r"--requirement (\S+)", (DEPLOY / "Containerfile").read_text("utf-8")):
        assert any(Path(path).match(one) for one in taken)


def test_compose_names_what_it_has() -> None:
    folder = DEPLOY / "compose"
    made = yaml.safe_load((folder / "compose.yaml").read_text("utf-8"))
    nginx = (folder / "nginx.conf").read_text("utf-8")
    gateways = {name for name in made["services"] if name.startswith("gateway-")}
    assert set(re.findall(r"server (\S+):7200", nginx)) == gateways
    limits = tomllib.loads((folder / "config.toml").read_text("utf-8"))["gateway"]["limits"]
    for name, service in made["services"].items():
        assert set(service.get("secrets", ())) <= made["secrets"].keys()
        assert set(service.get("depends_on", ())) <= made["services"].keys()
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            there = (folder / source).exists() if source[0] == "." else source in made["volumes"]
            assert there, volume
        if name in gateways:
            assert service["read_only"] is True
            assert service["cap_drop"] == ["ALL"]
            grace = int(service["stop_grace_period"].removesuffix("s"))
            assert grace >= limits["drain_wait_seconds"] + limits["drain_seconds"] + 5
            for variable, path in service["environment"].items():
                if variable.endswith("_FILE"):
                    assert path.removeprefix("/run/secrets/") in service["secrets"]
    assert "proxy_buffering off" in nginx
