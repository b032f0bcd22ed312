// Package model is the one copy of a cloud that plans are tried on: a snapshot to which operations
// can be applied, and what the rules of its groups mean at that moment. What clouds refuse is said
// by modeltest.
//
// The planner, the forecast and the tests of both stand on it. The simulator does not: it is the
// second opinion.
//
// A Model shares with the snapshot that it was made of what operations do not change, and never
// changes that snapshot. It has no goroutines and no locks; one goroutine may use it at a time. A
// View is read only and belongs to one moment.
package model

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// PlannedGroupID begins the ID of a group that exists in a model only; the network and the name
// follow.
const PlannedGroupID = "new:"

// PlannedID is the ID of such a group.
func PlannedID(network, name string) string { return PlannedGroupID + network + "/" + name }

// ErrMissing is wrapped by the errors of Apply about an object that the operation needs and that
// does not exist.
var ErrMissing = errors.New("it does not exist")

// Model is a snapshot that operations change.
type Model struct {
	snap *cloud.Snapshot
	ids  map[string]string // network/name to group ID
}

// New returns a model of the snapshot.
func New(s *cloud.Snapshot) *Model {
	c := *s
	c.Groups, c.Interfaces, c.Networks = slices.Clone(s.Groups), slices.Clone(s.Interfaces), slices.Clone(s.Networks)
	m := &Model{&c, make(map[string]string, len(c.Groups))}
	for i := range c.Groups {
		m.ids[c.Groups[i].NetworkID+"/"+c.Groups[i].Name] = c.Groups[i].ID
	}
	return m
}

// Snapshot returns the present state. The next operation changes it.
func (m *Model) Snapshot() *cloud.Snapshot { return m.snap }

// Group returns a group by its ID, nil if there is none.
func (m *Model) Group(id string) *cloud.Group { return m.snap.Group(id) }

// Interface returns an interface by its ID, nil if there is none.
func (m *Model) Interface(id string) *cloud.Interface { return m.snap.Interface(id) }

// Network returns a network by its ID, nil if there is none.
func (m *Model) Network(id string) *cloud.Network { return m.snap.Network(id) }

// Resolve returns the operation with the IDs of groups that it names and that exist by now. The
// network is that of what the operation is about.
func (m *Model) Resolve(network string, op cloud.Op) cloud.Op { return op.Resolve(network, m.ids) }

// Apply does what the cloud does with an operation that it takes. An operation about something that
// does not exist is an error that wraps ErrMissing. A group that is created gets an ID that begins
// with PlannedGroupID.
func (m *Model) Apply(network string, op cloud.Op) error {
	return m.ApplyAs(network, op, PlannedID(op.Group.NetworkID, op.Group.Name))
}

// ApplyAs is Apply, where a group that is created gets the given ID.
func (m *Model) ApplyAs(network string, op cloud.Op, created string) error {
	op = m.Resolve(network, op)
	switch op.Kind {
	case cloud.OpCreateGroup:
		m.create(op.Group, created)
		return nil
	case cloud.OpAddRules, cloud.OpRemoveRules, cloud.OpReplaceRules, cloud.OpSetRules:
		return m.rules(op)
	case cloud.OpSetInterfaceGroups:
		n := m.Interface(op.Target)
		if n == nil || len(op.GroupNames) > 0 {
			return fmt.Errorf("the interface %s, or one of its groups: %w", op.Target, ErrMissing)
		}
		n.GroupIDs = slices.Sorted(slices.Values(op.GroupIDs))
		return nil
	case cloud.OpTag, cloud.OpUntag:
		for _, id := range op.Subjects() {
			if err := m.tag(op, id); err != nil {
				return err
			}
		}
		return nil
	case cloud.OpDeleteGroup:
		if g := m.Group(op.Target); g != nil {
			delete(m.ids, g.NetworkID+"/"+g.Name)
			m.snap.Groups = slices.DeleteFunc(m.snap.Groups, func(g cloud.Group) bool { return g.ID == op.Target })
		}
		return nil
	}
	return fmt.Errorf("%q is no kind of operation", op.Kind)
}

func (m *Model) create(spec cloud.GroupSpec, id string) {
	key := spec.NetworkID + "/" + spec.Name
	if _, ok := m.ids[key]; ok {
		return
	}
	m.ids[key] = id
	at, _ := slices.BinarySearchFunc(m.snap.Groups, id, func(g cloud.Group, id string) int { return strings.Compare(g.ID, id) })
	m.snap.Groups = slices.Insert(m.snap.Groups, at, cloud.Group{
		ID: id, Name: spec.Name, NetworkID: spec.NetworkID, OwnerID: m.snap.OwnerID, Description: spec.Description, Tags: maps.Clone(spec.Tags),
	})
}

func (m *Model) rules(op cloud.Op) error {
	g := m.Group(op.Target)
	if g == nil {
		return fmt.Errorf("the group %s: %w", op.Subject(), ErrMissing)
	}
	for _, r := range op.Rules {
		if r.Peer.GroupName != "" {
			return fmt.Errorf("the group %s, which a rule refers to: %w", r.Peer.GroupName, ErrMissing)
		}
	}
	rules := slices.Clone(g.Rules)
	if op.Kind == cloud.OpSetRules {
		rules = nil
	}
	for i, r := range op.Rules {
		at := slices.IndexFunc(rules, r.Same)
		switch op.Kind {
		case cloud.OpAddRules, cloud.OpSetRules:
			if at < 0 {
				rules = append(rules, r)
			}
		case cloud.OpRemoveRules:
			if at >= 0 {
				rules = slices.Delete(rules, at, at+1)
			}
		case cloud.OpReplaceRules:
			old := slices.IndexFunc(rules, op.Replaced[i].Same)
			switch {
			case old >= 0 && (at < 0 || at == old): // the latter changes a description only
				rules[old] = r
			case old >= 0:
				rules = slices.Delete(rules, old, old+1)
			case at < 0:
				return fmt.Errorf("the rule %s of %s: %w", op.Replaced[i], g.ID, ErrMissing)
			}
		}
	}
	slices.SortFunc(rules, cloud.Rule.Compare)
	g.Rules = rules
	return nil
}

func (m *Model) tag(op cloud.Op, id string) error {
	var tags *map[string]string
	if n := m.Interface(id); n != nil {
		tags = &n.Tags
	} else if n := m.Network(id); n != nil {
		tags = &n.Tags
	} else if g := m.Group(id); g != nil {
		tags = &g.Tags
	} else {
		return fmt.Errorf("%s, which is to be tagged: %w", id, ErrMissing)
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
