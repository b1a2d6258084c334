"""The paths of the server that do not depend on the task of the model."""

EMBED_PATH = "/embed"
TOKENIZE_PATH = "/tokenize"
# GET requests; /ping is the health check of Amazon SageMaker.
PAGE_PATHS = ("/", "/info", "/health", "/ping", "/metrics", "/openapi.json")
# GET requests that need no token. A browser opens the page without one, and the page asks for it; it is the
# same for every server.
OPEN_PATHS = ("/", "/health", "/ping")
# POST requests in other libraries' places: of the embedder or the classifier, and in the form of OpenAI.
DEFAULT_PATHS = ("/", "/invocations")
OPENAI_PATHS = ("/v1/embeddings", "/embeddings")
