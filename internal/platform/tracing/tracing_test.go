package tracing

import (
	"context"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

func work(ctx context.Context, t *Tracer) {
	changed := t.Changed(ctx, "policy changed", Change{"u", 1})
	changed.Text("name", "web")
	changed.End("")
	ctx, s := t.Because(ctx, "realize", []Change{{"u", 1}})
	s.Text("account", "cloud/a")
	_, call := t.Within(ctx, "call")
	call.Text("action", "CreateTags")
	call.Number("attempt", 1)
	call.End("Throttled")
	s.End("")
}

// BenchmarkOff is what traces cost where nobody wants them, and On where somebody does.
func BenchmarkOff(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		work(context.Background(), nil)
	}
}

func BenchmarkOn(b *testing.B) {
	t := New(sdktrace.NewBatchSpanProcessor(tracetest.NewNoopExporter()))
	b.ReportAllocs()
	for b.Loop() {
		work(context.Background(), t)
	}
}

// TestOffCostsNothing: without a Tracer nothing is allocated, and no context is made.
func TestOffCostsNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { work(context.Background(), nil) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if err := (*Tracer)(nil).Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestOneTraceFromChangeToCall: what a single change brings about is in its trace, also where only
// its name is known; what several bring about is linked to each, and bounded like all that is said.
func TestOneTraceFromChangeToCall(t *testing.T) {
	t.Parallel()
	out := tracetest.NewInMemoryExporter()
	here, there := New(sdktrace.NewSimpleSpanProcessor(out)), New(sdktrace.NewSimpleSpanProcessor(out))
	here.Changed(t.Context(), "policy changed", Change{"u", 1}).End("")
	ctx, round := there.Because(t.Context(), "realize", []Change{{"u", 1}})
	_, call := there.Within(ctx, "call")
	call.Text("long", strings.Repeat("ä", longestText))
	call.End("Throttled")
	round.End("")
	many := make([]Change, maxCauses+3)
	for i := range many {
		many[i] = Change{"v", int64(i)}
	}
	_, sum := here.Because(ctx, "compute", many)
	sum.End("")
	if _, s := here.Within(t.Context(), "of nobody"); s != (Span{}) {
		t.Error("a span within none")
	}
	spans := map[string]tracetest.SpanStub{}
	for _, s := range out.GetSpans() {
		spans[s.Name] = s
	}
	if len(spans) != 4 {
		t.Fatalf("%d spans", len(spans))
	}
	first, realize, last := spans["policy changed"], spans["realize"], spans["call"]
	switch {
	case first.Parent.IsValid():
		t.Error("the change has a parent")
	case realize.Parent.SpanID() != first.SpanContext.SpanID() || last.SpanContext.TraceID() != first.SpanContext.TraceID():
		t.Errorf("%v, %v, %v", first.SpanContext, realize.Parent, last.SpanContext)
	case last.Status.Description != "Throttled":
		t.Errorf("status %+v", last.Status)
	case len(last.Attributes[0].Value.AsString()) > longestText:
		t.Errorf("%d bytes", len(last.Attributes[0].Value.AsString()))
	case len(spans["compute"].Links) != maxCauses || spans["compute"].Parent.IsValid() || spans["compute"].Attributes[0].Value.AsInt64() != 3:
		t.Errorf("%d links, %+v", len(spans["compute"].Links), spans["compute"].Attributes)
	}
}

// TestSampledAlike: what belongs together is kept or left out together, whichever process decides.
func TestSampledAlike(t *testing.T) {
	t.Parallel()
	out := tracetest.NewInMemoryExporter()
	of := func() *Tracer {
		return New(sdktrace.NewSimpleSpanProcessor(out), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.5))))
	}
	here, there := of(), of()
	for i := range 200 {
		c := Change{"u", int64(i)}
		here.Changed(t.Context(), "policy changed", c).End("")
		_, s := there.Because(t.Context(), "realize", []Change{c})
		s.End("")
	}
	of2 := map[string]int{}
	for _, s := range out.GetSpans() {
		of2[s.SpanContext.TraceID().String()]++
	}
	if len(of2) < 50 || len(of2) > 150 {
		t.Errorf("%d of 200 traces were kept", len(of2))
	}
	for id, n := range of2 {
		if n != 2 {
			t.Errorf("%d spans of trace %s", n, id)
		}
	}
}
