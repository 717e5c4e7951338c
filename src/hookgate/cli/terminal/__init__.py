"""What is drawn and typed: conversations, traces, waterfalls."""
