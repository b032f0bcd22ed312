package inventory

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/accountspec"
	"github.com/nephele-io/nephele/internal/cloud/selection"
)

func dump(t *testing.T, d selection.Desired) []byte {
	t.Helper()
	var out bytes.Buffer
	add := func(o any) {
		data, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "---\n%s", data)
	}
	for _, k := range selection.SortedKeys(d.Vpcs) {
		add(d.Vpcs[k])
	}
	for _, k := range selection.SortedKeys(d.VMs) {
		add(d.VMs[k])
	}
	for _, k := range selection.SortedKeys(d.Entities) {
		add(d.Entities[k])
	}
	for _, k := range selection.SortedKeys(d.Nodes) {
		add(d.Nodes[k])
	}
	return out.Bytes()
}

var update = flag.Bool("update", false, "rewrite the golden files")

// TestHybridCloud compares all objects made of a real account with what they were when somebody
// last looked at them.
func TestHybridCloud(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p, err := l.inv.opts.Clouds[v1alpha1.CloudProviderAWS](accountspec.Config{Secret: "secrets/aws", SecretKey: "k", SecretValue: []byte(goodCreds),
		Regions: []string{oregon}, Endpoint: l.server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	snap, err := p.Observe(t.Context(), cloud.Scope{Account: "clouds/acc", Region: oregon})
	if err != nil {
		t.Fatal(err)
	}
	agents := v1alpha1.VirtualMachineSelector{Agented: true, TagMatch: []v1alpha1.TagMatch{{Key: "Application", Values: []string{"Arista CVP"}}}}
	got := dump(t, selection.Compute(selection.View{Account: accountKey, Provider: v1alpha1.CloudProviderAWS, Snapshots: []*cloud.Snapshot{snap},
		Selectors: []v1alpha1.CloudEntitySelector{
			*l.ces("agents", "cvp", agents), *l.ces("vms", "arista", wholeVPC(vpc1)), *l.ces("vms", "test2", wholeVPC("vpc-925131f4")),
		}}))
	file := filepath.Join("testdata", "hybrid-cloud.yaml")
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the objects differ from %s (write it anew with -update and look at the difference):\n%s", file, got)
	}
}
