package plan_test

import (
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// TestConfirmedWhatCannotBe: groups that cannot be given back are not believed of anybody, and it
// is said why.
func TestConfirmedWhatCannotBe(t *testing.T) {
	for says, why := range map[string]string{
		"sg-none": "which does not exist", groupID(1) + ",sg-none": "which does not exist", "other": "which is of another network", "ours": "which is one of Nephele's own",
	} {
		e := small()
		e.Networks = append(e.Networks, netSpec{V4: "10.1.0.0/24"})
		e.Groups = append(e.Groups, groupSpec{Net: 1})
		f := e.cloud()
		seal := testSeal('k', false)
		settle(t, e, f, sealed(seal))
		says = strings.NewReplacer("other", groupID(4), "ours", f.nic(nicID(0)).GroupIDs[0]).Replace(says)
		f.nic(nicID(0)).Tags = nil
		e.History[0] = policySet{}
		res := settle(t, e, f, func(in *plan.Input) {
			in.Seal, in.Confirmed = seal, map[string][]string{nicID(0): strings.Split(says, ",")}
		})
		if u := res.Records.Unproven; len(u) != 1 || !strings.Contains(u[0].Message, why) {
			t.Errorf("%s: %+v", says, u)
		}
	}
}
