# The image of "nephele controller" for config/. Build it at the root of the repository: docker build -t nephele .
# Nothing of the first stage is in the image but the binary and the list of public authorities. To pin it harder than by its version, add
# the digest that your registry shows for it: golang:1.26.8@sha256:...
FROM golang:1.26.8 AS build
WORKDIR /src
COPY . .
RUN CGO_ENABLED=0 make build-slim

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /src/bin/nephele-slim /nephele
USER 65532:65532
ENTRYPOINT ["/nephele"]
