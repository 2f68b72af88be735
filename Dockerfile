# The image of the rescheduler: docker build --tag REGISTRY/rescheduler:VERSION .
#
# BASE is a Linux with glibc, Python 3.11 or newer and pip. The image gets Python from it and the
# libraries that Python needs: no shell, no package manager, no other program. To build twice from the
# same base, name it by digest: --build-arg BASE=python@sha256:...
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
# tracing: with what --trace-endpoint needs
ARG DEPENDENCIES=runtime
WORKDIR /build
# Dependencies first: they change less often than our code.
COPY requirements requirements
RUN python3 -m pip install --no-cache-dir --root-user-action=ignore --require-hashes \
      --target=/build/tools --requirement=requirements/build.txt \
 && python3 -m pip install --no-cache-dir --root-user-action=ignore --require-hashes --no-compile \
      --target=/image/opt/rescheduler --requirement=requirements/${DEPENDENCIES}.txt
COPY image/assemble.py image/
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN PYTHONPATH=/build/tools python3 -m pip install --no-cache-dir --root-user-action=ignore \
      --no-compile --no-deps --no-build-isolation --target=/image/opt/rescheduler . \
 && python3 image/assemble.py /image

FROM scratch
ARG VERSION=""
COPY --from=build /image /
ENV PYTHONPATH=/opt/rescheduler PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["/usr/bin/rescheduler"]
LABEL org.opencontainers.image.title="rescheduler" \
      org.opencontainers.image.description="Moves running Kubernetes pods to better nodes" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
