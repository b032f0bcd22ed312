package plan_test

import (
	"os"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// TestLayers: the package comment shows what each layer makes of three VMs, two policies and one
// edit. What it shows is what happens.
func TestLayers(t *testing.T) {
	e := small()
	set := &e.History[0]
	set.Address = [][]int{{1}, {0}}
	set.Applied = [][]int{{0}, {2}}
	set.Policies = append(set.Policies, policySpec{Tier: 250, Priority: 6, Applied: []int{1}, Rules: []ruleSpec{{
		Action: "Allow", Address: []int{1}, Services: []serviceSpec{{Protocol: "TCP", From: 5432, To: 5432, Type: -1}},
	}}})
	names := strings.NewReplacer(
		"eni-00000000", "eni-web", "eni-00000001", "eni-app", "eni-00000002", "eni-db",
		"i-00000000", "web", "i-00000001", "app", "i-00000002", "db", "ag-0", "app", "ag-1", "web",
		"nephele-666ff6-3ef266a80820", "ours-web", "nephele-666ff6-a5151eaa3888", "ours-db", "nephele-666ff6-243817d5ec31", "ours-app",
		"sg-ffff0001", "ours-app", "sg-ffff0002", "ours-web", "sg-00000002", "sg-app", "vpc-00000000", "vpc",
	)
	f := e.cloud()
	first := names.Replace(plan.Layers(e.input(*set, f.clone()), lower.AWS{}))
	settle(t, e, f, nil)
	service := &set.Policies[0].Rules[0].Services[0]
	service.From, service.To = 8080, 8080
	edited := names.Replace(plan.Layers(e.input(*set, f.clone()), lower.AWS{}))

	source, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	comment := string(source)
	for _, layer := range []string{"intent", "guard", "design", "transition", "report"} {
		comment = shown(t, comment, layer, first)
	}
	shown(t, comment, "transition", edited)
}

// shown finds what a layer printed in the rest of a comment, and returns what follows it.
func shown(t *testing.T, comment, layer, printed string) string {
	t.Helper()
	var block strings.Builder
	for _, section := range strings.SplitAfter(printed, "\n") {
		if text, ok := strings.CutPrefix(section, layer+": "); ok {
			block.WriteString("//\t" + text)
		}
	}
	_, after, found := strings.Cut(comment, "//\n"+block.String()+"//\n")
	if block.Len() == 0 || !found {
		t.Errorf("the comment does not show what %s makes of it:\n%s", layer, block.String())
		return comment
	}
	return after
}
