package tracing

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	// scope is the name under which spans are made, and of the service unless OTEL_SERVICE_NAME or
	// OTEL_RESOURCE_ATTRIBUTES give another one.
	scope = "nephele"
	// longestText bounds names and values, in bytes.
	longestText = 128
	// maxCauses bounds the links of a span.
	maxCauses = 64
	// lastWords is how long the end of a process waits for spans to be delivered.
	lastWords = 2 * time.Second
)

// Change names one version of an object.
type Change struct {
	UID        string
	Generation int64
}

// Tracer begins spans. A nil one does nothing.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// FromEnvironment returns a Tracer that sends to a collector over gRPC, as OTEL_* say; nil if they
// name no collector. version is that of this build. The variables of the exporter, of the sampler
// and of the batches are in OpenTelemetry's specification.
func FromEnvironment(ctx context.Context, env func(string) string, version string, log logr.Logger) (*Tracer, error) {
	wanted, err := wanted(env)
	if !wanted || err != nil {
		return nil, err
	}
	exporter, err := otlptracegrpc.New(ctx) // connects when there is something to send
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", scope), attribute.String("service.version", version)), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("traces: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	told := &once{log: log}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(told.tell)) // the library has one for the process
	return New(sdktrace.NewBatchSpanProcessor(exporter), sdktrace.WithResource(about)), nil
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

// New returns a Tracer that gives ended spans to a processor.
func New(p sdktrace.SpanProcessor, more ...sdktrace.TracerProviderOption) *Tracer {
	provider := sdktrace.NewTracerProvider(append(more, sdktrace.WithSpanProcessor(p), sdktrace.WithIDGenerator(ids{}))...)
	return &Tracer{provider: provider, tracer: provider.Tracer(scope)}
}

// Close delivers what has ended, if that goes quickly.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("deliver the last traces: %w", err)
	}
	return nil
}

// On reports whether spans go anywhere.
func (t *Tracer) On() bool { return t != nil }

// Span is what goes on for a while. The zero Span is none.
type Span struct{ span trace.Span }

// Changed begins the first span of a change.
func (t *Tracer) Changed(ctx context.Context, name string, c Change) Span {
	if t == nil {
		return Span{}
	}
	_, s := t.tracer.Start(context.WithValue(ctx, changeKey{}, c), name, trace.WithNewRoot())
	return Span{s}
}

// Start begins a span, within the one of the context.
func (t *Tracer) Start(ctx context.Context, name string) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	ctx, s := t.tracer.Start(ctx, name)
	return ctx, Span{s}
}

// Within begins a span if the context has one.
func (t *Tracer) Within(ctx context.Context, name string) (context.Context, Span) {
	if t == nil || !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, Span{}
	}
	return t.Start(ctx, name)
}

// Because begins a span of what changes have caused: in the trace of a single one, else with links
// to the first 64. What began the context does not count.
func (t *Tracer) Because(ctx context.Context, name string, causes []Change) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	ctx = trace.ContextWithSpanContext(ctx, trace.SpanContext{})
	if len(causes) == 1 {
		return t.Start(trace.ContextWithSpanContext(ctx, t.first(ctx, causes[0])), name)
	}
	var links []trace.Link
	for _, c := range causes[:min(len(causes), maxCauses)] {
		links = append(links, trace.Link{SpanContext: t.first(ctx, c)})
	}
	ctx, s := t.tracer.Start(ctx, name, trace.WithLinks(links...))
	if more := len(causes) - maxCauses; more > 0 {
		s.SetAttributes(attribute.Int("causes.more", more))
	}
	return ctx, Span{s}
}

// first names the first span of a change. It is begun once more, for the sampler's decision, which
// follows from its ids, and never ended, so that no one hears of it.
func (t *Tracer) first(ctx context.Context, c Change) trace.SpanContext {
	_, s := t.tracer.Start(context.WithValue(ctx, changeKey{}, c), "", trace.WithNewRoot())
	return s.SpanContext()
}

// Text says something about the span.
func (s Span) Text(key, value string) {
	if s.span != nil {
		s.span.SetAttributes(attribute.String(key, cut(value)))
	}
}

// Number says how many.
func (s Span) Number(key string, value int) {
	if s.span != nil {
		s.span.SetAttributes(attribute.Int(key, value))
	}
}

// End ends the span. failure is the class of what went wrong; empty if nothing did.
func (s Span) End(failure string) {
	if s.span == nil {
		return
	}
	if failure != "" {
		s.span.SetStatus(codes.Error, cut(failure))
	}
	s.span.End()
}

// cut shortens a text.
func cut(s string) string {
	if len(s) <= longestText {
		return s
	}
	return strings.ToValidUTF8(s[:longestText-3], "") + "..."
}

type changeKey struct{}

// ids makes the ids of spans: the ids of a change, if the context has one, else random ones.
type ids struct{}

// NewIDs implements sdktrace.IDGenerator.
func (i ids) NewIDs(ctx context.Context) (t trace.TraceID, s trace.SpanID) {
	if c, ok := ctx.Value(changeKey{}).(Change); ok {
		sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte("nephele change "+c.UID+" "), uint64(c.Generation))) //nolint:gosec // its bits, whatever they are
		copy(t[:], sum[:])
		copy(s[:], sum[len(t):])
		return t, s
	}
	_, _ = rand.Read(t[:]) // never fails
	return t, i.NewSpanID(ctx, t)
}

// NewSpanID implements sdktrace.IDGenerator.
func (ids) NewSpanID(context.Context, trace.TraceID) (s trace.SpanID) {
	_, _ = rand.Read(s[:])
	return s
}
