# A server of one model, on CPUs. The model is a folder outside, mounted read-only:
#
#   docker build --tag albertine .
#   docker run --read-only --tmpfs /tmp --publish 127.0.0.1:8000:8000 --volume "$PWD/stars:/model:ro" albertine
#
# docs/serving.md has the token, the workers and the limits. For a model of `albertine export`, build with
# --build-arg EXTRAS=[deploy].

FROM python:3.12-slim AS build
ARG EXTRAS=""
WORKDIR /source
RUN python -m venv /opt/albertine && /opt/albertine/bin/pip install --no-cache-dir uv
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
# uv selects the build of torch without CUDA, which is gigabytes smaller.
RUN /opt/albertine/bin/uv pip install --no-cache --python /opt/albertine/bin/python --torch-backend cpu --constraint constraints.txt ".${EXTRAS}"
RUN /opt/albertine/bin/uv pip uninstall --python /opt/albertine/bin/python uv

FROM python:3.12-slim
COPY --from=build /opt/albertine /opt/albertine
ENV PATH=/opt/albertine/bin:$PATH PYTHONDONTWRITEBYTECODE=1 HOME=/tmp HF_HUB_OFFLINE=1
USER 10001:10001
EXPOSE 8000
# The path /health needs no token.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["albertine", "serve", "/model", "--host", "0.0.0.0", "--port", "8000"]
CMD ["--log-format", "json"]
