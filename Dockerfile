# Two stages: what builds the package is not in the image that runs it.
# For what is released: --build-arg RELEASE=1 --build-arg BASE=python:...@sha256:...
# docs/how-to/install.md says how the digest is found.
ARG BASE=python:3.13.15-slim-bookworm
ARG RELEASE=0

FROM ${BASE} AS build
ARG BASE
ARG RELEASE
# A tag may be built anew by its publisher, a digest may not.
RUN if [ "$RELEASE" != 0 ] && ! echo "$BASE" | grep -Eq '^[^@ ]+@sha256:[0-9a-f]{64}$'; then \
      echo "a release needs a base with its digest, BASE=name@sha256:..., not $BASE" >&2; exit 1; \
    fi
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src

# The locks change less often than the code: their layers come first.
COPY requirements/build.lock requirements/runtime.lock requirements/
RUN python -m venv /opt/build \
 && /opt/build/bin/pip install --require-hashes -r requirements/build.lock
RUN python -m venv /opt/kaisched \
 && /opt/kaisched/bin/pip install --no-compile --require-hashes -r requirements/runtime.lock

COPY pyproject.toml README.md LICENSE ./
COPY kaisched kaisched
COPY plugins/kaisched_plugins plugins/kaisched_plugins
COPY deploy/image/slim.py deploy/image/sbom.py deploy/image/
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /dist . \
 && /opt/kaisched/bin/pip install --no-compile --no-deps /dist/*.whl \
 && /opt/build/bin/python deploy/image/slim.py /opt/kaisched \
 && /opt/build/bin/python deploy/image/sbom.py /opt/kaisched/lib/python3*/site-packages \
    > /opt/kaisched/sbom.cdx.json

FROM ${BASE}
ARG BASE
LABEL org.opencontainers.image.base.name=${BASE}
COPY --from=build /opt/kaisched /opt/kaisched
# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
ENV PATH=/opt/kaisched/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
ENTRYPOINT ["kaisched"]
CMD ["--help"]
