package realize

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nephele-io/nephele/internal/cloud/tenure"
)

// office is a registrar that is led by hand.
type office struct {
	*registrar
	clk  *clocktesting.FakeClock
	book *notebook
	// lost makes the next answer of a Store be lost after it took effect.
	lost bool
}

func (o *office) Load(ctx context.Context) (tenure.Record, string, error) { return o.book.Load(ctx) }

func (o *office) Store(ctx context.Context, r tenure.Record, version string) (string, error) {
	v, err := o.book.Store(ctx, r, version)
	if o.lost {
		o.lost = false
		return "", errDead
	}
	return v, err
}

func newOffice(epoch string, book *notebook) *office {
	o := &office{clk: clocktesting.NewFakeClock(time.Now()), book: book}
	o.registrar = newRegistrar(Instance{Epoch: epoch, Heartbeat: labHeartbeat, Register: o}, labPause, o.clk, logr.Discard())
	return o
}

// steps takes so many steps, each when it is due.
func (o *office) steps(t *testing.T, n int) {
	t.Helper()
	for range n {
		o.clk.Step(o.step(t.Context()))
	}
}

func TestRegistrar(t *testing.T) {
	t.Parallel()
	book := &notebook{}
	a := newOffice("a", book)
	a.steps(t, 3)
	if is := a.now(); !is.leading || is.mark.Sequence != 3 || book.now().Line[0] != is.mark || len(is.before.Line) != 0 {
		t.Fatalf("%+v, record %+v", is, book.now())
	}

	// An answer is lost, the record is deleted, and an older one is brought back: it goes on, and
	// the cloud is never ahead of the record.
	backup := book.now()
	a.lost = true
	a.steps(t, 3)
	book.mu.Lock()
	book.record, book.version = tenure.Record{}, book.version+1
	book.mu.Unlock()
	a.steps(t, 2)
	book.mu.Lock()
	book.record, book.version = backup, book.version+1
	book.mu.Unlock()
	a.steps(t, 2)
	if is := a.now(); !is.leading || is.deposed || is.mark.Sequence != 6 || book.now().Line[0] != is.mark {
		t.Errorf("%+v, record %+v", is, book.now())
	}

	// Another process of the cluster waits for as long as this one counts, and leads a heartbeat
	// after it has fallen silent. The first one finds that out.
	a.stop("ns/x", "else")
	a.stop("ns/y", "other")
	a.stop("ns/y", "")
	a.steps(t, 1)
	b := newOffice("b", book)
	b.stop("ns/z", "third")
	for range 5 {
		b.steps(t, 1)
		a.steps(t, 1)
	}
	if is := b.now(); is.leading || !is.known || is.before.Line[0].Epoch != "a" {
		t.Errorf("b: %+v", is)
	}
	began := b.clk.Now()
	for !b.now().leading {
		b.steps(t, 1)
		if b.clk.Since(began) > 2*labHeartbeat {
			t.Fatal("b never leads")
		}
	}
	if r := book.now(); len(r.Line) != 2 || r.Stopped["ns/z"] != "third" || r.Stopped["ns/x"] != "else" || len(r.Stopped) != 2 || b.now().before.Line[0] != a.now().mark {
		t.Errorf("record %+v, b: %+v", r, b.now())
	}
	a.steps(t, 2)
	if is := a.now(); !is.deposed || a.writes("") || book.now().Line[0].Epoch != "b" {
		t.Errorf("a: %+v, record %+v", is, book.now())
	}

	// Who is not the leader any more says nothing at the end; who is says it even if an older
	// record was brought back just then.
	close(a.done)
	a.end(t.Context())
	if book.now().Ended {
		t.Error("the deposed one has ended for the other")
	}
	book.mu.Lock()
	book.version++
	book.mu.Unlock()
	close(b.done)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b.end(ctx)
	if r := book.now(); !r.Ended || r.Line[0] != b.now().mark {
		t.Errorf("%+v", r)
	}
	c := newOffice("c", book)
	c.steps(t, 1)
	if is := c.now(); !is.leading || !is.before.Ended || is.before.Line[0].Epoch != "b" || is.stopped["ns/z"] != "third" || book.now().Ended {
		t.Errorf("c: %+v, record %+v", is, book.now())
	}
	// The right to the record is taken away.
	book.denied = true
	c.steps(t, 3)
	if is := c.now(); !is.leading || is.mark.Sequence != 4 {
		t.Errorf("c: %+v", is)
	}
}

// TestRegistrarWithoutCluster: nothing is led while the cluster's API does not answer.
func TestRegistrarWithoutCluster(t *testing.T) {
	t.Parallel()
	o := newOffice("a", &notebook{})
	o.inst.Register = failing{}
	o.steps(t, 5)
	if is := o.now(); is.leading || is.known {
		t.Errorf("%+v", is)
	}
	o.inst.Register = o.book
	o.steps(t, 1)
	if !o.now().leading {
		t.Error("it does not lead")
	}
}

type failing struct{}

func (failing) Load(context.Context) (tenure.Record, string, error) {
	return tenure.Record{}, "", errDead
}

func (failing) Store(context.Context, tenure.Record, string) (string, error) { return "", errDead }

// TestConfigMapRegister: two processes with a ConfigMap between them.
func TestConfigMapRegister(t *testing.T) {
	t.Parallel()
	deny := false
	forbid := func() error {
		if deny {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, RecordName, errors.New("RBAC"))
		}
		return nil
	}
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			return errors.Join(forbid(), c.Get(ctx, key, o, opts...))
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return cmpError(forbid(), func() error { return c.Update(ctx, o, opts...) })
		},
	}).Build()
	reg := ConfigMapRegister{Reader: c, Writer: c, Namespace: "kube-system"}
	r, v, err := reg.Load(t.Context())
	if err != nil || v != "" || len(r.Line) != 0 {
		t.Fatalf("%+v %q %v", r, v, err)
	}
	first := tenure.Record{Line: []tenure.Mark{{Epoch: "a", Sequence: 1, Heartbeat: labHeartbeat}}, Stopped: map[string]string{"ns/x": "else"}}
	v1, err := reg.Store(t.Context(), first, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reg.Store(t.Context(), first, ""); !errors.Is(err, ErrOvertaken) {
		t.Errorf("created twice: %v", err)
	}
	v2, err := reg.Store(t.Context(), first.Led(tenure.Mark{Epoch: "a", Sequence: 2, Heartbeat: labHeartbeat}), v1)
	if err != nil || v2 == v1 {
		t.Fatalf("%q %v", v2, err)
	}
	if _, err := reg.Store(t.Context(), first, v1); !errors.Is(err, ErrOvertaken) {
		t.Errorf("written over: %v", err)
	}
	r, v, err = reg.Load(t.Context())
	if err != nil || v != v2 || r.Line[0].Sequence != 2 || r.Stopped["ns/x"] != "else" {
		t.Errorf("%+v %q %v", r, v, err)
	}
	deny = true
	if _, _, err := reg.Load(t.Context()); !errors.Is(err, ErrDenied) {
		t.Error(err)
	}
	if _, err := reg.Store(t.Context(), r, v); !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), "RBAC") {
		t.Error(err)
	}
}

func cmpError(first error, then func() error) error {
	if first != nil {
		return first
	}
	return then()
}

func TestInstanceOptions(t *testing.T) {
	t.Parallel()
	good := newLab(t, labConfig{}).options
	for name, i := range map[string]Instance{
		"no epoch":     {Heartbeat: labHeartbeat, Register: &notebook{}},
		"no heartbeat": {Epoch: "a", Register: &notebook{}},
		"no register":  {Epoch: "a", Heartbeat: labHeartbeat},
		"bad epoch":    {Epoch: "a b", Heartbeat: labHeartbeat, Register: &notebook{}},
	} {
		o := good
		o.Instance = &i
		if _, err := New(o); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
