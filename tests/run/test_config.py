"""What is written for supervisord and Redis, read back by supervisord's own parser."""

from __future__ import annotations

import shlex
import stat
from pathlib import Path
from typing import Any

import pytest
from supervisor.options import ServerOptions

from llamaweb.boot import Boot, boot_from
from llamaweb.env_load import load_env
from llamaweb.run.config import ConfigError, control_socket, supervisord_conf, write_config
from llamaweb.run.programs import redis_conf


def boot_at(root: Path, **env: str) -> Boot:
    variables = {f"LLAMAWEB_{name}": value for name, value in env.items()}
    return boot_from(load_env({"LLAMAWEB_DATA_DIR": str(root), **variables}))


def options_of(boot: Boot) -> ServerOptions:
    """The file as supervisord understands it."""
    options = ServerOptions()
    options.realize(["--nodaemon", "--configuration", str(supervisord_conf(boot.data_dir))])
    return options


def parsed(boot: Boot) -> dict[str, Any]:
    """Program name → its group configuration."""
    return {group.name: group for group in options_of(boot).process_group_configs}


def test_all_processes_with_redis_first_and_web_last(short_dir: Path) -> None:
    boot = boot_at(short_dir / "data", PORT="8123")
    write_config(boot)
    groups = parsed(boot)
    assert sorted(groups, key=lambda name: groups[name].priority) == [
        "redis",
        "supervisor",
        "beat",
        "jobs",
        "web",
    ]
    assert groups["web"].socket_config.url == "tcp://127.0.0.1:8123"
    [web] = groups["web"].process_configs
    assert web.command.endswith("-m llamaweb.run.web --fd 0")
    assert web.stdout_logfile == str(short_dir / "data" / "logs" / "web.log")
    for group in groups.values():
        for process in group.process_configs:
            assert "run/child.py" in process.command
            assert process.startretries > 10**6
            assert process.killasgroup


def test_several_web_processes_share_the_socket(short_dir: Path) -> None:
    boot = boot_at(short_dir / "data", WEB_WORKERS="3")
    [*_, web] = write_config(boot)
    names = [process.name for process in parsed(boot)["web"].process_configs]
    assert names == ["web1", "web2", "web3"]
    assert web.process_names == tuple(names)


def test_a_redis_of_ones_own_is_not_started(short_dir: Path) -> None:
    boot = boot_at(short_dir / "data", REDIS_URL="redis://127.0.0.1:6399/0")
    write_config(boot)
    assert "redis" not in parsed(boot)
    assert not redis_conf(boot).exists()


def test_files_are_private_and_the_password_is_on_no_command_line(short_dir: Path) -> None:
    boot = boot_at(short_dir / "data")
    programs = write_config(boot)
    for path in (redis_conf(boot), supervisord_conf(boot.data_dir)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    password = boot.data_dir.key("redis_password")
    assert f"requirepass {password}\n" in redis_conf(boot).read_text()
    assert not any(password in word for program in programs for word in program.argv)


def test_odd_paths_survive(short_dir: Path) -> None:
    root = short_dir / "100% mine, 'really' \"so\""
    boot = boot_at(root)
    write_config(boot)
    options = options_of(boot)
    assert options.logfile == str(root / "logs" / "supervisord.log")
    assert options.pidfile == str(root / "run" / "supervisord.pid")
    assert options.server_configs[0]["file"] == str(control_socket(boot.data_dir))
    [redis] = parsed(boot)["redis"].process_configs
    assert redis.stdout_logfile == str(root / "logs" / "redis.log")
    assert shlex.split(redis.command)[-1] == str(redis_conf(boot))


def test_a_path_that_supervisord_would_cut_is_refused(short_dir: Path) -> None:
    boot = boot_at(short_dir / "data #2")
    with pytest.raises(ConfigError, match="#"):
        write_config(boot)


def test_an_ipv6_address_is_refused_by_name(short_dir: Path) -> None:
    with pytest.raises(ConfigError, match="LLAMAWEB_HOST"):
        write_config(boot_at(short_dir / "data", HOST="::1"))


def test_long_paths_get_a_short_private_socket(short_dir: Path) -> None:
    boot = boot_at(short_dir / ("x" * 90))
    socket = control_socket(boot.data_dir)
    assert len(str(socket)) + len(".4194304") < 108
    assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
    socket.parent.rmdir()
