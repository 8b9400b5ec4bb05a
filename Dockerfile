# Build stage: `make build` on the CUDA development image. Run stage: the CUDA runtime image, the
# binaries with the libraries they need, a user without rights.

FROM nvidia/cuda:13.0.1-devel-ubuntu24.04 AS build
WORKDIR /src
COPY . .
RUN apt-get update && apt-get install -y --no-install-recommends make && make build && rm -rf /var/lib/apt/lists/*
RUN deploy/stage-container /out

FROM nvidia/cuda:13.0.1-runtime-ubuntu24.04
COPY --from=build /out/ /
RUN ldconfig && useradd --system --uid 10001 --home-dir /nonexistent --shell /usr/sbin/nologin dsv4v
USER 10001
EXPOSE 8080
ENV DSV4V_HOST=0.0.0.0 DSV4V_PORT=8080
# Liveness holds while a large model loads; readiness (/ready) is for the load balancer.
HEALTHCHECK --interval=10s --timeout=3s CMD ["/usr/local/bin/dsv4v-server", "--health-check"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/dsv4v-server"]
