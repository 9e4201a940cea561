"""From two bare machines to a registered host whose heartbeat came by its own account.

Each line of the numbered blocks is typed as it stands on the page. What a person does between them
(editing the files that it says to edit, carrying files) is done here in the page's order.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.install.conftest import Cloud, public
from tests.install.operator import HOST, REDIS, Operator
from tests.lab.bare import nova, offered
from tests.lab.guest.commands import Completed
from tests.lab.guide import GUIDE, blocks
from tests.lab.services.process import wait_until

CONF = "/etc/nvme-quarantine/nvme-quarantine.conf"
PASSWORDS = "/etc/nvme-quarantine/broker-passwords.json"
ON_CONTROL = list(blocks(GUIDE, "Control plane"))
*ON_HOST, REGISTERING = blocks(GUIDE, "A compute host")
PATIENCE = 900.0

# Debian's Redis listens on loopback alone; all else that it has to have is the guide's.
REDIS_CONF = """
bind 0.0.0.0
"""


def password(control: Operator, account: str) -> str:
    """As the file says that the guide names."""
    found: str = json.loads(control.guest.get(PASSWORDS))[account]
    return found


def redis(operator: Operator, account: str, secret: str, *words: str) -> Completed:
    """One command of redis-cli by an account."""
    line = f"REDISCLI_AUTH={secret} redis-cli --tls -h {REDIS} --user {account} " + " ".join(words)
    return operator.guest.step(line, check=False)


def start_redis(cloud: Cloud) -> None:
    """The broker, on the control plane's machine, with the accounts of the guide's block."""
    control = cloud.control
    control.guest.step("apt-get install --yes redis-server")
    (settings,) = blocks(GUIDE, "Redis in production", "text")
    more = "\n".join(settings) + REDIS_CONF
    control.guest.put("/etc/redis/redis.crt", public(cloud.certificate))
    control.guest.put("/etc/redis/redis.key", cloud.certificate, mode=0o640)
    control.guest.step(f"cat >>/etc/redis/redis.conf <<'END'\n{more}END")
    control.guest.step("install -m 0640 -g redis users.acl /etc/redis/users.acl")
    control.guest.step("chgrp redis /etc/redis/redis.key && systemctl restart redis-server")


@pytest.fixture(scope="module")
def installed(cloud: Cloud) -> Cloud:
    """All programs on both machines: the first block of each section."""
    with ThreadPoolExecutor(2) as pool:
        work = [(cloud.control, ON_CONTROL[0]), (cloud.host, ON_HOST[0])]
        for _ in pool.map(lambda each: each[0].follow(each[1]), work):
            pass
    # What the site has already, and the guide does not install: its compute host's own Nova.
    nova.install(cloud.host.guest)
    return cloud


@pytest.fixture(scope="module")
def control(installed: Cloud) -> Operator:
    """The control plane, running."""
    control = installed.control
    _program, user, configuration, key, record, broker, service = ON_CONTROL
    control.follow(user)
    control.follow(configuration)
    control.guest.put("/etc/openstack/clouds.yaml", installed.clouds_yaml, mode=0o640)
    control.guest.step("chgrp nvme-quarantine /etc/openstack/clouds.yaml")
    control.edit(CONF, "placement", cloud="lab")
    control.follow(key)
    control.follow(record)
    control.follow(broker)
    start_redis(installed)
    secret = password(control, "nvme-quarantine")
    control.edit(CONF, "broker", url=f"rediss://nvme-quarantine:{secret}@{REDIS}:6379/0")
    said = control.follow(service)
    assert said is not None
    assert said.stdout.strip() == "active"
    return control


@pytest.fixture(scope="module")
def host(installed: Cloud, control: Operator) -> Operator:
    """The compute host, registered and running."""
    host = installed.host
    _program, card, worker, patch, rules, services = ON_HOST
    control.carry("/root/controller.jwk", host, "/root/controller.jwk")
    host.follow(card)
    host.follow(worker)
    # The accounts of a host that soon will be: the guide's section on Redis.
    control.follow(next(blocks(GUIDE, "Redis in production")))
    control.guest.step("install -m 0640 -g redis users.acl /etc/redis/users.acl")
    loaded = redis(control, "admin", password(control, "admin"), "acl load")
    assert loaded.stdout.strip() == "OK", loaded.stderr
    url = f"rediss://{HOST}:{password(control, HOST)}@{REDIS}:6379/0"
    host.edit("/etc/nvme-eraser/worker.conf", "worker", broker=url)
    host.follow(patch)
    host.follow(rules)
    *starting, status = services
    host.follow(starting)
    host.look_until_good(status, 600)
    host.carry("/var/lib/nvme-eraser/host.json", control, "/root/host.json")
    control.follow(REGISTERING)
    return host


def test_every_line_was_typed(control: Operator, host: Operator) -> None:
    wanted = [line for block in (*ON_CONTROL, *ON_HOST, REGISTERING) for line in block]
    typed = [*control.typed, *host.typed]
    assert [line for line in wanted if line not in typed] == []


def test_the_hosts_nova_compute_has_the_patch(host: Operator) -> None:
    status = json.loads(host.guest.step("nvme-eraser gate status -f json").stdout)
    (patch,) = [each for each in status["defences"] if each["defence"] == "patch"]
    assert patch["standing"] == "present", patch
    assert patch["detail"].endswith(f":{offered.NOVA}"), patch
    pid = host.guest.step("systemctl show --value --property MainPID nova-compute").stdout
    assert f"process {pid.strip()}: nvme-quarantine-patch:" in patch["detail"]


def test_its_heartbeat_came_by_its_own_account(control: Operator, host: Operator) -> None:
    *_, listing = REGISTERING

    def heard() -> bool:
        done = control.guest.step(f"{listing} -f json")
        (row,) = json.loads(done.stdout)
        assert row["host"] == HOST
        return row["heard_at"] is not None

    wait_until(heard, f"a hello of {HOST}", PATIENCE, every=5)
    secret = password(control, "admin")
    (client,) = [
        line
        for line in redis(control, "admin", secret, "client list").stdout.splitlines()
        if "addr=192.0.2.2:" in line and "cmd=brpop" in line
    ]
    assert f" user={HOST} " in client
    assert redis(control, "admin", secret, "acl log").stdout.strip() == ""


def test_its_account_is_refused_what_is_not_its_own(control: Operator, host: Operator) -> None:
    secret = password(control, HOST)
    assert redis(control, HOST, secret, "ping").stdout.strip() == "PONG"
    for words in ("keys '*'", "rpop eraser.cmp2.example", "get x", "flushall", "acl list"):
        assert "NOPERM" in redis(control, HOST, secret, words).stdout, words
    assert "WRONGPASS" in redis(control, HOST, "guessed", "ping").stderr


def test_the_services_start_again_with_the_machine(control: Operator, host: Operator) -> None:
    for operator, units in (
        (control, ["nvme-quarantine"]),
        (host, ["nvme-eraser-worker", "nvme-eraser-watcher"]),
    ):
        said = operator.guest.step(f"systemctl is-enabled {' '.join(units)}").stdout
        assert said.split() == ["enabled"] * len(units)
        failed = operator.guest.step("systemctl list-units --failed --plain --no-legend 'nvme-*'")
        assert failed.stdout.strip() == ""


def test_another_release_takes_the_place_of_the_one_that_is_there(host: Operator) -> None:
    """All call themselves by one number: pip leaves what is there, unless it is told not to."""
    import_it = "import eraser.clock; print(eraser.clock.__file__)"
    module = host.guest.step(f"/opt/nvme-quarantine/bin/python -c '{import_it}'").stdout.strip()
    host.guest.step(f"echo '# of a former release' >>{module}")
    *steps, status = next(blocks(GUIDE, "Another release on a host"))
    host.follow(steps)
    host.look_until_good(status, 600)
    assert "of a former release" not in host.guest.get(module).decode()
