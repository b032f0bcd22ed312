package realize

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/evaluate"
	simaws "github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/calls"
	"github.com/nephele-io/nephele/internal/tier"
)

var mixedWorlds = flag.Int("mixed-worlds", 0, "how many random histories of two clouds are lived; 0 means 1, and 8 in make test-long")

// both are two accounts as one.
type both [2]*labAccounts

func (b both) of(key string) *labAccounts {
	if b[1].account.Key == key {
		return b[1]
	}
	return b[0]
}

func (b both) Keys() []string                          { return append(b[0].Keys(), b[1].Keys()...) }
func (b both) Account(key string) (Account, bool)      { return b.of(key).Account(key) }
func (b both) Trigger(key string)                      { b.of(key).Trigger(key) }
func (b both) Touched(k string, t map[string][]string) { b.of(k).Touched(k, t) }

func (b both) Subscribe(changed func(string)) func() {
	first, second := b[0].Subscribe(changed), b[1].Subscribe(changed)
	return func() { first(); second() }
}

func (b both) Observed(key string, p cloud.Provider, s []*cloud.Snapshot) bool {
	return b.of(key).Observed(key, p, s)
}

// crossing is a half of a flow: one VM, whatever it talks to.
type crossing struct {
	probe
	out bool
}

func (c crossing) String() string {
	if c.out {
		return c.probe.String() + " out"
	}
	return c.probe.String() + " in"
}

// mixedLab is an account of AWS and one of Azure under one engine and one realizer.
type mixedLab struct {
	*testing.T
	aws *lab
	az  *azureLab
	// halves are all that is looked at, and native what the VMs' own groups said of them at
	// first.
	halves []crossing
	native map[crossing]bool

	mu       sync.Mutex
	old, now map[crossing]bool
	wrong    []string
}

func newMixedLab(t *testing.T) *mixedLab {
	t.Helper()
	l := &mixedLab{T: t, aws: newLab(t, labConfig{estate: "testdata/west.yaml"}), az: newAzureLab(t, azureConfig{account: "azure"}), native: map[crossing]bool{}}
	// Both use the engine and the store of the first one.
	l.az.engine, l.az.store = l.aws.engine, l.aws.store
	for name := range l.az.vms {
		l.az.putEntity(name)
	}
	for _, x := range []*lab{l.aws, l.az.lab} {
		x.options.Accounts = both{l.aws.accounts, l.az.accounts}
	}
	everybody := slices.Concat(slices.Collect(maps.Keys(l.aws.vms)), slices.Collect(maps.Keys(l.az.vms)), []string{"198.51.100.7"})
	slices.Sort(everybody)
	for _, from := range everybody {
		for _, to := range everybody {
			if from == to {
				continue
			}
			for _, port := range []uint16{22, 80, 443, 5432, 8080, 9100} {
				for _, out := range []bool{true, false} {
					c := crossing{probe{from, to, port}, out}
					if l.cloudOf(c.own()) != nil {
						l.halves = append(l.halves, c)
					}
				}
			}
		}
	}
	l.native = l.actual()
	l.aws.server.World().OnMutation(func(m simaws.Mutation) { l.look(m.Action) })
	l.az.seen(func(c calls.Call) {
		if !strings.HasSuffix(c.Action, "/read") {
			l.look(c.Action)
		}
	})
	return l
}

// own is the end that a half is about.
func (c crossing) own() string {
	if c.out {
		return c.from
	}
	return c.to
}

func (l *mixedLab) cloudOf(vm string) *lab {
	if _, ok := l.aws.vms[vm]; ok {
		return l.aws
	}
	if _, ok := l.az.vms[vm]; ok {
		return l.az.lab
	}
	return nil
}

// in is a probe as a cloud knows it: VMs of the other one are addresses there.
func (l *mixedLab) in(at *lab, p probe) probe {
	name := func(end string) string {
		if x := l.cloudOf(end); x != nil && x != at {
			return x.vms[end].addr.String()
		}
		return end
	}
	return probe{name(p.from), name(p.to), p.port}
}

func (l *mixedLab) half(c crossing) bool {
	p := l.in(l.cloudOf(c.own()), c.probe)
	if l.cloudOf(c.own()) == l.aws {
		v := l.aws.ask(p)
		if c.out {
			return v.Egress.Allowed
		}
		return v.Ingress.Allowed
	}
	return l.az.half(p, c.out).Allowed
}

func (l *mixedLab) actual() map[crossing]bool {
	out := map[crossing]bool{}
	for _, c := range l.halves {
		out[c] = l.half(c)
	}
	return out
}

// wanted is what the policies in the engine mean.
func (l *mixedLab) wanted() map[crossing]bool {
	e := evaluate.New(l.aws.engine.Listing())
	endpoint := func(end string) evaluate.Endpoint {
		if x := l.cloudOf(end); x != nil {
			return x.endpoint(end)
		}
		return l.aws.endpoint(end)
	}
	out := map[crossing]bool{}
	for _, c := range l.halves {
		v := e.Evaluate(evaluate.Flow{Source: endpoint(c.from), Destination: endpoint(c.to), Protocol: policy.TCP, Port: c.port})
		d := v.Ingress
		if c.out {
			d = v.Egress
		}
		out[c] = passes(d, l.native[c]) && (c.out || l.subnet(c))
	}
	return out
}

// subnet is what the group of the subnet says, which nobody changes.
func (l *mixedLab) subnet(c crossing) bool {
	if l.cloudOf(c.own()) == l.aws {
		return true
	}
	for _, s := range l.az.half(l.in(l.az.lab, c.probe), c.out).Steps {
		if strings.HasSuffix(s.Group, "subnet-db") {
			return s.Allowed
		}
	}
	return true
}

// look checks after every change of either cloud that nothing is open or closed that is neither
// before nor in the end: flows within a cloud, and what either end says of flows between the two,
// which are not changed in step.
func (l *mixedLab) look(action string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.old == nil {
		return
	}
	actual := l.actual()
	for _, c := range l.halves {
		is, was, will := actual[c], l.old[c], l.now[c]
		if l.cloudOf(c.from) == l.cloudOf(c.to) {
			other := crossing{c.probe, !c.out}
			is, was, will = is && actual[other], was && l.old[other], will && l.now[other]
		}
		if is && !was && !will || !is && was && will {
			l.wrong = append(l.wrong, fmt.Sprintf("after %s: %s: passes = %t, before %t, in the end %t", action, c, is, was, will))
		}
	}
}

// realize publishes what has been put into the engine, and waits until both clouds are so.
func (l *mixedLab) realize(old map[crossing]bool) map[crossing]bool {
	l.Helper()
	delta := l.aws.engine.Commit()
	want := l.wanted()
	l.mu.Lock()
	l.old, l.now = old, want
	l.mu.Unlock()
	l.aws.publishDelta(delta)
	// Of what is not about its VMs an account hears nothing, and realizes nothing anew.
	l.aws.since = time.Time{}
	l.aws.settle()
	l.az.settle()
	var diff []string
	for c, is := range l.actual() {
		if is != want[c] {
			diff = append(diff, fmt.Sprintf("%s: passes = %t, want %t", c, is, want[c]))
		}
	}
	if len(diff) > 0 {
		slices.Sort(diff)
		l.Fatalf("%d halves of flows:\n%s", len(diff), strings.Join(diff[:min(len(diff), 10)], "\n"))
	}
	return want
}

// randomPolicy is a policy about VMs of both clouds.
func randomPolicy(r *rand.Rand, i int) policy.Policy {
	roles := []string{"web", "db", "ops"}
	some := func() []string {
		out := slices.Clone(roles)
		r.Shuffle(len(out), func(a, b int) { out[a], out[b] = out[b], out[a] })
		return out[:1+r.IntN(2)]
	}
	p := clusterPolicy(fmt.Sprintf("random-%d", i), 1, float64(1+r.IntN(5)))
	p.AppliedTo = applied(some()...)
	blocks := []string{"10.9.0.0/16", "10.1.0.0/16", "10.1.1.0/24", "10.2.0.0/16", "198.51.100.0/24", "0.0.0.0/0"}
	all := []int32{22, 80, 443, 5432, 8080, 9100}
	for range 1 + r.IntN(3) {
		rule := policy.Rule{Action: []policy.Action{policy.Allow, policy.Allow, policy.Drop, policy.Pass}[r.IntN(4)]}
		if r.IntN(2) == 0 {
			rule.Peers = from(some()...)
		} else {
			rule.Peers = block(blocks[r.IntN(len(blocks))])
		}
		if r.IntN(4) > 0 {
			rule.Ports = ports(all[r.IntN(len(all))], all[r.IntN(len(all))])
		}
		if r.IntN(3) == 0 {
			p.Egress = append(p.Egress, rule)
		} else {
			p.Ingress = append(p.Ingress, rule)
		}
	}
	return p
}

// TestMixedWorlds lives random histories of an account of AWS and one of Azure under one realizer:
// policies are about VMs of both, and each is a peer to the other by its addresses. After every
// event both simulators give the verdicts of the evaluator, after every call they are between the
// two, and in the end both clouds are as they were.
func TestMixedWorlds(t *testing.T) {
	t.Parallel()
	_, seed := seeded(t)
	for i := range cmp.Or(*mixedWorlds, tier.Pick(1, 1, 8)) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			t.Logf("seed %d, world %d (-fault-seed %[1]d)", seed, i)
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			l := newMixedLab(t)
			before, beforeAzure := l.aws.holdings(), l.az.documents()
			l.start()
			at := l.native
			in := map[string]policy.Policy{}
			for step := range 6 {
				switch names := slices.Sorted(maps.Keys(in)); {
				case step == 3:
					l.az.relabel("ops-1", "web")
				case len(names) > 1 && r.IntN(3) == 0:
					gone := in[names[r.IntN(len(names))]]
					delete(in, gone.Name)
					l.aws.engine.DeletePolicy(gone.UID)
				case len(names) > 0 && r.IntN(2) == 0:
					old := in[names[r.IntN(len(names))]]
					next := randomPolicy(r, 0)
					next.Name, next.UID, next.Generation = old.Name, old.UID, old.Generation+1
					in[next.Name] = next
					l.aws.engine.PutPolicy(next)
				default:
					p := randomPolicy(r, step)
					in[p.Name] = p
					l.aws.engine.PutPolicy(p)
				}
				at = l.realize(at)
			}
			for _, p := range in {
				l.aws.engine.DeletePolicy(p.UID)
			}
			l.realize(at)
			if len(l.wrong) > 0 {
				t.Errorf("in between:\n%s", strings.Join(l.wrong[:min(len(l.wrong), 10)], "\n"))
			}
			l.az.unchanged(beforeAzure)
			if after := l.aws.holdings(); !maps.EqualFunc(before.NICs, after.NICs, slices.Equal[[]string]) || len(after.Groups) != len(before.Groups) {
				t.Errorf("on AWS something is left: %v, was %v", after, before)
			}
		})
	}
}

// start runs one realizer over both accounts.
func (l *mixedLab) start() {
	l.Helper()
	l.az.accounts.observe(l.Context())
	l.aws.cluster = nil // the key of records is that of one account's object here
	l.aws.options.Accounts = both{l.aws.accounts, l.az.accounts}
	l.aws.publish()
	l.aws.start()
	l.az.realizer, l.az.options.Records = l.aws.realizer, nil
	l.aws.settle()
	l.az.settle()
}

// TestMixedStory: one policy lets the web tier on AWS talk to the database on Azure and nobody
// else, in both clouds, by the addresses of the VMs; a VM that changes its label is in or out on
// both sides.
func TestMixedStory(t *testing.T) {
	t.Parallel()
	l := newMixedLab(t)
	l.start()
	p := clusterPolicy("db-from-web", 1, 5)
	p.AppliedTo = applied("db")
	p.Ingress = []policy.Rule{{Action: policy.Allow, Peers: from("web"), Ports: ports(5432)}}
	l.aws.engine.PutPolicy(p)
	at := l.realize(l.native)
	reach := func(from, to string) bool { return l.half(crossing{probe{from, to, 5432}, false}) }
	if !reach("web-west", "db-1") || !reach("web-1", "db-west") || reach("ops-west", "db-1") || reach("ops-1", "db-west") {
		t.Errorf("web to db: %t, %t; ops to db: %t, %t", reach("web-west", "db-1"), reach("web-1", "db-west"), reach("ops-west", "db-1"), reach("ops-1", "db-west"))
	}
	l.aws.relabel("ops-west", "web")
	l.az.relabel("web-1", "ops")
	at = l.realize(at)
	if !reach("ops-west", "db-1") || reach("web-1", "db-west") {
		t.Errorf("after the labels have changed: %t, %t", reach("ops-west", "db-1"), reach("web-1", "db-west"))
	}
	l.aws.engine.DeletePolicy(p.UID)
	l.realize(at)
	if len(l.wrong) > 0 {
		t.Errorf("in between:\n%s", strings.Join(l.wrong, "\n"))
	}
}

var _ Accounts = both{}
