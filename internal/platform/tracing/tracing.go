package tracing

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	// scope is the name under which spans are made.
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
