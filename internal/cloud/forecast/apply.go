package forecast

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// state is a snapshot that operations change. It shares with the original what they do not change.
type state struct {
	*cloud.Snapshot
	groups     map[string]int // by ID
	interfaces map[string]int
	ids        map[string]string // network/name to ID
}

func newState(s *cloud.Snapshot) *state {
	c := *s
	c.Groups, c.Interfaces, c.Networks = slices.Clone(s.Groups), slices.Clone(s.Interfaces), slices.Clone(s.Networks)
	out := &state{Snapshot: &c, interfaces: map[string]int{}}
	for i := range c.Interfaces {
		out.interfaces[c.Interfaces[i].ID] = i
	}
	out.index()
	return out
}

func (s *state) index() {
	s.groups, s.ids = map[string]int{}, map[string]string{}
	for i := range s.Groups {
		g := &s.Groups[i]
		s.groups[g.ID] = i
		s.ids[g.NetworkID+"/"+g.Name] = g.ID
	}
}

// Apply returns the snapshot as it is after the steps that are about it. An operation that the cloud would not take, for example one
// on a group that does not exist, is an error: the plan does not fit the snapshot.
func Apply(s *cloud.Snapshot, steps []plan.Step) (*cloud.Snapshot, error) {
	out := newState(s)
	for _, st := range steps {
		if st.Scope.Region != s.Region {
			continue
		}
		if err := out.apply(st.Op.Resolve(st.Network, out.ids)); err != nil {
			return nil, fmt.Errorf("%s: %w", st.Op, err)
		}
	}
	slices.SortFunc(out.Groups, func(a, b cloud.Group) int { return strings.Compare(a.ID, b.ID) })
	return out.Snapshot, nil
}

func (s *state) apply(op cloud.Op) error {
	switch op.Kind {
	case cloud.OpCreateGroup:
		key := op.Group.NetworkID + "/" + op.Group.Name
		if _, ok := s.ids[key]; ok {
			return nil
		}
		id := plan.PlannedGroupID + key
		s.groups[id], s.ids[key] = len(s.Groups), id
		s.Groups = append(s.Groups, cloud.Group{
			ID: id, Name: op.Group.Name, NetworkID: op.Group.NetworkID, OwnerID: s.OwnerID, Description: op.Group.Description, Tags: op.Group.Tags,
		})
		return nil
	case cloud.OpAddRules, cloud.OpRemoveRules, cloud.OpReplaceRules:
		return s.rules(op)
	case cloud.OpSetInterfaceGroups:
		i, ok := s.interfaces[op.Target]
		if !ok || len(op.GroupNames) > 0 {
			return fmt.Errorf("the interface or one of its groups does not exist")
		}
		s.Interfaces[i].GroupIDs = slices.Sorted(slices.Values(op.GroupIDs))
		return nil
	case cloud.OpTag, cloud.OpUntag:
		for _, id := range op.Subjects() {
			if err := s.tag(op, id); err != nil {
				return err
			}
		}
		return nil
	case cloud.OpDeleteGroup:
		i, ok := s.groups[op.Target]
		if !ok {
			return nil
		}
		s.Groups = slices.Delete(s.Groups, i, i+1)
		s.index()
		return nil
	}
	return fmt.Errorf("unknown kind of operation")
}

func (s *state) rules(op cloud.Op) error {
	i, ok := s.groups[op.Target]
	if !ok {
		return fmt.Errorf("the group does not exist")
	}
	g := &s.Groups[i]
	rules := slices.Clone(g.Rules)
	for i, r := range op.Rules {
		if r.Peer.GroupName != "" {
			return fmt.Errorf("the group %s that a rule refers to does not exist", r.Peer.GroupName)
		}
		at := slices.IndexFunc(rules, r.Same)
		if op.Kind == cloud.OpReplaceRules {
			old := slices.IndexFunc(rules, op.Replaced[i].Same)
			switch {
			case old >= 0 && (at < 0 || at == old):
				rules[old] = r
			case old >= 0:
				rules = slices.Delete(rules, old, old+1)
			case at < 0:
				return fmt.Errorf("the group has no rule %s", op.Replaced[i])
			}
			continue
		}
		switch {
		case op.Kind == cloud.OpAddRules && at < 0:
			rules = append(rules, r)
		case op.Kind == cloud.OpRemoveRules && at >= 0:
			rules = slices.Delete(rules, at, at+1)
		}
	}
	slices.SortFunc(rules, cloud.Rule.Compare)
	g.Rules = rules
	return nil
}

func (s *state) tag(op cloud.Op, id string) error {
	var tags *map[string]string
	if i, ok := s.interfaces[id]; ok {
		tags = &s.Interfaces[i].Tags
	} else if i := slices.IndexFunc(s.Networks, func(n cloud.Network) bool { return n.ID == id }); i >= 0 {
		tags = &s.Networks[i].Tags
	} else if i, ok := s.groups[id]; ok {
		tags = &s.Groups[i].Tags
	} else {
		return fmt.Errorf("there is no such object to tag")
	}
	changed := maps.Clone(*tags)
	if changed == nil {
		changed = map[string]string{}
	}
	for k, v := range op.Tags {
		if op.Kind == cloud.OpTag {
			changed[k] = v
		} else {
			delete(changed, k)
		}
	}
	*tags = changed
	return nil
}

// maxRounds bounds the rounds of a forecast. Real changes need up to four.
const maxRounds = 16

// Forecast is what planning leads to.
type Forecast struct {
	// Rounds are the results of Compute, each on the state that the one before leads to. There is at least one. The plan of the
	// last one is empty if Complete.
	Rounds []*plan.Result
	// Complete is false if planning did not come to an end within 16 rounds.
	Complete bool
	// After are the snapshots at the end, in the order of the input's regions.
	After []*cloud.Snapshot
}

// ErrStopped is returned by Run if Input.Stop ended it.
var ErrStopped = errors.New("planning was interrupted")

// Run plans round after round until nothing is left to do.
func Run(in plan.Input, lower plan.Lowerer) (*Forecast, error) {
	out := &Forecast{}
	in.Regions = slices.Clone(in.Regions)
	for range maxRounds {
		r := plan.Compute(in, lower)
		if r.Stopped {
			return nil, ErrStopped
		}
		out.Rounds = append(out.Rounds, r)
		if out.Complete = r.Plan.Empty(); out.Complete {
			break
		}
		for i, region := range in.Regions {
			after, err := Apply(region.Snapshot, r.Plan.Steps)
			if err != nil {
				return nil, fmt.Errorf("forecast of %s: %w", region.Snapshot.Region, err)
			}
			in.Regions[i].Snapshot = after
		}
	}
	for _, region := range in.Regions {
		out.After = append(out.After, region.Snapshot)
	}
	return out, nil
}
