"""Homes of other runtimes, made after what really lies on a machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CODEX = """\
# Codex, as its user keeps it.
model = "gpt-5-codex"
approval_policy = "on-request"   # ask before anything odd

[mcp_servers.github]   # the company's
command = "npx"
args = ["-y", "@modelcontextprotocol/server-github"]
startup_timeout_sec = 20.5
future_key = { kept = true }

[mcp_servers.github.env]
GITHUB_TOKEN = "ghp_secret"

# Documentation, over HTTP.
[mcp_servers."docs:latest"]
url = "https://mcp.example.com/docs?key=secret"
enabled = false # noisy

[mcp_servers.broken]
args = ["nothing to start"]

[[skills.config]]
path = "SKILLS/review/SKILL.md"
enabled = false
"""


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def put_json(path: Path, value: Any) -> Path:
    return put(path, json.dumps(value, indent=2))


def held(root: Path) -> dict[Path, bytes]:
    """Return what each file below a folder holds."""
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def skill(folder: Path, name: str, description: str = "What it is for.") -> Path:
    head = f"---\nname: {name}\ndescription: {description}\nversion: 1.0.0\n"
    return put(
        folder / "SKILL.md", f"{head}metadata:\n  hermes:\n    tags: [A, B]\n---\n\n# Do it\n"
    )


def hermes(root: Path) -> Path:
    """A home of Hermes with nested skills, both files of MCP servers, and a profile."""
    skill(root / "skills/mlops/training/axolotl", "axolotl", "Fine-tune models.")
    skill(root / "skills/mlops/training/axolotl/references/old", "not-a-skill")
    skill(root / "skills/apple/apple-notes", "apple-notes")
    skill(root / "skills/.archive/gone", "gone")
    put(root / "skills/apple/DESCRIPTION.md", "---\ndescription: Apple things.\n---\n")
    put(root / "skills/odd/broken/SKILL.md", "---\nname: [unclosed\n---\n")
    put(root / "skills/odd/no-text/SKILL.md", "").write_bytes(b"\xff\xfe")
    put(
        root / "config.yaml",
        "model:\n  default: anthropic/claude-opus-4.6\n"
        "mcp_servers:\n"
        "  time:\n    command: uvx\n    args: [mcp-server-time]\n"
        "  notion:\n    url: https://user:pw@mcp.notion.com/mcp\n    enabled: no\n"
        "skills:\n  disabled: [apple-notes]\n  external_dirs: []\n",
    )
    put_json(root / "mcp.json", {"mcpServers": {"board": {"command": "/opt/bin/board-mcp"}}})
    profile = root / "profiles/coder"
    skill(profile / "skills/dev/tdd", "tdd")
    put(profile / "config.yaml", "mcp_servers:\n  time:\n    command: uvx\n")
    return root


def claude_code(root: Path, project: Path) -> Path:
    """`~/.claude` with its state beside it, and a project in which Claude Code has run."""
    put_json(
        root / "settings.json",
        {
            "permissions": {"allow": ["Bash(git:*)"], "deny": ["WebFetch", "mcp__sentry"]},
            "enabledPlugins": {"formatter@tools": True},
            "enabledMcpjsonServers": ["memory"],
        },
    )
    skill(root / "skills/pdf", "pdf", "Work with PDF files.")
    put_json(
        root.with_name(".claude.json"),
        {
            "numStartups": 42,
            "oauthAccount": {"emailAddress": "ada@example.com"},
            "mcpServers": {
                "sentry": {"type": "http", "url": "https://mcp.sentry.dev/mcp"},
                "files": {
                    "type": "stdio",
                    "command": "npx",
                    "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv"],
                    "env": {"KEY": "secret"},
                },
            },
            "projects": {
                str(project): {
                    "allowedTools": [],
                    "mcpServers": {"db": {"type": "stdio", "command": "uvx"}},
                    "disabledMcpjsonServers": ["browser"],
                    "hasTrustDialogAccepted": True,
                },
                str(project.parent / "gone"): {},
            },
        },
    )
    put_json(
        project / ".mcp.json",
        {
            "mcpServers": {
                "memory": {"command": "npx"},
                "browser": {"command": "npx"},
                "waiting": {"command": "npx"},
            }
        },
    )
    skill(project / ".claude/skills/release", "release")
    return root


def codex(root: Path, *, logged_in: bool = True) -> Path:
    """A home of Codex."""
    put(root / "config.toml", CODEX.replace("SKILLS", str(root / "skills")))
    skill(root / "skills/review", "review")
    skill(root / "skills/.system/skill-creator", "skill-creator")
    if logged_in:
        put_json(
            root / "auth.json",
            {"OPENAI_API_KEY": None, "tokens": {"access_token": "secret"}, "last_refresh": "..."},
        )
    return root
