package flowscmd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/flows"
	"github.com/nephele-io/nephele/internal/flows/judge"
)

// Use is how often a rule decided.
type Use struct {
	// Rule is one of a policy; Group and GroupRule are one of a security group that is not ours.
	Rule      *analysis.Rule `json:"rule,omitempty"`
	Group     string         `json:"group,omitempty"`
	GroupName string         `json:"groupName,omitempty"`
	GroupRule string         `json:"groupRule,omitempty"`
	// Connections counts what it decided, and Last is the last minute of that.
	Connections int        `json:"connections"`
	Last        *time.Time `json:"last,omitempty"`
}

// place tells rules apart.
type place struct {
	policy     analysis.Policy
	direction  string
	index      int32
	group, own string
}

// tellRules says how often each rule decided.
func (f *filter) tellRules(cmd *cobra.Command, n Needs) error {
	computed, rows, counts, notes, err := n.seen(cmd, f.logs, f.since)
	if err != nil {
		return err
	}
	j := judge.New(computed)
	uses := usesOf(computed, j, rows)
	if f.unused {
		uses = slices.DeleteFunc(uses, func(u Use) bool { return u.Connections > 0 })
	}
	first, last := window(rows)
	if f.output == "json" {
		e := json.NewEncoder(cmd.OutOrStdout())
		e.SetIndent("", "  ")
		return e.Encode(struct {
			Rules []Use     `json:"rules"`
			First time.Time `json:"first"`
			Last  time.Time `json:"last"`
			Counts
			Notes []string `json:"notes,omitempty"`
		}{uses, first, last, counts, notes})
	}
	for _, note := range notes {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", n.Printable(note))
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "note: seen from %s to %s; a rule may be for what happens more rarely\n", first.Format(time.RFC3339), last.Format(time.RFC3339))
	out := n.Window(cmd.OutOrStdout())
	if len(uses) == 0 {
		_, err := fmt.Fprintln(out, "None.")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CONNECTIONS\tLAST\tRULE")
	for _, u := range uses {
		when := "-"
		if u.Last != nil {
			when = u.Last.UTC().Format("01-02 15:04")
		}
		fmt.Fprintf(w, "%d\t%s\t%s\n", u.Connections, when, n.Printable(u.text()))
	}
	return w.Flush()
}

func (u *Use) text() string {
	if u.Rule != nil {
		return strings.ToLower(string(u.Rule.Action)) + " by " + explain.RuleText(*u.Rule)
	}
	return "own group " + cmp.Or(u.GroupName, u.Group) + ", " + u.GroupRule
}

// window is the time that rows are of.
func window(rows []flows.Row) (first, last time.Time) {
	for i := range rows {
		if first.IsZero() || rows[i].Minute.Before(first) {
			first = rows[i].Minute
		}
		if end := rows[i].Minute.Add(flows.Window); end.After(last) {
			last = end
		}
	}
	return first, last
}

// usesOf counts what every rule decided: rules of policies in the order of evaluation, then rules
// of the groups that interfaces hold and that are not ours.
func usesOf(c *explain.Computation, j *judge.Judge, rows []flows.Row) []Use {
	var uses []Use
	at := map[place]int{}
	add := func(p place, u Use) {
		if _, there := at[p]; !there {
			at[p] = len(uses)
			uses = append(uses, u)
		}
	}
	for _, r := range j.Rules() {
		add(placeOfRule(&r), Use{Rule: &r})
	}
	for _, a := range c.Objects.Observed {
		for _, s := range a.Snapshots {
			for i := range s.Groups {
				addGroup(s, &s.Groups[i], add)
			}
		}
	}
	for i := range rows {
		r := &rows[i]
		by := j.Judge(r).By
		p := place{}
		switch {
		case by.Rule != nil:
			p = placeOfRule(by.Rule)
		case by.Group != nil && !by.Group.Ours:
			p = place{group: by.Group.ID, own: by.GroupRule}
		default:
			continue
		}
		n, known := at[p]
		if !known {
			continue
		}
		uses[n].Connections += r.Connections
		if uses[n].Last == nil || r.Minute.After(*uses[n].Last) {
			uses[n].Last = &r.Minute
		}
	}
	return uses
}

func placeOfRule(r *analysis.Rule) place {
	return place{policy: r.Policy, direction: r.Direction, index: r.Index}
}

// addGroup adds the rules of a group that is not ours and that an interface holds.
func addGroup(s *cloud.Snapshot, g *cloud.Group, add func(place, Use)) {
	held := slices.ContainsFunc(s.Interfaces, func(n cloud.Interface) bool { return slices.Contains(n.GroupIDs, g.ID) })
	if !held || g.Tags[cloud.TagKind] != "" && g.OwnedBy(g.Tags[cloud.TagCluster]) {
		return
	}
	for i := range g.Rules {
		text := g.Rules[i].String()
		add(place{group: g.ID, own: text}, Use{Group: g.ID, GroupName: g.Name, GroupRule: text})
	}
}
