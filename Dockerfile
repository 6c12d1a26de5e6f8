# syntax=docker/dockerfile:1
# Built in two stages: the wheel and its dependencies go into a virtual environment, and only that is shipped.
ARG PYTHON=3.12-slim-bookworm

FROM python:${PYTHON} AS build
WORKDIR /src
RUN python3 -m venv /opt/relay
COPY pyproject.toml README.md LICENSE pyspark_openoutbox*.py ./
COPY relay relay
COPY cli cli
COPY sql sql
RUN /opt/relay/bin/pip install --no-cache-dir '.[all,otel,clickhouse]' \
 && /opt/relay/bin/pip uninstall --yes pip

FROM python:${PYTHON}
LABEL org.opencontainers.image.title="openoutbox-relay" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/relay /opt/relay
ENV PATH=/opt/relay/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# A number, so that runAsNonRoot can be checked without reading /etc/passwd. Nothing is written to the file system.
USER 10001:10001
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
  CMD ["relay", "--healthcheck"]
# The exec form: the relay is process 1 and gets SIGTERM itself.
ENTRYPOINT ["relay"]
