package instance

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nephele-io/nephele/internal/cloud/realize/instance/register/registertest"
	"github.com/nephele-io/nephele/internal/cloud/tenure"
)

// office is a registrar that is led by hand.
type office struct {
	*registrar
	clk  *clocktesting.FakeClock
	book *registertest.Notebook
	// lost makes the next answer of a Store be lost after it took effect.
	lost bool
}

func (o *office) Load(ctx context.Context) (tenure.Record, string, error) { return o.book.Load(ctx) }

func (o *office) Store(ctx context.Context, r tenure.Record, version string) (string, error) {
	v, err := o.book.Store(ctx, r, version)
	if o.lost {
		o.lost = false
		return "", errLost
	}
	return v, err
}

func newOffice(epoch string, book *registertest.Notebook) *office {
	o := &office{clk: clocktesting.NewFakeClock(time.Now()), book: book}
	o.registrar = newRegistrar(Process{Epoch: epoch, Heartbeat: labHeartbeat, Register: o}, labPause, o.clk, logr.Discard())
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
	book := &registertest.Notebook{}
	a := newOffice("a", book)
	a.steps(t, 3)
	if is := a.now(); !is.leading || is.mark.Sequence != 3 || book.Now().Line[0] != is.mark || len(is.before.Line) != 0 {
		t.Fatalf("%+v, record %+v", is, book.Now())
	}

	// An answer is lost, the record is deleted, and an older one is brought back: it goes on,
	// and the cloud is never ahead of the record.
	backup := book.Now()
	a.lost = true
	a.steps(t, 3)
	book.Lock()
	book.Record, book.Version = tenure.Record{}, book.Version+1
	book.Unlock()
	a.steps(t, 2)
	book.Lock()
	book.Record, book.Version = backup, book.Version+1
	book.Unlock()
	a.steps(t, 2)
	if is := a.now(); !is.leading || is.deposed || is.mark.Sequence != 6 || book.Now().Line[0] != is.mark {
		t.Errorf("%+v, record %+v", is, book.Now())
	}

	// Another process of the cluster waits for as long as this one counts, and leads a
	// heartbeat after it has fallen silent. The first one finds that out.
	a.Stop("ns/x", "else")
	a.Stop("ns/y", "other")
	a.Stop("ns/y", "")
	a.steps(t, 1)
	b := newOffice("b", book)
	b.Stop("ns/z", "third")
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
	if r := book.Now(); len(r.Line) != 2 || r.Stopped["ns/z"] != "third" || r.Stopped["ns/x"] != "else" || len(r.Stopped) != 2 || b.now().before.Line[0] != a.now().mark {
		t.Errorf("record %+v, b: %+v", r, b.now())
	}
	a.steps(t, 2)
	if is := a.now(); !is.deposed || a.writes("") || book.Now().Line[0].Epoch != "b" {
		t.Errorf("a: %+v, record %+v", is, book.Now())
	}

	// A process that is no longer the leader writes nothing at the end; the leader does even if an
	// older record was brought back just then.
	close(a.done)
	a.End(t.Context())
	if book.Now().Ended {
		t.Error("the deposed one has ended for the other")
	}
	book.Lock()
	book.Version++
	book.Unlock()
	close(b.done)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b.End(ctx)
	if r := book.Now(); !r.Ended || r.Line[0] != b.now().mark {
		t.Errorf("%+v", r)
	}
	c := newOffice("c", book)
	c.steps(t, 1)
	if is := c.now(); !is.leading || !is.before.Ended || is.before.Line[0].Epoch != "b" || is.stopped["ns/z"] != "third" || book.Now().Ended {
		t.Errorf("c: %+v, record %+v", is, book.Now())
	}
	// The right to the record is taken away.
	book.Denied = true
	c.steps(t, 3)
	if is := c.now(); !is.leading || is.mark.Sequence != 4 {
		t.Errorf("c: %+v", is)
	}
}

// TestRegistrarWithoutCluster: nothing is led while the cluster's API does not answer.
func TestRegistrarWithoutCluster(t *testing.T) {
	t.Parallel()
	o := newOffice("a", &registertest.Notebook{})
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
	return tenure.Record{}, "", errLost
}

func (failing) Store(context.Context, tenure.Record, string) (string, error) { return "", errLost }

// errLost is a call that did not come through.
var errLost = errors.New("lost")

const (
	labHeartbeat = 10 * time.Second
	labPause     = 2 * time.Second
)

// TestProcesses: a process that cannot be told from others is not taken.
func TestProcesses(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]Process{
		"no epoch":     {Heartbeat: labHeartbeat, Register: &registertest.Notebook{}},
		"no heartbeat": {Epoch: "a", Register: &registertest.Notebook{}},
		"no register":  {Epoch: "a", Heartbeat: labHeartbeat},
		"bad epoch":    {Epoch: "a b", Heartbeat: labHeartbeat, Register: &registertest.Notebook{}},
	} {
		if _, err := Open(p, labPause, clocktesting.NewFakeClock(time.Now()), logr.Discard()); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
