// Package estatetest makes the accounts that tests give the simulator, of a few lines of YAML or of
// numbers.
//
// It keeps no state. An account that cannot be read ends the test.
package estatetest

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

// Parse reads a description in YAML (docs/simulator.md).
func Parse(t testing.TB, text string) aws.State {
	t.Helper()
	const name = "estate.yaml"
	state, _, err := estate.LoadFS(fstest.MapFS{name: {Data: []byte(text)}}, name)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// The account of a Fleet and its VPC.
const (
	FleetAccount = "111122223333"
	FleetVPC     = "vpc-00000001"
)

// Fleet is an account of one VPC with so many VMs, which have roles in turn. The VM number i, of
// the role r, is called rR-I and has the group rR, the tag role=rR, and tags env and team.
func Fleet(t testing.TB, region string, vms, roles int) aws.State {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "accounts:\n- id: %q\n  regions:\n  - name: %s\n    vpcs:\n    - name: fleet\n      id: %s\n      cidrs: [10.0.0.0/8]\n      groups:\n",
		FleetAccount, region, FleetVPC)
	for r := range roles {
		fmt.Fprintf(&b, "      - {name: r%d, rules: [\"tcp 22 from 10.0.0.0/8\"]}\n", r)
	}
	b.WriteString("      vms:\n")
	addr := netip.MustParseAddr("10.0.0.10")
	for i := range vms {
		fmt.Fprintf(&b, "      - {name: r%[1]d-%05[2]d, ip: %[3]s, groups: [r%[1]d], tags: {role: r%[1]d, env: prod, team: t%[4]d}}\n", i%roles, i, addr, i%7)
		addr = addr.Next()
	}
	return Parse(t, b.String())
}
