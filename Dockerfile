# Two stages: what builds the package is not in the image that runs it.
ARG PYTHON_VERSION=3.13

FROM python:${PYTHON_VERSION}-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src

# The locks change less often than the code: their layers come first.
COPY requirements/build.lock requirements/runtime.lock requirements/
RUN python -m venv /opt/build \
 && /opt/build/bin/pip install --require-hashes -r requirements/build.lock
RUN python -m venv /opt/kaisched \
 && /opt/kaisched/bin/pip install --require-hashes -r requirements/runtime.lock

COPY pyproject.toml README.md LICENSE ./
COPY kaisched kaisched
COPY plugins/kaisched_plugins plugins/kaisched_plugins
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /dist . \
 && /opt/kaisched/bin/pip install --no-deps /dist/*.whl \
 && /opt/kaisched/bin/python -m compileall -q /opt/kaisched \
 && /opt/kaisched/bin/pip uninstall --yes pip

FROM python:${PYTHON_VERSION}-slim
COPY --from=build /opt/kaisched /opt/kaisched
# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
ENV PATH=/opt/kaisched/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
ENTRYPOINT ["kaisched"]
CMD ["--help"]
