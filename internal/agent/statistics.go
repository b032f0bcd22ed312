package agent

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/platform/errtext"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

const (
	// countInterval is how often the counters are read and sent, unless reading them takes longer
	// than a part in countShare of it, as where there are tens of thousands of rules: the kernel
	// tells each rule whole.
	countInterval = time.Minute
	countShare    = 400
	// mostOwed bounds how many rules it is remembered of what is still to be sent; what is counted
	// of more while nobody takes it is lost.
	mostOwed = 100_000
)

// countedRule is what is counted together: the rules of the kernel that one rule of a policy has
// become.
type countedRule struct {
	policy v1beta2.NetworkPolicyReference
	name   string
}

// meter adds up what the kernel counts. A rule of the kernel counts from zero and is known by its
// handle, so nothing is counted twice and no sum goes backwards, whatever is replaced.
type meter struct {
	// last are the counters that are not zero.
	last map[uint64]kernel.Counter
	owed map[countedRule]v1beta2.TrafficStats
}

// begin takes what is there for counted already: by a former process.
func (m *meter) begin(counters map[string][]kernel.Counter) {
	m.last, m.owed = map[uint64]kernel.Counter{}, map[countedRule]v1beta2.TrafficStats{}
	for _, list := range counters {
		for _, c := range list {
			if c.Packets > 0 {
				m.last[c.Handle] = c
			}
		}
	}
}

// add takes the counters of chains of a program. A chain that is not as the program says is passed
// over: somebody is changing it.
func (m *meter) add(p *ruleset.Program, counters map[string][]kernel.Counter) {
	for name, list := range counters {
		chain := p.Chains[name]
		if chain == nil || len(chain.Rules) != len(list) {
			continue
		}
		for i, c := range list {
			r := &chain.Rules[i]
			if !r.Counted() {
				continue
			}
			before := m.last[c.Handle]
			if c.Packets == before.Packets {
				continue
			}
			m.last[c.Handle] = c
			if c.Packets < before.Packets {
				continue
			}
			key := countedRule{r.Origin.Policy, r.Origin.Name}
			sum, known := m.owed[key]
			if !known && len(m.owed) >= mostOwed {
				continue
			}
			packets := int64(c.Packets - before.Packets)
			// Packets of connections that are known are not looked at again, so each begins one.
			sum.Packets, sum.Sessions, sum.Bytes = sum.Packets+packets, sum.Sessions+packets, sum.Bytes+int64(c.Bytes-min(c.Bytes, before.Bytes))
			m.owed[key] = sum
		}
	}
}

// forget drops the handles that are not among all the counters.
func (m *meter) forget(all map[string][]kernel.Counter) {
	there := map[uint64]kernel.Counter{}
	for _, list := range all {
		for _, c := range list {
			if last, known := m.last[c.Handle]; known {
				there[c.Handle] = last
			}
		}
	}
	m.last = there
}

// take returns what is owed, and owes nothing any more.
func (m *meter) take() map[countedRule]v1beta2.TrafficStats {
	out := m.owed
	m.owed = map[countedRule]v1beta2.TrafficStats{}
	return out
}

// giveBack owes again what was taken and not sent.
func (m *meter) giveBack(of map[countedRule]v1beta2.TrafficStats) {
	for key, t := range of {
		sum := m.owed[key]
		m.owed[key] = v1beta2.TrafficStats{Packets: sum.Packets + t.Packets, Bytes: sum.Bytes + t.Bytes, Sessions: sum.Sessions + t.Sessions}
	}
}

// summary is what was counted as the controller takes it.
func summary(key string, of map[countedRule]v1beta2.TrafficStats) *v1beta2.NodeStatsSummary {
	out := &v1beta2.NodeStatsSummary{ObjectMeta: metav1.ObjectMeta{Name: key}}
	policies := map[v1beta2.NetworkPolicyReference]*v1beta2.NetworkPolicyStats{}
	for rule, t := range of {
		p := policies[rule.policy]
		if p == nil {
			p = &v1beta2.NetworkPolicyStats{NetworkPolicy: rule.policy}
			policies[rule.policy] = p
		}
		if rule.policy.Type == v1beta2.K8sNetworkPolicy {
			p.TrafficStats.Packets, p.TrafficStats.Bytes, p.TrafficStats.Sessions =
				p.TrafficStats.Packets+t.Packets, p.TrafficStats.Bytes+t.Bytes, p.TrafficStats.Sessions+t.Sessions
			continue
		}
		p.RuleTrafficStats = append(p.RuleTrafficStats, v1beta2.RuleTrafficStats{Name: rule.name, TrafficStats: t})
	}
	sorted := slices.SortedFunc(maps.Keys(policies), func(x, y v1beta2.NetworkPolicyReference) int { return cmp.Compare(x.UID, y.UID) })
	for _, ref := range sorted {
		p := *policies[ref]
		slices.SortFunc(p.RuleTrafficStats, func(x, y v1beta2.RuleTrafficStats) int { return cmp.Compare(x.Name, y.Name) })
		switch ref.Type {
		case v1beta2.K8sNetworkPolicy:
			out.NetworkPolicies = append(out.NetworkPolicies, p)
		case v1beta2.AntreaNetworkPolicy:
			out.AntreaNetworkPolicies = append(out.AntreaNetworkPolicies, p)
		case v1beta2.AntreaClusterNetworkPolicy:
			out.AntreaClusterNetworkPolicies = append(out.AntreaClusterNetworkPolicies, p)
		}
	}
	return out
}

// counting is how far what is counted was sent.
type counting struct {
	meter   meter
	begun   bool
	results chan counted
	running bool
	// next is when it is time to read the counters.
	next time.Time
}

// counted is how sending went, and what is still to be sent.
type counted struct {
	of  map[countedRule]v1beta2.TrafficStats
	err error
}

// countBefore takes what the chains have counted that a change is about to replace.
func (a *Agent) countBefore(c *ruleset.Change) {
	if a.options.Statistics == nil {
		return
	}
	if !a.counting.begun {
		counters, err := a.options.Table.Counters()
		if a.counting.begun = err == nil; err == nil {
			a.counting.meter.begin(counters)
		}
		return
	}
	chains := slices.Clone(c.Gone)
	for _, ch := range c.Chains {
		chains = append(chains, ch.Name)
	}
	if len(chains) == 0 || a.force.program == nil {
		return
	}
	counters, err := a.options.Table.Counters(chains...)
	if err == nil {
		a.counting.meter.add(a.force.program, counters)
	}
	a.board.change(func(s *Status) { s.Faults.Statistics = errtext.Of(err) })
}

// sendCounts sends what was counted, when it is time. It does not wait for the answer.
func (a *Agent) sendCounts(ctx context.Context) {
	c, now := &a.counting, a.options.Clock.Now()
	if a.options.Statistics == nil || a.force.program == nil || a.dirty || !c.begun || c.running || now.Before(c.next) {
		return
	}
	counters, err := a.options.Table.Counters()
	c.next = now.Add(max(countInterval, countShare*a.options.Clock.Since(now)))
	if err != nil {
		a.board.change(func(s *Status) { s.Faults.Statistics = err.Error() })
		return
	}
	c.meter.add(a.force.program, counters)
	c.meter.forget(counters)
	a.memory.trimAt = now.Add(trimAfter)
	of := c.meter.take()
	if len(of) == 0 {
		return
	}
	c.running = true
	go func() {
		ctx, cancel := context.WithTimeout(ctx, infoLimit)
		defer cancel()
		left := portions(of)
		err := recovered.Call(func() error {
			for len(left) > 0 {
				if err := a.options.Statistics(ctx, summary(a.options.Key, left[0])); err != nil {
					return err
				}
				left = left[1:]
			}
			return nil
		})
		unsent := map[countedRule]v1beta2.TrafficStats{}
		for _, p := range left {
			maps.Copy(unsent, p)
		}
		c.results <- counted{unsent, err}
	}()
}

// portions divides what was counted into what the controller takes at once: as JSON, which is the
// larger encoding, less than 256 KiB.
func portions(of map[countedRule]v1beta2.TrafficStats) []map[countedRule]v1beta2.TrafficStats {
	const most, perRule, perPolicy = 224 << 10, 200, 160
	// The rules of a policy stand together, so that it is named once.
	rules := slices.SortedFunc(maps.Keys(of), func(x, y countedRule) int {
		return cmp.Or(cmp.Compare(x.policy.UID, y.policy.UID), cmp.Compare(x.name, y.name))
	})
	var out []map[countedRule]v1beta2.TrafficStats
	size := most
	for i, r := range rules {
		policy := perPolicy + len(r.policy.Namespace) + len(r.policy.Name) + len(r.policy.UID)
		rule := perRule + len(r.name)
		if i == 0 || r.policy != rules[i-1].policy {
			rule += policy
		}
		if size+rule > most {
			out, size = append(out, map[countedRule]v1beta2.TrafficStats{}), policy
		}
		out[len(out)-1][r] = of[r]
		size += rule
	}
	return out
}

// wasCounted takes in how that went.
func (a *Agent) wasCounted(c counted) {
	a.counting.running = false
	if c.err != nil {
		a.counting.meter.giveBack(c.of)
	}
	a.board.change(func(s *Status) { s.Faults.Statistics = errtext.Of(c.err) })
}
