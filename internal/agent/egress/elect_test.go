package egress

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/agent/network"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

// TestChoose: which Node takes an address, and when.
func TestChoose(t *testing.T) {
	w := wish{eligible: true, ranked: []string{"a", "b", "c"}}
	lost := standing{holder: "a", lasts: 7 * time.Second}
	after := func(s standing, d time.Duration) standing { s.silent = d; return s }
	for name, c := range map[string]struct {
		self string
		w    wish
		s    standing
		full bool
		want choice
	}{
		"the first takes what nobody has":                  {"a", w, standing{}, false, take},
		"the second waits":                                 {"b", w, after(standing{}, time.Second), false, leave},
		"and takes it then":                                {"b", w, after(standing{}, 2*time.Second), false, take},
		"the first keeps":                                  {"a", w, standing{holder: "a"}, false, keep},
		"the last keeps, too":                              {"c", w, standing{holder: "c"}, false, keep},
		"the first takes nothing from a live holder":       {"a", w, after(standing{holder: "c", lasts: 7 * time.Second}, time.Second), false, leave},
		"the next of the lost one takes it":                {"b", w, after(lost, 7*time.Second), false, take},
		"not before its time":                              {"b", w, after(lost, 6999*time.Millisecond), false, leave},
		"the one behind waits longer":                      {"c", w, after(lost, 8*time.Second), false, leave},
		"and takes it if nobody did":                       {"c", w, after(lost, 9*time.Second), false, take},
		"a full Node takes nothing":                        {"a", w, standing{}, true, leave},
		"a full Node keeps":                                {"a", w, standing{holder: "a"}, true, keep},
		"an ineligible Node gives it up":                   {"d", wish{ranked: w.ranked}, standing{holder: "d"}, false, giveUp},
		"an ineligible Node takes nothing":                 {"d", wish{ranked: w.ranked}, after(lost, time.Hour), false, leave},
		"a Node that is not ready keeps and takes nothing": {"d", wish{eligible: true, ranked: w.ranked}, standing{holder: "d"}, false, keep},
	} {
		if got := choose(c.self, c.w, c.s, c.full); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestRanks: if a Node goes only what it had moves, and Nodes have about as many addresses.
func TestRanks(t *testing.T) {
	var list []any
	for i := range 5 {
		list = append(list, nodeOf(fmt.Sprint("node", i), i != 4, "10.244.0.0/24"))
	}
	first := map[string]int{}
	for i := range 200 {
		a := netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
		all := wishOf("node4", a, &metav1.LabelSelector{}, list)
		if !all.eligible || len(all.ranked) != 4 {
			t.Fatalf("%+v, want that a Node that is not ready keeps, and takes nothing", all)
		}
		first[all.ranked[0]]++
		without := wishOf("node0", a, &metav1.LabelSelector{}, list[1:])
		if all.ranked[0] != "node0" && without.ranked[0] != all.ranked[0] {
			t.Fatalf("%s moves from %s to %s because node0 goes", a, all.ranked[0], without.ranked[0])
		}
	}
	for name, n := range first {
		if n < 25 {
			t.Errorf("%s is the first for %d of 200 addresses", name, n)
		}
	}
	six := netip.MustParseAddr("2001:db8::1")
	if w := wishOf("node0", six, &metav1.LabelSelector{}, list); w.eligible || len(w.ranked) > 0 {
		t.Errorf("Nodes without Pods with IPv6 may have %s: %+v", six, w)
	}
	wrong := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "is"}}}
	if w := wishOf("node0", netip.MustParseAddr("192.0.2.1"), wrong, list); w.eligible || len(w.ranked) > 0 {
		t.Errorf("a selector that is wrong selects %+v", w)
	}
}

func nodeOf(name string, ready bool, cidrs ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: cidrs}}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.200"}}
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	return n
}

// ether is what Nodes share in TestNobodyTwice: Leases, and time.
type ether struct {
	leases  map[string]*coordinationv1.Lease
	version int
	clock   *testingclock.FakeClock
	random  *rand.Rand
	// gave is called when a kernel was given an address, between while a Node waits for an answer.
	gave    func()
	between func(waits *station)
}

// station is a Node there.
type station struct {
	*ether
	name string
	m    *Manager
	// cut tells that the API server is not reached, stopped until when the process does nothing.
	cut     bool
	stopped time.Time
	// until is when the kernel takes an address.
	until map[netip.Addr]time.Time
}

var errCut = errors.New("no answer")

// call lets time pass, as calls do; sometimes the answer is lost.
func (s *station) call(do func() (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
	if s.cut {
		return nil, errCut
	}
	s.clock.Step(time.Duration(s.random.IntN(200)) * time.Millisecond)
	s.between(s)
	l, err := do()
	s.between(s)
	s.clock.Step(time.Duration(s.random.IntN(200)) * time.Millisecond)
	if s.random.IntN(40) == 0 {
		return nil, errCut
	}
	return l, err
}

func (s *station) Get(_ context.Context, name string) (*coordinationv1.Lease, error) {
	return s.call(func() (*coordinationv1.Lease, error) {
		if l := s.leases[name]; l != nil {
			return l.DeepCopy(), nil
		}
		return nil, apierrors.NewNotFound(schema.GroupResource{}, name)
	})
}

func (s *station) Create(_ context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return s.call(func() (*coordinationv1.Lease, error) {
		if s.leases[l.Name] != nil {
			return nil, apierrors.NewAlreadyExists(schema.GroupResource{}, l.Name)
		}
		return s.write(l), nil
	})
}

func (s *station) Update(_ context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return s.call(func() (*coordinationv1.Lease, error) {
		if was := s.leases[l.Name]; was == nil || was.ResourceVersion != l.ResourceVersion {
			return nil, apierrors.NewConflict(schema.GroupResource{}, l.Name, errors.New("it has changed"))
		}
		return s.write(l), nil
	})
}

func (s *station) write(l *coordinationv1.Lease) *coordinationv1.Lease {
	s.version++
	l = l.DeepCopy()
	l.ResourceVersion = strconv.Itoa(s.version)
	s.leases[l.Name] = l
	return l.DeepCopy()
}

func (s *station) Assigned() (map[netip.Addr]int, error) {
	out := map[netip.Addr]int{}
	for a, until := range s.until {
		if left := until.Sub(s.clock.Now()); left > 0 {
			out[a] = int(left/time.Second) + 1
		}
	}
	return out, nil
}

func (s *station) Hold(a, _ netip.Addr, seconds int) (string, error) {
	if s.random.IntN(60) == 0 {
		return "", errors.New("the kernel does not take it")
	}
	s.until[a] = s.clock.Now().Add(time.Duration(seconds)*time.Second + time.Duration(s.random.IntN(1000))*time.Millisecond)
	s.gave()
	return "eth0", nil
}

func (s *station) Drop(a netip.Addr) error { delete(s.until, a); return nil }

func (*station) Unlearn(string, bool) ([]netip.Addr, error) { return nil, nil }

func (*station) Sever(map[netip.Addr]bool, func(from, to, answers netip.Addr) bool) (int, error) {
	return 0, nil
}

// begin makes a new process on the Node; what the kernel has stays.
func (s *station) begin(list func() ([]any, bool), e *v1beta1.Egress, p *v1beta1.ExternalIPPool) {
	none := &cache.ListWatch{}
	s.m = New(Options{Node: s.name, Egresses: none, Pools: none, Addresses: none, Leases: s, Nodes: list, Kernel: s, Clock: s.clock, Log: logr.Discard(), Changed: func() {},
		Announce: func(context.Context, string, netip.Addr, []netip.Addr) error { return nil }})
	s.m.runs, s.m.groups.complete = nil, true
	_ = s.m.egresses.Add(e)
	_ = s.m.pools.Add(p)
}

// TestNobodyTwice lets Nodes do for an address what Nodes do, while processes stand still, die and
// begin anew, the API server is not reached, answers are lost and late, and the Nodes that may have
// the address change. Two kernels never have it at once, and when all is well again one has it.
func TestNobodyTwice(t *testing.T) {
	a := netip.MustParseAddr("192.0.2.1")
	moves := 0
	for seed := range uint64(100) {
		e := &ether{leases: map[string]*coordinationv1.Lease{}, clock: testingclock.NewFakeClock(time.Unix(1000, 0)), random: rand.New(rand.NewPCG(seed, 1))}
		egress := &v1beta1.Egress{ObjectMeta: metav1.ObjectMeta{Name: "e"}, Spec: v1beta1.EgressSpec{EgressIP: a.String(), ExternalIPPool: "p"}}
		egress.Status.Conditions = []v1beta1.EgressCondition{{Type: v1beta1.IPAllocated, Status: metav1.ConditionTrue}}
		pool := &v1beta1.ExternalIPPool{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1beta1.ExternalIPPoolSpec{NodeSelector: metav1.LabelSelector{MatchLabels: map[string]string{"e": "y"}}}}
		var stations []*station
		list := []any{}
		for i := range 4 {
			n := nodeOf(fmt.Sprint("node", i), true, "10.244.0.0/24")
			n.Labels = map[string]string{"e": "y"}
			list = append(list, n)
			s := &station{ether: e, name: n.Name, until: map[netip.Addr]time.Time{}}
			s.begin(func() ([]any, bool) { return slices.Clone(list), true }, egress, pool)
			stations = append(stations, s)
		}
		holders := func() (out []string) {
			for _, s := range stations {
				if until, there := s.until[a]; there && e.clock.Now().Before(until) {
					out = append(out, s.name)
				}
			}
			return out
		}
		e.gave = func() {
			t.Helper()
			if now := holders(); len(now) > 1 {
				t.Fatalf("seed %d: %v have the address at once, %v", seed, now, e.clock.Now())
			}
		}
		last, calm, busy := "", false, false
		turn := func(s *station) {
			if e.clock.Now().Before(s.stopped) {
				return
			}
			if calm || e.random.IntN(5) > 0 { // else its watch is late
				if l := e.leases[LeaseOf(a)]; l != nil && !s.cut {
					_ = s.m.addresses.Add(l.DeepCopy())
				}
			}
			s.m.turn(t.Context(), calm || e.random.IntN(4) > 0)
		}
		e.between = func(waits *station) {
			if other := stations[e.random.IntN(len(stations))]; other != waits && !busy && e.random.IntN(3) == 0 {
				busy = true
				turn(other)
				busy = false
			}
		}
		step := func() {
			t.Helper()
			for _, i := range e.random.Perm(len(stations)) {
				turn(stations[i])
				if now := holders(); len(now) == 1 && now[0] != last {
					last, moves = now[0], moves+1
				}
			}
			e.clock.Step(time.Duration(e.random.IntN(1500)) * time.Millisecond)
		}
		for range 150 {
			s := stations[e.random.IntN(len(stations))]
			switch e.random.IntN(12) {
			case 0:
				s.cut = !s.cut
			case 1:
				s.stopped = e.clock.Now().Add(time.Duration(e.random.IntN(20)) * time.Second)
			case 2: // kill -9
				s.begin(s.m.Nodes, egress, pool)
			case 3: // it ends in order, and begins some time later
				s.m.leaveFor(t.Context())
				s.begin(s.m.Nodes, egress, pool)
				s.stopped = e.clock.Now().Add(time.Duration(e.random.IntN(25)) * time.Second)
			case 4:
				i := e.random.IntN(len(list))
				n := list[i].(*corev1.Node).DeepCopy()
				n.Labels = map[string]string{"e": []string{"y", "n"}[e.random.IntN(2)]}
				list[i] = n
			}
			step()
		}
		for i, s := range stations {
			s.cut, s.stopped, calm = false, time.Time{}, true
			n := list[i].(*corev1.Node).DeepCopy()
			n.Labels = map[string]string{"e": "y"}
			list[i] = n
		}
		served := false
		for range 150 {
			step()
			if served = len(holders()) == 1; served {
				break
			}
		}
		if !served {
			t.Fatalf("seed %d: nobody has the address though all is well", seed)
		}
	}
	t.Logf("the address has moved %d times", moves)
	if moves < 200 {
		t.Errorf("the address has moved %d times: this proves little", moves)
	}
}

// TestProlongsAtOnce: a process that begins anew prolongs what the kernel has as soon as it knows
// enough, and not at its next tick: the kernel may be about to take it.
func TestProlongsAtOnce(t *testing.T) {
	a := netip.MustParseAddr("192.0.2.1")
	gave := make(chan time.Time, 100)
	e := &ether{leases: map[string]*coordinationv1.Lease{}, clock: testingclock.NewFakeClock(time.Unix(1000, 0)), random: rand.New(rand.NewPCG(1, 1)), between: func(*station) {}}
	s := &station{ether: e, name: "node0", until: map[netip.Addr]time.Time{a: e.clock.Now().Add(1500 * time.Millisecond)}}
	e.gave = func() { gave <- s.until[a] }
	egress := &v1beta1.Egress{ObjectMeta: metav1.ObjectMeta{Name: "e"}, Spec: v1beta1.EgressSpec{EgressIP: a.String(), ExternalIPPool: "p"}}
	egress.Status.Conditions = []v1beta1.EgressCondition{{Type: v1beta1.IPAllocated, Status: metav1.ConditionTrue}}
	lease := s.write(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: LeaseOf(a)}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &s.name}})
	s.begin(func() ([]any, bool) { return []any{nodeOf(s.name, true, "10.244.0.0/24")}, true }, egress, &v1beta1.ExternalIPPool{ObjectMeta: metav1.ObjectMeta{Name: "p"}})
	_ = s.m.addresses.Add(lease)
	list := func(context.Context, metav1.ListOptions) (runtime.Object, error) { return &v1beta1.EgressList{}, nil }
	s.m.Egresses = &cache.ListWatch{ListWithContextFunc: list}
	s.m.Groups = func(context.Context) (Stream, error) { return nil, errCut }
	expires := s.until[a]
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.m.Run(ctx) }()
	select {
	case until := <-gave: // no tick has come, as nobody moves the clock but what waits for answers
		if !until.After(expires) {
			t.Errorf("the kernel has it until %v, as before", until)
		}
	case <-time.After(20 * time.Second):
		t.Error("the address was not prolonged before the first tick")
	}
	cancel()
	<-done
}

// TestExits: how Pods leave, by what is known of Egresses, groups and addresses.
func TestExits(t *testing.T) {
	e := &ether{leases: map[string]*coordinationv1.Lease{}, clock: testingclock.NewFakeClock(time.Unix(1000, 0)), random: rand.New(rand.NewPCG(1, 1))}
	s := &station{ether: e, name: "node0", until: map[netip.Addr]time.Time{}}
	pool := &v1beta1.ExternalIPPool{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1beta1.ExternalIPPoolSpec{IPRanges: []v1beta1.IPRange{{CIDR: "192.0.2.0/24"}}}}
	list := []any{nodeOf("node0", true, "10.244.0.0/24", "fd00::/64"), nodeOf("node1", true, "10.244.1.0/24")}
	older := &v1beta1.Egress{ObjectMeta: metav1.ObjectMeta{Name: "older", CreationTimestamp: metav1.Unix(1, 0)}, Spec: v1beta1.EgressSpec{EgressIP: "192.0.2.1", ExternalIPPool: "p"}}
	s.begin(func() ([]any, bool) { return list, true }, older, pool)
	_ = s.m.egresses.Add(&v1beta1.Egress{ObjectMeta: metav1.ObjectMeta{Name: "younger", CreationTimestamp: metav1.Unix(2, 0)}, Spec: v1beta1.EgressSpec{ExternalIPPool: "p"}})
	pods := []netip.Addr{netip.MustParseAddr("10.244.0.5"), netip.MustParseAddr("10.244.1.5"), netip.MustParseAddr("fd00::5"), netip.MustParseAddr("10.244.0.6")}
	s.m.groups.of = map[string]members{"older": {"n/a": pods[:3], "n/b": nil}, "younger": {"n/a": {pods[0], pods[2]}, "n/c": {pods[3]}}}
	at := netip.MustParseAddr("192.0.2.1")
	for name, c := range map[string]struct {
		holders map[netip.Addr]string
		want    []nft.Exit
	}{
		"nobody has it":      {nil, []nft.Exit{{Pod: pods[0]}, {Pod: pods[3]}, {Pod: pods[1]}}},
		"this Node has it":   {map[netip.Addr]string{at: "node0"}, []nft.Exit{{Pod: pods[0], From: at}, {Pod: pods[3]}, {Pod: pods[1], From: at}}},
		"another one has it": {map[netip.Addr]string{at: "node1"}, []nft.Exit{{Pod: pods[0], By: network.NumberExits([]string{"node1"})["node1"]}, {Pod: pods[3]}, {Pod: pods[1]}}},
	} {
		s.m.change(s.m.sorted(), c.holders, true, list)
		if got, _, known := s.m.Exits(); !known || !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	s.m.change(nil, nil, false, list)
	if got, _, known := s.m.Exits(); !known || len(got) != 3 {
		t.Errorf("what is not known counts: %+v", got)
	}
}

// TestNumbersOfExits: each Node has a number of its own, and the same one with others.
func TestNumbersOfExits(t *testing.T) {
	var names []string
	for i := range network.MaxExits + 20 {
		names = append(names, fmt.Sprint("node", i))
	}
	got, used := network.NumberExits(names), map[uint8]bool{}
	for name, n := range got {
		if n == 0 || n > network.MaxExits || used[n] {
			t.Errorf("%s has %d", name, n)
		}
		used[n] = true
	}
	if len(got) != network.MaxExits {
		t.Errorf("%d Nodes have numbers", len(got))
	}
	if network.ExitShift != ruleset.MarkShift || network.ExitMask != ruleset.MarkMask || network.MaxExits >= ruleset.LeavesHere {
		t.Error("rules and routes have other marks")
	}
}
