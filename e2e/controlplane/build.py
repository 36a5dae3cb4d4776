"""Gets the programs of a real Kubernetes control plane into one folder, for the end-to-end tests and `make cluster`.

`KUBEBUILDER_ASSETS` (the convention of controller-runtime's envtest) names a folder of prebuilt programs. Without it the
programs are built once with Go from the module files beside this one, into a cache that later runs share. Nothing is
downloaded but Go modules, and nothing outside the cache folder is written.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

KUBERNETES_VERSION = "v1.37.2"
GO_MINIMUM = (1, 26)
PROGRESS_SECONDS = 30
UNAVAILABLE_EXIT_CODE = 3
"""Exit code of `python -m e2e.controlplane.build` when the programs can be neither found nor built here."""

HERE = Path(__file__).resolve().parent
PACKAGES: Mapping[str, tuple[str, str]] = {
    "etcd": ("kubernetes", "go.etcd.io/etcd/server/v3"),
    "kube-apiserver": ("kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    "kube-controller-manager": ("kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    "kubectl": ("kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
    "kwok": ("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    "kube-scheduler": ("kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
}
"""Program → (folder of its module files, Go package), in the order in which they are built."""

CONTROL_PLANE_PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "kwok")
"""What the end-to-end tests need; kube-scheduler is only measured against."""

REQUIRED_ASSETS = ("etcd", "kube-apiserver")

Report = Callable[[str], None]


class ControlPlaneUnavailableError(RuntimeError):
    """The programs can be neither found nor built on this machine; the message says what is missing."""


def report_to_stderr(line: str) -> None:
    """Prints a line of progress at once, so that a pipe sees it while the build still runs."""
    print(line, file=sys.stderr, flush=True)


def build(programs: Sequence[str] = CONTROL_PLANE_PROGRAMS, report: Report = report_to_stderr) -> Path:
    """Returns a folder that holds all of `programs`, building those that are missing.

    A cold build takes about 8 minutes on two cores; a repeated call only looks into the cache. Safe to call from several
    processes: one builds, the others wait.
    """
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    folder = _assets_folder(Path(assets), programs, report) if assets else cache_folder()
    missing = [program for program in PACKAGES if program in programs and not is_program(folder / program)]
    if missing:
        if assets:
            report(f"KUBEBUILDER_ASSETS lacks {', '.join(missing)}: building them, version {KUBERNETES_VERSION}")
        _require_go(missing)
        with _only_one_builder(folder, report):
            for program in missing:
                _build_program(program, folder, report)
    return folder


def cache_folder() -> Path:
    """Returns where built programs are kept; its name changes with the module files, so old programs are never reused."""
    digest = hashlib.sha256()
    for module in ("kubernetes", "kwok"):
        digest.update((HERE / module / "go.mod").read_bytes())
    return _cache_root() / f"{KUBERNETES_VERSION}-{digest.hexdigest()[:12]}"


def is_program(path: Path) -> bool:
    """Tells whether `path` is a file that can be executed."""
    return path.is_file() and os.access(path, os.X_OK)


def _cache_root() -> Path:
    base = os.environ.get("AI_SCHEDULER_CACHE")
    if base is None:
        base = str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ai-scheduler")
    return Path(base).expanduser().resolve() / "controlplane"


def _assets_folder(assets: Path, programs: Sequence[str], report: Report) -> Path:
    """Returns the folder of assets itself if it is complete, else one of links to it, where the rest can be built."""
    lacking = [program for program in REQUIRED_ASSETS if not is_program(assets / program)]
    if lacking:
        raise ControlPlaneUnavailableError(f"KUBEBUILDER_ASSETS={assets} holds no {' and no '.join(lacking)}")
    if all(is_program(assets / program) for program in programs):
        return assets
    name = hashlib.sha256(f"{assets.resolve()} {cache_folder().name}".encode()).hexdigest()[:12]
    folder = _cache_root() / f"assets-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    for program in PACKAGES:
        source = assets / program if is_program(assets / program) else cache_folder() / program
        if is_program(source):
            link = folder / f".{program}.{os.getpid()}"
            link.unlink(missing_ok=True)
            link.symlink_to(source.resolve())
            link.replace(folder / program)
    version = _asset_version(assets)
    if KUBERNETES_VERSION not in version:
        report(f"KUBEBUILDER_ASSETS serves {version}; what is built here is {KUBERNETES_VERSION}")
    return folder


def _asset_version(assets: Path) -> str:
    command = (str(assets / "kube-apiserver"), "--version")
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _require_go(missing: Sequence[str]) -> None:
    """Raises unless a Go new enough for the module files can be had (a Go from 1.21 on may fetch its own successor)."""
    wanted = f"Go {GO_MINIMUM[0]}.{GO_MINIMUM[1]} or newer"
    advice = (
        f"{', '.join(missing)}: not built yet. Install {wanted} to build them once (about 8 minutes on two cores), "
        "or set KUBEBUILDER_ASSETS to a folder that holds them."
    )
    if shutil.which("go") is None:
        raise ControlPlaneUnavailableError(f"There is no Go here. {advice}")
    found = subprocess.run(
        ["go", "env", "GOVERSION"], cwd=HERE / "kubernetes", capture_output=True, text=True, check=False
    )
    version = re.match(r"go(\d+)\.(\d+)", found.stdout)
    if version is None or (int(version[1]), int(version[2])) < GO_MINIMUM:
        described = (found.stdout + found.stderr).strip()
        raise ControlPlaneUnavailableError(f"The Go here is not {wanted} ({described}). {advice}")


def _build_program(program: str, folder: Path, report: Report) -> None:
    """Builds one program under a temporary name and renames it, so that an interrupted build leaves nothing half done."""
    if is_program(folder / program):
        return
    report(f"building {program} …")
    started = time.monotonic()
    module, package = PACKAGES[program]
    unfinished = folder / f".{program}.unfinished"
    command = ["go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", _link_flags(module)]
    environment = os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"}
    go = subprocess.Popen(
        [*command, "-o", unfinished, package], cwd=HERE / module, env=environment, stderr=subprocess.PIPE, text=True
    )
    with go:
        while True:
            try:
                _, errors = go.communicate(timeout=PROGRESS_SECONDS)
                break
            except subprocess.TimeoutExpired:
                report(f"building {program} … {time.monotonic() - started:.0f} s")
            except BaseException:
                go.kill()
                raise
    if go.returncode != 0:
        raise ControlPlaneUnavailableError(f"go build {package} failed:\n{errors.strip()[-2000:]}")
    unfinished.replace(folder / program)
    report(f"built {program} in {time.monotonic() - started:.0f} s")


def _link_flags(module: str) -> str:
    """Returns linker flags; without the version in them the API server takes itself for v0.0.0."""
    if module != "kubernetes":
        return "-s -w"
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    values = {"gitVersion": KUBERNETES_VERSION, "gitMajor": major, "gitMinor": minor}
    return "-s -w " + " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items())


@contextmanager
def _only_one_builder(folder: Path, report: Report) -> Iterator[None]:
    """Holds the lock of a cache folder; the kernel releases it even if the builder is killed."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("another process builds the control plane: waiting for it …")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> int:
    """Builds every program and prints the folder on standard output; kube-scheduler may be missing, as no test needs it."""
    try:
        folder = build()
    except ControlPlaneUnavailableError as unavailable:
        report_to_stderr(str(unavailable))
        return UNAVAILABLE_EXIT_CODE
    try:
        build(tuple(PACKAGES))
    except ControlPlaneUnavailableError as unavailable:
        report_to_stderr(f"Only benchmarks against kube-scheduler are not possible: {unavailable}")
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
