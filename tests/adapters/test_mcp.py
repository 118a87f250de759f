"""The tools of `taciturn mcp`, called by the client of the MCP SDK over stdio, on a running service."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

import taciturn
from process_kit import served

PAGE = (Path(__file__).parents[2] / "docs" / "interop.md").read_text(encoding="utf-8")
COMMAND = [sys.executable, "-m", "taciturn", "mcp"]
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("TACITURN_")}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """The address of a service that needs a key, and the tokens of one that may write and of one that may read."""
    folder = tmp_path_factory.mktemp("service")
    tokens = [
        subprocess.check_output(
            [*COMMAND[:3], "keys", "add", scope, "--scope", scope, "--data-dir", "data"], cwd=folder, text=True
        ).split()[-1]
        for scope in ("write", "read")
    ]
    with served(folder) as address:
        with taciturn.Client(address, tokens[0]) as client:
            client.create("shop", arms=["refund", "order", 3], seed=0)
        yield address, *tokens


def session(address, token, talk):
    """What `talk` returns, which is given tools that it can call by name: text and content, or an error."""
    started = StdioServerParameters(
        command=COMMAND[0],
        args=[*COMMAND[1:], "--url", address, "--key-env", "MINE"],
        env=ENVIRONMENT | {"MINE": token},
    )

    async def run():
        async with Client(started) as tools:

            async def call(name, **arguments):
                answer = await tools.call_tool(name, arguments)
                (text,) = (part.text for part in answer.content) if answer.is_error else ("",)
                return text or answer.structured_content

            return await talk(tools, call)

    return asyncio.run(run())


def test_an_assistant_decides_gives_feedback_and_is_told_why(service):
    async def talk(tools, call):
        described = {tool.name: tool for tool in (await tools.list_tools()).tools}
        assert set(described) == {"list_agents", "decide", "feedback", "explain"}
        assert all(tool.description and tool.output_schema for tool in described.values())
        for tool in described.values():
            assert all(about.get("description") for about in tool.input_schema.get("properties", {}).values())
        assert {name for name, tool in described.items() if tool.annotations.read_only_hint} == {
            "list_agents",
            "explain",
        }
        assert await call("list_agents") == {"result": ["shop"]}
        context = {"late": 1, "country": "DE", "note": "where is my parcel ✉", "tags": ["web"], "ref": None}
        made = await call("decide", agent="shop", context=context)
        assert (made["id"], set(made["expected"])) == (0, {"refund", "order", "3"})
        assert made["arm"] in {"refund", "order", 3} and 0 < made["propensity"] <= 1
        assert await call("feedback", agent="shop", id=0, reward=1) == {"result": "taken"}
        why = await call("explain", agent="shop", id=0)
        assert (why["arm"], why["state"], why["reward"]) == (made["arm"], "rewarded", 1)
        assert why["text"].startswith("decision 0 is rewarded: ")
        await call("feedback", agent="shop", id=0, reward=None)
        assert (await call("explain", agent="shop", id=0))["state"] == "silent"

    address, write, _ = service
    session(address, write, talk)


def test_errors_are_one_line_and_the_tools_go_on(service):
    async def talk(_, call):
        wrong = [
            (("decide", {"agent": "none", "context": {"late": 1}}), "no agent 'none'"),
            (("decide", {"agent": "../shop", "context": {"late": 1}}), "cannot be the name of an agent"),
            (("decide", {"agent": "shop", "context": {"n": 10**400}}), "'n' is .a whole number of 1329 bits.; a whole"),
            (("decide", {"agent": "shop", "context": []}), "context"),
            (("decide", {"agent": "shop", "context": {}}), "context"),
            (("decide", {"agent": "shop"}), "context"),
            (("feedback", {"agent": "shop", "id": 999, "reward": 1}), "unknown decision 999"),
            (("feedback", {"agent": "shop", "id": -1, "reward": 1}), "id"),
            (("feedback", {"agent": "shop", "id": 0, "reward": 2}), "reward"),
            (("explain", {"agent": "shop", "id": "first"}), "id"),
            (("forget", {}), "forget"),
        ]
        for (name, arguments), expected in wrong:
            text = await call(name, **arguments)
            assert isinstance(text, str) and re.search(expected, text) and "\n" not in text, (name, arguments, text)
        assert await call("list_agents") == {"result": ["shop"]}

    address, write, _ = service
    session(address, write, talk)


def test_a_key_that_may_read_cannot_decide_and_is_never_shown(service):
    async def talk(_, call):
        assert await call("list_agents") == {"result": ["shop"]}
        text = await call("decide", agent="shop", context={"late": 1})
        assert "this key may read, not write" in text and read not in text

    address, _, read = service
    session(address, read, talk)


def test_a_key_that_is_not_there_or_a_wrong_address_ends_in_one_line():
    for options, message in (
        (["--key-env", "NONE_OF_MINE"], "--key-env NONE_OF_MINE: there is no such variable, or it is empty"),
        (["--url", "localhost"], "the address of the service is not valid; http://localhost:8420 is"),
    ):
        done = subprocess.run([*COMMAND, *options], env=ENVIRONMENT, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"taciturn: {message}\n")


def test_the_example_of_the_documentation_runs(service, capsys):
    address, write, _ = service
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "from mcp" in block)
    code = code.replace('command="taciturn", args=["mcp"', f"command={COMMAND[0]!r}, args=['-m', 'taciturn', 'mcp'")
    code = code.replace("http://localhost:8420", address).replace(
        "])", f"], env={ENVIRONMENT | {'TACITURN_KEY': write}})", 1
    )
    exec(compile(code, "interop.md", "exec"), {"__name__": "page"})  # noqa: S102 - our own documentation
    assert re.match(r"decision \d+ is rewarded: ", capsys.readouterr().out)
