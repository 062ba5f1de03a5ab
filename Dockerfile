# Two stages: the first builds with what development needs, the second has only what runs. glibc, because the embedded engine has
# no musl build. linux/amd64 and linux/arm64: the lockfile has the engine and the drawing library of both.
# For an image that can be built again, append the digest that this prints, @sha256:...:
#   docker buildx imagetools inspect node:24-bookworm-slim --format '{{.Manifest.Digest}}'
ARG BASE=node:24-bookworm-slim
FROM ${BASE} AS build
WORKDIR /app
COPY package.json npm-shrinkwrap.json .npmrc ./
# No package that runs needs an install script: binaries come inside the packages.
RUN npm ci --ignore-scripts
COPY tsconfig.json ./
COPY src ./src
RUN npm run build
# The compiler is an optional peer of a package that runs, so npm keeps it; nothing loads it. Types, sources in TypeScript
# (Node runs none in node_modules) and source maps are for development; licences stay.
RUN npm prune --omit=dev --omit=peer --ignore-scripts \
  && rm -rf node_modules/typescript node_modules/@typescript \
  && find node_modules -type f \( -name '*.map' -o -name '*.ts' -o -name '*.mts' -o -name '*.cts' -o -name '*.tsbuildinfo' \) -delete \
  && find dist -type f -name '*.map' -delete
COPY templates ./templates
COPY sql ./sql
COPY jobs ./jobs
COPY docs/data.md docs/formulas.md deploy/healthcheck.js LICENSE NOTICE ./
# Whoever runs it may read it, whatever the umask of the clone was.
RUN chmod -R a+rX,go-w package.json healthcheck.js data.md formulas.md LICENSE NOTICE dist templates sql jobs

FROM ${BASE}
# The engine is most of the image and changes least: it comes first.
COPY --from=build /app/node_modules /app/node_modules
COPY --from=build /app/package.json /app/healthcheck.js /app/LICENSE /app/NOTICE /app/
COPY --from=build /app/data.md /app/formulas.md /app/docs/
COPY --from=build /app/templates /app/templates
COPY --from=build /app/sql /app/sql
COPY --from=build /app/jobs /app/jobs
COPY --from=build /app/dist /app/dist
ENV NODE_ENV=production FLOWDROP_STATE_DIR=/data/state FLOWDROP_OUTBOX_DIR=/data/mail
WORKDIR /data
RUN ln -s /app/dist/main.js /usr/local/bin/flowdrop && chown 1000:1000 /data
# The base image's user `node`, by number: Kubernetes can tell only of a number that it is not root.
USER 1000:1000
VOLUME /data
# Beyond /data only /tmp is written to, by `query`, `serve` and `doctor`, and by `check` and `plan` of jobs with SQL of their
# own: where the root is read-only, give it a tmpfs there, or set TMPDIR=/data.
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 CMD ["node", "/app/healthcheck.js"]
ENTRYPOINT ["flowdrop"]
CMD ["start"]
# Last, because they differ with every build. The commit and the address are the builder's to give (deploy/README.md).
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="flowdrop" \
  org.opencontainers.image.description="Scheduled data-export and reporting worker for U.S. option trades" \
  org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}" \
  org.opencontainers.image.source="${SOURCE}"
