package plan

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Summary counts what the plan does.
func (p Plan) Summary() Summary {
	s := Summary{Steps: len(p.Steps)}
	changed, interfaces := map[string]bool{}, map[string]bool{}
	created := map[string]bool{}
	for _, st := range p.Steps {
		op := st.Op
		object := st.Scope.Region + "/" + st.Network + "/" + op.Target + "/" + op.Group.Name
		switch op.Kind {
		case cloud.OpCreateGroup:
			s.GroupsCreated++
			created[object] = true
		case cloud.OpDeleteGroup:
			s.GroupsDeleted++
		case cloud.OpAddRules:
			s.RulesAdded += len(op.Rules)
			changed[object] = true
		case cloud.OpRemoveRules:
			s.RulesRemoved += len(op.Rules)
			changed[object] = true
		case cloud.OpReplaceRules:
			s.RulesReplaced += len(op.Rules)
			changed[object] = true
		case cloud.OpSetInterfaceGroups:
			s.InterfaceEdits++
			interfaces[object] = true
		case cloud.OpTag, cloud.OpUntag:
			s.Tagged += len(op.Subjects())
		}
	}
	for object := range changed {
		if !created[object] {
			s.GroupsChanged++
		}
	}
	s.Interfaces = len(interfaces)
	return s
}

func (s Summary) String() string {
	if s.Steps == 0 {
		return "nothing to do"
	}
	replaced := ""
	if s.RulesReplaced > 0 {
		replaced = fmt.Sprintf("%d to replace, ", s.RulesReplaced)
	}
	return fmt.Sprintf("%d groups to create, %d to change, %d to delete; %d rules to add, %s%d to remove; %d interfaces to set in %d edits; %d tag edits; %d operations",
		s.GroupsCreated, s.GroupsChanged, s.GroupsDeleted, s.RulesAdded, replaced, s.RulesRemoved, s.Interfaces, s.InterfaceEdits, s.Tagged, s.Steps)
}

// Print writes the plan for people, in the form they know from Terraform: + for what comes, ~ for what changes, - for what goes.
func (p Plan) Print(w io.Writer) error {
	var b strings.Builder
	region := ""
	for _, st := range p.Steps {
		if st.Scope.Region != region {
			region = st.Scope.Region
			fmt.Fprintf(&b, "region %s\n", region)
		}
		printStep(&b, st)
	}
	fmt.Fprintf(&b, "Plan: %s.\n", p.Summary())
	if p.Partial {
		b.WriteString("A further plan follows when this one is done.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func printStep(b *strings.Builder, st Step) {
	op := st.Op
	subject := op.Subject()
	switch op.Kind {
	case cloud.OpCreateGroup:
		fmt.Fprintf(b, "  + security group %s in %s", op.Group.Name, op.Group.NetworkID)
	case cloud.OpDeleteGroup:
		fmt.Fprintf(b, "  - security group %s", subject)
	case cloud.OpAddRules, cloud.OpRemoveRules, cloud.OpReplaceRules:
		fmt.Fprintf(b, "  ~ security group %s", subject)
	case cloud.OpSetInterfaceGroups:
		fmt.Fprintf(b, "  ~ interface %s: groups = %s", subject, strings.Join(slices.Concat(op.GroupIDs, op.GroupNames), " "))
	case cloud.OpTag:
		fmt.Fprintf(b, "  + tags on %s", subject)
	case cloud.OpUntag:
		fmt.Fprintf(b, "  - tags on %s", subject)
	}
	if op.Reason != "" {
		fmt.Fprintf(b, "  # %s", op.Reason)
	}
	b.WriteByte('\n')
	sign := "+"
	if op.Kind == cloud.OpRemoveRules || op.Kind == cloud.OpUntag {
		sign = "-"
	}
	for i, r := range op.Rules {
		if op.Kind == cloud.OpReplaceRules {
			fmt.Fprintf(b, "      ~ %s -> %s\n", op.Replaced[i], r)
			continue
		}
		fmt.Fprintf(b, "      %s %s\n", sign, r)
	}
	for _, k := range slices.Sorted(maps.Keys(op.Tags)) {
		if sign == "-" {
			fmt.Fprintf(b, "      - %s\n", k)
		} else {
			fmt.Fprintf(b, "      + %s = %q\n", k, op.Tags[k])
		}
	}
}

// MarshalJSON gives the plan a stable form for programs.
func (p Plan) MarshalJSON() ([]byte, error) {
	type rule struct {
		Direction cloud.Direction `json:"direction"`
		Protocol  int             `json:"protocol"`
		From      int             `json:"from"`
		To        int             `json:"to"`
		Peer      string          `json:"peer"`
	}
	type step struct {
		Region  string       `json:"region"`
		Network string       `json:"network,omitempty"`
		Kind    cloud.OpKind `json:"kind"`
		Target  string       `json:"target,omitempty"`
		Name    string       `json:"name,omitempty"`
		Others  []string     `json:"others,omitempty"`
		Rules   []rule       `json:"rules,omitempty"`
		// Replaced has the former form of each of Rules.
		Replaced []rule            `json:"replaced,omitempty"`
		Groups   []string          `json:"groups,omitempty"`
		Tags     map[string]string `json:"tags,omitempty"`
		Reason   string            `json:"reason,omitempty"`
	}
	rules := func(in []cloud.Rule) (out []rule) {
		for _, r := range in {
			out = append(out, rule{r.Direction, r.Match.Protocol, r.Match.From, r.Match.To, r.Peer.String()})
		}
		return out
	}
	steps := make([]step, 0, len(p.Steps))
	for _, st := range p.Steps {
		op := st.Op
		out := step{
			Region: st.Scope.Region, Network: st.Network, Kind: op.Kind, Target: op.Target, Others: op.Others, Name: op.Group.Name,
			Rules: rules(op.Rules), Replaced: rules(op.Replaced),
			Groups: slices.Concat(op.GroupIDs, op.GroupNames), Tags: op.Tags, Reason: op.Reason,
		}
		if op.Kind == cloud.OpCreateGroup {
			out.Tags = op.Group.Tags
		}
		steps = append(steps, out)
	}
	return json.Marshal(struct {
		Account string  `json:"account"`
		Partial bool    `json:"partial,omitempty"`
		Summary Summary `json:"summary"`
		Steps   []step  `json:"steps"`
	}{p.Account, p.Partial, p.Summary(), steps})
}

func (r PolicyRef) String() string {
	name := r.Name
	if r.Namespace != "" {
		name = r.Namespace + "/" + name
	}
	if name == "" {
		name = r.UID
	}
	return fmt.Sprintf("%s %s", r.Kind, name)
}

func (r VMRef) String() string { return r.Region + "/" + r.ID }
