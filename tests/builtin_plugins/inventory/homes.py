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
        "skills:\n  disabled: [apple-notes]\n"
        f"  external_dirs: [{root.parent}/team-skills, {root.parent}/gone]\n"
        "plugins:\n  enabled: [weather, noisy]\n  disabled: [noisy]\n",
    )
    skill(root.parent / "team-skills/wiki", "wiki", "Write to the wiki.")
    for name in ("weather", "noisy", "memory/notes"):
        put(root / f"plugins/{name}/plugin.yaml", f"name: {Path(name).name}\ndescription: Does.\n")
    put_json(root / "mcp.json", {"mcpServers": {"board": {"command": "/opt/bin/board-mcp"}}})
    profile = root / "profiles/coder"
    skill(profile / "skills/dev/tdd", "tdd")
    put(profile / "config.yaml", "mcp_servers:\n  time:\n    command: uvx\n")
    return root


def claude_plugins(root: Path) -> None:
    """Two plugins that are installed, one of them switched off, and one whose folder is gone."""
    for name, manifest in {
        "formatter": {"description": "Formats.", "mcpServers": {"fmt": {"command": "uvx"}}},
        "noisy": {"description": "Makes noise."},
    }.items():
        plugin = root / f"plugins/cache/tools/{name}/1.0.0"
        put_json(plugin / ".claude-plugin/plugin.json", {"name": name, **manifest})
        skill(plugin / "skills/layout", "layout", "Lay code out.")
        put(plugin / "commands/tidy.md", "---\ndescription: Tidy up\n---\nTidy.\n")
        put(plugin / "agents/tidier.md", "---\nname: tidier\ndescription: Tidies.\n---\nTidy.\n")
    put_json(plugin / ".mcp.json", {"mcpServers": {"drum": {"command": "npx"}}})
    put_json(
        root / "plugins/installed_plugins.json",
        {
            "version": 2,
            "plugins": {
                f"{name}@tools": [
                    {
                        "scope": "user",
                        "installPath": str(root / f"plugins/cache/tools/{name}/1.0.0"),
                        "version": "1.0.0",
                    }
                ]
                for name in ("formatter", "noisy", "gone")
            },
        },
    )


def claude_code(root: Path, project: Path) -> Path:
    """`~/.claude` with its state beside it, and a project in which Claude Code has run."""
    put_json(
        root / "settings.json",
        {
            "permissions": {"allow": ["Bash(git:*)"], "deny": ["WebFetch", "mcp__sentry"]},
            "enabledPlugins": {"formatter@tools": True, "noisy@tools": False},
            "enabledMcpjsonServers": ["memory"],
        },
    )
    skill(root / "skills/pdf", "pdf", "Work with PDF files.")
    put(root / "agents/reviewer.md", "---\nname: reviewer\ndescription: Reviews code.\n---\nDo.\n")
    put(root / "commands/git/sync.md", "# Sync with the remote\n\nAnd so on.\n")
    shared = skill(root.parent / ".agents/skills/diagram", "diagram", "Draw diagrams.").parent
    (root / "skills/diagram").symlink_to(shared)
    claude_plugins(root)
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
    put(project / ".claude/agents/tester.md", "---\nname: tester\n---\nTest.\n")
    return root


def codex_projects(root: Path) -> Path:
    """Skills that runtimes share, and two projects, one of which nobody trusts."""
    skill(root.parent / ".agents/skills/diagram", "diagram", "Draw diagrams.")
    for name, trust in (("shop", "trusted"), ("odd", "untrusted")):
        project = root.parent / f"work/{name}"
        put(project / ".codex/config.toml", f"[mcp_servers.{name}-db]\ncommand = 'npx'\n")
        skill(project / ".agents/skills/lint", "lint")
        with (root / "config.toml").open("a") as file:
            file.write(f'\n[projects."{project}"]\ntrust_level = "{trust}"\n')
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


OPENCLAW = """\
{
  // What its user wrote, by hand.
  gateway: { port: PORT, auth: { mode: 'token', token: 'hush-hush' } },
  tools: { deny: ['browser'], },
  mcp: { servers: { linear: { url: "https://mcp.linear.app/sse?key=secret" } } },
  plugins: { entries: { 'voice-call': { enabled: true }, lobster: { enabled: false } } },
  skills: { entries: { peekaboo: { enabled: false } } },
  agents: { list: [ { id: 'main', workspace: 'WORKSPACE' } ] },
}
"""


def openclaw(root: Path, port: int = 1) -> Path:
    """A folder of OpenClaw whose gateway would listen at a port."""
    workspace = root.parent / "clawd"
    text = OPENCLAW.replace("PORT", str(port)).replace("WORKSPACE", str(workspace))
    put(root / "openclaw.json", text)
    skill(root / "skills/peekaboo", "peekaboo", "Take pictures of the screen.")
    skill(workspace / "skills/crypt", "crypt")
    skill(root.parent / ".agents/skills/diagram", "diagram", "Draw diagrams.")
    return root
