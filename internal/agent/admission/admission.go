// Package admission lets new Pods of a Node wait until the policies on them are in force.
//
// It owns the way of one Pod from the word of the runtime to its class in the kernel: what the API
// and the controller must have said, and how often they are asked. It promises:
//
//   - Until Admit returns without an error the addresses of the Pod are cut off, even if another
//     Pod had them before; with an error they are forgotten.
//   - A Pod is admitted with all that the controller had computed for it at a moment after Admit was
//     called. Only a Pod of an essential namespace does not wait for a controller that is away.
//   - Questions that are asked at the same time share an answer.
//
// An Admission is safe for concurrent use.
package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/cni"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/pods"
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
	// askLimit bounds one question to the controller.
	askLimit = 10 * time.Second
)

// Options are what an Admission needs. Computed and Connect may be nil.
type Options struct {
	// Key is that of the Node.
	Key  string
	Pods *pods.Pods
	// Source tells what the controller has computed for the Node, and Current is what was received
	// of that.
	Source  enforcer.Source
	Current func() (enforcer.Computed, uint64, error)
	// Computed reports whether the controller has taken a Pod into account; nil if that cannot be
	// told. New Pods of the namespaces Essential do not wait for a controller that does not answer.
	Computed  func(ctx context.Context, namespace, name string) (bool, error)
	Essential []string
	// Connect does what there is to do at the Node for an interface whose link is there; nil for
	// nothing.
	Connect func(about cni.Attachment) error
	// Failing says why rules cannot be written; empty if they can.
	Failing func() string
	// Waited gets how long a Pod that starts has waited for its policies; it may be nil.
	Waited func(time.Duration)
	Clock  clock.WithTicker
	Log    logr.Logger
}

// Admission lets new Pods wait.
type Admission struct {
	Options
	asking asking
}

// New returns an Admission.
func New(o Options) *Admission {
	return &Admission{Options: o, asking: asking{turn: make(chan struct{}, 1)}}
}

// Admit takes in what a runtime says of a new Pod, and returns when the policies on the Pod are in
// force. Until then packets of its addresses are dropped, even if another Pod had the addresses
// before. It fails, and forgets them, if ctx ends before that.
func (a *Admission) Admit(ctx context.Context, about cni.Attachment) error {
	if a.Connect != nil { // the addresses are closed as all that are nobody's
		if err := a.Connect(about); err != nil {
			return err
		}
	}
	begun := a.Clock.Now()
	x, err := a.Pods.Attach(about)
	if err != nil {
		return cni.Refusal{Err: err}
	}
	err = a.admit(ctx, x)
	switch {
	case err == nil && a.Waited != nil:
		a.Waited(a.Clock.Since(begun))
	case err != nil:
		a.Pods.Detach(about, x)
		a.Log.Info("A new Pod does not start, because it is not certain which policies apply to it", "namespace", about.Namespace, "pod", about.Name, "reason", err.Error())
	}
	return err
}

func (a *Admission) admit(ctx context.Context, x *pods.Attached) error {
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
	a.Pods.Release(x)
	until, cancel := context.WithCancel(ctx)
	if err != nil {
		a.Log.Info("A new Pod starts with the policies that are known, because its namespace is essential", "namespace", x.Namespace, "pod", x.Name, "reason", err.Error())
		until, cancel = context.WithTimeout(ctx, inForceLimit)
	}
	defer cancel()
	late := a.Pods.Await(until, func() bool { _, inForce := a.Pods.Stands(x); return inForce })
	switch {
	case late == nil, err != nil && ctx.Err() == nil:
		return nil
	case a.Failing() != "":
		return fmt.Errorf("the rules cannot be written: %s", a.Failing())
	}
	return fmt.Errorf("its policies are not in force yet: %w", late)
}

// learn waits until all has come that decides which policies apply to a Pod: the Pod itself, and
// what the controller makes of it. An impatient one does not wait for a controller that is away.
func (a *Admission) learn(ctx context.Context, x *pods.Attached, impatient bool) error {
	if err := a.Pods.Await(ctx, func() bool { seen, _ := a.Pods.Stands(x); return seen }); err != nil {
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

func (a *Admission) learnOnce(ctx context.Context, x *pods.Attached) error {
	if a.Computed != nil {
		known, err := a.Computed(ctx, x.Namespace, x.Name)
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
	if err := a.Pods.Await(ctx, func() bool { return a.has(now, x.Namespace+"/"+x.Name) }); err != nil {
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
func (a *Admission) momentNow(ctx context.Context) (*moment, error) {
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
func (a *Admission) begin(ctx context.Context, r enforcer.Resource, take func(any)) error {
	stream, err := a.Source.Watch(ctx, r, a.Key)
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
func (a *Admission) has(m *moment, pod string) bool {
	now, _, err := a.Current()
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

// asking lets concurrent callers share an answer. One question is in flight at a time. A caller
// that arrives meanwhile waits for the next one, because its answer must be newer than its call.
type asking struct {
	// turn has room for the caller that asks.
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
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askLimit)
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
