package plan_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

func TestDebug(t *testing.T) {
	b, err := os.ReadFile(os.Getenv("DBG"))
	if err != nil {
		t.Skip()
	}
	var e estate
	json.Unmarshal(b, &e)
	f := e.cloud()
	for i, set := range e.History {
		for range 5 {
			res := plan.Compute(e.input(set, f.clone()), lower.AWS{})
			t.Logf("set %d", i)
			res.Plan.Print(os.Stdout)
			t.Logf("VMs %+v\nrefusals %+v notes %+v", res.VMs, res.Refusals, res.Notes)
			if res.Plan.Empty() {
				break
			}
			for _, s := range res.Plan.Steps {
				if err := f.apply(s.Network, s.Op); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
