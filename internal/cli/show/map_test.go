package show

import (
	"strings"
	"testing"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
)

// TestMapOfClusters: classes and policies are named with their clusters, equal names are numbered,
// and the table ends with how much is left out.
func TestMapOfClusters(t *testing.T) {
	m := &v1alpha1.ReachMap{
		Nodes: []v1alpha1.MapNode{
			{Key: "1", Label: "web", Kind: v1alpha1.NodePod, Namespace: "shop", Cluster: "east", Count: 2},
			{Key: "2", Label: "web", Kind: v1alpha1.NodePod, Namespace: "shop", Cluster: "east", Count: 2},
			{Key: "3", Label: "n", Kind: v1alpha1.NodeNode, Cluster: "west", Count: 1},
		},
		Edges: []v1alpha1.MapEdge{
			{From: "1", To: "3", Traffic: "tcp 5432", Verdict: "Allow", By: v1alpha1.ByPolicies, Policies: []v1alpha1.Policy{{Name: "p", Namespace: "shop", Cluster: "west"}}},
			{From: "2", To: "3", Traffic: "everything\x1b[2J", Verdict: "Unknown", By: v1alpha1.ByUnknown},
		},
		Total: 5, MoreEdges: 7,
	}
	var out strings.Builder
	if err := Map(&out, "table", m); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"east:shop/web (2) west:node/n tcp 5432 Allow west:shop/p", "east:shop/web (2) #2 west:node/n everything", "Unknown not known", "Left out: 2 of 5 classes, the smallest, and 7 rows.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s lacks %s", text, want)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Error("a sign that steers a terminal")
	}
	out.Reset()
	if err := Map(&out, "dot", m); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`label="east";`, `label="west";`, `"east:shop/web (2)" -> "west:node/n" [label="tcp 5432", style=solid, color=black];`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s lacks %s", out.String(), want)
		}
	}
}
