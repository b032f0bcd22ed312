package watchstore

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// client follows a watch as strictly as an Antrea Agent: whatever an agent would drop the watch for
// is an error.
type client struct {
	resource   Resource
	bookmarked bool
	policies   map[string]*v1beta2.NetworkPolicy
	groups     map[string]map[string]v1beta2.GroupMember
	events     []string
}

func newClient(r Resource) *client {
	return &client{resource: r, policies: map[string]*v1beta2.NetworkPolicy{}, groups: map[string]map[string]v1beta2.GroupMember{}}
}

func (c *client) receive(ev watch.Event) error {
	m, err := meta.Accessor(ev.Object)
	if err != nil {
		return err
	}
	name := m.GetName()
	c.events = append(c.events, fmt.Sprintf("%s %s", ev.Type, name))
	if ev.Type == watch.Bookmark {
		if c.bookmarked {
			return fmt.Errorf("second bookmark")
		}
		c.bookmarked = true
		return nil
	}
	if !c.bookmarked && ev.Type != watch.Added {
		return fmt.Errorf("%s before the bookmark", ev.Type)
	}
	switch o := ev.Object.(type) {
	case *v1beta2.NetworkPolicy:
		return c.receivePolicy(ev.Type, o)
	case *v1beta2.AddressGroup:
		return c.receiveGroup(ev.Type, name, o.GroupMembers)
	case *v1beta2.AppliedToGroup:
		return c.receiveGroup(ev.Type, name, o.GroupMembers)
	case *v1beta2.AddressGroupPatch:
		return c.receivePatch(ev.Type, name, o.AddedGroupMembers, o.RemovedGroupMembers)
	case *v1beta2.AppliedToGroupPatch:
		return c.receivePatch(ev.Type, name, o.AddedGroupMembers, o.RemovedGroupMembers)
	}
	return fmt.Errorf("unexpected %T", ev.Object)
}

func (c *client) receivePolicy(t watch.EventType, p *v1beta2.NetworkPolicy) error {
	if p.SourceRef == nil {
		return fmt.Errorf("%s without sourceRef", t)
	}
	_, known := c.policies[p.Name]
	if known != (t != watch.Added) {
		return fmt.Errorf("%s of policy %s, known: %v", t, p.Name, known)
	}
	if t == watch.Deleted {
		delete(c.policies, p.Name)
	} else {
		c.policies[p.Name] = p
	}
	return nil
}

func (c *client) receiveGroup(t watch.EventType, name string, members []v1beta2.GroupMember) error {
	_, known := c.groups[name]
	switch {
	case t == watch.Added && !known:
		c.groups[name] = map[string]v1beta2.GroupMember{}
		for _, m := range members {
			c.groups[name][identity(m)] = m
		}
		return nil
	case t == watch.Deleted && known:
		delete(c.groups, name)
		return nil
	}
	return fmt.Errorf("%s of group %s, known: %v", t, name, known)
}

func (c *client) receivePatch(t watch.EventType, name string, added, removed []v1beta2.GroupMember) error {
	set, known := c.groups[name]
	if !known || t != watch.Modified {
		return fmt.Errorf("%s patch of group %s, known: %v", t, name, known)
	}
	if len(added)+len(removed) == 0 {
		return fmt.Errorf("patch of group %s without members", name)
	}
	for _, m := range added {
		set[identity(m)] = m
	}
	for _, m := range removed {
		id := identity(m)
		if _, ok := set[id]; !ok {
			return fmt.Errorf("patch of group %s removes %q, which is not there", name, id)
		}
		delete(set, id)
	}
	return nil
}

// drain takes everything that is due.
func (c *client) drain(w *Watcher) error {
	for {
		ev, ok, err := w.TryNext()
		if err != nil || !ok {
			return err
		}
		if err := c.receive(ev); err != nil {
			return err
		}
	}
}

// state prints what the client holds.
func (c *client) state() string {
	var lines []string
	for _, p := range c.policies {
		lines = append(lines, printObject(p))
	}
	for name, set := range c.groups {
		var members []v1beta2.GroupMember
		for _, m := range set {
			members = append(members, m)
		}
		lines = append(lines, printGroup(name, members))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func printObject(o runtime.Object) string {
	switch o := o.(type) {
	case *v1beta2.NetworkPolicy:
		return fmt.Sprintf("policy %s gen %d groups %v", o.Name, o.Generation, o.AppliedToGroups)
	case *v1beta2.AddressGroup:
		return printGroup(o.Name, o.GroupMembers)
	case *v1beta2.AppliedToGroup:
		return printGroup(o.Name, o.GroupMembers)
	}
	return fmt.Sprintf("%T", o)
}

func printGroup(name string, members []v1beta2.GroupMember) string {
	var parts []string
	for _, m := range members {
		parts = append(parts, fmt.Sprintf("%q%v", identity(m), m.Ports))
	}
	slices.Sort(parts)
	return fmt.Sprintf("group %s: %s", name, strings.Join(parts, " "))
}

// listing prints what List returns for a key.
func listing(s *Store, r Resource, key string) (string, error) {
	objects, _, err := s.List(r, key)
	if err != nil {
		return "", err
	}
	var lines []string
	for _, o := range objects {
		lines = append(lines, printObject(o))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), nil
}

// identity prints what tells members of one group apart.
func identity(m v1beta2.GroupMember) string {
	switch {
	case m.Pod != nil:
		return fmt.Sprintf("Pod:%s/%s %v", m.Pod.Namespace, m.Pod.Name, m.IPs)
	case m.ExternalEntity != nil:
		return fmt.Sprintf("ExternalEntity:%s/%s %v", m.ExternalEntity.Namespace, m.ExternalEntity.Name, m.IPs)
	case m.Service != nil:
		return fmt.Sprintf("Service:%s/%s %v", m.Service.Namespace, m.Service.Name, m.IPs)
	case m.Node != nil && len(m.IPs) == 0:
		return "Node:" + m.Node.Name
	}
	return fmt.Sprintf("Node %v", m.IPs)
}
