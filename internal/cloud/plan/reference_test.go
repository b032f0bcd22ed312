package plan_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// TestReferredByOtherAccounts: no interface is taken over while rules of another account refer to a
// group that it would leave; one that is under control stays so.
func TestReferredByOtherAccounts(t *testing.T) {
	e := small()
	f := e.cloud()
	before := f.clone()
	refs := []cloud.Reference{{GroupID: f.nic(nicID(0)).GroupIDs[0], NetworkID: "vpc-far", OwnerID: "444455556666", PeeringID: "pcx-1"}}
	named := func(message string) bool {
		for _, part := range []string{refs[0].GroupID, "vpc-far", "444455556666", "pcx-1"} {
			if !strings.Contains(message, part) {
				return false
			}
		}
		return true
	}
	f.snap.References = refs
	res := settle(t, e, f, nil)
	if len(res.Refusals) == 0 || slices.ContainsFunc(res.Refusals, func(r plan.Refusal) bool { return !named(r.Message) }) {
		t.Errorf("refusals %+v", res.Refusals)
	}
	if got, want := f.nic(nicID(0)), before.nic(nicID(0)); !reflect.DeepEqual(got.GroupIDs, want.GroupIDs) || len(got.Tags) != 0 {
		t.Errorf("it was taken over: %+v", got)
	}
	f = before.clone()
	settle(t, e, f, nil)
	f.snap.References = refs
	guarded := f.clone()
	res = settle(t, e, f, nil)
	if !reflect.DeepEqual(f.snap, guarded.snap) || len(res.Refusals) != 0 || !slices.ContainsFunc(res.Notes, func(n plan.Note) bool { return named(n.Message) }) {
		t.Errorf("refusals %+v, notes %+v", res.Refusals, res.Notes)
	}
}
