"""switch: a switch that takes packets from a network; switch status asks one."""

from pathlib import Path
from typing import Annotated

import typer

from fediac.cli.app import AsJson, app
from fediac.cli.options import count_option, file_option, number_option

switch_app = typer.Typer(rich_markup_mode=None)
app.add_typer(switch_app, name="switch")

_KeyFile = Annotated[
    Path | None,
    file_option(
        "Keys of the jobs; nobody else may be able to read it. FEDIAC_KEY in the "
        "environment is a key, too."
    ),
]


@switch_app.callback(invoke_without_command=True)
def _switch(  # noqa: PLR0913 - one parameter for each option
    context: typer.Context,
    *,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Where to take packets; [::1]:4900 for IPv6, port 0 for any that is "
            "free.  [default: 127.0.0.1:4900]",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Registers of all jobs together: 1MiB, 64KiB or a number of bytes.  "
            "[default: 1MiB]",
        ),
    ] = None,
    key_file: _KeyFile = None,
    max_jobs: Annotated[
        int | None,
        count_option(
            "Jobs at a time; each has an equal part of the registers.  [default: 4]",
            at_least=1,
        ),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:]PORT",
            help="Show a status page and Prometheus metrics there; on 127.0.0.1 unless "
            "HOST says otherwise.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        file_option(
            "Settings in TOML, named as these options: listen, memory, key_file, "
            "max_jobs, http, insecure. Options override them."
        ),
    ] = None,
    insecure: Annotated[
        bool | None,
        typer.Option(
            "--insecure", help="Let other machines in without a key for all jobs."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print lines of JSON and nothing else.")
    ] = False,
) -> None:
    """Run a switch that clients reach over UDP, until Ctrl-C or SIGTERM.

    It needs no root. It prints where it listens, then on a terminal a line of its
    counters that changes every second; with --json a line of JSON for each reading.

    \b
    A key file has a key for all jobs, or lines with a job's number and its key:
      python3 -c 'import secrets; print(secrets.token_hex(32))' > switch.key
      chmod 600 switch.key

    \b
    Exit codes
      0    it was asked to stop
      2    an option or a setting is wrong
      3    the address is in use
      4    it may not listen there
      5    there is no such address
      6    there is no usable key
      7    (status) nothing answers
      8    (status) it wants another key

    \b
    Examples:
      fediac switch --listen 127.0.0.1:4900
      fediac switch --listen 0.0.0.0:4900 --key-file switch.key --http 9100
      fediac switch status 127.0.0.1:4900
    """  # noqa: D301 - \b asks typer to keep the lines that follow
    if context.invoked_subcommand is not None:
        return
    from fediac.network.settings import make_settings
    from fediac.network.switch_command import run_switch
    from fediac.runs.settings.toml_tables import read_table

    options = {
        "listen": listen,
        "memory": memory,
        "key_file": None if key_file is None else str(key_file),
        "max_jobs": max_jobs,
        "http": http,
        "insecure": insecure,
    }
    table = {} if config is None else read_table(config)
    run_switch(make_settings(table, options, file=config), as_json=as_json)


@switch_app.command("status")
def _status(
    *,
    address: Annotated[
        str,
        typer.Argument(
            metavar="HOST:PORT", help="Where the switch listens.", show_default=False
        ),
    ],
    key_file: _KeyFile = None,
    timeout: Annotated[
        float,
        number_option("How long to wait for an answer.", metavar="SECONDS"),
    ] = 3.0,
    as_json: AsJson = False,
) -> None:
    """Ask a running switch how it does.

    A switch that has keys tells only who has one of them.

    \b
    Examples:
      fediac switch status 127.0.0.1:4900
      fediac switch status 192.0.2.7:4900 --key-file switch.key --json
    """  # noqa: D301 - \b asks typer to keep the lines that follow
    import os

    from fediac.network.addresses import Endpoint
    from fediac.network.key_file import find_keys
    from fediac.network.status import show_status

    endpoint = Endpoint.parse(address, name="address")
    keys = find_keys(key_file, os.environ)
    show_status(endpoint, keys, timeout_s=timeout, as_json=as_json)
