package compute

import (
	"slices"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/selectors"
	"github.com/nephele-io/nephele/internal/policy/world"
)

// fence watches whether one of the selections of a Group has anything outside the Group's
// Namespace.
type fence struct {
	selection *world.Selection
	home      string
	// foreign counts the cells outside.
	foreign int
	uses    int
	// policies are those to compute again when foreign becomes or ceases to be 0.
	policies map[*policyState]struct{}
	in       *fences
}

// fences are the fences of the selections, and of the policies, that have some.
type fences struct {
	policies    *policies
	bySelection map[*world.Selection][]*fence
	byPolicy    map[*policyState][]*fence
}

// acquire returns the one fence between a selection and a Namespace and counts a use of it.
func (fs *fences) acquire(w *world.World, t *selectors.Terms, home string) *fence {
	s := w.AcquireSelection(t)
	for _, f := range fs.bySelection[s] {
		if f.home == home {
			w.ReleaseSelection(s) // the fence holds a use already
			f.uses++
			return f
		}
	}
	f := &fence{selection: s, home: home, uses: 1, policies: make(map[*policyState]struct{}), in: fs}
	for _, link := range s.Cells {
		if link.Cell.Namespace.Name != home {
			f.foreign++
		}
	}
	fs.bySelection[s] = append(fs.bySelection[s], f)
	s.Follow(f)
	return f
}

// release gives up a use.
func (fs *fences) release(w *world.World, f *fence) {
	if f.uses--; f.uses > 0 {
		return
	}
	s := f.selection
	s.Unfollow(f)
	fs.bySelection[s] = slices.DeleteFunc(fs.bySelection[s], func(g *fence) bool { return g == f })
	if len(fs.bySelection[s]) == 0 {
		delete(fs.bySelection, s)
	}
	w.ReleaseSelection(s)
}

// CellComes implements follower.
func (f *fence) CellComes(c *world.Cell) { f.cross(c, 1) }

// CellGoes implements follower.
func (f *fence) CellGoes(c *world.Cell) { f.cross(c, -1) }

// EntityChanges implements follower: which cells there are is all that counts.
func (f *fence) EntityChanges(*world.Entity, policy.GroupRole, *policy.Member) {}

// cross takes into account that n cells (1 or -1) like c came into the selection.
func (f *fence) cross(c *world.Cell, n int) {
	if c.Namespace.Name == f.home {
		return
	}
	before := f.foreign > 0
	if f.foreign += n; before != (f.foreign > 0) {
		for p := range f.policies {
			f.in.policies.touch(p)
		}
	}
}

// refence gives the policy the fences of its new translation.
func (fs *fences) refence(w *world.World, p *policyState, next []*fence) {
	former := fs.byPolicy[p]
	for _, f := range next {
		f.policies[p] = struct{}{}
	}
	for _, f := range former {
		if !slices.Contains(next, f) {
			delete(f.policies, p)
		}
		fs.release(w, f)
	}
	if len(next) > 0 {
		fs.byPolicy[p] = next
	} else if len(former) > 0 {
		delete(fs.byPolicy, p)
	}
}
