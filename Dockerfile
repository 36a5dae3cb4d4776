# The scheduler's image: docker build -t ai-scheduler:0.1.0 .
# tests/packaging runs its install steps without Docker and holds its paths to the tree.
ARG PYTHON_IMAGE=python:3.13-slim
# The same Python with a C compiler, for the loops of scheduler/state/_loops.c; with the slim one numpy does their work.
ARG BUILD_IMAGE=python:3.13

FROM ${BUILD_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
RUN python -m venv /opt/build && python -m venv /opt/ai-scheduler
# Dependencies first: their layer lasts until a lock changes.
COPY requirements-build.lock requirements.lock ./
RUN /opt/build/bin/python -m pip install --require-hashes -r requirements-build.lock
RUN /opt/ai-scheduler/bin/python -m pip install --require-hashes --only-binary :all: -r requirements.lock
COPY pyproject.toml README.md LICENSE hatch_build.py ./
COPY scheduler scheduler
RUN /opt/build/bin/python -m pip wheel --no-deps --no-build-isolation --wheel-dir /src/dist .
RUN /opt/ai-scheduler/bin/python -m pip install --no-deps --no-index --find-links /src/dist ai-scheduler
RUN /opt/ai-scheduler/bin/ai-scheduler --help

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="ai-scheduler" \
      org.opencontainers.image.description="A second scheduler for Kubernetes clusters that train and serve models" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/ai-scheduler /opt/ai-scheduler
ENV PATH=/opt/ai-scheduler/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# A number, so that runAsNonRoot can be checked; nothing in the image belongs to it.
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["ai-scheduler"]
CMD ["run"]
