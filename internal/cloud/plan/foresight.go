package plan

import (
	"maps"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Rules can refer to a new group of another network only by its ID, so such groups are created in a round of their own. What the next round
// decides may be something else: with the groups there, rules are packed in another way, and an interface may have no room for its change.
// Then the next round would delete what this one creates, and so on for ever. So the next round is looked at before; what it refuses is
// refused at once.

// foresights bounds how often a plan is made again.
const foresights = 3

// provisional begins the IDs of groups that are only thought of.
const provisional = "sg-provisional-"

// foresee makes the plan again where it only creates groups of which the next round would delete some.
func (in Input) foresee(out *Result, lower Lowerer) *Result {
	for range foresights {
		ahead, creates := in.withCreated(out.Plan)
		if !creates {
			break
		}
		next, c := computeAtOnce(ahead, lower)
		forsaken := slices.ContainsFunc(next.Plan.Steps, func(s Step) bool {
			return s.Op.Kind == cloud.OpDeleteGroup && strings.HasPrefix(s.Op.Target, provisional)
		})
		refused := c.refusals()
		maps.Copy(refused, in.refused)
		if !forsaken || len(refused) == len(in.refused) {
			break
		}
		in.refused = refused
		out, _ = computeAtOnce(in, lower)
	}
	return out
}

// withCreated returns the input with the groups of the regions where the plan creates groups and does nothing else. It reports whether there
// are any.
func (in Input) withCreated(p Plan) (ahead Input, creates bool) {
	created, more := map[string][]cloud.GroupSpec{}, map[string]bool{}
	for _, s := range p.Steps {
		switch s.Op.Kind {
		case cloud.OpCreateGroup:
			created[s.Scope.Region] = append(created[s.Scope.Region], s.Op.Group)
		case cloud.OpTag:
		default:
			more[s.Scope.Region] = true
		}
	}
	ahead = in
	ahead.Regions = slices.Clone(in.Regions)
	for i, r := range in.Regions {
		if more[r.Snapshot.Region] || len(created[r.Snapshot.Region]) == 0 {
			continue
		}
		creates = true
		snap := *r.Snapshot
		snap.Groups = slices.Clone(snap.Groups)
		for _, g := range created[snap.Region] {
			snap.Groups = append(snap.Groups, cloud.Group{
				ID: provisional + g.Name, Name: g.Name, NetworkID: g.NetworkID, OwnerID: snap.OwnerID, Description: g.Description, Tags: g.Tags,
			})
		}
		ahead.Regions[i].Snapshot = &snap
	}
	return ahead, creates
}

// refusals returns the interfaces that are not taken over, with the reason, except those that only wait. Keys are the region and the ID.
func (c *computation) refusals() map[string]string {
	out := map[string]string{}
	for _, s := range c.regions {
		for n, why := range s.refused {
			if !s.waiting[n] {
				out[s.snap.Region+"/"+n.ID] = why
			}
		}
	}
	return out
}
