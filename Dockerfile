# Two stages: the first builds with the development dependencies, the second keeps only what runs.
# glibc, because the embedded engine has no musl build.
FROM node:24-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc tsconfig.json ./
COPY src ./src
RUN npm ci && npm prune --omit=dev --ignore-scripts

FROM node:24-bookworm-slim
ENV NODE_ENV=production FLOWDROP_STATE_DIR=/data/state FLOWDROP_OUTBOX_DIR=/data/mail
WORKDIR /data
COPY --from=build /app/package.json /app/
COPY --from=build /app/node_modules /app/node_modules
COPY --from=build /app/dist /app/dist
COPY templates /app/templates
COPY jobs /app/jobs
COPY jobs /data/jobs
RUN chmod +x /app/dist/main.js && ln -s /app/dist/main.js /usr/local/bin/flowdrop && chown -R node:node /data
USER node
VOLUME /data
# The daemon is up when its job files still parse and it is the container's first process.
HEALTHCHECK --interval=60s --timeout=10s --start-period=10s CMD ["flowdrop", "check"]
ENTRYPOINT ["flowdrop"]
CMD ["start"]
