package control

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/platform/tracing"
)

// traced tells in traces which policies have changed, and what was computed because of it. Only the
// loop uses it.
type traced struct {
	*tracing.Tracer
	// known are the generations of the policies; nil if nothing is traced.
	known map[types.UID]int64
	// causes and spans belong to the present round.
	causes []tracing.Change
	spans  []tracing.Span
}

// deletion is the generation of an object that is gone.
const deletion = -1

// seen notes an input. What is there at the beginning is no change, and neither is what changes a
// status.
func (t *traced) seen(in input, begun bool) {
	if !t.On() || !in.kind.isPolicy() {
		return
	}
	if t.known == nil {
		t.known = map[types.UID]int64{}
	}
	if in.gone != nil {
		delete(t.known, in.gone.uid)
		t.changed(in, string(in.gone.uid), deletion, in.gone.Namespace, in.gone.Name)
		return
	}
	o := in.object.(client.Object)
	if known, is := t.known[o.GetUID()]; is && known == o.GetGeneration() {
		return
	}
	t.known[o.GetUID()] = o.GetGeneration()
	if begun {
		t.changed(in, string(o.GetUID()), o.GetGeneration(), o.GetNamespace(), o.GetName())
	}
}

func (t *traced) changed(in input, uid string, generation int64, namespace, name string) {
	c := tracing.Change{UID: uid, Generation: generation}
	s := t.Changed(context.Background(), "policy changed", c)
	s.Text("kind", string(in.kind))
	s.Text("namespace", namespace)
	s.Text("name", name)
	s.Number("generation", int(generation))
	t.causes, t.spans = append(t.causes, c), append(t.spans, s)
}

// begin begins the computation of what was seen; end ends it, and with it the first spans.
func (t *traced) begin() tracing.Span {
	if len(t.causes) == 0 {
		return tracing.Span{}
	}
	_, s := t.Because(context.Background(), "compute", t.causes)
	return s
}

func (t *traced) end() {
	for _, s := range t.spans {
		s.End("")
	}
	t.causes, t.spans = nil, nil
}
