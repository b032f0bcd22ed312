package enforcer_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/enforcer"
)

// barred is a Source that does not get at one kind while it is shut.
type barred struct {
	enforcer.Source
	resource enforcer.Resource
	shut     *atomic.Bool
}

func (b barred) Watch(ctx context.Context, r enforcer.Resource, key string) (enforcer.Stream, error) {
	if r == b.resource && b.shut.Load() {
		return nil, errors.New("shut")
	}
	return b.Source.Watch(ctx, r, key)
}

func member(name string) []v1beta2.GroupMember {
	return []v1beta2.GroupMember{{ExternalEntity: &v1beta2.ExternalEntityReference{Namespace: "vms", Name: name}}}
}

// move makes a VM, of a policy from "app" to "db", one or the other; before the first time it adds
// the policy.
func (a *antrea) move(from, to string) {
	if from == "" {
		a.change("k", "networkpolicies", "ADDED", &v1beta2.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "u", UID: types.UID("u")},
			AppliedToGroups: []string{"db"}, Rules: []v1beta2.NetworkPolicyRule{{From: v1beta2.NetworkPolicyPeer{AddressGroups: []string{"app"}}}}})
		a.change("k", "appliedtogroups", "ADDED", &v1beta2.AppliedToGroup{ObjectMeta: metav1.ObjectMeta{Name: "db"}})
		a.change("k", "addressgroups", "ADDED", &v1beta2.AddressGroup{ObjectMeta: metav1.ObjectMeta{Name: "app"}, GroupMembers: member("vm")})
		return
	}
	a.change("k", "appliedtogroups", "MODIFIED", &v1beta2.AppliedToGroupPatch{ObjectMeta: metav1.ObjectMeta{Name: "db"}, AddedGroupMembers: member(to)})
	a.change("k", "addressgroups", "MODIFIED", &v1beta2.AddressGroupPatch{ObjectMeta: metav1.ObjectMeta{Name: "app"}, RemovedGroupMembers: member(from)})
}

// TestKindsOfDifferentTimesAreNotMixed: the server was away, and a VM has moved from one group to
// the other. While one kind is new and the other old, the VM would be in both groups or in neither.
func TestKindsOfDifferentTimesAreNotMixed(t *testing.T) {
	t.Parallel()
	for _, late := range []enforcer.Resource{enforcer.AddressGroups, enforcer.AppliedToGroups} {
		t.Run(string(late), func(t *testing.T) {
			t.Parallel()
			a := newAntrea(t)
			a.move("", "")
			f := a.follower()
			shut := &atomic.Bool{}
			f.Source = barred{f.Source, late, shut}
			m := f.Mirror("k", nil)
			run(t, m)
			eventually(t, "complete", func() error { _, _, err := m.Current(); return err })
			old, version, err := m.Current()
			if err != nil {
				t.Fatal(err)
			}
			shut.Store(true)
			a.disconnect()
			a.move("vm", "vm")
			eventually(t, "the others in sync, this one tried again", func() error {
				for _, s := range m.Streams() {
					if s.InSync == (s.Resource == late) || s.Begun < 3 && s.Resource == late {
						return fmt.Errorf("%+v", s)
					}
				}
				return nil
			})
			got, again, err := m.Current()
			if err != nil || again != version || !m.Unchanged(version) || fmt.Sprint(got) != fmt.Sprint(old) {
				t.Errorf("%v at %d, error %v; want what was there before, %v at %d", got, again, err, old, version)
			}
			shut.Store(false)
			eventually(t, "new", func() error {
				got, again, err := m.Current()
				if err != nil || again == version || m.Unchanged(version) || len(got.AddressGroups[0].Object().GroupMembers) != 0 || len(got.AppliedToGroups[0].GroupMembers) != 1 {
					return fmt.Errorf("%v at %d, error %v", got, again, err)
				}
				return nil
			})
		})
	}
}

// TestQuietBeforeBelief: a server that has just started begins with less than there is.
func TestQuietBeforeBelief(t *testing.T) {
	t.Parallel()
	a := newAntrea(t)
	c := clocktesting.NewFakeClock(time.Unix(0, 0))
	m := enforcer.Follower{Source: a.client(enforcer.ClientOptions{}), Clock: c, Quiet: 2 * time.Second, Log: logr.Discard()}.Mirror("k", nil)
	run(t, m)
	waits := func() {
		t.Helper()
		eventually(t, "waiting", func() error {
			if err := a.behind(m); err != nil {
				return err
			}
			if !c.HasWaiters() {
				return errors.New("nobody waits")
			}
			return nil
		})
	}
	refuses := func(when string) {
		t.Helper()
		if got, _, err := m.Current(); err == nil {
			t.Errorf("%s: %v is believed", when, got)
		}
	}
	waits()
	refuses("at first")
	c.Step(1500 * time.Millisecond)
	a.move("", "")
	waits()
	c.Step(time.Second)
	waits()
	refuses("after more has come")
	c.Step(time.Second)
	eventually(t, "believed", func() error { _, _, err := m.Current(); return err })
	// From then on, changes count at once.
	a.move("vm", "vm")
	eventually(t, "changed", func() error {
		if got, _, err := m.Current(); err != nil || len(got.AppliedToGroups[0].GroupMembers) != 1 {
			return fmt.Errorf("%v, %v", got, err)
		}
		return nil
	})
}

// TestNeverQuiet: a server that always has something to say is believed in the end.
func TestNeverQuiet(t *testing.T) {
	t.Parallel()
	a := newAntrea(t)
	a.move("", "")
	c := clocktesting.NewFakeClock(time.Unix(0, 0))
	m := enforcer.Follower{Source: a.client(enforcer.ClientOptions{}), Clock: c, Quiet: 2 * time.Second, Log: logr.Discard()}.Mirror("k", nil)
	run(t, m)
	for i := range 25 {
		eventually(t, "waiting", func() error {
			if _, _, err := m.Current(); err == nil || c.HasWaiters() && a.behind(m) == nil {
				return nil
			}
			return errors.New("nobody waits")
		})
		if _, _, err := m.Current(); err == nil {
			if i < 20 {
				t.Errorf("believed after %d s", i)
			}
			return
		}
		a.change("k", "networkpolicies", "MODIFIED", &v1beta2.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "u", Generation: int64(i)}, AppliedToGroups: []string{"db"}})
		eventually(t, "received", func() error { return a.behind(m) })
		c.Step(time.Second)
	}
	t.Error("not believed")
}
