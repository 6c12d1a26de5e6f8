# syntax=docker/dockerfile:1
# Built in two stages: the wheel and its dependencies go into a virtual environment, and only that is shipped. Two builds
# of one commit give the same files: the base has a digest, every dependency a version and a hash (make lock), and what
# is compiled does not depend on the time.
ARG BASE=docker.io/library/python:3.12-slim-bookworm@sha256:54c85f3c47607a77f32adec749d3c81d1348bf25833671f512b26a9b6d778cb3

FROM ${BASE} AS build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0
# The newest binutils of the base's Debian: a single version would be gone from its mirrors at the next point release.
# hadolint ignore=DL3008
RUN apt-get update -q && apt-get install -y -q --no-install-recommends binutils && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY deploy/image deploy/image
# Without isolation a dependency that has no wheel (nkeys) is built with the locked setuptools.
RUN python3 -m venv /opt/build \
 && /opt/build/bin/pip install --no-cache-dir --require-hashes -r deploy/image/build.lock \
 && /opt/build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /opt/wheels \
      --require-hashes -r deploy/image/requirements.lock
COPY pyproject.toml hatch_build.py README.md LICENSE pyspark_openoutbox*.py ./
COPY client client
COPY relay relay
COPY cli cli
COPY sql sql
# Without git among the files: what `make image` says of the commit.
ARG VERSION=0.2.0.dev0
# What the programs import is compiled, of the standard library too, whose compiled files the base lacks: nothing can be
# written where the image runs.
RUN OPENOUTBOX_VERSION="${VERSION}" \
    /opt/build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /opt/wheels ./client . \
 && python3 -m venv --without-pip /opt/relay \
 && /opt/build/bin/pip --python /opt/relay/bin/python install --no-cache-dir --no-compile --no-deps /opt/wheels/*.whl \
 && deploy/image/slim.sh /opt/relay \
 && /opt/relay/bin/python deploy/image/modules.py > /opt/modules \
 && PYTHONPYCACHEPREFIX=/opt/relay/pyc \
    /opt/relay/bin/python -m compileall -q --invalidation-mode unchecked-hash -i /opt/modules \
 && find /opt/relay -exec touch --no-dereference --date=@0 {} +

FROM ${BASE}
COPY --from=build /opt/relay /opt/relay
ENV PATH=/opt/relay/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPYCACHEPREFIX=/opt/relay/pyc
# A number, so that runAsNonRoot can be checked without reading /etc/passwd. Nothing is written to the file system.
USER 10001:10001
# The relay's and, where it runs instead, the console's.
EXPOSE 8080 8090
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
  CMD ["relay", "--healthcheck"]
# The exec form: the relay is process 1 and gets SIGTERM itself.
ENTRYPOINT ["relay"]
# Last, since they change with every commit: `make image` sets version and revision, `make release` all three.
ARG VERSION=0.2.0.dev0
ARG REVISION=
ARG SOURCE=
LABEL org.opencontainers.image.title="openoutbox-relay" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}"
