package rights

import (
	"encoding/json"
	"testing"
)

// TestLengths: what is printed fits into a managed policy of AWS, with everything that narrows it;
// with native services into two, which permit together what one would.
func TestLengths(t *testing.T) {
	const managed = 6144 // "The size of each managed policy cannot exceed 6,144 characters", without white space
	all := Pins{
		Mode: Enforce, Cluster: "11111111-2222-3333-4444-555555555555", Account: "111122223333", Networks: []string{"vpc-0123456789abcdef0"},
		Regions: []string{"ap-southeast-1"}, Services: true,
	}
	rest, services := all, all
	rest.Services, services.OnlyServices = false, true
	wide := Pins{Mode: Enforce, Services: true}
	for name, p := range map[string]Pins{"without services": rest, "services alone": services, "wide": wide, "to look": {Mode: Plan, Services: true}} {
		policy, err := Document(p)
		if err != nil {
			t.Fatal(err)
		}
		n := Length(policy)
		t.Logf("%s: %d characters", name, n)
		if n > managed {
			t.Errorf("%s: %d characters, AWS takes %d", name, n, managed)
		}
	}
	whole, err := Document(all)
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]bool{}
	for _, p := range []Pins{rest, services} {
		policy, err := Document(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range statements(t, policy) {
			parts[s] = true
		}
	}
	of := statements(t, whole)
	for _, s := range of {
		if !parts[s] {
			t.Errorf("in neither of the two: %s", s)
		}
	}
	if len(of) != len(parts) {
		t.Errorf("the two have %d statements, and all in one %d", len(parts), len(of))
	}
}

// statements are those of a policy, as JSON.
func statements(t *testing.T, policy []byte) []string {
	t.Helper()
	var d struct{ Statement []json.RawMessage }
	if err := json.Unmarshal(policy, &d); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, s := range d.Statement {
		out = append(out, string(s))
	}
	return out
}
