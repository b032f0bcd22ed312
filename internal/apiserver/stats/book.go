package stats

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/api/stats/v1alpha1"
)

// maxRules is how many rules of one policy are counted apart: more than a policy can have. Rules
// that the policy no longer has are dropped first.
const maxRules = 1024

// maxStated is how much all Nodes together may have said last about multicast and latency: Pods of
// groups, and addresses that were measured. It takes about 100 bytes each.
const maxStated = 500_000

// ErrFull tells that so much is known of multicast and latency that no more is taken.
var ErrFull = errors.New("as much is known of multicast and latency as may be")

// Policy is what is counted for.
type Policy struct {
	// Kind is one of the three kinds that have statistics: K8sNetworkPolicy, AntreaNetworkPolicy,
	// AntreaClusterNetworkPolicy.
	Kind v1beta2.NetworkPolicyType
	// Namespace is empty for AntreaClusterNetworkPolicy.
	Namespace, Name string
	UID             types.UID
}

// Counters are the sums of one policy.
type Counters struct {
	Policy
	// Since is when counting began.
	Since metav1.Time
	Total v1alpha1.TrafficStats
	// Rules are sorted by name; a Kubernetes policy has none.
	Rules []v1alpha1.RuleTrafficStats
}

// Book holds the counters. See the package comment; use New.
type Book struct {
	clock clock.PassiveClock

	mu       sync.RWMutex
	policies map[types.UID]*page
	// named finds the page of the policy that has the name now.
	named map[nameKey]*page
	// multicast is, by enforcer, what it said last; latency by Node.
	multicast map[string][]v1beta2.MulticastGroupInfo
	latency   map[string]*v1alpha1.NodeLatencyStats
	// stated is how much both are together.
	stated int
}

type nameKey struct {
	kind            v1beta2.NetworkPolicyType
	namespace, name string
}

type page struct {
	Policy
	since metav1.Time
	total v1alpha1.TrafficStats
	rules map[string]*v1alpha1.TrafficStats
	// elsewhere is what other clusters have counted, by their names.
	elsewhere map[string]*part
}

// part is what another cluster has counted: what its process says in all, and what former ones did.
type part struct {
	epoch       string
	now, former sums
}

// sums holds the sums of a policy, and of its rules by their names.
type sums struct {
	total v1alpha1.TrafficStats
	rules map[string]v1alpha1.TrafficStats
}

func (p *page) key() nameKey { return nameKey{p.Kind, p.Namespace, p.Name} }

// New returns an empty Book.
func New(c clock.PassiveClock) *Book {
	return &Book{
		clock: c, policies: map[types.UID]*page{}, named: map[nameKey]*page{},
		multicast: map[string][]v1beta2.MulticastGroupInfo{}, latency: map[string]*v1alpha1.NodeLatencyStats{},
	}
}

// Begin has a policy counted from now on. It does nothing for one that is counted already.
func (b *Book) Begin(p Policy) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.policies[p.UID] != nil {
		return
	}
	// Times on the wire are in seconds.
	g := &page{Policy: p, since: metav1.NewTime(b.clock.Now()).Rfc3339Copy()}
	b.policies[p.UID], b.named[g.key()] = g, g
}

// End forgets a policy.
func (b *Book) End(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.policies[uid]; p != nil {
		delete(b.policies, uid)
		// The name may belong to a successor by now.
		if b.named[p.key()] == p {
			delete(b.named, p.key())
		}
	}
}

// Computed says what enforcers have been given.
type Computed interface {
	// Concerns reports whether the policy of that uid concerns the enforcer with the key.
	Concerns(key string, policy types.UID) bool
	// Rules returns the names of the policy's rules.
	Rules(policy types.UID) []string
}

// Add takes the report of an enforcer with the given key: of what it counts, that about policies
// that concern it. It does not keep the value. Of multicast it takes what there is room for.
func (b *Book) Add(key string, s *v1beta2.NodeStatsSummary, given Computed) {
	// given is asked before the Book is locked.
	var accepted []report
	for _, kind := range []struct {
		kind v1beta2.NetworkPolicyType
		list []v1beta2.NetworkPolicyStats
	}{
		{v1beta2.K8sNetworkPolicy, s.NetworkPolicies}, {v1beta2.AntreaNetworkPolicy, s.AntreaNetworkPolicies},
		{v1beta2.AntreaClusterNetworkPolicy, s.AntreaClusterNetworkPolicies},
	} {
		for i := range kind.list {
			r := report{kind: kind.kind, stats: &kind.list[i]}
			uid := r.stats.NetworkPolicy.UID
			if !given.Concerns(key, uid) {
				continue
			}
			if kind.kind != v1beta2.K8sNetworkPolicy && len(r.stats.RuleTrafficStats) > 0 {
				r.rules = given.Rules(uid)
			}
			accepted = append(accepted, r)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range accepted {
		b.add(r)
	}
	b.join(key, s.Multicast)
}

// join takes which groups the Pods of an enforcer have joined; what was known stays if there is no
// room.
func (b *Book) join(key string, groups []v1beta2.MulticastGroupInfo) {
	if b.room(pods(b.multicast[key]), pods(groups)) != nil {
		return
	}
	if len(groups) == 0 {
		delete(b.multicast, key)
		return
	}
	kept := make([]v1beta2.MulticastGroupInfo, len(groups))
	for i := range groups {
		groups[i].DeepCopyInto(&kept[i])
	}
	b.multicast[key] = kept
}

// room makes what was stated give way to what is stated now, if there is room for it.
func (b *Book) room(former, now int) error {
	if b.stated-former+now > maxStated && now > former {
		return ErrFull
	}
	b.stated += now - former
	return nil
}

// pods is how much groups are.
func pods(groups []v1beta2.MulticastGroupInfo) int {
	n := len(groups)
	for i := range groups {
		n += len(groups[i].Pods)
	}
	return n
}

// targets is how much measurements are.
func targets(s *v1alpha1.NodeLatencyStats) int {
	if s == nil {
		return 0
	}
	n := 1 + len(s.PeerNodeLatencyStats)
	for i := range s.PeerNodeLatencyStats {
		n += len(s.PeerNodeLatencyStats[i].TargetIPLatencyStats)
	}
	return n
}

// report is what an enforcer counts for one policy, and the names of the rules that the policy has.
type report struct {
	kind  v1beta2.NetworkPolicyType
	stats *v1beta2.NetworkPolicyStats
	rules []string
}

func (b *Book) add(r report) {
	p := b.policies[r.stats.NetworkPolicy.UID]
	if p == nil || p.Kind != r.kind {
		return
	}
	if r.kind == v1beta2.K8sNetworkPolicy || len(r.stats.RuleTrafficStats) == 0 {
		addUp(&p.total, r.stats.TrafficStats)
		return
	}
	for _, counted := range r.stats.RuleTrafficStats {
		// Also that of a rule which the policy has no longer, or never had, is the policy's.
		addUp(&p.total, counted.TrafficStats)
		if sum := p.rule(counted.Name, r.rules); sum != nil {
			addUp(sum, counted.TrafficStats)
		}
	}
}

// rule returns the sums of a rule, given those that the policy has; nil if it is none of them.
func (p *page) rule(name string, has []string) *v1alpha1.TrafficStats {
	if !slices.Contains(has, name) {
		return nil
	}
	if sum := p.rules[name]; sum != nil {
		return sum
	}
	if len(p.rules) >= maxRules {
		maps.DeleteFunc(p.rules, func(name string, _ *v1alpha1.TrafficStats) bool { return !slices.Contains(has, name) })
	}
	if len(p.rules) >= maxRules {
		return nil
	}
	if p.rules == nil {
		p.rules = map[string]*v1alpha1.TrafficStats{}
	}
	sum := &v1alpha1.TrafficStats{}
	p.rules[name] = sum
	return sum
}

func addUp(sum *v1alpha1.TrafficStats, more v1beta2.TrafficStats) {
	sum.Packets = plus(sum.Packets, more.Packets)
	sum.Bytes = plus(sum.Bytes, more.Bytes)
	sum.Sessions = plus(sum.Sessions, more.Sessions)
}

// plus adds without overflow; less than nothing counts as nothing.
func plus(a, b int64) int64 {
	if b = max(b, 0); a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Get returns the counters of a policy by name; false if there is none.
func (b *Book) Get(kind v1beta2.NetworkPolicyType, namespace, name string) (Counters, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	p := b.named[nameKey{kind, namespace, name}]
	if p == nil {
		return Counters{}, false
	}
	return p.counters(), true
}

// List returns the counters of the policies of a kind, sorted by namespace and name; with a
// namespace of those in it only.
func (b *Book) List(kind v1beta2.NetworkPolicyType, namespace string) []Counters {
	b.mu.RLock()
	defer b.mu.RUnlock()
	var out []Counters
	for key, p := range b.named {
		if key.kind == kind && (namespace == "" || key.namespace == namespace) {
			out = append(out, p.counters())
		}
	}
	slices.SortFunc(out, func(x, y Counters) int {
		return cmp.Or(strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Name, y.Name))
	})
	return out
}

func (p *page) counters() Counters {
	all := sums{total: p.total}
	for name, s := range p.rules {
		all.add(sums{rules: map[string]v1alpha1.TrafficStats{name: *s}})
	}
	for _, e := range p.elsewhere {
		all.add(e.now)
		all.add(e.former)
	}
	c := Counters{Policy: p.Policy, Since: p.since, Total: all.total}
	for _, name := range slices.Sorted(maps.Keys(all.rules)) {
		c.Rules = append(c.Rules, v1alpha1.RuleTrafficStats{Name: name, TrafficStats: all.rules[name]})
	}
	return c
}
