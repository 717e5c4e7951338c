"""A gateway for tests of plugins: its own home, a model that follows a script, a clock to turn.

With pytest, the fixtures come by one line in ``conftest.py``::

    pytest_plugins = ["hookgate.kit.testing.fixtures"]

and a test takes what it needs::

    async def test_the_model_is_told_why(gateway, model):
        model.steps = [call("post", text="hello"), say("it was not sent")]
        async with gateway(Plugin, plugin={"quiet_hours": {"start": "22:00"}}) as running:
            turn = await running.chat("post hello")

        assert turn.calls[0].result.status == "denied"

Without pytest, `hookgate.kit.testing.gateway.started` does the same.
"""
