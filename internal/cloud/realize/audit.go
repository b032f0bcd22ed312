package realize

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/realize/status"
)

// ledger tells how the objects of a region are before an operation: as they were observed, or as
// the operations since have left them.
type ledger struct {
	seen *cloud.Snapshot

	mu     sync.Mutex
	groups map[string][]string          // of interfaces that were changed since
	tags   map[string]map[string]string // of objects that were changed since
}

// ledgers begins a ledger for each region of an observation.
func ledgers(seen observation) map[string]*ledger {
	out := map[string]*ledger{}
	for _, r := range seen.regions {
		out[r.Snapshot.Region] = &ledger{seen: r.Snapshot, groups: map[string][]string{}, tags: map[string]map[string]string{}}
	}
	return out
}

// cause is what is known of an operation that is about to be done.
func (l *ledger) cause(s plan.Step, op cloud.Op) cloud.Cause {
	var out cloud.Cause
	for _, p := range s.Policies {
		out.Policies = append(out.Policies, policyName(p))
	}
	if l == nil {
		return out
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch op.Kind {
	case cloud.OpSetInterfaceGroups:
		out.Groups = l.held(op.Target)
	case cloud.OpTag, cloud.OpUntag:
		for _, id := range op.Subjects() {
			for k := range op.Tags {
				value, there := l.tagged(id)[k]
				if !there {
					continue
				}
				if out.Tags == nil {
					out.Tags = map[string]map[string]string{}
				}
				if out.Tags[id] == nil {
					out.Tags[id] = map[string]string{}
				}
				out.Tags[id][k] = value
			}
		}
	}
	return out
}

// done notes that an operation has taken effect.
func (l *ledger) done(op cloud.Op) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch op.Kind {
	case cloud.OpSetInterfaceGroups:
		l.groups[op.Target] = slices.Sorted(slices.Values(op.GroupIDs))
	case cloud.OpTag, cloud.OpUntag:
		for _, id := range op.Subjects() {
			tags := maps.Clone(l.tagged(id))
			if tags == nil {
				tags = map[string]string{}
			}
			for k, v := range op.Tags {
				if op.Kind == cloud.OpTag {
					tags[k] = v
				} else {
					delete(tags, k)
				}
			}
			l.tags[id] = tags
		}
	}
}

// held returns the groups of an interface.
func (l *ledger) held(id string) []string {
	if groups, ok := l.groups[id]; ok {
		return groups
	}
	if n := l.seen.Interface(id); n != nil {
		return n.GroupIDs
	}
	return nil
}

// tagged returns the tags of an interface, a group or a network.
func (l *ledger) tagged(id string) map[string]string {
	if tags, ok := l.tags[id]; ok {
		return tags
	}
	if n := l.seen.Interface(id); n != nil {
		return n.Tags
	}
	if g := l.seen.Group(id); g != nil {
		return g.Tags
	}
	if n := l.seen.Network(id); n != nil {
		return n.Tags
	}
	return nil
}

// policyName names a policy as people do.
func policyName(p plan.PolicyRef) string {
	return string(p.Kind) + " " + strings.TrimPrefix(p.Namespace+"/"+p.Name, "/")
}

// changesOf is what one operation changes.
func changesOf(s plan.Step, op cloud.Op) status.Changes {
	n := 1
	done := map[cloud.OpKind]int{}
	switch op.Kind {
	case cloud.OpSetRules:
		done[cloud.OpAddRules], done[cloud.OpRemoveRules] = len(op.Added()), len(op.Removed())
	case cloud.OpAddRules, cloud.OpRemoveRules, cloud.OpReplaceRules:
		n = len(op.Rules)
	case cloud.OpTag, cloud.OpUntag:
		n = len(op.Subjects())
	}
	if op.Kind != cloud.OpSetRules {
		done[op.Kind] = n
	}
	out := status.Changes{Done: done, Policies: map[string]bool{}}
	for _, p := range s.Policies {
		out.Policies[policyName(p)] = true
	}
	return out
}

// bookkeeping keeps count of what a worker does.
type bookkeeping struct {
	// ledgers holds the ledgers of the plan that is being applied, by region; only run's goroutine
	// sets them.
	ledgers map[string]*ledger
	sent    atomic.Int64

	mu      sync.Mutex
	changes status.Changes // not told yet
}

// takeChanges returns what was changed since the last call.
func (b *bookkeeping) takeChanges() status.Changes {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.changes
	out.Calls += b.sent.Swap(0)
	b.changes = status.Changes{}
	return out
}

// with returns a context for an operation, with its cause.
func (b *bookkeeping) with(ctx context.Context, s plan.Step, op cloud.Op) context.Context {
	c := b.ledgers[s.Scope.Region].cause(s, op)
	c.Sent = func() { b.sent.Add(1) }
	return cloud.WithCause(ctx, c)
}

// done notes that an operation has taken effect.
func (b *bookkeeping) done(s plan.Step, op cloud.Op) {
	b.ledgers[s.Scope.Region].done(op)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changes.Add(changesOf(s, op))
}
