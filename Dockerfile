# A node's image, with hubctl and hub-swarm beside it: built with the toolchain that the tests use, run on a slim Debian with the C
# libraries they link and nothing else.
ARG SWIFT_IMAGE=swift:6.3-bookworm
ARG DEBIAN_IMAGE=debian:bookworm-slim

FROM ${SWIFT_IMAGE} AS build
RUN apt-get update -q \
    && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
        libhiredis-dev libssl-dev zlib1g-dev libcurl4-openssl-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY Package.swift ./
COPY Sources Sources
COPY Benchmarks Benchmarks
COPY Fuzz/Targets Fuzz/Targets
COPY Tests Tests
# Swift's own libraries are linked in, so that the running image needs no toolchain.
RUN swift build -c release --static-swift-stdlib --product hubd \
    && swift build -c release --static-swift-stdlib --product hubctl \
    && swift build -c release --static-swift-stdlib --product hub-swarm \
    && install -D -t /out .build/release/hubd .build/release/hubctl .build/release/hub-swarm \
    && strip /out/hubd /out/hubctl /out/hub-swarm

FROM ${DEBIAN_IMAGE}
RUN apt-get update -q \
    && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
        libhiredis0.14 libssl3 zlib1g libcurl4 libstdc++6 libgcc-s1 ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin hub
COPY --from=build /out/ /usr/local/bin/
# The swarm's scenarios, beside the program as it looks for them.
COPY config/swarm /usr/local/share/hub/swarm
COPY scripts/healthcheck /usr/local/bin/healthcheck
USER hub
EXPOSE 8080
# Alive, not ready: a node that lost Redis must be kept, not replaced.
HEALTHCHECK --interval=5s --timeout=3s --start-period=10s --retries=3 CMD ["/usr/local/bin/healthcheck", "127.0.0.1:8080"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/hubd"]
CMD ["--listen", "0.0.0.0:8080"]
