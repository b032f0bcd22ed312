package enforcer

import (
	"slices"
	"sync"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// ledger notes what was reported to a server, so that it need not be told again. Servers may lose
// that, and drop reports on policies that they have moved on from; both shows in the watch of
// policies, and what it shows is forgotten here.
type ledger struct {
	mu   sync.Mutex
	keys map[string]*page
}

// page is what was reported in the name of one key.
type page struct {
	// turn counts what was forgotten: a report that was under way meanwhile is not noted.
	turn     uint64
	policies map[string][]v1beta2.NetworkPolicyNodeStatus
}

// page needs mu.
func (l *ledger) page(key string) *page {
	if l.keys == nil {
		l.keys = map[string]*page{}
	}
	if l.keys[key] == nil {
		l.keys[key] = &page{policies: map[string][]v1beta2.NetworkPolicyNodeStatus{}}
	}
	return l.keys[key]
}

// forget drops everything about a key.
func (l *ledger) forget(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.page(key)
	p.turn++
	clear(p.policies)
}

// forgetPolicy drops what was reported about one policy.
func (l *ledger) forgetPolicy(key, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.page(key)
	p.turn++
	delete(p.policies, name)
}

// check reports whether the status was reported already. If not, the returned function notes that
// it is now.
func (l *ledger) check(s *v1beta2.NetworkPolicyStatus) (known bool, note func()) {
	if len(s.Nodes) != 1 {
		return false, func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.page(s.Nodes[0].NodeName)
	if slices.Equal(p.policies[s.Name], s.Nodes) {
		return true, nil
	}
	turn, nodes := p.turn, slices.Clone(s.Nodes)
	return false, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if p.turn == turn {
			p.policies[s.Name] = nodes
		}
	}
}
