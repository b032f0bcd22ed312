package plan

import (
	"maps"
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/form"
	"github.com/nephele-io/nephele/internal/cloud/plan/guard"
	"github.com/nephele-io/nephele/internal/cloud/plan/intent"
	"github.com/nephele-io/nephele/internal/cloud/plan/record"
	"github.com/nephele-io/nephele/internal/cloud/signs"
)

// label gives what a step creates the names by which people know it in the cloud: a group the tag
// Name, rules their descriptions. They go with the calls that create, and say what something was
// created for; nothing is ever written for their sake alone.
func (e *emitter) label(step *Step, g *form.Group) {
	switch op := &step.Op; op.Kind {
	case cloud.OpCreateGroup:
		if _, taken := op.Group.Tags[cloud.TagName]; !taken && len(op.Group.Tags) < e.r.region.Limits.TagsPerResource {
			op.Group.Tags[cloud.TagName] = signs.NameTag(namesOf(step.Policies))
		}
	case cloud.OpAddRules, cloud.OpReplaceRules, cloud.OpSetRules:
		for i := range op.Rules {
			if r := &op.Rules[i]; r.Description == "" {
				r.Description = e.description(g, *r)
			}
		}
	}
}

func namesOf(refs []PolicyRef) []string {
	out := make([]string, len(refs))
	for i, r := range refs {
		out[i] = r.Short()
	}
	return out
}

// description names the first rule of a policy that asks for a rule of a group, in the order of
// evaluation, and counts the others.
func (e *emitter) description(g *form.Group, r cloud.Rule) string {
	if g == nil || g.Class.Gathers || g.Class.State != Guarded {
		return signs.Description("", "", 0)
	}
	then, known := e.r.design.Addresses(r.Peer, g.Class.Network)
	asking := slices.DeleteFunc(saying(g.Class, intent.Allow, trafficOf(r)), func(b *intent.Bound) bool {
		return known && !then.Empty() && !e.r.region.PeerAddrs(b, g.Class.Network).Overlaps(then)
	})
	if len(asking) == 0 {
		return signs.Native
	}
	first := asking[0]
	if first.Policy.Ref == (PolicyRef{}) {
		return signs.Failsafe(e.r.account.In.Account)
	}
	return signs.Description(first.Policy.Ref.Short(), first.Name, len(asking)-1)
}

// toSign marks tags of an interface as to be signed: by a value that is not there now.
func (s *regional) toSign(n *guard.NIC, tags map[string]string) {
	if s.account.In.Seal == nil {
		return
	}
	tags[cloud.TagSignature] = ""
	if is, ok := n.Tags[cloud.TagSignature]; ok && is == "" {
		tags[cloud.TagSignature] = record.SealPrefix
	}
}

// sign signs the records of the interfaces that an operation tags, if it is marked by toSign.
func (e *emitter) sign(op *cloud.Op) {
	if _, marked := op.Tags[cloud.TagSignature]; !marked || op.Kind != cloud.OpTag || e.r.account.In.Seal == nil {
		return
	}
	var entries []record.Entry
	for _, id := range op.Subjects() {
		entries = append(entries, record.Entry{Interface: id, Groups: e.r.byID[id].Groups.Former})
	}
	op.Tags = maps.Clone(op.Tags)
	op.Tags[cloud.TagSignature] = e.r.account.In.Seal.Sign(e.r.region.Snap.Region, entries)
}

// load is how many interfaces are tagged by one call; 0 if any number is good.
func (s *regional) load() int {
	if s.account.In.Seal != nil {
		return record.Sealed
	}
	return 0
}
