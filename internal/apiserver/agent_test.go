package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// agent follows one kind by the protocol of an Antrea Agent, strictly: whatever that would drop its watch for is an error here.
// Its state is policies with their generation, or groups with their members.
type agent struct {
	resource, key string

	mu      sync.Mutex
	synced  bool
	state   map[string]any
	initial map[string]any
	failure error
	// watches counts the watches that were begun.
	watches int
}

type members map[string]v1beta2.GroupMember

func newAgent(resource, key string) *agent {
	return &agent{resource: resource, key: key, state: map[string]any{}}
}

// follow watches until ctx ends, anew whenever a watch ends in order.
func (a *agent) follow(ctx context.Context, client *rest.RESTClient) {
	for ctx.Err() == nil {
		if err := a.watchOnce(ctx, client); err != nil && ctx.Err() == nil {
			a.mu.Lock()
			a.failure = err
			a.mu.Unlock()
			return
		}
	}
}

func (a *agent) watchOnce(ctx context.Context, client *rest.RESTClient) error {
	r := client.Get().Resource(a.resource).Param("watch", "true").MaxRetries(0)
	if a.key != "" {
		r = r.Param("fieldSelector", "nodeName="+a.key)
	}
	w, err := r.Watch(ctx)
	if err != nil {
		// A server that is being restarted is tried again.
		return nil
	}
	defer w.Stop()
	a.mu.Lock()
	a.synced, a.initial = false, map[string]any{}
	a.watches++
	a.mu.Unlock()
	for event := range w.ResultChan() {
		a.mu.Lock()
		err := a.take(event)
		a.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *agent) take(event watch.Event) error {
	if event.Type == watch.Error {
		return fmt.Errorf("ERROR %v", event.Object)
	}
	if event.Type == watch.Bookmark {
		if a.synced {
			return errors.New("a second BOOKMARK")
		}
		a.synced, a.state = true, a.initial
		return nil
	}
	if !a.synced {
		if event.Type != watch.Added {
			return fmt.Errorf("%s before the BOOKMARK", event.Type)
		}
		return a.add(a.initial, event)
	}
	switch event.Type {
	case watch.Added:
		return a.add(a.state, event)
	case watch.Modified:
		return a.modify(event)
	default:
		return a.remove(event)
	}
}

func (a *agent) add(to map[string]any, event watch.Event) error {
	name, value := "", any(nil)
	switch o := event.Object.(type) {
	case *v1beta2.NetworkPolicy:
		if o.SourceRef == nil {
			return errors.New("ADDED without sourceRef")
		}
		name, value = o.Name, o.Generation
	case *v1beta2.AddressGroup:
		name, value = o.Name, newMembers(o.GroupMembers)
	case *v1beta2.AppliedToGroup:
		name, value = o.Name, newMembers(o.GroupMembers)
	default:
		return fmt.Errorf("ADDED %T", event.Object)
	}
	if _, had := to[name]; had {
		return fmt.Errorf("%s ADDED twice", name)
	}
	to[name] = value
	return nil
}

func (a *agent) modify(event watch.Event) error {
	var name string
	var added, removed []v1beta2.GroupMember
	switch o := event.Object.(type) {
	case *v1beta2.NetworkPolicy:
		if _, had := a.state[o.Name]; !had || o.SourceRef == nil {
			return fmt.Errorf("MODIFIED %+v, which is not there", o)
		}
		a.state[o.Name] = o.Generation
		return nil
	case *v1beta2.AddressGroupPatch:
		name, added, removed = o.Name, o.AddedGroupMembers, o.RemovedGroupMembers
	case *v1beta2.AppliedToGroupPatch:
		name, added, removed = o.Name, o.AddedGroupMembers, o.RemovedGroupMembers
	default:
		return fmt.Errorf("MODIFIED %T", event.Object)
	}
	set, had := a.state[name].(members)
	if !had {
		return fmt.Errorf("patch of %s, which is not there", name)
	}
	set = maps.Clone(set)
	for _, m := range added {
		set[identity(m)] = m
	}
	for _, m := range removed {
		delete(set, identity(m))
	}
	a.state[name] = set
	return nil
}

func (a *agent) remove(event watch.Event) error {
	name := event.Object.(interface{ GetName() string }).GetName()
	if p, ok := event.Object.(*v1beta2.NetworkPolicy); ok && (p.SourceRef == nil || p.UID == "") {
		return fmt.Errorf("DELETED %s without sourceRef or uid", name)
	}
	if _, had := a.state[name]; !had {
		return fmt.Errorf("DELETED %s, which is not there", name)
	}
	delete(a.state, name)
	return nil
}

func identity(m v1beta2.GroupMember) string { return fmt.Sprintf("%+v %v", *m.Pod, m.IPs) }

func newMembers(list []v1beta2.GroupMember) members {
	set := members{}
	for _, m := range list {
		set[identity(m)] = m
	}
	return set
}

// describe prints a state so that equal states look equal.
func describe(state map[string]any) string {
	var lines []string
	for name, value := range state {
		if set, ok := value.(members); ok {
			value = slices.Sorted(maps.Keys(set))
		}
		lines = append(lines, fmt.Sprintf("%s: %v", name, value))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// inSync compares the agent with what a list returns.
func (a *agent) inSync(ctx context.Context, client *rest.RESTClient) error {
	want := map[string]any{}
	r := client.Get().Resource(a.resource)
	if a.key != "" {
		r = r.Param("fieldSelector", "nodeName="+a.key)
	}
	object, err := r.Do(ctx).Get()
	if err != nil {
		return err
	}
	switch list := object.(type) {
	case *v1beta2.NetworkPolicyList:
		for _, p := range list.Items {
			want[p.Name] = p.Generation
		}
	case *v1beta2.AddressGroupList:
		for _, g := range list.Items {
			want[g.Name] = newMembers(g.GroupMembers)
		}
	case *v1beta2.AppliedToGroupList:
		for _, g := range list.Items {
			want[g.Name] = newMembers(g.GroupMembers)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.failure != nil && !errors.Is(a.failure, io.EOF):
		return fmt.Errorf("%s of %q: %w", a.resource, a.key, a.failure)
	case !a.synced:
		return fmt.Errorf("%s of %q: no BOOKMARK yet", a.resource, a.key)
	}
	if got, want := describe(a.state), describe(want); got != want {
		return fmt.Errorf("%s of %q has\n%s\nwant\n%s", a.resource, a.key, got, want)
	}
	return nil
}
