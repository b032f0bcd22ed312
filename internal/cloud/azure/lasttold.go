package azure

import (
	"strings"
	"sync"

	"github.com/nephele-io/nephele/internal/cloud/azure/resources"
)

// lastTold remembers load balancers and application gateways, by region and type. Resource Graph
// leaves out what the role may not read, and nothing else tells their addresses: a rule that drops
// what comes from one would drop nothing as soon as the right is withdrawn.
type lastTold struct {
	mu   sync.Mutex
	rows map[[2]string][]resources.Row
}

// keep returns what was reported before of services that the answer leaves out though interfaces
// are behind them, and remembers the answer with it. A service that is gone has no interfaces
// behind it, so it is not kept. What is remembered is no more than the answers had.
func (l *lastTold) keep(w *resources.Region, region string, kinds []resources.ServiceKind, answer []resources.Row) []resources.Row {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []resources.Row
	for _, k := range kinds {
		if k.Type != resources.TypeBalancer && k.Type != resources.TypeGateway {
			continue
		}
		at := [2]string{region, k.Type}
		var now []resources.Row
		for i := range answer {
			if strings.EqualFold(answer[i].Type, k.Type) {
				now = append(now, answer[i])
			}
		}
		resources.MarkShared(now)
		missing := w.Unseen(k.Type, now)
		for _, r := range l.rows[at] {
			if missing[strings.ToLower(r.ID)] != "" {
				now, out = append(now, r), append(out, r)
			}
		}
		if l.rows == nil {
			l.rows = map[[2]string][]resources.Row{}
		}
		l.rows[at] = now
	}
	return out
}
