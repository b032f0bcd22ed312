package cloud

import (
	"fmt"
	"slices"
	"strings"
)

// OpKind names what an Op does.
type OpKind string

// The kinds of operations. Every one of them is idempotent: applied to a cloud that already is in
// the wanted state it succeeds and changes nothing.
const (
	// OpCreateGroup creates the group Op.Group with its tags, in one call, and removes the rules
	// that the cloud adds by itself. A group of the same name in the network that carries the same
	// ownership tags counts as created.
	OpCreateGroup OpKind = "CreateGroup"
	// OpAddRules adds Op.Rules to the group; rules that exist already are fine.
	OpAddRules OpKind = "AddRules"
	// OpRemoveRules removes Op.Rules from the group; rules that are gone already are fine.
	OpRemoveRules OpKind = "RemoveRules"
	// OpReplaceRules turns Op.Replaced[i] into Op.Rules[i], for each i, in one call: the group
	// never needs room for both. Direction and kind of peer stay, and no rule is in both lists, but
	// for one that takes its own place, to get its description. A rule that has been turned already
	// is fine; where both forms are there the old one goes, and where neither is it is a Conflict.
	OpReplaceRules OpKind = "ReplaceRules"
	// OpSetRules makes Op.Rules the rules of the group, all of them and no others, in one call.
	// Only clouds with Limits.WholeGroups have it. Op.Replaced are all the rules that the group is
	// thought to have; they only serve to tell what changes.
	OpSetRules OpKind = "SetRules"
	// OpSetInterfaceGroups replaces the groups of the interface by Op.GroupIDs (and Op.GroupNames).
	// The ID of a native service represents all of its interfaces; see Snapshot.Joined.
	OpSetInterfaceGroups OpKind = "SetInterfaceGroups"
	// OpTag sets Op.Tags on Op.Target and Op.Others and leaves other tags alone. It may fail having
	// tagged some of them.
	OpTag OpKind = "Tag"
	// OpUntag removes the keys of Op.Tags from Op.Target and Op.Others.
	OpUntag OpKind = "Untag"
	// OpDeleteGroup deletes the group; one that is gone already is fine.
	OpDeleteGroup OpKind = "DeleteGroup"
)

// Op is one idempotent operation on the cloud.
type Op struct {
	Kind OpKind
	// Target is the ID of the group, interface or network. For a group that is still to be created
	// it is empty and Group.Name (in Group.NetworkID) identifies it.
	Target string
	// Others are further objects of the same kind that OpTag and OpUntag are about.
	Others []string
	// Group describes the group of OpCreateGroup; of the other group operations only NetworkID and
	// Name are set.
	Group GroupSpec
	Rules []Rule
	// Replaced has the rules of OpReplaceRules as they were, one for each of Rules, and all rules
	// of the group before OpSetRules.
	Replaced []Rule
	// GroupIDs and GroupNames together are the whole wanted group set of OpSetInterfaceGroups;
	// GroupNames are groups that this plan creates in the interface's network.
	GroupIDs   []string
	GroupNames []string
	Tags       map[string]string
	// Reason says in a few words why, for the plan that people read.
	Reason string
}

// GroupSpec is a security group that is to be created.
type GroupSpec struct {
	NetworkID   string
	Name        string
	Description string
	Tags        map[string]string
}

// Resolve returns the op with every group name that ids knows replaced by its ID. ids maps network
// ID + "/" + group name to group ID; network is the network of the interface or group the op is
// about.
func (o Op) Resolve(network string, ids map[string]string) Op {
	find := func(name string) (string, bool) {
		id, ok := ids[network+"/"+name]
		return id, ok
	}
	if o.Target == "" && o.Group.Name != "" && o.Kind != OpCreateGroup {
		if id, ok := find(o.Group.Name); ok {
			o.Target = id
		}
	}
	for _, rules := range []*[]Rule{&o.Rules, &o.Replaced} {
		*rules = slices.Clone(*rules)
		for i := range *rules {
			p := &(*rules)[i].Peer
			if id, ok := find(p.GroupName); p.GroupName != "" && ok {
				p.GroupID, p.GroupName = id, ""
			}
		}
	}
	groups := append([]string(nil), o.GroupIDs...)
	var unresolved []string
	for _, n := range o.GroupNames {
		if id, ok := find(n); ok {
			groups = append(groups, id)
		} else {
			unresolved = append(unresolved, n)
		}
	}
	o.GroupIDs, o.GroupNames = groups, unresolved
	return o
}

// Added are the rules that the group has after the op and not before; none of those that it
// replaces by others.
func (o Op) Added() []Rule {
	switch o.Kind {
	case OpAddRules:
		return o.Rules
	case OpSetRules:
		return Rules(o.Rules).Minus(o.Replaced)
	}
	return nil
}

// Removed are the rules that the group has before the op and not after; none of those that it
// replaces by others.
func (o Op) Removed() []Rule {
	switch o.Kind {
	case OpRemoveRules:
		return o.Rules
	case OpSetRules:
		return Rules(o.Replaced).Minus(o.Rules)
	}
	return nil
}

// Subjects returns the IDs of all objects that the op changes; none if it is about a group that is
// still to be created.
func (o Op) Subjects() []string {
	if o.Target == "" {
		return nil
	}
	return append([]string{o.Target}, o.Others...)
}

// Subject is the printable name of what the op is about.
func (o Op) Subject() string {
	switch {
	case o.Target == "":
		return o.Group.Name
	case len(o.Others) > 0:
		return fmt.Sprintf("%s and %d more", o.Target, len(o.Others))
	}
	return o.Target
}

func (o Op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", o.Kind, o.Subject())
	switch o.Kind {
	case OpAddRules, OpRemoveRules, OpReplaceRules:
		fmt.Fprintf(&b, " (%d rules)", len(o.Rules))
	case OpSetRules:
		fmt.Fprintf(&b, " (%d rules, %d of them new, %d go)", len(o.Rules), len(o.Added()), len(o.Removed()))
	case OpSetInterfaceGroups:
		fmt.Fprintf(&b, " = %s", strings.Join(append(append([]string(nil), o.GroupIDs...), o.GroupNames...), " "))
	}
	if o.Reason != "" {
		fmt.Fprintf(&b, ": %s", o.Reason)
	}
	return b.String()
}

// Unresolved says that an op still names a group that no step created, after Resolve: the plan and
// the cloud are out of step.
func (o Op) Unresolved() error {
	missing := slices.Clone(o.GroupNames)
	for _, r := range o.Rules {
		if r.Peer.GroupName != "" {
			missing = append(missing, r.Peer.GroupName)
		}
	}
	if o.Target == "" && o.Kind != OpCreateGroup {
		missing = append(missing, o.Group.Name)
	}
	if len(missing) == 0 {
		return nil
	}
	return &Error{Class: Conflict, Call: string(o.Kind), Err: fmt.Errorf("no step of the plan creates the groups %v", missing)}
}
