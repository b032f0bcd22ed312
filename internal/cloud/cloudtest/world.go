package cloudtest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Disturbance is a way in which a cloud fails a call.
type Disturbance string

// The disturbances. All but LostAnswer leave the cloud as it was.
const (
	// LostAnswer does what the call asks and cuts the connection.
	LostAnswer Disturbance = "lost answer"
	// NoConnection cuts the connection before anything is done.
	NoConnection Disturbance = "no connection"
	// Throttle answers that there are too many calls.
	Throttle Disturbance = "throttled"
	// Broken answers that the cloud failed inside.
	Broken Disturbance = "broken"
	// Refused answers that the caller is not allowed to do this.
	Refused Disturbance = "refused"
)

// World is a simulated cloud with one account, for one test.
type World struct {
	Provider cloud.Provider
	Scope    cloud.Scope
	// Network is a network with at least two VMs that have one interface each; Other is another
	// network.
	Network, Other string
	// Reads are the cloud's names of the calls that Observe needs, Writes those that an op needs,
	// in order; for OpAddRules and OpRemoveRules those for ingress rules.
	Reads  []string
	Writes map[cloud.OpKind][]string
	// Disturb makes the next times calls of that name fail; -1 means all from now on. Calm takes
	// all disturbances back.
	Disturb func(call string, d Disturbance, times int)
	Calm    func()
	// Delay is for how long a thing that is created from now on is "not found"; nil if this cloud
	// shows at once what it has created.
	Delay func(time.Duration)
	// Patience is for how long the provider puts up with that.
	Patience time.Duration
	// CreateForeign creates a group that is not ours in Network and returns its ID.
	CreateForeign func(name string) string
	// ListOfPrefixes is the ID of a prefix list that rules may refer to; empty if the cloud has
	// none.
	ListOfPrefixes string
	// Holds reports whether a group can hold rules with this match; nil means that it can hold any.
	Holds func(cloud.Match) bool
}

// holds is World.Holds.
func (b *bench) holds(m cloud.Match) bool { return b.Holds == nil || b.Holds(m) }

// bench is a World with the test it serves.
type bench struct {
	*testing.T
	World
	ctx context.Context
}

func (b *bench) observe() *cloud.Snapshot {
	b.Helper()
	s, err := b.Provider.Observe(b.ctx, b.Scope)
	if err != nil {
		b.Fatalf("Observe: %v", err)
	}
	return s
}

func (b *bench) apply(op cloud.Op) string {
	b.Helper()
	id, err := b.Provider.Apply(b.ctx, b.Scope, op)
	if err != nil {
		b.Fatalf("%s: %v", op, err)
	}
	return id
}

// refused applies an op that must fail with this class.
func (b *bench) refused(op cloud.Op, want cloud.Class) {
	b.Helper()
	_, err := b.Provider.Apply(b.ctx, b.Scope, op)
	if err == nil {
		b.Fatalf("%s: succeeded; want class %s", op, want)
	}
	if got := cloud.ClassOf(err); got != want {
		b.Fatalf("%s: class %s; want %s: %v", op, got, want, err)
	}
}

func (b *bench) group(id string) *cloud.Group {
	b.Helper()
	for _, g := range b.observe().Groups {
		if g.ID == id {
			return &g
		}
	}
	return nil
}

// mustGroup is group for one that has to be there.
func (b *bench) mustGroup(id string) *cloud.Group {
	b.Helper()
	g := b.group(id)
	if g == nil {
		b.Fatalf("the group %s is not there", id)
	}
	return g
}

func (b *bench) nic(id string) cloud.Interface {
	b.Helper()
	for _, n := range b.observe().Interfaces {
		if n.ID == id {
			return n
		}
	}
	b.Fatalf("the interface %s is not there", id)
	return cloud.Interface{}
}

// anyNIC returns an interface of a VM in the network.
func (b *bench) anyNIC() cloud.Interface {
	b.Helper()
	for _, n := range b.observe().Interfaces {
		if n.NetworkID == b.Network && n.VMID != "" && !n.Managed {
			return n
		}
	}
	b.Fatalf("no VM in %s has an interface", b.Network)
	return cloud.Interface{}
}

// ownership is the tags of a group of ours.
func (b *bench) ownership() map[string]string {
	return map[string]string{
		cloud.TagCluster: "test", cloud.TagKind: cloud.KindClass, cloud.TagAccount: b.Scope.Account, cloud.TagClass: "c1",
	}
}

func (b *bench) createOp(name string) cloud.Op {
	return cloud.Op{Kind: cloud.OpCreateGroup, Group: cloud.GroupSpec{
		NetworkID: b.Network, Name: cloud.NamePrefix + name, Description: "made by a test", Tags: b.ownership(),
	}}
}

func (b *bench) create(name string) string {
	b.Helper()
	return b.apply(b.createOp(name))
}

// sameRules compares rules without IDs and descriptions.
func sameRules(have, want []cloud.Rule) bool {
	return slices.EqualFunc(cloud.Rules(have).Sorted(), cloud.Rules(want).Sorted(), cloud.Rule.Same)
}

func (b *bench) wantRules(id string, want ...cloud.Rule) {
	b.Helper()
	if have := b.mustGroup(id).Rules; !sameRules(have, want) {
		b.Fatalf("the group %s has the rules\n%v\nwant\n%v", id, cloud.Rules(have).Sorted(), cloud.Rules(want).Sorted())
	}
}
