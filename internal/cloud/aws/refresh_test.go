package aws_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	seeds "github.com/nephele-io/nephele/internal/seed"
	"github.com/nephele-io/nephele/internal/sim"
	simaws "github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2"
	"github.com/nephele-io/nephele/internal/sim/estate"
	"github.com/nephele-io/nephele/internal/sim/estatetest"
)

var refreshSeed = flag.Uint64("refresh-seed", 0, "seed of the random histories; 0 = a new one")

// ears are a Hearer that remembers everything.
type ears struct {
	mu      sync.Mutex
	changes []cloud.Change
	errs    []error
	proven  map[string]time.Time
}

func (e *ears) Heard(c []cloud.Change) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changes = append(e.changes, c...)
}

func (e *ears) Proven(region string, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.proven == nil {
		e.proven = map[string]time.Time{}
	}
	e.proven[region] = at
}

// provenAt is as of when events of the lab's region are proven to have come.
func (e *ears) provenAt() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.proven[region]
}

func (e *ears) Listening(_ string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.errs = append(e.errs, err)
}

func (e *ears) take() []cloud.Change {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.changes
	e.changes = nil
	return out
}

func (e *ears) saw(want func(error) bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.errs, want)
}

// listen reads the queue for events of the lab's region until the test ends.
func (l *lab) listen(p cloud.Listener) *ears {
	e := &ears{}
	ctx, cancel := context.WithCancel(l.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.Listen(ctx, e) }()
	l.Cleanup(func() { cancel(); <-done })
	return e
}

// eventually waits for something that other goroutines bring about.
func (l *lab) eventually(what string, ok func() bool) {
	l.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			l.Fatalf("it never came about that %s", what)
		}
	}
}

// drained reports that every message was received and deleted.
func (l *lab) drained() bool {
	for _, ref := range l.server.Queues().Refs() {
		if visible, hidden, err := l.server.Queues().Depth(ref); err != nil || visible+hidden > 0 {
			return false
		}
	}
	return true
}

func (l *lab) queue() aws.Queue {
	for _, ref := range l.server.Queues().Refs() {
		if ref.Region == region {
			return aws.Queue{URL: l.server.URL() + ref.Path()}
		}
	}
	l.Fatal("there is no queue")
	return aws.Queue{}
}

// TestRefreshIsObserve changes an estate at random and follows it by events alone: each time the
// refreshed snapshot is what a whole observation shows, though events come twice and in any order.
func TestRefreshIsObserve(t *testing.T) {
	t.Parallel()
	seed := *refreshSeed
	if seed == 0 {
		seed = seeds.Of(t)
	}
	t.Logf("seed %d (repeat with -args -refresh-seed %d)", seed, seed)
	narrowed, refreshed := 0, 0
	for n := range uint64(12) {
		rnd := rand.New(rand.NewPCG(seed+n, 5))
		state, _, err := estate.HybridCloud()
		if err != nil {
			t.Fatal(err)
		}
		l := newLab(t, sim.Options{State: state, TransitionDelay: time.Second,
			Events: sim.EventOptions{Queue: "events", Copies: 2, Shuffle: true}})
		p := l.open(aws.Config{Queues: []aws.Queue{l.queue()}})
		heard := l.listen(p)
		// One half of the histories looks at a part of the account only.
		var view interface {
			cloud.Provider
			cloud.Refresher
		} = p
		if n%2 == 1 {
			view = p.Narrow([]cloud.NetworkMatch{{ID: network}}).(*aws.Narrowed)
			narrowed++
		}
		h := &estateHistory{Rand: rnd, lab: l}
		last, err := view.Observe(t.Context(), l.scope())
		if err != nil {
			t.Fatal(err)
		}
		for step := range 20 {
			var what []string
			for range 1 + rnd.IntN(4) {
				what = append(what, h.step())
			}
			if rnd.IntN(2) == 0 {
				_ = l.clock.sleep(t.Context(), time.Second)
			}
			// What comes to its end while the observation is made is news again.
			var ids []string
			var now *cloud.Snapshot
			whole := false
			for news := true; news; {
				if now, err = view.Observe(t.Context(), l.scope()); err != nil {
					t.Fatal(err)
				}
				l.server.World().Settle()
				l.eventually("the queue is empty", l.drained)
				changes := heard.take()
				for _, c := range changes {
					ids, whole = append(ids, c.IDs...), whole || len(c.IDs) == 0
				}
				news = len(changes) > 0
			}
			if whole {
				last = now
				continue
			}
			before := last
			if last, err = view.Refresh(t.Context(), last, ids); err != nil {
				t.Fatalf("seed %d, step %d, after %q: %v", seed+n, step, what, err)
			}
			refreshed++
			diff := cmp.Diff(now, last, cmpopts.EquateComparable(prefix("::/0"), prefix("::/0").Addr()), cmpopts.EquateEmpty(),
				cmpopts.IgnoreFields(cloud.Snapshot{}, "ObservedAt", "GroupsBeside"))
			if diff != "" {
				t.Fatalf("seed %d, step %d, after %q, told of %q:\n%s", seed+n, step, what, ids, diff)
			}
			if n%2 == 0 && !last.ObservedAt.Equal(before.ObservedAt) {
				t.Fatalf("a refresh claims to be as new as %s", last.ObservedAt)
			}
		}
	}
	if refreshed < 200 || narrowed == 0 {
		t.Errorf("%d refreshes, %d narrowed histories: the histories do not go far enough", refreshed, narrowed)
	}
}

// estateHistory makes random changes; those that are refused do no harm.
type estateHistory struct {
	*rand.Rand
	lab   *lab
	names int
}

func oneOf[T any](h *estateHistory, all []T, err error) T {
	var zero T
	if err != nil || len(all) == 0 {
		return zero
	}
	return all[h.IntN(len(all))]
}

func (h *estateHistory) group() simaws.SecurityGroup {
	all, err := h.lab.region().SecurityGroups()
	return oneOf(h, all, err)
}

func (h *estateHistory) vm() simaws.Instance {
	all, err := h.lab.region().Instances()
	return oneOf(h, all, err)
}

func (h *estateHistory) nic() simaws.NetworkInterface {
	all, err := h.lab.region().NetworkInterfaces()
	return oneOf(h, all, err)
}

// step makes one change and says which.
func (h *estateHistory) step() string {
	r := h.lab.region()
	h.names++
	name := fmt.Sprintf("h%d", h.names)
	steps := []func() (string, error){
		func() (string, error) {
			id := []string{h.vm().ID, h.nic().ID, h.group().ID, network}[h.IntN(4)]
			return "tag " + id, r.CreateTags([]string{id}, []simaws.Tag{{Key: "Name", Value: name}, {Key: "i-0123456789abcdef0", Value: "sg-01234567"}})
		},
		func() (string, error) {
			id := []string{h.vm().ID, h.group().ID}[h.IntN(2)]
			return "untag " + id, r.DeleteTags([]string{id}, []simaws.TagKey{{Key: "Name"}})
		},
		func() (string, error) {
			nic := h.nic()
			groups, err := r.SecurityGroups()
			if err != nil {
				return "", err
			}
			groups = slices.DeleteFunc(groups, func(g simaws.SecurityGroup) bool { return g.VPCID != nic.VPCID })
			return "groups of " + nic.ID, r.Interfaces().ModifyNetworkInterfaceGroups(nic.ID, []string{oneOf(h, groups, nil).ID})
		},
		func() (string, error) {
			g, err := r.Groups().CreateSecurityGroup(simaws.CreateSecurityGroupInput{Name: name, Description: "d", VPCID: h.nic().VPCID})
			return "new group " + g.ID, err
		},
		func() (string, error) {
			id, err := r.Groups().DeleteSecurityGroup(h.group().ID, "")
			return "delete " + id, err
		},
		h.rule,
		func() (string, error) {
			nic := h.nic()
			res, err := r.InstanceCalls().RunInstances(simaws.RunInstancesInput{ImageID: "ami-00000000", MinCount: 1, MaxCount: 1 + h.IntN(3), SubnetID: nic.SubnetID})
			return fmt.Sprintf("run %d in %s", len(res.Instances), nic.SubnetID), err
		},
		func() (string, error) {
			id := h.vm().ID
			_, err := r.InstanceCalls().TerminateInstances([]string{id})
			return "terminate " + id, err
		},
		func() (string, error) {
			id := h.vm().ID
			_, err := r.InstanceCalls().StopInstances([]string{id}, false)
			return "stop " + id, err
		},
		func() (string, error) {
			id := h.vm().ID
			_, err := r.InstanceCalls().StartInstances([]string{id})
			return "start " + id, err
		},
		h.list,
		h.peering,
		func() (string, error) {
			v, err := r.Networks().CreateVPC(simaws.CreateVPCInput{CIDR: "10.99.0.0/16"})
			return "new " + v.ID, err
		},
	}
	what, err := steps[h.IntN(len(steps))]()
	var refused *simaws.Error
	if err != nil && !errors.As(err, &refused) {
		h.lab.Fatalf("%s: %v", what, err)
	}
	return what
}

func (h *estateHistory) rule() (string, error) {
	g, r := h.group(), h.lab.region()
	perm := simaws.Permission{Protocol: "-1", CIDRs: []simaws.CIDRPeer{{CIDR: fmt.Sprintf("10.%d.0.0/16", h.IntN(200))}}}
	if h.IntN(3) == 0 {
		lists, err := r.Lists().PrefixLists()
		if l := oneOf(h, lists, err); l.ID != "" {
			perm = simaws.Permission{Protocol: "-1", PrefixLists: []simaws.PrefixListPeer{{PrefixListID: l.ID}}}
		}
	}
	if len(g.Rules) > 0 && h.IntN(2) == 0 {
		gone := g.Rules[h.IntN(len(g.Rules))]
		_, err := r.Groups().RevokeSecurityGroup(simaws.RevokeInput{GroupID: g.ID, Egress: gone.Egress, RuleIDs: []string{gone.ID}})
		return "revoke in " + g.ID, err
	}
	_, err := r.Groups().AuthorizeSecurityGroup(simaws.AuthorizeInput{GroupID: g.ID, Egress: h.IntN(2) == 0, Permissions: []simaws.Permission{perm}})
	return "authorize in " + g.ID, err
}

func (h *estateHistory) list() (string, error) {
	r := h.lab.region()
	lists, err := r.Lists().PrefixLists()
	l := oneOf(h, lists, err)
	if l.ID == "" || h.IntN(3) == 0 {
		l, err := r.Lists().CreatePrefixList(simaws.CreatePrefixListInput{Name: fmt.Sprintf("l%d", h.names), Family: "IPv4", MaxEntries: 9})
		return "new list " + l.ID, err
	}
	version := l.Version()
	_, err = r.Lists().ModifyPrefixList(simaws.ModifyPrefixListInput{PrefixListID: l.ID, CurrentVersion: &version,
		Add: []simaws.EntrySpec{{CIDR: fmt.Sprintf("203.0.%d.0/24", h.IntN(250))}}})
	return "edit list " + l.ID, err
}

func (h *estateHistory) peering() (string, error) {
	r, w := h.lab.region(), h.lab.server.World()
	all, err := r.Peerings().PeeringConnections()
	if p := oneOf(h, all, err); p.ID != "" && h.IntN(2) == 0 {
		status := []string{simaws.PeeringActive, "deleted"}[h.IntN(2)]
		return status + " " + p.ID, w.SetPeeringStatus(p.ID, status)
	}
	vpcs, err := r.VPCs()
	a, b := oneOf(h, vpcs, err), oneOf(h, vpcs, err)
	if a.ID == b.ID {
		return "nothing", nil
	}
	side := func(v simaws.VPC) simaws.PeeringVPC {
		return simaws.PeeringVPC{VPCID: v.ID, Account: h.lab.account, Region: region}
	}
	p, err := w.AddPeering(simaws.PeeringConnection{Requester: side(a), Accepter: side(b)})
	return "peering " + p.ID, err
}

// TestRefreshFails: a refresh that cannot be finished returns nothing.
func TestRefreshFails(t *testing.T) {
	t.Parallel()
	l := newLab(t, sim.Options{})
	last, err := l.provider.Observe(t.Context(), l.scope())
	if err != nil {
		t.Fatal(err)
	}
	for _, action := range []string{"DescribeInstances", "DescribeNetworkInterfaces"} {
		l.server.Faults().Add(ec2.Fault{Action: action, Code: "InternalError", Times: -1})
		if s, err := l.provider.Refresh(t.Context(), last, []string{last.VMs[0].ID}); s != nil || cloud.ClassOf(err) != cloud.Unavailable {
			t.Errorf("%s fails: %v, %v", action, s != nil, err)
		}
		l.server.Faults().Clear()
	}
	// What is asked for and is of no kind that we know, or does not exist, changes nothing.
	s, err := l.provider.Refresh(t.Context(), last, []string{"vol-01234567", "", "nonsense", "i-00000000", "eni-00000000", "sg-00000000", "pl-00000000"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(last, s, cmpopts.EquateComparable(prefix("::/0"), prefix("::/0").Addr())); diff != "" {
		t.Error(diff)
	}
}

// TestRefreshCalls: interfaces that stay where they are, groups and a known network take a call for
// 200 of them each. Where that is no less than the region whole takes, it is read whole.
func TestRefreshCalls(t *testing.T) {
	t.Parallel()
	const vms = 450
	var b strings.Builder
	fmt.Fprintf(&b, "accounts:\n- id: \"111122223333\"\n  regions:\n  - name: %s\n    vpcs:\n    - name: fleet\n      cidrs: [10.0.0.0/16]\n", region)
	b.WriteString("      groups:\n      - {name: a, rules: [\"tcp 22 from 10.0.0.0/8\"]}\n      vms:\n")
	for i := range vms {
		fmt.Fprintf(&b, "      - {name: vm-%d, ip: 10.0.%d.%d, groups: [a]}\n", i, 1+i/200, 10+i%200)
	}
	state := estatetest.Parse(t, b.String())
	l := newLab(t, sim.Options{State: state})
	last, err := l.provider.Observe(t.Context(), l.scope())
	if err != nil {
		t.Fatal(err)
	}
	nics := make([]string, vms)
	for i := range nics {
		nics[i] = last.Interfaces[i].ID
	}
	rest := []string{last.Networks[0].ID, last.Groups[0].ID}
	for _, c := range []struct {
		ids   []string
		calls int
		whole bool
	}{
		{nics[:150], 1, false},
		{append(rest, nics[:200]...), 3, false},
		{append(rest, nics[:400]...), 4, false},
		{append(rest, nics...), 5, true},
		{append([]string{last.VMs[0].ID}, nics[:200]...), 3, false},
	} {
		if err := l.clock.sleep(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		before := l.server.Journal().Total()
		s, err := l.provider.Refresh(t.Context(), last, c.ids)
		if err != nil {
			t.Fatal(err)
		}
		if n, whole := l.server.Journal().Total()-before, s.ObservedAt.After(last.ObservedAt); n != c.calls || whole != c.whole {
			t.Errorf("%d objects: %d calls, read whole: %t; want %d, %t", len(c.ids), n, whole, c.calls, c.whole)
		}
		if diff := cmp.Diff(last, s, cmpopts.EquateComparable(prefix("::/0"), prefix("::/0").Addr()), cmpopts.IgnoreFields(cloud.Snapshot{}, "ObservedAt")); diff != "" {
			t.Error(diff)
		}
	}
}
