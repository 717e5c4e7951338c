"""Prints the ground truths of AgentDojo as JSON. AgentDojo's own interpreter runs it.

It imports nothing of hookgate. One object a suite: ``tools`` with name, description and JSON
schema; ``user_tasks`` and ``injection_tasks`` with their calls, in order, each as ``{"tool",
"arguments", "output", "carries"}``. The calls are run against the suite's environment, so that
arguments and outputs are AgentDojo's own. ``carries`` says whether the output holds a place
into which AgentDojo puts injections.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

MARK = "MARK-OF-AN-INJECTION"


def main(version: str) -> None:
    """Print what AgentDojo's suites of a version come to."""
    suites = importlib.import_module("agentdojo.task_suite.load_suites").get_suites(version)
    json.dump({name: _suite(suite) for name, suite in suites.items()}, sys.stdout)


def _suite(suite: Any) -> dict[str, Any]:
    clean = suite.load_and_inject_default_environment({})
    places = dict.fromkeys(suite.get_injection_vector_defaults(), MARK)
    injected = suite.load_and_inject_default_environment(places)
    users = []
    for key, task in suite.user_tasks.items():
        calls = _calls(suite, task, task.init_environment(clean.model_copy(deep=True)))
        marked = _calls(suite, task, task.init_environment(injected.model_copy(deep=True)))
        for number, call in enumerate(calls):
            call["carries"] = number < len(marked) and MARK in marked[number]["output"]
        users.append({"id": key, "prompt": task.PROMPT, "calls": calls})
    injections = [
        {"id": key, "prompt": task.GOAL, "calls": _calls(suite, task, clean.model_copy(deep=True))}
        for key, task in suite.injection_tasks.items()
    ]
    tools = [
        {
            "name": tool.name,
            "description": tool.description,
            "schema": tool.parameters.model_json_schema(),
        }
        for tool in suite.tools
    ]
    return {"tools": tools, "user_tasks": users, "injection_tasks": injections}


def _calls(suite: Any, task: Any, environment: Any) -> list[dict[str, Any]]:
    """Run a task's ground truth; return its calls with what they gave."""
    runtime = importlib.import_module("agentdojo.functions_runtime").FunctionsRuntime(suite.tools)
    text = importlib.import_module("agentdojo.agent_pipeline.tool_execution").tool_result_to_str
    calls = []
    for call in task.ground_truth(environment):
        value, error = runtime.run_function(environment, call.function, call.args)
        output = f"error: {error}" if error else str(text(value))
        arguments = json.loads(json.dumps(dict(call.args), default=str))
        calls.append({"tool": call.function, "arguments": arguments, "output": output})
    return calls


if __name__ == "__main__":
    main(sys.argv[1])
