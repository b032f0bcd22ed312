package cli

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
)

// TestPoliciesFromGroupsMeanTheSame: on random accounts, the policies that are made from the groups
// are valid, and with them every flow has the verdict that the simulator gives it without them.
func TestPoliciesFromGroupsMeanTheSame(t *testing.T) {
	policies := 0
	for seed := range uint64(15) {
		r := rand.New(rand.NewPCG(seed, 33))
		text := randomEstate(r, true)
		made := nephele(t, "", "policy", "from-groups", "-f", file(t, "account.yaml", reachAccount), "--snapshot", file(t, "estate.yaml", text))
		for _, line := range strings.Split(strings.TrimSpace(made.err), "\n") {
			if line != "" && !strings.HasPrefix(line, "note: ") && !strings.Contains(line, "its interfaces hold different groups") {
				t.Fatalf("seed %d: exit %d: %s", seed, made.code, line)
			}
		}
		if differ := strings.Contains(made.err, "left out"); differ != (made.code == ExitNo) || !differ && made.code != ExitDone {
			t.Fatalf("seed %d: exit %d: %s", seed, made.code, made.err)
		}
		policies += strings.Count(made.stdout, "kind: NetworkPolicy")
		e := bringToLife(t, text, reachAccount+made.stdout)
		passed, stopped := e.compare(t, fmt.Sprint("seed ", seed))
		if passed == 0 || stopped == 0 {
			t.Errorf("seed %d: %d flows pass and %d do not: want some of both", seed, passed, stopped)
		}
	}
	if policies < 30 {
		t.Errorf("only %d policies were made", policies)
	}
}

// TestFromGroupsTellsWhatIsLeftOut: what a policy cannot say is not in it, and told.
func TestFromGroupsTellsWhatIsLeftOut(t *testing.T) {
	const text = `
accounts:
- id: "111122223333"
  alias: prod
  regions:
  - name: eu-west-1
    vpcs:
    - name: v0
      cidrs: [10.1.0.0/16]
      groups:
      - {name: g, rules: [tcp 22 from 10.0.0.0/8, 47 from 10.1.0.0/16]}
      vms:
      - {name: m, ip: 10.1.0.10, groups: [g], tags: {app: web}}
`
	path := file(t, "estate.yaml", text)
	r := nephele(
		t,
		"",
		"policy",
		"from-groups",
		"-f",
		file(t, "account.yaml", strings.Replace(reachAccount, ", {vpcMatch: {matchName: v1}}, {vpcMatch: {matchName: v2}}", "", 1)),
		"--snapshot",
		path,
	)
	if r.code != ExitNo || !strings.Contains(r.err, "left out: NetworkPolicy shop/from-sg-") || !strings.Contains(r.err, `"ingress gre from 10.1.0.0/16"`) ||
		!strings.Contains(r.err, "policies cannot name this traffic") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	if !strings.Contains(r.stdout, "in-tcp-22") || strings.Count(r.stdout, "action: Allow") != 2 {
		t.Errorf("the policy:\n%s", r.stdout)
	}
	again := nephele(t, "", "policy", "compute", "-f", file(t, "made.yaml", r.stdout))
	if again.code != ExitDone {
		t.Errorf("the policy is refused: %s", again.err)
	}
	if r := nephele(
		t,
		"",
		"policy",
		"from-groups",
		"-f",
		filepath.Join(t.TempDir(), "none.yaml"),
	); r.code != ExitBadInput ||
		!strings.Contains(r.err, "-f and --snapshot are both needed") {
		t.Errorf("without a snapshot: exit %d: %s", r.code, r.err)
	}
}
