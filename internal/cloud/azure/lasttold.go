package azure

import (
	"slices"
	"strings"
	"sync"
)

// lastTold remembers load balancers and application gateways, by region and type. Resource Graph
// leaves out what the role may not read, and nothing else tells their addresses: a rule that drops
// what comes from one would drop nothing as soon as the right is withdrawn.
type lastTold struct {
	mu   sync.Mutex
	rows map[[2]string][]row
}

// keep returns what was reported before of services that the answer leaves out though interfaces
// are behind them, and remembers the answer with it. A service that is gone has no interfaces
// behind it, so it is not kept. What is remembered is no more than the answers had.
func (l *lastTold) keep(w *world, region string, kinds []serviceKind, answer []row) []row {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []row
	for _, k := range kinds {
		if k.typ != typeBalancer && k.typ != typeGateway {
			continue
		}
		at := [2]string{region, k.typ}
		var now []row
		for i := range answer {
			if strings.EqualFold(answer[i].Type, k.typ) {
				now = append(now, answer[i])
			}
		}
		markShared(now)
		missing := w.unseen(k.typ, now)
		for _, r := range l.rows[at] {
			if missing[strings.ToLower(r.ID)] != "" {
				now, out = append(now, r), append(out, r)
			}
		}
		if l.rows == nil {
			l.rows = map[[2]string][]row{}
		}
		l.rows[at] = now
	}
	return out
}

// markShared marks the gateways that have others in their subnets. One of these may be forgotten
// later, and the addresses of the rest are no more known than before.
func markShared(rows []row) {
	all, _ := partsOf[gateway](rows, typeGateway, func(g *gateway) *row { return &g.row })
	shared := sharedSubnets(all)
	for i := range rows {
		if g := all[strings.ToLower(rows[i].ID)]; g != nil {
			rows[i].shared = slices.ContainsFunc(g.subnets(), func(s string) bool { return shared[s] })
		}
	}
}
