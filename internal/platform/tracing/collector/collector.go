// Package collector sends traces to a collector of OpenTelemetry over gRPC, as the standard
// variables OTEL_* configure it. It is a package of its own because gRPC is large, and code that
// only writes traces does without it.
//
// It owns how spans leave the process, and promises that no caller waits for a collector.
//
// Concurrency: a process calls FromEnvironment once.
package collector

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/nephele-io/nephele/internal/platform/tracing"
)

// service is the name of the service unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES give
// another one.
const service = "nephele"

// FromEnvironment returns a tracer that sends to a collector over gRPC, as OTEL_* say; nil if they
// name no collector. version is that of this build. The variables of the exporter, of the sampler
// and of the batches are in OpenTelemetry's specification.
func FromEnvironment(ctx context.Context, env func(string) string, version string, log logr.Logger) (*tracing.Tracer, error) {
	wanted, err := wanted(env)
	if !wanted || err != nil {
		return nil, err
	}
	exporter, err := otlptracegrpc.New(ctx) // connects when there is something to send
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", service), attribute.String("service.version", version)), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("traces: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	told := &once{log: log}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(told.tell)) // the library has one for the process
	return tracing.New(sdktrace.NewBatchSpanProcessor(exporter), sdktrace.WithResource(about)), nil
}

// wanted reports whether the environment asks for traces.
func wanted(env func(string) string) (bool, error) {
	if strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	switch kind := env("OTEL_TRACES_EXPORTER"); kind {
	case "none":
		return false, nil
	case "otlp":
	case "":
		if env("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
			return false, nil
		}
	default:
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER=%q: must be otlp or none", kind)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if protocol := env(name); protocol != "" && protocol != "grpc" {
			return false, fmt.Errorf("%s=%q: traces are sent with grpc only", name, protocol)
		}
	}
	return true, nil
}

// once tells an error when it is another one than before.
type once struct {
	log logr.Logger

	mu   sync.Mutex
	told string
}

func (o *once) tell(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if text := err.Error(); text != o.told {
		o.told = text
		o.log.Info("Traces are not delivered; everything else goes on", "error", text)
	}
}
