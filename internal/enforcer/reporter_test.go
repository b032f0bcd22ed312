package enforcer_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/enforcer"
)

func status(uid, key string, generation int64, failure string) *v1beta2.NetworkPolicyStatus {
	return &v1beta2.NetworkPolicyStatus{ObjectMeta: metav1.ObjectMeta{Name: uid}, Nodes: []v1beta2.NetworkPolicyNodeStatus{
		{NodeName: key, Generation: generation, RealizationFailure: failure != "", Message: failure},
	}}
}

// desk is a Reporter that works for a stand-in.
type desk struct {
	t *testing.T
	*antrea
	*enforcer.Reporter
	client *enforcer.Client
	clock  *clocktesting.FakeClock
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	a := newAntrea(t)
	d := &desk{t: t, antrea: a, client: a.client(enforcer.ClientOptions{}), clock: clocktesting.NewFakeClock(time.Unix(0, 0))}
	d.Reporter = enforcer.NewReporter(enforcer.ReporterOptions{Client: d.client, Clock: d.clock, Log: logr.Discard()})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = d.Start(t.Context())
	}()
	t.Cleanup(func() { <-done })
	return d
}

func (d *desk) say(s *v1beta2.NetworkPolicyStatus) {
	d.t.Helper()
	if err := d.Report(d.t.Context(), s); err != nil {
		d.t.Fatal(err)
	}
}

// hears waits until the stand-in has been told these in this order, and nothing else.
func (d *desk) hears(want ...string) {
	d.t.Helper()
	eventually(d.t, "reported", func() error {
		if diff := cmp.Diff(want, d.reports()); diff != "" {
			return fmt.Errorf("-want +got:\n%s", diff)
		}
		return nil
	})
}

func TestReportsAreToldOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.say(status("u1", "cloud/ns/a", 1, ""))
	d.hears("u1 cloud/ns/a 1 false ")
	d.say(status("u1", "cloud/ns/a", 1, ""))
	d.say(status("u1", "cloud/ns/b", 1, "needs 73 rules"))
	d.hears("u1 cloud/ns/a 1 false ", "u1 cloud/ns/b 1 true needs 73 rules")
	d.say(status("u1", "cloud/ns/a", 2, ""))
	d.hears("u1 cloud/ns/a 1 false ", "u1 cloud/ns/b 1 true needs 73 rules", "u1 cloud/ns/a 2 false ")
}

// TestReportsAreToldAgain after a complete resend, because the server may be a new one, and after a
// change of the policy.
func TestReportsAreToldAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	m := enforcer.Follower{Source: d.client, Clock: d.clock, Log: logr.Discard()}.Mirror("k", nil)
	run(t, m)
	inSync := func(begun int) {
		eventually(t, "in sync", func() error {
			for _, s := range m.Streams() {
				if !s.InSync || s.Begun < begun {
					return fmt.Errorf("%+v", s)
				}
			}
			return nil
		})
	}
	inSync(1)
	say := func() { d.say(status("u1", "k", 1, "")) }
	say()
	d.hears("u1 k 1 false ")
	d.disconnect()
	eventually(t, "waiting for the interval", func() error {
		if d.clock.Step(time.Second); m.Streams()[0].Begun < 2 {
			return fmt.Errorf("%+v", m.Streams())
		}
		return nil
	})
	d.clock.Step(time.Minute)
	inSync(2)
	say()
	d.hears("u1 k 1 false ", "u1 k 1 false ")
	p := &v1beta2.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "u1", Generation: 2}}
	d.change("k", "networkpolicies", "ADDED", p)
	eventually(t, "received", func() error { return d.behind(m) })
	say()
	d.hears("u1 k 1 false ", "u1 k 1 false ", "u1 k 1 false ")
}

// TestReportsAreRepeated until the server takes them, with growing pauses, the newest only.
func TestReportsAreRepeated(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.answer(http.StatusInternalServerError)
	d.say(status("u1", "k", 1, ""))
	pausing := func() {
		eventually(t, "pausing", func() error {
			if !d.clock.HasWaiters() {
				return fmt.Errorf("nobody waits")
			}
			return nil
		})
	}
	pausing()
	d.say(status("u1", "k", 2, ""))
	d.clock.Step(time.Second)
	pausing()
	d.answer(0)
	d.clock.Step(time.Second)
	if got := d.reports(); len(got) != 0 {
		t.Errorf("got %v after the first pause, want a longer second one", got)
	}
	d.clock.Step(time.Second)
	d.hears("u1 k 2 false ")
}

// TestRefusedReportsAreDropped: they would be refused again, and hold up nothing.
func TestRefusedReportsAreDropped(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.answer(http.StatusBadRequest)
	if err := d.client.Report(t.Context(), status("u1", "k", 1, "")); err == nil {
		t.Fatal("no error")
	}
	d.answer(0)
	d.say(status("u2", "k", 1, ""))
	d.hears("u2 k 1 false ")
	for name, s := range map[string]*v1beta2.NetworkPolicyStatus{
		"without uid": status("", "k", 1, ""), "without nodes": {ObjectMeta: metav1.ObjectMeta{Name: "u"}},
	} {
		if err := d.Report(context.Background(), s); err == nil {
			t.Errorf("a report %s was taken", name)
		}
	}
}
