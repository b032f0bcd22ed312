package cli

import (
	"encoding/json"
	"net/netip"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/cloud/forecast"
	"github.com/nephele-io/nephele/internal/preview"
)

// jsonFields collects the names of all members that a type has in JSON.
func jsonFields(t reflect.Type, into map[string]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		jsonFields(t.Elem(), into)
		return
	case reflect.Struct:
	default:
		return
	}
	if t == reflect.TypeFor[netip.Prefix]() {
		return
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); f.IsExported() && name != "-" {
			if name == "" && !f.Anonymous {
				name = f.Name
			}
			if name != "" {
				into[name] = true
			}
			jsonFields(f.Type, into)
		}
	}
}

// TestPlanJSONIsDocumented: docs/reference/plan-json.md names every field, and no other.
func TestPlanJSONIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/plan-json.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "## The JSON\n")
	if !found {
		t.Fatal("docs/reference/plan-json.md has no section on the JSON")
	}
	fields := map[string]bool{}
	jsonFields(reflect.TypeFor[preview.Answer](), fields)
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("`([a-zA-Z0-9]+)`").FindAllStringSubmatch(section, -1) {
		documented[m[1]] = true
	}
	for name := range fields {
		if !documented[name] {
			t.Errorf("the field %q is not documented", name)
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|").FindAllStringSubmatch(section, -1) {
		for _, m := range regexp.MustCompile("`([a-zA-Z0-9]+)`").FindAllStringSubmatch(row[1], -1) {
			if !fields[m[1]] {
				t.Errorf("%q is documented, and there is no such field", m[1])
			}
		}
	}
}

// TestPlanJSONRoundTrip: what is printed is read back into the documented fields without loss.
func TestPlanJSONRoundTrip(t *testing.T) {
	manifests := accountSays("maxPerWave: 1\n  failsafe: [{direction: Ingress, protocol: TCP, port: 22, cidrs: [192.0.2.0/24]}]")
	manifests = strings.Replace(manifests, "action: Allow", "action: Reject", 1) + `---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: nobody, namespace: vms}
spec:
  priority: 6
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-app: none}}}]
  ingress:
  - {name: all, action: Drop}
`
	r := planShop(t, manifests, "-o", "json")
	var got preview.Answer
	decoder := json.NewDecoder(strings.NewReader(r.stdout))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil {
		t.Fatalf("%v: %s%s", err, r.stdout, r.err)
	}
	again, err := json.MarshalIndent(got, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if string(again)+"\n" != r.stdout {
		t.Errorf("read back and printed again it is\n%s\nit was\n%s", again, r.stdout)
	}
	a := got.Accounts[0]
	if a.Wave == nil || len(a.Failsafe) != 1 || len(a.Warnings) != 2 || len(got.Warnings) != 1 || len(a.Plan.Steps) != a.Plan.Summary.Steps ||
		len(a.Quotas) == 0 || len(a.Reachability) == 0 || len(a.Policies) == 0 {
		t.Errorf("%s", r.stdout)
	}
	if i := slices.IndexFunc(a.Reachability, func(c forecast.Change) bool { return c.From.Rest }); i < 0 {
		t.Errorf("no range has a rest: %+v", a.Reachability)
	}
	if strings.Contains(r.stdout, "null") {
		t.Errorf("a list is null:\n%s", r.stdout)
	}
}
