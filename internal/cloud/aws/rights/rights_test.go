package rights

import (
	"encoding/json"
	"fmt"
	"slices"
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

// statements returns the statements of a policy, as JSON.
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

// TestFlowLogs: only what AWS writes below the prefixes may be listed and read, wherever the bucket
// is, and what names no bucket is refused.
func TestFlowLogs(t *testing.T) {
	raw, err := Document(Pins{Mode: Plan, Regions: []string{"eu-west-1"}, FlowLogs: []string{"acme-logs/prod", "other.logs"}})
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Statement []struct {
			Sid              string
			Action, Resource any
			Condition        map[string]map[string]any
		}
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range d.Statement[1:] {
		got = append(got, fmt.Sprintf("%s %v %v %v", x.Sid, x.Action, x.Resource, x.Condition))
	}
	want := []string{
		"ListFlowLogs1 s3:ListBucket arn:aws:s3:::acme-logs map[StringLike:map[s3:prefix:prod/AWSLogs/*]]",
		"ListFlowLogs2 s3:ListBucket arn:aws:s3:::other.logs map[StringLike:map[s3:prefix:AWSLogs/*]]",
		"ReadFlowLogs s3:GetObject [arn:aws:s3:::acme-logs/prod/AWSLogs/* arn:aws:s3:::other.logs/AWSLogs/*] map[]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, bad := range []string{"", "A", "x/*", "b*/p", "arn:aws:s3:::b", "b/../c/*"} {
		if (Pins{Mode: Plan, FlowLogs: []string{bad}}).Check() == nil {
			t.Errorf("%q is taken for a bucket", bad)
		}
	}
}
