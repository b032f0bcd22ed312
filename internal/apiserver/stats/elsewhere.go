package stats

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/stats/v1alpha1"
)

// mostElsewhere bounds each sum of one cluster, so that the sums of all clusters can be added: one
// cluster decides only its own part.
const mostElsewhere = 1 << 50

// PutElsewhere takes what another cluster of the set has counted for a policy, in all since its
// process began, which epoch names: it takes the place of what that process has said before. Rules
// are by their names.
func (b *Book) PutElsewhere(cluster, epoch string, policy types.UID, total v1alpha1.TrafficStats, rules map[string]v1alpha1.TrafficStats) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.policies[policy]
	if p == nil {
		return
	}
	e := p.elsewhere[cluster]
	if e == nil {
		e = &part{}
		if p.elsewhere == nil {
			p.elsewhere = map[string]*part{}
		}
		p.elsewhere[cluster] = e
	}
	// A cluster that counts less has begun anew.
	if e.epoch != epoch || total.Sessions < e.now.total.Sessions || total.Packets < e.now.total.Packets || total.Bytes < e.now.total.Bytes {
		e.former.add(e.now)
		e.former.bound()
	}
	e.epoch, e.now = epoch, sums{total, rules}
	e.now.bound()
}

// DropElsewhere forgets what a cluster has counted.
func (b *Book) DropElsewhere(cluster string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.policies {
		delete(p.elsewhere, cluster)
	}
}

func (s *sums) add(more sums) {
	s.total = together(s.total, more.total)
	for name, r := range more.rules {
		if s.rules == nil {
			s.rules = map[string]v1alpha1.TrafficStats{}
		}
		s.rules[name] = together(s.rules[name], r)
	}
}

// bound keeps each sum below mostElsewhere.
func (s *sums) bound() {
	below := func(t v1alpha1.TrafficStats) v1alpha1.TrafficStats {
		return v1alpha1.TrafficStats{Packets: min(max(t.Packets, 0), mostElsewhere), Bytes: min(max(t.Bytes, 0), mostElsewhere), Sessions: min(max(t.Sessions, 0), mostElsewhere)}
	}
	s.total = below(s.total)
	for name, r := range s.rules {
		s.rules[name] = below(r)
	}
}

func together(a, b v1alpha1.TrafficStats) v1alpha1.TrafficStats {
	return v1alpha1.TrafficStats{Packets: plus(a.Packets, b.Packets), Bytes: plus(a.Bytes, b.Bytes), Sessions: plus(a.Sessions, b.Sessions)}
}
