package status

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nephele-io/nephele/internal/cloud"
)

// changesPause is how long after an event about changes of an account the next one may come.
// Changes in between share one event.
const changesPause = 10 * time.Second

// untoldChanges holds the changes of an account since its last event.
type untoldChanges struct {
	Changes
	told time.Time
	// number counts the events.
	number int
}

// note keeps what a report says was changed.
func (u *untoldChanges) note(r Report) {
	if r.Changes.Calls > 0 || len(r.Changes.Done) > 0 {
		u.Add(r.Changes)
	}
}

// owesChanges reports whether changes of an account still need an event that no further report will
// bring about.
func (s *Writer) owesChanges(a *accountStatus, r Report) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return a.changes.Calls > 0 && !r.underWay()
}

// underWay reports whether there is more to come of what the report tells.
func (r Report) underWay() bool { return r.Err == nil && r.Result != nil && !r.Result.Plan.Empty() }

// reportChanges tells, by one event on the account, what was changed in it since the last one.
func (s *Writer) reportChanges(ctx context.Context, a *accountStatus, r Report) error {
	if !s.owesChanges(a, r) {
		return nil
	}
	account, err := s.account(ctx, r)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u := &a.changes
	switch {
	case account == nil: // there is nobody to tell
		u.Changes = Changes{}
		return nil
	case s.Clock.Since(u.told) < changesPause:
		return nil
	}
	u.number++
	// Events with equal words for what is done would be counted as one, with the text of the
	// first.
	s.Events.Eventf(account, nil, corev1.EventTypeNormal, "Changed", fmt.Sprintf("Realize-%d", u.number), "%s", note(u.String()))
	u.Changes, u.told = Changes{}, s.Clock.Now()
	return nil
}

// Changes is what was changed in an account: a sum over operations that took effect.
type Changes struct {
	// Calls are all attempts of calls that change something, also of operations that failed.
	Calls int64
	// Done counts the interfaces, groups, rules and objects that the operations of each kind
	// were about.
	Done map[cloud.OpKind]int
	// Policies are those that any of it was done for.
	Policies map[string]bool
}

// Add makes c the sum of both. It keeps nothing of o.
func (c *Changes) Add(o Changes) {
	c.Calls += o.Calls
	if c.Done == nil {
		c.Done, c.Policies = map[cloud.OpKind]int{}, map[string]bool{}
	}
	for kind, n := range o.Done {
		c.Done[kind] += n
	}
	maps.Copy(c.Policies, o.Policies)
}

// mostNamed is how many policies are named in the text of changes.
const mostNamed = 10

func (c Changes) String() string {
	var parts []string
	for _, d := range []struct {
		kind       cloud.OpKind
		noun, verb string
	}{
		{cloud.OpSetInterfaceGroups, "interface", "edited"}, {cloud.OpCreateGroup, "group", "created"}, {cloud.OpDeleteGroup, "group", "deleted"},
		{cloud.OpAddRules, "rule", "added"}, {cloud.OpRemoveRules, "rule", "removed"}, {cloud.OpReplaceRules, "rule", "replaced"},
		{cloud.OpTag, "object", "tagged"}, {cloud.OpUntag, "object", "untagged"},
	} {
		if n := c.Done[d.kind]; n > 0 {
			parts = append(parts, cloud.Counted(n, d.noun)+" "+d.verb)
		}
	}
	out := cloud.Counted(int(c.Calls), "call") + " to the cloud: " + cmp.Or(strings.Join(parts, ", "), "nothing is known to have taken effect")
	names := slices.Sorted(maps.Keys(c.Policies))
	if len(names) == 0 {
		return out
	}
	out += "; for " + strings.Join(names[:min(len(names), mostNamed)], ", ")
	if more := len(names) - mostNamed; more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}
