package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/cni"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

const (
	// askAgain is how soon the controller is asked again about a Pod that it does not know yet, and
	// catchUp how long the watches may be behind what it said, until it is asked anew.
	askAgain = 100 * time.Millisecond
	catchUp  = 2 * time.Second
	// essentialLimit is for how long essential Pods wait at most.
	essentialLimit = 5 * time.Second
	// inForceLimit is for how long they wait for the kernel.
	inForceLimit = 2 * time.Second
)

// refusal is an error about what was asked, which is the same when it is asked again.
type refusal struct{ error }

// Admit takes in what a runtime says of a new Pod, and returns when the policies on the Pod are in
// force. Until then its addresses are cut off, whoever had them before. It fails, and forgets them,
// when ctx ends before.
func (a *Agent) Admit(ctx context.Context, about cni.Attachment) error {
	if a.Network != nil { // the addresses are closed as all that are nobody's
		if err := a.Network.Connect(about); err != nil {
			return err
		}
	}
	x, err := a.Pods.attach(about)
	if err != nil {
		return refusal{err}
	}
	err = a.admit(ctx, x)
	if err != nil {
		a.Pods.detach(keyOf(&about), x)
		a.Log.Info("A new Pod does not start, because it is not certain which policies apply to it", "namespace", about.Namespace, "pod", about.Name, "reason", err.Error())
	}
	return err
}

func (a *Agent) admit(ctx context.Context, x *attached) error {
	essential := slices.Contains(a.Essential, x.Namespace)
	learning := ctx
	if essential {
		var cancel context.CancelFunc
		learning, cancel = context.WithTimeout(ctx, essentialLimit)
		defer cancel()
	}
	err := a.learn(learning, x, essential)
	if err != nil && (!essential || ctx.Err() != nil) {
		return err
	}
	a.Pods.release(x)
	until, cancel := context.WithCancel(ctx)
	if err != nil {
		a.Log.Info("A new Pod starts with the policies that are known, because its namespace is essential", "namespace", x.Namespace, "pod", x.Name, "reason", err.Error())
		until, cancel = context.WithTimeout(ctx, inForceLimit)
	}
	defer cancel()
	late := a.Pods.await(until, func() bool { _, inForce := a.Pods.stands(x); return inForce })
	switch {
	case late == nil, err != nil && ctx.Err() == nil:
		return nil
	case a.Status().Error != "":
		return fmt.Errorf("the rules cannot be written: %s", a.Status().Error)
	}
	return fmt.Errorf("its policies are not in force yet: %w", late)
}

// learn waits until all has come that decides which policies apply to a Pod: the Pod itself, and
// what the controller makes of it. An impatient one does not wait for a controller that is away.
func (a *Agent) learn(ctx context.Context, x *attached, impatient bool) error {
	if err := a.Pods.await(ctx, func() bool { seen, _ := a.Pods.stands(x); return seen }); err != nil {
		return fmt.Errorf("the API server has not told of the Pod: %w", err)
	}
	for {
		err := a.learnOnce(ctx, x)
		switch {
		case err == nil, impatient && !errors.Is(err, errBehind):
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-a.Clock.After(askAgain):
		}
	}
}

// errBehind: the controller does not know the Pod yet, or we do not know what it has said.
var errBehind = errors.New("the controller has not taken the Pod into account yet")

func (a *Agent) learnOnce(ctx context.Context, x *attached) error {
	if a.Options.Computed != nil {
		known, err := a.Options.Computed(ctx, x.Namespace, x.Name)
		if err != nil {
			return fmt.Errorf("the controller does not say whether it knows the Pod: %w", err)
		}
		if !known {
			return errBehind
		}
	}
	now, err := a.asking.ask(ctx, a.momentNow)
	if err != nil {
		return fmt.Errorf("the controller does not say what it has computed: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	if err := a.Pods.await(ctx, func() bool { return a.has(now, x.Namespace+"/"+x.Name) }); err != nil {
		return errBehind
	}
	return nil
}

// moment is what the controller has computed for the Pods of the Node at one moment.
type moment struct {
	// groups are the applied-to groups of Pods, by "NAMESPACE/NAME"; policies the names of those
	// that are applied to a group.
	groups, policies map[string][]string
}

// momentNow asks the controller, by watches that begin now. What the mirror follows may be behind.
func (a *Agent) momentNow(ctx context.Context) (*moment, error) {
	out := &moment{groups: map[string][]string{}, policies: map[string][]string{}}
	err := a.begin(ctx, enforcer.AppliedToGroups, func(o any) {
		if g, ok := o.(*v1beta2.AppliedToGroup); ok {
			for i := range g.GroupMembers {
				if p := g.GroupMembers[i].Pod; p != nil {
					name := p.Namespace + "/" + p.Name
					out.groups[name] = append(out.groups[name], g.Name)
				}
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return out, a.begin(ctx, enforcer.NetworkPolicies, func(o any) {
		if p, ok := o.(*v1beta2.NetworkPolicy); ok {
			for _, g := range nft.AppliedTo(p) {
				out.policies[g] = append(out.policies[g], p.Name)
			}
		}
	})
}

// begin reads what a watch begins with.
func (a *Agent) begin(ctx context.Context, r enforcer.Resource, take func(any)) error {
	stream, err := a.Follower.Source.Watch(ctx, r, a.Key)
	if err != nil {
		return err
	}
	defer stream.Stop()
	for {
		event, err := stream.Next(ctx)
		if err != nil {
			return err
		}
		switch event.Type {
		case watch.Added:
			take(event.Object)
		case watch.Bookmark:
			return nil
		default:
			return fmt.Errorf("a watch of %s began with %s", r, event.Type)
		}
	}
}

// has reports whether the mirror knows of a Pod all that there was at a moment.
func (a *Agent) has(m *moment, pod string) bool {
	now, _, err := a.mirror.Current()
	if err != nil {
		return false
	}
	groups, policies := map[string]bool{}, map[string]bool{}
	for _, g := range now.AppliedToGroups {
		for i := range g.GroupMembers {
			if p := g.GroupMembers[i].Pod; p != nil && p.Namespace+"/"+p.Name == pod {
				groups[g.Name] = true
			}
		}
	}
	for _, p := range now.Policies {
		policies[p.Name] = true
	}
	for _, g := range m.groups[pod] {
		if !groups[g] || slices.ContainsFunc(m.policies[g], func(name string) bool { return !policies[name] }) {
			return false
		}
	}
	return true
}

// asking lets those who ask at the same time share an answer. One question is under way at a time;
// who comes meanwhile waits for the next one, because the answer must be of a moment after he came.
type asking struct {
	// turn has room for who asks.
	turn chan struct{}

	mu   sync.Mutex
	next *question
}

type question struct {
	done chan struct{}
	got  *moment
	err  error
}

func (s *asking) ask(ctx context.Context, look func(context.Context) (*moment, error)) (*moment, error) {
	s.mu.Lock()
	q := s.next
	if q == nil {
		q = &question{done: make(chan struct{})}
		s.next = q
		go func() {
			defer close(q.done)
			s.turn <- struct{}{}
			defer func() { <-s.turn }()
			s.mu.Lock()
			s.next = nil
			s.mu.Unlock()
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), infoLimit)
			defer cancel()
			q.err = recovered.Call(func() (err error) {
				q.got, err = look(ctx)
				return err
			})
		}()
	}
	s.mu.Unlock()
	select {
	case <-q.done:
		return q.got, q.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
