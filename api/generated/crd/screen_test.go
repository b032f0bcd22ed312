package crd_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"

	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// screens are objects as "kubectl get" lists them.
var screens = map[string]string{
	"virtualmachines.crd.cloud.antrea.io": `
- metadata: {name: i-0000000000000001a}
  status: {cloudName: web-1, addresses: "10.1.1.10, 203.0.113.7", state: running, policySummary: 2/3, provider: AWS, region: eu-west-1, cloudVpcId: vpc-0a1b2c3d, agented: false}
- metadata: {name: i-0000000000000002a}
  status: {cloudName: web-2, addresses: 10.1.1.11, state: stopped, mode: plan, policySummary: 0/3, provider: AWS, region: eu-west-1, cloudVpcId: vpc-0a1b2c3d, agented: false}
- metadata: {name: i-0000000000000003a}
  status: {addresses: "10.1.1.12, 10.1.2.12, 10.1.3.12, and 4 more", state: running, provider: AWS, region: eu-west-1, cloudVpcId: vpc-0a1b2c3d, agented: true}
`,
	"networkpolicies.crd.antrea.io": `
- metadata: {name: db-from-app}
  spec: {tier: application, priority: 5}
  status: {phase: Realized, vms: 12/12, desiredNodesRealized: 1, currentNodesRealized: 1}
- metadata: {name: web}
  spec: {tier: application, priority: 10}
  status: {phase: Failed, vms: 2/3, message: "refused on 1 of 3 VMs: needs 73 ingress rules, quota 60", desiredNodesRealized: 1}
- metadata: {name: new}
  spec: {tier: application, priority: 11.5}
  status: {phase: Planned, vms: 0/3, message: "planned on 3 VMs: 2 would be enforced, 1 refused: needs 73 ingress rules, quota 60", desiredNodesRealized: 1}
`,
	"externalentities.crd.antrea.io": `
- metadata: {name: virtualmachine-i-0000000000000001a}
  spec: {externalNode: cloud/vms/shop, endpoints: [{ip: 10.1.1.10}, {ip: 203.0.113.7}]}
- metadata: {name: virtualmachine-i-0000000000000002a}
  spec: {externalNode: cloud/vms/shop, endpoints: [{ip: 10.1.1.11}]}
- metadata: {name: offices}
  spec: {endpoints: [{ip: 198.51.100.1}, {ip: 198.51.100.2}, {ip: 198.51.100.3}]}
`,
}

// TestScreens: what "kubectl get" shows of VMs, policies and entities, and with -o wide, made by kube-apiserver's own code. The names of VMs
// and the phases of policies fit into 80 columns, before messages that may be long.
func TestScreens(t *testing.T) {
	var b bytes.Buffer
	for _, d := range definitions(t) {
		given, shown := screens[d.Name]
		if !shown {
			continue
		}
		var objects []map[string]any
		if err := yaml.Unmarshal([]byte(given), &objects); err != nil {
			t.Fatal(err)
		}
		for _, wide := range []bool{false, true} {
			c, err := tableconvertor.New(d.Spec.Versions[0].AdditionalPrinterColumns)
			if err != nil {
				t.Fatal(err)
			}
			list := &unstructured.UnstructuredList{}
			for _, o := range objects {
				list.Items = append(list.Items, unstructured.Unstructured{Object: o})
			}
			table, err := c.ConvertToTable(t.Context(), list, &metav1.TableOptions{})
			if err != nil {
				t.Fatal(err)
			}
			option := ""
			if wide {
				option = " -o wide"
			}
			fmt.Fprintf(&b, "$ kubectl get %s%s\n", d.Spec.Names.ShortNames[0], option)
			w := tabwriter.NewWriter(&b, 0, 8, 3, ' ', 0)
			cells := func(of func(i int) string) {
				var row []string
				for i, col := range table.ColumnDefinitions {
					if col.Priority == 0 || wide {
						row = append(row, of(i))
					}
				}
				fmt.Fprintln(w, strings.Join(row, "\t"))
			}
			cells(func(i int) string { return strings.ToUpper(table.ColumnDefinitions[i].Name) })
			for _, r := range table.Rows {
				cells(func(i int) string {
					if r.Cells[i] == nil {
						return ""
					}
					return fmt.Sprint(r.Cells[i])
				})
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			b.WriteByte('\n')
		}
	}
	var lines []string
	for line := range strings.Lines(b.String()) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	got := strings.Join(lines, "\n") + "\n"
	golden := filepath.Join("testdata", "screens.txt")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("not as in %s:\n%s", golden, got)
	}
}
