"""The deployment files, as far as a machine without a container engine can judge them."""

import os
import re
import shutil
import subprocess
import warnings

import yaml

from hub import TOP, Hub, free_port

COMPOSE = TOP / "docker-compose.yml"
SECRETS = {"HUB_AUTH_SECRET": "x" * 32, "HUB_API_KEY": "y" * 32}


def test_haproxy_takes_its_file_as_compose_starts_it():
    nodes = yaml.safe_load(COMPOSE.read_text())["services"]["haproxy"]["environment"]
    checked = subprocess.run(["haproxy", "-c", "-f", TOP / "config" / "haproxy.cfg"], env={**os.environ, **nodes}, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    unresolved = [line for line in checked.stderr.splitlines() if "WARNING" in line and "could not resolve" not in line and "no nameservers" not in line]
    assert unresolved == []


def test_compose_names_files_flags_and_addresses_that_exist():
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    assert sorted(services) == ["haproxy", "hub1", "hub2", "hub3", "redis"]
    for name, service in services.items():
        for volume in service.get("volumes", []):
            if volume.startswith("./"):
                assert (TOP / volume.split(":")[0]).is_file(), volume
        if name.startswith("hub"):
            assert service["command"][-1] == name
            assert services["haproxy"]["environment"][name.upper()] == f"{name}:8080"
            assert set(service["environment"]) == set(SECRETS)
    example = (TOP / ".env.example").read_text()
    for name in re.findall(r"\$\{(\w+)", COMPOSE.read_text()):
        assert f"{name}=" in example, f"{name} is not in .env.example"


def test_the_node_takes_compose_s_configuration_and_finds_no_fault_in_it(tmp_path):
    for name in ("hub1", "hub2", "hub3"):
        service = yaml.safe_load(COMPOSE.read_text())["services"][name]
        command = [str(TOP / "config" / "compose.json5") if word == "/etc/hub/hub.json5" else word for word in service["command"]]
        checked = subprocess.run([TOP / ".build/release/hubd", *command, "--check"], env={**os.environ, **SECRETS}, capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        assert "redis" in checked.stdout
        for secret in SECRETS.values():
            assert secret not in checked.stdout + checked.stderr


def test_the_image_is_built_from_every_folder_of_the_package():
    """SwiftPM refuses a package when the folder of any target is missing, also of one that nobody builds."""
    package = (TOP / "Package.swift").read_text()
    folders = set(re.findall(r'\bpath: "([^"]+)"', package)) - {"Fuzz/Sources"}  # that target is there with HUB_FUZZ only
    folders |= {f"Tests/{name}" for name in re.findall(r'^ +tests\("([^"]+)"', package, re.M)}
    folders |= {f"Sources/{name}" for name in re.findall(r'^ +(?:tool|library)\(\s*"([^"]+)"(?!.*path:)', package, re.M)}
    folders |= {f"Sources/{name}" for name in re.findall(r'\.(?:target|systemLibrary)\(name: "([^"]+)"(?!.*path:)', package)}
    for folder in folders:
        assert (TOP / folder).is_dir(), folder
    assert {"Sources/hubd", "Sources/HubNet", "Sources/CCurl", "Tests/TidyTests", "Benchmarks/Net", "Fuzz/Targets"} <= folders
    copied = re.findall(r"^COPY (?!--from)(\S+) (\S+)$", (TOP / "Dockerfile").read_text(), re.M)
    taken = {source for source, to in copied if source == to}
    missing = {folder for folder in folders if not any(folder == source or folder.startswith(source + "/") for source in taken)}
    assert missing == set()


def test_docker_compose_takes_the_file():
    """Where the client and its compose plugin are; elsewhere the tests above judge the file, and this one says so."""
    docker = shutil.which("docker")
    if not docker or subprocess.run([docker, "compose", "version"], capture_output=True).returncode != 0:
        warnings.warn("no `docker compose` on this machine: `docker compose config` was not run on docker-compose.yml", stacklevel=1)
        return
    checked = subprocess.run([docker, "compose", "-f", COMPOSE, "config", "--quiet"], env={**os.environ, **SECRETS}, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    refused = subprocess.run([docker, "compose", "-f", COMPOSE, "--env-file", os.devnull, "config", "--quiet"], capture_output=True, text=True)
    assert refused.returncode != 0 and "HUB_AUTH_SECRET" in refused.stderr


def test_the_health_check_tells_alive_from_dead(start):
    script = TOP / "scripts" / "healthcheck"
    hub = start(Hub)
    assert subprocess.run([script, hub.address], capture_output=True).returncode == 0
    assert subprocess.run([script, hub.address, "/nowhere"], capture_output=True).returncode != 0
    assert subprocess.run([script, f"127.0.0.1:{free_port()}"], capture_output=True).returncode != 0
