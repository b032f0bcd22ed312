package egress

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

// Stream is a watch of EgressGroups; an enforcer.Stream is one.
type Stream interface {
	Next(ctx context.Context) (watch.Event, error)
	Stop()
}

// retryInterval is how soon a watch is begun again that has ended.
const retryInterval = 2 * time.Second

// members are the addresses of the Pods of a group, by NAMESPACE/NAME.
type members map[string][]netip.Addr

func (m members) add(list []v1beta2.GroupMember) {
	for i := range list {
		x := &list[i]
		if x.Pod == nil {
			continue
		}
		var addresses []netip.Addr
		for _, ip := range x.IPs {
			if a, ok := netip.AddrFromSlice(ip); ok {
				addresses = append(addresses, a.Unmap())
			}
		}
		m[x.Pod.Namespace+"/"+x.Pod.Name] = addresses
	}
}

func (m members) remove(list []v1beta2.GroupMember) {
	for i := range list {
		if p := list[i].Pod; p != nil {
			delete(m, p.Namespace+"/"+p.Name)
		}
	}
}

// groups are which Pods Egresses apply to, by the names of the Egresses.
type groups struct {
	mu       sync.Mutex
	of       map[string]members
	complete bool
}

// get returns the addresses of the Pods that an Egress applies to, sorted.
func (g *groups) get(name string) []netip.Addr {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []netip.Addr
	for _, addresses := range g.of[name] {
		out = append(out, addresses...)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// known reports whether all groups were received once.
func (g *groups) known() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.complete
}

// read takes in a watch until it ends. What was known before counts until all is received anew.
func (g *groups) read(ctx context.Context, s Stream, changed func()) error {
	defer s.Stop()
	fresh, begun := map[string]members{}, false
	for {
		event, err := s.Next(ctx)
		if err != nil {
			return err
		}
		g.mu.Lock()
		err = apply(fresh, event)
		if event.Type == watch.Bookmark && !begun {
			begun, g.of, g.complete = true, fresh, true
		}
		g.mu.Unlock()
		if err != nil {
			return err
		}
		if begun {
			changed()
		}
	}
}

// apply takes in an event.
func apply(of map[string]members, event watch.Event) error {
	switch o := event.Object.(type) {
	case *v1beta2.EgressGroup:
		switch event.Type {
		case watch.Bookmark:
		case watch.Deleted:
			delete(of, o.Name)
		default:
			m := members{}
			m.add(o.GroupMembers)
			of[o.Name] = m
		}
	case *v1beta2.EgressGroupPatch:
		m := of[o.Name]
		if m == nil {
			return fmt.Errorf("a change of EgressGroup %s, which was not received", o.Name)
		}
		m.remove(o.RemovedGroupMembers)
		m.add(o.AddedGroupMembers)
	default:
		if event.Type == watch.Error {
			return apierrors.FromObject(event.Object)
		}
	}
	return nil
}

// followGroups watches groups while there are Egresses.
func (m *Manager) followGroups(ctx context.Context) {
	retry := m.Clock.NewTicker(retryInterval)
	defer retry.Stop()
	failed := ""
	for {
		if len(m.egresses.List()) > 0 {
			err := recovered.Do(func() {
				s, err := m.Groups(ctx)
				if err == nil {
					err = m.groups.read(ctx, s, m.wakeUp)
				}
				if err != nil && ctx.Err() == nil && err.Error() != failed {
					failed = err.Error()
					m.Log.Info("EgressGroups are watched again", "reason", failed)
				}
			})
			if err != nil {
				m.Log.Error(err, "A panic was recovered while EgressGroups were watched", "stack", recovered.StackOf(err))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-retry.C():
		}
	}
}
