"""dspy: its model and embedder, over litellm. It asks models that it does not know for objects in
words alone.
"""

import cases
import dspy


def model(**options):
    return dspy.LM(
        f"openai/{cases.MODEL}",
        api_base=cases.CHAT + "/v1",
        api_key=cases.KEY,
        cache=False,
        num_retries=0,
        **options,
    )


def embeddings():
    encoder = dspy.Embedder(
        f"openai/{cases.ENCODER}",
        api_base=cases.EMBEDDINGS + "/v1",
        api_key=cases.KEY,
        caching=False,
    )
    return encoder(cases.TEXTS)


cases.report(
    chat=lambda: model()(cases.PROMPT)[0],
    embeddings=embeddings,
    overflow=lambda: model()(cases.PROMPT * 3000),
)
