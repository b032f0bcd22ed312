package estate

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
	"github.com/nephele-io/nephele/internal/sim/azure/document"
)

// TestAzureData loads real subscriptions and shows their groups as Azure has shown them.
func TestAzureData(t *testing.T) {
	s, report, err := LoadAzure("../../../testdata/azure")
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Files) != 4 || len(report.Ignored) != 0 {
		t.Errorf("read %v, ignored %v", report.Files, report.Ignored)
	}
	n := 0
	c, err := azure.New(s, azure.Settings{}, func() string { n++; return build.GUIDOf(string(rune(n))) })
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join("../../../testdata/azure/nsg-subscription/networkSecurityGroups.json"))
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Value []map[string]any `json:"value"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		t.Fatal(err)
	}
	by := &s.Principals[0]
	rules := 0
	for _, want := range answer.Value {
		id, _ := document.ParseID(want["id"].(string))
		got, err := c.Get(by, id)
		if err != nil {
			t.Fatal(err)
		}
		back, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		var plain map[string]any
		if err := json.Unmarshal(back, &plain); err != nil {
			t.Fatal(err)
		}
		// This answer does not have the users of a group.
		for _, doc := range []map[string]any{want, plain} {
			p := doc["properties"].(map[string]any)
			delete(p, "networkInterfaces")
			delete(p, "subnets")
			delete(p, "flowLogs")
			rules += len(p["securityRules"].([]any))
			// The text of the default rules has changed over the years.
			for _, r := range p["defaultSecurityRules"].([]any) {
				delete(r.(map[string]any)["properties"].(map[string]any), "description")
			}
		}
		if !reflect.DeepEqual(want, plain) {
			a, _ := json.Marshal(want)
			b, _ := json.Marshal(plain)
			t.Fatalf("%s is not shown as it was:\n%s\n%s", id, a, b)
		}
	}
	if rules != 2*133 {
		t.Errorf("%d rules seen, want 133 twice", rules)
	}
}

// TestAzureNothing: a folder without resources is no estate.
func TestAzureNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.json"), []byte(`{"value": []}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := LoadAzure(dir); err == nil {
		t.Error("an empty description was taken")
	}
	if err := os.WriteFile(filepath.Join(dir, "x.json"), []byte(`{`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := LoadAzure(dir); err == nil {
		t.Error("a broken file was taken")
	}
}
