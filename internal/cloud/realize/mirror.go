package realize

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// Resource names one of the three kinds of computed objects, as the API spells it.
type Resource string

// The computed resources an enforcer watches.
const (
	NetworkPolicies Resource = "networkpolicies"
	AddressGroups   Resource = "addressgroups"
	AppliedToGroups Resource = "appliedtogroups"
)

// Source is where computed objects come from: the store in the same process, or an Antrea-compatible API server.
type Source interface {
	// Watch streams the objects of one kind that concern the enforcer key: every one as Added, exactly one Bookmark, then changes.
	Watch(resource Resource, key string) (Stream, error)
}

// Stream is one watch. After an error the caller stops it and watches anew; it then gets everything again.
type Stream interface {
	// Next waits for the next event. An error ends the stream.
	Next(ctx context.Context) (watch.Event, error)
	Stop()
}

// mirror is the local copy of one key's computed objects. The objects in it are never changed in place.
type mirror struct {
	key    string
	clock  clock.Clock
	notify func()

	mu sync.Mutex
	// version counts the changes.
	version  uint64
	synced   map[Resource]bool
	policies map[string]*v1beta2.NetworkPolicy
	address  map[string]*v1beta2.AddressGroup
	applied  map[string]*v1beta2.AppliedToGroup
}

func newMirror(key string, c clock.Clock, notify func()) *mirror {
	return &mirror{key: key, clock: c, notify: notify, synced: map[Resource]bool{}}
}

// computed is what a key's enforcer has to enforce, at one moment.
type computed struct {
	Policies        []*v1beta2.NetworkPolicy
	AddressGroups   []*v1beta2.AddressGroup
	AppliedToGroups []*v1beta2.AppliedToGroup
}

// current returns the mirrored objects, sorted by name, and their version. It fails while they are incomplete: before the first
// bookmark of every kind, and while a policy names groups that have not arrived yet (streams of different kinds are not ordered among
// themselves). Of the applied-to groups of a policy only those come that have members of this key, so one of them must do.
func (m *mirror) current() (computed, uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.incomplete(); err != nil {
		return computed{}, 0, err
	}
	return computed{sorted(m.policies), sorted(m.address), sorted(m.applied)}, m.version, nil
}

// incomplete says what is missing. It needs mu.
func (m *mirror) incomplete() error {
	for _, r := range []Resource{NetworkPolicies, AddressGroups, AppliedToGroups} {
		if !m.synced[r] {
			return fmt.Errorf("waiting for the computed %s of %s", r, m.key)
		}
	}
	for _, p := range m.policies {
		for _, r := range p.Rules {
			for _, g := range slices.Concat(r.From.AddressGroups, r.To.AddressGroups) {
				if m.address[g] == nil {
					return fmt.Errorf("policy %s names address group %s, which has not arrived", sourceName(p), g)
				}
			}
		}
		if !slices.ContainsFunc(appliedToGroups(p), func(g string) bool { return m.applied[g] != nil }) {
			return fmt.Errorf("no applied-to group of policy %s has arrived", sourceName(p))
		}
	}
	return nil
}

// unchanged reports whether the objects are still those of a version.
func (m *mirror) unchanged(version uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.version == version
}

func sorted[T any](m map[string]T) []T {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	out := make([]T, 0, len(m))
	for _, n := range names {
		out = append(out, m[n])
	}
	return out
}

// run follows one resource until ctx ends. A broken stream is watched anew after a pause that doubles up to 30 seconds; what is known
// stays in force meanwhile.
func (m *mirror) run(ctx context.Context, src Source, r Resource, logf func(error)) {
	pause := 100 * time.Millisecond
	for ctx.Err() == nil {
		err := m.follow(ctx, src, r, func() { pause = 100 * time.Millisecond })
		if ctx.Err() != nil {
			return
		}
		logf(fmt.Errorf("watching %s for %s: %w", r, m.key, err))
		select {
		case <-ctx.Done():
		case <-m.clock.After(pause):
		}
		pause = min(2*pause, 30*time.Second)
	}
}

// follow handles one stream from its beginning to its end, which is always an error.
func (m *mirror) follow(ctx context.Context, src Source, r Resource, onSynced func()) error {
	stream, err := src.Watch(r, m.key)
	if err != nil {
		return err
	}
	defer stream.Stop()
	var initial []runtime.Object
	inSync := false
	for {
		ev, err := stream.Next(ctx)
		switch {
		case err != nil:
			return err
		case ev.Type == watch.Bookmark && inSync:
			return errors.New("a second bookmark")
		case ev.Type == watch.Bookmark:
			if err := m.replace(r, initial); err != nil {
				return err
			}
			initial, inSync = nil, true
			onSynced()
		case ev.Type == watch.Error:
			return fmt.Errorf("the server ended the stream: %v", ev.Object)
		case !inSync && ev.Type == watch.Added:
			initial = append(initial, ev.Object)
			continue
		case !inSync:
			return fmt.Errorf("a %s event before the bookmark", ev.Type)
		default:
			if err := m.change(ev); err != nil {
				return err
			}
		}
		m.notify()
	}
}

// replace puts the initial objects in the place of everything that was known of the resource.
func (m *mirror) replace(r Resource, objects []runtime.Object) error {
	policies, address, applied := map[string]*v1beta2.NetworkPolicy{}, map[string]*v1beta2.AddressGroup{}, map[string]*v1beta2.AppliedToGroup{}
	for _, o := range objects {
		switch o := o.(type) {
		case *v1beta2.NetworkPolicy:
			policies[o.Name] = o
		case *v1beta2.AddressGroup:
			address[o.Name] = o
		case *v1beta2.AppliedToGroup:
			applied[o.Name] = o
		default:
			return fmt.Errorf("unexpected %T among the %s", o, r)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch r {
	case NetworkPolicies:
		m.policies = policies
	case AddressGroups:
		m.address = address
	case AppliedToGroups:
		m.applied = applied
	}
	m.synced[r] = true
	m.version++
	return nil
}

// change applies one live event. A patch for a group that is not known means that the stream is out of step; the caller starts over.
func (m *mirror) change(ev watch.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version++
	deleted := ev.Type == watch.Deleted
	switch o := ev.Object.(type) {
	case *v1beta2.NetworkPolicy:
		setOrDelete(m.policies, o.Name, o, deleted)
	case *v1beta2.AddressGroup:
		setOrDelete(m.address, o.Name, o, deleted)
	case *v1beta2.AppliedToGroup:
		setOrDelete(m.applied, o.Name, o, deleted)
	case *v1beta2.AddressGroupPatch:
		g := m.address[o.Name]
		if g == nil {
			return fmt.Errorf("a patch for the unknown address group %s", o.Name)
		}
		next := *g
		next.GroupMembers = patchMembers(g.GroupMembers, o.AddedGroupMembers, o.RemovedGroupMembers)
		m.address[o.Name] = &next
	case *v1beta2.AppliedToGroupPatch:
		g := m.applied[o.Name]
		if g == nil {
			return fmt.Errorf("a patch for the unknown applied-to group %s", o.Name)
		}
		next := *g
		next.GroupMembers = patchMembers(g.GroupMembers, o.AddedGroupMembers, o.RemovedGroupMembers)
		m.applied[o.Name] = &next
	default:
		return fmt.Errorf("unexpected %T in the stream", o)
	}
	return nil
}

func setOrDelete[T any](m map[string]T, name string, o T, deleted bool) {
	if deleted {
		delete(m, name)
		return
	}
	m[name] = o
}

// patchMembers returns members with added put in and removed taken out, in that order, as the API defines a patch.
func patchMembers(members, added, removed []v1beta2.GroupMember) []v1beta2.GroupMember {
	byKey := make(map[string]v1beta2.GroupMember, len(members)+len(added))
	for _, m := range members {
		byKey[memberKey(m)] = m
	}
	for _, m := range added {
		byKey[memberKey(m)] = m
	}
	for _, m := range removed {
		delete(byKey, memberKey(m))
	}
	return sorted(byKey)
}

// memberKey is the identity of a member: its reference and the raw bytes of its addresses.
func memberKey(m v1beta2.GroupMember) string {
	var b strings.Builder
	switch {
	case m.Pod != nil:
		b.WriteString("Pod:" + m.Pod.Namespace + "/" + m.Pod.Name)
	case m.ExternalEntity != nil:
		b.WriteString("ExternalEntity:" + m.ExternalEntity.Namespace + "/" + m.ExternalEntity.Name)
	case m.Service != nil:
		b.WriteString("Service:" + m.Service.Namespace + "/" + m.Service.Name)
	}
	for _, ip := range m.IPs {
		b.WriteByte(' ')
		b.Write(ip)
	}
	return b.String()
}

// sourceName is the printable name of the policy that a computed policy comes from.
func sourceName(p *v1beta2.NetworkPolicy) string {
	if p.SourceRef == nil {
		return p.Name
	}
	if p.SourceRef.Namespace == "" {
		return p.SourceRef.Name
	}
	return p.SourceRef.Namespace + "/" + p.SourceRef.Name
}
